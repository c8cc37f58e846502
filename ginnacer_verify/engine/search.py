"""The search: a frontier of boxes, bounded in batches on all cores, halved where they stay open."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.engine.machine_code import Entry
from ginnacer_verify.engine.net import OPEN, Net, Scratch, scratch
from ginnacer_verify.engine.problem import Problem
from ginnacer_verify.network import Array

BATCH = 256
"""Boxes that are bounded together. They are taken from the end of the frontier, so that it stays small."""
CHUNK, SHARES, WORK = 16, 8, 4_000_000
"""Boxes that a thread takes at a time: between two chunks the deadline is looked at. Fewer in small batches, of which
there are so many shares, and in large networks: the time for a box grows with the square of its ReLUs, which all boxes
of a chunk have at most so many of together."""
WORST = 4
"""Inputs per batch that are shown to the judge."""
STEPS = 4
"""How often the slopes of a row's bound are improved."""

BOXES = Entry(
    "ginnacer_verify.engine.entry",
    "boxes",
    "long* long* long* long double* double* double* long double* "
    "double* double* double* double* double* double* double* double* long* long long "
    "long long double* double* double* double* double* long* long* double* double*",
    tuple(f"ginnacer_verify.engine.{name}" for name in ("entry", "kernel", "memory", "net")),
)
"""The compiled function that bounds boxes; its arguments are those of `entry.boxes`."""


def bound_boxes(net: Net, space: Scratch, arrays: Sequence[NDArray[Any]]) -> int:
    """`kernel.bound_boxes` by its machine code."""
    sizes, weights, biases, weight, across, bias, error = net
    network = (sizes, weights, biases, len(error), weight, across, bias, len(weight), error)
    return BOXES(*network, *space, len(space.layer), len(space.unstable), STEPS, len(arrays[0]), *arrays)


class Boxes(NamedTuple):
    """Some boxes, one per row, with the bounds of their neurons."""

    low: Array
    high: Array
    lower: Array
    upper: Array

    @property
    def size(self) -> int:
        return len(self.low)

    def part(self, which: slice) -> "Boxes":
        return Boxes(*(values[which] for values in self))

    @np.errstate(over="ignore")
    def halved(self, chosen: NDArray[np.intp], splits: NDArray[np.int64]) -> "Boxes":
        """Two boxes for each chosen one."""
        low, high, lower, upper = (values[chosen] for values in self)
        rows, at = np.arange(len(chosen)), splits[chosen]
        width = np.where(np.nextafter(low, np.inf) < high, high - low, -1.0)  # no number in between: cannot be halved
        at = np.where(width[rows, at] > 0, at, width.argmax(axis=1))
        middle = low[rows, at] + (0.5 * high[rows, at] - 0.5 * low[rows, at])  # the difference may be beyond float64
        left, right = high.copy(), low.copy()
        left[rows, at] = right[rows, at] = middle
        pairs = (low, right), (left, high), (lower, lower), (upper, upper)
        return Boxes(*(np.stack(pair, axis=1).reshape(2 * len(chosen), pair[0].shape[1]) for pair in pairs))


class Frontier:
    """The open boxes: a stack of batches, so that neither adding nor taking touches those below."""

    def __init__(self, boxes: Boxes) -> None:
        self._stack = [boxes]

    def __len__(self) -> int:
        return sum(boxes.size for boxes in self._stack)

    def take(self, count: int) -> Boxes:
        """Remove the last `count` boxes, or as many as there are, and return them."""
        taken: list[Boxes] = []
        while self._stack and count:
            top = self._stack.pop()
            rest = max(0, top.size - count)
            taken.insert(0, top.part(slice(rest, None)))
            count -= taken[0].size
            if rest:
                self._stack.append(top.part(slice(rest)))
        return Boxes(*(np.concatenate(values) for values in zip(*taken, strict=True)))

    def add(self, boxes: Boxes) -> None:
        self._stack.append(boxes)


class Search:
    """The boxes of one problem that are still open. Call `step` until `done`, or as long as there is time."""

    def __init__(self, problem: Problem, threads: int = 1) -> None:
        largest = problem.largest[None]
        self.problem = problem
        self.frontier = Frontier(Boxes(problem.low[None], problem.high[None], -largest, largest))
        self.boxes = self.unstable = 0
        self.stuck = False
        self._spaces = [scratch(problem.net) for _ in range(threads)]

    @property
    def done(self) -> bool:
        """Whether every box is proved: no input of the problem is unsafe."""
        return not len(self.frontier) and not self.stuck

    def step(self, pool: ThreadPoolExecutor, deadline: Deadline = FOREVER) -> tuple[Array, Array]:
        """Bound one batch; returns its inputs that come nearest to being unsafe, and their largest rows.

        Boxes that the deadline leaves no time for stay open.
        Halves of boxes with a lower such row are put last, where the next batch is taken from."""
        batch = self.frontier.take(BATCH)
        found = self._bound(batch, pool, deadline)
        self.boxes += batch.size
        self.unstable = max(self.unstable, found.unstable // batch.size)
        self.stuck = _stuck(batch, found.open)
        order = found.open[np.argsort(-found.slacks[found.open], kind="stable")]
        if len(order) and not self.stuck:
            self.frontier.add(batch.halved(order, found.splits))
        worst = order[: -WORST - 1 : -1]
        return found.points[worst], found.slacks[worst]

    def _bound(self, batch: Boxes, pool: ThreadPoolExecutor, deadline: Deadline) -> "_Found":
        count = batch.size
        states, splits = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        bounds, slacks = np.zeros(count), np.full(count, np.inf)
        points = np.zeros_like(batch.low)
        arrays = (*batch, points, states, splits, bounds, slacks)
        size = max(1, min(CHUNK, -(-count // SHARES), WORK // max(1, batch.lower.shape[1] ** 2)))
        chunks = [slice(start, start + size) for start in range(0, count, size)]
        threads = range(min(len(self._spaces), len(chunks)))

        def work(thread: int) -> int:
            unstable = 0
            while not deadline.passed:
                try:
                    chunk = chunks.pop()
                except IndexError:
                    break
                unstable += bound_boxes(self.problem.net, self._spaces[thread], [a[chunk] for a in arrays])
            return unstable

        unstable = sum(pool.map(work, threads) if len(threads) > 1 else map(work, threads))
        return _Found(np.flatnonzero(states == OPEN), splits, points, slacks, int(unstable))


@dataclass(frozen=True, eq=False)
class _Found:
    """What bounding a batch gave: the boxes that stay open and, for each box, its split and its worst input."""

    open: NDArray[np.intp]
    splits: NDArray[np.int64]
    points: Array
    slacks: Array
    unstable: int


def _stuck(batch: Boxes, chosen: NDArray[np.intp]) -> bool:
    """Whether a box that stays open has no number between its ends left."""
    low, high = batch.low[chosen], batch.high[chosen]
    return bool((np.nextafter(low, np.inf) >= high).all(axis=1).any())
