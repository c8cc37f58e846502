"""Better multipliers for many bounds at once: what is climbed, how far each step goes, and what is found.

The derivative of a bound by a multiplier needs the point where the bound is attained: a corner of the box, followed
forwards through the lines. For a slope it is the coefficient of the ReLU, if positive, times its input there; for a
decision it is how far the point breaks it. All of this runs in float32, and nothing of it is believed.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array

Single = NDArray[np.float32]
Phases = NDArray[np.int8]
INACTIVE, UNDECIDED, ACTIVE, STABLE = -1, 0, 1, 2
"""Phases: decided to be inactive, not decided, decided to be active, and active on the whole box."""
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
    promising: NDArray[np.int64]
    """(rows, some): the neurons whose decisions promise most, the best first, -1 where there are no more."""


class Relaxation(Protocol):
    """What is before some rows, every ReLU replaced by lines: `Reduced` for chains, `Relaxed` for graphs."""

    @property
    def inputs(self) -> int:
        """How many inputs there are."""

    @property
    def at_once(self) -> int:
        """Rows that a thread bounds at a time, at most: between two of its batches the deadline is looked at."""

    @property
    def steep(self) -> Single:
        """The multiplier that each neuron starts with."""

    def ascend(self, weight: Single, bias: Single, phase: Phases, start: Single, steps: int) -> Climbed:
        """Bounds of rows with their multipliers improved `steps` times."""

    def bounds(self, weight: Single, bias: Single, phase: Phases, multipliers: Single) -> Single:
        """Guesses of the bounds of rows with just these multipliers."""

    def rigorous(self, weight: Array, bias: Array, phase: Phases, multipliers: Single) -> Array:
        """Lower bounds of rows on the part of the box where their decisions hold."""

    def place(self, position: int) -> tuple[int, int]:
        """Layer, or node, and neuron of a position."""
