"""Box: one closed interval per input. Ball: all inputs within a distance of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.errors import PropertyError
from ginnacer_verify.rounding import TINY, gamma

LOST = 1e-150
"""Above what the square of a number that underflows can hide of it."""


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
    def around(
        cls, centroid: ArrayLike, radius: float | Array, within: tuple[float, float] = (-np.inf, np.inf)
    ) -> "Box":
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


@dataclass(frozen=True, eq=False)
class Ball:
    """All `x` at most `radius` from `centre` in the Euclidean (`norm` 2) or the taxicab norm (`norm` 1)."""

    centre: Array
    radius: float
    norm: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "centre", read_only(np.ravel(self.centre)))
        if self.norm not in (1, 2):
            raise PropertyError(
                f"balls of norm {self.norm!r} are not supported; choose 1 or 2, or a box for the maximum norm"
            )
        if not (np.isfinite(self.centre).all() and 0 <= self.radius < np.inf):
            raise PropertyError(f"a ball needs a finite centre and radius, not a radius of {self.radius}")

    @property
    def box(self) -> Box:
        """A box around the ball, its ends rounded outwards."""
        reach = np.nextafter(self.radius, np.inf)
        return Box(np.nextafter(self.centre - reach, -np.inf), np.nextafter(self.centre + reach, np.inf))

    def __contains__(self, x: ArrayLike) -> bool:
        """Decided in exact arithmetic."""
        distances = [abs(Fraction(a) - Fraction(b)) for a, b in zip(np.ravel(x).tolist(), self.centre, strict=True)]
        return sum(one**self.norm for one in distances) <= Fraction(self.radius) ** self.norm

    @np.errstate(all="ignore")
    def least(self, slope: Array, constant: Array, error: Array) -> Array:
        """Lower bounds of `slope @ x + constant - error` on the ball, by the dual norm, rounding charged.

        Slopes are (..., inputs). Minus infinity where anything is not a number."""
        size = np.abs(slope)
        dual = size.max(axis=-1, initial=0.0) if self.norm == 1 else np.sqrt((size * size).sum(axis=-1))
        terms = slope.shape[-1] + 16
        reach = (dual * (1 + gamma(terms)) + LOST * terms) * self.radius
        middle = np.matmul(slope, self.centre)
        rounding = gamma(terms) * (np.matmul(size, np.abs(self.centre)) + reach + np.abs(constant))
        bound = middle + constant - reach - 2 * (error + rounding) - TINY
        return np.where(np.isfinite(bound), bound, -np.inf)

    @np.errstate(all="ignore")
    def share(self, slope: Array, lower: Array, upper: Array) -> Array:
        """The part of each row of slopes that is best bounded on the ball, where the rest is bounded on a box.

        Whatever the share, the two bounds add up to one on their intersection; at the point of it where the row is
        least, this is the share of the ball in Karush's, Kuhn's and Tucker's conditions."""
        return self._euclidean(slope, lower, upper) if self.norm == 2 else self._taxicab(slope, lower, upper)

    def _euclidean(self, slope: Array, lower: Array, upper: Array) -> Array:
        """Steps against the slope from the centre, clipped to the box, until they leave the ball."""
        low, high = np.zeros(slope.shape[:-1]), np.full(slope.shape[:-1], 64.0)
        first = self.radius / np.maximum(np.sqrt((slope * slope).sum(axis=-1)), 1e-300)
        for _ in range(30):
            middle = (low + high) / 2
            moved = np.clip(self.centre - (first * 2.0**middle)[..., None] * slope, lower, upper) - self.centre
            outside = (moved * moved).sum(axis=-1) > self.radius**2
            low, high = np.where(outside, low, middle), np.where(outside, middle, high)
        step = (first * 2.0**low)[..., None]
        free = self.centre - step * slope
        share = np.where((free < lower) | (free > upper), (self.centre - np.clip(free, lower, upper)) / step, slope)
        share = np.where((low < 63.0)[..., None], share, 0.0)
        return np.where(np.isfinite(share), share, 0.0)

    def _taxicab(self, slope: Array, lower: Array, upper: Array) -> Array:
        """The steepest values go to the ends of their intervals first, as far as the radius lets them."""
        size = np.abs(slope)
        least = np.abs(np.clip(self.centre, lower, upper) - self.centre)
        extra = np.abs(np.where(slope > 0, lower, upper) - self.centre) - least
        order = np.argsort(-size, axis=-1)
        spent = np.cumsum(np.take_along_axis(np.broadcast_to(extra, slope.shape), order, -1), axis=-1)
        spent = spent + np.broadcast_to(least, slope.shape).sum(axis=-1, keepdims=True)
        level = np.where(spent > self.radius, np.take_along_axis(size, order, -1), 0.0).max(axis=-1, keepdims=True)
        return np.asarray(np.clip(slope, -level, level))

    def misses(self, lower: Array, upper: Array) -> NDArray[np.bool_]:
        """Which boxes of a batch surely hold no point of the ball."""
        away = np.abs(np.clip(self.centre, lower, upper) - self.centre) * (1 - gamma(8))
        distance = away.sum(axis=1) if self.norm == 1 else np.sqrt((away * away).sum(axis=1))
        return np.asarray(distance * (1 - gamma(lower.shape[1] + 16)) > self.radius)

    def lowest(self, slope: Array) -> Array:
        """Where on the ball each row of slopes is least, in floating point."""
        return self.centre - self.radius * self.towards(slope)

    def towards(self, slope: Array) -> Array:
        """The direction of length 1 in which each row of slopes grows fastest."""
        if self.norm == 2:
            length = np.sqrt((slope * slope).sum(axis=-1, keepdims=True))
            return np.asarray(slope / np.maximum(length, 1e-300))
        largest = np.abs(slope).argmax(axis=-1)[..., None]
        direction = np.zeros_like(slope)
        np.put_along_axis(direction, largest, np.sign(np.take_along_axis(slope, largest, -1)), -1)
        return direction

    def project(self, x: Array) -> Array:
        """The nearest point, for each row, of a ball that is smaller by a hair; no value moves away from the centre."""
        moved, radius = x - self.centre, self.radius * (1 - 1e-6)
        size = np.abs(moved)
        if self.norm == 2:
            length = np.sqrt((size * size).sum(axis=1, keepdims=True))
            return np.asarray(self.centre + moved * np.minimum(1.0, radius / np.maximum(length, 1e-300)))
        falling = -np.sort(-size, axis=1)
        excess = (np.cumsum(falling, axis=1) - radius) / np.arange(1, x.shape[1] + 1)
        level = np.maximum(np.where(falling > excess, excess, 0.0).max(axis=1, keepdims=True), 0.0)
        return np.asarray(self.centre + np.sign(moved) * np.maximum(size - level, 0.0))
