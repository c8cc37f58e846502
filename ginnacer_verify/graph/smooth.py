"""Smooth functions of one value: sound lines for any of them from its values, derivative and inflections.

A line is sound for whatever slope `s` it has if its intercept is a lower bound of `g(y) = f(y) - s * y` there.
Where f is concave the least value of g is at an end. Where f is convex, `g(y) >= g(p) + g'(p) * (y - p)` for any p;
a good p is found by bisection, but the bound holds for each. What is computed is charged for its rounding, and an
inflection that is no float for the short stretch that it may be in. Upper lines are the lower lines of -f.

The slope decides only how tight a line is. It is that of the convex envelope of f at the chosen point, found on a few
samples and then made exact: the tangent at the point, the tangent through an end, or the chord.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.function import Arrays, Function, Lines
from ginnacer_verify.rounding import TINY, ULPS, UNIT

Mask: TypeAlias = NDArray[np.bool_]

LARGEST = 1e300
"""A computed infinity stands for a real number that is at least as large as this."""
STEEPEST = 1e200
"""Steeper lines are not worth having."""
SAMPLES = 16
POINT = 2.0**-40
"""On intervals that are relatively shorter than this constants are as good as lines, and take no search."""


def middle(low: Array, high: Array) -> Array:
    """The float half-way between two floats, counted in floats: bisection ends after 64 steps on any interval."""
    first, last = _order(low), _order(high)
    return _from_order((first >> 1) + (last >> 1) + (first & last & 1))


def _order(y: Array) -> Any:
    bits = np.ascontiguousarray(y, dtype=np.float64).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _from_order(order: Any) -> Array:
    bits = np.where(order < 0, np.int64(-(2**63)) - order, order)
    return np.asarray(np.ascontiguousarray(bits).view(np.float64))


class Smooth(Function):
    """A function of one value that is convex or concave between a few inflections.

    The errors of `apply` and `slope` are at most `ulps` and `slope_ulps` roundings relatively plus `slack` and
    `slope_slack` times UNIT absolutely. Where a piece ends at a kink, `slope` there is that of the convex side."""

    choices = (True, True)
    least, most = -np.inf, np.inf
    """No value is below or above these."""
    monotone = 0
    """1 if the function never falls, -1 if it never rises."""
    ulps, slack = 2 * ULPS, 0.0
    slope_ulps, slope_slack = 4 * ULPS, 0.0
    points: tuple[float, ...] = ()
    """The inflections, ascending."""
    convex: tuple[bool, ...] = (True,)
    """Whether the function is convex before, between and after them. A straight piece counts as not convex."""
    inexact = 0.0
    """How far an inflection may be from the given float, relatively."""
    curvature = 2.0
    """At least the absolute second derivative near inexact inflections."""

    @abstractmethod
    def slope(self, y: Array) -> Array:
        """The derivative."""

    def derivative(self, *y: Array) -> Arrays:
        with np.errstate(all="ignore"):
            return (self.slope(y[0]),)

    def pieces(self, lower: Array, upper: Array) -> tuple[list[Array], list[Mask]]:
        """The inflections of each interval, ascending, and whether the function is convex between them."""
        return (
            [np.full(lower.shape, point) for point in self.points],
            [np.full(lower.shape, convex) for convex in self.convex],
        )

    def unknown(self, lower: Array, upper: Array) -> Mask:
        """Where nothing is known but `least` and `most`: outside the domain, say."""
        return np.zeros(lower.shape, dtype=bool)

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        finite = np.isfinite(lower[0]) & np.isfinite(upper[0])
        with np.errstate(all="ignore"):
            unknown = self.unknown(lower[0], upper[0]) | (~finite if not self.monotone else np.isnan(lower[0] + 0.0))
            left, right = np.where(unknown, 1.0, lower[0]), np.where(unknown, 1.0, upper[0])
            if self.monotone:
                start, end = (left, right) if self.monotone > 0 else (right, left)
                least, most = self._value(1, start), -self._value(-1, end)
                most = np.where(np.isinf(end) & np.isnan(most), np.inf, most)
            else:
                none = np.zeros(left.shape)
                least, most = (sign * self._intercept(sign, none, left, right, left) for sign in (1, -1))
            least, most = (
                np.where(unknown, bound, values) for bound, values in ((self.least, least), (self.most, most))
            )
        return np.clip(least, self.least, self.most), np.clip(most, self.least, self.most)

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        if bool((upper[0] - lower[0] <= POINT * np.maximum(np.abs(lower[0]), np.abs(upper[0]))).all()):
            least, most = self.range(lower, upper)
            return Lines((np.zeros(lower[0].shape),), least, (np.zeros(lower[0].shape),), most)
        with np.errstate(all="ignore"):
            unknown = self.unknown(lower[0], upper[0])
            left, right = np.where(unknown, 1.0, lower[0]), np.where(unknown, 1.0, upper[0])
            below_slope, below = self._under(1, left, right, low)
            above_slope, above = self._under(-1, left, right, high)
        return Lines(
            (np.where(unknown, 0.0, below_slope),),
            np.where(unknown, self.least, below),
            (np.where(unknown, 0.0, -above_slope),),
            np.where(unknown, self.most, -above),
        )

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """At the inflection nearest to the middle, unless it is near an end; else in the middle."""
        left, right = lower[0], upper[0]
        with np.errstate(all="ignore"):
            half, reach = left / 2 + right / 2, right / 2 - left / 2
            at = np.clip(half, left, right)
            best = 0.8 * reach
            for point in self.pieces(left, right)[0]:
                nearer = np.abs(point - half) < best
                at, best = np.where(nearer, point, at), np.where(nearer, np.abs(point - half), best)
        return np.zeros(left.shape, dtype=np.intp), np.where((at > left) & (at < right), at, np.nan)

    # Lower lines of f (sign 1) and of -f (sign -1).

    def _value(self, sign: int, y: Array) -> Array:
        """A lower bound of the value."""
        value = np.minimum(sign * self.apply(y), LARGEST)
        return np.asarray(value - (np.abs(value) * self.ulps + self.slack) * 2 * UNIT - TINY)

    def _gap(self, sign: int, slope: Array, y: Array) -> Array:
        """A lower bound of f(y) - slope * y."""
        value, product = self._value(sign, y), np.maximum(slope * y, -LARGEST)
        gap = value - product
        return np.asarray(np.minimum(gap - (np.abs(product) * 3 + np.abs(gap) * 2) * UNIT - TINY, LARGEST))

    def _slope_error(self, slope: Array) -> Array:
        return np.asarray((np.abs(slope) * self.slope_ulps + self.slope_slack) * 2 * UNIT + TINY)

    def _intercept(self, sign: int, slope: Array, lower: Array, upper: Array, hint: Array) -> Array:
        """A lower bound of f(y) - slope * y on the interval. `hint` is where the least value may well be."""
        points, convex = self.pieces(lower, upper)
        edges = [lower, *(np.clip(point, lower, upper) for point in points), upper]
        near = []
        for point, edge in zip(points, edges[1:-1], strict=True):
            error = self.inexact * np.abs(point)
            near.append(np.where(np.abs(point - edge) <= 2 * error, 4 * error, 0.0))
        margin = [np.zeros(lower.shape), *near, np.zeros(lower.shape)]
        least = np.minimum(self._gap(sign, slope, lower), self._gap(sign, slope, upper))
        for edge, reach in zip(edges[1:-1], near, strict=True):
            gap = self._gap(sign, slope, edge)
            if self.inexact:
                tilt = sign * self.slope(edge)
                fall = np.abs(tilt - slope) + self._slope_error(tilt) + self.curvature * reach
                gap = gap - np.where(reach > 0, fall * reach * (1 + 8 * UNIT), 0.0)
            least = np.minimum(least, gap)
        for number, bowl in enumerate(convex):
            start, end = edges[number] + margin[number], edges[number + 1] - margin[number + 1]
            inside = np.broadcast_to((bowl if sign > 0 else self._concave(number, bowl)) & (start < end), slope.shape)
            if inside.any():
                start, end, at = (np.broadcast_to(one, slope.shape) for one in (start, end, hint))
                bound = self._bowl(sign, slope, start, end, at, inside)
                least = np.minimum(least, bound)
        return np.where(np.isnan(least), -np.inf, least)

    def _concave(self, number: int, bowl: Mask) -> Mask:
        """Pieces on which -f is convex."""
        return ~bowl

    def _bowl(self, sign: int, slope: Array, start: Array, end: Array, hint: Array, inside: Mask) -> Array:
        """A lower bound of f(y) - slope * y where f is convex; infinite elsewhere."""
        s, a, b, p = slope[inside], start[inside], end[inside], np.clip(hint, start, end)[inside]
        last, first = sign * self.slope(b) <= s, sign * self.slope(a) >= s
        p = np.where(last, b, np.where(first, a, p))
        tilt = sign * self.slope(p) - s
        open_ = (np.abs(tilt) > self._slope_error(s)) & ~last & ~first
        if open_.any():
            target = s[open_]
            p[open_] = _bisect(a[open_], b[open_], lambda y: sign * self.slope(y) < target)
            tilt = sign * self.slope(p) - s
        error = self._slope_error(tilt + s) + (np.abs(tilt) + np.abs(s)) * 2 * UNIT
        falls, rises = np.maximum(error - tilt, 0.0), np.maximum(error + tilt, 0.0)
        loss = np.where(p < b, falls * (b - p), 0.0) + np.where(p > a, rises * (p - a), 0.0)
        gap = self._gap(sign, s, p)
        gap = gap - loss * (1 + 8 * UNIT) - np.abs(gap) * 2 * UNIT - TINY
        bound = np.full(slope.shape, np.inf)
        bound[inside] = np.where(np.isnan(gap), -np.inf, gap)
        return bound

    def _under(self, sign: int, lower: Array, upper: Array, choice: Array | None) -> tuple[Array, Array]:
        """The slope and the intercept of a lower line."""
        share = np.clip(0.5 if choice is None else choice, 0.0, 1.0)
        slope, touch = self._envelope(sign, *np.broadcast_arrays(lower, upper, share))
        slope = np.where(np.abs(slope) <= STEEPEST, slope, 0.0)
        return slope, self._intercept(sign, slope, lower, upper, touch)

    def _envelope(self, sign: int, lower: Array, upper: Array, share: Array) -> tuple[Array, Array]:
        """About the slope of the convex envelope at a share of the interval, and where that line touches f."""
        at = np.clip(lower + share * (upper - lower), lower, upper)
        steps = np.linspace(0.0, 1.0, SAMPLES).reshape(-1, *(1,) * at.ndim)
        y = np.clip(lower * (1 - steps) + upper * steps, lower, upper)
        count = np.arange(SAMPLES).reshape(steps.shape)
        for point in self.pieces(lower, upper)[0]:  # A line may well touch a kink: the nearest sample moves there.
            place = np.clip(np.round((point - lower) / (upper - lower) * (SAMPLES - 1)), 1, SAMPLES - 2)
            y = np.where((count == place) & (point > lower) & (point < upper), point, y)
        f = np.clip(sign * self.apply(y), -LARGEST, LARGEST)
        left = np.clip((y <= at).sum(axis=0) - 1, 0, SAMPLES - 2)
        right, split = left + 1, left
        for _ in range(3):  # The line through a sample on each side, as low as it gets at the point.
            rise = (f - _take(f, left)) / (y - _take(y, left))
            right = np.where((count > split) & ~np.isnan(rise), rise, np.inf).argmin(axis=0)
            right = np.maximum(right, split + 1)
            rise = (_take(f, right) - f) / (_take(y, right) - y)
            left = np.where((count <= split) & ~np.isnan(rise), rise, -np.inf).argmax(axis=0)
            left = np.minimum(left, split)
        y_left, y_right, f_left, f_right = _take(y, left), _take(y, right), _take(f, left), _take(f, right)
        slope, touch = (f_right - f_left) / (y_right - y_left), y_left
        # The tangent at the point, if it is below both samples; everywhere on tiny intervals.
        tangent, value = sign * self.slope(at), sign * self.apply(at)
        below = (value + tangent * (y_left - at) <= f_left) & (value + tangent * (y_right - at) <= f_right)
        tiny = upper - lower <= 2.0**-20 * np.maximum(np.abs(lower), np.abs(upper))
        here = ((below & (right == left + 1)) | tiny) & np.isfinite(tangent)
        slope, touch = np.where(here, tangent, slope), np.where(here, at, touch)
        # The tangent through an end.
        through = ~here & ((left == 0) | (right == SAMPLES - 1))
        if through.any():
            # From end to end it may still dip below the line next to the first one: then the other end is kept.
            dips = (right == SAMPLES - 1) & (sign * self.slope(lower) < slope)
            from_first = (left == 0) & ~dips
            first = from_first[through]
            end = np.where(first, lower[through], upper[through])
            f_end = np.where(first, f[0][through], f[-1][through])
            other = np.where(from_first, right, left)
            start = _take(y, np.maximum(other - 1, 0))[through]
            stop = _take(y, np.minimum(other + 1, SAMPLES - 1))[through]

            def before(p: Array) -> Mask:
                """Whether the tangent point is beyond p."""
                turn = sign * self.slope(p) * (p - end) - (sign * self.apply(p) - f_end)
                return np.asarray(np.where(first, turn < 0, turn > 0))

            p = _bisect(start, stop, before)
            chord = (sign * self.apply(p) - f_end) / (p - end)
            tangent = sign * self.slope(p)
            chord = np.where(np.isnan(chord), slope[through], chord)
            slope[through] = np.where(np.abs(tangent - chord) <= 1e-6 * np.abs(chord), tangent, chord)
            touch[through] = p
        return slope, touch


def _bisect(low: Array, high: Array, beyond: Callable[[Array], Mask]) -> Array:
    """Where `beyond` turns false."""
    for _ in range(64):
        half = middle(low, high)
        right = beyond(half)
        low, high = np.where(right, half, low), np.where(right, high, half)
    return high


def _take(values: Array, index: Any) -> Array:
    return np.asarray(np.take_along_axis(values, index[None], axis=0)[0])
