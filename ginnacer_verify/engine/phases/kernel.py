"""The ascent of some rows, from first to last step, in one compiled function; `machine_code` compiles `climb`.

Matrices have one row per bound that is improved. `used`, `phase`, `multipliers` and the like have a column for every
neuron of all layers, those of layer k from `ends[k]` on. Nothing that is computed here is believed, so sums may be
taken in any order; but that order does not depend on how many rows there are."""

from typing import Any

import numpy as np
from numba import carray, njit

ZERO, ONE = np.float32(0.0), np.float32(1.0)
SMALL = np.float32(1e-20)
BLOCK = 32
"""Rows of a matrix that stay in the cache while all rows are multiplied with them."""


def compiled(function: Any) -> Any:
    """Compiled together with the entry that calls it."""
    return njit(nogil=True, fastmath={"contract", "reassoc"}, error_model="numpy")(function)


@compiled
def line_of(matrix, k, width):  # type: ignore[no-untyped-def]
    return matrix[k * width : (k + 1) * width]


@compiled
def product(left, matrix, out, rows, inner, width):  # type: ignore[no-untyped-def]
    """The first columns of `out` become left @ matrix, which is flat."""
    for row in range(rows):
        for i in range(width):
            out[row, i] = ZERO
    for first in range(0, inner, BLOCK):
        last = min(inner, first + BLOCK)
        eights = (last - first) // 8
        for row in range(rows):
            to, values = out[row], left[row]
            for eight in range(eights):
                k = first + 8 * eight
                a, b, c, d = values[k], values[k + 1], values[k + 2], values[k + 3]
                e, f, g, h = values[k + 4], values[k + 5], values[k + 6], values[k + 7]
                ma, mb = line_of(matrix, k, width), line_of(matrix, k + 1, width)
                mc, md = line_of(matrix, k + 2, width), line_of(matrix, k + 3, width)
                me, mf = line_of(matrix, k + 4, width), line_of(matrix, k + 5, width)
                mg, mh = line_of(matrix, k + 6, width), line_of(matrix, k + 7, width)
                for i in range(width):
                    to[i] += (a * ma[i] + b * mb[i] + c * mc[i] + d * md[i]) + (
                        e * me[i] + f * mf[i] + g * mg[i] + h * mh[i]
                    )
            for k in range(first + 8 * eights, last):
                a, ma = values[k], line_of(matrix, k, width)
                for i in range(width):
                    to[i] += a * ma[i]


@compiled
def below(c, phase, multipliers, slope, intercept, bias, out):  # type: ignore[no-untyped-def]
    """From coefficients `c` of what leaves a layer's ReLUs to those of what enters them; returns the constant."""
    given = ZERO
    for i in range(len(c)):
        undecided, positive = phase[i] == 0, c[i] > ZERO
        line = multipliers[i] if positive else slope[i]
        decided = c[i] - multipliers[i] if phase[i] == 1 else (multipliers[i] if phase[i] == -1 else c[i])
        value = c[i] * line if undecided else decided
        constant = c[i] * intercept[i] if undecided and not positive else ZERO
        given += value * bias[i] + constant
        out[i] = value
    return given


@compiled
def least(plane, middle, radius):  # type: ignore[no-untyped-def]
    """The least value of a plane without its constant on the box."""
    value = ZERO
    for i in range(len(plane)):
        value += plane[i] * middle[i] - abs(plane[i]) * radius[i]
    return value


@compiled
def corner_of(plane, middle, radius, x, corner, improved):  # type: ignore[no-untyped-def]
    """The corner of the box where a plane is least; it is remembered if the bound has improved."""
    for i in range(len(plane)):
        x[i] = middle[i] + radius[i] if plane[i] < ZERO else middle[i] - radius[i]
    if improved:
        for i in range(len(plane)):
            corner[i] = plane[i] < ZERO


@compiled
def above(y, c, phase, multipliers, slope, intercept, bias, out):  # type: ignore[no-untyped-def]
    """From what enters a layer's ReLUs, its bias not yet added, to what leaves their lines."""
    for i in range(len(c)):
        value = y[i] + bias[i]
        y[i] = value
        line = multipliers[i] * value if c[i] > ZERO else slope[i] * value + intercept[i]
        decided = ZERO if phase[i] == -1 else value
        out[i] = line if phase[i] == 0 else decided


