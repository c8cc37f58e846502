"""Intervals around the centroid's trace, x in x_c + middle +- radius: rigorous in floating point, 0 at the centroid.

The bounds of an abstraction are propagated as deviations from the values that the network takes at the centroid. There
all deviations are exactly 0, whatever the batch and however BLAS orders its sums, so both bounds end at one number.

Rounding, with u = 2**-53. A `Deviation` claims that the true deviation lies in `middle +- (radius + 8u (|middle| +
radius))`: enough for the few elementwise operations that produce it, each of which is off by u relatively to its
result. A matrix product with n columns adds at most gamma(n) |M| (|middle| + radius) and then a factor 1 + gamma(n) on
the radius. `wide` is the radius plus gamma(2n + 64) (|middle| + radius), taken *before* the product: that covers all of
this and leaves more than 32u |M| (|middle| + radius) for sums and differences of the results in which digits cancel,
and for the last digits of the trace, which is rounded once.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array, Weight
from ginnacer_verify.bounds.chain import absolute
from ginnacer_verify.rounding import TINY, UNIT, gamma

ROOT_OF_TINY = 1e-145
"""Above what the root of a sum of squares can lose to underflow."""


@dataclass(frozen=True, eq=False)
class Deviation:
    """One column per input of a batch. No radius: the deviations are known up to one rounding each.

    `moved` is 1 in the columns of inputs that are not the centroid, else 0."""

    middle: Array
    radius: Array | None
    moved: Array

    @cached_property
    def wide(self) -> Array:
        """The radius plus the rounding errors of a product; without a radius, these for the 2-norms of the middles."""
        error = gamma(2 * len(self.middle) + 64)
        if self.radius is None:
            lengths = np.sqrt(np.einsum("ij,ij->j", self.middle, self.middle))
            return np.asarray(2 * error * (lengths + ROOT_OF_TINY * self.moved))
        wide = np.abs(self.middle)
        wide += self.radius
        wide *= error
        wide += self.radius
        wide += TINY * self.moved
        return wide


@dataclass(frozen=True, eq=False)
class Map:
    """A matrix that deviations are multiplied with."""

    weight: Weight

    @cached_property
    def absolute(self) -> Weight:
        return absolute(self.weight)

    @cached_property
    def lengths(self) -> Array:
        """The 2-norm of each row, or a little more."""
        with np.errstate(over="ignore"):
            return np.asarray(np.sqrt((self.weight * self.weight).sum(axis=1)) + ROOT_OF_TINY)

    @property
    def norm(self) -> float:
        """The largest factor by which a product can exceed the largest deviation."""
        return float(np.max(np.asarray(self.absolute.sum(axis=1)), initial=0.0))

    def __call__(self, x: Deviation) -> tuple[Array, Array]:
        """The middle and the radius of the product; what underflow can lose is added wherever x has moved.

        Without a radius, |M| |middle| <= |M|_2 |middle|_2 row by row spares a product for rounding errors alone."""
        radius = np.multiply.outer(self.lengths, x.wide) if x.radius is None else np.asarray(self.absolute @ x.wide)
        radius += TINY * x.moved
        return np.asarray(self.weight @ x.middle), radius


@dataclass(frozen=True, eq=False)
class SharedRelu:
    """A ReLU layer in ICF, on deviations.

    The neurons leave in the order: active singletons, other active ones, inactive singletons, other inactive ones
    (active at the centroid, that is). `own` gives y of all but the last of these, `shared` gives rhat of the subsets of
    two or more. `potential` and `subset_of` count the singletons first, in that order. `floor` is the least deviation
    that the clip at 0 leaves to the active neurons, or None for no clip.

    Paper: Layer-Wise Abstraction, with the interval as middle and radius. Departs from it: a singleton's rhat is read
    off y instead of being computed again; the clip; and `concrete` neurons, whose two bounds both keep the ReLU."""

    own: Map
    shared: Map
    potential: Array
    subset_of: NDArray[np.intp]
    active_singletons: int
    active: int
    floor: Array | None
    concrete: "Concrete | None" = None

    def __call__(self, x: Deviation, plain: Deviation) -> Deviation:
        """`plain` is x but for the pre-layer, where it is the deviation before it."""
        middle, radius = self.own(plain)
        half = self._half(middle, radius, x)
        new_middle = half[self.subset_of]
        new_radius = new_middle.copy()
        new_middle[: self.active] += middle[: self.active]
        new_radius[: self.active] += radius[: self.active]
        if self.floor is not None:
            _clip(new_middle[: self.active], new_radius[: self.active], self.floor)
        if self.concrete is not None:
            places, rows = self.concrete.places, self.concrete.rows
            new_middle[places], new_radius[places] = _relu(middle[rows], radius[rows], self.concrete.y)
        return Deviation(new_middle, new_radius, x.moved)

    @property
    def shares(self) -> bool:
        """Whether any subset has two or more neurons."""
        return bool(self.shared.weight.shape[0])

    def _half(self, middle: Array, radius: Array, x: Deviation) -> Array:
        """relu(rhat) / 2 of all subsets: the interval of x' is then y +- radius, plus half +- half."""
        first, last = self.active_singletons, self.active_singletons + len(middle) - self.active
        half = np.empty((len(self.potential), middle.shape[1]))
        np.subtract(radius[:first], middle[:first], out=half[:first])
        np.add(radius[self.active :], middle[self.active :], out=half[first:last])
        if self.shares:
            np.add(*self.shared(x), out=half[last:])
        half += self.potential[:, None]
        np.maximum(half, 0.0, out=half)
        half *= 0.5
        return half


