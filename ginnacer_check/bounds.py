"""What is true of every value of a network on a region: intervals forwards, and back-substitution of rows.

A region is a box of inputs with decisions (a value that enters some function is at least so much, or at most).
Everything comes in batches of regions. All results are float64 and hold in real arithmetic: on a network of fractions
they are calculated exactly and rounded outwards; on a network of floats every rounding is charged, by the standard
bound that a sum of n products is off by at most `n u / (1 - n u)` times the sum of the absolute values, in whatever
order it is taken (Higham, Accuracy and Stability of Numerical Algorithms, 3.1; u is the unit roundoff). `TINY` is for
underflow.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ginnacer_check.functions import TINY, Line
from ginnacer_check.maps import Array, below, exactly
from ginnacer_check.network import Network, Node

MOST_NUMBERS = 60_000
"""So many coefficients of a node are held at once: they shall stay in the cache."""
Decided = Mapping[int, tuple[Array, Array]]
"""By node, the ends that decisions give its values: (batch, size), infinite where nothing is decided."""
Compared = Mapping[int, Sequence[tuple[int, int, Array, Array]]]
"""By node, what is known of its values beside those of earlier nodes: (sign, other, indices, their indices) says that
`sign * value >= sign * other value`; used in exact arithmetic only."""


@dataclass(eq=False)
class Known:
    """`lower[k] <= value of node k <= upper[k]`, (batch or 1, size). `reach[k]` is not below the sum of the absolute
    values of all terms of a sum."""

    lower: list[Array] = field(default_factory=list)
    upper: list[Array] = field(default_factory=list)
    reach: list[Array] = field(default_factory=list)
    compared: Compared = field(default_factory=dict)
    lines: dict[int, Any] = field(default_factory=dict)

    def size(self, number: int) -> Array:
        """The largest absolute value."""
        return np.maximum(np.abs(self.lower[number]), np.abs(self.upper[number]))

    def ends(self, sources: Sequence[int]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Lower and upper ends of some nodes; of an empty interval twice the lower one, where anything is true."""
        lows = tuple(self.lower[source] for source in sources)
        return lows, tuple(np.maximum(low, self.upper[source]) for low, source in zip(lows, sources, strict=True))

    def narrowed(self, decided: Decided) -> "Known":
        """The same with some values between other ends as well."""
        found = Known(list(self.lower), list(self.upper), self.reach, self.compared)
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
        return Known(lower, upper, reach, self.compared)

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
    value, spread, reach, wild = node.bias, 0 * node.bias, abs(node.bias), 0 * node.bias
    for map_, absolute, source in zip(node.maps, node.absolute, node.sources, strict=True):
        ends = [side[0] for side in known.ends([source])]
        finite = np.isfinite(ends[0]) & np.isfinite(ends[1])
        if not finite.all():
            wild = wild + absolute.apply(number_of((~finite).astype(float)))
        low, high = (number_of(np.where(finite, end, 0.0)) for end in ends)
        middle = low * half + high * half
        radius = np.maximum(high - middle, middle - low) * (one + 4 * network.unit)
        radius = radius + TINY if network.unit else radius
        value, spread = value + map_.apply(middle), spread + absolute.apply(radius)
        reach = reach + absolute.apply(abs(middle) + radius)
    if network.unit:
        error = 3 * _gamma(network, node.terms) * reach + TINY
        low, high, reach = (
            value - spread - error,
            value + spread + error,
            reach * (1 + _gamma(network, node.terms)) + TINY,
        )
    else:
        low, high = _outwards(value - spread, value + spread)
    wild = wild > 0
    return np.where(wild, -np.inf, low), np.where(wild, np.inf, high), np.where(wild, np.inf, reach)


