"""Models that say one thing in real numbers and another one in onnxruntime, which multiplies weights out, flushes what
is small and overflows on the way; with an output that no real input reaches, and an input that shows it."""

from dataclasses import dataclass

import numpy as np
from cases import box_of, one_disjunct
from models import Graph

from ginnacer_verify.properties.property import Property


@dataclass(frozen=True, eq=False)
class Deployed:
    name: str
    model: bytes
    prop: Property
    """Unsafe: an output of at most a threshold that no real input reaches."""
    x: float
    """An input for which onnxruntime's is unsafe, all of its values the same."""


def _dense(*steps: tuple[float, float, bool]) -> Graph:
    """Factors, constants, and whether a ReLU follows."""
    graph = Graph([1, 1])
    for weight, bias, bends in steps:
        graph.add("MatMul", np.full((1, 1), weight, "f4"))
        if bias:
            graph.add("Add", np.full(1, bias, "f4"))
        if bends:
            graph.add("Relu")
    return graph


def _convolved(weight: float, factor: float, after: float, offset: float = 0.0) -> Graph:
    """A convolution, a factor behind it that is folded into its weights, a ReLU and the sum of four values."""
    graph = Graph([1, 1, 2, 2])
    graph.add("Conv", np.full((1, 1, 1, 1), weight, "f4"))
    graph.add("Mul", np.full((1, 1, 1, 1), factor, "f4"))
    if offset:
        graph.add("Add", np.full((1, 1, 1, 1), offset, "f4"))
    graph.add("Relu")
    graph.add("Flatten")
    graph.add("MatMul", np.full((4, 1), after, "f4"))
    return graph


def _case(name: str, graph: Graph, lower: float, upper: float, threshold: float) -> Deployed:
    size, lower = int(np.prod(graph.shape)), float(np.float32(lower))
    prop = one_disjunct(box_of([lower] * size, [upper] * size), [[1.0]], [threshold])
    return Deployed(name, graph.model(), prop, lower)


DEPLOYED = [
    _case("small between layers", _dense((1e-30, 0, False), (1e30, 0, True), (1e14, 0, False)), 1e-14, 2e-14, 0.99),
    _case(
        "large between layers",
        _dense((-1e30, 0, False), (1e-30, 2e9, True), (1.0, 0, False)),
        1e9, 1.0001e9, 10.0,
    ),
    _case("a folded factor underflows", _convolved(1e-30, 1e-20, 1e20), 1e30, 2e30, 0.5),
    _case("a folded factor is a denormal", _convolved(1e-22, 1.25e-20, 1e32), 1e6, 2e6, 4.99985e-4),
    _case("a folded factor overflows", _convolved(-1e30, 1e30, 1e-30, 1e31), 1e-30, 1.01e-30, 10.0),
]  # fmt: skip
