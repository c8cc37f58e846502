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
from ginnacer_verify.engines.phases.ascent import Climbed, ascend
from ginnacer_verify.engines.phases.reduced import ACTIVE, INACTIVE, STABLE, UNDECIDED, Phases, Reduced, Single
from ginnacer_verify.engines.record import MARGIN, Grown

CHUNK = 256
"""Rows that a thread bounds at a time, at most: between two chunks the deadline is looked at."""
FEW = 64
"""Rows that one thread settles alone."""
Indices = NDArray[np.intp]


@dataclass(eq=False)
class Leaves:
    """Open leaves of all trees: the row that each belongs to, its bound, how to split it next (-1: not at all), and its
    number among all nodes."""

    row: Indices
    bound: Array
    phase: Phases
    multipliers: Single
    neuron: NDArray[np.int64]
    number: NDArray[np.int64]

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
    ends. With `record`, `grown` remembers what certificates need, and multipliers are rounded as in these."""

    def __init__(
        self,
        reduced: Reduced,
        wanted: Wanted,
        decided: Phases,
        pool: ThreadPoolExecutor,
        deadline: Deadline,
        *,
        steps: int,
        record: bool = False,
    ) -> None:
        self.grown = Grown(reduced.kept) if record else None
        self.by_goal: dict[int, int] = {}
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
        phase = np.repeat(parents.phase, 2, axis=0)
        start = np.repeat(parents.multipliers, 2, axis=0)
        for child, value in enumerate((ACTIVE, INACTIVE)):
            phase[child::2][rows, parents.neuron] = value
            start[child::2][rows, parents.neuron] = 0.0
        if self.grown:
            children = self.nodes + 2 * rows
            splits = zip(parents.neuron.tolist(), children.tolist(), strict=True)
            self.grown.splits.update(zip(parents.number.tolist(), splits, strict=True))
        self.latest, self.corner = self._bounded(np.repeat(parents.row, 2), phase, start, steps)
        self.latest.bound = np.maximum(self.latest.bound, np.repeat(parents.bound, 2))
        self.leaves = self.leaves.without(worst).with_(self.latest)
        self._close()

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
        return np.concatenate([np.zeros(0), *(map if few else self._pool.map)(work, _chunks(len(leaves)))])

    def _bounded(self, row: Indices, phase: Phases, start: Single, steps: int) -> tuple[Leaves, NDArray[np.bool_]]:
        numbers = np.arange(self.nodes, self.nodes + len(row))
        self.nodes += len(row)

        def work(part: slice) -> Climbed:
            rows, left = row[part], 0 if self._deadline.passed else steps
            return ascend(self.reduced, self._weight[rows], self._bias[rows], phase[part], start[part], left)

        found = list(self._pool.map(work, _chunks(len(row))))
        bound = np.concatenate([np.zeros(0), *(part.bound for part in found)]).astype(np.float64)
        neuron = np.concatenate([np.zeros(0, np.int64), *(np.where(p.gain > 0, p.neuron, -1) for p in found)])
        multipliers = np.concatenate([start[:0], *(part.multipliers for part in found)])
        if self.grown:
            multipliers = _rounded(multipliers, phase)
        corner = np.concatenate([np.zeros((0, self.reduced.box.inputs), np.bool_), *(part.corner for part in found)])
        return Leaves(row, np.where(np.isnan(bound), -np.inf, bound), phase, multipliers, neuron, numbers), corner


def _rounded(multipliers: Single, phase: Phases) -> Single:
    """Few bits suffice: slopes in steps of 1/128, the others to eight bits."""
    bits = (np.maximum(multipliers, np.float32(0)).view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
    slopes = np.rint(128 * np.clip(multipliers, 0, 1)) / 128
    return np.where(phase == UNDECIDED, slopes, bits.view(np.float32)).astype(np.float32)


def _chunks(count: int) -> list[slice]:
    """Parts of equal size, and an even number of them: two threads shall not wait for each other."""
    parts = 2 * -(-count // (2 * CHUNK))
    ends = [count * number // parts for number in range(parts + 1)] if parts else []
    return [slice(first, last) for first, last in pairwise(ends) if first < last]
