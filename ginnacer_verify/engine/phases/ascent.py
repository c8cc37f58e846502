"""Better multipliers for many bounds at once: gradient ascent in float32, of which nothing is believed.

The derivative of a bound by a multiplier needs the point where the bound is attained: a corner of the box, followed
forwards through the lines. For a slope it is the coefficient of the ReLU, if positive, times its input there; for a
decision it is how far the point breaks it. All of it is one compiled function, so that threads do not wait for the
interpreter in between.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.engine.machine_code import Entry
from ginnacer_verify.engine.phases.reduced import Phases, Reduced, Single

RATE = 0.2
"""The length of the first step of a slope; of a decision, relative to the coefficient of its ReLU."""
FLOOR = 0.1
"""The least step of a decision's multiplier, relative to the row's mean coefficient."""
SHORTER = 0.95
"""Each step's length, relative to the one before."""
FIRST, SECOND = 0.9, 0.99
"""How much of the mean gradient and of the mean square a step of Adam keeps."""
BLOCK = 32
"""Rows that are improved together: all that belongs to them fits into the cache."""
HOME = "ginnacer_verify.engine.phases.kernel"
CLIMB = Entry(
    HOME,
    "climb",
    "long long* long* long* long long long single* single* single* single* single* single* single* "
    "long long single* single* byte* single* long single single single single single "
    "long single* single* single* single* single* single* single* single* byte* single* single* single* long* byte* "
    "byte*",
    (HOME,),
)
"""The compiled ascent; its arguments are those of `kernel.climb`."""


@dataclass(frozen=True, eq=False)
class Climbed:
    """Per row: the best bound, its multipliers, the neuron whose decision promises most (`gain`), and the corner.

    Of a flat row (`kernel.climb_block`) the multipliers are the last ones, to go on from."""

    bound: Single
    multipliers: Single
    neuron: NDArray[np.int64]
    gain: Single
    corner: NDArray[np.bool_]
    flat: NDArray[np.bool_]


def ascend(reduced: Reduced, weight: Single, bias: Single, phase: Phases, start: Single, steps: int) -> Climbed:
    """Bounds of `weight @ x + bias`, row by row, with their multipliers improved `steps` times."""
    rows, inputs, neurons, widest = len(bias), reduced.box.inputs, reduced.neurons, int(reduced.sizes.max())
    memory = [np.empty((BLOCK, columns), np.float32) for columns in (*[neurons] * 4, inputs, widest, widest, 1)]
    bound, gain, neuron = np.empty(rows, np.float32), np.empty(rows, np.float32), np.empty(rows, np.int64)
    best, corner, flat = np.empty_like(start), np.empty((rows, inputs), np.int8), np.empty(rows, np.int8)
    CLIMB(
        *(len(reduced.layers), reduced.sizes, reduced.ends, reduced.starts, len(reduced.down), neurons, widest),
        *(reduced.down, reduced.up, reduced.bias, reduced.slope, reduced.intercept, reduced.middle, reduced.radius),
        *(rows, weight.shape[1], np.ascontiguousarray(weight), bias, phase, start),
        *(steps, RATE, SHORTER, FLOOR, FIRST, SECOND),
        *(BLOCK, *memory, np.empty(BLOCK, np.int8), bound, best, gain, neuron, corner, flat),
    )
    return Climbed(bound, best, neuron, gain, corner.view(np.bool_), flat.view(np.bool_))