@np.errstate(all="ignore")
def bounds(
    network: Network, lower: Array, upper: Array, within: Known | None, decided: Decided, tighten: bool = True
) -> Known:
    """Intervals of all nodes on a batch of boxes; with `tighten`, what enters a function is bounded by
    back-substitution too. `within` is known already: of one region around all of these, or of each."""
    known = Known(compared=within.compared if within else {})
    for number, node in enumerate(network.nodes):
        if node.function:
            low, high = node.function.range(*known.ends(node.sources))
            reach = np.maximum(np.abs(low), np.abs(high))
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
    """Back-substitution for the values of a node on which a function bends; what others are is known well enough."""
    low, high = known.lower[number], known.upper[number]
    loose = (low < 0) & (high > 0) if network.entering[number] else low < high
    columns = np.flatnonzero(loose.any(axis=0))
    widest = max(node.size for node in network.nodes[: number + 1])
    step = max(1, MOST_NUMBERS // (2 * len(low) * widest))
    for first in range(0, len(columns), step):
        chosen = columns[first : first + step]
        rows = np.zeros((1, 2 * len(chosen), low.shape[1]))
        rows[0, np.arange(len(chosen)), chosen] = 1.0
        rows[0, len(chosen) + np.arange(len(chosen)), chosen] = -1.0
        found, own = least(network, {number: rows}, known), loose[:, chosen]
        low[:, chosen] = np.fmax(low[:, chosen], np.where(own, found[:, : len(chosen)], -np.inf))
        high[:, chosen] = np.fmin(high[:, chosen], np.where(own, -found[:, len(chosen) :], np.inf))


@np.errstate(all="ignore")
def least(
    network: Network,
    rows: Mapping[int, Array],
    known: Known,
    slopes: Mapping[int, Any] = {},
    weights: Mapping[int, tuple[Array, Array]] = {},
    met: dict[int, Array] | None = None,
) -> Array:
    """Lower bounds of the sums of `rows[k] @ value of node k`, (batch, rows); minus infinity where there is none.

    Rows are (batch or 1, rows, size). Any `slopes` that the format allows are sound, by the number of a function's
    node. `weights` are multipliers of decisions by the node that they are about, and a number for each region:
    `weight @ value >= number` there, so their difference may be taken away from any row. `met` is filled with what each
    node was multiplied with."""
    number_of = np.asarray if network.unit else exactly
    held = {number: number_of(some) for number, some in rows.items()}
    count = next(iter(held.values())).shape[1]
    total, error, lost = number_of(np.zeros((1, count))), np.zeros((1, 1)), np.zeros((1, 1), bool)
    for number in range(max(held), -1, -1):
        node, c = network.nodes[number], held.pop(number, None)
        if number in weights:
            weight, constant = (number_of(one) for one in weights[number])
            c, total = (0 if c is None else c) - weight[:, None], total + constant[:, None]
        if c is None:
            continue
        c = c if network.unit else _compared(network, number, c, known, held)
        if met is not None:
            met[number] = c
        if node.maps:
            total = total + c @ node.bias
            parts, sizes, roundings = [one.pull(c) for one in node.maps], known.reach[number], node.terms + node.size
        else:  # c f(y) >= c (lower line) where c > 0, and c (upper line) where c < 0
            bent = _bent(network, number, known, slopes.get(number))
            negative = np.minimum(c, 0)
            total = total + _dot(c, bent.level) + _dot(negative, bent.higher)
            parts = [c * low + negative * more for low, more in zip(bent.low, bent.steeper, strict=True)]
            sizes, roundings = bent.reach, 2 * node.size + 20
            if bent.gone is not None:
                lost = lost | (((c > 0) & bent.gone[0][:, None]) | ((c < 0) & bent.gone[1][:, None])).any(axis=-1)
        if network.unit:  # of each term as many roundings as it has been through here; `sizes` bounds what is rounded
            sizes = sizes + known.size(number)
            error = (
                error + _gamma(network, roundings + network.fan) * _dot(abs(c), sizes) + 4 * network.unit * abs(total)
            )
            error = error + TINY * (1 + sum(known.size(k).sum(axis=1)[:, None] for k in (number, *node.sources)))
        for source, part in zip(node.sources, parts, strict=True):
            held[source] = part + held[source] if source in held else part
    if not network.unit:
        return np.where(lost, -np.inf, _outwards(total, total)[0])
    bound = total - 1.01 * error - 4 * network.unit * abs(total) - TINY
    return np.where(np.isfinite(bound) & ~lost, bound, -np.inf)


def _compared(network: Network, number: int, c: Array, known: Known, held: dict[int, Array]) -> Array:
    """Replace values by others that are known to be below or above them."""
    for sign, other, mine, theirs in known.compared.get(number, ()):
        moved = sign * np.maximum(sign * c[..., mine], 0)
        kept = held.get(other, exactly(np.zeros((1, 1, network.nodes[other].size))))
        held[other] = kept + 0 * c[..., :1]
        np.add.at(held[other], (..., theirs), moved)  # type: ignore[arg-type]
        c = np.array(c)
        c[..., mine] = c[..., mine] - moved
    return c


def _dot(rows: Array, values: Array) -> Array:
    return (rows @ values[..., None])[..., 0]


@dataclass(frozen=True, eq=False)
class Bent:
    """The lines of a function, or the ends of inputs, made ready for rows: slopes below, and how much steeper those
    above are; levels below, and how much higher those above are; where there are none; what size all of that has."""

    low: list[Array]
    steeper: list[Array]
    level: Array
    higher: Array
    gone: tuple[Array, Array] | None
    reach: Array


def _bent(network: Network, number: int, known: Known, chosen: Any) -> Bent:
    if chosen is None and number in known.lines:
        kept: Bent = known.lines[number]
        return kept
    node, exact = network.nodes[number], not network.unit
    number_of = exactly if exact else np.asarray
    if node.function:
        below, above = node.function.lines(*known.ends(node.sources), chosen, exact)
    else:
        ends = known.lower[number], np.maximum(known.lower[number], known.upper[number])
        below, above = (Line((), number_of(np.where(np.isfinite(e), e, 0.0)), ~np.isfinite(e)) for e in ends)
    low, high = ([number_of(one)[:, None] for one in line.slopes] for line in (below, above))
    steeper, higher = [b - a for a, b in zip(low, high, strict=True)], above.level - below.level
    gone = (below.gone, above.gone) if below.gone.any() or above.gone.any() else None
    reach = abs(below.level) + abs(higher)
    for source, a, b in zip(node.sources, low, steeper, strict=True):
        reach = reach if exact else reach + (abs(a) + abs(b))[:, 0] * known.size(source)
    found = Bent(low, steeper, below.level, higher, gone, reach)
    if chosen is None:
        known.lines[number] = found
    return found
