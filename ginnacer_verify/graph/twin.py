"""Twin: a ReLU of one network that may lean on the same ReLU of another one, and graphs that have them."""

from dataclasses import replace

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.function import Arrays, Function, Lines, Relu
from ginnacer_verify.graph.graph import Affine, Apply, Builder, Graph, Input
from ginnacer_verify.graph.linear import Scale, Select
from ginnacer_verify.rounding import TINY, UNIT


class Twin(Function):
    """`relu(g)` as a function of `g`, of `relu(f)` and of `d = g - f`.

    `relu(g) - relu(f)` lies between `min(d, 0)` and `max(d, 0)`. So there is a line in `relu(f)` and `d` beside that in
    `g` alone, on both sides, and any mixture of the two is one as well."""

    arity = 3
    choices = (True, True)
    piecewise_linear = True
    wanted = (0, 2)

    def apply(self, *y: Array) -> Array:
        return np.maximum(y[0], 0)

    def derivative(self, *y: Array) -> Arrays:
        return (y[0] > 0).astype(y[0].dtype), np.zeros_like(y[1]), np.zeros_like(y[2])

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return np.maximum(lower[0], 0.0), np.maximum(upper[0], 0.0)

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return Relu().cut(lower[:1], upper[:1])

    def preferred(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """The choice of either line for which it gives less away: 1 leans on the twin."""
        apart = np.maximum(upper[2], -lower[2])
        below = np.minimum(upper[0], -lower[0])
        above = upper[0] * -lower[0] / np.maximum(upper[0] - lower[0], TINY)
        return (apart < below).astype(np.float64), (apart < above).astype(np.float64)

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """`low` and `high` are the shares of the lines that lean on the twin."""
        own = Relu().lines(lower[:1], upper[:1])
        preferred = self.preferred(lower, upper)
        unstable = (lower[0] < 0) & (upper[0] > 0)
        below, above = (
            np.where(unstable, best if share is None else share, 0.0)
            for share, best in zip((low, high), preferred, strict=True)
        )
        p, under = _chord(lower[2], upper[2])
        q, over = (_chord(-upper[2], -lower[2])[0], -_chord(-upper[2], -lower[2])[1])
        size = sum((np.maximum(np.abs(a), np.abs(b)) for a, b in zip(lower, upper, strict=True)), np.zeros(()))
        error = np.where((below > 0) | (above > 0), 16 * UNIT * (size + np.abs(under) + np.abs(over)) + TINY, 0.0)
        return Lines(
            ((1 - below) * own.lower_slope[0], below, below * p),
            below * under - error,
            ((1 - above) * own.upper_slope[0], above, above * q),
            (1 - above) * own.upper_intercept + above * over + error,
        )


def _chord(low: Array, high: Array) -> tuple[Array, Array]:
    """Slope and intercept of the line that is nowhere above `min(d, 0)` for d from low to high, and meets it there."""
    crossing = (low < 0) & (high > 0)
    left, right = np.where(crossing, low, -1.0), np.where(crossing, high, 1.0)
    slope = np.clip(-left / (right - left), 0.0, 1.0)
    intercept = np.minimum((1 - slope) * left, -slope * right) * (1 + 8 * UNIT) - TINY
    return np.where(crossing, slope, (high <= 0).astype(np.float64)), np.where(crossing, intercept, 0.0)


def twinned(graph: Graph) -> Graph:
    """A joint graph whose second network leans on the first, ReLU by ReLU as far as the two are of one form; any other
    graph as it is."""
    partner = _partners(graph)
    if not partner:
        return graph
    builder, place = Builder(), dict[int, int]()
    for number, node in enumerate(graph.nodes):
        sources = [place[source] for source in node.sources]
        match node:
            case Input():
                place[number] = builder.input(node.size)
            case Affine():
                place[number] = builder.affine(*zip(sources, node.maps, strict=True), bias=node.bias)
            case Apply() if number in partner:
                other = partner[number]
                (before,) = graph.nodes[other].sources
                same, minus = Select.identity(node.size), Scale(np.full(node.size, -1.0))
                apart = builder.affine((sources[0], same), (place[before], minus), bias=0.0)
                place[number] = builder.apply(Twin(), sources[0], place[other], apart)
            case Apply():
                place[number] = builder.apply(node.function, *sources)
    found = builder.graph(place[len(graph.nodes) - 1], graph.x, graph.y, graph.model)
    return replace(found, originals=graph.originals)


def _partners(graph: Graph) -> dict[int, int]:
    """The ReLU nodes of the second network, each with that of the first at the same place."""
    if len(graph.originals) != 2 or not graph.arithmetic.is_real:  # an executed difference is not that of its values
        return {}
    first, second = (len(original.network.applied) for original in graph.originals)
    applied = graph.applied
    if len(applied) < first + second:
        return {}
    pairs = zip(applied[first : first + second], applied[:first], strict=False)
    return {
        g: f for g, f in pairs if all(_is_relu(graph, n) for n in (f, g)) and graph.nodes[f].size == graph.nodes[g].size
    }


def _is_relu(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    return isinstance(node, Apply) and isinstance(node.function, Relu)
