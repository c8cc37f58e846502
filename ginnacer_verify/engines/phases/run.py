"""A property with many varying inputs: tighten layer by layer, bound its rows, halve the region if that is not enough.

A region is a box with some ReLUs decided. Its hidden layers are tightened with more and more effort; the rows of the
disjuncts that are still open get trees of their own; what stays open is split at the ReLU that most neurons ask for,
and each half is tightened again with its decision."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from ginnacer_verify.abstraction.fold import fold_error, fold_rows
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import interval_bounds
from ginnacer_verify.deadline import REACHED
from ginnacer_verify.engines.parts import Part, parts
from ginnacer_verify.engines.phases.tighten import STEPS, Place, Region, Tightened, tighten
from ginnacer_verify.engines.phases.trees import Trees, Wanted
from ginnacer_verify.engines.progress import Progress
from ginnacer_verify.engines.record import Closed, Grown, Halved, Story
from ginnacer_verify.engines.run import Run
from ginnacer_verify.replay.attack import attack
from ginnacer_verify.replay.judge import Counterexample

STUCK = "the bounds of a region with all of its ReLUs decided are too weak"
OVERFLOW = "the network's values overflow on this box: scale its weights or its inputs"


@dataclass(frozen=True)
class Effort:
    """How often each neuron's tree is split, and how many rounds the trees of the property's rows grow."""

    hidden: int
    rows: int


EFFORTS = (Effort(0, 8), Effort(32, 60), Effort(128, 60))
"""For a box, one after the other."""
HALVED = Effort(16, 60)
"""For a region that was halved."""
STEPS_ROWS = 20
"""How often the multipliers of a row of the property are improved at the root of its tree."""
WIDTH, MOST = 16, 512
"""Leaves of each row, and of all rows, that are split in one round."""
CORNERS = 16
"""Inputs at which bounds are attained that the falsifier starts from."""


@dataclass(frozen=True, eq=False)
class Task:
    """A region, the disjuncts of its part that are open on it, and the next effort; None after halving."""

    region: Region
    open: tuple[int, ...]
    effort: int | None
    story: Story | None = None


class PhaseRun(Run):
    """One property on one network. The regions that are open are a stack, the deepest on top.

    `remaining` are the parts that could not be decided, with what is known of their hidden layers."""

    def begin(self) -> None:
        if self.record:
            self.record.network = self.judge.network
        self.parts = parts(self.judge.prop)
        self.stack: list[Task] = []
        self.regions = self.unstable = self.nodes = 0
        self.left: list[Part] = []
        self.unproved: set[int] = {number for part in self.parts for number in part.disjuncts}

    @property
    def remaining(self) -> list[Part]:
        return self.left

    def run(self) -> Counterexample | str | None:
        """A counterexample, or why there is no verdict, or None: all is proved."""
        reasons = []
        # threads of ours and threads inside of BLAS would take the cores from each other
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(self.threads) as self.pool:
            for part in self.parts:
                outcome = self._part(part)
                if isinstance(outcome, Counterexample):
                    return outcome
                if outcome is not None:
                    reasons.append(outcome)
                    self.left.append(self._known)
                    if self.record:  # what was told of this part is no proof
                        self.record.stories.pop(part.disjuncts, None)
        return "; ".join(dict.fromkeys(reasons)) or None

    def progress(self) -> Progress:
        still, left = len(self.unproved), self.deadline.left
        return Progress("phases", self.regions, len(self.stack), self.unstable, still, left)

    def _part(self, part: Part) -> Counterexample | str | None:
        layers = fold_rows(self.judge.network, [self.judge.prop.disjuncts[number] for number in part.disjuncts])
        region = Region(layers, part.box, interval_bounds(layers, part.box))
        self._known = part
        if not region.bounds.is_finite:
            return OVERFLOW
        story = self.record.stories.setdefault(part.disjuncts, Story()) if self.record else None
        self.stack = [Task(region, part.disjuncts, 0, story)]
        while self.stack:
            if self.deadline.passed:
                return REACHED
            task = self.stack.pop()
            outcome = self._step(part, task)
            if outcome is not None:
                return outcome
            self.unproved -= set(task.open) - {number for other in self.stack for number in other.open}
            self.tell()
        return None

    def _step(self, part: Part, task: Task) -> Counterexample | str | None:
        """Tighten a region and bound what is open on it; what stays open goes back on the stack."""
        effort = HALVED if task.effort is None else EFFORTS[task.effort]
        tightened = tighten(task.region, effort.hidden, self.pool, self.deadline, task.story)
        region = tightened.region
        self.regions += 1
        self.unstable = max(self.unstable, sum(len(region.unstable(k)) for k in range(len(region.layers) - 1)))
        if not region.decided:
            self._known = replace(part, within=region.bounds)
        trees = self._trees(part, region, task.open, record=task.story is not None)
        for _ in range(effort.rows):
            if trees.done or self.deadline.passed:
                break
            trees.grow(WIDTH, STEPS, MOST)
        self.nodes += tightened.nodes + trees.nodes
        if task.story and trees.grown:
            self._tell(task.story, part, task.open, trees)
        still = tuple(number for number, reached in zip(task.open, trees.reached, strict=True) if not reached)
        if not still:
            return None
        if found := self._attack(part, trees, task.open):
            return found
        return self._next(task, tightened, trees, still)

    def _next(self, task: Task, tightened: Tightened, trees: Trees, still: tuple[int, ...]) -> str | None:
        """More effort for a box; two halves otherwise."""
        region = tightened.region
        if task.effort is not None and task.effort + 1 < len(EFFORTS):
            self.stack.append(Task(region, still, task.effort + 1, task.story))
            return None
        place = _most_wanted(region, tightened.votes) or _wanted_by_rows(trees)
        if place is None:
            return STUCK
        halves = [Task(half, still, None, Story() if task.story else None) for half in region.halves(place)]
        if task.story and halves[0].story and halves[1].story:
            task.story.events.append(Halved(*place, halves[0].story, halves[1].story))
        self.stack += halves
        return None

    def _tell(self, story: Story, part: Part, open_: tuple[int, ...], trees: Trees) -> None:
        """Which disjuncts are out of reach, and which row of the part says so."""
        assert trees.grown
        counts = [len(self.judge.prop.disjuncts[number].outputs) for number in part.disjuncts]
        rows = np.flatnonzero(np.isin(np.repeat(part.disjuncts, counts), open_))
        for goal, tree in trees.by_goal.items():
            story.events.append(Closed(open_[goal], int(rows[tree]), tree, trees.grown))

    def _trees(self, part: Part, region: Region, open_: tuple[int, ...], *, record: bool) -> Trees:
        """A tree for each row of the open disjuncts; a disjunct is out of reach when one of its rows is above 0."""
        last, number = region.layers[-1], len(region.layers) - 1
        disjuncts = [self.judge.prop.disjuncts[disjunct] for disjunct in part.disjuncts]
        error = fold_error(self.judge.network, disjuncts, np.maximum(*map(np.abs, region.entering(number))))
        owner = np.repeat(part.disjuncts, [len(disjunct.outputs) for disjunct in disjuncts])
        rows = np.flatnonzero(np.isin(owner, open_))
        goal = np.searchsorted(open_, owner[rows])
        error = error + last.off(last.absolute(np.maximum(*map(np.abs, region.entering(number)))))
        bias = np.nextafter(last.bias[rows] - error[rows], -np.inf)
        reduced, phase = region.reduced(number)
        wanted = Wanted(reduced.rows_of(last)[rows], bias, goal, len(open_))
        grown = Grown(reduced.kept) if record else None
        return Trees(reduced, wanted, phase, self.pool, self.deadline, steps=STEPS_ROWS, record=grown)

    def _attack(self, part: Part, trees: Trees, open_: tuple[int, ...]) -> Counterexample | None:
        """Descend from the corners of the box where the latest bounds are attained."""
        if not self.falsify:
            return None
        owner = np.asarray(open_)[trees.wanted.goal[trees.latest.row]]
        for number in dict.fromkeys(owner):
            own = np.flatnonzero(owner == number)
            worst = own[np.argsort(trees.latest.bound[own], kind="stable")[:CORNERS]]
            points: Array = np.where(trees.corner[worst], part.box.upper, part.box.lower)
            disjunct = self.judge.prop.disjuncts[number]
            if found := attack(self.judge, disjunct, part.box, points, self.deadline):
                return found
        return None


def _most_wanted(region: Region, votes: Mapping[Place, float]) -> Place | None:
    """The unstable ReLU that most neurons would gain from."""
    unstable = {(k, int(i)) for k in range(len(region.layers) - 1) for i in region.unstable(k)}
    wanted = [place for place in votes if place in unstable]
    return max(wanted, key=lambda place: votes[place], default=None)


def _wanted_by_rows(trees: Trees) -> Place | None:
    """The ReLU at which the worst open leaf would be split next."""
    chosen = trees.leaves.neuron[np.argsort(trees.leaves.bound, kind="stable")]
    chosen = chosen[chosen >= 0]
    return trees.reduced.place(int(chosen[0])) if len(chosen) else None
