"""Elementary functions of one value: exponentials, powers, waves."""

from dataclasses import dataclass

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.function import Executed
from ginnacer_verify.graph.smooth import Mask, Smooth
from ginnacer_verify.rounding import UNIT


def sigmoid(y: Array) -> Array:
    e = np.exp(-np.abs(y))
    return np.asarray(np.where(y >= 0, 1.0, e) / (1 + e))


class Sigmoid(Smooth):
    """`1 / (1 + exp(-y))`."""

    executed = Executed(16.0, 0.0, 16.0)
    least, most, monotone = 0.0, 1.0, 1
    points, convex = (0.0,), (True, False)

    def apply(self, *y: Array) -> Array:
        return sigmoid(y[0])

    def slope(self, y: Array) -> Array:
        e = np.exp(-np.abs(y))
        return np.asarray(e / (1 + e) ** 2)


class Tanh(Smooth):
    """`tanh(y)`."""

    executed = Executed(16.0, 0.0, 16.0)
    least, most, monotone = -1.0, 1.0, 1
    points, convex = (0.0,), (True, False)

    def apply(self, *y: Array) -> Array:
        return np.tanh(y[0])

    def slope(self, y: Array) -> Array:
        e = np.exp(-2 * np.abs(y))
        return np.asarray(4 * e / (1 + e) ** 2)


class Exp(Smooth):
    """`exp(y)`."""

    executed = Executed(16.0)
    choices = (True, False)
    least, monotone = 0.0, 1

    def apply(self, *y: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(y[0])

    def slope(self, y: Array) -> Array:
        return self.apply(y)


class Log(Smooth):
    """`log(y)`; nothing is known of it on an interval that reaches 0 or below."""

    executed = Executed(16.0, 0.0, 2.0)
    choices = (False, True)
    monotone = 1
    convex = (False,)

    def apply(self, *y: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(y[0])

    def slope(self, y: Array) -> Array:
        return np.asarray(1 / y)

    def unknown(self, lower: Array, upper: Array) -> Mask:
        return ~(lower > 0)


class Sqrt(Smooth):
    """`sqrt(y)`; nothing is known of it on an interval that reaches below 0."""

    executed = Executed(2.0)
    choices = (False, True)
    monotone = 1
    least = 0.0
    convex = (False,)

    def apply(self, *y: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return np.sqrt(y[0])

    def slope(self, y: Array) -> Array:
        return np.asarray(0.5 / np.sqrt(y))

    def unknown(self, lower: Array, upper: Array) -> Mask:
        return ~(lower >= 0)


@dataclass(frozen=True)
class Power(Smooth):
    """`y ** exponent`. Whole exponents take any y, but for negative ones nothing is known around 0; other exponents
    take y >= 0, or y > 0 if they are negative."""

    executed = Executed(16.0)
    exponent: float

    def __post_init__(self) -> None:
        if self.exponent == 0 or not np.isfinite(self.exponent):
            raise ValueError(f"Power takes a finite exponent other than 0, not {self.exponent}")

    @property
    def whole(self) -> bool:
        return float(self.exponent).is_integer()

    @property
    def odd(self) -> bool:
        return self.whole and self.exponent % 2 == 1

    def apply(self, *y: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.power(y[0], float(self.exponent))

    def slope(self, y: Array) -> Array:
        return np.asarray(self.exponent * np.power(y, self.exponent - 1.0))

    def pieces(self, lower: Array, upper: Array) -> tuple[list[Array], list[Mask]]:
        bowl = not 0 < self.exponent < 1
        convex = [np.full(lower.shape, bowl and not self.odd), np.full(lower.shape, bowl)]
        return [np.zeros(lower.shape)], convex

    def unknown(self, lower: Array, upper: Array) -> Mask:
        across = (lower <= 0) & (upper >= 0) if self.exponent < 0 else np.zeros(lower.shape, dtype=bool)
        return across if self.whole else across | (lower < 0)


class Square(Power):
    """`y * y`."""

    executed = Executed(2.0)
    choices = (True, False)
    least = 0.0

    def __init__(self) -> None:
        super().__init__(2.0)

    def apply(self, *y: Array) -> Array:
        with np.errstate(over="ignore"):
            return y[0] * y[0]

    def slope(self, y: Array) -> Array:
        return 2 * y


class Reciprocal(Power):
    """`1 / y`; nothing is known of it on an interval that holds 0."""

    executed = Executed(2.0)

    def __init__(self) -> None:
        super().__init__(-1.0)

    def apply(self, *y: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(1 / y[0])

    def slope(self, y: Array) -> Array:
        return np.asarray(-1 / y / y)


class SoftmaxReciprocal(Reciprocal):
    """`1 / y` where y is one plus the sum of `exp(x_j - x_i)`: what a runtime gets as `exp(x_i - m) / sum`.

    Its exponents are off by a rounding of themselves, of which those that matter are at most 104, and there are `terms`
    of them to add up."""

    def __init__(self, terms: int) -> None:
        super().__init__()
        object.__setattr__(self, "executed", Executed(256.0 + 2 * terms, 0.0, 2.0))


class SoftmaxLog(Log):
    """`log(y)` of the same sum, for LogSoftmax: `x_i - m - log(sum)` in a runtime."""

    def __init__(self, terms: int) -> None:
        self.executed = Executed(16.0, 0.0, 256.0 + 2 * terms)


class Sin(Smooth):
    """`sin(y)`; only -1 and 1 bound it on intervals longer than a period or far out."""

    executed = Executed(16.0, 0.0, 16.0)
    least, most = -1.0, 1.0
    slack, slope_slack = 8.0, 8.0
    inexact, curvature = 8 * UNIT, 1.0
    shift = 0.0

    def apply(self, *y: Array) -> Array:
        return np.sin(y[0])

    def slope(self, y: Array) -> Array:
        return np.cos(y)

    def pieces(self, lower: Array, upper: Array) -> tuple[list[Array], list[Mask]]:
        """The inflections are `(k + shift) * pi`. One before the interval is among the four, lest rounding hides it."""
        first = np.floor(lower / np.pi - self.shift)
        convex = [(first + number) % 2 == (0 if self.shift else 1) for number in range(-1, 4)]
        return [(first + number + self.shift) * np.pi for number in range(4)], convex

    def unknown(self, lower: Array, upper: Array) -> Mask:
        return ~((upper - lower <= 6.28) & (np.maximum(np.abs(lower), np.abs(upper)) <= 1e6))


class Cos(Sin):
    """`cos(y)`; only -1 and 1 bound it on intervals longer than a period or far out."""

    shift = 0.5

    def apply(self, *y: Array) -> Array:
        return np.cos(y[0])

    def slope(self, y: Array) -> Array:
        return np.asarray(-np.sin(y))
