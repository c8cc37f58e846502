"""The falsifier: a search for inputs that break the property, by projected gradient with restarts, all in numpy.

It only proposes points; each is judged by replay before anything is believed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.graph.gradient import value_and_gradient
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.table import stepped
from ginnacer_verify.properties.property import Disjunct
from ginnacer_verify.replay.judge import Counterexample, Judge, settle

STEPS = 40
LATTICE = 10_000
"""So many points are looked at before the first step."""
PIECE = 1_000_000
"""So many values of the widest node are computed before the clock is looked at."""
HOPEFUL = 1e-4
"""Points whose excess in float64 is above this, relative to the offset, are not worth a replay in float32."""

MOMENTUM = 0.7
"""How much of earlier gradients the same half keeps, so that steps of functions with jumps add up."""
FEW = 4
"""So many starts each disjunct has before any has more."""
MANY = 1000
"""More disjuncts than this are attacked in the order of the property."""
LEAK = 0.01
"""What inactive ReLUs let through, for half of the starts."""
NOISE = 1e-6
"""Points that differ by less than this share of what is hopeful lie on one plateau: which of them is unsafe in float32,
only a replay can tell."""
REPLAYS = 32
"""How often one attack asks the judge: on a plateau next to 0 every point looks promising."""


@dataclass(frozen=True, eq=False)
class Goal:
    """One disjunct as a function to be pushed to 0 or below: the largest of its scaled rows."""

    disjunct: Disjunct
    matrix: Array
    offset: Array

    @classmethod
    def of(cls, disjunct: Disjunct) -> "Goal":
        """Rows are scaled to unit length, so that no row of a conjunction drowns another."""
        length = np.maximum(np.linalg.norm(disjunct.outputs.matrix, axis=1), 1e-30)
        return cls(disjunct, disjunct.outputs.matrix / length[:, None], disjunct.outputs.offset / length)

    def excess(self, y: Array) -> Array:
        """How far each row of a batch of outputs is from being unsafe; at most 0 is unsafe."""
        if not len(self.offset):
            return np.full(len(y), -np.inf)
        return np.asarray((y @ self.matrix.T - self.offset).max(axis=1))

    def slope(self, y: Array) -> Array:
        """A subgradient of the excess with respect to the outputs."""
        if not len(self.offset):
            return np.zeros_like(y)
        return np.asarray(self.matrix[(y @ self.matrix.T - self.offset).argmax(axis=1)])


def gradient(graph: Graph, x: Array, goal: Goal) -> tuple[Array, Array]:
    """The excess of each row of a batch of inputs, and a direction of ascent with respect to them.

    That is the gradient, but in every other pair of rows flat functions let a little of it through: on a plateau the
    gradient itself is 0, or sees only the edge of the plateau."""
    y, slope = value_and_gradient(graph, x, goal.slope, LEAK * _leaky(len(x)))
    return goal.excess(y), slope


def _leaky(count: int) -> Array:
    """1 for every other pair of rows, in a column."""
    return np.where(np.arange(count) // 2 % 2, 1.0, 0.0)[:, None]


def starts(box: Box, random: np.random.Generator, count: int) -> Array:
    """The middle of the box, then alternately random points and random corners."""
    points = box.sample(random, count)
    points[1::2] = np.where(random.random(points[1::2].shape) < 0.5, box.lower, box.upper)
    points[:1] = box.middle
    return points


def lattice(box: Box) -> Array:
    """All points with each varying input at an end or in the middle, if those are few: many extremes lie there."""
    varying = list(box.varying)
    if 3 ** len(varying) > LATTICE:
        return np.zeros((0, box.inputs))
    ends = [(box.lower[i], box.middle[i], box.upper[i]) for i in varying]
    points = np.tile(box.lower, (3 ** len(varying), 1))
    points[:, varying] = np.array(list(product(*ends))).reshape(len(points), len(varying))
    return points


def everything(graph: Graph, box: Box) -> Array | None:
    """A point for all that the network can tell apart, if its varying inputs matter as few whole numbers only."""
    steps, varying = stepped(graph), list(box.varying)
    if not varying or any(i not in steps for i in varying):
        return None
    ends = [(float(steps[i](box.lower[i])), float(steps[i](box.upper[i]))) for i in varying]
    if not prod(high - low + 1 for low, high in ends) <= LATTICE:
        return None
    numbers = list(product(*(range(int(low), int(high) + 1) for low, high in ends)))
    points = np.tile(box.lower, (len(numbers), 1))
    points[:, varying] = np.array(numbers)
    return box.clip(points)


def best(graph: Graph, goal: Goal, points: Array, count: int, deadline: Deadline = FOREVER) -> Array:
    """The points that come nearest to being unsafe, of those that there is time for."""
    size, found = max(1, PIECE // graph.widest), [np.zeros(0)]
    for start in range(0, len(points), size):
        if deadline.passed:
            break
        found.append(goal.excess(graph.evaluate(points[start : start + size])))
    return points[np.argsort(np.concatenate(found), kind="stable")[:count]]


def descend(graph: Graph, goal: Goal, box: Box, x: Array, deadline: Deadline) -> Iterator[Array]:
    """Signed gradient steps that shrink; yields the whole batch whenever its best excess may be unsafe, and last."""
    x, moving = inside(x, goal.disjunct, box), np.zeros_like(x)
    keep = MOMENTUM * _leaky(len(x))
    for step in np.geomspace(0.5, 0.002, STEPS):
        excess, slope = gradient(graph, x, goal)
        moving = slope = keep * moving + slope / (np.abs(slope).mean(axis=1, keepdims=True) + 1e-300)
        if excess.min() <= HOPEFUL:
            yield x[np.argsort(excess, kind="stable")[:3]]
        if deadline.passed:
            return
        ball = goal.disjunct.ball
        move = box.width * np.sign(slope) if ball is None else 2 * ball.radius * ball.towards(slope)
        x = inside(box.clip(x - step * move), goal.disjunct, box)
    yield x[np.argsort(goal.excess(graph.evaluate(x)), kind="stable")[:3]]


def inside(x: Array, disjunct: Disjunct, box: Box) -> Array:
    """The batch moved into the ball, and into the linear constraints by projections to just inside of the worst row."""
    x = x if disjunct.ball is None else disjunct.ball.project(x)
    matrix, offset = disjunct.inputs.matrix, disjunct.inputs.offset
    for _ in range(50 if len(offset) else 0):
        over = x @ matrix.T - offset
        worst = over.argmax(axis=1)
        rows, largest = matrix[worst], over[np.arange(len(x)), worst]
        if (largest <= 0).all():
            break
        amount = np.where(largest > 0, largest + 1e-9 * (1 + np.abs(offset[worst])), 0.0)
        x = box.clip(x - rows * (amount / np.maximum((rows * rows).sum(axis=1), 1e-30))[:, None])
    return x


@np.errstate(over="ignore", invalid="ignore")  # a value that overflows is no counterexample
def attack(judge: Judge, disjunct: Disjunct, box: Box, x: Array, deadline: Deadline) -> Counterexample | None:
    """Descend from each row of `x` and replay what looks unsafe, or at least nearer to it than what was refuted."""
    goal = Goal.of(disjunct)
    return _replayed(judge, goal, x, descend(judge.graph, goal, box, x, deadline))


@np.errstate(over="ignore", invalid="ignore")
def _replayed(judge: Judge, goal: Goal, points: Array, batches: Iterable[Array]) -> Counterexample | None:
    disjunct, nearest, replays = goal.disjunct, np.inf, 0
    if judge.lacks_numbers(disjunct):
        return None
    scale = HOPEFUL * (1 + np.abs(goal.offset).max(initial=0.0))
    for points in batches:
        for point, excess in zip(points, goal.excess(judge.graph.evaluate(points)), strict=True):
            if replays < REPLAYS and excess <= scale and (excess <= 0 or excess <= nearest + NOISE * scale):
                if isinstance(found := judge(settle(point, disjunct.witnesses, judge.dtype)), Counterexample):
                    return found
                nearest, replays = min(nearest, excess), replays + 1
    # float32 may be further off than that looks: the nearest point is replayed whatever it seems to be
    last = judge(settle(points[0], disjunct.witnesses, judge.dtype))
    return last if isinstance(last, Counterexample) else None


@np.errstate(over="ignore", invalid="ignore")
def falsify(
    judge: Judge, disjuncts: Sequence[Disjunct], random: np.random.Generator, deadline: Deadline, *, restarts: int = 24
) -> Counterexample | None:
    """Attack every disjunct from a few starting points, the nearest to being unsafe first; then each from many."""
    targets = [one for one in disjuncts if not one.box.is_empty and not judge.lacks_numbers(one)]
    targets = nearest_first(judge.graph, targets, deadline)
    for count in sorted({min(FEW, restarts), restarts}):
        for disjunct in targets:
            if deadline.passed:
                return None
            if (all_of_them := everything(judge.graph, disjunct.box)) is not None:
                goal = Goal.of(disjunct)
                points = best(judge.graph, goal, all_of_them, REPLAYS, deadline)
                if found := _replayed(judge, goal, points, [points]):
                    return found
                continue
            points = starts(disjunct.box, random, count)
            if count == restarts:
                nearest = best(judge.graph, Goal.of(disjunct), lattice(disjunct.box), restarts, deadline)
                points = np.concatenate([nearest, points])
            if found := attack(judge, disjunct, disjunct.box, points, deadline):
                return found
    return None


def nearest_first(graph: Graph, disjuncts: list[Disjunct], deadline: Deadline = FOREVER) -> list[Disjunct]:
    """The disjuncts by how near the middles of their boxes are to being unsafe; as they are if there are many."""
    if not 1 < len(disjuncts) <= MANY:
        return disjuncts
    middles: dict[Box, Array] = {}
    for disjunct in disjuncts:
        if disjunct.box not in middles:
            if deadline.passed:
                return disjuncts
            middles[disjunct.box] = graph.evaluate(disjunct.box.middle[None])
    return sorted(disjuncts, key=lambda one: float(Goal.of(one).excess(middles[one.box])[0]))


def around(x: Array, box: Box, random: np.random.Generator, count: int = 8) -> Array:
    """A witness and points near it."""
    noise = (random.random((count, box.inputs)) - 0.5) * box.width * 0.1
    noise[0] = 0.0
    return box.clip(x + noise)
