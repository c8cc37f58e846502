"""Better multipliers for many bounds at once: gradient ascent in float32, of which nothing is believed.

The derivative of a bound by a multiplier needs the point where the bound is attained: a corner of the box, followed
forwards through the lines. For a slope it is the coefficient of the ReLU, if positive, times its input there; for a
decision it is how far the point breaks it. Products are BLAS's, all that is elementwise is one compiled pass per layer.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engine.kernel import compiled
from ginnacer_verify.engine.phases.reduced import Phases, Reduced, Single

FIRST, SECOND = 0.9, 0.99
"""How much of the mean gradient and of the mean square a step of Adam keeps."""
RATE = 0.2
"""The length of the first step of a slope; of a decision, relative to the coefficient of its ReLU."""
FLOOR = np.float32(0.1)
"""The least step of a decision's multiplier, relative to the row's mean coefficient."""
SHORTER = 0.95
"""Each step's length, relative to the one before."""


@dataclass(frozen=True, eq=False)
class Climbed:
    """Per row: the best bound, its multipliers, the neuron whose decision promises most (`gain`), and the corner."""

    bound: Single
    multipliers: Single
    neuron: NDArray[np.int64]
    gain: Single
    corner: NDArray[np.bool_]


@compiled
def down(coefficients, phase, multipliers, slope, intercept, first, constant, out):  # type: ignore[no-untyped-def]
    """From coefficients of what leaves a layer's ReLUs to coefficients of what enters them."""
    for row in range(coefficients.shape[0]):
        given = np.float32(0.0)
        for i in range(coefficients.shape[1]):
            c, p, multiplier = coefficients[row, i], phase[row, first + i], multipliers[row, first + i]
            if p == 0:
                if c > 0.0:
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


@compiled
def up(y, coefficients, phase, multipliers, slope, intercept, first, improved, best, gain, neuron):  # type: ignore[no-untyped-def]
    """From what enters a layer's ReLUs to what leaves their lines, in place; rows that improved are remembered.

    Deciding an undecided ReLU saves what its line gives away: at this point for the lower line, at 0 for the upper."""
    for row in range(y.shape[0]):
        for i in range(y.shape[1]):
            c, p, value = coefficients[row, i], phase[row, first + i], y[row, i]
            multiplier = multipliers[row, first + i]
            if improved[row]:
                best[row, first + i] = multiplier
            if p == 0:
                if c > 0.0:
                    y[row, i] = multiplier * value
                    saved = c * (max(value, np.float32(0.0)) - multiplier * value)
                else:
                    y[row, i] = slope[first + i] * value + intercept[first + i]
                    saved = -c * intercept[first + i]
                if improved[row] and saved > gain[row]:
                    gain[row], neuron[row] = saved, first + i
            elif p == -1:
                y[row, i] = 0.0


@compiled
def climb_step(y, coefficients, phase, multipliers, first, mean, square, rate, floor, early, late):  # type: ignore[no-untyped-def]
    """One step of Adam for the multipliers of a layer; `early` and `late` correct its means for having started at 0.

    A decision's multiplier moves by a share of its ReLU's coefficient, and by no less than `floor`: where the row no
    longer depends on the ReLU, the decisions may still contradict each other."""
    for row in range(y.shape[0]):
        for i in range(y.shape[1]):
            c, p, at = coefficients[row, i], phase[row, first + i], first + i
            if p == 2:
                continue
            gradient, length = np.float32(0.0), rate
            if p == 0:
                if c > 0.0:
                    gradient = c * y[row, i]
            elif p == 1:
                gradient, length = -y[row, i], rate * max(abs(c), floor[row])
            else:
                gradient, length = y[row, i], rate * max(abs(c), floor[row])
            mean[row, at] = FIRST * mean[row, at] + (1 - FIRST) * gradient
            square[row, at] = SECOND * square[row, at] + (1 - SECOND) * gradient * gradient
            step = length * early * mean[row, at] / (np.sqrt(late * square[row, at]) + np.float32(1e-20))
            multipliers[row, at] = max(np.float32(0.0), multipliers[row, at] + step)
            if p == 0:
                multipliers[row, at] = min(np.float32(1.0), multipliers[row, at])


def ascend(
    reduced: Reduced, weight: Single, bias: Single, phase: Phases, start: Single, steps: int, deadline: Deadline
) -> Climbed:
    """Bounds of `weight @ x + bias`, row by row, with their multipliers improved `steps` times, or until time is up."""
    middle = reduced.box.middle.astype(np.float32)
    radius = (reduced.box.upper.astype(np.float32) - reduced.box.lower.astype(np.float32)) / 2
    multipliers, best = start.copy(), start.copy()
    mean, square = np.zeros_like(start), np.zeros_like(start)
    bound, gain = np.full(len(bias), -np.inf, np.float32), np.zeros(len(bias), np.float32)
    neuron, corner = np.full(len(bias), -1), np.zeros((len(bias), len(middle)), np.bool_)
    floor = FLOOR * np.abs(weight).sum(axis=1) / np.float32(max(1, weight.shape[1]))
    for step in range(steps + 1):
        plane, constant, used = _backward(reduced, weight, bias, phase, multipliers)
        value = constant + plane @ middle - np.abs(plane) @ radius
        improved = value > bound
        bound, gain = np.where(improved, value, bound), np.where(improved, np.float32(0.0), gain)
        corner[improved] = plane[improved] < 0
        x = np.where(plane < 0, middle + radius, middle - radius)
        last = step == steps or deadline.passed
        rate = np.float32(RATE * SHORTER**step)
        early, late = np.float32(1 / (1 - FIRST ** (step + 1))), np.float32(1 / (1 - SECOND ** (step + 1)))
        for number, coefficients in enumerate(used):
            first = reduced.ends[number]
            y = x @ reduced.weights[number].T
            y += reduced.biases[number]
            x = y.copy()
            up(
                x,
                coefficients,
                phase,
                multipliers,
                reduced.slope,
                reduced.intercept,
                first,
                improved,
                best,
                gain,
                neuron,
            )
            if not last:
                climb_step(y, coefficients, phase, multipliers, first, mean, square, rate, floor, early, late)
        if last:
            break
    return Climbed(bound, best, neuron, gain, corner)


def _backward(
    reduced: Reduced, weight: Single, bias: Single, phase: Phases, multipliers: Single
) -> tuple[Single, Single, list[Single]]:
    """The plane under each row over the box, and the coefficients of each layer's ReLUs."""
    coefficients, constant, used = weight, bias.copy(), list[Single]()
    for number in range(len(reduced.layers) - 1, -1, -1):
        used.insert(0, coefficients)
        out = np.empty_like(coefficients)
        down(
            coefficients,
            phase,
            multipliers,
            reduced.slope,
            reduced.intercept,
            reduced.ends[number],
            constant,
            out,
        )
        constant += out @ reduced.biases[number]
        coefficients = out @ reduced.weights[number]
    return coefficients, constant, used
