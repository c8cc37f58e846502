"""The one rigorous back-substitution: affine functions of the inputs below rows of any value of a graph, on boxes.

A row of coefficients of a node is carried from the node to the inputs: through an affine node by pulling it back,
through a function by the line that bounds it from the right side. What is computed in floating point is a row that
differs from the exact one; the difference, times the largest values that it can meet, is collected in `error` and
charged at the end (the analysis is that of `rounding`: each term of a constant passes the sum over its node and at most
two additions per node that follows). CROWN, FastLin, alpha- and beta-CROWN differ in lines and decisions only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known, step
from ginnacer_verify.box import Ball
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.graph.function import Arrays, Lines
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input, Node
from ginnacer_verify.graph.linear import Indices, Scale, Select
from ginnacer_verify.rounding import HUGE, TINY, UNDERFLOW, UNIT, gamma

Mask = NDArray[np.bool_]
MOST_VALUES = 24_000_000
"""So many coefficients are held at once; more rows are taken in chunks."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Which lines a back-substitution uses, and which decisions it may exploit, by the number of a node.

    `low` and `high` choose among the lines of a function (`Function.lines`), with a row axis or without. `force[k]` are
    multipliers of decisions about node k, pairs of arrays: `multiplier * (value - at)` is not negative anywhere in the
    region, so it may be taken away from any row."""

    low: Mapping[int, Array] = field(default_factory=dict)
    high: Mapping[int, Array] = field(default_factory=dict)
    force: Mapping[int, Sequence[tuple[Array, Array]]] = field(default_factory=dict)


PLAIN = Choices()


@dataclass(frozen=True, eq=False)
class Planes:
    """`slope @ x + constant - error` is below each row everywhere on its box: (batch, rows, inputs), (batch, rows).

    `met` holds, where asked for, the coefficients with which each function was met."""

    slope: Array
    constant: Array
    error: Array
    met: Mapping[int, Array] = field(default_factory=dict)

    def centred(self, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
        """The planes at the middles of boxes, how far each input moves them from there to an end of its interval, and
        how far they are from planes below the rows: (batch, rows), (batch, rows, inputs), (batch, rows)."""
        middle = lower + (upper / 2 - lower / 2)
        radius = np.maximum(upper - middle, middle - lower) * (1 + 4 * UNIT)
        size = _rows_times(np.abs(self.slope), np.abs(middle) + radius) + np.abs(self.constant)
        error = 2 * (self.error + gamma(self.slope.shape[-1] + 8) * size) + TINY
        return _rows_times(self.slope, middle) + self.constant, self.slope * radius[:, None], error

    def least(self, lower: Array, upper: Array) -> Array:
        """A lower bound of each row on its box; minus infinity where anything is not a number."""
        centre, moved, error = self.centred(lower, upper)
        bound = centre - np.abs(moved).sum(axis=-1) - error
        return np.where(np.isfinite(bound), bound, -np.inf)

    def most(self, lower: Array, upper: Array) -> Array:
        """The largest value of each plane on its box, about: where it is not positive the plane says nothing."""
        centre, moved, _ = self.centred(lower, upper)
        return np.asarray(centre + np.abs(moved).sum(axis=-1))

    def within(self, known: Known) -> Array:
        """A lower bound of each row on its box, or on what it has in common with the ball if there is one."""
        lower, upper = known.box_lower, known.box_upper
        bound = self.least(lower, upper)
        if known.ball is None:
            return bound
        share = known.ball.share(self.slope, lower[:, None], upper[:, None])
        rest = Planes(self.slope - share, np.zeros_like(self.constant), np.zeros_like(self.error))
        one, other = known.ball.least(share, self.constant, self.error), rest.least(lower, upper)
        largest = np.maximum(np.abs(lower), np.abs(upper))
        lost = gamma(4) * (np.abs(one) + np.abs(other)) + gamma(8) * _rows_times(np.abs(self.slope), largest)
        both = one + other - 2 * lost - TINY
        return np.maximum(bound, np.where(np.isfinite(both), both, -np.inf))


def _rows_times(rows: Array, values: Array) -> Array:
    """`rows @ values` for each box: (batch or 1, rows, size) and (batch, size) to (batch, rows)."""
    return np.asarray(np.matmul(rows, values[..., None])[..., 0])


def lines_of(graph: Graph, number: int, known: Known, choices: Choices = PLAIN) -> Lines:
    """The lines of a function on its boxes, with an axis for rows."""
    node = graph.nodes[number]
    assert isinstance(node, Apply)
    low, high = choices.low.get(number), choices.high.get(number)
    if low is None and high is None and number in known.lines:
        return known.lines[number]
    lower, upper = (tuple(ends[:, None] for ends in side) for side in known.ends(node.sources))
    lines = node.function.lines(lower, upper, low, high)
    if low is None and high is None and not node.function.piecewise_linear:
        known.lines[number] = lines  # those of smooth functions take long
    return lines


@np.errstate(all="ignore")
def planes(
    graph: Graph, start: int, rows: Array, known: Known, choices: Choices = PLAIN, *, keep: bool = False
) -> Planes:
    """Planes below `rows @ value of node start`; rows are (batch or 1, rows, size). `known` covers all nodes before it.

    With `keep` the coefficients that each function met are part of the answer."""
    held: dict[int, Array] = {start: rows}
    batch, count = known.batch, rows.shape[1]
    constant, error = np.zeros((batch, count)), np.full((batch, count), TINY)
    slope, met = np.zeros((batch, count, graph.inputs)), {}
    spare = 12 + 2 * len(graph.nodes)
    for number in range(start, -1, -1):
        force = choices.force.get(number, ())
        if number not in held and not force:
            continue
        a = held.pop(number) if number in held else np.zeros((1, count, graph.nodes[number].size))
        for multiplier, at in force:
            a = a - multiplier
            constant = constant + _rows_times(multiplier, at)
            error = error + gamma(graph.nodes[number].size + spare) * _rows_times(
                np.abs(a) + np.abs(multiplier), known.largest(number) + np.abs(at)
            )
        node = graph.nodes[number]
        match node:
            case Input():
                slope[..., node.start : node.start + node.size] += a
                error = error + UNIT * 2 * _rows_times(np.abs(a), known.largest(number))
                continue
            case Affine():
                constant = constant + _rows_times(a, np.broadcast_to(node.bias, (1, node.size)))
                error = error + gamma(max(node.terms, node.size) + spare) * _rows_times(np.abs(a), known.sizes[number])
                error = error + UNDERFLOW * (node.size + 4) * (1.0 + known.sizes[number].sum(axis=1))[:, None]
                if not graph.arithmetic.is_real:
                    constant = constant - _rows_times(np.abs(a), graph.off(number, known.sizes[number]))
                flat = a.reshape(-1, node.size)
                parts = [one.pull_back(flat).reshape(*a.shape[:2], one.inputs) for one in node.maps]
            case Apply():
                if keep:
                    met[number] = a
                lines = lines_of(graph, number, known, choices)
                over, under = np.maximum(a, 0.0), np.minimum(a, 0.0)
                reach = np.maximum(np.abs(lines.lower_intercept), np.abs(lines.upper_intercept))
                for k, source in enumerate(node.sources):
                    steepest = np.maximum(np.abs(lines.lower_slope[k]), np.abs(lines.upper_slope[k]))
                    reach = reach + steepest * known.largest(source)[:, None]
                size = np.abs(a)
                if not graph.arithmetic.is_real:
                    largest = [known.largest(source) for source in node.sources]
                    constant = constant - _rows_times(size, graph.off(number, known.largest(number), largest))
                constant = constant + (over * lines.lower_intercept + under * lines.upper_intercept).sum(axis=-1)
                error = error + gamma(node.size + spare) * (size * reach).sum(axis=-1)
                error = error + UNDERFLOW * 8 * (1.0 + reach.sum(axis=-1))
                parts = [over * lines.lower_slope[k] + under * lines.upper_slope[k] for k in range(len(node.sources))]
            case _:
                raise TypeError(f"{node!r} is no node of a graph")
        for source, part in zip(node.sources, parts, strict=True):
            if source in held:
                part = held[source] + part
                error = error + UNIT * 2 * _rows_times(np.abs(part), known.largest(source))
            held[source] = part
    broken = ~np.isfinite(error) | ~(np.abs(constant) < HUGE)
    return Planes(slope, np.where(broken, np.nan, constant), error, met)


@np.errstate(all="ignore")
def below(graph: Graph, start: int, rows: Array, known: Known, choices: Choices = PLAIN) -> Array:
    """Lower bounds of `rows @ value of node start`, rows (rows, size), on every box: (batch, rows)."""
    return planes(graph, start, rows[None], known, choices).within(known)


@np.errstate(all="ignore")
def tightened(
    graph: Graph,
    lower: Array,
    upper: Array,
    *,
    within: Known | None = None,
    deadline: Deadline = FOREVER,
    work: float = np.inf,
    ball: Ball | None = None,
) -> Known:
    """Intervals of all nodes with those that functions are loose on tightened by back-substitution, node by node.

    `within` is known before (of larger boxes, or with cuts). Nodes whose rows would take more than `work`
    multiplications keep their intervals, as do all that the deadline leaves no time for."""
    known = Known(np.asarray(lower, np.float64), np.asarray(upper, np.float64), ball=ball)
    cost = np.zeros(len(graph.nodes))
    wanted = entering(graph)
    for number, node in enumerate(graph.nodes):
        step(graph, number, known)
        if within is not None:
            known.tighten(number, within.lower[number], within.upper[number])
        own = sum(cost_of(one) for one in node.maps) if isinstance(node, Affine) else node.size
        cost[number] = own + sum(cost[source] for source in node.sources)
        if number not in wanted or not any(cost[source] for source in node.sources):
            continue
        if origin_of(graph, number) != number:
            continue  # what is moved has been tightened where it came from
        loose = np.flatnonzero(loose_of(graph, number, wanted[number], known).any(axis=0))
        if len(loose) and 2 * len(loose) * known.batch * cost[number] <= work:
            _tighten(graph, number, loose, known, deadline)
    return known


def cost_of(one: object) -> float:
    """Multiplications of one row that is pulled back."""
    return float(getattr(one, "outputs", 0)) * float(getattr(one, "terms", 1))


def entering(graph: Graph) -> dict[int, list[int]]:
    """The affine nodes and inputs whose values enter functions, as they are or moved and scaled by other nodes, and the
    numbers of those functions' nodes."""
    found: dict[int, list[int]] = {}
    for number in graph.applied:
        node = graph.nodes[number]
        assert isinstance(node, Apply)
        wanted = node.function.wanted or range(len(node.sources))
        for source in (node.sources[k] for k in wanted):
            found.setdefault(source, []).append(number)
            if (origin := origin_of(graph, source)) != source:
                found.setdefault(origin, []).append(number)
    return found


