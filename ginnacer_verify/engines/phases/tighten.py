"""Bounds of the hidden layers, one layer after the other, each neuron's by a tree of its own.

Early layers have few unstable ReLUs, and whether the later ones are stable hangs on them; so bounds that a single
relaxation leaves hopeless often fall into place once every layer is tightened before the next one is looked at."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import Bounds, interval, outputs_of
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.phases.reduced import ACTIVE, INACTIVE, Phases, Reduced
from ginnacer_verify.engines.phases.trees import Indices, Trees, Wanted
from ginnacer_verify.engines.record import MARGIN, Claims, Grown, Story
from ginnacer_verify.graph.network import Layer

Place = tuple[int, int]
"""A ReLU: its layer and its number there."""
STEPS_FIRST, STEPS = 10, 5
"""How often the multipliers of a tree's root, and of its other nodes, are improved."""
MOST = 1024
"""Leaves that are split in one round."""


@dataclass(frozen=True, eq=False)
class Region:
    """The part of a box where some ReLUs have decided phases, with bounds of the hidden layers on it."""

    layers: tuple[Layer, ...]
    box: Box
    bounds: Bounds
    decided: Mapping[Place, int] = field(default_factory=dict)

    def entering(self, number: int) -> tuple[Array, Array]:
        """The interval of each value that enters a layer."""
        if number == 0:
            return self.box.lower, self.box.upper
        low, high = outputs_of(self.bounds.lower[number - 1], self.bounds.upper[number - 1])
        off = [neuron for (layer, neuron), phase in self.decided.items() if layer == number - 1 and phase == INACTIVE]
        low[off] = high[off] = 0.0
        return low, high

    def reduced(self, number: int) -> tuple[Reduced, Phases]:
        """The layers before the given one, and the phases of their neurons."""
        found = list(zip(self.bounds.lower[:number], self.bounds.upper[:number], strict=True))
        reduced = Reduced.of(self.layers[:number], self.box, found)
        phase = reduced.phase.copy()
        for (layer, neuron), value in self.decided.items():
            position = reduced.position(layer, neuron) if layer < number else -1
            if position >= 0:
                phase[position] = value
        return reduced, phase

    def unstable(self, number: int) -> Indices:
        """The ReLUs of a layer that can be active as well as inactive."""
        open_ = (self.bounds.lower[number] < 0) & (self.bounds.upper[number] > 0)
        open_[[neuron for layer, neuron in self.decided if layer == number]] = False
        return np.flatnonzero(open_)

    def with_bounds(self, number: int, lower: Array, upper: Array) -> "Region":
        """The same region with tighter bounds of one layer; what is not a number changes nothing."""
        low, high = list(self.bounds.lower), list(self.bounds.upper)
        low[number], high[number] = np.fmax(low[number], lower), np.fmin(high[number], upper)
        return Region(self.layers, self.box, Bounds(tuple(low), tuple(high)), self.decided)

    def halves(self, place: Place) -> tuple["Region", "Region"]:
        """The two parts where a ReLU is active, and where it is inactive."""
        return tuple(  # type: ignore[return-value]
            Region(self.layers, self.box, self.bounds, {**self.decided, place: phase}) for phase in (ACTIVE, INACTIVE)
        )


@dataclass(frozen=True, eq=False)
class Tightened:
    """A region with tighter bounds, and how many neurons would gain most from deciding a ReLU, for each ReLU."""

    region: Region
    votes: Mapping[Place, float]
    nodes: int


def tighten(
    region: Region, rounds: int, pool: ThreadPoolExecutor, deadline: Deadline, story: Story | None = None
) -> Tightened:
    """Bounds of all hidden layers; every tree is split up to `rounds` times. Stops early when time runs out.

    With a story, what is found is told, and a little less than it is used."""
    votes, nodes = dict[Place, float](), 0
    for number, layer in enumerate(region.layers[:-1]):
        region = region.with_bounds(number, *interval(layer, *region.entering(number)))
        neurons = region.unstable(number)
        if number == 0 or not len(neurons) or deadline.passed:
            continue
        reduced, phase = region.reduced(number)
        weight, bias = reduced.rows_of(layer)[neurons], layer.bias[neurons]
        off = layer.off(layer.absolute(np.maximum(*map(np.abs, region.entering(number)))))[neurons]
        goal = np.tile(np.arange(len(neurons)), 2)  # a neuron is stable when either of its bounds is on its side of 0
        wanted = Wanted(np.vstack([weight, -weight]), np.append(bias - off, -bias - off), goal, len(neurons))
        trees = Trees(reduced, wanted, phase, pool, deadline, steps=STEPS_FIRST, record=story is not None)
        _count(votes, reduced, trees.leaves.neuron.tolist())
        _grow(trees, rounds, deadline)
        nodes += trees.nodes
        lower, upper = np.full(layer.outputs, -np.inf), np.full(layer.outputs, np.inf)
        found = trees.settle()
        if story and trees.grown:
            found = found - MARGIN * (1 + np.abs(found))
            _tell(story, region, number, neurons, found, trees.grown)
        lower[neurons], upper[neurons] = found[: len(neurons)], -found[len(neurons) :]
        region = region.with_bounds(number, lower, upper)
    return Tightened(region, votes, nodes)


def _tell(story: Story, region: Region, layer: int, neurons: Indices, found: Array, grown: Grown) -> None:
    """The bounds that are better than what was known."""
    count, claims = len(neurons), []
    for row, bound in enumerate(found.tolist()):
        neuron, sign = int(neurons[row % count]), 1 if row < count else -1
        known = region.bounds.lower[layer][neuron] if sign > 0 else -region.bounds.upper[layer][neuron]
        if np.isfinite(bound) and bound > known:
            claims.append((neuron, sign, sign * bound, row))
    story.events.append(Claims(layer, tuple(claims), grown))


def _grow(trees: Trees, rounds: int, deadline: Deadline) -> None:
    for _ in range(rounds):
        if trees.done or deadline.passed:
            return
        trees.grow(1, STEPS, MOST)


def _count(votes: dict[Place, float], reduced: Reduced, chosen: Sequence[int]) -> None:
    for position in chosen:
        if position >= 0:
            place = reduced.place(int(position))
            votes[place] = votes.get(place, 0.0) + 1.0
