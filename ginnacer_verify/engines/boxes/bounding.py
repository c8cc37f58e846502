"""Bounds of a batch of boxes of a graph: which disjuncts stay open, what is left of each box, and where to halve it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.ascent import Multipliers, ascend
from ginnacer_verify.bounds.clipping import clipped
from ginnacer_verify.bounds.forward import forward
from ginnacer_verify.bounds.intervals import Known, intervals
from ginnacer_verify.bounds.substitution import Planes, lines_of, planes
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.rows import Rows
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Apply, Graph
from ginnacer_verify.graph.linear import Indices
from ginnacer_verify.graph.product import Product
from ginnacer_verify.rounding import TINY, gamma

STEPS_ROW, STEPS_ROWS = 2, 8
"""How often lines are improved for a disjunct with one row; and with several, whose mixture is improved as well."""
LOSS = 10.0
"""An input's share in what lines give away counts so many times as much as its share in a plane's movement."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """What bounds say about a box: the disjuncts that stay open, the box that is left, over the varying inputs, what
    halving each of them promises, and where the bound of the worst disjunct is attained."""

    open: tuple[int, ...]
    bound: float
    lower: Array
    upper: Array
    promise: Array
    corner: Array
    worst: int
    unstable: int


@np.errstate(all="ignore")
def bounded(
    graph: Graph,
    lower: Array,
    upper: Array,
    varying: Indices,
    rows: Sequence[Rows],
    open_: Sequence[tuple[int, ...]],
    deadline: Deadline,
) -> list[Bounded]:
    """Bound a batch of boxes, (batch, inputs), each with the rows of its disjuncts and those that are open on it.

    `varying` has each box's inputs that are not fixed, and -1 behind them where another box has more."""
    if (varying < 0).all():
        known, reach = intervals(graph, lower, upper), _nowhere(graph, varying)
    else:
        known, reach = forward(graph, lower, upper, varying, deadline)
    matrix, offset = _stacked(graph, rows, known)
    least = _least(matrix, known) - offset
    if all(least[i, own.members[j]].max(initial=-np.inf) > 0 for i, own in enumerate(rows) for j in open_[i]):
        return [_over(lower[i], upper[i], varying[i]) for i in range(len(rows))]
    found = planes(graph, len(graph.nodes) - 1, matrix, known, keep=True)
    bound = np.where(np.isfinite(offset), found.least(lower, upper) - offset, -np.inf)
    best = [[float(bound[i, members].max(initial=-np.inf)) for members in own.members] for i, own in enumerate(rows)]
    pairs = [(i, j) for i, which in enumerate(open_) for j in which if not best[i][j] > 0]
    most = np.where(np.isfinite(offset), found.most(lower, upper) - offset, -np.inf)
    hopeful = [(i, j) for i, j in pairs if most[i, rows[i].members[j]].max(initial=-np.inf) > 0]
    left = {(i, j): (lower[i], upper[i]) for i, j in set(pairs) - set(hopeful)}
    left |= _left(graph, hopeful, rows, matrix, offset, bound, known, found, deadline)
    still = [{j: left[i, j] for j in which if (i, j) in left} for i, which in enumerate(open_)]
    worst = [min(own, key=lambda j: best[i][j], default=0) for i, own in enumerate(still)]
    nearest = np.array([_nearest(bound[i], own.members[j]) for i, (own, j) in enumerate(zip(rows, worst, strict=True))])
    slope = _picked(found.slope[np.arange(len(rows)), nearest], varying)
    loss, unstable = _loss(graph, nearest, known, found, reach)
    first, last = _picked(lower, varying), _picked(upper, varying)
    promise = _share(np.abs(slope) * (last - first)) + LOSS * _share(loss)
    corner = np.where(slope > 0, first, last)
    answers = []
    for i in range(len(rows)):
        own, at = still[i], varying[i][varying[i] >= 0]
        low = np.min([ends[0][at] for ends in own.values()] or [lower[i, at]], axis=0)
        high = np.max([ends[1][at] for ends in own.values()] or [upper[i, at]], axis=0)
        gain = promise[i, : len(at)] * (high - low) / np.maximum(upper[i, at] - lower[i, at], 1e-300)
        answers.append(
            Bounded(tuple(own), best[i][worst[i]], low, high, gain, corner[i, : len(at)], worst[i], int(unstable[i]))
        )
    return answers


def _nowhere(graph: Graph, varying: Indices) -> dict[int, Array]:
    """How far inputs move the values that enter functions, where there are none that vary."""
    entering = {source for number in graph.applied for source in graph.nodes[number].sources}
    return {number: np.zeros((*varying.shape, graph.nodes[number].size)) for number in entering}


def _least(matrix: Array, known: Known) -> Array:
    """The least value of each row by the intervals of the outputs alone."""
    lower, upper = known.lower[-1][:, None], known.upper[-1][:, None]
    terms = np.where(matrix > 0, matrix * lower, np.where(matrix < 0, matrix * upper, 0.0))
    return np.asarray(terms.sum(axis=-1) - gamma(matrix.shape[-1] + 4) * np.abs(terms).sum(axis=-1) - TINY)


def _over(lower: Array, upper: Array, varying: Indices) -> Bounded:
    """A box on which nothing is open."""
    at = varying[varying >= 0]
    none = np.zeros(len(at))
    return Bounded((), np.inf, lower[at], upper[at], none, lower[at], 0, 0)


def _picked(values: Array, varying: Indices) -> Array:
    """Each box's values at its varying inputs, 0 where it has fewer."""
    return np.where(varying >= 0, np.take_along_axis(values, np.maximum(varying, 0), axis=1), 0.0)


