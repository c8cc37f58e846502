"""Better bounds of a mixture of rows by choosing lines and multipliers: projected gradient ascent on a graph.

The bound of `Planes.least` is concave in the slopes of lower lines and in the multipliers of decisions and rows, or
nearly so; its gradient needs no automatic differentiation: with the corner x of the box where the bound is attained,
run forwards through the very lines that were used, a line that is chosen a little differently changes the bound by its
coefficient times what it gives more at that point.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.bounds.substitution import Choices, Planes, lines_of, planes
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.graph.function import Lines, Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input
from ginnacer_verify.rounding import gamma

K = TypeVar("K")
RATE, SHORTER = 0.25, 0.92
"""The first step of every choice, and how much shorter each step is than the one before."""
NUDGE = 1e-3
"""How far a choice is moved to see what it changes, for functions whose lines are not linear in it."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """Decisions about one node for a batch of regions: `lower <= value <= upper`, infinite where nothing is decided."""

    lower: Array
    upper: Array

    def side(self, sign: int) -> tuple[Array, Array]:
        """Of the lower (+1) or upper (-1) ends: the sign where there is one, and the end, else twice 0."""
        ends = self.lower if sign > 0 else self.upper
        there = np.isfinite(ends)
        return np.where(there, float(sign), 0.0), np.where(there, ends, 0.0)


@dataclass(eq=False)
class Multipliers:
    """What is chosen for each region of a batch: the lines of functions, the weights of decisions and of rows."""

    low: dict[int, Array] = field(default_factory=dict)
    high: dict[int, Array] = field(default_factory=dict)
    decided: dict[tuple[int, int], Array] = field(default_factory=dict)
    """By node and sign: +1 for lower, -1 for upper ends."""
    rows: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def choices(self, cuts: Mapping[int, Cuts]) -> Choices:
        force: dict[int, list[tuple[Array, Array]]] = {}
        for (number, sign), weight in self.decided.items():
            side, at = cuts[number].side(sign)
            force.setdefault(number, []).append(((weight * side)[:, None], at))
        return Choices(
            {number: values[:, None] for number, values in self.low.items()},
            {number: values[:, None] for number, values in self.high.items()},
            force,
        )


@dataclass(frozen=True, eq=False)
class Found:
    """The best bound of each region and where it is attained: the corner, the values that its lines give there, and the
    coefficients with which functions were met (for those who choose what to cut)."""

    bound: Array
    corner: Array
    planes: Planes
    values: Mapping[int, Array]
    multipliers: Multipliers
    slack: Array
    """How far the mixture of rows, as it was computed, can be from the exact one."""


@np.errstate(all="ignore")
def ascend(
    graph: Graph,
    rows: Array,
    offset: Array,
    known: Known,
    cuts: Mapping[int, Cuts],
    start: Multipliers,
    steps: int,
    deadline: Deadline = FOREVER,
) -> Found:
    """Lower bounds of the best mixture of `rows @ output - offset` of each region.

    Rows are (batch, rows, outputs), offsets (batch, rows). Rows that are not there have an offset of minus infinity.
    Each step's bound is rigorous; the best one counts."""
    chosen, best = start, None
    there = np.isfinite(offset)
    state: dict[tuple[str, int], tuple[Array, Array]] = {}
    rate = RATE
    last = len(graph.nodes) - 1
    for step in range(steps + 1):
        mixed = np.matmul(chosen.rows[:, None], rows)
        moved = np.where(there, offset, 0.0)
        found = planes(graph, last, mixed, known, chosen.choices(cuts), keep=True)
        level = (chosen.rows * moved).sum(axis=1)
        slack = gamma(rows.shape[1] + 4) * (np.abs(chosen.rows * moved)).sum(axis=1)
        size = np.matmul(chosen.rows[:, None], np.abs(rows))[:, 0]
        slack = slack + gamma(rows.shape[1] + 4) * (size * known.largest(last)).sum(axis=1)
        bound = found.within(known)[:, 0] - level - 2 * slack
        bound = np.where(np.isfinite(bound), bound, -np.inf)
        corner = np.where(found.slope[:, 0] > 0, known.box_lower, known.box_upper)
        if known.ball is not None:
            corner = np.clip(known.ball.lowest(found.slope[:, 0]), known.box_lower, known.box_upper)
        values, used = _forward(graph, corner, found, known, chosen.choices(cuts))
        now = Found(bound, corner, found, values, chosen, 2 * slack)
        best = now if best is None else _better(best, now)
        if step == steps or deadline.passed or bool((best.bound > 0).all()):
            break
        chosen = _moved(graph, chosen, now, used, known, cuts, rows, moved, there, state, rate, step)
        rate *= SHORTER
    assert best is not None
    return best


def _forward(
    graph: Graph, x: Array, found: Planes, known: Known, choices: Choices
) -> tuple[dict[int, Array], dict[int, Lines]]:
    """The values of all nodes at the corners when every function is replaced by the line that its coefficient met."""
    values: dict[int, Array] = {}
    used: dict[int, Lines] = {}
    for number, node in enumerate(graph.nodes):
        match node:
            case Input():
                values[number] = x[:, node.start : node.start + node.size]
            case Affine():
                values[number] = node.linear([values[source] for source in node.sources]) + node.bias
            case Apply():
                lines = used[number] = lines_of(graph, number, known, choices)
                met = found.met.get(number)
                above = np.zeros((len(x), node.size), bool) if met is None else met[:, 0] < 0
                low, high = lines.lower_intercept[:, 0], lines.upper_intercept[:, 0]
                for k, source in enumerate(node.sources):
                    low = low + lines.lower_slope[k][:, 0] * values[source]
                    high = high + lines.upper_slope[k][:, 0] * values[source]
                values[number] = np.where(above, high, low)
    return values, used