@compiled
def best_decision(y, c, phase, multipliers, intercept, gain, neuron, first):  # type: ignore[no-untyped-def]
    """The undecided ReLU whose decision saves most: what its line gives away, at this point for the lower line and at
    0 for the upper one. The layer's neurons are numbered from `first` on."""
    for i in range(len(c)):
        lower = c[i] * (max(y[i], ZERO) - multipliers[i] * y[i])
        saved = lower if c[i] > ZERO else -c[i] * intercept[i]
        if phase[i] == 0 and saved > gain:
            gain, neuron = saved, first + i
    return gain, neuron


@compiled
def move(y, c, phase, multipliers, mean, square, floor, rate, early, late, keep, hold):  # type: ignore[no-untyped-def]
    """One step of Adam for the multipliers of a layer, which keeps so much of its means of gradients and of squares.

    `early` and `late` correct the means for having started at 0. A decision's multiplier moves by a share of its ReLU's
    coefficient, and by no less than `floor`: where the row no longer depends on the ReLU, the decisions may still
    contradict each other."""
    for i in range(len(c)):
        slope = c[i] * y[i] if c[i] > ZERO else ZERO
        decided = -y[i] if phase[i] == 1 else (y[i] if phase[i] == -1 else ZERO)
        gradient = slope if phase[i] == 0 else decided
        length = rate if phase[i] == 0 else rate * max(abs(c[i]), floor)
        mean[i] = keep * mean[i] + (ONE - keep) * gradient
        square[i] = hold * square[i] + (ONE - hold) * gradient * gradient
        moved = max(ZERO, multipliers[i] + length * early * mean[i] / (np.sqrt(late * square[i]) + SMALL))
        multipliers[i] = min(ONE, moved) if phase[i] == 0 else moved


@compiled
def set_up(start, weight, best, multipliers, mean, square, used, plane, corner):  # type: ignore[no-untyped-def]
    """A row before its first step: what is wanted of it is in the last columns of `used`, or is the plane itself."""
    for i in range(len(start)):
        best[i] = multipliers[i] = start[i]
        mean[i] = square[i] = ZERO
    at = len(start) - len(weight)
    wanted = plane if len(start) == 0 else used[at:]
    for i in range(len(weight)):
        wanted[i] = weight[i]
    for i in range(len(corner)):
        corner[i] = 0


@compiled
def mean_size(values):  # type: ignore[no-untyped-def]
    total = ZERO
    for i in range(len(values)):
        total += abs(values[i])
    return total / np.float32(max(1, len(values)))


@compiled
def climb_block(network, given, memory, bound, best, gain, neuron, corner, flat):  # type: ignore[no-untyped-def]
    """`climb` for rows that fit into the cache together with all that belongs to them.

    A row is flat when its bound is not above 0 and no decision promises anything where it is best: its lines give
    nothing away there, but its decisions may contradict each other, which the last multipliers have begun to show.
    Then these are kept."""
    sizes, ends, starts, down, up, bias, slope, intercept, middle, radius = network
    weight, constant, phase, steps, rate, shorter, least_rate, keep, hold = given
    multipliers, mean, square, used, plane, x, y, value, improved = memory
    layers, rows, first, second = len(starts), len(bound), ONE, ONE
    for step in range(steps + 1):
        for row in range(rows):
            value[row] = constant[row]
        for k in range(layers - 1, -1, -1):
            before, here, at = sizes[k], sizes[k + 1], slice(ends[k], ends[k + 1])
            for row in range(rows):
                c, lines = used[row, at], (multipliers[row, at], slope[at], intercept[at])
                value[row] += below(c, phase[row, at], *lines, bias[at], x[row])
            matrix = down[starts[k] : starts[k] + here * before]
            if k > 0:
                product(x, matrix, used[:, ends[k - 1] : ends[k]], rows, here, before)
            else:
                product(x, matrix, plane, rows, here, before)
        for row in range(rows):
            value[row] += least(plane[row], middle, radius)
            improved[row] = value[row] > bound[row]
            corner_of(plane[row], middle, radius, x[row], corner[row], improved[row])
            if improved[row]:
                bound[row], gain[row] = value[row], ZERO
                for i in range(len(slope)):
                    best[row, i] = multipliers[row, i]
        for row in range(rows):
            flat[row] = step == steps and bound[row] <= ZERO and gain[row] == ZERO and not improved[row]
            if flat[row]:
                for i in range(len(slope)):
                    best[row, i] = multipliers[row, i]
        first, second = first * keep, second * hold
        early, late = ONE / (ONE - first), ONE / (ONE - second)
        for k in range(layers):
            before, here, at = sizes[k], sizes[k + 1], slice(ends[k], ends[k + 1])
            product(x, up[starts[k] : starts[k] + here * before], y, rows, before, here)
            for row in range(rows):
                known = (y[row], used[row, at], phase[row, at], multipliers[row, at])
                above(*known, slope[at], intercept[at], bias[at], x[row])
                if improved[row] or flat[row]:
                    gain[row], neuron[row] = best_decision(*known, intercept[at], gain[row], neuron[row], ends[k])
                if step < steps:
                    floor = least_rate * mean_size(weight[row])
                    move(*known, mean[row, at], square[row, at], floor, rate, early, late, keep, hold)
        rate *= shorter


