"""The product of two computed values."""

from itertools import product

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.function import Arrays, Executed, Function, Lines
from ginnacer_verify.rounding import HUGE, TINY, UNIT, down, up


class Product(Function):
    """`x * y`, bounded by McCormick's planes (Mathematical Programming 10, 1976).

    For planes with any slopes the gap to the product is largest and least at corners of the box, which give the
    intercept. So a convex combination of two planes needs no exact arithmetic."""

    arity = 2
    choices = (True, True)
    executed = Executed(2.0)

    def apply(self, *y: Array) -> Array:
        return y[0] * y[1]

    def derivative(self, *y: Array) -> Arrays:
        return y[1], y[0]

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            corners = np.stack([x * y for x, y in _corners(lower, upper)])
            corners[np.isnan(corners)] = 0.0  # 0 times infinity, where 0 times any number is 0.
            # A computed infinity may be a product that overflows: it is no bound on that side.
            return down(np.minimum(corners.min(axis=0), HUGE)), up(np.maximum(corners.max(axis=0), -HUGE))

    def lines(self, lower: Arrays, upper: Arrays, low: Array | None = None, high: Array | None = None) -> Lines:
        """`low` moves from the plane through the corner of lower ends to the one through that of upper ends; `high`
        from (lower, upper) to (upper, lower). In the middle of the box all are equally good, hence half-way."""
        down_share, up_share = (0.5 if share is None else share for share in (low, high))
        with np.errstate(over="ignore", invalid="ignore"):
            below = _between(lower[1], upper[1], down_share), _between(lower[0], upper[0], down_share)
            above = _between(upper[1], lower[1], up_share), _between(lower[0], upper[0], up_share)
            least = np.stack([_gap(below, *corner, -1) for corner in _corners(lower, upper)]).min(axis=0)
            most = np.stack([_gap(above, *corner, 1) for corner in _corners(lower, upper)]).max(axis=0)
        return Lines(below, np.where(np.isnan(least), -np.inf, least), above, np.where(np.isnan(most), np.inf, most))


def _corners(lower: Arrays, upper: Arrays) -> list[tuple[Array, Array]]:
    return list(product((lower[0], upper[0]), (lower[1], upper[1])))


def _between(start: Array, end: Array, share: Array | float) -> Array:
    return np.asarray((1 - share) * start + share * end)


def _gap(slopes: Arrays, x: Array, y: Array, sign: int) -> Array:
    """x * y less the plane at a corner, outwards by more than its rounding."""
    terms = x * y, slopes[0] * x, slopes[1] * y
    error = (np.abs(terms[0]) + np.abs(terms[1]) + np.abs(terms[2])) * 8 * UNIT + TINY
    return np.asarray(terms[0] - terms[1] - terms[2] + sign * error)
