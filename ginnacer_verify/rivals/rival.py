"""What all abstractions have in common, and how sums of products are rounded outwards."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.abstraction.abstraction import CHUNK, LEAST
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.rounding import TINY, gamma

Progress = Callable[[int, int], None]
"""Called with how many of how many layers are done."""
Ends = tuple[Array, Array]


class Rival(Protocol):
    """Paper: Interval Abstraction. `ginnacer_verify.abstraction.abstraction.Abstraction` has the same members.

    `refined` is the method's own refinement step at an input where the bounds are too wide: `count` times, or as often
    as there is something to refine; the same object comes back when there is nothing."""

    @property
    def network(self) -> Network: ...
    @property
    def domain(self) -> Box: ...
    @property
    def relus_per_layer(self) -> tuple[int, ...]: ...
    def __call__(self, x: ArrayLike) -> Ends: ...
    def margin(self, x: ArrayLike) -> Array: ...


def everywhere(inputs: int) -> Box:
    """The domain of a global abstraction."""
    return Box(np.full(inputs, -np.inf), np.full(inputs, np.inf))


def evaluate(network: Network, domain: Box, x: ArrayLike, bounds: Callable[[Array], Ends]) -> Ends:
    """`bounds` for one input or for a batch, some rows at a time; an end that overflows is infinite."""
    values = network.flat(x)
    batch = np.atleast_2d(values)
    if not ((domain.lower <= batch) & (batch <= domain.upper)).all():
        raise AbstractionError("an input is not in the domain of this abstraction, or not a number")
    size = max(LEAST, CHUNK // max(max(layer.weight.shape) for layer in network.layers))
    lower, upper = np.empty((2, len(batch), network.outputs))
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, len(batch), size):
            some = slice(first, first + size)
            low, high = bounds(batch[some])
            lower[some], upper[some] = at_least(low), at_most(high)
    return (lower[0], upper[0]) if values.ndim == 1 else (lower, upper)


def at_least(values: Array) -> Array:
    """Lower bounds; one that overflowed in either direction says nothing."""
    return np.where(np.isfinite(values), values, -np.inf)


def at_most(values: Array) -> Array:
    """Upper bounds; one that overflowed in either direction says nothing."""
    return np.where(np.isfinite(values), values, np.inf)


def below(weight: Array, terms: int) -> Array:
    """Weights so much smaller that a computed sum of `terms` products with numbers >= 0 is below the real one.

    The sum is off by at most gamma(terms) times the sum of the absolute products, whatever its order; the weights give
    that away beforehand, and what rounding them here costs. The same holds for a bias, as a product with 1."""
    return np.asarray(weight - gamma(2 * terms + 16) * np.abs(weight))


def above(weight: Array, terms: int) -> Array:
    """As `below`, for sums that must not be smaller than the real ones."""
    return -below(-weight, terms)


def bias_below(bias: Array, terms: int) -> Array:
    """As `below`, and clear of what underflow can lose."""
    return below(bias, terms) - TINY


def bias_above(bias: Array, terms: int) -> Array:
    return -bias_below(-bias, terms)
