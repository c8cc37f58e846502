"""Intervals of every value of a graph on a batch of boxes: the cheapest bounds, rigorous in floating point."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Ball
from ginnacer_verify.graph.function import Lines
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input
from ginnacer_verify.rounding import TINY, UNIT, gamma


@dataclass(eq=False)
class Known:
    """What is known about the nodes of a graph on a batch of boxes, node by node as far as it has been looked at.

    `lower[k] <= value <= upper[k]`, (batch, size); of an affine node `sizes[k]` bounds the sum of the absolute values
    of all terms that make up a value: the scale of its rounding errors."""

    box_lower: Array
    box_upper: Array
    lower: list[Array] = field(default_factory=list)
    upper: list[Array] = field(default_factory=list)
    sizes: list[Array] = field(default_factory=list)
    lines: dict[int, Lines] = field(default_factory=dict)
    """Lines of functions that were asked for before, by node, with an axis for rows."""
    ball: Ball | None = None
    """Where there is one, inputs lie in it as well."""

    @property
    def batch(self) -> int:
        return len(self.box_lower)

    def largest(self, number: int) -> Array:
        """The largest absolute value of each entry of a node."""
        return np.maximum(np.abs(self.lower[number]), np.abs(self.upper[number]))

    def tighten(self, number: int, lower: Array, upper: Array) -> None:
        """Intersect; what is not a number changes nothing. An empty interval stays as it is found: lower > upper."""
        self.lines.clear()
        self.lower[number] = np.fmax(self.lower[number], lower)
        self.upper[number] = np.fmin(self.upper[number], upper)

    def ends(self, sources: Sequence[int]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """The intervals of some nodes, in order: a reader may rely on lower <= upper.

        Where cuts left nothing of an interval its two ends are both given as the lower one: whatever is concluded on an
        empty region holds."""
        lower = tuple(self.lower[source] for source in sources)
        return lower, tuple(np.maximum(low, self.upper[s]) for low, s in zip(lower, sources, strict=True))

    def part(self, which: NDArray[np.intp]) -> "Known":
        """What is known on some boxes of the batch, each as often as it is named."""
        lower, upper, sizes = ([values[which] for values in own] for own in (self.lower, self.upper, self.sizes))
        lines = {number: own.part(which) for number, own in self.lines.items()}
        return Known(self.box_lower[which], self.box_upper[which], lower, upper, sizes, lines, self.ball)

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which boxes of the batch hold no input that satisfies all cuts, by their intervals alone."""
        none = np.asarray((self.box_lower > self.box_upper).any(axis=1))
        if self.ball is not None:
            none = none | self.ball.misses(self.box_lower, self.box_upper)
        for low, high in zip(self.lower, self.upper, strict=True):
            none = np.asarray(none | (low > high).any(axis=1))
        return none


@np.errstate(all="ignore")
def step(graph: Graph, number: int, known: Known) -> None:
    """Append the interval of the next node, from those of its sources."""
    node = graph.nodes[number]
    match node:
        case Input():
            at = slice(node.start, node.start + node.size)
            lower, upper = known.box_lower[:, at], known.box_upper[:, at]
            size = np.maximum(np.abs(lower), np.abs(upper))
        case Affine():
            lower, upper, size = _affine(node, *known.ends(node.sources))
        case Apply():
            lower, upper = node.function.range(*known.ends(node.sources))
            size = np.maximum(np.abs(lower), np.abs(upper))
        case _:
            raise TypeError(f"{node!r} is no node of a graph")
    append(known, lower, upper, size)
    if not graph.arithmetic.is_real:
        widen(known, executed_off(graph, known))


def executed_off(graph: Graph, known: Known) -> Array:
    """How far the values of the latest node, as it is executed, can be from those of real arithmetic."""
    number = len(known.lower) - 1
    largest = [known.largest(source) for source in graph.nodes[number].sources]
    return graph.off(number, known.sizes[number], largest)


def widen(known: Known, off: Array) -> None:
    """Make the intervals of the latest node wider on both sides."""
    known.lower[-1], known.upper[-1] = known.lower[-1] - off, known.upper[-1] + off


def append(known: Known, lower: Array, upper: Array, size: Array) -> None:
    """What is known of the next node; what is not a number is not known."""
    known.lower.append(np.where(np.isnan(lower), -np.inf, lower))
    known.upper.append(np.where(np.isnan(upper), np.inf, upper))
    known.sizes.append(np.where(np.isnan(size), np.inf, size))


def _affine(node: Affine, lower: Sequence[Array], upper: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Around the middles of the sources: `W middle + b -+ |W| radius`, widened by its own rounding, if there is any."""
    if node.moves:
        low, high = node.linear(lower), node.linear(upper)
        return low, high, np.maximum(np.abs(low), np.abs(high))
    batch = len(lower[0])
    middle = [low + (high / 2 - low / 2) for low, high in zip(lower, upper, strict=True)]
    radius = [
        np.maximum(high - mid, mid - low) * (1 + 4 * UNIT) for low, mid, high in zip(lower, middle, upper, strict=True)
    ]
    both = node.absolute.linear([np.vstack([r, np.abs(m) + r]) for m, r in zip(middle, radius, strict=True)])
    size = both[batch:] + np.abs(node.bias)
    error = gamma(node.terms + 6) * size + TINY
    y = node.linear(middle) + node.bias
    spread = both[:batch] + 2 * error
    return y - spread, y + spread, size * (1 + gamma(node.terms + 6)) + TINY


def intervals(graph: Graph, lower: Array, upper: Array) -> Known:
    """Plain interval propagation through the whole graph, for a batch of boxes."""
    known = Known(np.asarray(lower, np.float64), np.asarray(upper, np.float64))
    for number in range(len(graph.nodes)):
        step(graph, number, known)
    return known
