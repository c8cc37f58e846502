"""Bounds of all values that enter functions, node by node: each element's by slopes, or by a tree, of its own."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known, step
from ginnacer_verify.bounds.substitution import cost_of, entering, loose_of, origin_of
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.engines.graphs.relaxed import Place, Relaxed, Singles
from ginnacer_verify.engines.phases.ascent import ACTIVE, INACTIVE, UNDECIDED
from ginnacer_verify.engines.phases.trees import Indices, Trees, Wanted, chunks
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input
from ginnacer_verify.graph.linear import Scale, Select

WORK = 1e12
"""Multiplications that the bounds of one node may take; nodes that would take more keep their intervals."""
FEW_STEPS = 3
"""How often the multipliers of a node's rows are improved where there is no work for more."""
STEPS = 5
"""How often the multipliers of a split leaf are improved."""
MOST = 512
"""Leaves that are split in one round."""
WEIGHTS = 20_000_000
"""Trees grow for nodes whose rows have no more entries than this, all together."""


@dataclass(frozen=True, eq=False)
class Region:
    """The part of a box where some ReLUs have decided phases, with bounds of all nodes on it (a batch of one)."""

    singles: Singles
    known: Known
    decided: Mapping[Place, int] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return self.singles.graph

    def relaxed(self, start: int, deadline: Deadline = FOREVER) -> Relaxed:
        return Relaxed(self.singles, start, self.known, self.decided, deadline)

    def halves(self, place: Place) -> tuple["Region", "Region"]:
        """The two parts where a ReLU is active, and where it is inactive."""
        return tuple(  # type: ignore[return-value]
            Region(self.singles, self.known, {**self.decided, place: phase}) for phase in (ACTIVE, INACTIVE)
        )

    @property
    def unstable(self) -> int:
        """How many elements of functions have no exact line."""
        count = 0
        for number in self.graph.applied:
            node = self.graph.nodes[number]
            assert isinstance(node, Apply)
            count += int(np.count_nonzero(~np.isnan(node.function.cut(*self.known.ends(node.sources))[1])))
        return count


@dataclass(frozen=True)
class Effort:
    """How often the multipliers of each element are improved, and how often its trees are split."""

    steps: int
    rounds: int


