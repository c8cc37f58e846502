"""HiGHS as an LP solver, with our own branching on the phases of the kept ReLUs.

HiGHS's own branch and cut (backend `milp`) spends its time on cuts over hundreds of inputs that hardly help; a plain
tree of LPs, each started from the last basis, is about twenty times faster on such queries. There are no big-M rows
either: a phase is a change of bounds. A leaf counts as closed only if a bound that we compute from its dual values
says so (`safe_bound`), so an `Unsat` does not hang on the solver's tolerances.

The model and the tree stay alive while subsets are only added: leaves that are closed stay closed (R5).
"""

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, vstack

from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.deadline import REACHED, Deadline
from ginnacer_verify.emit.milp import Block, Unit, base_block, excess_column, kept_unit
from ginnacer_verify.query.query import TOLERANCE, Answer, Base, Query, Sat, Shared, Unknown, Unsat, sensitivity
from ginnacer_verify.query.safe_bound import safe_bound

if TYPE_CHECKING:
    import highspy

TIMEOUT = Unknown(f"{REACHED} in HiGHS", timeout=True)
OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
}
ANSWERED = {"kOptimal", "kInfeasible", "kTimeLimit"}
Phases = dict[int, bool]
"""The units of a leaf whose phase is decided, by number: True is active."""


class HighsBackend:
    """A tree of LPs per base; each query continues where the one before it stopped."""

    name = "highs"
    requires = ("highspy",)
    install = "pip install highspy"
    complete = True

    def __init__(self) -> None:
        self._base: Base | None = None
        self._kept: tuple[Shared, ...] = ()
        self._open: list[Phases] = []

    def solve(self, query: Query, *, timeout: float) -> Answer:
        deadline = Deadline.after(timeout)
        if deadline.passed:
            return TIMEOUT
        if query.base is not self._base or query.kept[: len(self._kept)] != self._kept:
            self._program, self._open = _Program(query.base), [{}]
            self._base, self._kept = query.base, ()
        for number in range(len(self._kept), len(query.kept)):
            if deadline.passed:
                return TIMEOUT
            self._program.keep(query.kept[number])
            self._kept = query.kept[: number + 1]
        return self._search(deadline)

    def _search(self, deadline: Deadline) -> Answer:
        """Depth first. A leaf stays open until it is closed, so that running out of time loses nothing."""
        program = self._program
        while self._open:
            if deadline.passed:
                return TIMEOUT
            leaf = self._open[-1]
            status = program.run(leaf, deadline)
            if program.closes(status):
                self._open.pop()
                continue
            if status == "kTimeLimit":
                return TIMEOUT
            if status != "kOptimal":
                return Unknown(f"HiGHS answered {status}: try --backend milp or marabou")
            number = program.worst_unit(leaf)
            if number is None:
                return program.solution()
            self._open[-1:] = program.children(leaf, number)
        return Unsat()


