"""bounds(model, box): an interval for every output, in one call."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.ascent import Multipliers, ascend
from ginnacer_verify.bounds.intervals import Known, intervals
from ginnacer_verify.bounds.substitution import below, tightened
from ginnacer_verify.box import Box
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.graph import Apply, Graph
from ginnacer_verify.loading.model import Model, as_network, shapes_for, values_of
from ginnacer_verify.rounding import down, up

STEPS = 20
"""How often the lines of the alpha-optimised bounds are improved."""
Method = Literal["interval", "crown", "alpha"]


class Interval(NamedTuple):
    """No output is below `lower` or above `upper` anywhere on the box; both have the shape of the output."""

    lower: Array
    upper: Array


def bounds(model: Model, box: Box | tuple[ArrayLike, ArrayLike], method: Method = "alpha") -> Interval:
    """Bounds of a network's outputs for all inputs of a box. Rounding is accounted for.

    Args:
        model: A file, an ONNX model, its bytes, a torch module or a network that was read.
        box: Where the inputs lie, as a `Box` or as (lower, upper).
        method: "interval" is the cheapest; "crown" carries linear bounds back to the inputs; "alpha" also optimises
            their slopes for each output.
    """
    ends = (box.lower, box.upper) if isinstance(box, Box) else tuple(map(values_of, box))
    graph = graph_of(as_network(model, shapes_for(ends[0].shape)))
    lower, upper = (one.reshape(1, -1) for one in ends)
    if lower.shape != (1, graph.inputs) or lower.shape != upper.shape or not (lower <= upper).all():
        raise InputError(f"a box needs {graph.inputs} lower and upper ends, each lower not above its upper")
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise InputError("an end of the box is not a finite number")
    match method:
        case "interval":
            known = intervals(graph, lower, upper)
            found = known.lower[-1][0], known.upper[-1][0]
        case "crown" | "alpha":
            found = _linear(graph, tightened(graph, lower, upper), optimise=method == "alpha")
        case _:
            raise InputError(f"method={method!r} is unknown; choose interval, crown or alpha")
    return Interval(*(end.reshape(graph.output_shape) for end in found))


def _linear(graph: Graph, known: Known, *, optimise: bool) -> tuple[Array, Array]:
    """The better of what back-substitution finds for each output and its interval."""
    size, last = graph.outputs, len(graph.nodes) - 1
    rows = np.vstack([np.eye(size), -np.eye(size)])
    least = below(graph, last, rows, known)[0]
    if optimise:
        least = np.maximum(least, _optimised(graph, known, rows))
    return np.maximum(known.lower[last][0], least[:size]), np.minimum(known.upper[last][0], -least[size:])


def _optimised(graph: Graph, known: Known, rows: Array) -> Array:
    """Lower bounds of the rows, each with lines of its own: measured from the value at the middle of the box."""
    count = len(rows)
    middle = known.box_lower + (known.box_upper / 2 - known.box_lower / 2)
    level = rows @ graph.evaluate(middle)[0]
    many = Known(np.repeat(known.box_lower, count, axis=0), np.repeat(known.box_upper, count, axis=0))
    many.lower, many.upper, many.sizes = (
        [np.repeat(one, count, axis=0) for one in ends] for ends in (known.lower, known.upper, known.sizes)
    )
    start = Multipliers(rows=np.ones((count, 1)))
    for number in graph.applied:
        node = graph.nodes[number]
        assert isinstance(node, Apply)
        lower, upper = many.ends(node.sources)
        low, high = node.function.choices
        if low:
            single = node.function.arity == 1
            start.low[number] = (upper[0] > -lower[0]).astype(float) if single else np.full((count, node.size), 0.5)
        if high:
            start.high[number] = np.full((count, node.size), 0.5)
    offset = up(level, 64)[:, None]  # not below what is reached, so that the ascent does not stop at a proof
    found = ascend(graph, rows[:, None], offset, many, {}, start, STEPS)
    return down(found.bound + offset[:, 0], 4) - 8 * np.finfo(np.float64).eps * np.abs(offset[:, 0])
