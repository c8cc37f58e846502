"""Better multipliers for many bounds at once: gradient ascent in float32, of which nothing is believed.

The derivative of a bound by a multiplier needs the point where the bound is attained: a corner of the box, followed
forwards through the lines. For a slope it is the coefficient of the ReLU, if positive, times its input there; for a
decision it is how far the point breaks it. Products are BLAS's, all that is elementwise is one compiled pass per layer.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engine.machine_code import Entry
from ginnacer_verify.engine.phases.reduced import Phases, Reduced, Single

RATE = 0.2
"""The length of the first step of a slope; of a decision, relative to the coefficient of its ReLU."""
FLOOR = np.float32(0.1)
"""The least step of a decision's multiplier, relative to the row's mean coefficient."""
SHORTER = 0.95
"""Each step's length, relative to the one before."""
FIRST, SECOND = np.float32(0.9), np.float32(0.99)
"""How much of the mean gradient and of the mean square a step of Adam keeps."""
HOME = "ginnacer_verify.engine.phases.kernel"
SIZES = "long long long long"
"""First neuron of the layer, rows, neurons of the layer, neurons of all layers."""
DOWN = Entry(HOME, "down", f"{SIZES} single* byte* single* single* single* single* single*", (HOME,))
UP = Entry(HOME, "up", f"{SIZES} single* single* byte* single* single* single* byte* single* single* long*", (HOME,))
STEP = Entry(
    HOME,
    "step",
    f"{SIZES} single* single* byte* single* single* single* single* single single single single single",
    (HOME,),
)
"""The compiled passes over a layer; their arguments are those of the functions in `kernel`."""


@dataclass(frozen=True, eq=False)
class Climbed:
    """Per row: the best bound, its multipliers, the neuron whose decision promises most (`gain`), and the corner."""

    bound: Single
    multipliers: Single
    neuron: NDArray[np.int64]
    gain: Single
    corner: NDArray[np.bool_]


@np.errstate(over="ignore", invalid="ignore")  # what overflows in float32 proves nothing: bounds are settled in float64
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
            sizes = (reduced.ends[number], *coefficients.shape, reduced.neurons)
            y = x @ reduced.weights[number].T
            y += reduced.biases[number]
            x = y.copy()
            lines = (coefficients, phase, multipliers, reduced.slope, reduced.intercept)
            UP(*sizes, x, *lines, improved.view(np.int8), best, gain, neuron)
            if not last:
                STEP(
                    *(*sizes, y, coefficients, phase, multipliers, mean, square, floor),
                    *(rate, early, late, FIRST, SECOND),
                )
        if last:
            break
    return Climbed(bound, best, neuron, gain, corner)


def _backward(
    reduced: Reduced, weight: Single, bias: Single, phase: Phases, multipliers: Single
) -> tuple[Single, Single, list[Single]]:
    """The plane under each row over the box, and the coefficients of each layer's ReLUs."""
    coefficients, constant, used = np.ascontiguousarray(weight), bias.copy(), list[Single]()
    for number in range(len(reduced.layers) - 1, -1, -1):
        used.insert(0, coefficients)
        out = np.empty_like(coefficients)
        sizes = (reduced.ends[number], *coefficients.shape, reduced.neurons)
        DOWN(*sizes, coefficients, phase, multipliers, reduced.slope, reduced.intercept, constant, out)
        constant += out @ reduced.biases[number]
        coefficients = out @ reduced.weights[number]
    return coefficients, constant, used
