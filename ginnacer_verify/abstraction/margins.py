"""How wide the bounds of an abstraction are at given distances from its centroid (Over-Approximation Comparison)."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box


@dataclass(frozen=True)
class Margins:
    """The margin of the widest output at inputs of one distance: over all samples, and at half of them at most."""

    distance: float
    largest: float
    median: float


class Bounding(Protocol):
    """Anything with sound bounds on a domain."""

    @property
    def domain(self) -> Box: ...
    def margin(self, x: ArrayLike) -> Array: ...


def measure(bounding: Bounding, centroid: Array, distance: float, samples: int, seed: int) -> Margins:
    """Chunk by chunk, since 10 000 inputs of an image network do not fit beside everything else."""
    random, size = np.random.default_rng(seed), max(1, 2**22 // len(centroid))
    widths = []
    for first in range(0, samples, size):
        batch = surface(centroid, distance, min(size, samples - first), random)
        widths.append(np.atleast_2d(bounding.margin(bounding.domain.clip(batch))).max(axis=1))
    found = np.concatenate(widths)
    return Margins(distance, float(found.max()), float(np.median(found)))


def surface(centroid: Array, distance: float, count: int, random: np.random.Generator) -> Array:
    """Uniform points on the surface of the cube with the given radius: one input at an end, the others anywhere.

    Paper: Over-Approximation Comparison. Departs from it: `measure` clips them to the abstraction's domain."""
    steps = random.uniform(-distance, distance, (count, len(centroid)))
    steps[np.arange(count), random.integers(len(centroid), size=count)] = distance * random.choice([-1.0, 1.0], count)
    return centroid + steps
