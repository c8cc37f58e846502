"""The native engine: a search per disjunct, all of them in turn, with the worst inputs attacked and replayed."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engine.problem import problem
from ginnacer_verify.engine.search import Search
from ginnacer_verify.falsify import attack
from ginnacer_verify.network import Array
from ginnacer_verify.progress import Observer, Progress
from ginnacer_verify.properties.property import Disjunct
from ginnacer_verify.replay import Counterexample, Judge, settle

NEIGHBOURHOOD = 0.05
"""An attack around an input moves each of its values by at most this share of its width."""


class NativeRun:
    """One property on one network: the searches that are open, each with its disjunct."""

    remaining = None
    """What a finisher could start from: boxes halve to the end, so there is no finisher."""

    def __init__(
        self,
        judge: Judge,
        deadline: Deadline,
        *,
        threads: int = 2,
        seed: int = 0,
        falsify: bool = True,
        observe: Observer | None = None,
    ) -> None:
        self.judge, self.deadline, self.threads = judge, deadline, threads
        self.falsify, self.observe, self.random = falsify, observe, np.random.default_rng(seed)
        disjuncts = [disjunct for disjunct in judge.prop.disjuncts if not disjunct.box.is_empty]
        self.searches = [(disjunct, Search(problem(judge.network, disjunct), threads)) for disjunct in disjuncts]

    def run(self) -> Counterexample | str | None:
        """A counterexample, or why there is no verdict, or None: all is proved."""
        waiting = deque(self.searches)
        with ThreadPoolExecutor(self.threads) as pool:
            while waiting:
                if self.deadline.passed:
                    return "time ran out: raise --timeout"
                disjunct, search = waiting.popleft()
                points, slacks = search.step(pool, self.deadline)
                if found := self._confirm(disjunct, [search.problem.whole(point) for point in points], slacks):
                    return found
                if self.judge.lacks_numbers(disjunct) and (slacks <= 0).any():
                    return self.judge.no_number  # and no proof: real inputs are unsafe
                if search.stuck:
                    return "the network comes nearer to the unsafe set than boxes can be halved"
                if not search.done:
                    waiting.append((disjunct, search))
                if self.observe:
                    self.observe(self.progress())
        return None

    def progress(self) -> Progress:
        searches = [search for _, search in self.searches]
        return Progress(
            "boxes",
            sum(search.boxes for search in searches),
            sum(len(search.frontier) for search in searches),
            max((search.unstable for search in searches), default=0),
            sum(not search.done for search in searches),
            self.deadline.left,
        )

    def _confirm(self, disjunct: Disjunct, inputs: list[Array], slacks: Array) -> Counterexample | None:
        """Replay the inputs that look unsafe, then attack around the worst."""
        for x, slack in zip(inputs, slacks, strict=True):
            if slack <= 0:
                judgement = self.judge(settle(x, disjunct.witnesses, self.judge.network.dtype))
                if isinstance(judgement, Counterexample):
                    return judgement
        if not inputs or not self.falsify:
            return None
        near = _around(inputs[0], disjunct.box)
        return attack(self.judge, disjunct, near, near.sample(self.random, 8), self.deadline)


def _around(x: Array, box: Box) -> Box:
    """A small box around a point, inside of the given one."""
    reach = NEIGHBOURHOOD * box.width
    return Box(np.maximum(box.lower, x - reach), np.minimum(box.upper, x + reach))