def _stacked(graph: Graph, rows: Sequence[Rows], known: Known) -> tuple[Array, Array]:
    """The rows of each box and their offsets, raised by what is not exact; minus infinity where none is there."""
    count = max(1, *map(len, rows))
    matrix, offset = np.zeros((len(rows), count, graph.outputs)), np.full((len(rows), count), -np.inf)
    largest = known.largest(len(graph.nodes) - 1)
    for i, own in enumerate(rows):
        matrix[i, : len(own)], offset[i, : len(own)] = own.matrix, own.charged(largest[i])
    return matrix, offset


def _nearest(bound: Array, members: Indices) -> int:
    """The row of a disjunct that is nearest to closing it."""
    return int(members[bound[members].argmax()]) if len(members) else 0


def _left(
    graph: Graph,
    pairs: Sequence[tuple[int, int]],
    rows: Sequence[Rows],
    matrix: Array,
    offset: Array,
    bound: Array,
    known: Known,
    found: Planes,
    deadline: Deadline,
) -> dict[tuple[int, int], tuple[Array, Array]]:
    """What is left of the box of each pair of a box and a disjunct; nothing where the disjunct is closed on it."""
    if not pairs:
        return {}
    at = np.array([i for i, _ in pairs])
    members = [rows[i].members[j] for i, j in pairs]
    count = max(1, *map(len, members))
    chosen = np.array([[*own, *([-1] * (count - len(own)))] for own in members]).reshape(len(pairs), count)
    there = chosen >= 0
    own_rows, own_offset = matrix[at[:, None], chosen], np.where(there, offset[at[:, None], chosen], -np.inf)
    part = known.part(at)
    start = _start(graph, part, there, np.where(there, bound[at[:, None], chosen], -np.inf))
    steps = STEPS_ROW if count == 1 else STEPS_ROWS
    better = ascend(graph, own_rows, own_offset, part, {}, start, steps, deadline)
    weights = better.multipliers.rows
    level = (weights * np.where(there, own_offset, 0.0)).sum(axis=1)[:, None]
    both = Planes(
        np.concatenate([found.slope[at[:, None], chosen], better.planes.slope], axis=1),
        np.concatenate([found.constant[at[:, None], chosen], better.planes.constant], axis=1),
        np.concatenate([found.error[at[:, None], chosen], better.planes.error + better.slack[:, None]], axis=1),
    )
    offsets = np.concatenate([np.where(np.isfinite(own_offset), own_offset, np.inf), level], axis=1)
    lower, upper, none = clipped(both, offsets, part.box_lower, part.box_upper)
    closed = none | (better.bound > 0)
    return {pair: (lower[k], upper[k]) for k, pair in enumerate(pairs) if not closed[k]}


def _start(graph: Graph, known: Known, there: NDArray[np.bool_], bound: Array) -> Multipliers:
    """Lines that are best on their own, and mostly the row that is nearest to closing its disjunct."""
    share = there / np.maximum(1, there.sum(axis=1, keepdims=True))
    only = np.arange(there.shape[1]) == bound.argmax(axis=1)[:, None]
    chosen = Multipliers(rows=np.where(there.any(axis=1, keepdims=True), 0.5 * share + 0.5 * only, 0.0))
    for number in graph.applied:
        node = graph.nodes[number]
        assert isinstance(node, Apply)
        lower, upper = known.ends(node.sources)
        if isinstance(node.function, Relu):
            chosen.low[number] = (upper[0] > -lower[0]).astype(np.float64)
        elif isinstance(node.function, Product):
            chosen.low[number] = np.full(lower[0].shape, 0.5)
            chosen.high[number] = np.full(lower[0].shape, 0.5)
    return chosen


def _loss(graph: Graph, row: Indices, known: Known, found: Planes, reach: Mapping[int, Array]) -> tuple[Array, Indices]:
    """What lines give away in one row of each box, by the inputs that make their arguments vary, and the number of
    ReLUs that are unstable."""
    boxes = np.arange(len(row))
    loss, loose = 0.0, np.zeros(len(row), dtype=np.intp)
    for number in graph.applied:
        node = graph.nodes[number]
        assert isinstance(node, Apply)
        lower, upper = known.ends(node.sources)
        if isinstance(node.function, Relu):
            loose += (~np.isnan(node.function.cut(lower, upper)[1])).sum(axis=1)
        if number not in found.met:
            continue
        lines = lines_of(graph, number, known)
        gap = (lines.upper_intercept - lines.lower_intercept)[:, 0]
        for k, (low, high) in enumerate(zip(lower, upper, strict=True)):
            gap = gap + (lines.upper_slope[k] - lines.lower_slope[k])[:, 0] * (low + (high / 2 - low / 2))
        met = np.broadcast_to(found.met[number], (len(row), *found.met[number].shape[1:]))[boxes, row]
        given = np.where(np.isfinite(gap), np.abs(met * gap), 0.0)
        apart = sum((reach[source] for source in node.sources), np.zeros(()))
        whole = apart.sum(axis=1)
        loss = loss + np.matmul(apart, np.where(whole > 0, given / whole, 0.0)[..., None])[..., 0]
    return np.broadcast_to(loss, (len(row), *np.shape(loss)[1:])), loose


def _share(values: Array) -> Array:
    """Each value's share in the sum of its row; nothing where there is none."""
    total = values.sum(axis=-1, keepdims=True)
    return np.where(total > 0, values / total, 0.0)
