"""Boxes on any graph of moderate size, compiled: searches of tasks in turn, the worst inputs attacked and replayed."""

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ginnacer_verify.box import Box
from ginnacer_verify.deadline import REACHED
from ginnacer_verify.engines.boxes.cells import CellSearch, Nearest, tasks
from ginnacer_verify.engines.boxes.graph import GraphRun
from ginnacer_verify.engines.boxes.run import FEW, TOO_NEAR, around_in
from ginnacer_verify.engines.boxes.tape import takes
from ginnacer_verify.engines.parts import Part, parts
from ginnacer_verify.engines.progress import Progress
from ginnacer_verify.engines.regions import constrained
from ginnacer_verify.engines.run import Run
from ginnacer_verify.replay.attack import attack
from ginnacer_verify.replay.judge import Counterexample, Judge, settle

MOST_INPUTS = 60
"""The kernel has room for so many varying inputs."""
ATTACKS = 0.2
"""The share of the time that attacks may take."""


def graph_run(judge: Judge) -> type[Run]:
    """The engine for boxes of a graph: compiled where the graph can be written as a tape."""
    varying = [len(part.box.varying) for part in parts(judge.prop)]
    small = all(0 < count <= MOST_INPUTS for count in varying)
    return TapeRun if small and takes(judge.graph) else GraphRun


class TapeRun(Run):
    """One property on one graph: the searches that are open, at most FEW at a time."""

    def begin(self) -> None:
        self.graph, self.unsafe = constrained(self.judge.graph, self.judge.prop)
        self.parts = parts(self.judge.prop)
        self.searches: deque[CellSearch] = deque()
        self.stuck: list[CellSearch] = []
        self.waiting = {number for part in self.parts for number in part.disjuncts}
        self.boxes = self.unstable = 0
        self.attacking = 0.0
        self._new = self._searches()

    def run(self) -> Counterexample | str | None:
        """A counterexample, or why there is no verdict, or None: all is proved. With another deadline it goes on."""
        with ThreadPoolExecutor(self.threads) as pool:
            while True:
                if self.deadline.passed and (self.searches or self.waiting):
                    return REACHED
                if len(self.searches) < FEW and (new := next(self._new, None)):
                    self.searches.append(new)
                elif not self.searches:
                    return TOO_NEAR if self.stuck else None
                elif found := self._step(self.searches.popleft(), pool):
                    return found

    def _searches(self) -> Iterator[CellSearch]:
        for task in tasks(self.graph, self.unsafe, self.parts):
            self.waiting -= {number for part in task.parts for number in part.disjuncts}
            yield CellSearch(task, self.threads)

    def _step(self, search: CellSearch, pool: ThreadPoolExecutor) -> Counterexample | None:
        before = search.boxes
        nearest = search.step(pool, self.deadline)
        self.boxes += search.boxes - before
        self.unstable = max(self.unstable, search.unstable)
        if not search.done:
            self.searches.append(search)
        elif search.stuck:
            self.stuck.append(search)
        self.tell()
        return self._confirm(search, nearest)

    @property
    def remaining(self) -> Iterator[Part]:
        """The boxes that are open, each with its disjuncts."""
        for search in (*self.searches, *self.stuck):
            for owner, low, high, which in search.left:
                part = search.task.parts[owner]
                box = Box(search.task.whole(low, owner), search.task.whole(high, owner))
                yield Part(box, tuple(part.disjuncts[d] for d in which))
        for part in self.parts:
            if own := tuple(number for number in part.disjuncts if number in self.waiting):
                yield Part(part.box, own)

    def progress(self) -> Progress:
        still = sum(len(search.open_disjuncts) for search in (*self.searches, *self.stuck)) + len(self.waiting)
        count = sum(len(search.frontier) for search in self.searches) + len(self.waiting)
        return Progress("boxes", self.boxes, count, self.unstable, still, self.deadline.left)

    @np.errstate(over="ignore", invalid="ignore")
    def _confirm(self, search: CellSearch, nearest: Nearest) -> Counterexample | None:
        """Run the graph where bounds are attained and in the middles, replay what is unsafe, attack from the worst."""
        task, owner = search.task, [*nearest.owner, *nearest.owner]
        if not owner:
            return None
        both = np.concatenate([nearest.points, nearest.middles])
        points = np.array([task.whole(x, int(o)) for x, o in zip(both, owner, strict=True)])
        values = self.graph.evaluate(points)
        for x, y, o in zip(points, values, owner, strict=True):
            for number in task.parts[o].disjuncts:
                disjunct, unsafe = self.judge.prop.disjuncts[number], self.unsafe[number]
                if bool((unsafe.matrix @ y <= unsafe.offset).all()):
                    judgement = self.judge(settle(x, disjunct.witnesses, self.judge.dtype))
                    if isinstance(judgement, Counterexample):
                        return judgement
        start = time.monotonic()
        if not self.falsify or self.attacking > ATTACKS * self.deadline.spent:
            return None
        disjunct = self.judge.prop.disjuncts[task.parts[owner[0]].disjuncts[int(nearest.worst[0])]]
        near = around_in(points[0], disjunct.box)
        found = attack(self.judge, disjunct, near, near.sample(self.random, 8), self.deadline)
        self.attacking += time.monotonic() - start
        return found
