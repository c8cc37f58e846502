"""A ReLU network on a box as a mixed-integer program for HiGHS, by textbook means and independent of the package."""

from dataclasses import replace

import highspy
import numpy as np
from reading import Array, Case

OUTWARD = 1e-6
"""Added to every bound of a neuron that a linear program gives; its own tolerance is 1e-9."""
INFINITY = highspy.kHighsInf


class Program:
    """The network on a box as a mixed-integer program, built layer by layer.

    `columns` are the values of the last layer built, None for a neuron that is 0 on the whole box."""

    def __init__(self, lower: Array, upper: Array) -> None:
        self.highs = highspy.Highs()
        for option, value in {
            "output_flag": False,
            "threads": 1,
            "primal_feasibility_tolerance": 1e-9,
            "dual_feasibility_tolerance": 1e-9,
            "mip_feasibility_tolerance": 1e-9,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 1e-6,
        }.items():
            self.highs.setOptionValue(option, value)
        self.binaries: list[int] = []
        self.inputs = [self.column(low, high) for low, high in zip(lower, upper, strict=True)]
        self.columns: list[int | None] = list(self.inputs)
        self.ranges = (lower, upper)

    def column(self, lower: float, upper: float) -> int:
        self.highs.addVar(lower, upper)
        return int(self.highs.getNumCol()) - 1

    def row(self, lower: float, upper: float, terms: dict[int, float]) -> None:
        self.highs.addRow(lower, upper, len(terms), list(terms), list(terms.values()))

    def affine(self, weights: Array) -> dict[int, float]:
        return {
            column: float(weight)
            for column, weight in zip(self.columns, weights, strict=True)
            if column is not None and weight != 0
        }

    def largest(self, terms: dict[int, float]) -> float:
        """The maximum of a linear expression over the relaxation built so far."""
        columns = int(self.highs.getNumCol())
        cost = np.zeros(columns)
        cost[list(terms)] = list(terms.values())
        self.highs.changeColsCost(columns, np.arange(columns, dtype=np.int32), cost)
        self.highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return INFINITY
        return float(self.highs.getObjectiveValue()) + OUTWARD

    def bounds(self, matrix: Array, bias: Array) -> tuple[Array, Array]:
        """Of all neurons of the next layer: by intervals, and where those leave the sign open by linear programs."""
        low, high = self.ranges
        lower = np.maximum(matrix, 0) @ low + np.minimum(matrix, 0) @ high + bias - OUTWARD
        upper = np.maximum(matrix, 0) @ high + np.minimum(matrix, 0) @ low + bias + OUTWARD
        for i in np.flatnonzero((lower < 0) & (upper > 0)):
            terms = self.affine(matrix[i])
            upper[i] = min(upper[i], self.largest(terms) + bias[i])
            if upper[i] > 0:
                negated = {column: -weight for column, weight in terms.items()}
                lower[i] = max(lower[i], bias[i] - self.largest(negated))
        return lower, upper

    def relu_layer(self, matrix: Array, bias: Array) -> None:
        lower, upper = self.bounds(matrix, bias)
        self.columns = [self.relu(self.affine(matrix[i]), bias[i], lower[i], upper[i]) for i in range(len(bias))]
        self.ranges = (np.maximum(lower, 0), np.maximum(upper, 0))

    def relu(self, terms: dict[int, float], bias: float, lower: float, upper: float) -> int | None:
        """A column for relu(terms + bias): one of two linear pieces, chosen by a binary where both are possible."""
        if upper <= 0:
            return None
        value = self.column(max(lower, 0.0), upper)
        excess = {value: 1.0} | {column: -weight for column, weight in terms.items()}
        if lower >= 0:
            self.row(bias, bias, excess)
            return value
        active = self.column(0.0, 1.0)
        self.binaries.append(active)
        self.row(bias, INFINITY, excess)
        self.row(-INFINITY, bias - lower, excess | {active: -lower})
        self.row(-INFINITY, 0.0, {value: 1.0, active: -upper})
        return value

    def maximise_slack(self, case: Case, matrix: Array, bias: Array, seconds: float) -> tuple[float, float, Array]:
        """The slack at the best point found, a bound that no point exceeds, and the point.

        The rows of an earlier case stay, but bind nothing: they only bound its own slack from above."""
        slack = self.column(-INFINITY, INFINITY)
        for factors, offset in case.rows:
            weights = sum(factor * matrix[i] for i, factor in factors.items())
            constant = sum(factor * bias[i] for i, factor in factors.items())
            self.row(-INFINITY, float(offset) - constant, self.affine(np.asarray(weights)) | {slack: 1.0})
        for binary in self.binaries:
            self.highs.changeColIntegrality(binary, highspy.HighsVarType.kInteger)
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + seconds)
        self.largest({slack: 1.0})
        info, status = self.highs.getInfo(), self.highs.getModelStatus()
        if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kTimeLimit):
            raise RuntimeError(f"HiGHS says {status} about a program that has a solution")
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return -INFINITY, float(info.mip_dual_bound), np.zeros(0)
        bound = info.mip_dual_bound if self.binaries else info.objective_function_value
        point = np.array(self.highs.getSolution().col_value)[self.inputs]
        return float(info.objective_function_value), float(bound), point


def build(layers: list[tuple[Array, Array]], case: Case) -> Program:
    """All layers but the last, on the box of the case."""
    program = Program(np.array(case.lower, dtype=np.float64), np.array(case.upper, dtype=np.float64))
    for matrix, bias in layers[:-1]:
        program.relu_layer(matrix, bias)
    return program


def halves(case: Case) -> list[Case]:
    """The case on the two halves of its box, cut across the widest input."""
    widths = [upper - lower for lower, upper in zip(case.lower, case.upper, strict=True)]
    widest = widths.index(max(widths))
    middle = case.lower[widest] + widths[widest] / 2
    below, above = list(case.upper), list(case.lower)
    below[widest] = above[widest] = middle
    return [replace(case, upper=tuple(below)), replace(case, lower=tuple(above))]
