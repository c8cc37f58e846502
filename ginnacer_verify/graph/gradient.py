"""Gradients of graphs by running them backwards: for attacks, never for proofs."""

from collections.abc import Callable

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def value_and_gradient(
    graph: Graph, x: Array, slope: Callable[[Array], Array], leak: Array | float = 0.0
) -> tuple[Array, Array]:
    """The outputs of a batch of inputs, and `slope(outputs)` carried back to the inputs, a row each.

    `leak`, a column with an entry per input, is what functions let through where they are flat: on a plateau the
    gradient itself is 0, or sees only the edge of the plateau."""
    values = list(graph.through(x))
    held: dict[int, Array] = {len(values) - 1: slope(values[-1])}
    gradient = np.zeros_like(x)
    for number in range(len(values) - 1, -1, -1):
        if number not in held:
            continue
        a, node = held.pop(number), graph.nodes[number]
        match node:
            case Input():
                gradient[:, node.start : node.start + node.size] += a
                continue
            case Affine():
                parts = [one.pull_back(a) for one in node.maps]
            case Apply():
                slopes = node.function.derivative(*(values[source] for source in node.sources))
                parts = [a * np.where(one == 0.0, leak, one) for one in slopes]
            case _:
                raise TypeError(f"{node!r} is no node of a graph")
        for source, part in zip(node.sources, parts, strict=True):
            held[source] = held[source] + part if source in held else part
    return values[-1], np.where(np.isfinite(gradient), gradient, 0.0)