def climb(  # type: ignore[no-untyped-def]
    layers, sizes, ends, starts, parameters, neurons, widest, down, up, bias, slope, intercept, middle, radius,
    rows, wanted, weight, constant, phase, start, steps, rate, shorter, least_rate, keep, hold,
    block, multipliers, mean, square, used, plane, x, y, value, improved, bound, best, gain, neuron, corner, flat,
):  # fmt: skip
    """Improve the multipliers of all rows `steps` times, `block` rows after the other.

    The arguments are the network, where the matrix of layer k lies in `down` from `starts[k]` on, and transposed in
    `up`; the rows, with `wanted` coefficients each in `weight`, and `constant`; working memory for a block; and what is
    found: the best bound, its multipliers, the neuron to decide next and the corner where the bound is attained."""
    sizes, ends, starts = carray(sizes, (layers + 1,)), carray(ends, (layers + 1,)), carray(starts, (layers,))
    down, up = carray(down, (parameters,)), carray(up, (parameters,))
    bias, slope, intercept = carray(bias, (neurons,)), carray(slope, (neurons,)), carray(intercept, (neurons,))
    inputs = sizes[0]
    middle, radius = carray(middle, (inputs,)), carray(radius, (inputs,))
    weight, constant = carray(weight, (rows, wanted)), carray(constant, (rows,))
    phase, start, best = carray(phase, (rows, neurons)), carray(start, (rows, neurons)), carray(best, (rows, neurons))
    multipliers, used = carray(multipliers, (block, neurons)), carray(used, (block, neurons))
    mean, square = carray(mean, (block, neurons)), carray(square, (block, neurons))
    plane, corner = carray(plane, (block, inputs)), carray(corner, (rows, inputs))
    x, y = carray(x, (block, widest)), carray(y, (block, widest))
    value, improved, bound = carray(value, (block,)), carray(improved, (block,)), carray(bound, (rows,))
    gain, neuron, flat = carray(gain, (rows,)), carray(neuron, (rows,)), carray(flat, (rows,))
    for at in range(0, rows, block):
        to = min(rows, at + block)
        for row in range(to - at):
            r = at + row
            own = (multipliers[row], mean[row], square[row], used[row], plane[row])
            set_up(start[r], weight[r], best[r], *own, corner[r])
            bound[r], gain[r], neuron[r] = -np.inf, ZERO, -1
        network = (sizes, ends, starts, down, up, bias, slope, intercept, middle, radius)
        given = (weight[at:to], constant[at:to], phase[at:to], steps, rate, shorter, least_rate, keep, hold)
        memory = (multipliers, mean, square, used, plane, x, y, value, improved)
        found = (bound[at:to], best[at:to], gain[at:to], neuron[at:to], corner[at:to], flat[at:to])
        climb_block(network, given, memory, *found)
    return 0