def origin_of(graph: Graph, number: int) -> int:
    """The affine node whose values a node only moves and scales; the node itself if it does more."""
    node = graph.nodes[number]
    if _moves(node) and isinstance(graph.nodes[node.sources[0]], Affine):
        return origin_of(graph, node.sources[0])
    return number


def _moves(node: Node) -> bool:
    return isinstance(node, Affine) and len(node.maps) == 1 and isinstance(node.maps[0], Select | Scale)


def _path(graph: Graph, number: int, source: int) -> list[Affine] | None:
    """The nodes that move the values of one node until they are those of another; None if they never are."""
    path: list[Affine] = []
    while source != number:
        node = graph.nodes[source]
        if not (_moves(node) and isinstance(node, Affine)):
            return None
        path.insert(0, node)
        source = node.sources[0]
    return path


def loose_of(graph: Graph, number: int, functions: list[int], known: Known) -> Mask:
    """Where the value of a node enters a function, as it is or moved, whose lines are not exact there. Arguments that
    are not bounded yet count as unknown: then every value that varies is wanted."""
    loose = np.zeros(known.lower[number].shape, dtype=np.bool_)
    for node in (graph.nodes[function] for function in functions):
        assert isinstance(node, Apply)
        for source, path in ((one, _path(graph, number, one)) for one in set(node.sources)):
            if path is None:
                continue
            ends = {other: known.ends((other,)) for other in node.sources if other < len(known.lower)}
            ends[source] = _moved(path, *known.ends((number,)))
            if len(ends) == len(set(node.sources)):
                lower, upper = (tuple(ends[other][side][0] for other in node.sources) for side in (0, 1))
                wanted = ~np.isnan(node.function.cut(lower, upper)[1])
            else:
                wanted = ends[source][0][0] < ends[source][1][0]
            for one in reversed(path):
                wanted = one.maps[0].pull_back(wanted.astype(np.float64)) != 0
            loose |= wanted
    return loose


def _moved(path: list[Affine], lower: Arrays, upper: Arrays) -> tuple[Arrays, Arrays]:
    """About the interval of values behind some nodes that move them."""
    for one in path:
        first, last = (one.linear(end) + one.bias for end in (lower, upper))
        lower, upper = (np.minimum(first, last),), (np.maximum(first, last),)
    return lower, upper


def _tighten(graph: Graph, number: int, rows: Indices, known: Known, deadline: Deadline) -> None:
    size = graph.nodes[number].size
    chunk = max(1, MOST_VALUES // (2 * known.batch * graph.widest))
    lower, upper = np.full((known.batch, size), -np.inf), np.full((known.batch, size), np.inf)
    for first in range(0, len(rows), chunk):
        if deadline.passed:
            break
        chosen = rows[first : first + chunk]
        units = np.zeros((len(chosen), size))
        units[np.arange(len(chosen)), chosen] = 1.0
        found = below(graph, number, np.vstack([units, -units]), known)
        lower[:, chosen], upper[:, chosen] = found[:, : len(chosen)], -found[:, len(chosen) :]
    known.tighten(number, lower, upper)
