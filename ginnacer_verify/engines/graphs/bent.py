"""The lines of a function on one box, in float32, as tables to choose from: to guess with, never to prove."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.engines.phases.ascent import Single
from ginnacer_verify.graph.function import Arrays, Function, Relu
from ginnacer_verify.graph.graph import Apply

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Choices at which the lines of a function are tabulated; between two of them, lines are mixed."""
Indices = NDArray[np.intp]
Mixed = tuple[tuple[Single, ...], Single]
"""The slopes by argument, and the intercept, of a line for each row and element."""


@dataclass(frozen=True, eq=False)
class Table:
    """Lines for growing choices from 0 to 1: slopes (choices, arguments, elements), intercepts (choices, elements)."""

    slope: Single
    intercept: Single

    @property
    def free(self) -> bool:
        """Whether there is anything to choose."""
        return len(self.slope) > 1

    def at(self, choice: Single) -> Mixed:
        """The line that each row chooses for each element."""
        if not self.free:
            return tuple(self.slope[0]), self.intercept[0]
        if len(self.slope) == 2:
            rise, lift = self.slope[1] - self.slope[0], self.intercept[1] - self.intercept[0]
            return (
                tuple(first + choice * one for first, one in zip(self.slope[0], rise, strict=True)),
                self.intercept[0] + choice * lift,
            )
        last = len(self.slope) - 1
        weight = [np.maximum(0, 1 - np.abs(choice * np.float32(last) - np.float32(k))) for k in range(last + 1)]
        return self._sum(weight, self.slope, self.intercept)

    def tilt(self, choice: Single) -> Mixed:
        """How the line changes with the choice."""
        last = len(self.slope) - 1
        rise, lift = np.diff(self.slope, axis=0) * np.float32(last), np.diff(self.intercept, axis=0) * np.float32(last)
        if last == 1:
            return tuple(rise[0]), lift[0]
        place = np.clip(np.floor(choice * np.float32(last)), 0, last - 1)
        return self._sum([(place == k).astype(np.float32) for k in range(last)], rise, lift)

    @staticmethod
    def _sum(weight: list[Single], slope: Single, intercept: Single) -> Mixed:
        slopes = [
            sum((w * one for w, one in zip(weight, slope[:, k], strict=True)), np.float32(0))
            for k in range(slope.shape[1])
        ]
        level = sum((w * one for w, one in zip(weight, intercept, strict=True)), np.float32(0))
        return tuple(np.asarray(one) for one in slopes), np.asarray(level)


@dataclass(frozen=True, eq=False)
class Bent:
    """A function on one box: `index` are the elements on which no line is exact, `slope` and `intercept` the lines of
    all others (0 for the elements of `index`). Only ReLUs are decided."""

    node: Apply
    slope: tuple[Single, ...]
    intercept: Single
    index: Indices
    low: Table
    high: Table
    low_start: Single
    high_start: Single

    @property
    def decides(self) -> bool:
        return isinstance(self.node.function, Relu)

    @classmethod
    @np.errstate(all="ignore")
    def of(cls, node: Apply, known: Known, decided: Sequence[int] = ()) -> "Bent":
        """Decided elements have multipliers of their own even where their decisions have left exact lines."""
        lower, upper = (tuple(end[0] for end in ends) for ends in known.ends(node.sources))
        loose = ~np.isnan(node.function.cut(lower, upper)[1])
        loose[np.asarray(decided, np.intp)] = True
        index = np.flatnonzero(loose)
        lines = node.function.lines(lower, upper)
        slope = tuple(one.astype(np.float32) for one in lines.lower_slope)
        intercept = lines.lower_intercept.astype(np.float32)
        for one in (*slope, intercept):
            one[index] = 0.0
        lower, upper = tuple(end[index] for end in lower), tuple(end[index] for end in upper)
        function = _of_elements(node.function, index)
        low, low_start = _table(function, lower, upper, 1)
        high, high_start = _table(function, lower, upper, -1)
        return cls(node, slope, intercept, index, low, high, low_start, high_start)


def _of_elements(function: Function, index: Indices) -> Function:
    """The function of some elements only, where it holds numbers of its own for each of them."""
    from dataclasses import fields, is_dataclass, replace

    if not is_dataclass(function):
        return function
    own = {field.name: getattr(function, field.name) for field in fields(function) if field.init}
    chosen = {name: np.asarray(value)[index] for name, value in own.items() if np.ndim(value)}
    return replace(function, **chosen) if chosen else function


def _table(function: Function, lower: Arrays, upper: Arrays, sign: int) -> tuple[Table, Single]:
    """The lower (sign 1) or upper lines on intervals, and the choice that is best in their middles."""
    free, size = function.choices[0 if sign > 0 else 1], lower[0].shape
    slopes, levels, heights = [], [], []
    for choice in GRID if free else (0.5,):
        picked = np.full(size, choice) if free else None
        lines = function.lines(lower, upper, picked if sign > 0 else None, picked if sign < 0 else None)
        slope, level = (
            (lines.lower_slope, lines.lower_intercept) if sign > 0 else (lines.upper_slope, lines.upper_intercept)
        )
        slopes.append(np.stack(slope))
        levels.append(level)
        middle = (one * (low / 2 + high / 2) for one, low, high in zip(slope, lower, upper, strict=True))
        heights.append(sign * (level + sum(middle)))
    start = _best(np.stack(heights)) if free else np.full(size, 0.5, np.float32)
    steep, level = np.stack(slopes), np.stack(levels)
    if free and _straight(steep) and _straight(level):
        steep, level = steep[[0, -1]], level[[0, -1]]
    return Table(steep.astype(np.float32), level.astype(np.float32)), start


def _best(height: Array) -> Single:
    """The choice with the highest line; the one in the middle, where others are hardly better."""
    most, half = height.max(axis=0), height[len(GRID) // 2]
    near = half >= most - 1e-6 * (np.abs(most) + np.abs(half))
    return np.where(near, 0.5, np.asarray(GRID)[height.argmax(axis=0)]).astype(np.float32)


def _straight(values: Array) -> bool:
    """Whether what belongs to the grid grows evenly along it."""
    share = np.asarray(GRID).reshape(-1, *[1] * (values.ndim - 1))
    even = (1 - share) * values[0] + share * values[-1]
    return bool((np.abs(even - values) <= 1e-6 * (1e-30 + np.abs(values[0]) + np.abs(values[-1]))).all())
