"""A tree of decisions for each of many rows: the least value of a row is bounded by the least bound of its leaves.

All trees grow together, so that thousands of small bounds become a few large products. In each round the worst leaves
of every row that is still wanted are split at the ReLU whose line gives away most."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.phases.ascent import (
    ACTIVE,
    INACTIVE,
    STABLE,
    UNDECIDED,
    Climbed,
    Phases,
    Relaxation,
    Single,
)
from ginnacer_verify.engines.record import MARGIN, Grown

FEW = 64
"""Rows that one thread settles alone."""
Indices = NDArray[np.intp]


@dataclass(eq=False)
class Leaves:
    """Open leaves of all trees: the row that each belongs to, its bound, how to split it next (-1: not at all), its
    number among all nodes, and the neurons that may be tried before it is split."""

    row: Indices
    bound: Array
    phase: Phases
    multipliers: Single
    neuron: NDArray[np.int64]
    number: NDArray[np.int64]
    promising: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)

    def chosen(self, which: NDArray[np.bool_] | Indices) -> "Leaves":
        return Leaves(*(getattr(self, field.name)[which] for field in fields(self)))

    def without(self, which: Indices) -> "Leaves":
        kept = np.ones(len(self), dtype=np.bool_)
        kept[which] = False
        return self.chosen(kept)

    def with_(self, other: "Leaves") -> "Leaves":
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return Leaves(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, eq=False)
class Wanted:
    """The rows `weight @ x + bias`, and the goal that each belongs to: reached when one of its rows is above 0."""

    weight: Array
    bias: Array
    goal: Indices
    goals: int


class Trees:
    """One tree per wanted row: a row is above 0 when all of its leaves are.

    `lower` is a rigorous bound of each row at any time; `decided` are the phases that hold for all of them. `latest`
    are the leaves of the last round, and `corner` says where each of their bounds is attained: at which inputs' upper
    ends. `record`, if given, remembers what certificates need, and multipliers are rounded as in these."""

    def __init__(
        self,
        reduced: Relaxation,
        wanted: Wanted,
        decided: Phases,
        pool: ThreadPoolExecutor,
        deadline: Deadline,
        *,
        steps: int,
        tried: int = 1,
        record: Grown | None = None,
    ) -> None:
        self.grown = record
        self.by_goal: dict[int, int] = {}
        self._tried = tried
        self.reduced, self.wanted, self._pool, self._deadline = reduced, wanted, pool, deadline
        with np.errstate(over="ignore"):  # what is infinite in float32 has no bound there, and proves nothing
            self._weight, self._bias = wanted.weight.astype(np.float32), wanted.bias.astype(np.float32)
        self.reached = np.zeros(wanted.goals, dtype=np.bool_)
        count = len(wanted.bias)
        self.closed = np.full(count, np.inf)
        self.abandoned = np.zeros(count, dtype=np.bool_)
        self.lower = np.full(count, -np.inf)
        self.nodes = 0
        phase = np.tile(decided, (count, 1))
        start = np.where(phase == UNDECIDED, reduced.steep, np.float32(0.0)).astype(np.float32)
        self.latest, self.corner = self._bounded(np.arange(count), phase, start, steps)
        self.leaves = self.roots = self.latest
        self.lower = self._rigorous(self.leaves)
        self._close()

    @property
    def done(self) -> bool:
        """Whether there is nothing left to split."""
        return not self._splittable.any()

    @property
    def _splittable(self) -> NDArray[np.bool_]:
        return (self.leaves.neuron >= 0) & (self.leaves.bound <= 0)

    def grow(self, width: int, steps: int, most: int) -> None:
        """Split the `width` worst leaves of each row, `most` in all, at the ReLU that promises most."""
        worst = self._worst(width)[:most]
        parents = self.leaves.chosen(worst)
        rows = np.arange(len(parents))
        if min(self._tried, parents.promising.shape[1]) > 1:
            parents.neuron = self._best(parents)
        phase, start = _halves(parents.phase, parents.multipliers, parents.neuron)
        if self.grown:
            children = self.nodes + 2 * rows
            splits = zip(parents.neuron.tolist(), children.tolist(), strict=True)
            self.grown.splits.update(zip(parents.number.tolist(), splits, strict=True))
        self.latest, self.corner = self._bounded(np.repeat(parents.row, 2), phase, start, steps)
        self.latest.bound = np.maximum(self.latest.bound, np.repeat(parents.bound, 2))
        self.leaves = self.leaves.without(worst).with_(self.latest)
        self._close()

    def _best(self, parents: Leaves) -> NDArray[np.int64]:
        """Of the neurons that promise most the one whose decision raises the bounds of both halves most, with the
        multipliers as they are."""
        promising = parents.promising[:, : self._tried]
        at, which = np.nonzero(promising >= 0)

        def work(part: slice) -> Single:
            own = at[part]
            phase, start = _halves(parents.phase[own], parents.multipliers[own], promising[own, which[part]])
            rows = np.repeat(parents.row[own], 2)
            return self.reduced.bounds(self._weight[rows], self._bias[rows], phase, start)

        found = list(self._pool.map(work, chunks(len(at), max(1, self.reduced.at_once // 2))))
        raised = np.minimum(np.concatenate(found), 0).reshape(-1, 2) - parents.bound[at, None]
        score = np.full(promising.shape, -1.0)
        score[at, which] = np.nan_to_num(np.maximum(raised, 0), nan=0.0, posinf=0.0).sum(axis=1)
        return np.asarray(promising[np.arange(len(parents)), score.argmax(axis=1)])

    def settle(self) -> Array:
        """The rigorous bound of each row, from all of its leaves."""
        found = np.where(self.abandoned, -np.inf, self.closed)
        np.minimum.at(found, self.leaves.row, self._rigorous(self.leaves))
        if self.grown:
            self._keep(self.leaves)
            self._uproot(np.flatnonzero(~(np.where(np.isfinite(found), found, -np.inf) >= self.lower)))
        self.lower = np.fmax(self.lower, np.where(np.isfinite(found), found, self.lower))
        return self.lower

    def _worst(self, width: int) -> Indices:
        """The worst leaves of each row that can be split, the worst rank of all rows first."""
        open_leaves = np.flatnonzero(self._splittable)
        short = np.uint16 if len(self.lower) < 2**16 else np.int64  # sorted by digits, in a sixth of the time
        order = open_leaves[np.argsort(self.leaves.bound[open_leaves])]
        order = order[np.argsort(self.leaves.row[order].astype(short), kind="stable")]
        rows = self.leaves.row[order]
        starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]]) if len(rows) else np.zeros(0, dtype=np.intp)
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
        return np.asarray(order[np.argsort(rank, kind="stable")][: int((rank < width).sum())])

    def _close(self) -> None:
        """Take away what is proved: leaves above 0, rigorously, and all leaves of goals that are reached.

        Leaves are settled once all of their row seem to be above 0: few large products instead of many small ones.
        A row that loses open leaves in that way is abandoned: what is left of its tree bounds nothing."""
        waiting = np.zeros(len(self.lower), dtype=np.bool_)
        waiting[self.leaves.row[self.leaves.bound <= 0]] = True
        hopeful = np.flatnonzero(~waiting[self.leaves.row])
        bound = self._rigorous(self.leaves.chosen(hopeful))
        proved = bound > (2 * MARGIN if self.grown else 0.0)
        if self.grown:
            self._keep(self.leaves.chosen(hopeful[proved]))
        np.minimum.at(self.closed, self.leaves.row[hopeful[proved]], bound[proved])
        self.leaves.bound[hopeful[~proved]] = 0.0
        if proved.any():
            self.leaves = self.leaves.without(hopeful[proved])
        finished = ~self.abandoned
        finished[self.leaves.row] = False
        self.lower[finished] = np.fmax(self.lower[finished], self.closed[finished])
        self.reached[self.wanted.goal[finished]] = True
        if self.grown:
            for row in np.flatnonzero(finished).tolist():
                self.by_goal.setdefault(int(self.wanted.goal[row]), row)
        needless = self.reached[self.wanted.goal[self.leaves.row]]
        self.abandoned[self.leaves.row[needless]] = True
        if needless.any():
            self.leaves = self.leaves.chosen(~needless)

    def _keep(self, leaves: Leaves) -> None:
        """Remember the multipliers of leaves."""
        assert self.grown
        slopes = np.where(leaves.phase == UNDECIDED, np.rint(128 * leaves.multipliers), 128 * (leaves.phase == STABLE))
        for number, phase, slope, multipliers in zip(
            leaves.number.tolist(), leaves.phase, slopes.astype(np.uint8), leaves.multipliers, strict=True
        ):
            decided = np.flatnonzero(np.abs(phase) == ACTIVE)
            self.grown.leaves[number] = slope.tobytes(), decided, multipliers[decided]

    def _uproot(self, rows: Indices) -> None:
        """Forget what was found below the roots of trees: nothing better was."""
        assert self.grown
        self._keep(self.roots.chosen(rows))
        for row in rows.tolist():
            self.grown.splits.pop(row, None)

    def _rigorous(self, leaves: Leaves) -> Array:
        """The bound of each leaf in float64, with its rounding; none once time has run out."""

        def work(part: slice) -> Array:
            row, wanted = leaves.row[part], self.wanted
            if self._deadline.passed:
                return np.full(len(row), -np.inf)
            return self.reduced.rigorous(
                wanted.weight[row], wanted.bias[row], leaves.phase[part], leaves.multipliers[part]
            )

        few = len(leaves) <= FEW  # then threads would only wait for each other
        return np.concatenate(
            [np.zeros(0), *(map if few else self._pool.map)(work, chunks(len(leaves), self.reduced.at_once))]
        )

    def _bounded(self, row: Indices, phase: Phases, start: Single, steps: int) -> tuple[Leaves, NDArray[np.bool_]]:
        numbers = np.arange(self.nodes, self.nodes + len(row))
        self.nodes += len(row)

        def work(part: slice) -> Climbed:
            rows, left = row[part], 0 if self._deadline.passed else steps
            return self.reduced.ascend(self._weight[rows], self._bias[rows], phase[part], start[part], left)

        found = list(self._pool.map(work, chunks(len(row), self.reduced.at_once)))
        bound = np.concatenate([np.zeros(0), *(part.bound for part in found)]).astype(np.float64)
        neuron = np.concatenate([np.zeros(0, np.int64), *(np.where(p.gain > 0, p.neuron, -1) for p in found)])
        promising = np.concatenate([part.promising for part in found] or [np.zeros((0, 1), np.int64)])
        multipliers = np.concatenate([start[:0], *(part.multipliers for part in found)])
        if self.grown:
            multipliers = _rounded(multipliers, phase)
        corner = np.concatenate([np.zeros((0, self.reduced.inputs), np.bool_), *(part.corner for part in found)])
        bound = np.where(np.isnan(bound), -np.inf, bound)
        return Leaves(row, bound, phase, multipliers, neuron, numbers, promising), corner


def _halves(phase: Phases, multipliers: Single, neuron: NDArray[np.int64]) -> tuple[Phases, Single]:
    """Two of each row, one after the other, with its neuron decided to be active and to be inactive."""
    rows, phase, multipliers = np.arange(len(phase)), np.repeat(phase, 2, axis=0), np.repeat(multipliers, 2, axis=0)
    for child, value in enumerate((ACTIVE, INACTIVE)):
        phase[child::2][rows, neuron] = value
        multipliers[child::2][rows, neuron] = 0.0
    return phase, multipliers


def _rounded(multipliers: Single, phase: Phases) -> Single:
    """Few bits suffice: slopes in steps of 1/128, the others to eight bits."""
    bits = (np.maximum(multipliers, np.float32(0)).view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
    slopes = np.rint(128 * np.clip(multipliers, 0, 1)) / 128
    return np.where(phase == UNDECIDED, slopes, bits.view(np.float32)).astype(np.float32)


def chunks(count: int, size: int) -> list[slice]:
    """Parts of equal size, and an even number of them: two threads shall not wait for each other."""
    parts = 2 * -(-count // (2 * size))
    ends = [count * number // parts for number in range(parts + 1)] if parts else []
    return [slice(first, last) for first, last in pairwise(ends) if first < last]
