"""Box: one closed interval per input."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.errors import PropertyError


@dataclass(frozen=True, eq=False)
class Box:
    """All `x` with `lower <= x <= upper`; empty where a lower end exceeds its upper end."""

    lower: Array
    upper: Array

    def __post_init__(self) -> None:
        lower, upper = read_only(self.lower), read_only(self.upper)
        if lower.ndim != 1 or lower.shape != upper.shape:
            raise PropertyError(f"a box needs two vectors of one length, not {lower.shape} and {upper.shape}")
        if np.isnan(lower).any() or np.isnan(upper).any():
            raise PropertyError("an end of a box is not a number")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @classmethod
    def around(cls, centroid: ArrayLike, radius: float, within: tuple[float, float] = (-np.inf, np.inf)) -> "Box":
        """The L-infinity ball, clipped to the range of values that an input can take."""
        point = read_only(centroid)
        return cls(np.clip(point - radius, *within), np.clip(point + radius, *within))

    @property
    def inputs(self) -> int:
        return len(self.lower)

    @property
    def is_empty(self) -> bool:
        return bool((self.lower > self.upper).any())

    @property
    def varying(self) -> Sequence[int]:
        """The inputs that are not fixed to one value."""
        return [int(i) for i in np.flatnonzero(self.lower < self.upper)]

    @property
    def middle(self) -> Array:
        return self.lower + (self.upper / 2 - self.lower / 2)  # their difference may be beyond float64

    @property
    def width(self) -> Array:
        """How far the ends are apart, or the largest float64 if that is beyond it."""
        with np.errstate(over="ignore"):
            return np.minimum(self.upper - self.lower, np.finfo(np.float64).max)

    def __contains__(self, x: ArrayLike) -> bool:
        point = np.asarray(x, dtype=np.float64)
        return bool((self.lower <= point).all() and (point <= self.upper).all())

    def clip(self, x: ArrayLike) -> Array:
        """The nearest point of the box, for one point or each row of a batch."""
        return np.clip(np.asarray(x, dtype=np.float64), self.lower, self.upper)

    def sample(self, random: np.random.Generator, count: int) -> Array:
        """`count` uniform points, one per row."""
        return self.clip(self.lower + random.random((count, self.inputs)) * self.width)