class _Program:
    """The LP of one base in HiGHS, with the matrix at hand for bounds of our own."""

    def __init__(self, base: Base) -> None:
        self.base, self.units, self.weights = base, list[Unit](), list[float]()
        self.model = _fresh()
        self.lower = self.upper = self.row_lower = self.row_upper = np.zeros(0)
        self.rows = csr_array((0, 0))
        self.fixed: Phases = {}
        self._sensitivity = np.where(base.harmless, 0.0, sensitivity(base)[base.free :] + 1e-12)
        self._add(base_block(base))
        self.excess = excess_column(base)
        self.model.changeColCost(self.excess, 1.0)

    def keep(self, shared: Shared) -> None:
        block, unit = kept_unit(self.base, shared, len(self.lower), len(self.row_lower))
        self._add(block)
        self.units.append(unit)
        self.weights.append(float(self._sensitivity[list(shared.members)].max()))

    def _add(self, block: Block) -> None:
        count, nothing = len(block.lower), np.zeros(0, dtype=np.int32)
        self.model.addCols(count, np.zeros(count), block.lower, block.upper, 0, nothing, nothing, np.zeros(0))
        rows, low, high = block.rows, block.row_lower, block.row_upper
        starts, indices = rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32)
        self.model.addRows(len(low), low, high, rows.nnz, starts, indices, rows.data)
        self.lower, self.upper = np.append(self.lower, block.lower), np.append(self.upper, block.upper)
        self.row_lower, self.row_upper = np.append(self.row_lower, low), np.append(self.row_upper, high)
        self.rows = csr_array(vstack([_widened(self.rows, len(self.lower)), _widened(rows, len(self.lower))]))

    def run(self, leaf: Phases, deadline: Deadline) -> str:
        """Solve the LP of a leaf; the status in HiGHS's words."""
        for number in sorted(self.fixed.keys() | leaf.keys()):
            if self.fixed.get(number) != leaf.get(number):
                self._fix(self.units[number], leaf.get(number))
        self.fixed = leaf
        status = self._solve(deadline)
        if status not in ANSWERED:  # the basis of another leaf can lead it astray
            self.model.clearSolver()
            status = self._solve(deadline)
        return status

    def _solve(self, deadline: Deadline) -> str:
        status, before = "kTimeLimit", 0.0
        while status == "kTimeLimit" and not deadline.passed:
            self.model.setOptionValue("time_limit", before + deadline.left)
            self.model.run()
            status = str(self.model.getModelStatus().name)
            before = self.model.getRunTime()  # some releases count the limit from a model's first run
        return status

    def _fix(self, unit: Unit, active: bool | None) -> None:
        """Bounds of a unit that is active, inactive, or undecided."""
        slack, row = unit.slack, unit.difference
        lower = -slack if active else unit.lower - slack
        upper = slack if active is False else unit.upper + slack
        self._bound(unit.before, lower, upper)
        self._bound(unit.after, 0.0, max(upper, 0.0))
        self.row_upper[row] = slack if active else np.inf
        self.model.changeRowBounds(row, float(self.row_lower[row]), float(self.row_upper[row]))

    def _bound(self, column: int, lower: float, upper: float) -> None:
        self.lower[column], self.upper[column] = lower, upper
        self.model.changeColBounds(column, lower, upper)

    def closes(self, status: str) -> bool:
        """Whether the leaf holds no solution, by a bound of our own: of the excess, or of nothing at all."""
        if status == "kOptimal":
            cost = np.zeros(len(self.lower))
            cost[self.excess] = 1.0
            return self._value() > 0 and self._safe(cost, np.asarray(self.model.getSolution().row_dual)) > 0
        if status == "kInfeasible":
            _, found, ray = self.model.getDualRay()
            scaled = np.asarray(ray) / max(float(np.abs(ray).max(initial=0.0)), 1e-300) if found else np.zeros(0)
            return bool(found) and max(self._safe(np.zeros(len(self.lower)), m) for m in (scaled, -scaled)) > 0
        return False

    def _safe(self, cost: Array, multipliers: Array) -> float:
        return safe_bound(cost, self.rows, (self.row_lower, self.row_upper), (self.lower, self.upper), multipliers)

    def _value(self) -> float:
        return float(self.model.getInfo().objective_function_value)

    def _columns(self) -> Array:
        return np.asarray(self.model.getSolution().col_value)

    def worst_unit(self, leaf: Phases) -> int | None:
        """The undecided unit that gives away most in the leaf's solution; none if the solution is one of the query."""
        values, worst, most = self._columns(), None, 0.0
        for number, unit in enumerate(self.units):
            gap = values[unit.after] - max(values[unit.before], 0.0)
            if number not in leaf and gap > 2 * unit.slack and gap * self.weights[number] > most:
                worst, most = number, gap * self.weights[number]
        return worst

    def children(self, leaf: Phases, number: int) -> list[Phases]:
        """Both phases of a unit; the one of the solution comes last and is searched first."""
        active = bool(self._columns()[self.units[number].before] > 0)
        return [{**leaf, number: not active}, {**leaf, number: active}]

    def solution(self) -> Answer:
        values = self._columns()
        if self._value() > 0 or len(values) < self.base.size or not np.isfinite(values).all():
            return Unknown("HiGHS and our own bound of its solution disagree: try --backend milp or marabou")
        return Sat(read_only(values[: self.base.size]), self._value())


def _widened(rows: csr_array, width: int) -> csr_array:
    """The same rows with empty columns to the right."""
    return csr_array((rows.data, rows.indices, rows.indptr), (rows.shape[0], width))


def _fresh() -> "highspy.Highs":
    import highspy

    model = highspy.Highs()
    for option, value in OPTIONS.items():
        model.setOptionValue(option, value)
    return model


BACKEND = HighsBackend
