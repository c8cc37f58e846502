"""The search: a frontier of boxes, bounded in batches on all cores, halved where they stay open."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.engines.boxes.problem import Integers, Problem
from ginnacer_verify.engines.record import Record as Recorded
from ginnacer_verify.native import OPEN, Batch, Record, call

BATCH = 256
"""Boxes that are bounded together. They are taken from the end of the frontier, so that it stays small."""
CHUNK, SHARES, WORK = 16, 8, 4_000_000
"""Boxes that a thread takes at a time: between two chunks the deadline is looked at. Fewer in small batches, of which
there are so many shares, and in large networks: the time for a box grows with the square of its ReLUs, which all boxes
of a chunk have at most so many of together."""
WORST = 4
"""Inputs per batch that are shown to the judge."""
HOPELESS, MOST_TIMES, MOST_HALVES = 6.0, 5, 4 * BATCH
"""A box whose bound misses by so many times what would do is halved twice, by the square of that three times, and so
on: halving once more divides the miss by about that, and bounding the boxes in between would prove nothing. A batch
gives at most about so many halves, or twice as many as it has boxes."""


@dataclass(frozen=True, eq=False)
class Halvable:
    """Some boxes, one per row, each with whose it is."""

    owner: Integers
    low: Array
    high: Array

    @property
    def size(self) -> int:
        return len(self.owner)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def part(self, which: slice | NDArray[np.intp]) -> Self:
        return type(self)(*(values[which] for values in self.arrays))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        return cls(*(np.concatenate(values) for values in zip(*(part.arrays for part in parts), strict=True)))

    @np.errstate(over="ignore")
    def halved(self, chosen: NDArray[np.intp], splits: Integers) -> Self:
        """Two boxes for each chosen one."""
        twice = self.part(np.repeat(chosen, 2))
        low, high = self.low[chosen], self.high[chosen]
        rows, at = np.arange(len(chosen)), splits[chosen]
        width = np.where(np.nextafter(low, np.inf) < high, high - low, -1.0)  # no number in between: cannot be halved
        at = np.where(width[rows, at] > 0, at, width.argmax(axis=1))
        middle = low[rows, at] + (0.5 * high[rows, at] - 0.5 * low[rows, at])  # the difference may be beyond float64
        twice.high[2 * rows, at] = twice.low[2 * rows + 1, at] = middle
        return twice


@dataclass(frozen=True, eq=False)
class Boxes(Halvable):
    """Boxes of disjuncts, with bounds of their neurons."""

    lower: Array
    upper: Array


B = TypeVar("B", bound=Halvable)


class Frontier(Generic[B]):
    """The open boxes: a stack of batches, so that neither adding nor taking touches those below."""

    def __init__(self, boxes: B) -> None:
        self._stack = [boxes]

    def __len__(self) -> int:
        return sum(boxes.size for boxes in self._stack)

    @property
    def owners(self) -> int:
        """How many disjuncts have open boxes."""
        return len(set().union(*(boxes.owner.tolist() for boxes in self._stack)))

    def __iter__(self) -> Iterator[B]:
        """The batches, those that are taken last first."""
        return iter(self._stack)

    def take(self, count: int) -> B:
        """Remove the last `count` boxes, or as many as there are, and return them."""
        taken: list[B] = []
        while self._stack and count:
            top = self._stack.pop()
            rest = max(0, top.size - count)
            taken.insert(0, top.part(slice(rest, None)))
            count -= taken[0].size
            if rest:
                self._stack.append(top.part(slice(rest)))
        return type(taken[0]).joined(taken)

    def add(self, boxes: B) -> None:
        self._stack.append(boxes)


class Memory:
    """The kernel's working memory, one array per thread: for any problem, and made anew only for a larger one."""

    def __init__(self, threads: int = 1) -> None:
        self._arrays = [np.empty(0)] * threads

    def of(self, net: Record) -> list[Array]:
        room = call("boxes_room", *(net.values[name] for name in ("inputs", "relus", "widest", "rows")))
        if len(self._arrays[0]) < room:
            self._arrays = [np.empty(room) for _ in self._arrays]
        return self._arrays


@dataclass(frozen=True, eq=False)
class Worst:
    """The inputs of a batch that come nearest to being unsafe: their disjuncts, and their largest rows."""

    owner: Integers
    points: Array
    slacks: Array


