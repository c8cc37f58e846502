"""The graph before a node, every function replaced by lines: what `Reduced` is for chains.

Of each function only the elements without an exact line have multipliers: the choice of a lower line, of an upper line
where there is one, or, for a ReLU that is decided, how much of its decision is added to a row. They are looked for in
float32, many rows at a time, and used in float64 by the one rigorous back-substitution."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.bounds.substitution import Choices, planes
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.engines.graphs.bent import Bent, Indices, Mixed
from ginnacer_verify.engines.phases.ascent import (
    ACTIVE,
    FIRST,
    FLOOR,
    INACTIVE,
    RATE,
    SECOND,
    SHORTER,
    UNDECIDED,
    Climbed,
    Phases,
    Single,
)
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input

Place = tuple[int, int]
"""An element of a function: the number of its node, and its own there."""
PROMISING = 8
"""So many neurons whose decisions promise most are noted for each row."""
VALUES = 400_000
"""So many values of the widest node are held at a time for a batch of rows: about what fits into the cache."""


class Singles:
    """The maps and biases of a graph in float32, each made when it is first asked for."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._kept: dict[int, tuple[tuple[Any, ...], Single]] = {}

    def __call__(self, number: int) -> tuple[tuple[Any, ...], Single]:
        if number not in self._kept:
            node = self.graph.nodes[number]
            assert isinstance(node, Affine)
            with np.errstate(over="ignore"):
                self._kept[number] = tuple(one.single() for one in node.maps), node.bias.astype(np.float32)
        return self._kept[number]


