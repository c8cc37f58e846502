"""What is true of every value of a network on a region: intervals forwards, and back-substitution of rows.

A region is a box of inputs with decisions (the value that enters some ReLU is >= 0, or <= 0). Everything comes in
batches of regions. All results are float64 and hold in real arithmetic: on a network of fractions they are calculated
exactly and rounded outwards; on a network of floats every rounding is charged, by the standard bound that a sum of n
products is off by at most `n u / (1 - n u)` times the sum of the absolute values, in whatever order it is taken
(Higham, Accuracy and Stability of Numerical Algorithms, 3.1; u is the unit roundoff). `TINY` stands for underflow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ginnacer_check.formula import below
from ginnacer_check.maps import Array
from ginnacer_check.network import Network, Node, exactly

TINY = 1e-290
MOST_NUMBERS = 6_000_000
"""So many coefficients are held at once."""


@dataclass(eq=False)
class Known:
    """`lower[k] <= value of node k <= upper[k]`, (batch, size). `reach[k]` is not below the sum of the absolute values
    of all terms of a sum, and `size` not below the absolute value."""

    lower: list[Array] = field(default_factory=list)
    upper: list[Array] = field(default_factory=list)
    reach: list[Array] = field(default_factory=list)

    def size(self, number: int) -> Array:
        return np.maximum(np.abs(self.lower[number]), np.abs(self.upper[number]))

    @property
    def empty(self) -> Array:
        """Regions where some value would have to be in an interval with nothing in it: no input is there."""
        return np.any([(low > high).any(axis=1) for low, high in zip(self.lower, self.upper, strict=True)], axis=0)

    def kept(self, which: list[Array]) -> "Known":
        """Some of the values of each node."""
        lower = [ends[:, some] for ends, some in zip(self.lower, which, strict=True)]
        return Known(lower, [ends[:, some] for ends, some in zip(self.upper, which, strict=True)])


Decided = Mapping[int, tuple[Array, Array]]
"""By node, the ends that decisions give its values: (batch, size), infinite where nothing is decided."""


def _gamma(network: Network, terms: int) -> float:
    return 1.01 * (terms + 4) * network.unit  # covers n u / (1 - n u) for fewer than 2 ** 40 terms


_below, _above = np.frompyfunc(below, 1, 1), np.frompyfunc(lambda value: -below(-value), 1, 1)


def _interval(network: Network, node: Node, known: Known) -> tuple[Array, Array, Array]:
    """The interval of a sum: around the middles of its sources, `W middle + b -+ |W| radius`."""
    lower = [known.lower[source] for source in node.sources]
    upper = [np.maximum(known.upper[source], low) for source, low in zip(node.sources, lower, strict=True)]
    if not network.unit:
        lower, upper = [exactly(one) for one in lower], [exactly(one) for one in upper]
    half = 0.5 if network.unit else exactly(0.5)[()]
    middle = [low * half + high * half for low, high in zip(lower, upper, strict=True)]
    radius = [np.maximum(high - mid, mid - low) for low, mid, high in zip(lower, middle, upper, strict=True)]
    if network.unit:
        radius = [one * (1 + 4 * network.unit) + TINY for one in radius]
    value, spread, reach = node.bias, 0 * node.bias, abs(node.bias)
    for one, absolute, mid, rad in zip(node.maps, node.absolute, middle, radius, strict=True):
        value, spread = value + one.apply(mid), spread + absolute.apply(rad)
        reach = reach + absolute.apply(abs(mid) + rad)
    if not network.unit:
        return _below(value - spread).astype(float), _above(value + spread).astype(float), reach
    error = 3 * _gamma(network, node.terms) * reach + TINY
    return value - spread - error, value + spread + error, reach * (1 + _gamma(network, node.terms)) + TINY


def bounds(
    network: Network,
    lower: Array,
    upper: Array,
    within: Known | None = None,
    decided: Decided = {},  # noqa: B006
    tighten: bool = True,
) -> Known:
    """Intervals of all nodes on a batch of boxes; with `tighten`, what enters a ReLU and may have either sign is also
    bounded by back-substitution. `within` is known already: of one region around all of these, or of each."""
    known = Known()
    for number, node in enumerate(network.nodes):
        if node.relu:
            low, high = (np.maximum(ends[node.sources[0]], 0.0) for ends in (known.lower, known.upper))
            reach = high
        elif node.sources:
            low, high, reach = _interval(network, node, known)
        else:
            low, high, reach = lower, upper, np.maximum(np.abs(lower), np.abs(upper))
        if within is not None:
            low, high = np.fmax(low, within.lower[number]), np.fmin(high, within.upper[number])
        if number in decided:
            low, high = np.maximum(low, decided[number][0]), np.minimum(high, decided[number][1])
        known.lower.append(np.where(np.isnan(low), -np.inf, low))
        known.upper.append(np.where(np.isnan(high), np.inf, high))
        known.reach.append(reach)
        if tighten and number in network.entering and number in network.behind:
            _tighten(network, number, known)
    return known


def _tighten(network: Network, number: int, known: Known) -> None:
    low, high = known.lower[number], known.upper[number]
    loose = np.flatnonzero(((low < 0) & (high > 0)).any(axis=0))
    widest = max(node.size for node in network.nodes[: number + 1])
    step = max(1, MOST_NUMBERS // (2 * len(low) * widest))
    for first in range(0, len(loose), step):
        chosen = loose[first : first + step]
        rows = np.zeros((1, 2 * len(chosen), low.shape[1]))
        rows[0, np.arange(len(chosen)), chosen] = 1.0
        rows[0, len(chosen) + np.arange(len(chosen)), chosen] = -1.0
        found = least(network, number, rows, known)
        low[:, chosen] = np.fmax(low[:, chosen], found[:, : len(chosen)])
        high[:, chosen] = np.fmin(high[:, chosen], -found[:, len(chosen) :])


@np.errstate(all="ignore")
def least(
    network: Network,
    start: int,
    rows: Array,
    known: Known,
    slopes: Mapping[int, Array] = {},
    weights: Mapping[int, Array] = {},
    offset: Array | None = None,
    slack: Array | None = None,
    met: dict[int, Array] | None = None,
) -> Array:
    """Lower bounds of `rows @ value of node start - offset`, (batch, rows); minus infinity where there is none.

    Rows are (batch or 1, rows, size) and may be off by `slack` already. Any `slopes` between 0 and 1, by ReLU node, are
    sound lower lines of ReLUs with both signs. `weights` are multipliers of decisions by the node that they are about:
    `weight * value >= 0` in each region, so it may be taken away from any row."""
    exact = not network.unit
    number_of = exactly if exact else np.asarray
    held: dict[int, Array] = {start: number_of(rows)}
    shape = (len(known.lower[0]), rows.shape[1])
    total = number_of(np.zeros(shape)) if offset is None else number_of(np.zeros(shape)) - offset
    error = np.zeros(shape) if slack is None else np.zeros(shape) + slack
    for number in range(start, -1, -1):
        node = network.nodes[number]
        c = held.pop(number, None)
        if number in weights:
            c = (0 if c is None else c) - number_of(weights[number])[:, None]
            error = error + (0 if exact else network.unit * _dot(abs(c), known.size(number)))
        if c is None:
            continue
        if met is not None:  # for those who look for proofs
            met[number] = c
        if node.relu:  # c x >= c slope y where c > 0, and c x >= c (chord y + top) where c < 0
            source = node.sources[0]
            slope, chord, top = (number_of(a)[:, None] for a in _lines(network, known, source, slopes.get(number)))
            positive = c > 0
            total = total + (np.where(positive, 0 * c, c) * top).sum(axis=-1)
            parts = [np.where(positive, c * slope, c * chord)]
            if not exact:
                charge = 2 * _gamma(network, node.size) * _dot(abs(c), known.size(source)) + network.unit * abs(total)
                error = error + charge + TINY * (1 + _total(known.size(source)))
        elif node.sources:
            total = total + c @ node.bias
            parts = [one.pull(c) for one in node.maps]
            if not exact:
                charge = _gamma(network, node.terms + node.size) * _dot(abs(c), known.reach[number])
                sizes = sum(_total(known.size(source)) for source in node.sources)
                error = error + charge + network.unit * abs(total) + TINY * (1 + sizes)
        else:
            ends = number_of(known.lower[0])[:, None], number_of(known.upper[0])[:, None]
            total = total + np.where(c > 0, c * ends[0], c * ends[1]).sum(axis=-1)
            if not exact:
                error = error + _gamma(network, node.size) * _dot(abs(c), known.size(0)) + network.unit * abs(total)
            break
        for source, part in zip(node.sources, parts, strict=True):
            if source in held:
                part = part + held[source]
                error = error + (0 if exact else network.unit * _dot(abs(part), known.size(source)))
            held[source] = part
    if exact:
        return _below(total).astype(float)
    bound = total - 1.01 * error - 4 * network.unit * abs(total) - TINY
    return np.where(np.isfinite(bound), bound, -np.inf)


def _dot(rows: Array, values: Array) -> Array:
    return (rows @ values[..., None])[..., 0]


def _total(values: Array) -> Array:
    return values.sum(axis=1)[:, None]


def _lines(network: Network, known: Known, source: int, slope: Array | None) -> tuple[Array, Array, Array]:
    """`slope * y <= relu(y) <= chord * y + top` between the ends of y: any slope, any chord in [0, 1] with this top."""
    low, high = known.lower[source], known.upper[source]
    both = (low < 0) & (high > 0)
    left, right = np.where(both, low, -1.0), np.where(both, high, 1.0)
    chord = np.nan_to_num(np.clip(right / (right - left), 0.0, 1.0))
    if network.unit:
        top = np.maximum(-chord * left, (1 - chord) * right) * (1 + 8 * network.unit) + TINY
    else:
        a, l, r = exactly(chord), exactly(left), exactly(right)  # noqa: E741
        top = np.maximum(-a * l, (1 - a) * r)
    if slope is None:
        slope = (right > -left).astype(float)
    active = (low >= 0).astype(float)
    zero = 0 * top
    return np.where(both, slope, active), np.where(both, chord, active), np.where(both, top, zero)


def rows_of(network: Network, matrix: Array, offset: Array, shares: Array, known: Known) -> tuple[Array, Array, Array]:
    """Rows, offsets and slack for `least` of `shares @ (matrix @ output - offset)`, (batch or 1, mixtures, rows)."""
    if not network.unit:
        given = exactly(shares)
        return given @ exactly(matrix), given @ exactly(offset), np.zeros(1)
    rows, level = matrix.astype(float), offset.astype(float)
    error = _dot(shares @ abs(rows), known.size(len(network.nodes) - 1)) + shares @ abs(level) + TINY
    return shares @ rows, shares @ level, 2 * _gamma(network, len(rows) + 4) * error