class Tightening:
    """One pass over the nodes of a region, the earlier bounds first. Stops early when time runs out."""

    def __init__(self, region: Region, effort: Effort, pool: ThreadPoolExecutor, deadline: Deadline) -> None:
        self.region, self.effort, self.pool, self.deadline = region, effort, pool, deadline
        self.known = Known(region.known.box_lower, region.known.box_upper)
        self.votes: dict[Place, float] = {}
        self.nodes = 0

    def run(self) -> Region:
        graph, within = self.region.graph, self.region.known
        wanted, cost = entering(graph), np.zeros(len(graph.nodes))
        for number, node in enumerate(graph.nodes):
            step(graph, number, self.known)
            if number < len(within.lower):
                self.known.tighten(number, within.lower[number], within.upper[number])
            own = sum(cost_of(one) for one in node.maps) if isinstance(node, Affine) else node.size
            cost[number] = own + sum(cost[source] for source in node.sources)
            if number not in wanted:
                continue
            self._decide(number, wanted[number])
            if origin_of(graph, number) != number:
                continue  # what is moved has been tightened where it came from
            rows = np.flatnonzero(loose_of(graph, number, wanted[number], self.known)[0])
            curved = any(cost[source] > 0 for source in node.sources) and not _is_exact(graph, number)
            steps = self._steps(2 * len(rows) * float(cost[number]))
            if len(rows) and curved and not self.deadline.passed and steps is not None:
                self._tighten(number, rows, wanted[number], steps)
        return Region(self.region.singles, self.known, self.region.decided)

    def _steps(self, work: float) -> int | None:
        """How often the multipliers of rows are improved, by the work of one pass through them; None: not at all."""
        affordable = (steps for steps in (self.effort.steps, FEW_STEPS, 0) if work * (steps + 4) <= WORK)
        return next(affordable, None)

    def _decide(self, number: int, functions: list[int]) -> None:
        """Cut the interval of a node by the decisions of the region."""
        lower, upper = np.full((2, 1, self.region.graph.nodes[number].size), -np.inf)
        upper = -upper
        for (function, element), phase in self.region.decided.items():
            if function in functions and number in self.region.graph.nodes[function].sources:
                (lower if phase == ACTIVE else upper)[0, element] = 0.0
        self.known.tighten(number, lower, upper)

    def _tighten(self, number: int, rows: Indices, functions: list[int], steps: int) -> None:
        relaxed = Relaxed(self.region.singles, number, self.known, self.region.decided, self.deadline)
        size = self.region.graph.nodes[number].size
        relus = all(_is_relu(self.region.graph, function) for function in functions)
        if relus and self.effort.rounds and 2 * len(rows) * size <= WEIGHTS:
            found = self._grown(relaxed, rows, size)
        else:
            found = self._climbed(relaxed, rows, size, relus, steps)
        lower, upper = np.full((1, size), -np.inf), np.full((1, size), np.inf)
        lower[0, rows], upper[0, rows] = found[: len(rows)], -found[len(rows) :]
        self.known.tighten(number, lower, upper)

    def _climbed(self, relaxed: Relaxed, rows: Indices, size: int, relus: bool, steps: int) -> Array:
        """Lower bounds of elements and of their negations, with multipliers of their own.

        A ReLU that either of them shows to be stable needs no better bounds."""

        def work(part: slice) -> Array:
            chosen = rows[part]
            if self.deadline.passed:
                return np.full((2, len(chosen)), -np.inf)
            weight = _units(chosen, size)
            phase = np.tile(relaxed.phase, (len(weight), 1))
            start = np.where(phase == UNDECIDED, relaxed.steep, np.float32(0))
            goal = np.tile(np.arange(len(chosen)), 2) if relus else np.full(len(weight), -1)
            none = np.zeros(len(weight))
            single = weight.astype(np.float32)
            found = relaxed.ascend(single, none.astype(np.float32), phase, start, steps, goal)
            return relaxed.rigorous(weight, none, phase, found.multipliers).reshape(2, -1)

        self.nodes += 2 * len(rows)
        parts = list(self.pool.map(work, chunks(len(rows), max(1, relaxed.at_once // 2))))
        return np.concatenate(parts, axis=1).reshape(-1)

    def _grown(self, relaxed: Relaxed, rows: Indices, size: int) -> Array:
        """The same by trees of decisions."""
        goal = np.tile(np.arange(len(rows)), 2)  # an element is stable when either of its bounds is on its side of 0
        wanted = Wanted(_units(rows, size), np.zeros(2 * len(rows)), goal, len(rows))
        trees = Trees(relaxed, wanted, relaxed.phase, self.pool, self.deadline, steps=self.effort.steps)
        for position in trees.leaves.neuron[trees.leaves.neuron >= 0].tolist():
            place = relaxed.place(int(position))
            self.votes[place] = self.votes.get(place, 0.0) + 1.0
        for _ in range(self.effort.rounds):
            if trees.done or self.deadline.passed:
                break
            trees.grow(1, STEPS, MOST)
        self.nodes += trees.nodes
        return trees.settle()


def _units(rows: Indices, size: int) -> Array:
    """A row for each element, and for its negation."""
    weight = np.zeros((2 * len(rows), size))
    weight[np.arange(len(rows)), rows] = 1.0
    weight[np.arange(len(rows), 2 * len(rows)), rows] = -1.0
    return weight


def _is_relu(graph: Graph, function: int) -> bool:
    node = graph.nodes[function]
    return isinstance(node, Apply) and isinstance(node.function, Relu)


def _is_exact(graph: Graph, number: int) -> bool:
    """Whether the interval of a node is exact but for rounding: of inputs, what only moves them, and one map of it."""
    node = graph.nodes[number]
    once = len(set(node.sources)) == len(node.sources)
    return isinstance(node, Affine) and once and all(_is_moved(graph, source) for source in node.sources)


def _is_moved(graph: Graph, number: int) -> bool:
    """Whether the values of a node are inputs, each scaled at most."""
    node = graph.nodes[number]
    if isinstance(node, Input):
        return True
    moved = isinstance(node, Affine) and len(node.maps) == 1 and isinstance(node.maps[0], Select | Scale)
    return moved and _is_moved(graph, node.sources[0])
