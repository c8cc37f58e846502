"""A property on any graph with many varying inputs: tighten node by node, bound its rows, halve what stays open.

As `phases/run.py` does for chains. What no decision about ReLUs can settle goes to branch and bound on regions, which
cuts any function, with all bounds found so far."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.forward import forward
from ginnacer_verify.bounds.intervals import Known, intervals
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import REACHED, Deadline
from ginnacer_verify.engines.graphs.relaxed import Place, Singles
from ginnacer_verify.engines.graphs.tighten import Effort, Region, Tightening
from ginnacer_verify.engines.parts import Part, parts
from ginnacer_verify.engines.phases.trees import Trees, Wanted
from ginnacer_verify.engines.progress import Progress
from ginnacer_verify.engines.regions import RegionRun, charged
from ginnacer_verify.engines.run import Run
from ginnacer_verify.errors import OutOfTime
from ginnacer_verify.replay.attack import attack
from ginnacer_verify.replay.judge import Counterexample

EFFORTS = (Effort(10, 0), Effort(10, 12))
"""For a box, one after the other."""
HALVED = Effort(5, 0)
"""For a region that was halved."""
FEW_INPUTS = 64
"""Up to so many varying inputs the first bounds are affine functions of them."""
TIGHTEN, GROW = 0.4, 0.5
"""The shares of the time left for the bounds of hidden values and, after that, for the trees of the rows."""
STEPS_ROWS, STEPS = 20, 6
"""How often the multipliers of a row of the property are improved at the root of its tree, and elsewhere."""
TRIED = 8
"""Neurons that are tried before a leaf of a row of the property is split."""
WIDTH, MOST = 32, 256
"""Leaves of each row, and of all rows, that are split in one round."""
BYTES = 1.5e9
"""What the leaves of all trees may take."""
CORNERS = 16
"""Inputs at which bounds are attained that the falsifier starts from."""
LEAST_SHARE = 0.5
"""Seconds that each kind of work has at least, as far as there are any."""


@dataclass(frozen=True, eq=False)
class Task:
    """A region, the disjuncts of its part that are open on it, and the next effort; None after halving. `before`
    are the trees that were grown for them with less effort."""

    region: Region
    open: tuple[int, ...]
    effort: int | None
    before: "Grown | None" = None


@dataclass(frozen=True, eq=False)
class Grown:
    """Trees for the rows of some disjuncts."""

    trees: Trees
    disjuncts: tuple[int, ...]

    @property
    def still(self) -> tuple[int, ...]:
        """The disjuncts that are not out of reach."""
        return tuple(number for number, reached in zip(self.disjuncts, self.trees.reached, strict=True) if not reached)

    def further(self, other: "Grown | None") -> "Grown":
        """This one, or another for the same open disjuncts that has come further: its worst leaf is better."""
        if other is None or self.trees.reached.any() or not len(other.trees.leaves):
            return self
        ours, theirs = (one.trees.leaves.bound.min(initial=np.inf) for one in (self, other))
        return self if ours >= theirs else other


class GraphPhaseRun(Run):
    """One property on one graph. The regions that are open are a stack, the deepest on top. What is left goes to
    `RegionRun`, so nothing remains."""

    def begin(self) -> None:
        self.graph = self.judge.graph
        self.stack: list[Task] = []
        self.unproved = set(range(len(self.judge.prop.disjuncts)))
        self.regions = self.unstable = self.nodes = 0
        self.finisher: RegionRun | None = None

    def run(self) -> Counterexample | str | None:
        """A counterexample, or why there is no verdict, or None: all is proved."""
        reasons = []
        # threads of ours and threads inside of BLAS would take the cores from each other
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(self.threads) as self.pool:
            for part in parts(self.judge.prop):
                outcome = self._part(part)
                if isinstance(outcome, Counterexample):
                    return outcome
                if outcome is not None:
                    reasons.append(outcome)
        return "; ".join(dict.fromkeys(reasons)) or None

    def progress(self) -> Progress:
        if self.finisher is not None:
            return self.finisher.progress()
        return Progress("phases", self.regions, len(self.stack), self.unstable, len(self.unproved), self.deadline.left)

    def _part(self, part: Part) -> Counterexample | str | None:
        try:
            known = self._first_bounds(part.box)
        except OutOfTime:
            return REACHED
        self.stack = [Task(Region(Singles(self.graph), known), part.disjuncts, 0)]
        while self.stack:
            if self.deadline.passed:
                return REACHED
            outcome = self._step(part, self.stack.pop())
            if outcome is not None:
                return outcome
            self.tell()
        self.unproved -= set(part.disjuncts)
        return None

    def _first_bounds(self, box: Box) -> Known:
        """Bounds from front to back: as affine functions of the inputs that vary where they are few."""
        varying = np.asarray(box.varying, np.intp)
        if len(varying) > FEW_INPUTS:
            return intervals(self.graph, box.lower[None], box.upper[None])
        return forward(self.graph, box.lower[None], box.upper[None], varying[None], self.deadline)[0]

    def _share(self, share: float) -> Deadline:
        return self.deadline.within(max(LEAST_SHARE, self.deadline.left * share))

    def _step(self, part: Part, task: Task) -> Counterexample | str | None:
        """Tighten a region and bound what is open on it; what stays open goes back on the stack."""
        effort = HALVED if task.effort is None else EFFORTS[task.effort]
        tightening = Tightening(task.region, effort, self.pool, self._share(TIGHTEN))
        region = tightening.run()
        self.regions += 1
        self.unstable = max(self.unstable, region.unstable)
        if region.known.empty[0]:
            return None
        grown = Grown(self._trees(region, task.open), task.open).further(task.before)
        trees = grown.trees
        last = task.effort is None or task.effort + 1 == len(EFFORTS)
        self._grow(trees, self.deadline if last else self._share(GROW))
        self.nodes += tightening.nodes + trees.nodes
        if not region.decided:
            self.unproved -= set(task.open) - set(grown.still)
        if not grown.still or self.deadline.passed:
            return REACHED if grown.still else None
        if found := self._attack(part, grown):
            return found
        return self._next(task, region, tightening.votes, grown)

    def _grow(self, trees: Trees, deadline: Deadline) -> None:
        most = BYTES / (5 * trees.reduced.steep.size + 1)
        while not (trees.done or deadline.passed or len(trees.leaves) > most):
            trees.grow(WIDTH, STEPS, MOST)

    def _next(self, task: Task, region: Region, votes: dict[Place, float], grown: Grown) -> Counterexample | str | None:
        """More effort for a box; two halves otherwise; regions where no decision helps."""
        wanted, still = _wanted_by_rows(grown.trees), grown.still
        if wanted is None and not votes:
            return self._finish(region, still)
        if task.effort is not None and task.effort + 1 < len(EFFORTS):
            self.stack.append(Task(region, still, task.effort + 1, grown))
            return None
        place = wanted or max(votes, key=lambda one: votes[one])
        self.stack += [Task(half, still, None) for half in region.halves(place)]
        return None

    def _finish(self, region: Region, still: tuple[int, ...]) -> Counterexample | str | None:
        """Cut any function, and inputs, on what is left."""
        self.finisher = RegionRun(self.judge, self.budget).only(still, region.known)
        outcome = self.finisher.run()
        if outcome is None:
            self.finisher = None
        return outcome

    def _trees(self, region: Region, open_: tuple[int, ...]) -> Trees:
        """A tree for each row of the open disjuncts; a disjunct is out of reach when one of its rows is above 0."""
        last = len(self.graph.nodes) - 1
        rows, bias, goal = [np.zeros((0, self.graph.outputs))], [np.zeros(0)], [np.zeros(0, np.intp)]
        for k, number in enumerate(open_):
            polytope = self.judge.prop.disjuncts[number].outputs
            rows.append(polytope.matrix)
            bias.append(-charged(polytope, region.known.largest(last)[0]))
            goal.append(np.full(len(polytope), k))
        relaxed = region.relaxed(last, self.deadline)
        wanted = Wanted(np.concatenate(rows), np.concatenate(bias), np.concatenate(goal), len(open_))
        return Trees(relaxed, wanted, relaxed.phase, self.pool, self.deadline, steps=STEPS_ROWS, tried=TRIED)

    def _attack(self, part: Part, grown: Grown) -> Counterexample | None:
        """Descend from the corners of the box where the latest bounds are attained."""
        if not self.falsify:
            return None
        trees = grown.trees
        owner = np.asarray(grown.disjuncts)[trees.wanted.goal[trees.latest.row]]
        for number in grown.still:
            own = np.flatnonzero(owner == number)
            worst = own[np.argsort(trees.latest.bound[own], kind="stable")[:CORNERS]]
            points: Array = np.where(trees.corner[worst], part.box.upper, part.box.lower)
            disjunct = self.judge.prop.disjuncts[number]
            if len(worst) and (found := attack(self.judge, disjunct, part.box, points, self.deadline)):
                return found
        return None


def _wanted_by_rows(trees: Trees) -> Place | None:
    """The ReLU at which the worst open leaf would be split next."""
    chosen = trees.leaves.neuron[np.argsort(trees.leaves.bound, kind="stable")]
    chosen = chosen[chosen >= 0]
    return trees.reduced.place(int(chosen[0])) if len(chosen) else None
