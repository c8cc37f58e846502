"""Decide every instance by two programs that are not ours, and write down what they said.

    python vnnlib/decide_instances.py [SET ...]

1. HiGHS: a mixed-integer program per disjunct that maximises the slack, i.e. how far the output gets into the unsafe
   set. Big-M constants come from interval bounds tightened by linear programs, one layer after the other. Where that
   takes long and inputs are few, the box is halved.
2. Marabou, with its own reader of the network file.
3. onnxruntime: a `sat` needs an input of the exact box whose float32 outputs are unsafe, with no tolerance.

An instance is refused when HiGHS finds no answer, when its slack is within MARGIN of 0 (the truth could then depend on
rounding) or when the programs disagree. Marabou may run out of time, which `decided.csv` then shows.
"""

import csv
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnxruntime
from maraboupy import Marabou
from milp import INFINITY, build, halves
from numpy.typing import NDArray
from reading import Array, Case, instances, read_cases, read_layers, witness_path

MARGIN = 1e-4
HIGHS_SECONDS = 900.0
HALVED_INPUTS, HALVED_SECONDS = 5, 30.0
"""With so few inputs a case that takes longer than this is decided on the two halves of its box instead."""
MARABOU_SECONDS = 120
"""For one case."""
ROOM = 1e-6


def ask_highs(path: Path, cases: list[Case]) -> tuple[str, float, Array]:
    """The word of HiGHS, with a slack that no input exceeds for unsat, or one that the given input reaches for sat."""
    layers, pending, largest = read_layers(path), cases[::-1], -INFINITY
    deadline, box, program = time.perf_counter() + HIGHS_SECONDS, None, None
    seconds = HALVED_SECONDS if len(cases[0].lower) <= HALVED_INPUTS else HIGHS_SECONDS
    while pending:
        case = pending.pop()
        if program is None or box != (case.lower, case.upper):
            box, program = (case.lower, case.upper), build(layers, case)
        slack, bound, point = program.maximise_slack(case, *layers[-1], seconds)
        if slack >= MARGIN:
            return "sat", slack, point
        if bound <= -MARGIN:
            largest = max(largest, bound)
        elif slack > -MARGIN or time.perf_counter() > deadline:
            return "too close to 0" if slack > -MARGIN else "timeout", bound, point
        else:
            pending += halves(case)
    return "unsat", largest, np.zeros(0)


def ask_marabou(path: Path, cases: list[Case]) -> str:
    """Marabou's word on the union of the cases: unsat if it says so of each, else the first other word."""
    words = (solve_marabou(path, case) for case in cases)
    return next((word for word in words if word != "unsat"), "unsat")


def solve_marabou(path: Path, case: Case) -> str:
    network = Marabou.read_onnx(str(path))
    inputs, outputs = network.inputVars[0].flatten(), network.outputVars[0].flatten()
    for variable, lower, upper in zip(inputs, case.lower, case.upper, strict=True):
        # Marabou may call a query with a constant input unsat that is not (its issue 670). Give such an input some
        # room: an unsat then still covers the case, and a sat counts only together with a replayed witness.
        room = ROOM if lower == upper else 0.0
        network.setLowerBound(variable, float(lower) - room)
        network.setUpperBound(variable, float(upper) + room)
    for factors, offset in case.rows:
        network.addInequality([outputs[i] for i in factors], list(factors.values()), float(offset))
    options = Marabou.createOptions(verbosity=0, timeoutInSeconds=MARABOU_SECONDS)
    return str(network.solve(verbose=False, options=options)[0]).lower()


def replay(path: Path, cases: list[Case], point: Array) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The nearest float32 input of the exact box and its outputs; raises if they are not unsafe."""
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    for case in cases:
        x = np.array([inside(*ends) for ends in zip(case.lower, point, case.upper, strict=True)], dtype=np.float32)
        y = session.run(None, {"X": x.reshape(session.get_inputs()[0].shape)})[0].flatten()
        if case.contains(x) and case.slack(y) >= 0:
            return x, y
    raise RuntimeError(f"the witness for {path.name} is not confirmed by onnxruntime")


def inside(lower: Fraction, value: float, upper: Fraction) -> np.float32:
    """`value` as the nearest float32 that is not below `lower` and not above `upper`."""
    rounded = np.float32(value)
    while Fraction(float(rounded)) > upper:
        rounded = np.nextafter(rounded, np.float32(-np.inf))
    while Fraction(float(rounded)) < lower:
        rounded = np.nextafter(rounded, np.float32(np.inf))
    return rounded


def write_witness(path: Path, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
    """VNN-COMP's format; repr of the float64 value is exact for a float32."""
    pairs = [f"(X_{i} {float(v)!r})" for i, v in enumerate(x)] + [f"(Y_{i} {float(v)!r})" for i, v in enumerate(y)]
    path.parent.mkdir(exist_ok=True)
    path.write_text("(" + "\n".join(pairs) + ")\n")


@dataclass(frozen=True)
class Decision:
    """One row of decided.csv: the words of the two programs, their CPU seconds, and the slack of HiGHS."""

    onnx: str
    vnnlib: str
    highs: str
    slack: str
    highs_seconds: str
    marabou: str
    marabou_seconds: str

    @property
    def expected(self) -> str:
        agreed = self.highs in ("sat", "unsat") and self.marabou in (self.highs, "timeout")
        return self.highs if agreed else "refused"


def decide(folder: Path, network: str, prop: str) -> Decision:
    path, cases = folder / network, read_cases(folder / prop)
    start = time.process_time()
    word, slack, point = ask_highs(path, cases)
    middle = time.process_time()
    marabou = ask_marabou(path, cases)
    end = time.process_time()
    if word == "sat":
        write_witness(witness_path(folder, network, prop), *replay(path, cases, point))
    return Decision(network, prop, word, f"{slack:.5f}", f"{middle - start:.2f}", marabou, f"{end - middle:.2f}")


def write_table(path: Path, header: list[str], rows: Sequence[tuple[str, ...]]) -> None:
    with path.open("w", newline="") as lines:
        csv.writer(lines, lineterminator="\n").writerows([header, *rows])


def main(folders: list[Path]) -> int:
    refused = 0
    for folder in folders:
        for stale in folder.glob("witnesses/*"):
            stale.unlink()
        decisions = []
        for network, prop, _ in instances(folder):
            decisions.append(decide(folder, network, prop))
            print(*vars(decisions[-1]).values(), decisions[-1].expected, flush=True)
        refused += sum(decision.expected == "refused" for decision in decisions)
        write_table(folder / "decided.csv", list(vars(decisions[0])), [tuple(vars(d).values()) for d in decisions])
        expected = [(decision.onnx, decision.vnnlib, decision.expected) for decision in decisions]
        write_table(folder / "expected.csv", ["onnx", "vnnlib", "expected"], expected)
    return min(refused, 1)


if __name__ == "__main__":
    here = Path(__file__).parent
    sys.exit(main([here / name for name in sys.argv[1:] or ("pade", "digits", "advisory")]))
