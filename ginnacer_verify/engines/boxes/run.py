"""The native engine: searches in turn, one per disjunct or for many, with the worst inputs attacked and replayed."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import REACHED
from ginnacer_verify.engines.boxes.problem import Folding
from ginnacer_verify.engines.boxes.search import BATCH, Memory, Search, Worst
from ginnacer_verify.engines.parts import Part
from ginnacer_verify.engines.progress import Progress
from ginnacer_verify.engines.run import Run
from ginnacer_verify.properties.property import Disjunct
from ginnacer_verify.replay.attack import attack
from ginnacer_verify.replay.judge import Counterexample, settle

FEW = 16
"""So many disjuncts are searched in turn, each with batches of its own. More share their batches."""
TOO_NEAR = "the network comes nearer to the unsafe set than boxes can be halved"
NEIGHBOURHOOD = 0.05
"""An attack around an input moves each of its values by at most this share of its width."""


class NativeRun(Run):
    """One property on one network: the searches that are open, at most FEW at a time."""

    def begin(self) -> None:
        self.disjuncts = [disjunct for disjunct in self.judge.prop.disjuncts if not disjunct.box.is_empty]
        self.searches: deque[Search] = deque()
        self.started = self.boxes = self.unstable = 0
        self._new = self._searches()

    def run(self) -> Counterexample | str | None:
        """A counterexample, or why there is no verdict, or None: all is proved. With another deadline it goes on."""
        with ThreadPoolExecutor(self.threads) as pool:
            while True:
                if self.deadline.passed and (self.searches or self.started < len(self.disjuncts)):
                    return REACHED
                if len(self.searches) < FEW and (new := next(self._new, None)):
                    self.searches.append(new)
                elif not self.searches:
                    return None
                elif outcome := self._step(self.searches.popleft(), pool):
                    return outcome

    def _searches(self) -> Iterator[Search]:
        """Made when there is room for one more: their memory is the same, what is folded into them is not."""
        memory, together = Memory(self.threads), 1 if len(self.disjuncts) <= FEW else BATCH
        for problem in Folding(self.judge.network).problems(self.disjuncts, together):
            self.started += len(problem.members or problem.disjuncts)
            yield Search(problem, memory, self.record)

    def _step(self, search: Search, pool: ThreadPoolExecutor) -> Counterexample | str | None:
        before = search.boxes
        worst = search.step(pool, self.deadline)
        self.boxes += search.boxes - before
        self.unstable = max(self.unstable, search.unstable)
        if not search.done:
            self.searches.append(search)
        if found := self._confirm(search, worst):
            return found
        unsafe = {int(owner) for owner in worst.owner[worst.slacks <= 0]}
        if any(self.judge.lacks_numbers(search.problem.disjuncts[owner]) for owner in unsafe):
            return self.judge.no_number  # and no proof: real inputs are unsafe
        if search.stuck:
            return TOO_NEAR
        self.tell()
        return None

    @property
    def remaining(self) -> Iterator[Part]:
        """The boxes that are open, each with its disjunct, or with all that are searched together."""
        number = {id(disjunct): k for k, disjunct in enumerate(self.judge.prop.disjuncts)}
        for search in self.searches:
            problem = search.problem
            for boxes in search.frontier:
                for owner, low, high in zip(boxes.owner, boxes.low, boxes.high, strict=True):
                    box = Box(problem.whole(low, owner), problem.whole(high, owner))
                    owners = problem.members or (problem.disjuncts[owner],)
                    yield Part(box, tuple(number[id(disjunct)] for disjunct in owners))
        for disjunct in self.disjuncts[self.started :]:
            yield Part(disjunct.box, (number[id(disjunct)],))

    def progress(self) -> Progress:
        new = len(self.disjuncts) - self.started
        return Progress(
            "boxes",
            self.boxes,
            new + sum(len(search.frontier) for search in self.searches),
            self.unstable,
            new + sum(search.frontier.owners for search in self.searches),
            self.deadline.left,
        )

    def _confirm(self, search: Search, worst: Worst) -> Counterexample | None:
        """Replay the inputs that look unsafe, then attack around the worst."""
        inputs = [search.problem.whole(x, owner) for x, owner in zip(worst.points, worst.owner, strict=True)]
        disjuncts = [self._disjunct(search, x, owner) for x, owner in zip(inputs, worst.owner, strict=True)]
        for disjunct, x, slack in zip(disjuncts, inputs, worst.slacks, strict=True):
            if slack <= 0:
                judgement = self.judge(settle(x, disjunct.witnesses, self.judge.dtype))
                if isinstance(judgement, Counterexample):
                    return judgement
        if not inputs or not self.falsify:
            return None
        near = around_in(inputs[0], disjuncts[0].box)
        return attack(self.judge, disjuncts[0], near, near.sample(self.random, 8), self.deadline)

    def _disjunct(self, search: Search, x: Array, owner: int) -> Disjunct:
        """The disjunct that an input comes nearest to, of those that are searched together."""
        if not search.problem.members:
            return search.problem.disjuncts[owner]
        unsafe = search.problem.disjuncts[owner].outputs
        excess = unsafe.matrix @ self.judge.graph.evaluate(x[None])[0] - unsafe.offset
        return search.problem.members[int(excess.argmin())]


def around_in(x: Array, box: Box) -> Box:
    """A small box around a point, inside of the given one."""
    reach = NEIGHBOURHOOD * box.width
    return Box(np.maximum(box.lower, x - reach), np.minimum(box.upper, x + reach))
