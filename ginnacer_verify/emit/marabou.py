"""A Query in the functional form that Marabou needs, as a live query and as a saved `.ipq` file.

Marabou's network-level reasoning wants every variable to be an input or a function of earlier ones. A relaxed ReLU is
only enclosed by inequalities, so it is written as its upper line minus an additional input that says how far below
the line it lies:

    x' = slope * (y - lower) + slack - e,   0 <= e <= height,   x' >= y - slack

Variables: the varying inputs, one e per relaxed ReLU, then y and x' per unstable ReLU, then rhat and s per kept subset
with more than one member, then one variable per unsafe row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.emit.scaling import scaled
from ginnacer_verify.query.query import Base, Query, Shared

if TYPE_CHECKING:
    from maraboupy import MarabouCore

Kind = Literal["EQ", "LE"]
NUDGE = 1e-6
"""How far the ends of inputs are moved outwards, relative to their widths."""
GOLDEN = (5**0.5 - 1) / 2
"""Its multiples have fractions that are spread evenly."""


@dataclass(frozen=True, eq=False)
class Equation:
    """`coefficients @ variables` is equal to `scalar`, or at most it."""

    kind: Kind
    coefficients: Array
    variables: NDArray[np.intp]
    scalar: float


@dataclass(frozen=True, eq=False)
class FunctionalForm:
    """All that Marabou is told. `z` are the variables that hold the query's z."""

    lower: Array
    upper: Array
    inputs: int
    outputs: range
    equations: tuple[Equation, ...]
    relus: tuple[tuple[int, int], ...]
    z: NDArray[np.intp]


def contradiction(query: Query) -> bool:
    """Whether an unsafe row or an input constraint is constant and not met; Marabou cannot be told so."""
    parts = (query.base.unsafe, query.base.inputs)
    return any(bool((~part.matrix.any(axis=1) & (part.offset < 0)).any()) for part in parts)


def outwards(base: Base) -> Array:
    """How far each unsafe row is moved outwards, because an exact ReLU `x' = relu(y)` is written without its slack.

    That is what the slacks of all ReLUs can do to a row through the layers behind them."""
    relus, free, reach = base.relus, base.free, np.abs(base.unsafe.matrix)
    for number in np.unique(relus.layer)[::-1]:
        here = np.flatnonzero(relus.layer == number)
        reach = reach + reach[:, free + here] @ np.abs(relus.weight[here])
    return np.asarray(reach[:, free:] @ relus.slack)


def functional_form(query: Query, nudge: float = NUDGE) -> FunctionalForm:
    """The query's variables and equations in an order in which each is a function of earlier ones."""
    return _Writer(query, nudge).form()


