"""A Query as a plain chain of affine layers with ReLUs between them, for tools that bound networks.

The inputs are the varying inputs and one e per relaxed ReLU, as in `emit.marabou`. Every value found so far is passed
on through the ReLUs of the later layers; it is shifted so that it is never negative and these ReLUs do nothing. What a
chain cannot say is left out: `x' >= y` of relaxed ReLUs, subsets with more than one member and linear input
constraints. That only adds solutions, so a proof on the chain is a proof of the query.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.emit.marabou import outwards
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.query.query import Query

SHIFT = 1e-3
"""How far above 0 a value is kept that is passed on, relative to its range: clear of rounding errors, but no larger
than the value, or these would be those of the shift."""


@dataclass(frozen=True, eq=False)
class Chain:
    """Affine layers over `box`; the outputs are the unsafe rows minus their offsets: unsafe where all are at most 0."""

    layers: tuple[Layer, ...]
    box: Box


def chain(query: Query) -> Chain:
    """The query without what a chain cannot say."""
    base, relus = query.base, query.base.relus
    exact = {shared.members[0] for shared in query.kept if shared.is_singleton}
    relaxed = np.array([i for i in range(len(relus)) if i not in exact], dtype=np.intp)
    height = -relus.lower * relus.upper / (relus.upper - relus.lower) + 2 * relus.slack
    width = np.concatenate([base.box.upper - base.box.lower, height[relaxed]])
    least = SHIFT * width
    box = Box(least, (width + least) * (1 + 1e-15))
    down = np.zeros(len(relus))
    down[relaxed] = height[relaxed] * (1 + SHIFT)
    shift = np.concatenate([least[: base.free] - base.box.lower, down, least[base.free :]])
    return Chain(tuple(_layers(query, relaxed, shift)), box)


def _layers(query: Query, relaxed: NDArray[np.intp], shift: Array) -> Iterator[Layer]:
    """A state holds z, as far as it is known, and all e, each plus its shift."""
    base, relus = query.base, query.base.relus
    slots = len(shift)
    known = np.arange(slots) < base.free
    known |= np.arange(slots) >= base.size
    before = np.eye(slots)[:, known]
    for number in np.unique(relus.layer):
        here = np.flatnonzero(relus.layer == number)
        step, constant = np.diag(known.astype(np.float64)), np.zeros(slots)
        rows, offset = np.zeros((len(here), slots)), relus.bias[here].copy()
        rows[:, : base.size] = relus.weight[here]
        for k, i in enumerate(here):
            place = np.flatnonzero(relaxed == i)
            if len(place):
                slope = relus.upper[i] / (relus.upper[i] - relus.lower[i])
                rows[k] *= slope
                rows[k, base.size + place[0]] = -1.0
                offset[k] = slope * (offset[k] - relus.lower[i]) + relus.slack[i] + shift[base.free + i]
        step[base.free + here], constant[base.free + here] = rows, offset - rows @ shift
        yield Layer(step @ before, constant)
        before = np.eye(slots)
        known[base.free + here] = True
    final = np.zeros((len(base.unsafe), slots))
    final[:, : base.size] = base.unsafe.matrix
    yield Layer(final @ before, -base.unsafe.offset - outwards(base) - final @ shift)
