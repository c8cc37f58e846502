"""The trace of an input through a network, to about twice the precision of float64.

A value is carried as `high + low`. Each sum of products is the compensated one of Ogita, Rump and Oishi ("Accurate Sum
and Dot Product", Dot2): before its last rounding it is off by at most gamma(n)**2 times the sum of the absolute values.
"""

from dataclasses import dataclass

import numpy as np

from ginnacer_verify.abstraction.partitioning.first_fit import Integers
from ginnacer_verify.abstraction.partitioning.strategies import compressed
from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.bounds.chain import absolute
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.rounding import TINY, gamma

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


def output_rounding(network: Network, trace: Trace) -> Array:
    """How far the network can be from the one whose trace at the centroid is exactly ours, wherever the input is.

    Layer by layer: the error of the trace, plus that of the layer's inputs times |W|, since a ReLU never enlarges a
    difference; at the end the last digit of the output."""
    difference = np.zeros(network.inputs)
    with np.errstate(over="ignore", invalid="ignore"):
        for layer, error in zip(network.layers, trace.error, strict=True):
            sums = np.asarray(absolute(layer.weight) @ difference) + error
            difference = sums * (1 + gamma(2 * layer.inputs + 8))
    total = (difference + gamma(4) * np.abs(trace.y[-1])) * (1 + gamma(8)) + TINY
    return read_only(np.where(np.isnan(total), np.inf, total))


def _affine(layer: Layer, high: Array, low: Array) -> tuple[Array, Array]:
    columns = np.flatnonzero(high)
    return affine(*compressed(layer.weight, columns), layer.bias, high[columns], low[columns])


@np.errstate(over="ignore", invalid="ignore")
def affine(
    start: Integers, column: Integers, value: Array, bias: Array, high: Array, low: Array
) -> tuple[Array, Array]:
    """W (high + low) + bias, as a rounded value and what the rounding left. All rows go on by one term at a time."""
    total, rest, lengths = bias.copy(), np.zeros(len(bias)), np.diff(start)
    order = np.argsort(-lengths, kind="stable")
    left = np.searchsorted(-lengths[order], -np.arange(1, lengths.max(initial=0) + 1), side="right")
    for term, count in enumerate(left):
        rows = slice(count) if lengths.min() == lengths.max() else order[:count]
        p = start[:-1][rows] + term
        w, x = value[p], high[column[p]]
        product = w * x
        new = total[rows] + product
        part = new - total[rows]
        rounded = (total[rows] - (new - part)) + (product - part)
        rest[rows] += product_error(w, x, product) + rounded + w * low[column[p]]
        total[rows] = new
    y_high = total + rest
    return y_high, rest - (y_high - total)


def product_error(a: Array, b: Array, product: Array) -> Array:
    """a * b - product, exactly (Dekker)."""
    big, other = SPLITTER * a, SPLITTER * b
    a_high, b_high = big - (big - a), other - (other - b)
    a_low, b_low = a - a_high, b - b_high
    return np.asarray(((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)