class _Writer:
    """Numbers the variables and collects the equations of one query."""

    def __init__(self, query: Query, nudge: float) -> None:
        base, self.nudge = query.base, nudge
        self.query, self.base, self.relus = query, base, base.relus
        exact = {shared.members[0] for shared in query.kept if shared.is_singleton}
        self.relaxed = [i for i in range(len(base.relus)) if i not in exact]
        self.subsets = [shared for shared in query.kept if not shared.is_singleton]
        self.first_y = base.free + len(self.relaxed)
        self.first_subset = self.first_y + 2 * len(base.relus)
        self.first_row = self.first_subset + 2 * len(self.subsets)
        self.rows = np.flatnonzero(base.unsafe.matrix.any(axis=1))  # a constant row is met, or `contradiction` says not
        self.z = np.concatenate([np.arange(base.free), self.first_y + 1 + 2 * np.arange(len(base.relus))])
        self.equations: list[Equation] = []

    def y(self, i: int) -> int:
        return self.first_y + 2 * i

    def x(self, i: int) -> int:
        return self.y(i) + 1

    def add(self, kind: Kind, row: Array | None, terms: Sequence[tuple[float, int]], scalar: float) -> None:
        """A row over z, if any, and further (coefficient, variable) pairs."""
        used = np.flatnonzero(row) if row is not None else np.zeros(0, dtype=np.intp)
        coefficients = np.concatenate([row[used] if row is not None else [], [a for a, _ in terms]])
        variables = np.concatenate([self.z[used], [v for _, v in terms]]).astype(np.intp)
        self.equations.append(Equation(kind, coefficients, variables, float(scalar)))

    def form(self) -> FunctionalForm:
        relus, base = self.relus, self.base
        relaxed = {i: number for number, i in enumerate(self.relaxed)}
        for i in range(len(relus)):
            self.add("EQ", relus.weight[i], [(-1.0, self.y(i))], -relus.bias[i])
            if i in relaxed:
                self._triangle(i, base.free + relaxed[i])
        for number, shared in enumerate(self.subsets):
            self._subset(shared, self.first_subset + 2 * number)
        for number, row in enumerate(base.unsafe.matrix[self.rows]):
            self.add("EQ", row, [(-1.0, self.first_row + number)], 0.0)
        for row, offset in zip(base.inputs.matrix, base.inputs.offset, strict=True):
            if row.any():
                self.add("LE", row, [], offset)
        phases = [(self.y(i), self.x(i)) for i in range(len(relus)) if i not in relaxed]
        phases += [(self.first_subset + 2 * n, self.first_subset + 2 * n + 1) for n in range(len(self.subsets))]
        outputs = range(self.first_row, self.first_row + len(self.rows))
        lower, upper = self._bounds()
        return FunctionalForm(lower, upper, self.first_y, outputs, tuple(self.equations), tuple(phases), self.z)

    def _triangle(self, i: int, below: int) -> None:
        relus = self.relus
        slope = relus.upper[i] / (relus.upper[i] - relus.lower[i])
        line = relus.slack[i] - slope * relus.lower[i]
        self.add("EQ", None, [(slope, self.y(i)), (-1.0, below), (-1.0, self.x(i))], -line)
        self.add("LE", None, [(1.0, self.y(i)), (-1.0, self.x(i))], relus.slack[i])

    def _subset(self, shared: Shared, rhat: int) -> None:
        self.add("EQ", shared.weight, [(-1.0, rhat)], -shared.bias)
        for i, active in zip(shared.members, shared.active, strict=True):
            terms = [(1.0, self.x(i)), (-1.0, rhat + 1), *([(-1.0, self.y(i))] if active else [])]
            self.add("LE", None, terms, self.relus.slack[i])

    def _bounds(self) -> tuple[Array, Array]:
        """In the order of the variables."""
        relus, base = self.relus, self.base
        count = self.first_row + len(self.rows)
        lower, upper = np.zeros(count), np.zeros(count)
        lower[: base.free], upper[: base.free] = base.box.lower, base.box.upper
        height = -relus.lower * relus.upper / (relus.upper - relus.lower) + 2 * relus.slack
        upper[base.free : self.first_y] = height[self.relaxed]
        pairs = slice(self.first_y, self.first_subset, 2), slice(self.first_y + 1, self.first_subset, 2)
        lower[pairs[0]], upper[pairs[0]] = relus.lower - relus.slack, relus.upper + relus.slack
        upper[pairs[1]] = relus.upper + relus.slack
        for number, shared in enumerate(self.subsets):
            at = self.first_subset + 2 * number
            lower[at], upper[at], upper[at + 1] = shared.lower, shared.upper, max(shared.upper, 0.0)
        matrix = base.unsafe.matrix[self.rows]
        least = np.minimum(matrix * base.lower, matrix * base.upper).sum(axis=1)
        lower[self.first_row :] = least - 1e-6 * (1 + np.abs(least))
        upper[self.first_row :] = (base.unsafe.offset + outwards(base))[self.rows]
        _nudge(lower[: self.first_y], upper[: self.first_y], self.nudge)
        return lower, upper


def _nudge(lower: Array, upper: Array, amount: float) -> None:
    """Move the ends of inputs outwards, in place, by up to so much of their widths and no two of them alike.

    On symmetric networks Marabou's local search (DeepSoI) goes round in circles without end, whatever its settings and
    its timeout; on a box without symmetry it mostly stops. More inputs are allowed, so `unsat` carries over.
    Bounds of other variables must not be moved: that made Marabou call a reachable set `unsat`."""
    width = upper - lower
    parts = np.modf(np.arange(1, 2 * len(width) + 1) * GOLDEN)[0] * amount
    lower -= parts[::2] * width
    upper += parts[1::2] * width


def live_query(form: FunctionalForm) -> "MarabouCore.InputQuery":
    """The form as an object of maraboupy."""
    from maraboupy import MarabouCore

    query = MarabouCore.InputQuery()
    query.setNumberOfVariables(len(form.lower))
    for variable, (lower, upper) in enumerate(zip(form.lower, form.upper, strict=True)):
        query.setLowerBound(variable, float(lower))
        query.setUpperBound(variable, float(upper))
    for number in range(form.inputs):
        query.markInputVariable(number, number)
    for number, variable in enumerate(form.outputs):
        query.markOutputVariable(variable, number)
    kinds = {"EQ": MarabouCore.Equation.EQ, "LE": MarabouCore.Equation.LE}
    for given in form.equations:
        equation = MarabouCore.Equation(kinds[given.kind])
        for coefficient, variable in zip(given.coefficients.tolist(), given.variables.tolist(), strict=True):
            equation.addAddend(coefficient, variable)
        equation.setScalar(given.scalar)
        query.addEquation(equation)
    for before, after in form.relus:
        MarabouCore.addReluConstraint(query, before, after)
    return query


def save_ipq(query: Query, path: Path) -> None:
    """Write the query as a file for Marabou's own command line (`--input-query`), in the units of `emit.scaling`."""
    from maraboupy import MarabouCore

    MarabouCore.saveQuery(live_query(scaled(functional_form(query)).form), str(path))
