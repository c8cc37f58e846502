"""FastLin's lines without substitution: each layer's interval goes through its lines, as it stands, to the next layer.

FastLin (Weng et al. 2018) substitutes its lines back to the inputs, which is what makes it tight. The GINNACER paper
speaks of "a pair of linear upper and lower bounds on each ReLU" on ranges "computed by offline propagation of
intervals", and measures inference times of 2.7 to 4.2 times the network's, which a network of lines has and one product
with a matrix has not. This is that reading; `fastlin.fastlin_with_intervals` is the one with substitution.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array, Weight
from ginnacer_verify.bounds.chain import Lines, absolute, interval_bounds, relu_lines
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.rivals.rival import Ends, evaluate
from ginnacer_verify.rounding import TINY, gamma


@dataclass(frozen=True, eq=False)
class LayerwiseLines:
    """The network with two parallel lines for each ReLU, on intervals; sound on the box `domain`."""

    network: Network
    domain: Box
    lines: tuple[Lines, ...]

    @property
    def relus_per_layer(self) -> tuple[int, ...]:
        """There are none."""
        return (0,) * len(self.lines)

    def __call__(self, x: ArrayLike) -> Ends:
        """The bounds for one input, or one row of bounds per row of a batch."""
        return evaluate(self.network, self.domain, x, self._bounds)

    def _bounds(self, batch: Array) -> Ends:
        middle, radius = batch, np.zeros_like(batch)
        *hidden, last = zip(self.network.layers, self._sizes, strict=True)
        for (layer, size), lines in zip(hidden, self.lines, strict=True):
            middle, radius = _through(layer, size, middle, radius)
            # relu(y) lies in slope y + [0, intercept]; 8 roundings of numbers no larger than these sums
            radius = lines.upper_slope * radius + lines.intercept / 2
            middle = lines.upper_slope * middle + lines.intercept / 2
            radius = radius + gamma(8) * (np.abs(middle) + radius + lines.intercept) + TINY
        middle, radius = _through(*last, middle, radius)
        room = gamma(4) * (np.abs(middle) + radius)
        return middle - radius - room, middle + radius + room

    @cached_property
    def _sizes(self) -> list[Weight]:
        return [absolute(layer.weight) for layer in self.network.layers]

    def margin(self, x: ArrayLike) -> Array:
        lower, upper = self(x)
        return upper - lower


def layerwise_lines(network: Network, box: Box) -> LayerwiseLines:
    """FastLin's lines on intervals that were propagated beforehand, for evaluation layer by layer."""
    if box.inputs != network.inputs or box.is_empty or not np.isfinite([box.lower, box.upper]).all():
        raise AbstractionError(f"linear bounds need a finite box with {network.inputs} inputs that is not empty")
    bounds = interval_bounds(network.layers, box)
    ranges = zip(bounds.lower[:-1], bounds.upper[:-1], strict=True)
    with np.errstate(over="ignore", invalid="ignore"):
        return LayerwiseLines(network, box, tuple(relu_lines(*ends, parallel=True) for ends in ranges))


def _through(layer: Layer, size: Weight, middle: Array, radius: Array) -> Ends:
    """An affine layer with weights of the given size, on intervals, one per row; the radius covers its rounding."""
    own = (layer.weight @ middle.T).T + layer.bias
    reach = (size @ (np.abs(middle) + radius).T).T + np.abs(layer.bias)
    spread = (size @ radius.T).T
    return own, spread + gamma(2 * layer.inputs + 16) * (reach + spread) + TINY
