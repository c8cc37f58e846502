"""The trace of an input through a network, to about twice the precision of float64. Importing this imports numba.

A value is carried as `high + low`. Each sum of products is the compensated one of Ogita, Rump and Oishi ("Accurate Sum
and Dot Product", Dot2): before its last rounding it is off by at most gamma(n)**2 times the sum of the absolute values.
"""

from dataclasses import dataclass

import numpy as np

from ginnacer_verify.bounds import TINY, absolute, gamma
from ginnacer_verify.network import Array, Layer, Network, read_only
from ginnacer_verify.packing import Integers, compiled
from ginnacer_verify.strategies import compressed

SPLITTER = 2.0**27 + 1


@dataclass(frozen=True, eq=False)
class Trace:
    """The pre-activations y of each layer, and how far the real ones can be from `y` beyond its own last digit."""

    y: tuple[Array, ...]
    error: tuple[Array, ...]


def accurate_trace(network: Network, x: Array) -> Trace:
    """Each y is the real value rounded once; `error` is what the doubled precision itself can be off, and is tiny."""
    high, low, values, errors = x, np.zeros(len(x)), [], []
    for layer in network.layers:
        values.append(_affine(layer, high, low))
        with np.errstate(over="ignore", invalid="ignore"):
            size = absolute(layer.weight) @ np.abs(high) + np.abs(layer.bias)
        errors.append(8 * gamma(layer.inputs + 4) ** 2 * size + TINY)
        active = values[-1][0] > 0
        high, low = (np.where(active, part, 0.0) for part in values[-1])
    return Trace(tuple(read_only(y) for y, _ in values), tuple(read_only(error) for error in errors))


def _affine(layer: Layer, high: Array, low: Array) -> tuple[Array, Array]:
    columns = np.flatnonzero(high)
    return affine(*compressed(layer.weight, columns), layer.bias, high[columns], low[columns])


@compiled
def affine(
    start: Integers, column: Integers, value: Array, bias: Array, high: Array, low: Array
) -> tuple[Array, Array]:
    """W (high + low) + bias, as a rounded value and what the rounding left."""
    y_high, y_low = np.empty(len(bias)), np.empty(len(bias))
    for i in range(len(bias)):
        total, rest = bias[i], 0.0
        for p in range(start[i], start[i + 1]):
            w, x = value[p], high[column[p]]
            product = w * x
            lost = product_error(w, x, product)
            new = total + product
            part = new - total
            rest += lost + ((total - (new - part)) + (product - part)) + w * low[column[p]]
            total = new
        y_high[i] = total + rest
        y_low[i] = rest - (y_high[i] - total)
    return y_high, y_low


@compiled
def product_error(a: float, b: float, product: float) -> float:
    """a * b - product, exactly (Dekker)."""
    big, other = SPLITTER * a, SPLITTER * b
    a_high, b_high = big - (big - a), other - (other - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
