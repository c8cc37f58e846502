"""From exact bounds to float64: the least interval around them, and that of exactly those values that satisfy them."""

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


def at_least_float(value: Fraction) -> float:
    """The smallest float64 that is not below `value`; infinite where `value` is out of range."""
    return -at_most_float((-value, True))


Ends: TypeAlias = tuple[float, float]


def interval(negated_lower: Bound, upper: Bound) -> tuple[Ends, Ends]:
    """The ends of the least float64 interval with every real number that satisfies both, and of the interval of the
    float64 values that do; empty is (larger, smaller).

    The first counts strict bounds as closed, and it is empty only if no real number satisfies both. A closed pin such
    as `x = 0.1` means the float64 that is nearest to it."""
    low, high = -negated_lower[0], upper[0]
    if low == high and negated_lower[1] and upper[1] and math.isfinite(nearest := nearest_float(high) + 0.0):
        return (nearest, nearest), (nearest, nearest)
    # + 0.0 makes 0.0 of -0.0: equal boxes are then equal bit by bit
    inner = (-at_most_float(negated_lower) + 0.0, at_most_float(upper) + 0.0)
    if low > high or (low == high and not (negated_lower[1] and upper[1])):
        return inner, inner
    return (-at_least_float(negated_lower[0]) + 0.0, at_least_float(high) + 0.0), inner
