"""Near-copies: neurons of a layer that share the ReLU of another one, up to a remainder that is bounded on a box.

With `y_i = scale * y_j + d` and d in an interval on the box,

    relu(y_i) = relu(scale * y_j) + share * d + e

for any share in [0, 1], and e is small where d is: a ReLU never enlarges a difference. Since `relu(-y) = relu(y) - y`,
one ReLU serves all neurons that lean on j. Parallel rows, as in lattices and in networks with split ReLUs, have no
remainder at all.

Paper: Valid Neuron Subset. Departs from it: a subset has a lower bound too, its members have slopes of their own, and
it belongs to a box. Test: test_leaning.py::test_every_run_is_a_solution.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import CHUNK, Bounds, backward
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.rounding import UNIT

Interval = tuple[float, float]
Indices = NDArray[np.intp]
WORTH = 0.5
"""A remainder may be as wide as this share of what the triangle of the neuron itself gives away."""
NEGLIGIBLE = 1e-8
"""A remainder up to this share of the neuron's own range is an error term, not a variable."""
SAMPLES = 256
MOST = 8
"""So many neurons at most are looked at for each one to lean on."""
SMALLEST = float(np.finfo(np.float64).tiny)
SHARES = tuple(k / 16 for k in range(17))


@dataclass(frozen=True)
class Lean:
    """Neuron `neuron` of a layer, from 0, is `relu(scale * y) + share * d + e` with the y of `pivot`."""

    layer: int
    neuron: int
    pivot: int
    scale: float
    share: float
    lower: float
    upper: float
    negligible: bool

    @property
    def largest(self) -> float:
        """The largest absolute value of the remainder."""
        return max(-self.lower, self.upper)


@np.errstate(over="ignore", invalid="ignore")
def leans_of(layers: Sequence[Layer], box: Box, bounds: Bounds, deadline: Deadline = FOREVER) -> tuple[Lean, ...]:
    """Which unstable neurons of the hidden layers lean on which others; a pivot leans on nobody.

    Candidates are alike at corners and other points of the box; the remainders are bounded by back-substitution."""
    found, x = list[Lean](), _points(box)
    known = list(zip(bounds.lower, bounds.upper, strict=True))
    for number, layer in enumerate(layers[:-1]):
        y = layer(x)
        x = np.maximum(y, 0.0)
        unstable = np.flatnonzero(bounds.unstable_in(number))
        pairs = _pairs(y[:, unstable], _heights(bounds, number)[unstable])
        here = [(int(unstable[i]), int(unstable[j]), scale) for i, j, scale in pairs]
        for first in range(0, len(here), CHUNK):
            if deadline.passed:
                return tuple(found)
            found += _small(here[first : first + CHUNK], layers[: number + 1], box, bounds, known[:number])
    return tuple(found)


def _points(box: Box) -> Array:
    random = np.random.default_rng(0)
    corners = np.where(random.random((SAMPLES, box.inputs)) < 0.5, box.lower, box.upper)
    return np.asarray(np.vstack([corners, box.sample(random, SAMPLES)]))


def _heights(bounds: Bounds, number: int) -> Array:
    """What the triangle of each unstable neuron gives away at most."""
    lower, upper = np.minimum(bounds.lower[number], 0.0), np.maximum(bounds.upper[number], 0.0)
    return -lower * upper / np.where(upper > lower, upper - lower, 1.0)


def _pairs(y: Array, heights: Array) -> Iterator[tuple[int, int, float]]:
    """Neurons that are nearly multiples of others, with these and the multiples; the most similar come first."""
    sizes = np.maximum((y * y).sum(axis=0), SMALLEST)
    leaning: dict[int, int] = {}
    pivots = set[int]()
    for _, i, nearest in sorted(_nearest(y, sizes, heights)):
        j = leaning.get(nearest, nearest)
        product = float(y[:, i] @ y[:, j])
        apart = np.sqrt(max(sizes[i] - product * product / sizes[j], 0.0) / len(y))
        if i != j and i not in leaning and i not in pivots and product and apart < WORTH * heights[i]:
            leaning[i] = j
            pivots.add(j)
            yield i, j, product / float(sizes[j])