def _better(old: Found, new: Found) -> Found:
    """Region by region the one with the larger bound."""
    take = new.bound > old.bound
    if take.all():
        return new

    def pick(a: Array, b: Array) -> Array:
        return np.where(take.reshape(-1, *[1] * (a.ndim - 1)), b, a)

    def both(a: Mapping[K, Array], b: Mapping[K, Array]) -> dict[K, Array]:
        return {number: pick(a[number], b[number]) if number in a else b[number] for number in b}

    planes_ = Planes(
        pick(old.planes.slope, new.planes.slope),
        pick(old.planes.constant, new.planes.constant),
        pick(old.planes.error, new.planes.error),
        both(old.planes.met, new.planes.met),
    )
    m, n = old.multipliers, new.multipliers
    chosen = Multipliers(both(m.low, n.low), both(m.high, n.high), both(m.decided, n.decided), pick(m.rows, n.rows))
    return Found(
        pick(old.bound, new.bound),
        pick(old.corner, new.corner),
        planes_,
        both(old.values, new.values),
        chosen,
        pick(old.slack, new.slack),
    )


def _moved(
    graph: Graph,
    chosen: Multipliers,
    now: Found,
    used: Mapping[int, Lines],
    known: Known,
    cuts: Mapping[int, Cuts],
    rows: Array,
    offset: Array,
    there: Array,
    state: dict[tuple[str, int], tuple[Array, Array]],
    rate: float,
    step: int,
) -> Multipliers:
    """One step of Adam for every choice, kept between its limits."""

    def adam(kind: str, number: int, gradient: Array) -> Array:
        gradient = np.where(np.isfinite(gradient), gradient, 0.0)
        mean, square = state.get((kind, number), (np.zeros_like(gradient), np.zeros_like(gradient)))
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        state[kind, number] = mean, square
        return np.asarray(
            rate * (mean / (1 - 0.9 ** (step + 1))) / (np.sqrt(square / (1 - 0.99 ** (step + 1))) + 1e-20)
        )

    low, high, decided = dict(chosen.low), dict(chosen.high), dict(chosen.decided)
    for number, choice in chosen.low.items():
        change = _change(graph, number, known, now, used[number], chosen, low=True)
        gain = np.maximum(now.planes.met[number][:, 0], 0.0) * change if number in now.planes.met else 0.0 * choice
        low[number] = np.clip(choice + adam("low", number, gain), 0.0, 1.0)
    for number, choice in chosen.high.items():
        change = _change(graph, number, known, now, used[number], chosen, low=False)
        gain = np.minimum(now.planes.met[number][:, 0], 0.0) * change if number in now.planes.met else 0.0 * choice
        high[number] = np.clip(choice + adam("high", number, gain), 0.0, 1.0)
    for (number, sign), weight in chosen.decided.items():
        side, at = cuts[number].side(sign)
        scale = _weight_scale(now, number)
        gain = -side * (now.values[number] - at)
        decided[number, sign] = np.maximum(0.0, weight + scale * adam(f"decided {sign}", number, gain))
    weights = chosen.rows
    if weights.shape[1] > 1:
        output = now.values[len(graph.nodes) - 1]
        slack = np.matmul(rows, output[..., None])[..., 0] - offset
        scale = np.maximum(np.abs(np.where(there, slack, 0.0)).max(axis=1, keepdims=True), 1e-30)
        weights = np.where(there, weights * np.exp(2.0 * rate * np.where(there, slack, 0.0) / scale), 0.0)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return Multipliers(low, high, decided, weights)


def _weight_scale(now: Found, number: int) -> Array:
    """How large the multipliers of decisions about a node may sensibly get: as its coefficients are."""
    met = [np.abs(a[:, 0]).max(axis=1, initial=0.0) for a in now.planes.met.values()]
    return np.asarray(np.max(met, axis=0))[:, None] if met else np.ones((len(now.bound), 1))


def _change(
    graph: Graph, number: int, known: Known, now: Found, lines: Lines, chosen: Multipliers, *, low: bool
) -> Array:
    """How fast the value of a function's line grows with its choice, at the point that was reached."""
    node = graph.nodes[number]
    assert isinstance(node, Apply)
    y = [now.values[source] for source in node.sources]
    if low and isinstance(node.function, Relu):
        return np.where((known.lower[node.sources[0]] < 0) & (known.upper[node.sources[0]] > 0), y[0], 0.0)
    choice = (chosen.low if low else chosen.high)[number]
    step = np.where(choice > 0.5, -NUDGE, NUDGE)
    nudged = Choices({number: (choice + step)[:, None]}, {}) if low else Choices({}, {number: (choice + step)[:, None]})
    other = lines_of(graph, number, known, nudged)

    def value(one: Lines) -> Array:
        slopes, intercept = (one.lower_slope, one.lower_intercept) if low else (one.upper_slope, one.upper_intercept)
        return intercept[:, 0] + sum(slope[:, 0] * v for slope, v in zip(slopes, y, strict=True))

    return np.asarray((value(other) - value(lines)) / step)
