"""Functions made of straight pieces: LeakyRelu, Clip, Absolute, Maximum, Minimum."""

from dataclasses import dataclass

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.function import EXACTLY, Arrays, Executed, Function, Lines, first_at
from ginnacer_verify.rounding import HUGE, TINY, UNIT, down, up


@dataclass(frozen=True, eq=False)
class LeakyRelu(Function):
    """`y` above 0 and `alpha * y` below, for any finite alpha: one, or one per element (PRelu)."""

    alpha: float | Array = 0.01
    executed = Executed(2.0)
    piecewise_linear = True

    def __post_init__(self) -> None:
        if not np.isfinite(self.alpha).all():
            raise ValueError("LeakyRelu takes a finite alpha")

    @property
    def choices(self) -> tuple[bool, bool]:  # type: ignore[override]
        return bool(np.any(np.less(self.alpha, 1))), bool(np.any(np.greater(self.alpha, 1)))

    def apply(self, *y: Array) -> Array:
        return np.where(y[0] >= 0, y[0], self.alpha * y[0])

    def derivative(self, *y: Array) -> Arrays:
        return (np.where(y[0] >= 0, 1.0, self.alpha),)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        across = np.where((lower[0] < 0) & (upper[0] > 0), 0.0, np.nan)
        least, most = across, across
        with np.errstate(over="ignore", invalid="ignore"):
            for y in (lower[0], upper[0]):
                low = np.where(np.equal(self.alpha, 0), 0.0, self.alpha * y)
                least = np.fmin(least, np.where(y >= 0, y, down(np.minimum(low, HUGE))))
                most = np.fmax(most, np.where(y >= 0, y, up(np.maximum(low, -HUGE))))
        return least, most

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """Any line through 0 between the slopes on the side where it bends; the chord on the other one."""
        left, right = lower[0], upper[0]
        alpha = np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), left.shape)
        across, bowl = (left < 0) & (right > 0), alpha <= 1
        stable = np.where(left >= 0, 1.0, alpha)
        lo, hi = np.where(across, left, -1.0), np.where(across, right, 1.0)
        least, most = np.minimum(alpha, 1.0), np.maximum(alpha, 1.0)
        chord = np.clip((hi - alpha * lo) / (hi - lo), least, most)
        raised = np.maximum(np.abs((alpha - chord) * lo), np.abs((1 - chord) * hi)) * (1 + 8 * UNIT) + TINY

        def through(choice: Array | None) -> Array:
            best = np.where(hi > -lo, 1.0, alpha)
            return best if choice is None else np.clip(alpha + choice * (1 - alpha), least, most)

        none = np.zeros(left.shape)
        return Lines(
            (np.where(across, np.where(bowl, through(low), chord), stable),),
            np.where(across & ~bowl, -raised, none),
            (np.where(across, np.where(bowl, chord, through(high)), stable),),
            np.where(across & bowl, raised, none),
        )

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return first_at(np.where((lower[0] < 0) & (upper[0] > 0), 0.0, np.nan))


class Absolute(LeakyRelu):
    """`|y|`: the leaky ReLU whose lower branch rises."""

    executed = EXACTLY

    def __init__(self) -> None:
        super().__init__(-1.0)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        left, right = np.abs(lower[0]), np.abs(upper[0])
        across = (lower[0] <= 0) & (upper[0] >= 0)
        return np.where(across, 0.0, np.minimum(left, right)), np.maximum(left, right)


@dataclass(frozen=True, eq=False)
class Clip(Function):
    """`min(max(y, low), high)`; the ends are numbers or one per element, and may be infinite."""

    low: float | Array = -np.inf
    high: float | Array = np.inf
    choices = (True, True)
    executed = EXACTLY
    piecewise_linear = True

    def __post_init__(self) -> None:
        if not np.less_equal(self.low, self.high).all():
            raise ValueError("Clip takes a low end that is at most the high one")

    def apply(self, *y: Array) -> Array:
        return np.minimum(np.maximum(y[0], self.low), self.high)

    def derivative(self, *y: Array) -> Arrays:
        return (((y[0] >= self.low) & (y[0] <= self.high)).astype(np.float64),)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return self.apply(lower[0]), self.apply(upper[0])

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """Below, through the lower kink with any slope up to that of the line to the last value, or the chord if that
        kink is outside; above likewise."""
        lo, hi = lower[0], upper[0]
        same = (lo >= self.low) & (hi <= self.high)
        flat = (hi <= self.low) | (lo >= self.high)
        start, end = np.clip(self.low, lo, hi), np.clip(self.high, lo, hi)
        with np.errstate(all="ignore"):
            rise = self.apply(hi) - self.apply(lo)
            below, above = np.clip(rise / (hi - start), 0.0, 1.0), np.clip(rise / (end - lo), 0.0, 1.0)
            if low is None:
                low = (hi - start > start - lo).astype(np.float64)
            if high is None:
                high = (end - lo > hi - end).astype(np.float64)
            below = np.where(np.isnan(below), 0.0, below) * np.where(lo < self.low, low, 1.0)
            above = np.where(np.isnan(above), 0.0, above) * np.where(hi > self.high, high, 1.0)
            gaps = [(self.apply(y), y) for y in (lo, start, end, hi)]
            least = np.minimum.reduce([f - below * y - (np.abs(f) + np.abs(below * y)) * 4 * UNIT for f, y in gaps])
            most = np.maximum.reduce([f - above * y + (np.abs(f) + np.abs(above * y)) * 4 * UNIT for f, y in gaps])
        value = self.apply(lo)
        return Lines(
            (np.where(flat, 0.0, np.where(same, 1.0, below)),),
            np.where(flat, value, np.where(same, 0.0, least - TINY)),
            (np.where(flat, 0.0, np.where(same, 1.0, above)),),
            np.where(flat, value, np.where(same, 0.0, most + TINY)),
        )

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """At the kink inside that is nearer to the middle."""
        lo, hi = lower[0], upper[0]
        kinks = np.stack([np.where((end > lo) & (end < hi), end, np.nan) for end in (self.low, self.high)])
        far = np.abs(kinks - (lo / 2 + hi / 2))
        return first_at(np.where(np.isnan(far[0]) | (far[1] < far[0]), kinks[1], kinks[0]))


