"""Marabou 2.0, in a child process that is killed at the deadline and cannot take more memory than it is given.

Run as a program, this module is the child.
"""

import math
import sys
from itertools import cycle
from typing import Any

import numpy as np

from ginnacer_verify.adapters.highs import HighsBackend
from ginnacer_verify.arrays import read_only
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.emit.marabou import NUDGE, FunctionalForm, contradiction, functional_form, live_query
from ginnacer_verify.emit.scaling import ScaledForm, scaled
from ginnacer_verify.query.process import Child, out_of_time, serve
from ginnacer_verify.query.query import Answer, Query, Sat, Unknown, Unsat

ANSWERS: dict[str, Answer] = {
    "unsat": Unsat(),
    "TIMEOUT": out_of_time("Marabou"),
    "ERROR": Unknown("Marabou stopped with an error: try --backend highs"),
    "UNKNOWN": Unknown("Marabou could not tell: try --backend highs"),
    "QUIT_REQUESTED": Unknown("Marabou was asked to quit"),
}
"""Marabou's word -> ours; `sat` comes with values. Compared as a whole: "unsat" contains "sat"."""
MEMORY = 4 << 30
"""Bytes of address space that the child may use."""
ATTEMPTS = ((NUDGE, "auto"), (0.0, "auto"), (NUDGE, "polarity"), (10 * NUDGE, "earliest-relu"))
"""How far inputs are nudged, and how Marabou chooses the ReLU to split."""
SMALL, PATIENCE = 100, 1.0
"""A query with so few variables takes Marabou milliseconds. After so many seconds comes the next attempt, with more."""
COMMAND = (sys.executable, "-m", "ginnacer_verify.adapters.marabou")


class MarabouBackend:
    """Asks the child about scaled functional forms."""

    name = "marabou"
    requires = ("maraboupy",)
    install = (
        "pip install maraboupy==2.0.0"
        if sys.version_info < (3, 12)
        else "Marabou has wheels for Python 3.11 and older only, so it cannot be used with this Python; use highs"
    )
    complete = True

    def __init__(self, *, memory: int = MEMORY, command: tuple[str, ...] = COMMAND) -> None:
        self.child = Child("Marabou", (*command, str(memory)))

    def solve(self, query: Query, *, timeout: float) -> Answer:
        deadline = Deadline.after(timeout)
        if deadline.passed:
            return out_of_time("Marabou")
        if contradiction(query):
            return Unsat()
        form, reply = self._ask(query, deadline)
        answer = reply if isinstance(reply, Unknown) else _answer(reply, form)
        if isinstance(answer, Unsat) and _has_solution(query, deadline):
            return Unknown("Marabou said unsat where HiGHS has a solution: try --backend highs")
        return answer

    def _ask(self, query: Query, deadline: Deadline) -> tuple[ScaledForm, dict[str, Any] | Unknown]:
        """The reply to one of several forms of the query: Marabou can go round in circles on any one of them."""
        patience = PATIENCE
        for nudge, strategy in cycle(ATTEMPTS):
            form = scaled(functional_form(query, nudge))
            small = len(form.form.lower) <= SMALL
            reply = self.child.ask((form.form, strategy), deadline.within(patience) if small else deadline)
            if not (small and isinstance(reply, Unknown) and reply.timeout) or deadline.passed:
                return form, reply
            patience *= 1.5
        raise AssertionError("a cycle has no end")


def _has_solution(query: Query, deadline: Deadline) -> bool:
    """A second opinion, which is given a tenth of the time that was taken: Marabou has called reachable sets unsat."""
    answer = HighsBackend().solve(query, timeout=min(deadline.left, 0.1 + 0.1 * deadline.spent))
    return isinstance(answer, Sat)


def _answer(reply: dict[str, Any], form: ScaledForm) -> Answer:
    """What the reply says; anything that is not exactly an answer is none."""
    word = reply.get("word")
    if word == "sat":
        try:
            z = np.array(reply["z"], dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            z = np.zeros(0)
        if z.shape == form.form.z.shape and np.isfinite(z).all():
            return Sat(read_only(form.z(z)))
        return Unknown("Marabou's solution violates its own query; try --backend highs")
    if isinstance(word, str) and word in ANSWERS:
        return ANSWERS[word]
    return Unknown(f"Marabou answered {word!r}: try --backend highs")


def run(question: tuple[FunctionalForm, str], seconds: float) -> dict[str, Any]:
    """Solve one form in this process, with a way to choose the ReLU to split."""
    from maraboupy import MarabouCore

    form, strategy = question
    options = MarabouCore.Options()
    options._splittingStrategy = strategy
    options._timeoutInSeconds, options._verbosity, options._numWorkers = math.ceil(seconds), 0, 1
    options._tighteningStrategy, options._milpTightening = "deeppoly", "none"
    try:
        word, values, _ = MarabouCore.solve(live_query(form), options, "")
    except Exception as problem:  # "map::at", for one, of whatever type the binding makes of it
        return {"word": "ERROR", "detail": str(problem)}
    return {"word": word, "z": [values[variable] for variable in form.z] if word == "sat" else None}


BACKEND = MarabouBackend

if __name__ == "__main__":
    serve(run, int(sys.argv[1]))