@dataclass(frozen=True, eq=False)
class Concrete:
    """Singletons that keep their ReLU in both bounds: where they leave, their rows of `own`, y at the centroid."""

    places: NDArray[np.intp]
    rows: NDArray[np.intp]
    y: Array


def _relu(middle: Array, radius: Array, y: Array) -> tuple[Array, Array]:
    """The ReLU of both ends of an interval around the pre-activations `y` of the centroid."""
    below, floor = np.minimum(y, 0.0)[:, None], -np.maximum(y, 0.0)[:, None]
    upper = np.maximum(middle + radius + below, floor)
    lower = np.maximum(middle - radius + below, floor)
    return (upper + lower) / 2, (upper - lower) / 2


def _clip(middle: Array, radius: Array, floor: Array) -> None:
    """Raise the lower end to `floor`, in place.

    The factor keeps it from rising too far: an error of a few u times the old ends is covered by 32u times the rise if
    the rise is a quarter of them or more, and by the claim on the new ends otherwise."""
    rise = radius - middle
    rise += floor[:, None]
    np.maximum(rise, 0.0, out=rise)
    rise *= 0.5 * (1 - 32 * UNIT)
    middle += rise
    radius -= rise


@dataclass(frozen=True, eq=False)
class ExactRelu:
    """A ReLU layer that is not abstracted, with pre-activations `y` at the centroid."""

    own: Map
    y: Array
    shares = False

    def __call__(self, x: Deviation, plain: Deviation) -> Deviation:
        return Deviation(*_relu(*self.own(plain), self.y), x.moved)


@dataclass(frozen=True, eq=False)
class Output:
    """The last layer, and from deviations back to values: rounded outwards and widened by `rounding`, but at the
    centroid itself `exact`."""

    own: Map
    y: Array
    rounding: Array
    exact: Array

    def __call__(self, x: Deviation) -> tuple[Array, Array]:
        middle, radius = self.own(x)
        middle += self.y[:, None]
        slack = np.abs(middle)
        slack += radius
        slack *= 8 * UNIT  # the sums above and below are off by a digit of the larger bound each
        slack += self.rounding[:, None]
        lower, upper = middle - radius, np.add(middle, radius, out=radius)
        lower -= slack
        upper += slack
        lower[:, x.moved == 0] = upper[:, x.moved == 0] = self.exact[:, None]
        return lower, upper
