"""Gradients of graphs by running them backwards: for attacks and scores, never for proofs."""

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
    held = _carried(graph, values, slope(values[-1]), leak)
    gradient = np.zeros_like(x)
    for node, a in zip(graph.nodes, held, strict=True):
        if isinstance(node, Input) and a is not None:
            gradient[:, node.start : node.start + node.size] += a
    return values[-1], np.where(np.isfinite(gradient), gradient, 0.0)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def gradients(graph: Graph, x: Array, leak: float = 0.0) -> tuple[list[Array], list[Array]]:
    """The value of every node at one input, and how each output moves with it: (outputs, size)."""
    values = [np.asarray(value) for value in graph.through(x[None])]
    held = _carried(graph, values, np.eye(graph.outputs), leak)
    zero = (np.zeros((graph.outputs, node.size)) for node in graph.nodes)
    return [value[0] for value in values], [
        nothing if a is None else np.where(np.isfinite(a), a, 0.0) for a, nothing in zip(held, zero, strict=True)
    ]


def _carried(graph: Graph, values: list[Array], last: Array, leak: Array | float) -> list[Array | None]:
    """Coefficients of the output carried back to every node; None where nothing comes."""
    held: list[Array | None] = [None] * len(values)
    held[-1] = last
    for number in range(len(values) - 1, -1, -1):
        a, node = held[number], graph.nodes[number]
        if a is None:
            continue
        parts: list[Array] = []
        match node:
            case Affine():
                parts = [one.pull_back(a) for one in node.maps]
            case Apply():
                slopes = node.function.derivative(*(values[source] for source in node.sources))
                parts = [a * np.where(one == 0.0, leak, one) for one in slopes]
        for source, part in zip(node.sources, parts, strict=True):
            known = held[source]
            held[source] = part if known is None else known + part
    return held
