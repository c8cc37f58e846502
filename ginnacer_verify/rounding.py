"""The one error analysis: how far computed sums, products and functions can be from those of real arithmetic.

A computed sum of n products, in whatever order and with or without fused operations, is off by at most gamma(n) times
the sum of their absolute values (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), plus what underflow
takes from each product. Every bound that proves anything is widened by that much.
"""

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
