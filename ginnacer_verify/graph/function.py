"""Functions of one or several values, element by element: how to evaluate, bound and cut them.

A function of k values is given k arrays of one shape, (batch, size) as everywhere. What a bound needs of it are two
affine functions on a box of its arguments, one never above it and one never below. They must hold in real arithmetic
for every real argument between the given ends: whoever computes them charges its own rounding.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.rounding import TINY, UNIT, Arithmetic, down, up

Arrays = tuple[Array, ...]


@dataclass(frozen=True)
class Executed:
    """How far an executed function may be off, in roundings: of its value, of its largest argument, and of 1.

    `single`: whatever the element type, runtimes compute it with constants of float32."""

    value: float = 0.0
    argument: float = 0.0
    constant: float = 0.0
    single: bool = False

    def off(self, arithmetic: Arithmetic, size: Array, largest: Sequence[Array]) -> Array:
        """`size` and `largest` bound the absolute values of the function and of its arguments."""
        if arithmetic.is_real:
            return np.zeros_like(size)
        if self == EXACTLY:
            return np.where(size < arithmetic.largest, 0.0, np.inf)
        unit = max(arithmetic.unit, 2.0**-24 if self.single else 0.0) * (1 + 1e-9)
        lost = unit * (self.value * size + self.constant + arithmetic.floor)
        if self.argument:
            lost = lost + unit * self.argument * np.max(np.stack(largest), axis=0)
        return np.where(size + lost < arithmetic.largest, lost, np.inf)


EXACTLY = Executed()


@dataclass(frozen=True, eq=False)
class Lines:
    """`sum(lower_slope[k] * y[k]) + lower_intercept <= f(y) <= sum(upper_slope[k] * y[k]) + upper_intercept`.

    One array per argument, all of one shape."""

    lower_slope: Arrays
    lower_intercept: Array
    upper_slope: Arrays
    upper_intercept: Array

    def part(self, which: NDArray[np.intp]) -> "Lines":
        """The lines of some boxes of a batch."""
        lower, upper = (tuple(s[which] for s in slopes) for slopes in (self.lower_slope, self.upper_slope))
        return Lines(lower, self.lower_intercept[which], upper, self.upper_intercept[which])


class Function(ABC):
    """Elementwise `f(y_1, ..., y_k)`. A subclass that is told nothing more is cut in the middle of its widest argument.

    `choices` is how many lines there are to choose from below and above: 0 where there is only one sensible line; else
    `lines` takes numbers between 0 and 1 that pick among them."""

    arity = 1
    choices: tuple[bool, bool] = (False, False)
    """Whether there is a choice of the lower and of the upper line."""
    executed = Executed(16.0, 16.0, 16.0)
    """How far it may be off where a network is executed."""
    wanted: tuple[int, ...] | None = None
    """Which arguments deserve tight bounds; None: all."""
    piecewise_linear = False
    """Whether cutting at `cut` a few times leaves only exact lines: then branching ends."""

    cuts: str = ""
    """How whole numbers are made of the arguments, if the value depends on those alone: "floor" or "trunc"."""

    @abstractmethod
    def apply(self, *y: Array) -> Array:
        """The values, in floating point, within ULPS roundings of the exact ones."""

    @abstractmethod
    def derivative(self, *y: Array) -> Arrays:
        """A (sub)gradient for attacks: one array per argument."""

    @abstractmethod
    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """An interval that holds every value on the box of arguments; infinite ends are allowed on both sides."""

    @abstractmethod
    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """The two lines on a box of arguments with finite ends, lower <= upper.

        `low` and `high`, between 0 and 1, choose among the lower and the upper lines where there is a choice; the
        default is what is best on its own. They broadcast against the arguments with new axes in front of the last."""

    def parallel(self, lower: Arrays, upper: Arrays) -> Lines:
        """Two lines of the same slopes on a box of arguments: those of the lower or of the upper line, whichever keeps
        the two closer."""
        lines = self.lines(lower, upper)
        one, other = (_parallel(lines, slopes, lower, upper) for slopes in (lines.lower_slope, lines.upper_slope))
        first = ~(one[1] - one[0] > other[1] - other[0])
        slopes = tuple(np.where(first, a, b) for a, b in zip(lines.lower_slope, lines.upper_slope, strict=True))
        below, above = (np.where(first, a, b) for a, b in zip(one, other, strict=True))
        return Lines(slopes, below, slopes, above)

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """Which argument to cut, and where: strictly between its ends if there is room, NaN if cutting is useless."""
        width = np.stack([high - low for low, high in zip(lower, upper, strict=True)])
        which = width.argmax(axis=0)
        middle = np.stack([low + (high - low) / 2 for low, high in zip(lower, upper, strict=True)])
        at = np.take_along_axis(middle, which[None], axis=0)[0]
        return which, np.where(width.max(axis=0) > 0, at, np.nan)


def first_at(at: Array) -> tuple[Array, Array]:
    """A cut of the only argument."""
    return np.zeros(at.shape, dtype=np.intp), at


def _parallel(lines: Lines, slopes: Arrays, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
    """The least and the largest intercept that lines of other slopes need: they differ most at ends of arguments."""
    below, above = lines.lower_intercept, lines.upper_intercept
    size = np.abs(below) + np.abs(above)
    for k, (slope, left, right) in enumerate(zip(slopes, lower, upper, strict=True)):
        under, over = lines.lower_slope[k] - slope, lines.upper_slope[k] - slope
        below = below + np.minimum(under * left, under * right)
        above = above + np.maximum(over * left, over * right)
        steepest = np.abs(lines.lower_slope[k]) + np.abs(lines.upper_slope[k]) + np.abs(slope)
        size = size + steepest * np.maximum(np.abs(left), np.abs(right))
    error = (4 + 4 * len(slopes)) * UNIT * size + TINY
    return below - error, above + error


class Monotone(Function):
    """A function of one value that never falls."""

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return down(self.apply(*lower), 8), up(self.apply(*upper), 8)


class Relu(Function):
    """`max(y, 0)`."""

    choices = (True, False)
    executed = EXACTLY
    piecewise_linear = True

    def apply(self, *y: Array) -> Array:
        return np.maximum(y[0], 0)

    def derivative(self, *y: Array) -> Arrays:
        return ((y[0] > 0).astype(y[0].dtype),)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return np.maximum(lower[0], 0.0), np.maximum(upper[0], 0.0)

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """The triangle: the chord above, raised to cover both ends after rounding; any line through 0 below."""
        active, unstable = lower[0] >= 0, (lower[0] < 0) & (upper[0] > 0)
        left, right = np.where(unstable, lower[0], -1.0), np.where(unstable, upper[0], 1.0)
        slope = np.clip(right / (right - left), 0.0, 1.0)
        intercept = np.maximum(-slope * left, (1 - slope) * right) * (1 + 8 * UNIT) + TINY
        flat = (right > -left).astype(np.float64) if low is None else low
        return Lines(
            (np.where(unstable, flat, active),),
            np.zeros(unstable.shape),
            (np.where(unstable, slope, active),),
            np.where(unstable, intercept, 0.0),
        )

    def parallel(self, lower: Arrays, upper: Arrays) -> Lines:
        """The chord, and the line through 0 that has its slope."""
        lines = self.lines(lower, upper)
        return Lines(lines.upper_slope, lines.lower_intercept, lines.upper_slope, lines.upper_intercept)

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        unstable = (lower[0] < 0) & (upper[0] > 0)
        return first_at(np.where(unstable, 0.0, np.nan))
