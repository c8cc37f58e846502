"""The one error analysis: how far computed sums, products and functions can be from those of real arithmetic.

A computed sum of n products, in whatever order and with or without fused operations, is off by at most gamma(n) times
the sum of their absolute values (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), plus what underflow
takes from each product. Every bound that proves anything is widened by that much.
"""

from dataclasses import dataclass

import numpy as np

from ginnacer_verify.arrays import Array

UNIT = 2.0**-53
TINY = 1e-290
"""Far above what underflow can lose in any sum of values, far below anything that decides a property."""
UNDERFLOW = 2.0**-1070
"""Above what underflow can lose in one product. A lost coefficient costs as much times the value it belongs to."""
HUGE = 1e300
"""Values beyond this count as overflowing: differences and products of a few of them may be infinite."""
ULPS = 8
"""Elementary functions of numpy's and the C library's are off by at most so many units of rounding, relatively; the
worst that is known of any of them is below 4."""


def gamma(terms: int) -> float:
    """How much of the sum of absolute values a computed sum of `terms` products can be off."""
    return terms * UNIT / (1 - terms * UNIT)


def down(values: Array, ulps: int = 1) -> Array:
    """Values that are lower by at least `ulps` roundings of themselves."""
    return np.asarray(values - (np.abs(values) * (ulps * 2 * UNIT) + TINY))


def up(values: Array, ulps: int = 1) -> Array:
    """Values that are higher by at least `ulps` roundings of themselves."""
    return np.asarray(values + (np.abs(values) * (ulps * 2 * UNIT) + TINY))


@dataclass(frozen=True)
class Arithmetic:
    """The numbers that a network is executed in: `unit` is half of what the next number after 1 is larger by. Executed
    values beyond `largest` are nothing one can rely on, and up to it underflow takes at most `least` from a sum.
    The unit of real arithmetic is 0.

    Executed, a sum of products is off by `off(roundings, size)` in whatever order it is taken, with or without fused
    operations. `largest` is far below what overflows: so the weights that a runtime makes out of several, of a layer
    and the factors behind it, may underflow as well and take no more than `least` from a sum of a million products."""

    name: str
    unit: float = 0.0
    largest: float = float("inf")
    least: float = 0.0

    @property
    def is_real(self) -> bool:
        return self.unit == 0

    def share(self, roundings: int) -> float:
        """What part of the sum of absolute values is lost at most: gamma(roundings) in this arithmetic."""
        lost = roundings * self.unit
        return lost / (1 - lost) * (1 + 1e-12) if lost < 0.5 else float("inf")

    @property
    def floor(self) -> float:
        """Added to a size, it makes its share cover what underflow takes as well."""
        return 0.0 if self.is_real else 4 * self.least / self.unit

    def off(self, roundings: int, size: Array) -> Array:
        """How far executed sums are from those of real arithmetic; `size` bounds their sums of absolute values."""
        if self.is_real or not roundings:
            return np.zeros_like(size)
        share = self.share(roundings)
        lost = share * (size + self.floor)
        return np.where(size + lost < self.largest, lost, np.inf)


REAL = Arithmetic("real")
FLOATS = {
    "float16": Arithmetic("float16", 2.0**-11, 65504.0, 2.0**-14),
    "float32": Arithmetic("float32", 2.0**-24, 2.0**40, 2.0 ** (40 + 20 - 126)),
    "float64": Arithmetic("float64", 2.0**-53, 2.0**400, 2.0 ** (400 + 20 - 1022)),
}
"""By the names of element types; float16 is taken to be executed layer by layer."""
OVERFLOW = {"float16": 65504.0, "float32": 2.0**127, "float64": 1e300}
"""What weights that are made out of several must be below."""
