"""HiGHS's own branch and cut on the query as a mixed-integer program: a second opinion, and what others do.

In a child process, because HiGHS can spend ten times its time limit in presolve. Run as a program, this module is the
child.
"""

import sys
from typing import Any

import numpy as np

from ginnacer_verify.arrays import read_only
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.emit.milp import Units, excess_column, milp_blocks, without_small
from ginnacer_verify.query.process import Child, out_of_time, serve
from ginnacer_verify.query.query import TOLERANCE, Answer, Query, Sat, Unknown, Unsat

ANSWERS: dict[str, Answer] = {
    "kInfeasible": Unsat(),
    "kTimeLimit": out_of_time("HiGHS"),
    "kMemoryLimit": Unknown("HiGHS ran out of memory: try --refine bisect"),
}
SOLVED = {"kOptimal", "kSolutionLimit"}
SMALLEST = 1e-12
"""HiGHS takes a coefficient that is not larger for 0, and cannot be told otherwise; unasked, already one of 1e-9."""
OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
    "mip_feasibility_tolerance": TOLERANCE,
    "small_matrix_value": SMALLEST,
    "mip_max_improving_sols": 1,  # any solution is a witness: the loop does not need the best one
}


class MilpBackend:
    """One model per query."""

    name = "milp"
    requires = ("highspy",)
    install = "pip install highspy"
    complete = True

    def __init__(self) -> None:
        self.child = Child("HiGHS", (sys.executable, "-m", "ginnacer_verify.adapters.milp"))

    def solve(self, query: Query, *, timeout: float) -> Answer:
        deadline = Deadline.after(timeout)
        if deadline.passed:
            return out_of_time("HiGHS")
        reply = self.child.ask(query, deadline)
        if isinstance(reply, Unknown):
            return reply
        status = reply["status"]
        if status not in SOLVED:
            return ANSWERS.get(status, Unknown(f"HiGHS answered {status}: try --backend highs"))
        values = np.asarray(reply["values"], dtype=np.float64)
        if len(values) < query.base.size or not np.isfinite(values).all():
            return Unknown("the solution of HiGHS violates its own query; try --backend highs")
        return Sat(read_only(values[: query.base.size]), float(values[excess_column(query.base)]))


def run(query: Query, seconds: float) -> dict[str, Any]:
    """Solve one query in this process."""
    import highspy

    deadline = Deadline.after(seconds)
    model = highspy.Highs()
    for option, value in OPTIONS.items():
        model.setOptionValue(option, value)
    nothing = np.zeros(0, dtype=np.int32)
    units = Units.of(query.base)
    for block in without_small(units.blocks(milp_blocks(query)), SMALLEST):
        first, count = model.getNumCol(), len(block.lower)
        model.addCols(count, np.zeros(count), block.lower, block.upper, 0, nothing, nothing, np.zeros(0))
        for column in np.flatnonzero(block.integer):
            model.changeColIntegrality(first + int(column), highspy.HighsVarType.kInteger)
        rows, low, high = block.rows, block.row_lower, block.row_upper
        starts, indices = rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32)
        model.addRows(len(low), low, high, rows.nnz, starts, indices, rows.data)
    model.changeColCost(excess_column(query.base), 1.0)
    model.setOptionValue("time_limit", deadline.left)
    model.run()
    values = np.asarray(model.getSolution().col_value, dtype=np.float64)
    if len(values) >= query.base.size:
        values[: query.base.free] = units.inputs(values)
    return {"status": model.getModelStatus().name, "values": values.tolist()}


BACKEND = MilpBackend

if __name__ == "__main__":
    serve(run)
