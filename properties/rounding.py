"""From exact bounds to float64: the interval of exactly those float64 values that satisfy them."""

import math
from fractions import Fraction
from typing import TypeAlias

Bound: TypeAlias = tuple[Fraction, bool]
"""A value, and whether it belongs to the interval. The tighter of two upper bounds is their `min`; the same holds for
lower bounds that are kept negated, `-x <= value`, and so are all of ours."""


def nearest_float(value: Fraction) -> float:
    """Infinite where `value` is out of range."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def at_most_float(bound: Bound) -> float:
    """The largest float64 that satisfies an upper bound, by an exact comparison."""
    value, closed = bound
    nearest = nearest_float(value)
    if math.isinf(nearest):
        return math.nextafter(nearest, 0.0) if nearest > 0 else nearest
    numerator, denominator = nearest.as_integer_ratio()
    excess = numerator * value.denominator - value.numerator * denominator
    inside = excess <= 0 if closed else excess < 0
    return nearest if inside else math.nextafter(nearest, -math.inf)


def interval(negated_lower: Bound, upper: Bound) -> tuple[float, float]:
    """The ends of the interval of the float64 values that satisfy both; empty is (larger, smaller).

    The exception is a pin such as `x = 0.1` that no float64 satisfies: it means the float64 that is nearest to it."""
    low, high = -at_most_float(negated_lower), at_most_float(upper)
    if low > high and negated_lower[1] and upper[1] and -negated_lower[0] == upper[0]:
        nearest = nearest_float(upper[0])
        return (nearest, nearest) if math.isfinite(nearest) else (low, high)
    return low + 0.0, high + 0.0  # -0.0 becomes 0.0: equal boxes are then equal bit by bit
