"""What a verdict means in one plain sentence: what was proved and how, or who wins by how much, or what is missing."""

from collections.abc import Sequence

import numpy as np

from ginnacer_verify.engines.verdict import Holds, Statistics, Undecided, Verdict, Violated
from ginnacer_verify.properties.property import Polytope, Property
from ginnacer_verify.replay.judge import Counterexample

MANY_LINES = 24
"""A terminal shows no more lines of a witness."""


def sentence(verdict: Verdict, prop: Property | None = None) -> str:
    """What happened. `prop` is what was decided; without it a counterexample is not put into words."""
    match verdict:
        case Holds() if prop is not None and not prop.disjuncts:
            return "Every conjunction of the property contradicts itself, so nothing is unsafe."
        case Holds():
            return f"{_how(verdict.statistics)}; {_relus(verdict.statistics)}."
        case Violated() if prop is not None:
            return f"Counterexample: {_who_wins(prop, verdict.counterexample)}."
        case Violated():
            return "There is a counterexample."
        case Undecided():
            return f"{verdict.reason[:1].upper()}{verdict.reason[1:]}."
    raise TypeError(f"{verdict!r} is no verdict")


def _how(numbers: Statistics) -> str:
    split = f"{numbers.boxes} {'boxes' if numbers.engine == 'boxes' else 'regions'}"
    match numbers.engine:
        case "boxes" | "phases" | "regions" if numbers.boxes <= 1:
            return "Proved by bounds on the whole input box"
        case "boxes":
            return f"Proved by splitting the input into {split}"
        case "phases":
            return f"Proved by deciding ReLUs in {split}"
        case "regions":
            return f"Proved by cutting inputs and neurons into {split}"
    solver = numbers.engine.removeprefix("phases, ")
    if not numbers.rounds:
        return "Proved by bounds on the whole input box"
    queries = f"{numbers.rounds} {'query' if numbers.rounds == 1 else 'queries'}"
    return f"Proved by abstraction and refinement: {queries} to {solver}, at most {numbers.kept} ReLUs kept"


def _relus(numbers: Statistics) -> str:
    if not numbers.unstable:
        return "no ReLU was undecided"
    return f"{numbers.unstable} of {numbers.total} ReLUs were undecided"


def _who_wins(prop: Property, found: Counterexample) -> str:
    """The outputs that decide, and by how much; which part of the property if there are several."""
    unsafe = prop.disjuncts[found.disjunct].outputs
    where = f" (part {found.disjunct + 1} of {len(prop.disjuncts)})" if len(prop.disjuncts) > 1 else ""
    if len(unsafe) == 1 and (pair := _compared(unsafe)):
        loser, winner = pair
        by = found.y[winner] - found.y[loser]
        if by == 0:
            return f"outputs {winner} and {loser} are equal, {found.y[winner]:.6g}{where}"
        return f"output {winner} is {by:.3g} above output {loser}{where}"
    slack = float(min(found.slacks, default=0.0))
    if len(unsafe) == 1 and len(used := np.flatnonzero(unsafe.matrix[0])) == 1:
        factor, output = float(unsafe.matrix[0, used[0]]), int(used[0])
        limit = f"the limit {unsafe.offset[0] / factor:.4g}"
        if slack == 0:
            return f"output {output} reaches {limit}{where}"
        return f"output {output} is {found.y[output]:.4g}, {slack / abs(factor):.3g} beyond {limit}{where}"
    what = (
        "the unsafe condition holds, by"
        if len(unsafe) == 1
        else f"all {len(unsafe)} unsafe conditions hold, by at least"
    )
    return f"{what} {slack:.3g}{where}"


def _compared(unsafe: Polytope) -> tuple[int, int] | None:
    """(i, j) if the only row says y_i - y_j <= 0."""
    row = unsafe.matrix[0]
    used = np.flatnonzero(row)
    if len(used) != 2 or unsafe.offset[0] != 0 or row[used].sum() != 0:
        return None
    return int(np.argmax(row)), int(np.argmin(row))


def shortened(lines: Sequence[str]) -> list[str]:
    """The first and last lines of a long witness, for a terminal."""
    if len(lines) <= MANY_LINES:
        return list(lines)
    left = len(lines) - 10
    return [*lines[:5], f"... {left} more lines; --witness FILE or a pipe gets all of them ...", *lines[-5:]]