def _nearest(y: Array, sizes: Array, heights: Array) -> Iterator[tuple[float, int, int]]:
    """For each neuron those that it is nearest to, by how much is left of it in units of its triangle."""
    for first in range(0, len(heights), CHUNK):
        own = np.arange(first, min(first + CHUNK, len(heights)))
        products = y[:, own].T @ y
        left = np.sqrt(np.maximum(sizes[own, None] - products**2 / sizes, 0.0) / len(y))
        ratio = left / np.maximum(heights[own], SMALLEST)[:, None]
        ratio[np.isnan(ratio) | (own[:, None] == np.arange(len(heights)))] = np.inf
        for row, i in zip(ratio, own, strict=True):
            best = np.argsort(row, kind="stable")[:MOST]
            yield from ((float(row[j]), int(i), int(j)) for j in best[row[best] < WORTH])


def _small(
    pairs: Sequence[tuple[int, int, float]],
    layers: Sequence[Layer],
    box: Box,
    bounds: Bounds,
    known: Sequence[tuple[Array, Array]],
) -> Iterator[Lean]:
    """The pairs of the last layer whose remainders are small enough to be worth it."""
    number = len(layers) - 1
    rows = np.zeros((len(pairs), layers[-1].outputs))
    for row, (i, j, scale) in zip(rows, pairs, strict=True):
        row[i], row[j] = 1.0, -scale
    least = backward(np.vstack([rows, -rows]), layers, box, known)
    heights, low, high = _heights(bounds, number), bounds.lower[number].tolist(), bounds.upper[number].tolist()
    for (i, j, scale), below, above in zip(pairs, least, least[len(pairs) :], strict=False):
        pivot = min(scale * low[j], scale * high[j]), max(scale * low[j], scale * high[j])
        share, lower, upper = remainder((low[i], high[i]), pivot, (float(below), -float(above)))
        if upper - lower < WORTH * heights[i]:
            yield Lean(number, i, j, scale, share, lower, upper, upper - lower <= NEGLIGIBLE * (high[i] - low[i]))


def remainder(own: Interval, pivot: Interval, apart: Interval) -> tuple[float, float, float]:
    """The share for which `relu(y) - relu(v) - share * (y - v)` has the narrowest interval, and this interval.

    `own` holds y, `pivot` holds v and `apart` their difference. Where both are active the remainder is (1 - share)
    times the difference, where both are inactive -share times it, and where only one is it lies between these two.
    Test: test_leaning.py::test_remainder."""
    above, below = max(apart[1], 0.0), max(-apart[0], 0.0)
    active = min(above, max(own[1], 0.0)), min(below, max(pivot[1], 0.0))
    inactive = min(above, max(-pivot[0], 0.0)), min(below, max(-own[0], 0.0))
    best = (0.0, -np.inf, np.inf)
    for share in SHARES:
        upper = max((1 - share) * active[0], share * inactive[1]) * (1 + 8 * UNIT)
        lower = -max((1 - share) * active[1], share * inactive[0]) * (1 + 8 * UNIT)
        if upper - lower < best[2] - best[1]:
            best = share, lower, upper
    return best


def leaning(number: int, leans: Sequence[Lean]) -> Indices:
    """The neurons of a layer that lean on others."""
    return np.array([lean.neuron for lean in leans if lean.layer == number], dtype=np.intp)


def widened(box: Box, leans: Sequence[Lean]) -> Box:
    """The box with the remainders that are variables behind the inputs."""
    remainders = [lean for lean in leans if not lean.negligible]
    lower, upper = [lean.lower for lean in remainders], [lean.upper for lean in remainders]
    return Box(np.append(box.lower, lower), np.append(box.upper, upper)) if remainders else box
