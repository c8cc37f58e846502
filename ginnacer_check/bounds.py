"""What is true of every value of a network on a region: intervals forwards, and back-substitution of rows.

A region is a box of inputs with decisions (the value that enters some ReLU is >= 0, or <= 0). Everything comes in
batches of regions. All results are float64 and hold in real arithmetic: on a network of fractions they are calculated
exactly and rounded outwards; on a network of floats every rounding is charged, by the standard bound that a sum of n
products is off by at most `n u / (1 - n u)` times the sum of the absolute values, in whatever order it is taken
(Higham, Accuracy and Stability of Numerical Algorithms, 3.1; u is the unit roundoff). `TINY` stands for underflow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ginnacer_check.formula import below
from ginnacer_check.maps import Array
from ginnacer_check.network import Network, Node, exactly

TINY = 1e-290
MOST_NUMBERS = 60_000
"""So many coefficients of a node are held at once: they shall stay in the cache."""
Decided = Mapping[int, tuple[Array, Array]]
"""By node, the ends that decisions give its values: (batch, size), infinite where nothing is decided."""


@dataclass(eq=False)
class Known:
    """`lower[k] <= value of node k <= upper[k]`, (batch or 1, size). `reach[k]` is not below the sum of the absolute
    values of all terms of a sum, and `size` not below the absolute value."""

    lower: list[Array] = field(default_factory=list)
    upper: list[Array] = field(default_factory=list)
    reach: list[Array] = field(default_factory=list)
    lines: dict[int, tuple[Array, Array, Array]] = field(default_factory=dict)

    def size(self, number: int) -> Array:
        return np.maximum(np.abs(self.lower[number]), np.abs(self.upper[number]))

    def narrowed(self, decided: Decided) -> "Known":
        """The same with some values between other ends as well."""
        found = Known(list(self.lower), list(self.upper), self.reach)
        for number, (low, high) in decided.items():
            found.lower[number] = np.maximum(found.lower[number], low)
            found.upper[number] = np.minimum(found.upper[number], high)
        return found

    @classmethod
    def joined(cls, some: "list[Known]") -> "Known":
        """What is known of several regions as a batch."""

        def batch(lists: Iterable[list[Array]]) -> list[Array]:
            return [np.concatenate(values) for values in zip(*lists, strict=True)]

        return cls(batch(k.lower for k in some), batch(k.upper for k in some), batch(k.reach for k in some))

    def part(self, which: Array) -> "Known":
        """Some regions of the batch."""
        lower, upper, reach = (
            [v[which] if len(v) > 1 else v for v in some] for some in (self.lower, self.upper, self.reach)
        )
        return Known(lower, upper, reach)

    @property
    def empty(self) -> Array:
        """Regions where some value would have to be in an interval with nothing in it: no input is there."""
        found: Array = np.zeros(1, dtype=bool)
        for low, high in zip(self.lower, self.upper, strict=True):
            found = found | (low > high).any(axis=1)
        return found


def _gamma(network: Network, terms: int) -> float:
    return 1.01 * (terms + 6) * network.unit  # covers n u / (1 - n u) for fewer than 2 ** 40 terms


def _outwards(low: Array, high: Array) -> tuple[Array, Array]:
    """Fractions as float64, not above and not below."""
    down = np.frompyfunc(below, 1, 1)
    return np.asarray(down(low), float), -np.asarray(down(-high), float)


def _interval(network: Network, node: Node, known: Known) -> tuple[Array, Array, Array]:
    """The interval of a sum: around the middles of its sources, `W middle + b -+ |W| radius`."""
    number_of = np.asarray if network.unit else exactly
    half, one = number_of(0.5)[()], number_of(1.0)[()]
    value, spread, reach = node.bias, 0 * node.bias, abs(node.bias)
    for map_, absolute, source in zip(node.maps, node.absolute, node.sources, strict=True):
        low = number_of(known.lower[source])
        high = np.maximum(number_of(known.upper[source]), low)
        middle = low * half + high * half
        radius = np.maximum(high - middle, middle - low) * (one + 4 * network.unit)
        radius = radius + TINY if network.unit else radius
        value, spread = value + map_.apply(middle), spread + absolute.apply(radius)
        reach = reach + absolute.apply(abs(middle) + radius)
    if not network.unit:
        return *_outwards(value - spread, value + spread), reach
    error = 3 * _gamma(network, node.terms) * reach + TINY
    return value - spread - error, value + spread + error, reach * (1 + _gamma(network, node.terms)) + TINY


@np.errstate(all="ignore")
def bounds(
    network: Network, lower: Array, upper: Array, within: Known | None, decided: Decided, tighten: bool = True
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
            low, high = np.fmax(low, decided[number][0]), np.fmin(high, decided[number][1])
        known.lower.append(np.where(np.isnan(low), -np.inf, low))
        known.upper.append(np.where(np.isnan(high), np.inf, high))
        known.reach.append(reach)
        if tighten and number in network.entering:
            _tighten(network, number, known)
    return known


def _tighten(network: Network, number: int, known: Known) -> None:
    """Back-substitution for the values of a node that may have either sign; those that may not stay as they are."""
    low, high = known.lower[number], known.upper[number]
    loose = (low < 0) & (high > 0)
    columns = np.flatnonzero(loose.any(axis=0))
    widest = max(node.size for node in network.nodes[: number + 1])
    step = max(1, MOST_NUMBERS // (2 * len(low) * widest))
    for first in range(0, len(columns), step):
        chosen = columns[first : first + step]
        rows = np.zeros((1, 2 * len(chosen), low.shape[1]))
        rows[0, np.arange(len(chosen)), chosen] = 1.0
        rows[0, len(chosen) + np.arange(len(chosen)), chosen] = -1.0
        found, own = least(network, number, rows, known), loose[:, chosen]
        low[:, chosen] = np.fmax(low[:, chosen], np.where(own, found[:, : len(chosen)], -np.inf))
        high[:, chosen] = np.fmin(high[:, chosen], np.where(own, -found[:, len(chosen) :], np.inf))


@np.errstate(all="ignore")
def least(
    network: Network,
    start: int,
    rows: Array,
    known: Known,
    slopes: Mapping[int, Array] = {},
    weights: Mapping[int, Array] = {},
    met: dict[int, Array] | None = None,
) -> Array:
    """Lower bounds of `rows @ value of node start`, (batch, rows); minus infinity where there is none.

    Rows are (batch or 1, rows, size). Any `slopes` between 0 and 1, by ReLU node, are sound lower lines of ReLUs with
    both signs. `weights` are multipliers of decisions by the node that they are about: `weight * value >= 0` in each
    region, so it may be taken away from any row. `met` is filled with what each node was multiplied with."""
    number_of = np.asarray if network.unit else exactly
    held: dict[int, Array] = {start: number_of(rows)}
    total, error = number_of(np.zeros((1, rows.shape[1]))), np.zeros((1, 1))
    for number in range(start, -1, -1):
        node, c = network.nodes[number], held.pop(number, None)
        if number in weights:
            c = (0 if c is None else c) - number_of(weights[number])[:, None]
        if c is None:
            continue
        if met is not None:
            met[number] = c
        if node.relu:  # c x >= c slope y where c > 0, and c x >= c (chord y + top) where c < 0
            slope, steeper, top = _lines(network, known, node.sources[0], slopes.get(number))
            negative = np.minimum(c, 0)
            total = total + _dot(negative, top)
            parts, sizes, roundings = [c * slope + negative * steeper], known.size(node.sources[0]), 2 * node.size
        elif node.sources:
            total = total + c @ node.bias
            parts, sizes, roundings = [one.pull(c) for one in node.maps], known.reach[number], node.terms + node.size
        else:
            low, high = number_of(known.lower[0]), number_of(known.upper[0])
            total = total + _dot(c, low) + _dot(np.minimum(c, 0), high - low)
            parts, sizes, roundings = [], known.size(0) + (known.upper[0] - known.lower[0]), 2 * node.size
        if network.unit:  # of each term as many roundings as it has been through here; `sizes` bounds what is rounded
            sizes = sizes + known.size(number)
            error = error + _gamma(network, roundings) * _dot(abs(c), sizes) + 4 * network.unit * abs(total)
            error = error + TINY * (1 + sum(known.size(k).sum(axis=1)[:, None] for k in (number, *node.sources)))
        for source, part in zip(node.sources, parts, strict=True):
            held[source] = part + held[source] if source in held else part
    if not network.unit:
        return _outwards(total, total)[0]
    bound = total - 1.01 * error - 4 * network.unit * abs(total) - TINY
    return np.where(np.isfinite(bound), bound, -np.inf)


def _dot(rows: Array, values: Array) -> Array:
    return (rows @ values[..., None])[..., 0]


def _lines(network: Network, known: Known, source: int, slope: Array | None) -> tuple[Array, Array, Array]:
    """`slope * y <= relu(y) <= chord * y + top` between the ends of y: any slope, any chord in [0, 1] with this top.

    What is given is the slope, `chord - slope` and the top."""
    if slope is None and source in known.lines:
        return known.lines[source]
    number_of = np.asarray if network.unit else exactly
    low, high = known.lower[source], known.upper[source]
    both = (low < 0) & (high > 0)
    left, right = np.where(both, low, -1.0), np.where(both, high, 1.0)
    chord = np.nan_to_num(np.clip(right / (right - left), 0.0, 1.0))
    chosen = (right > -left).astype(float) if slope is None else slope
    a, active = number_of(chord), number_of((low >= 0).astype(float))
    top = np.maximum(-a * number_of(left), (1 - a) * number_of(right))
    top = top * (1 + 8 * network.unit) + TINY if network.unit else top
    lower, upper = np.where(both, number_of(chosen), active), np.where(both, a, active)
    found = lower[:, None], (upper - lower)[:, None], np.where(both, top, 0 * a)
    if slope is None:
        known.lines[source] = found
    return found
