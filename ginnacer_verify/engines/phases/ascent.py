"""Better multipliers for many bounds at once: gradient ascent in float32, of which nothing is believed.

The derivative of a bound by a multiplier needs the point where the bound is attained: a corner of the box, followed
forwards through the lines. For a slope it is the coefficient of the ReLU, if positive, times its input there; for a
decision it is how far the point breaks it. All of it is one compiled function, so that threads do not wait for the
interpreter in between.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.engines.phases.reduced import Phases, Reduced, Single
from ginnacer_verify.native import Climb, Layers, Record, call

RATE = 0.2
"""The length of the first step of a slope; of a decision, relative to the coefficient of its ReLU."""
FLOOR = 0.1
"""The least step of a decision's multiplier, relative to the row's mean coefficient."""
SHORTER = 0.95
"""Each step's length, relative to the one before."""
FIRST, SECOND = 0.9, 0.99
"""How much of the mean gradient and of the mean square a step of Adam keeps."""


@dataclass(frozen=True, eq=False)
class Climbed:
    """Per row: the best bound, its multipliers, the neuron whose decision promises most (`gain`), and the corner.

    Of a flat row (`climb_block` in `native/phases.h`) the multipliers are the last ones, to go on from."""

    bound: Single
    multipliers: Single
    neuron: NDArray[np.int64]
    gain: Single
    corner: NDArray[np.bool_]
    flat: NDArray[np.bool_]


def ascend(reduced: Reduced, weight: Single, bias: Single, phase: Phases, start: Single, steps: int) -> Climbed:
    """Bounds of `weight @ x + bias`, row by row, with their multipliers improved `steps` times."""
    rows, inputs = len(bias), reduced.box.inputs
    layers = record_of(reduced)
    space = np.empty(call("climb_room", inputs, reduced.neurons, layers.values["widest"]), np.float32)
    bound, gain, neuron = np.empty(rows, np.float32), np.empty(rows, np.float32), np.empty(rows, np.int64)
    best, corner, flat = np.empty_like(start), np.empty((rows, inputs), np.int8), np.empty(rows, np.int8)
    task = Climb(
        rows=rows,
        wanted=weight.shape[1],
        steps=steps,
        rate=RATE,
        shorter=SHORTER,
        least_rate=FLOOR,
        keep=FIRST,
        hold=SECOND,
        weight=np.ascontiguousarray(weight),
        constant=bias,
        start=start,
        phase=phase,
        bound=bound,
        best=best,
        gain=gain,
        neuron=neuron,
        corner=corner,
        flat=flat,
    )
    call("climb", layers, task, space)
    return Climbed(bound, best, neuron, gain, corner.view(np.bool_), flat.view(np.bool_))


def record_of(reduced: Reduced) -> Record:
    return Layers(
        layers=len(reduced.layers),
        neurons=reduced.neurons,
        widest=int(reduced.sizes.max()),
        sizes=reduced.sizes,
        ends=reduced.ends,
        starts=reduced.starts,
        down=reduced.down,
        up=reduced.up,
        bias=reduced.bias,
        slope=reduced.slope,
        intercept=reduced.intercept,
        middle=reduced.middle,
        radius=reduced.radius,
    )
