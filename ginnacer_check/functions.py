"""The functions that are not linear, element by element, and lines around them.

A line with any slopes is sound with the right level: the extreme of `f(y) - slopes * y` on a box of arguments. It is
found among a few points: the corners of the box, kinks, and points where f' is the slope. `Function.line` does that for
all functions alike; each of them says its values and these points. What proofs consist of most is written out: ReLU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ginnacer_check.maps import Array, exactly

TINY = 1e-290
ROUNDING, MARGIN = 16 * 2.0**-53, 1e-12
"""What a gap may be off, relative to the most that is added up in one: of rational functions, and of others. numpy's
values are a few units in the last place off; where a point is off, the gap is so to second order only, since the slope
of f there is that of the line."""
Arrays = tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Line:
    """`slopes * y + level`, one slope for each argument; there is no line where it is `gone`."""

    slopes: Arrays
    level: Array
    gone: Array


def corners(_: Arrays, lows: Arrays, highs: Arrays) -> list[Arrays]:
    return list(product(*zip(lows, highs, strict=True)))


def inner(*places: Callable[[Array], Array]) -> Any:
    """Both ends of the argument, and where a slope says there may be an extreme, moved to between the ends."""

    def points(slopes: Arrays, lows: Arrays, highs: Arrays) -> list[Arrays]:
        found = (place(slopes[0]) for place in places)
        moved = (np.clip(np.where(np.isnan(one), lows[0], one), lows[0], highs[0]) for one in found)
        return [*corners(slopes, lows, highs), *((one,) for one in moved)]

    return points


def even(place: Callable[[Array], Array]) -> Any:
    """The same for an even derivative: the place and its negative."""
    return inner(place, lambda s: -place(s))


def turning(*places: Callable[[Array], Array]) -> Any:
    """The same for a function of period 2 pi, on no more than one period."""

    def points(slopes: Arrays, lows: Arrays, highs: Arrays) -> list[Arrays]:
        first = np.floor(lows[0] / (2 * np.pi))
        every = [lambda s, p=p, k=k: p(s) + 2 * np.pi * (first + k) for p in places for k in range(-1, 3)]
        return list(inner(*every)(slopes, lows, highs))

    return points


def steps(_: Arrays, lows: Arrays, highs: Arrays) -> list[Arrays]:
    """Both ends, and the first and the last whole number between them."""
    whole = (np.clip(one, lows[0], highs[0]) for one in (np.ceil(lows[0]), np.floor(highs[0])))
    return [(one,) for one in (lows[0], highs[0], *whole)]


def leaning(_: Arrays, lows: Arrays, highs: Arrays) -> list[Arrays]:
    """Of g and d: corners, and where the lines `g = 0` and `g = d` meet edges and each other."""
    (a, _x, p), (b, _x, q) = lows, highs
    pairs = [(a, p), (a, q), (b, p), (b, q), (0, p), (0, q), (p, p), (q, q), (a, a), (b, b), (0, 0)]
    return [(np.clip(g, a, b), np.clip(d, p, q)) for g, d in pairs]


@dataclass(frozen=True, eq=False)
class Function:
    """`values` are one function of the arguments, or the limits from both sides of one that jumps. `points`: where on a
    box, for which slopes, its distance from a line may be extreme. `rational`: fractions in, fractions out. `defined`:
    on which intervals all of that is so. All values are in `span`."""

    name: str
    values: tuple[Callable[..., Array], ...]
    points: Callable[[Arrays, Arrays, Arrays], list[Arrays]] = corners
    rational: bool = False
    defined: Callable[[Array, Array], Array] = lambda low, high: low <= high
    span: tuple[float, float] = (-np.inf, np.inf)

    def range(self, lows: Arrays, highs: Arrays) -> tuple[Array, Array]:
        """An interval around all values."""
        if self in (RELU, TWIN):
            return np.maximum(lows[0], 0.0), np.maximum(highs[0], 0.0)
        flat = tuple(0.0 * np.nan_to_num(one) for one in lows)
        below, above = (self.line(sign, flat, lows, highs, False) for sign in (1, -1))
        return np.where(below.gone, self.span[0], below.level), np.where(above.gone, self.span[1], above.level)

    def lines(self, lows: Arrays, highs: Arrays, chosen: Any, exact: bool) -> tuple[Line, Line]:
        """A line below and one above: with slopes that were chosen, else with those that are best on their own."""
        if self is RELU:
            return _relu_lines(lows[0], highs[0], chosen, exact)
        below, above = chosen or self.slopes(lows, highs)
        return self.line(1, below, lows, highs, exact), self.line(-1, above, lows, highs, exact)

    def slopes(self, lows: Arrays, highs: Arrays) -> tuple[Arrays, Arrays]:
        """Of lower and of upper lines: the chord's, the middle plane's of a product, or those that lean on the twin."""
        if self is PRODUCT:
            middle = tuple(np.nan_to_num(0.5 * lows[k] + 0.5 * highs[k]) for k in (1, 0))
            return middle, middle
        if self is TWIN:
            (a, _x, p), (b, _x, q) = lows, highs
            share, zero = np.nan_to_num(np.clip(q / (q - p), 0.0, 1.0)), 0.0 * a
            leans = (a < 0) & (b > 0) & (np.maximum(q, -p) < np.minimum(b, -a))
            below, above = _relu_lines(a, b, None, False)
            own = ((below.slopes[0], zero, zero), (above.slopes[0], zero, zero))
            twin = ((zero, zero + 1, 1 - share), (zero, zero + 1, share))
            both = [
                tuple(np.where(leans, *pair) for pair in zip(t, o, strict=True)) for t, o in zip(twin, own, strict=True)
            ]
            return both[0], both[1]
        low, high = lows[0], highs[0]
        rise = self.values[-1](high) - self.values[0](low)
        chord = np.where(self.defined(low, high), np.nan_to_num(rise / (high - low), posinf=0.0, neginf=0.0), 0.0)
        return (chord,), (chord,)

    def line(self, sign: int, slopes: Arrays, lows: Arrays, highs: Arrays, exact: bool) -> Line:
        """The highest line with these slopes that is not above the function (sign 1), the lowest not below it (-1)."""
        gone = ~(np.isfinite(sum(lows) + sum(highs)) & self.defined(lows[0], highs[0]))
        lows, highs = (tuple(np.where(gone, 1.0, one) for one in ends) for ends in (lows, highs))
        calculated, gaps, sizes = exact and self.rational, [], []
        number_of = exactly if calculated else np.asarray
        for point in self.points(slopes, lows, highs):
            y = [number_of(one) for one in point]
            y = [y[0], np.maximum(y[0] - y[1], 0), y[1]] if self is TWIN else y
            parts = [number_of(s) * one for s, one in zip(slopes, y, strict=True)]
            for value in self.values:
                gaps.append(sign * (value(*y) - sum(parts)))
                sizes.append(abs(value(*y)) + sum(map(abs, parts)))
        level = np.minimum.reduce(gaps)
        if calculated:
            return Line(slopes, sign * level, gone)
        level = sign * (level - (ROUNDING if self.rational else MARGIN) * np.maximum.reduce(sizes) - TINY)
        gone = gone | ~np.isfinite(level)
        level = np.where(gone, 0.0, level)
        return Line(slopes, exactly(level) if exact else level, gone)


def _relu_lines(low: Array, high: Array, chosen: Array, exact: bool) -> tuple[Line, Line]:
    """`slope * y <= relu(y) <= chord * y + top` on [low, high]: any slope, any chord in [0, 1] with this top."""
    both, active = (low < 0) & (high > 0), (low >= 0).astype(float)
    gone = both & ~np.isfinite(high - low)
    left, right = np.where(both & ~gone, low, -1.0), np.where(both & ~gone, high, 1.0)
    chord, slope = np.clip(right / (right - left), 0.0, 1.0), (high > -low) if chosen is None else chosen
    number_of, one = (exactly, 1) if exact else (np.asarray, 1.0)
    a = number_of(chord)
    top = np.maximum(-a * number_of(left), (one - a) * number_of(right))
    top = top if exact else top * (1 + ROUNDING) + TINY
    below = Line((np.where(both, slope, active),), 0 * a, both & False)
    return below, Line((np.where(both, chord, active),), np.where(both & ~gone, top, 0 * a), gone)


RELU = Function("Relu", (lambda y: np.maximum(y, 0),), rational=True)
TWIN = Function("Twin", (lambda g, x, d: np.maximum(g, 0),), leaning, rational=True)
"""relu(g), where x is relu(g - d): how a ReLU of one network leans on one of another."""
PRODUCT = Function("Product", (lambda x, y: x * y,), rational=True)
"""For any slopes the gap is bilinear, so it is extreme at corners."""
SQUARE = Function("Square", (lambda y: y * y,), inner(lambda s: s / 2), rational=True)
FUNCTIONS = {one.name: one for one in (
    RELU, TWIN, PRODUCT, SQUARE,
    Function("Reciprocal", (lambda y: 1 / y,), even(lambda s: 1 / np.sqrt(-s)),
             defined=lambda low, high: (low > 0) | (high < 0)),
    Function("Sigmoid", (lambda y: 1 / (1 + np.exp(-y)),), even(lambda s: 2 * np.arccosh(0.5 / np.sqrt(s))),
             span=(0, 1)),
    Function("Tanh", (np.tanh,), even(lambda s: np.arccosh(1 / np.sqrt(s))), span=(-1, 1)),
    Function("Exp", (np.exp,), inner(np.log), span=(0, np.inf)),
    Function("Log", (np.log,), inner(lambda s: 1 / s), defined=lambda low, high: low > 0),
    Function("Sqrt", (np.sqrt,), inner(lambda s: 0.25 / s**2), defined=lambda low, high: low >= 0, span=(0, np.inf)),
    Function("Sin", (np.sin,), turning(np.arccos, lambda s: -np.arccos(s)),
             defined=lambda low, high: high - low < 6, span=(-1, 1)),
    Function("Cos", (np.cos,), turning(lambda s: np.arcsin(-s), lambda s: np.pi - np.arcsin(-s)),
             defined=lambda low, high: high - low < 6, span=(-1, 1)),
    Function("Floor", (lambda y: np.ceil(y) - 1, np.floor), steps),
    Function("Sign", (lambda y: np.where(y > 0, 1.0, -1.0), lambda y: np.where(y < 0, -1.0, 1.0), np.sign),
             inner(lambda s: 0 * s), span=(-1, 1)),
)}  # fmt: skip