class Relaxed:
    """Rows over the value of node `start` are bounded on the box of `known`, with some ReLUs decided."""

    def __init__(
        self,
        singles: Singles,
        start: int,
        known: Known,
        decided: Mapping[Place, int],
        deadline: Deadline = FOREVER,
    ) -> None:
        self.graph, self.singles, self.start, self.known = singles.graph, singles, start, known
        self.deadline = deadline
        self.order = _before(self.graph, start)
        self.bent: dict[int, Bent] = {}
        self.low: dict[int, slice] = {}
        self.high: dict[int, slice] = {}
        places: list[tuple[int, slice]] = []
        steep, end = [np.zeros(0, np.float32)], 0
        for number in self.order:
            node = self.graph.nodes[number]
            if not isinstance(node, Apply):
                continue
            own = [element for function, element in decided if function == number]
            bent = self.bent[number] = Bent.of(node, known, own)
            for table, columns, first in (
                (bent.low, self.low, bent.low_start),
                (bent.high, self.high, bent.high_start),
            ):
                if table.free:
                    columns[number] = slice(end, end := end + len(bent.index))
                    places.append((number, columns[number]))
                    steep.append(first)
        self._places = places
        self.neurons, self.steep = end, np.concatenate(steep)
        self.phase = np.zeros(end, np.int8)
        for (number, element), phase in decided.items():
            if number in self.bent and len(at := np.flatnonzero(self.bent[number].index == element)):
                self.phase[self.low[number].start + at[0]] = phase

    @property
    def inputs(self) -> int:
        return self.graph.inputs

    @cached_property
    def at_once(self) -> int:
        """Rows that are bounded together."""
        return int(np.clip(VALUES // self.graph.widest, 8, 256))

    @cached_property
    def _box(self) -> tuple[Single, Single]:
        lower, upper = self.known.box_lower[0], self.known.box_upper[0]
        return (lower / 2 + upper / 2).astype(np.float32), (upper / 2 - lower / 2).astype(np.float32)

    def place(self, position: int) -> Place:
        """The ReLU of a position."""
        for number, columns in self._places:
            if columns.start <= position < columns.stop:
                return number, int(self.bent[number].index[position - columns.start])
        raise IndexError(f"there is no neuron {position}")

    @np.errstate(all="ignore")
    def ascend(
        self, weight: Single, bias: Single, phase: Phases, start: Single, steps: int, goal: Indices | None = None
    ) -> Climbed:
        """Bounds of `weight @ value + bias`, row by row, with their multipliers improved `steps` times.

        Once a bound is above 0, all rows with the same goal are left alone: each row has its own unless they are given,
        and those with a negative one are never left alone."""
        rows = len(bias)
        goal = np.arange(rows) if goal is None else goal
        found = Climbed(
            np.full(rows, -np.inf, np.float32),
            start.copy(),
            np.full(rows, -1, np.int64),
            np.zeros(rows, np.float32),
            np.zeros((rows, self.inputs), np.bool_),
            np.zeros(rows, np.bool_),
            np.full((rows, min(PROMISING, start.shape[1])), -1, np.int64),
        )
        promised = np.zeros_like(start)
        here = np.arange(rows)
        m, mean, square = start.copy(), np.zeros_like(start), np.zeros_like(start)
        floor = np.float32(FLOOR) * np.abs(weight).mean(axis=1, keepdims=True)
        middle, radius = self._box
        for step in range(steps + 1):
            steps = step if self.deadline.passed else steps
            used, plane, value = self._backward(weight, bias, phase, m)
            value = value + plane @ middle - np.abs(plane) @ radius
            improved = value > found.bound[here]
            flat = ~improved & (found.bound[here] <= 0) & (found.gain[here] == 0) & (step == steps)
            new = here[improved]
            found.bound[new], found.corner[new], found.gain[new] = value[improved], plane[improved] < 0, 0.0
            found.flat[here[flat]] = True
            taken = improved | flat
            found.multipliers[here[taken]] = m[taken]
            if step == steps and not taken.any():
                break
            corner = np.where(plane < 0, middle + radius, middle - radius)
            gradient, gain = self._forward(corner, phase, m, used)
            promised[here[taken]] = gain[taken]
            if step == steps:
                break
            m = _moved(m, gradient, used, phase, mean, square, floor, step)
            still = ~np.isin(goal, goal[(found.bound > 0) & (goal >= 0)])[here]
            if not still.any():
                break
            if np.count_nonzero(still) < 0.8 * len(still):
                here, phase = here[still], phase[still]
                weight, bias, floor = weight[still], bias[still], floor[still]
                m, mean, square = m[still], mean[still], square[still]
        _rank(promised, found)
        return found

    @np.errstate(all="ignore")
    def bounds(self, weight: Single, bias: Single, phase: Phases, multipliers: Single) -> Single:
        """Guesses of the bounds of rows with just these multipliers."""
        _, plane, value = self._backward(weight, bias, phase, multipliers)
        middle, radius = self._box
        return np.asarray(value + plane @ middle - np.abs(plane) @ radius)

    def _backward(self, weight: Single, bias: Single, phase: Phases, m: Single) -> tuple[Single, Single, Single]:
        """The coefficients with which loose elements are met, by position; the plane on the box, and its constant."""
        held: dict[int, Single] = {self.start: weight}
        value, used = bias.copy(), np.zeros_like(m)
        plane = np.zeros((len(bias), self.inputs), np.float32)
        for number in reversed(self.order):
            if number not in held:
                continue
            a, node = held.pop(number), self.graph.nodes[number]
            match node:
                case Input():
                    plane[:, node.start : node.start + node.size] += a
                    continue
                case Affine():
                    maps, constant = self.singles(number)
                    value += a @ constant
                    parts = [one.pull_back(a) for one in maps]
                case Apply():
                    parts = self._through(number, a, phase, m, used, value)
                case _:
                    raise TypeError(f"{node!r} is no node of a graph")
            for source, part in zip(node.sources, parts, strict=True):
                held[source] = held[source] + part if source in held else part
        return used, plane, value

    def _through(self, number: int, a: Single, phase: Phases, m: Single, used: Single, value: Single) -> list[Single]:
        """Coefficients of a function's arguments instead of its values; adds to the constants what the lines do."""
        bent = self.bent[number]
        parts = [a * slope for slope in bent.slope]
        value += a @ bent.intercept
        if not len(bent.index):
            return parts
        c = a[:, bent.index]
        slopes, level = self._line(number, c, m)
        passed = [c * slope for slope in slopes]
        lift = c * level
        for columns in (self.low.get(number), self.high.get(number)):
            if columns is not None:
                used[:, columns] = c
        if bent.decides and (own := phase[:, self.low[number]]).any():
            mine = m[:, self.low[number]]
            passed[0] = np.where(own == 0, passed[0], np.where(own == ACTIVE, c - mine, mine))
            lift = np.where(own == 0, lift, np.float32(0))
        value += lift.sum(axis=1)
        for part, new in zip(parts, passed, strict=True):
            part[:, bent.index] = new
        return parts

    def _line(self, number: int, c: Single, m: Single) -> Mixed:
        """The lower line where a coefficient is positive, the upper one elsewhere."""
        bent = self.bent[number]
        low_slope, low = bent.low.at(m[:, self.low[number]] if number in self.low else c)
        high_slope, high = bent.high.at(m[:, self.high[number]] if number in self.high else c)
        over = c > 0
        return (
            tuple(np.where(over, x, y) for x, y in zip(low_slope, high_slope, strict=True)),
            np.where(over, low, high),
        )

    def _forward(self, x: Single, phase: Phases, m: Single, used: Single) -> tuple[Single, Single]:
        """The derivative of each bound by its multipliers, and what deciding a ReLU promises, by position.

        The lines are followed from the corner of the box where the bound is attained."""
        values: dict[int, Single] = {}
        gradient, gain = np.zeros_like(m), np.zeros_like(m)
        for number in self.order:
            node = self.graph.nodes[number]
            match node:
                case Affine() if number == self.start:
                    break
                case Input():
                    values[number] = x[:, node.start : node.start + node.size]
                case Affine():
                    maps, constant = self.singles(number)
                    total = constant
                    for one, source in zip(maps, node.sources, strict=True):
                        total = one.apply(values[source]) + total
                    values[number] = total
                case Apply():
                    y = [values[source] for source in node.sources]
                    values[number] = self._along(number, y, phase, m, used, gradient, gain)
        return gradient, gain

    def _along(
        self, number: int, y: list[Single], phase: Phases, m: Single, used: Single, gradient: Single, gain: Single
    ) -> Single:
        """What a function's lines give, and its part of the derivatives and of the promises."""
        bent = self.bent[number]
        out = bent.intercept + y[0] * bent.slope[0]
        for slope, one in zip(bent.slope[1:], y[1:], strict=True):
            out = out + slope * one
        if not len(bent.index):
            return np.asarray(out)
        y = [one[:, bent.index] for one in y]
        columns = self.low.get(number, self.high.get(number))
        c = used[:, columns] if columns is not None else np.zeros_like(y[0])
        slopes, level = self._line(number, c, m)
        line = level + sum(slope * one for slope, one in zip(slopes, y, strict=True))
        for side, table, push in ((self.low, bent.low, np.maximum(c, 0)), (self.high, bent.high, np.minimum(c, 0))):
            if number in side:
                rise, lift = table.tilt(m[:, side[number]])
                change = lift + sum(slope * one for slope, one in zip(rise, y, strict=True))
                gradient[:, side[number]] = push * change
        if bent.decides:
            mine = self.low[number]
            own = phase[:, mine]
            saved = np.where(c > 0, c * (np.maximum(y[0], 0) - line), -c * bent.high.intercept[0])
            gain[:, mine] = np.where(own == UNDECIDED, saved, 0)
            if own.any():
                line = np.where(own == 0, line, np.where(own == ACTIVE, y[0], 0))
                gradient[:, mine] = np.where(own == 0, gradient[:, mine], np.where(own == ACTIVE, -y[0], y[0]))
        out[:, bent.index] = line
        return np.asarray(out)

    @np.errstate(all="ignore")
    def rigorous(self, weight: Array, bias: Array, phase: Phases, multipliers: Single) -> Array:
        """Lower bounds of `weight @ value + bias`, row by row, on the part of the box where the decisions hold."""
        if len(bias) > self.at_once:
            parts = [slice(first, first + self.at_once) for first in range(0, len(bias), self.at_once)]
            return np.concatenate([self.rigorous(weight[p], bias[p], phase[p], multipliers[p]) for p in parts])
        known, choices = self._chosen(phase, multipliers)
        bound = planes(self.graph, self.start, weight[:, None], known, choices).least(known.box_lower, known.box_upper)
        found = np.nextafter(bound[:, 0] + bias, -np.inf)
        return np.where(np.isfinite(found), found, -np.inf)

    def _chosen(self, phase: Phases, multipliers: Single) -> tuple[Known, Choices]:
        """What is known of each row's region, and the lines and decisions that its multipliers stand for."""
        rows, lower, upper = len(phase), list(self.known.lower), list(self.known.upper)
        low: dict[int, Array] = {}
        high: dict[int, Array] = {}
        force: dict[int, list[tuple[Array, Array]]] = {}
        for number, bent in self.bent.items():
            for columns, picked in ((self.low, low), (self.high, high)):
                if number in columns:
                    choice = np.full((rows, 1, bent.node.size), 0.5)
                    choice[:, 0, bent.index] = np.clip(multipliers[:, columns[number]], 0.0, 1.0)
                    picked[number] = choice
            if not bent.decides or not (own := phase[:, self.low[number]]).any():
                continue
            source, size = bent.node.sources[0], bent.node.size
            first, last = (np.broadcast_to(ends[source], (rows, size)).copy() for ends in (lower, upper))
            first[:, bent.index] = np.where(own == ACTIVE, np.maximum(first[:, bent.index], 0.0), first[:, bent.index])
            last[:, bent.index] = np.where(own == INACTIVE, np.minimum(last[:, bent.index], 0.0), last[:, bent.index])
            lower[source], upper[source] = first, last
            multiplier = np.zeros((rows, 1, size))
            multiplier[:, 0, bent.index] = own * np.maximum(multipliers[:, self.low[number]].astype(np.float64), 0.0)
            force.setdefault(source, []).append((multiplier, np.zeros((1, size))))
        first, last = (
            np.broadcast_to(end, (rows, self.inputs)) for end in (self.known.box_lower, self.known.box_upper)
        )
        return Known(first, last, lower, upper, self.known.sizes), Choices(low, high, force)


def _rank(promised: Single, found: Climbed) -> None:
    """Note of each row the neurons whose decisions promise most."""
    count = found.promising.shape[1]
    if not count:
        return
    best = np.argpartition(promised, -count, axis=1)[:, -count:]
    gain = np.take_along_axis(promised, best, axis=1)
    order = np.argsort(-gain, axis=1, kind="stable")
    best, gain = np.take_along_axis(best, order, axis=1), np.take_along_axis(gain, order, axis=1)
    found.promising[:] = np.where(gain > 0, best, -1)
    found.neuron[:], found.gain[:] = found.promising[:, 0], np.maximum(gain[:, 0], 0)


def _before(graph: Graph, start: int) -> list[int]:
    """The node and all that it depends on, in order."""
    needed = {start}
    for number in range(start, -1, -1):
        if number in needed:
            needed.update(graph.nodes[number].sources)
    return sorted(needed)


def _moved(
    m: Single, gradient: Single, used: Single, phase: Phases, mean: Single, square: Single, floor: Single, step: int
) -> Single:
    """One step of Adam; choices stay between 0 and 1, the weights of decisions above 0. A decision's weight moves by a
    share of its coefficient, and by no less than `floor`: decisions may contradict each other where the row no longer
    depends on their ReLUs."""
    gradient = np.where(np.isfinite(gradient), gradient, np.float32(0))
    mean *= np.float32(FIRST)
    mean += np.float32(1 - FIRST) * gradient
    square *= np.float32(SECOND)
    square += np.float32(1 - SECOND) * gradient * gradient
    rate = np.float32(RATE * SHORTER**step / (1 - FIRST ** (step + 1)))
    late = np.float32(1 / (1 - SECOND ** (step + 1)))
    change = rate * mean / (np.sqrt(late * square) + np.float32(1e-20))
    if not phase.any():
        return np.asarray(np.clip(m + change, 0, 1))
    decided = phase != UNDECIDED
    change = np.where(decided, change * np.maximum(np.abs(used), floor), change)
    moved = np.maximum(m + change, 0)
    return np.asarray(np.where(decided, moved, np.minimum(moved, 1)))
