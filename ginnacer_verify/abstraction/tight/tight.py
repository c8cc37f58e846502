"""TightAbstraction: the paper's promise with as many ReLUs per layer, and far smaller margins.

    abstraction = tight_abstraction(network, centroid)
    lower, upper = abstraction(x)

Two tiers (`build`): `near` keeps what turns first and shares one ReLU among all others, so the bounds are exact as far
as that one is off; `far` spends the rest on what costs most at a distance. Both are functions of one network of kept
ReLUs. Sound for every input; at the centroid both bounds are, bit for bit, what the network computes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.abstraction.abstraction import CHUNK, LEAST, abstract, relu_table
from ginnacer_verify.abstraction.margins import surface
from ginnacer_verify.abstraction.tight.build import Rows, build
from ginnacer_verify.abstraction.tight.forms import Forms
from ginnacer_verify.abstraction.tight.kept import every, far, near
from ginnacer_verify.abstraction.trace import Trace, accurate_trace, output_rounding
from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.rounding import TINY, UNIT, gamma
from ginnacer_verify.shown import Shown

DISTANCES = (0.012, 0.3)
"""Where the near and the far tier are to be tight: distances from the centroid, in input units."""
SAMPLES = 64
"""How many inputs at each distance the choice of ReLUs looks at."""


@dataclass(frozen=True, eq=False, repr=False)
class TightAbstraction(Shown):
    """Paper: Full Abstraction. Departs from it: forms instead of intervals, see `forms`; a centred pre-layer always."""

    network: Network
    centroid: Array
    trace: Trace
    layers: tuple[Rows, ...]
    tiers: tuple[Forms, ...]

    @property
    def domain(self) -> Box:
        """Where the bounds are sound: everywhere."""
        return Box(np.full(self.network.inputs, -np.inf), np.full(self.network.inputs, np.inf))

    @property
    def relus_per_layer(self) -> tuple[int, ...]:
        """Not counted: the pre-layer relu(x - centroid), relu(centroid - x)."""
        return tuple(len(rows.potential) for rows in self.layers)

    @property
    def pre_layer(self) -> int:
        return 2 * self.network.inputs

    @cached_property
    def rounding(self) -> Array:
        return output_rounding(self.network, self.trace)

    def __call__(self, x: ArrayLike) -> tuple[Array, Array]:
        """The bounds for one input, or one row of bounds per row of a batch; infinite where they overflow."""
        values = self.network.flat(x)
        batch = np.atleast_2d(values)
        if np.isnan(batch).any():
            raise AbstractionError("an input is not a number")
        size = max(LEAST, CHUNK // self.tiers[0].above.shape[1])
        lower, upper = np.empty((2, len(batch), self.network.outputs))
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(batch), size):
                some = slice(first, first + size)
                lower[some], upper[some] = self._bounds(batch[some])
        return (lower[0], upper[0]) if values.ndim == 1 else (lower, upper)

    def _bounds(self, batch: Array) -> tuple[Array, Array]:
        d = batch - self.centroid
        middle, radius = self._relus(d)
        lower: list[Array] = []
        upper: list[Array] = []
        y = self.trace.y[-1]
        wide = radius + _rounding(middle)
        for tier in self.tiers:
            for form, sign, found in ((tier.below, -1.0, lower), (tier.above, 1.0, upper)):
                change = middle @ form.T + wide @ np.abs(form).T + TINY
                slack = 8 * UNIT * (np.abs(change) + np.abs(y)) + self.rounding
                end = y + sign * (change + slack)
                found.append(np.where(np.isfinite(end), end, sign * np.inf))
        moved = (d != 0).any(axis=1)[:, None]
        exact = self.network(self.centroid)
        return np.where(moved, np.max(lower, axis=0), exact), np.where(moved, np.min(upper, axis=0), exact)

    def _relus(self, d: Array) -> tuple[Array, Array]:
        """The values v as middles and radii, which hold every rounding error."""
        middle = np.hstack([np.maximum(d, 0.0), np.maximum(-d, 0.0)])
        radius = gamma(2) * middle
        for rows in self.layers:
            spread = (radius + _rounding(middle)) @ np.abs(rows.weight).T + TINY
            spread += gamma(8) * np.abs(rows.potential)
            value = rows.potential + middle @ rows.weight.T
            upper, lower = np.maximum(value + spread, 0.0), np.maximum(value - spread, 0.0)
            middle = np.hstack([middle, (upper + lower) / 2])
            radius = np.hstack([radius, (upper - lower) / 2 + gamma(8) * upper])
        return middle, radius

    def margin(self, x: ArrayLike) -> Array:
        """Upper minus lower bound."""
        lower, upper = self(x)
        return upper - lower

    def describe(self) -> str:
        """A table of the ReLUs, layer by layer."""
        lines = relu_table(self.network, self.relus_per_layer)
        return "\n".join([*lines, f"and {self.pre_layer} ReLUs of the pre-layer (centred)"])

    def facts(self) -> dict[str, object]:
        old, new = ("-".join(map(str, one.relus_per_layer)) for one in (self.network, self))
        return {
            "inputs": self.network.inputs,
            "ReLUs": f"{sum(self.relus_per_layer)} ({new}) for {self.network.relus} ({old})",
        }


def _rounding(values: Array) -> Array:
    """What a product with these values can be off, times the other factor: a sum is not rounded where a term is 0."""
    terms = np.count_nonzero(values, axis=1)[:, None] + 16.0
    return np.asarray(terms * UNIT / (1 - terms * UNIT) * values)


def tight_abstraction(
    network: Network | Graph,
    centroid: ArrayLike,
    relus_per_layer: Sequence[int] | None = None,
    *,
    one_sided: bool = False,
) -> TightAbstraction:
    """The tight form at a centroid; by default with as many ReLUs in each layer as the paper's first fit has.

    `one_sided` leaves the lower bound of every excess at 0, as the paper does: then no ReLU is ever subtracted, so that
    weights can be rounded outwards to any element type. Departs from the paper: see `kept`."""
    network = as_chain(network)
    paper = None if relus_per_layer is not None else abstract(network, centroid)
    relus = tuple(paper.relus_per_layer if paper is not None else relus_per_layer or ())
    if len(relus) != len(network.layers) - 1 or min(relus, default=0) < 1:
        raise AbstractionError(f"give at least one ReLU for each of the {len(network.layers) - 1} layers, not {relus}")
    point = read_only(np.reshape(np.asarray(centroid, dtype=np.float64), -1))
    trace = accurate_trace(network, point) if paper is None else paper.trace
    whole = all(count >= layer.outputs for count, layer in zip(relus, network.layers, strict=False))
    random = np.random.default_rng(0)
    tiers = [
        (choose, surface(np.zeros(len(point)), distance, SAMPLES, random))
        for choose, distance in zip((near, far), DISTANCES, strict=True)
    ]
    layers, forms = build(network, trace.y[:-1], relus, [(every, tiers[0][1])] if whole else tiers, one_sided)
    return TightAbstraction(network, point, trace, layers, forms)
