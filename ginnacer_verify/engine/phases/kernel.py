"""The elementwise part of the ascent, one pass over a layer each; `machine_code` compiles these.

Matrices have one row per bound that is improved. `phase`, `multipliers` and the like have a column for every neuron of
all layers, the layer's own from `first` on; coefficients and values have one for each neuron of the layer."""

import numpy as np
from numba import carray

ZERO, ONE = np.float32(0.0), np.float32(1.0)
SMALL = np.float32(1e-20)


def down(  # type: ignore[no-untyped-def]
    first, rows, width, neurons, coefficients, phase, multipliers, slope, intercept, constant, out
):
    """From coefficients of what leaves a layer's ReLUs to coefficients of what enters them."""
    coefficients, out = carray(coefficients, (rows, width)), carray(out, (rows, width))
    phase, multipliers = carray(phase, (rows, neurons)), carray(multipliers, (rows, neurons))
    slope, intercept, constant = carray(slope, (neurons,)), carray(intercept, (neurons,)), carray(constant, (rows,))
    for row in range(rows):
        given = ZERO
        for i in range(width):
            c, p, multiplier = coefficients[row, i], phase[row, first + i], multipliers[row, first + i]
            if p == 0:
                if c > ZERO:
                    out[row, i] = c * multiplier
                else:
                    out[row, i] = c * slope[first + i]
                    given += c * intercept[first + i]
            elif p == 1:
                out[row, i] = c - multiplier
            elif p == -1:
                out[row, i] = multiplier
            else:
                out[row, i] = c
        constant[row] += given
    return 0


def up(  # type: ignore[no-untyped-def]
    first, rows, width, neurons, y, coefficients, phase, multipliers, slope, intercept, improved, best, gain, neuron
):
    """From what enters a layer's ReLUs to what leaves their lines, in place; rows that improved are remembered.

    Deciding an undecided ReLU saves what its line gives away: at this point for the lower line, at 0 for the upper."""
    coefficients, y = carray(coefficients, (rows, width)), carray(y, (rows, width))
    phase, multipliers = carray(phase, (rows, neurons)), carray(multipliers, (rows, neurons))
    slope, intercept, best = carray(slope, (neurons,)), carray(intercept, (neurons,)), carray(best, (rows, neurons))
    improved, gain, neuron = carray(improved, (rows,)), carray(gain, (rows,)), carray(neuron, (rows,))
    for row in range(rows):
        for i in range(width):
            c, p, value = coefficients[row, i], phase[row, first + i], y[row, i]
            multiplier = multipliers[row, first + i]
            if improved[row]:
                best[row, first + i] = multiplier
            if p == 0:
                if c > ZERO:
                    y[row, i] = multiplier * value
                    saved = c * (max(value, ZERO) - multiplier * value)
                else:
                    y[row, i] = slope[first + i] * value + intercept[first + i]
                    saved = -c * intercept[first + i]
                if improved[row] and saved > gain[row]:
                    gain[row], neuron[row] = saved, first + i
            elif p == -1:
                y[row, i] = ZERO
    return 0


def step(  # type: ignore[no-untyped-def]
    first, rows, width, neurons, y, coefficients, phase, multipliers, mean, square, floor, rate, early, late, keep, hold
):
    """One step of Adam for the multipliers of a layer, which keeps so much of its means of gradients and of squares.

    `early` and `late` correct the means for having started at 0. A decision's multiplier moves by a share of its ReLU's
    coefficient, and by no less than `floor`: where the row no longer depends on the ReLU, the decisions may still
    contradict each other."""
    coefficients, y = carray(coefficients, (rows, width)), carray(y, (rows, width))
    phase, multipliers = carray(phase, (rows, neurons)), carray(multipliers, (rows, neurons))
    mean, square, floor = carray(mean, (rows, neurons)), carray(square, (rows, neurons)), carray(floor, (rows,))
    for row in range(rows):
        for i in range(width):
            c, p, at = coefficients[row, i], phase[row, first + i], first + i
            if p == 2:
                continue
            gradient, length = ZERO, rate
            if p == 0:
                if c > ZERO:
                    gradient = c * y[row, i]
            elif p == 1:
                gradient, length = -y[row, i], rate * max(abs(c), floor[row])
            else:
                gradient, length = y[row, i], rate * max(abs(c), floor[row])
            mean[row, at] = keep * mean[row, at] + (ONE - keep) * gradient
            square[row, at] = hold * square[row, at] + (ONE - hold) * gradient * gradient
            moved = multipliers[row, at] + length * early * mean[row, at] / (np.sqrt(late * square[row, at]) + SMALL)
            multipliers[row, at] = max(ZERO, moved)
            if p == 0:
                multipliers[row, at] = min(ONE, multipliers[row, at])
    return 0
