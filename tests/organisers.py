"""The competition's part: calls the three scripts as its harness does and judges the results as its scorer does.

A `sat` counts only with a witness whose inputs, in float32 on onnxruntime, give outputs that are unsafe with no
tolerance. Nothing of the package is used: witnesses are read here, properties by `sexpr` and the official parser.
"""

import csv
import gzip
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from sexpr import Form, formula_of_query, formula_of_text, truth

import vnnlib

SCRIPTS = Path(__file__).resolve().parent.parent / "vnncomp_scripts"
WORDS = ("sat", "unsat", "unknown", "timeout", "error")
GRACE = 60.0
"""Seconds after the time limit at which the harness kills; the scorer gives nothing for them."""


@dataclass(frozen=True)
class Ruling:
    """What is entered into the table, and for a `sat` whether the witness was accepted."""

    verdict: str
    seconds: float
    accepted: bool


def play(category: str, network: str, prop: Path, results: Path, timeout: float) -> Ruling:
    """One instance from preparation to ruling; `network` may be a list as a Python literal."""
    common = ["v1", category, network, str(prop)]
    if script("prepare_instance.sh", *common, seconds=600).returncode:
        return Ruling("unknown", 0.0, False)
    start = time.monotonic()
    done = script("run_instance.sh", *common, str(results), f"{timeout:g}", seconds=timeout + GRACE)
    seconds = time.monotonic() - start
    assert done.returncode == 0, done.stderr
    text = results.read_text()
    verdict = text.partition("\n")[0]
    assert verdict in WORDS, text
    if verdict in ("sat", "unsat") and seconds > timeout:
        return Ruling("timeout", seconds, False)
    return Ruling(verdict, seconds, verdict == "sat" and accepts(Path(network), prop, text.partition("\n")[2]))


def script(name: str, *words: str, seconds: float) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "GINNACER_PYTHON": sys.executable}
    command = ["bash", str(SCRIPTS / name), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment)


def accepts(network: Path, prop: Path, witness: str) -> bool:
    """The scorer's judgement: the solver's own outputs are ignored, the outputs are recomputed."""
    formula, shapes = _formula(unpacked(prop).decode())
    inputs = [Fraction(word) for word in (_blocks(witness, shapes) if shapes else _pairs(witness))]
    session = onnxruntime.InferenceSession(unpacked(network), providers=["CPUExecutionProvider"])
    (place,) = session.get_inputs()
    shape = [size if isinstance(size, int) else 1 for size in place.shape]
    values = np.array([float(value) for value in inputs], dtype=np.float32).reshape(shape)
    outputs = np.asarray(session.run(None, {place.name: values})[0]).reshape(-1)
    point = {f"X_{i}": value for i, value in enumerate(inputs)}
    return truth(formula, point | {f"Y_{j}": Fraction(float(value)) for j, value in enumerate(outputs)})


def unpacked(file: Path) -> bytes:
    data = file.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def _formula(text: str) -> tuple[Form, dict[str, list[int]]]:
    """The unsafe set, and the declared variables with their shapes for a 2.0 text."""
    if "vnnlib-version" not in text:
        return formula_of_text(text), {}
    query: Any = vnnlib.parse_query_string(text)
    (network,) = query.networks
    variables = (network.inputs[0], network.outputs[0])
    return formula_of_query(query), {variable.name: list(variable.shape) for variable in variables}


def _pairs(witness: str) -> list[str]:
    """The inputs of a 1.0 witness: one expression, indices ascending and without gaps, first X and then Y."""
    assert witness.strip().startswith("((X_0 ")
    assert witness.strip().endswith("))")
    pairs = re.findall(r"\(([XY])_(\d+) ([-+.\d]+)\)", witness)
    assert len(pairs) == witness.count("(") - 1, "nothing but pairs"
    for letter in "XY":
        indices = [int(index) for name, index, _ in pairs if name == letter]
        assert indices == list(range(len(indices)))
    assert [name for name, _, _ in pairs] == sorted(name for name, _, _ in pairs)
    return [value for name, _, value in pairs if name == "X"]


def _blocks(witness: str, shapes: dict[str, list[int]]) -> list[str]:
    """The inputs of a 2.0 witness: for each variable in order `name type [shape]`, then one value per line."""
    lines = iter(witness.splitlines())
    values = {}
    for name, shape in shapes.items():
        assert next(lines) in {f"{name} {kind} [{','.join(map(str, shape))}]" for kind in ("float32", "real")}
        values[name] = [next(lines) for _ in range(int(np.prod(shape)))]
    assert not list(lines)
    return next(iter(values.values()))


def main(lists: list[str]) -> None:
    """`python tests/organisers.py INSTANCES.csv ...`: the whole competition on lists that have an `expected.csv`."""
    rulings = []
    for path in map(Path, lists):
        with path.with_name("expected.csv").open(newline="") as lines:
            for network, prop, expected in list(csv.reader(lines))[1:]:
                with tempfile.TemporaryDirectory() as folder:
                    files = str(path.parent / network), path.parent / prop
                    ruling = play(path.parent.name, *files, Path(folder) / "results.txt", 100)
                right = ruling.verdict == expected and ruling.accepted == (expected == "sat")
                rulings.append(right)
                print(
                    "right" if right else "WRONG", ruling.verdict, f"{ruling.seconds:.2f} s", network, prop, flush=True
                )
    print(f"{sum(rulings)} of {len(rulings)} as expected, every sat with an accepted witness")


if __name__ == "__main__":
    main(sys.argv[1:])
