"""Branch and bound for networks with one hidden layer and many varying inputs.

Such a network is a difference of convex functions: only ReLUs that a row weighs negatively are ever decided. What makes
the tree small is propagation: the half-space of each decision bounds all other neurons, and so do the rows of the
property, which every counterexample must satisfy.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.deadline import REACHED
from ginnacer_verify.engines.parts import Part, parts
from ginnacer_verify.engines.progress import Progress
from ginnacer_verify.engines.run import Run
from ginnacer_verify.engines.shallow.bound import Bounded, ascended
from ginnacer_verify.engines.shallow.problem import Regions, Shallow
from ginnacer_verify.engines.shallow.propagate import Mask, clipped, propagated
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.replay.judge import Counterexample, settle

STEPS_ROOT, STEPS, STEPS_LAST = 150, 30, 400
"""How often multipliers are improved: for the whole box, for a region, and where nothing is left to be decided."""
BATCH = 256
MOST_VALUES = 8_000_000
"""Regions that are bounded together, and numbers that are held for them."""
SHARE = 0.25
"""Of the time for a conjunction of rows, whose best weights the ascent may miss: then an exact program finishes."""
TOO_NEAR = "the network comes nearer to the unsafe set than regions can be cut"


@dataclass(frozen=True, eq=False)
class _Open:
    """A region that is not proved, and the bound of the one that it came from."""

    region: Regions
    bound: float


class ShallowRun(Run):
    """One property on a network with one hidden layer. Call `run`; `progress` can be asked at any time."""

    def begin(self) -> None:
        self.network = as_chain(self.judge.network)
        self.disjuncts = self.judge.prop.disjuncts
        self.open: list[_Open] = []
        self.still: list[int] = []
        self.regions = self.unstable = 0
        self.stuck = False
        self.left: list[Part] = []

    @property
    def remaining(self) -> list[Part]:
        return self.left

    def run(self) -> Counterexample | str | None:
        """A counterexample, or why there is no verdict, or None: all is proved."""
        self.still = [number for part in parts(self.judge.prop) for number in part.disjuncts]
        reasons = list[str]()
        with ThreadPoolExecutor(self.threads) as pool:
            while self.still:
                number = self.still[-1]
                outcome = self._disjunct(pool, number)
                if isinstance(outcome, Counterexample):
                    return outcome
                if outcome is not None:
                    reasons.append(outcome)
                    self.left.append(Part(self.disjuncts[number].box, (number,)))
                self.still.pop()
        return "; ".join(dict.fromkeys(reasons)) or None

    def progress(self) -> Progress:
        return Progress(
            "shallow", self.regions, len(self.open), self.unstable, len(self.still), max(0.0, self.deadline.left)
        )

    def _disjunct(self, pool: ThreadPoolExecutor, number: int) -> Counterexample | str | None:
        problem = Shallow.of(self.network, self.disjuncts[number])
        batch = max(1, min(BATCH, MOST_VALUES // max(1, 8 * problem.rows.shape[1])))
        deadline = self.deadline if len(problem.constant) == 1 else self.deadline.within(self.deadline.left * SHARE)
        self.open, self.stuck = [_Open(problem.root, -np.inf)], False
        while self.open:
            if deadline.passed:
                return REACHED
            self.open.sort(key=lambda one: one.bound)
            taken = [self._take(batch) for _ in range(self.threads) if self.open]
            for bounded in pool.map(lambda regions: self._bounded(problem, regions), taken):
                if found := self._confirm(number, bounded):
                    return found
                self._branch(problem, bounded)
            self.tell()
        return TOO_NEAR if self.stuck else None

    def _take(self, count: int) -> Regions:
        chosen = self.open[-count:]
        del self.open[-count:]
        self.regions += len(chosen)
        return Regions.joined([one.region for one in chosen])

    def _bounded(self, problem: Shallow, regions: Regions) -> Bounded:
        """The regions that stay open after propagation and ascent."""
        steps = STEPS if np.isfinite(regions.low).all() else STEPS_ROOT
        regions, empty = propagated(problem, regions)
        bounded = ascended(problem, regions[~empty], steps)
        return _chosen(bounded, ~(bounded.bound > 0))

    def _confirm(self, number: int, bounded: Bounded) -> Counterexample | None:
        """Run the network where bounds are nearly attained, and at the nearest corner; replay what is unsafe there."""
        disjunct, regions = self.disjuncts[number], bounded.regions
        points = np.clip(bounded.points, regions.lower, regions.upper)
        corners = np.where(2 * points > regions.lower + regions.upper, regions.upper, regions.lower)
        points = np.concatenate([points, corners])
        excess = self.judge.graph.evaluate(points) @ disjunct.outputs.matrix.T - disjunct.outputs.offset
        for point in points[(excess <= 0).all(axis=1)][:8]:
            judgement = self.judge(settle(disjunct.box.clip(point), disjunct.witnesses, self.judge.dtype))
            if isinstance(judgement, Counterexample):
                return judgement
        return None

    def _branch(self, problem: Shallow, bounded: Bounded) -> None:
        """Decide the neuron of each region whose chord gives away most; halve what has no such neuron."""
        regions = bounded.regions
        if not len(regions):
            return
        self.unstable = max(self.unstable, int((regions.phase == 0).sum(axis=1).max()))
        score = _gap(problem, bounded)
        neuron = score.argmax(axis=1)
        decided = score[np.arange(len(regions)), neuron] > 0
        if decided.any():
            some, which = _chosen(bounded, decided), neuron[decided]
            for side in (1.0, -1.0):
                self._push(_decided(problem, some.regions, which, side), some.bound)
        if not decided.all():
            self._halve(problem, _chosen(bounded, ~decided))

    def _halve(self, problem: Shallow, bounded: Bounded) -> None:
        """What no decision improves: more steps, then halves of the input that moves most."""
        longer = ascended(problem, bounded.regions, STEPS_LAST)
        still = _chosen(longer, ~(longer.bound > 0))
        for region, bound in zip(still.regions.each(), still.bound, strict=True):
            width = region.upper[0] - region.lower[0]
            at = int((width * np.abs(problem.weight).sum(axis=0)).argmax())
            middle = region.lower[0, at] + width[at] / 2
            if not region.lower[0, at] < middle < region.upper[0, at]:
                self.stuck = True
                continue
            left, right = region.upper.copy(), region.lower.copy()
            left[0, at] = right[0, at] = middle
            self._push(replace(region, upper=left), [bound])
            self._push(replace(region, lower=right), [bound])

    def _push(self, regions: Regions, bounds: Sequence[float] | Array) -> None:
        self.open += [_Open(one, float(bound)) for one, bound in zip(regions.each(), bounds, strict=True)]


def _chosen(bounded: Bounded, mask: Mask) -> Bounded:
    return Bounded(bounded.regions[mask], bounded.bound[mask], bounded.coefficients[mask], bounded.points[mask])


def _gap(problem: Shallow, bounded: Bounded) -> Array:
    """What the chord of each undecided neuron gives away where the bound is attained, and a tenth of what it could."""
    regions = bounded.regions
    y = bounded.points @ problem.weight.T + problem.bias
    chord = regions.high / (regions.high - regions.low)
    given = np.maximum(chord * (y - regions.low) - np.maximum(y, 0.0), 0.0)
    weighed = np.maximum(-bounded.coefficients, 0.0) + 0.01 * np.maximum(-problem.rows.min(axis=0), 0.0)
    return np.where(regions.phase == 0, weighed * (given + 0.1 * -regions.low * chord), -1.0)


def _decided(problem: Shallow, regions: Regions, neuron: NDArray[np.intp], side: float) -> Regions:
    """The regions with a neuron each decided: active for side 1, inactive for side -1."""
    at, low, high = np.arange(len(regions)), regions.low.copy(), regions.high.copy()
    (low if side > 0 else high)[at, neuron] = 0.0
    return clipped(problem, replace(regions, low=low, high=high), neuron, np.full(len(regions), side))
