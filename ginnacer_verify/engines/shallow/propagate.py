"""Propagation: what the rows, the neurons and the inputs of a region say about each other's intervals.

Everything here keeps all unsafe inputs of a region and only drops others: a row that must be at most 0 bounds each of
its neurons when all the others are at their best; a neuron's interval bounds each input likewise; and the half-space
of a decided neuron bounds every other neuron by a Lagrange multiplier. Every bound is moved outwards by its rounding.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.engines.shallow.bound import planes, within
from ginnacer_verify.engines.shallow.problem import Regions, Shallow
from ginnacer_verify.rounding import TINY, gamma

ROUNDS = 3
"""How often rows, neurons and inputs are propagated in turn."""
MULTIPLIERS = (0.25, 0.5, 1.0, 2.0)
"""Tried for a half-space, in units in which it moves as far as the neuron that it bounds."""
MOST = 4_000_000
"""So many numbers are held for one step; larger batches are taken in pieces."""
Mask = NDArray[np.bool_]


@np.errstate(all="ignore")
def propagated(problem: Shallow, regions: Regions) -> tuple[Regions, Mask]:
    """The regions with tighter intervals, and which of them hold no unsafe input at all."""
    empty = np.zeros(len(regions), dtype=np.bool_)
    for _ in range(ROUNDS):
        regions = _neurons(problem, regions)
        regions, refuted = _rows(problem, regions)
        regions = _inputs(problem, _planes(problem, regions))
        empty |= refuted | (regions.low > regions.high).any(axis=1) | (regions.lower > regions.upper).any(axis=1)
    return _neurons(problem, regions), empty


def _neurons(problem: Shallow, regions: Regions) -> Regions:
    """Intervals of the neurons from those of the inputs."""
    middle, radius = _around(regions)
    weight = problem.weight
    spread = radius @ np.abs(weight).T
    size = np.abs(middle) @ np.abs(weight).T + spread + np.abs(problem.bias)
    spread = spread + 2 * gamma(weight.shape[1] + 8) * size + TINY
    y = middle @ weight.T + problem.bias
    return replace(regions, low=np.fmax(regions.low, y - spread), high=np.fmin(regions.high, y + spread))


def _around(regions: Regions) -> tuple[Array, Array]:
    """Middles and radii of the boxes; a box that is empty has none that matter."""
    middle = regions.lower + (regions.upper / 2 - regions.lower / 2)
    radius = np.maximum(np.maximum(regions.upper - middle, middle - regions.lower), 0.0)
    return middle, radius * (1 + gamma(4))


def _rows(problem: Shallow, regions: Regions) -> tuple[Regions, Mask]:
    """Each row must be at most 0, so no neuron may exceed what is left when all the others are at their best."""
    low, high = regions.low.copy(), regions.high.copy()
    refuted = np.zeros(len(regions), dtype=np.bool_)
    for row, constant, error in zip(problem.rows, problem.constant, problem.error, strict=True):
        least, most = np.maximum(low, 0.0), np.maximum(high, 0.0)
        terms = np.where(row > 0, row * least, row * most)
        slop = gamma(len(row) + 8) * (np.abs(row) @ most.T + abs(constant)) + error + TINY
        room = 2 * slop - (terms.sum(axis=1) + constant)
        refuted |= room < 0
        spare = np.maximum(room, 0.0)[:, None] / np.abs(row) * (1 + gamma(8))
        high = np.where(row > 0, np.fmin(high, least + spare + 1e-15 * least), high)
        needed = most - spare - 1e-15 * most
        low = np.where((row < 0) & (needed > 0), np.fmax(low, needed), low)
    return replace(regions, low=low, high=high), refuted


def _planes(problem: Shallow, regions: Regions) -> Regions:
    """Boxes clipped by a plane below each row: chords and decided neurons know what intervals have forgotten."""
    nothing, slope = np.zeros_like(regions.force), (regions.high > -regions.low).astype(np.float64)
    for share in np.eye(len(problem.constant)):
        alone = np.broadcast_to(share, regions.share.shape)
        below = planes(problem, replace(regions, slope=slope, force=nothing, share=alone))
        regions = within(regions, below)
    return regions


def _inputs(problem: Shallow, regions: Regions) -> Regions:
    """Intervals of the inputs from those of the neurons, which rows and decisions may have tightened."""
    if len(regions) > (step := max(1, MOST // problem.weight.size)):
        parts = [_inputs(problem, regions[i : i + step]) for i in range(0, len(regions), step)]
        return Regions.joined(parts)
    weight = problem.weight
    middle, radius = _around(regions)
    spread = radius @ np.abs(weight).T
    size = np.abs(middle) @ np.abs(weight).T + spread + np.abs(problem.bias)
    slop = 2 * gamma(weight.shape[1] + 8) * size + TINY
    y = middle @ weight.T + problem.bias
    below = (regions.high - (y - spread) + slop)[:, :, None]
    above = (y + spread - regions.low + slop)[:, :, None]
    steep = np.abs(weight)
    fall, rise = np.maximum(below, 0.0) / steep, np.maximum(above, 0.0) / steep
    up = np.where(weight > 0, fall, rise).min(axis=1) * (1 + gamma(4))
    down = np.where(weight > 0, rise, fall).min(axis=1) * (1 + gamma(4))
    upper = np.fmin(regions.upper, _outwards(regions.lower + up, 1))
    lower = np.fmax(regions.lower, _outwards(regions.upper - down, -1))
    return replace(regions, lower=lower, upper=upper)


def _outwards(values: Array, sign: int) -> Array:
    return np.asarray(values + sign * (gamma(4) * np.abs(values) + TINY))


@np.errstate(all="ignore")
def clipped(problem: Shallow, regions: Regions, neuron: NDArray[np.intp], side: Array) -> Regions:
    """Every neuron bounded on the half-space `side * (y - end) >= 0` of one neuron in each region, just decided there.

    For any multiplier m >= 0: y_k <= max over the box of y_k + m side (y - end), which a box makes a sum."""
    if len(regions) > (step := max(1, MOST // problem.weight.size)):
        pieces = [slice(i, i + step) for i in range(0, len(regions), step)]
        return Regions.joined([clipped(problem, regions[one], neuron[one], side[one]) for one in pieces])
    weight, bias = problem.weight, problem.bias
    middle, radius = _around(regions)
    own, at = weight[neuron] * side[:, None], np.arange(len(regions))
    end = np.where(side > 0, regions.low[at, neuron], -regions.high[at, neuron])
    offset = bias[neuron] * side - end
    spread = radius @ np.abs(weight).T
    size = np.abs(middle) @ np.abs(weight).T + spread + np.abs(bias)
    y, half = middle @ weight.T + bias, (own * middle).sum(axis=1) + offset
    low, high = regions.low, regions.high
    for multiplier in MULTIPLIERS:
        m = multiplier * spread / np.maximum(spread[at, neuron], TINY)[:, None]
        reach = m * (size[at, neuron] + np.abs(end))[:, None] + size
        slop = 4 * gamma(weight.shape[1] + 16) * reach + TINY
        moved = m[:, :, None] * own[:, None]
        up = (np.abs(weight + moved) * radius[:, None]).sum(axis=2)
        down = (np.abs(weight - moved) * radius[:, None]).sum(axis=2)
        high = np.fmin(high, y + m * half[:, None] + up + slop)
        low = np.fmax(low, y - m * half[:, None] - down - slop)
    return replace(regions, low=low, high=high)
