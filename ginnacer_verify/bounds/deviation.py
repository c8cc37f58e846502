"""How far the values of a network as it is executed can be from those of real arithmetic, anywhere on a box.

Each node adds what its own execution rounds to what its arguments differ by: an affine node passes differences on times
the absolute values of its weights, a function times how steep it gets, and at most as far as its values are apart.
"""

from collections.abc import Sequence

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import deviation as chain_deviation
from ginnacer_verify.bounds.chain import linear_bounds
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.bounds.substitution import tightened
from ginnacer_verify.box import Box
from ginnacer_verify.errors import UnsupportedOperator
from ginnacer_verify.graph.chain import chain_of
from ginnacer_verify.graph.function import Function
from ginnacer_verify.graph.graph import Affine, Apply, Graph
from ginnacer_verify.rounding import TINY

CALM = {
    **dict.fromkeys(("Relu", "Absolute", "Clip", "Maximum", "Minimum", "Tanh", "Sin", "Cos", "Softplus"), 1.0),
    **{"Sigmoid": 0.25, "Erf": 1.13, "Gelu": 1.13, "GeluTanh": 1.13, "Silu": 1.1, "Mish": 1.1, "HardSwish": 1.5},
}
"""How steep functions get anywhere."""
MOST_NEURONS = 20_000
"""Larger chains are bounded as graphs."""


def deviation(graph: Graph, box: Box) -> Array:
    """A bound for each output of a graph in the arithmetic that it is executed in; infinite where there is none."""
    if graph.neurons <= MOST_NEURONS:
        try:
            chain = chain_of(graph)
        except UnsupportedOperator:
            pass
        else:
            return chain_deviation(chain.layers, box, linear_bounds(chain.layers, box))
    return _passed_on(graph, tightened(graph, box.lower[None], box.upper[None]))


@np.errstate(all="ignore")
def _passed_on(graph: Graph, known: Known) -> Array:
    apart: list[Array] = []  # a batch of one, node by node
    for number, node in enumerate(graph.nodes):
        before = [apart[source] for source in node.sources]
        size, largest = known.sizes[number], [known.largest(source) for source in node.sources]
        match node:
            case Affine():
                off = graph.off(number, size) + node.absolute.linear(before)
            case Apply():
                ends = known.ends(node.sources)
                width = known.upper[number] - known.lower[number]
                own = graph.off(number, known.largest(number), largest)
                off = own + np.fmin(_passed(node.function, *ends, before), width)
            case _:
                off = np.zeros_like(size)
        apart.append(np.where(np.isnan(off), np.inf, off * (1 + 1e-9) + TINY))
    return np.asarray(apart[-1][0])


def _passed(function: Function, lower: Sequence[Array], upper: Sequence[Array], apart: Sequence[Array]) -> Array:
    """What a function makes of differences of its arguments, which lie between the ends in both arithmetics."""
    name, low, high = type(function).__name__, lower[0], upper[0]
    largest = [np.maximum(np.abs(a), np.abs(b)) for a, b in zip(lower, upper, strict=True)]
    match name:
        case "LeakyRelu" | "Elu":
            steepest: Array = np.maximum(1.0, np.abs(np.asarray(getattr(function, "alpha", 1.0))))
            return np.asarray(steepest * apart[0])
        case "Product":
            return largest[0] * apart[1] + largest[1] * apart[0]
        case "Square":
            return 2 * largest[0] * apart[0]
        case "Exp":
            return np.asarray(np.exp(high) * (1 + 1e-9) * apart[0])
        case "Log" | "SoftmaxLog":
            return np.where(low > 0, apart[0] / low, np.inf)
        case "Sqrt":
            return np.where(low > 0, apart[0] / (2 * np.sqrt(low)) * (1 + 1e-9), np.inf)
        case "Reciprocal" | "SoftmaxReciprocal":
            nearest = np.where((low > 0) | (high < 0), np.minimum(np.abs(low), np.abs(high)), 0.0)
            return np.where(nearest > 0, apart[0] / nearest**2, np.inf)
        case _ if name in CALM:
            return np.asarray(CALM[name] * np.max(np.stack(apart), axis=0))
    return np.full_like(low, np.inf)
