"""Boxes on any graph: few inputs vary, so boxes are halved until bounds close them, whatever lies between.

All disjuncts of a property that share a box are looked at together: its neurons are bounded once, front to back. The
rows of the property are then carried back through their lines; for a disjunct that stays open, lines and a mixture of
its rows are improved a little. What planes leave of the box is halved along the input that most of the loss is due to.
An input that matters as a whole number only is halved between two of them, down to one: there it may be pinned to that
number, which stands for all real inputs that have it.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.forward import SYMBOLS
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import REACHED
from ginnacer_verify.engines.boxes.bounding import Bounded, bounded
from ginnacer_verify.engines.boxes.rows import Rows
from ginnacer_verify.engines.boxes.run import TOO_NEAR
from ginnacer_verify.engines.parts import Part, parts
from ginnacer_verify.engines.progress import Progress
from ginnacer_verify.engines.regions import constrained
from ginnacer_verify.engines.run import Run
from ginnacer_verify.errors import OutOfTime
from ginnacer_verify.graph.table import stepped
from ginnacer_verify.replay.attack import attack
from ginnacer_verify.replay.judge import Counterexample, settle

SECONDS = 0.4
"""Batches grow while they keep a processor busy for less time than this, and shrink when they take twice as long."""
MOST_BOXES, MOST_VALUES = 256, 8_000_000
"""Boxes that a thread takes at most, and values that it holds for them."""
WORST = 4
"""Boxes of a batch whose corners and middles are looked at."""


@dataclass(frozen=True, eq=False)
class OpenBox:
    """A box inside of a part's, over its varying inputs, and which of the part's disjuncts are open on it.

    The ends of an input that matters as a whole number only are the numbers that its values have."""

    part: int
    lower: Array
    upper: Array
    open: tuple[int, ...]


class GraphRun(Run):
    """One property on one graph: the boxes that are open, the most urgent last."""

    def begin(self) -> None:
        self.graph, self.unsafe = constrained(self.judge.graph, self.judge.prop)
        self.parts = parts(self.judge.prop)
        self.varying = [np.array(part.box.varying, dtype=np.intp) for part in self.parts]
        self.steps = stepped(self.graph)
        self.whole = [np.array([int(i) in self.steps for i in varying], dtype=np.bool_) for varying in self.varying]
        self.rows: dict[int, Rows] = {}
        self.stack = [self._first(number) for number in reversed(range(len(self.parts)))]
        self.boxes = self.unstable = 0
        self.size = 1  # boxes that a thread takes at a time, and how many it has memory for
        widest = max((len(varying) for varying in self.varying), default=0)
        values = ((1 + SYMBOLS) * widest + 4) * self.graph.widest + sum(node.size for node in self.graph.nodes)
        self.room = max(1, MOST_VALUES // values)
        self.stuck: list[OpenBox] = []

    def run(self) -> Counterexample | str | None:
        """A counterexample, or why there is no verdict, or None: all is proved."""
        with ThreadPoolExecutor(self.threads) as pool:
            while self.stack:
                if self.deadline.passed:
                    return REACHED
                if found := self._step(pool):
                    return found
                self.tell()
        return TOO_NEAR if self.stuck else None

    @property
    def remaining(self) -> Iterator[Part]:
        """The boxes that are open, each with its disjuncts."""
        for one in (*self.stack, *self.stuck):
            yield Part(self._box(one), tuple(self.parts[one.part].disjuncts[j] for j in one.open))

    def progress(self) -> Progress:
        disjuncts = len({(one.part, j) for one in (*self.stack, *self.stuck) for j in one.open})
        return Progress("boxes", self.boxes, len(self.stack), self.unstable, disjuncts, self.deadline.left)

    def _first(self, number: int) -> OpenBox:
        """A part's whole box."""
        part, varying = self.parts[number], self.varying[number]
        lower, upper = part.box.lower[varying], part.box.upper[varying]
        for j in np.flatnonzero(self.whole[number]):
            cut = self.steps[int(varying[j])]
            lower[j], upper[j] = cut(lower[j]), cut(upper[j])
        return OpenBox(number, lower, upper, tuple(range(len(part.disjuncts))))

    def _step(self, pool: ThreadPoolExecutor) -> Counterexample | None:
        """Bound the last boxes, on all threads; what stays open is halved."""
        batches = [self._take() for _ in range(self.threads) if self.stack]
        try:
            results = list(pool.map(self._bounded, batches) if len(batches) > 1 else map(self._bounded, batches))
        except OutOfTime:
            self.stack += [one for batch in batches for one in batch]
            return None
        still = [
            (box, bound)
            for batch, bounds in zip(batches, results, strict=True)
            for box, bound in zip(batch, bounds, strict=True)
        ]
        self.boxes += len(still)
        self.unstable = max([self.unstable, *(bound.unstable for _, bound in still)])
        still = sorted((pair for pair in still if pair[1].open), key=lambda pair: -pair[1].bound)
        for box, bound in still:
            self.stack += self._halves(box, bound)
        return self._confirm(still[-WORST:])

    def _adapt(self, boxes: int, seconds: float) -> None:
        if seconds < SECONDS:
            self.size = max(self.size, min(2 * boxes, MOST_BOXES))
        elif seconds > 2 * SECONDS:
            self.size = max(1, boxes // 2)

    def _take(self) -> list[OpenBox]:
        """The last boxes: as many as take little time and memory, and leave some for the other threads."""
        count = min(self.size, self.room, -(-len(self.stack) // self.threads))
        batch, self.stack = self.stack[-count:], self.stack[:-count]
        return batch

    def _bounded(self, batch: Sequence[OpenBox]) -> list[Bounded]:
        start = time.thread_time()
        boxes = [self._box(one) for one in batch]
        lower, upper = np.array([box.lower for box in boxes]), np.array([box.upper for box in boxes])
        rows = [self._rows(one.part) for one in batch]
        wide = [np.flatnonzero(one.lower < one.upper) for one in batch]
        open_, varying = [one.open for one in batch], np.full((len(batch), max(1, *map(len, wide))), -1)
        for i, (one, at) in enumerate(zip(batch, wide, strict=True)):
            varying[i, : len(at)] = self.varying[one.part][at]
        found = bounded(self.graph, lower, upper, varying, rows, open_, self.deadline)
        self._adapt(len(batch), time.thread_time() - start)
        return found

    def _rows(self, part: int) -> Rows:
        if part not in self.rows:
            if len(self.rows) >= MOST_BOXES:
                self.rows = {}
            self.rows[part] = Rows.of([self.unsafe[number] for number in self.parts[part].disjuncts])
        return self.rows[part]

    def _box(self, one: OpenBox) -> Box:
        whole, varying = self.parts[one.part].box, self.varying[one.part]
        lower, upper = whole.lower.copy(), whole.upper.copy()
        lower[varying], upper[varying] = one.lower, one.upper
        return Box(lower, upper)

    def _halves(self, box: OpenBox, bound: Bounded) -> list[OpenBox]:
        """What is left of a box, in two; as it is among the stuck ones if no number lies between its ends."""
        low, high, promise = box.lower.copy(), box.upper.copy(), np.zeros(len(box.lower))
        at, whole = np.flatnonzero(low < high), self.whole[box.part]
        low[at], high[at], promise[at] = bound.lower, bound.upper, bound.promise
        low[whole], high[whole] = np.ceil(low[whole]), np.floor(high[whole])
        if (low > high).any():
            return []
        wide = np.where(whole, low, np.nextafter(low, np.inf)) < high
        if not wide.any():
            self.stuck.append(box)
            return []
        first = wide & whole if (wide & whole).any() else wide  # nothing is tight between whole numbers
        j = int(np.where(first, promise, -1.0).argmax())
        left, right = high.copy(), low.copy()
        left[j] = right[j] = low[j] + (high[j] / 2 - low[j] / 2)
        if whole[j]:
            left[j], right[j] = np.floor(left[j]), np.floor(left[j]) + 1
        return [OpenBox(box.part, low, left, bound.open), OpenBox(box.part, right, high, bound.open)]

    def _confirm(self, worst: Sequence[tuple[OpenBox, Bounded]]) -> Counterexample | None:
        """Run the graph where bounds are attained and in the middles, replay what is unsafe, attack from the worst."""
        if not worst:
            return None
        boxes = [self._box(box) for box, _ in worst]
        points = np.array([box.middle for box in boxes] * 2)
        for i, (box, bound) in enumerate(worst):
            points[i, self.varying[box.part][box.lower < box.upper]] = bound.corner
        outputs = self.graph.evaluate(points)
        for point, y, (box, bound) in zip(points, outputs, [*worst, *worst], strict=True):
            for number in (self.parts[box.part].disjuncts[j] for j in bound.open):
                disjunct, unsafe = self.judge.prop.disjuncts[number], self.unsafe[number]
                if bool((unsafe.matrix @ y <= unsafe.offset).all()):
                    judgement = self.judge(settle(point, disjunct.witnesses, self.judge.dtype))
                    if isinstance(judgement, Counterexample):
                        return judgement
        if not self.falsify or self.random.random() > 0.25:
            return None
        box, bound = worst[-1]
        disjunct = self.judge.prop.disjuncts[self.parts[box.part].disjuncts[bound.worst]]
        return attack(self.judge, disjunct, disjunct.box, points[[len(worst) - 1, -1]], self.deadline)