class Search:
    """The boxes of one problem that are still open. Call `step` until `done`, or as long as there is time."""

    def __init__(self, problem: Problem, memory: Memory, record: Recorded | None = None) -> None:
        owner = np.arange(len(problem.disjuncts), dtype=np.int64)
        self.problem, self.memory, self.record = problem, memory, record
        self.frontier = Frontier(Boxes(owner, problem.low, problem.high, -problem.largest, problem.largest))
        self.boxes = self.unstable = 0
        self.stuck = False

    @property
    def done(self) -> bool:
        """Whether every box is proved: no input of the problem is unsafe."""
        return not len(self.frontier)

    def step(self, pool: ThreadPoolExecutor, deadline: Deadline = FOREVER) -> Worst:
        """Bound one batch. Boxes that the deadline leaves no time for stay open.

        Halves of boxes with a lower largest row are put last, where the next batch is taken from."""
        batch = self.frontier.take(BATCH)
        before = batch.part(np.arange(batch.size)) if self.record else batch
        found = self._bound(batch, pool, deadline)
        batch = before  # for a certificate boxes are halved only, and each is bounded by itself
        still = np.flatnonzero(found["states"] == OPEN)
        slacks, points = found["slacks"], found["points"]
        self.boxes += batch.size
        self.unstable = max(self.unstable, int(found["unstable"].max()))
        self.stuck = _stuck(batch.part(still))
        order = still[np.argsort(-slacks[still], kind="stable")]
        if self.stuck:
            self.frontier.add(batch.part(order))  # for whoever goes on
        elif len(order):
            self._halve(batch.part(order), found["gains"][order], _times(found["bounds"][order], slacks[order]))
        worst = order[: -WORST - 1 : -1]
        return Worst(batch.owner[worst], points[worst], slacks[worst])

    @np.errstate(over="ignore", invalid="ignore")
    def _halve(self, boxes: Boxes, gains: Array, times: Integers) -> None:
        """Halve each box so many times, each time where gain times width is largest, and keep the parts in order."""
        while len(more := np.flatnonzero(times)):
            splits = np.nan_to_num(gains * (boxes.high - boxes.low)).argmax(axis=1)
            halves = boxes.halved(more, splits)
            if self.record:
                self._tell(self.record, boxes.part(more), halves)
            parts = np.repeat(np.arange(boxes.size), np.where(times > 0, 2, 1))
            changed = np.flatnonzero(times[parts])
            boxes, gains, times = boxes.part(parts), gains[parts], np.maximum(times[parts] - 1, 0)
            boxes.low[changed], boxes.high[changed] = halves.low, halves.high
        self.frontier.add(boxes)

    def _tell(self, record: Recorded, batch: Boxes, halves: Boxes) -> None:
        """Record at which input each box was halved."""
        at = (batch.high != halves.high[::2]).argmax(axis=1)
        for owner, low, high, index in zip(batch.owner, batch.low, batch.high, at, strict=True):
            ends = self.problem.whole(low, owner), self.problem.whole(high, owner)
            owners = self.problem.members or (self.problem.disjuncts[owner],)
            record.halve(owners, *ends, self.problem.varying[index])

    def _bound(self, batch: Boxes, pool: ThreadPoolExecutor, deadline: Deadline) -> dict[str, Any]:
        count, net, spaces = batch.size, self.problem.net, self.memory.of(self.problem.net)
        record = record_of(batch)
        size = max(1, min(CHUNK, -(-count // SHARES), WORK // max(1, batch.lower.shape[1] ** 2)))
        firsts = list(range(0, count, size))
        threads = range(min(len(spaces), len(firsts)))

        def work(thread: int) -> None:
            while not deadline.passed:
                try:
                    first = firsts.pop()
                except IndexError:
                    break
                call("bound_boxes", net, record, first, min(first + size, count), spaces[thread])

        list(pool.map(work, threads) if len(threads) > 1 else map(work, threads))
        return record.values


def record_of(batch: Boxes) -> Record:
    """A batch for the kernel, which changes the boxes and their bounds in place, and room for what it finds."""
    count, (states, unstable) = batch.size, np.zeros((2, batch.size), dtype=np.int64)
    return Batch(
        owner=batch.owner,
        low=batch.low,
        high=batch.high,
        lower=batch.lower,
        upper=batch.upper,
        points=np.zeros_like(batch.low),
        bounds=np.zeros(count),
        slacks=np.full(count, np.inf),
        states=states,
        gains=np.zeros_like(batch.low),
        unstable=unstable,
    )


@np.errstate(all="ignore")
def _times(bounds: Array, slacks: Array) -> Integers:
    """How often boxes are halved, by their bounds and by what was found of them: once where it looks unsafe."""
    miss = np.where(slacks > 0, np.fmax(-bounds / slacks, 1.0), 1.0)
    most = np.clip(int(np.log2(MOST_HALVES / len(bounds))), 1, MOST_TIMES)
    return np.asarray(1 + np.minimum(np.log(miss) / np.log(HOPELESS), most - 1), dtype=np.int64)


def _stuck(batch: Boxes) -> bool:
    """Whether a box that stays open has no number between its ends left."""
    return bool((np.nextafter(batch.low, np.inf) >= batch.high).all(axis=1).any())