@dataclass(frozen=True)
class Maximum(Function):
    """The largest of `arity` values."""

    arity: int = 2
    executed = EXACTLY
    choices = (True, True)

    def apply(self, *y: Array) -> Array:
        return np.asarray(np.maximum.reduce(y))

    def derivative(self, *y: Array) -> Arrays:
        which = np.argmax(np.stack(y), axis=0)
        return tuple((which == number).astype(np.float64) for number in range(len(y)))

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return self.apply(*lower), self.apply(*upper)

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """Below, the argument with the largest middle; `low` moves towards the second. Above, with any m that is at
        least every lower end, `m + sum(max(y - m, 0))`, each term below its chord; `high` moves m from the least one
        to the largest value."""
        lo, hi = np.stack(np.broadcast_arrays(*lower)), np.stack(np.broadcast_arrays(*upper))
        best = np.argmax(lo, axis=0)
        others = np.where(_is(best, self.arity), -np.inf, hi).max(axis=0)
        alone = lo.max(axis=0) >= others
        return self._join(self._below(lo, hi, best, alone, low), self._above(lo, hi, best, alone, high))

    def _join(self, below: tuple[Array, Array], above: tuple[Array, Array]) -> Lines:
        return Lines(tuple(below[0]), below[1], tuple(above[0]), above[1])

    def _below(self, lo: Array, hi: Array, best: Array, alone: Array, low: Array | None) -> tuple[Array, Array]:
        order = np.argsort(-(lo / 2 + hi / 2), axis=0, kind="stable")
        first, second = np.where(alone, best, order[0]), order[min(1, self.arity - 1)]
        share = np.round((0.0 if low is None else np.clip(low, 0, 1)) * np.ones(alone.shape) * 2.0**20) / 2.0**20
        share = np.where(
            alone | (first == second), 0.0, share
        )  # A multiple of 2 ** -20: the shares add up to exactly 1.
        slopes = _is(first, self.arity, share.ndim) * (1 - share) + _is(second, self.arity, share.ndim) * share
        return slopes, np.zeros(share.shape)

    def _above(self, lo: Array, hi: Array, best: Array, alone: Array, high: Array | None) -> tuple[Array, Array]:
        least, most = lo.max(axis=0), hi.max(axis=0)
        if high is None:
            third = np.sort(hi, axis=0)[-3] if self.arity > 2 else least
            m = np.maximum(least, third)
        else:
            m = np.clip(least + high * (most - least), least, most)
        lo, hi = (one.reshape(self.arity, *(1,) * (m.ndim - alone.ndim), *alone.shape) for one in (lo, hi))
        over = hi > m
        with np.errstate(all="ignore"):
            slopes = np.where(over, np.clip((hi - m) / (hi - lo), 0.0, 1.0), 0.0)
            left, right = -slopes * lo, (hi - m) - slopes * hi
        raised = np.where(over, np.maximum(left, right), 0.0)
        size = np.where(over, np.abs(slopes * lo) + np.abs(hi) + np.abs(m) + np.abs(slopes * hi), 0.0).sum(
            axis=0
        ) + np.abs(m)
        intercept = m + raised.sum(axis=0) + size * (4 * (self.arity + 4) * UNIT) + TINY
        slopes = np.where(alone, _is(best, self.arity, m.ndim).astype(np.float64), slopes)
        return slopes, np.where(alone, 0.0, intercept)

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """In the middle of the widest argument that can be the largest."""
        lo, hi = np.stack(lower), np.stack(upper)
        best = np.argmax(lo, axis=0)
        others = np.where(_is(best, self.arity), -np.inf, hi).max(axis=0)
        width = np.where(hi > lo.max(axis=0), hi - lo, 0.0)
        which = width.argmax(axis=0)
        with np.errstate(invalid="ignore"):
            at = np.take_along_axis(lo / 2 + hi / 2, which[None], axis=0)[0]
        inside = (at > np.take_along_axis(lo, which[None], axis=0)[0]) & (
            at < np.take_along_axis(hi, which[None], axis=0)[0]
        )
        return which, np.where(inside & (lo.max(axis=0) < others), at, np.nan)


class Minimum(Maximum):
    """The least of `arity` values."""

    def apply(self, *y: Array) -> Array:
        return np.asarray(np.minimum.reduce(y))

    def derivative(self, *y: Array) -> Arrays:
        return super().derivative(*(-one for one in y))

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """Those of the negated largest negated value."""
        one = super().lines(tuple(-hi for hi in upper), tuple(-lo for lo in lower), high, low)
        return Lines(one.upper_slope, -one.upper_intercept, one.lower_slope, -one.lower_intercept)

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        which, at = super().cut(tuple(-hi for hi in upper), tuple(-lo for lo in lower))
        return which, -at


def _is(which: Array, count: int, ndim: int | None = None) -> Array:
    """One array per argument: whether it is the one."""
    ndim = which.ndim if ndim is None else ndim
    number = np.arange(count).reshape(-1, *(1,) * ndim)
    return np.asarray(number == which)
