"""Functions with jumps: Sign, Floor, Truncate, and what compares values: Equal, ArgMax."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.function import EXACTLY, Arrays, Function, Lines, first_at
from ginnacer_verify.rounding import TINY, UNIT

STEEPEST = 1e12
"""The lines of a jump are no steeper than this, however near the jump the interval ends."""


class Flat(Function):
    """A function that is flat but for its jumps: the lines are its least and its largest value."""

    executed = EXACTLY

    def derivative(self, *y: Array) -> Arrays:
        return tuple(np.zeros(one.shape) for one in y)

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        least, most = self.range(lower, upper)
        none = (np.zeros(least.shape),) * self.arity
        return Lines(none, least, none, most)


class Sign(Function):
    """-1, 0 or 1. On an interval that holds 0 and more, no line is exact: cuts are next to 0, which leaves two exact
    parts and a sliver around 0 on which the values are only known to be between -1 and 1."""

    executed = EXACTLY
    choices = (True, True)

    def apply(self, *y: Array) -> Array:
        return np.sign(y[0])

    def derivative(self, *y: Array) -> Arrays:
        """What attacks see in the place of 0: the slope of `y / (1 + 2 |y| / s)` with s the mean of |y|, so that values
        next to the jump count most and none is without a say."""
        size = np.abs(y[0])
        scale = size.mean(axis=-1, keepdims=True) + TINY
        return (1.0 / (scale * (1.0 + 2.0 * size / scale) ** 2),)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return np.sign(lower[0]), np.sign(upper[0])

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """Below, through -1 at 0 (or through 0, if the interval starts there) and at most 1 at the end; above
        likewise."""
        lo, hi = lower[0], upper[0]
        first, last = np.sign(lo), np.sign(hi)
        with np.errstate(all="ignore"):
            below = np.where((lo <= 0) & (hi > 0), np.minimum((1 - first) * (1 - 4 * UNIT) / hi, STEEPEST), 0.0)
            above = np.where((lo < 0) & (hi >= 0), np.minimum((last + 1) * (1 - 4 * UNIT) / -lo, STEEPEST), 0.0)
        low = (hi >= -lo).astype(np.float64) if low is None else low
        high = (hi <= -lo).astype(np.float64) if high is None else high
        return Lines((below * low,), first, (above * high,), last)

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        lo, hi = lower[0], upper[0]
        at = np.where((lo < 0) & (hi > 0), 0.0, np.nan)
        at = np.where((lo < -TINY) & (hi > -TINY) & (hi >= 0), -TINY, at)
        return first_at(np.where((lo <= 0) & (hi > TINY), TINY, at))


class Floor(Function):
    """The largest whole number that is not above y."""

    executed = EXACTLY
    choices = (True, True)
    cuts = "floor"

    def apply(self, *y: Array) -> Array:
        return np.asarray(np.floor(y[0]))

    def derivative(self, *y: Array) -> Arrays:
        return (np.zeros(y[0].shape),)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return self.apply(lower[0]), self.apply(upper[0])

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """Between the least value and y - 1 below, between the largest value and y above."""
        first, last = np.floor(lower[0]), np.floor(upper[0])
        steps = last > first
        wide = (last - first > 1).astype(np.float64)
        low, high = (np.where(steps, wide if one is None else one, 0.0) for one in (low, high))
        below, above = (1 - low) * first - low, (1 - high) * last
        return Lines(
            (low,),
            np.where(low == 0, first, np.where(low == 1, -1.0, below - (np.abs(first) + 1) * 8 * UNIT)),
            (high,),
            np.where(high == 0, last, np.where(high == 1, 0.0, above + np.abs(last) * 8 * UNIT)),
        )

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """At the step nearest to the middle; just below it, if the interval ends there."""
        lo, hi = lower[0], upper[0]
        with np.errstate(invalid="ignore"):
            at = np.clip(np.round(lo / 2 + hi / 2), np.floor(lo) + 1, np.floor(hi))
        at = np.where(at == hi, np.nextafter(hi, -np.inf), at)
        return first_at(np.where((at > lo) & (at < hi), at, np.nan))


@dataclass(frozen=True)
class Truncate(Floor):
    """The whole number next to y in the direction of 0: what a cast to an integer keeps of what is below `limit`; of
    anything else it is not known."""

    limit: float = np.inf
    cuts = "trunc"

    def apply(self, *y: Array) -> Array:
        return np.where(np.abs(y[0]) < self.limit, np.trunc(y[0]), np.nan)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        held = self._held(lower, upper)
        return np.where(held, np.trunc(lower[0]), -np.inf), np.where(held, np.trunc(upper[0]), np.inf)

    def _held(self, lower: Arrays, upper: Arrays) -> NDArray[np.bool_]:
        return np.asarray((lower[0] > -self.limit) & (upper[0] < self.limit))

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """Those of the floor on one side of 0 and of its mirror image on the other; across 0 the two values."""
        lo, hi = lower[0], upper[0]
        right = super().lines((np.maximum(lo, 0.0),), (np.maximum(hi, 0.0),), low, high)
        left = super().lines((np.maximum(-hi, 0.0),), (np.maximum(-lo, 0.0),), high, low)
        inside, mirrored = lo >= 0, hi <= 0

        held = self._held(lower, upper)

        def one_of(first: Array, second: Array, across: Array | float, unknown: float) -> Array:
            return np.where(held, np.where(inside, first, np.where(mirrored, second, across)), unknown)

        return Lines(
            (one_of(right.lower_slope[0], left.upper_slope[0], 0.0, 0.0),),
            one_of(right.lower_intercept, -left.upper_intercept, np.trunc(lo), -np.inf),
            (one_of(right.upper_slope[0], left.lower_slope[0], 0.0, 0.0),),
            one_of(right.upper_intercept, -left.lower_intercept, np.trunc(hi), np.inf),
        )

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """As the floor's, mirrored below 0; at 0, if that is inside and there is a step on either side."""
        lo, hi = lower[0], upper[0]
        right, left = super().cut(lower, upper)[1], super().cut((-hi,), (-lo,))[1]
        across = np.where(np.trunc(hi) > np.trunc(lo), 0.0, np.nan)
        return first_at(np.where(lo >= 0, right, np.where(hi <= 0, -left, across)))


