"""Certificates: what they cost, and attacks on their checker. `python benchmarks/certificates.py PART`

    prove FOLDER ...   for every instance that is known to be unsat (every STEP-th, in the environment): the CPU time of
                       `verify`, of `verify --certificate` and of `ginnacer-check`, and the size of the file; sums and
                       ratios at the end. EXACT is the share of leaves that are checked in fractions, SECONDS the limit
    attack [N]         N (2000) mutated and N / 10 forged certificates, and N / 2 tiny networks against enumeration

The folders are those of the public benchmark sets (GINNACER_BENCHMARKS, or ../shared/benchmarks)."""

import csv
import os
import resource
import subprocess
import sys
import tempfile
from ast import literal_eval
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

import numpy as np
from forging import (
    below,
    blank,
    forged,
    lowest,
    mutated,
    network,
    proved,
    records_of,
    refused,
    repacked,
    spans,
    wrong_files,
)

from ginnacer_check.check import Problem

FOLDER = Path(os.environ.get("GINNACER_BENCHMARKS", ROOT.parent / "shared" / "benchmarks"))
STEP, EXACT = int(os.environ.get("STEP", "1")), os.environ.get("EXACT", "0")
SECONDS = os.environ.get("SECONDS_EACH", "60")


def timed(*command: str) -> tuple[float, str]:
    """CPU seconds of a program of ours, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, run.stdout + run.stderr


def path_of(folder: Path, name: str) -> str:
    return str(folder / name if (folder / name).exists() else folder / f"{name}.gz")


def networks(folder: Path, text: str) -> tuple[str, ...]:
    """The network of an instance, or its networks by name, as words of a command."""
    if not text.startswith("["):
        return (path_of(folder, text),)
    return tuple(word for name, file in literal_eval(text) for word in ("--network", f"{name}={path_of(folder, file)}"))


def prove(folders: list[str]) -> None:
    places = [ROOT / f if (ROOT / f).exists() else FOLDER / f for f in folders]
    rows = [(place, row) for place in places for row in csv.DictReader((place / "expected.csv").open())]
    chosen = [(folder, row) for folder, row in rows if row["expected"] == "unsat"][::STEP]
    spent, sizes, decided, accepted = np.zeros(3), list[int](), 0, 0
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "proof.gcert"
        for folder, row in chosen:
            file.unlink(missing_ok=True)
            files = (*networks(folder, row["onnx"]), path_of(folder, row["vnnlib"]))
            verify = ("ginnacer_verify", "verify", *files, "--timeout", SECONDS)
            plain, said = timed(*verify)
            if not said.startswith("unsat"):
                print(folder.name, row["onnx"], row["vnnlib"], "not decided", flush=True)
                continue
            decided += 1
            certified, said = timed(*verify, "--certificate", str(file))
            checked, answer = (
                timed("ginnacer_check", *files, str(file), "--exact", EXACT) if file.exists() else (0.0, said)
            )
            if "accepted" in answer:
                accepted += 1
                spent += [plain, certified, checked]
                sizes.append(file.stat().st_size)
            words = " ".join(answer.split("\n")[-3:]).strip()
            print(
                f"{folder.name} {row['onnx']} {row['vnnlib']} {plain:.2f} {certified:.2f} {checked:.2f} s {words}",
                flush=True,
            )
    print(f"{accepted} of {decided} decided instances have a certificate that is accepted")
    if sizes:
        ratios = spent / spent[0]
        print(f"with a certificate {ratios[1]:.2f}, checking {ratios[2]:.2f} times the time of proving")
        print(f"files: median {int(np.median(sizes))}, largest {max(sizes)} bytes")


def attack(count: int) -> None:
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "proof.gcert"
        _mutations(count, random, path)
        _forgeries(count // 10, random)
        _enumerated(count // 2, random, path)


def _mutations(count: int, random: np.random.Generator, path: Path) -> None:
    done = still = 0
    for seed in range(1 + count // 20):
        model = network(seed, layers=2 + seed % 2)
        level = lowest(model)
        true, false = below(level - 0.05), below(level + 1e-9)
        content = proved(model, true, path, (None, "boxes", "phases")[seed % 3])
        assert content is not None
        records, where = records_of(content), spans(model, true, content)
        for _ in range(20):
            changed = mutated(records, where, random)
            assert refused(model, false, repacked(content, changed, false)), (seed, done)
            if not refused(model, true, repacked(content, changed)):
                assert not refused(model, true, repacked(content, changed), exact=1.0), (seed, done)
                still += 1
            done += 1
        assert all(refused(*wrong) for wrong in wrong_files(model, true, content))
    print(f"{done} mutated: none proves what is false, {still} still prove what is true, and do so in fractions")


def _forgeries(count: int, random: np.random.Generator) -> None:
    for seed in range(count):
        model = network(seed % 20)
        false = below(lowest(model) + 0.01)
        problem = Problem(model, false)
        assert refused(model, false, repacked(blank(problem), forged(problem, random))), seed
    print(f"{count} forged for false properties: all refused")


def _enumerated(count: int, random: np.random.Generator, path: Path) -> None:
    for seed in range(count):
        model = network(seed, layers=1 + seed % 3)
        level, distance = lowest(model), 10.0 ** random.uniform(-3, 0)
        true, false = below(level - distance), below(level + distance)
        content = proved(model, true, path, (None, "boxes", "phases")[seed % 3])
        assert content is not None, seed
        assert not refused(model, true, content), seed
        assert refused(model, false, repacked(content, formula=false)), seed
        assert proved(model, false, path, None, seconds=0.1) is None, seed
    print(f"{count} tiny networks: accepted exactly when enumeration says unsat")


if __name__ == "__main__":
    if sys.argv[1:2] == ["attack"]:
        attack(int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
    elif sys.argv[1:2] == ["prove"]:
        prove(sys.argv[2:] or ["acasxu", "mnistfc"])
    else:
        sys.exit(__doc__)
