"""FastLin (Weng et al. 2018): every ReLU between two parallel lines, which gives linear bounds of the outputs on a box.

The lines of a ReLU need bounds of its input, which come from the same method, layer by layer. `crown` takes CROWN's
lower lines (Zhang et al. 2018) instead. Departs from the authors': nowhere; our verifier's `linear_bounds` are tighter,
because they are intersected with intervals. In `fastlin_with_intervals` the bounds of the ReLUs' inputs come from plain
interval propagation, as in the GINNACER paper; `layerwise` is another reading of that paper.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.bounds.chain import Form, backward, interval_bounds, planes
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.rivals.rival import Ends, Progress, evaluate
from ginnacer_verify.rounding import TINY, gamma

ROWS = 256
"""How many rows are substituted at a time: few enough for the cache (on Visual Wake Words 1024 take twice as long)."""


@dataclass(frozen=True, eq=False)
class LinearAbstraction:
    """`below` the outputs and, with signs changed, above them: planes that hold on the box `domain`."""

    network: Network
    domain: Box
    below: Form
    minus_above: Form
    rebuild: "Build"

    @property
    def relus_per_layer(self) -> tuple[int, ...]:
        """There are none: the bounds are linear."""
        return (0,) * (len(self.network.layers) - 1)

    def __call__(self, x: ArrayLike) -> Ends:
        """The bounds for one input, or one row of bounds per row of a batch."""
        return evaluate(self.network, self.domain, x, self._bounds)

    def _bounds(self, batch: Array) -> Ends:
        return _values(self.below, batch), -_values(self.minus_above, batch)

    def margin(self, x: ArrayLike) -> Array:
        lower, upper = self(x)
        return upper - lower

    def ranges(self) -> Ends:
        """The least and the largest value that the planes allow on the domain."""
        return _least(self.below, self.domain), -_least(self.minus_above, self.domain)

    def halves(self) -> tuple["LinearAbstraction", "LinearAbstraction"]:
        """The refinement of local methods: two halves of the domain, across the input that moves the bounds most."""
        width = self.domain.upper - self.domain.lower
        moves = (np.abs(self.below.coefficients) + np.abs(self.minus_above.coefficients)).sum(axis=0) * width
        at = int(np.argmax(np.where(moves > 0, moves, width * TINY)))
        upper, lower = self.domain.upper.copy(), self.domain.lower.copy()
        upper[at] = lower[at] = self.domain.middle[at]
        parts = Box(self.domain.lower, upper), Box(lower, self.domain.upper)
        first, second = (self.rebuild(self.network, part) for part in parts)
        return first, second

    def refined(self, x: ArrayLike, count: int = 1) -> "LinearAbstraction":
        """The abstraction on the half of the domain that holds an input, `count` times over."""
        found, point = self, self.network.flat(x)
        for _ in range(count):
            found = next(half for half in found.halves() if point in half.domain)
        return found


Build = Callable[[Network, Box], LinearAbstraction]


def fastlin(network: Network, box: Box, *, progress: Progress | None = None) -> LinearAbstraction:
    """FastLin's linear bounds of a network on a box."""
    return _linear(network, box, fastlin, progress)


def crown(network: Network, box: Box) -> LinearAbstraction:
    """CROWN's linear bounds."""
    return _linear(network, box, crown)


def fastlin_with_intervals(network: Network, box: Box) -> LinearAbstraction:
    """FastLin's lines, on intervals that were propagated beforehand."""
    return _linear(network, box, fastlin_with_intervals)


def _linear(network: Network, box: Box, build: Build, progress: Progress | None = None) -> LinearAbstraction:
    if box.inputs != network.inputs or box.is_empty or not np.isfinite([box.lower, box.upper]).all():
        raise AbstractionError(f"linear bounds need a finite box with {network.inputs} inputs that is not empty")
    found: list[Ends] = []
    intervals, parallel = interval_bounds(network.layers, box), build is not crown
    for number, layer in enumerate(network.layers[:-1]):
        if build is fastlin_with_intervals:
            found.append((intervals.lower[number], intervals.upper[number]))
        else:
            found.append(_range(network, box, found, layer.outputs, parallel))
        if progress is not None:
            progress(number + 1, len(network.layers) - 1)
    units = np.eye(network.outputs)
    with np.errstate(over="ignore", invalid="ignore"):
        below, above = (planes(rows, network.layers, box, found, parallel=parallel) for rows in (units, -units))
    return LinearAbstraction(network, box, below, above, rebuild=build)


def _range(network: Network, box: Box, found: list[Ends], rows: int, parallel: bool) -> Ends:
    """The bounds of the next layer, from those before it."""
    layers, parts = network.layers[: len(found) + 1], []
    with np.errstate(over="ignore", invalid="ignore"):
        for first in range(0, rows, ROWS):
            units = np.eye(min(ROWS, rows - first), rows, k=first)
            parts.append([backward(sign * units, layers, box, found, parallel=parallel) for sign in (1.0, -1.0)])
    lower, upper = np.concatenate([low for low, _ in parts]), -np.concatenate([high for _, high in parts])
    return np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)


def _values(form: Form, batch: Array) -> Array:
    """Below the planes at each input, with the rounding of this product."""
    size = np.abs(batch) @ np.abs(form.coefficients).T + np.abs(form.constant)
    error = 2 * form.error + gamma(2 * batch.shape[1] + 16) * size
    return np.asarray(batch @ form.coefficients.T + form.constant - error - TINY)


def _least(form: Form, box: Box) -> Array:
    corner = np.where(form.coefficients >= 0, box.lower, box.upper)
    size = np.abs(form.coefficients * corner).sum(axis=1) + np.abs(form.constant)
    error = 2 * form.error + gamma(2 * box.inputs + 16) * size
    return read_only((form.coefficients * corner).sum(axis=1) + form.constant - error - TINY)