class Equal(Flat):
    """1 where two values are the same, 0 elsewhere."""

    arity = 2

    def apply(self, *y: Array) -> Array:
        return np.asarray(y[0] == y[1], dtype=np.float64)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        meet = np.maximum(*lower) <= np.minimum(*upper)
        same = meet & (lower[0] == upper[0]) & (lower[1] == upper[1])
        return same.astype(np.float64), meet.astype(np.float64)

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        which, at = super().cut(lower, upper)
        least, most = self.range(lower, upper)
        return which, np.where(most > least, at, np.nan)


@dataclass(frozen=True)
class ArgMax(Flat):
    """The number of the largest of `count` values, the first of several, from the differences of all pairs.

    The arguments are `y_i - y_j` for `i < j`, in order: their bounds are tighter than differences of bounds."""

    count: int = 2

    @property
    def arity(self) -> int:  # type: ignore[override]
        return self.count * (self.count - 1) // 2

    def apply(self, *y: Array) -> Array:
        return np.asarray(np.argmax(self._winners(y, y), axis=0), dtype=np.float64)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        possible = self._winners(lower, upper)
        last = self.count - 1 - np.argmax(possible[::-1], axis=0)
        some = possible.any(axis=0)  # none on an empty region
        return np.where(some, np.argmax(possible, axis=0), 0.0), np.where(some, last, self.count - 1.0)

    def _winners(self, lower: Arrays, upper: Arrays) -> NDArray[np.bool_]:
        """Which of the values can be the one, an array each."""
        shape = np.broadcast_shapes(*(one.shape for one in upper))
        possible = np.ones((self.count, *shape), dtype=np.bool_)
        for (i, j), low, high in zip(combinations(range(self.count), 2), lower, upper, strict=True):
            possible[i] &= ~(high < 0)
            possible[j] &= ~(low >= 0)
        return possible

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """The widest difference of two values that both can be the largest, where one begins to win; then next to it,
        as for Sign: of several largest values the first one counts."""
        lo, hi = np.stack(np.broadcast_arrays(*lower)), np.stack(np.broadcast_arrays(*upper))
        possible = self._winners(lower, upper)
        both = np.stack([possible[i] & possible[j] for i, j in combinations(range(self.count), 2)])
        at = np.where((lo < -TINY) & (hi >= 0), -TINY, np.where((lo < 0) & (hi > 0), 0.0, np.nan))
        at = np.where(both & (lo < at) & (at < hi), at, np.nan)
        which = np.where(np.isnan(at), -1.0, hi - lo).argmax(axis=0)
        return which, np.asarray(np.take_along_axis(at, which[None], axis=0)[0])
