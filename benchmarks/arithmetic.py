"""What proofs about executions cost: every instance in real arithmetic and in float32, one after the other.

    python benchmarks/arithmetic.py FOLDER [--every N] [--first N] [--timeout 60] [--no-attack]

One line per instance: both verdicts and the CPU seconds of both; at the end the sums, their ratio over the instances
that both decide, and the instances that float32 loses. Known verdicts are read from the folder's `expected.csv`, if it
has one: a wrong one makes the exit code 1."""

import argparse
import csv
import os
import sys
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from ginnacer_verify.engines.verify import verify
from ginnacer_verify.loading import load
from ginnacer_verify.properties.vnnlib import read_vnnlib

ARITHMETICS = ("real", "float32")


def found(folder: Path, name: str) -> Path:
    """The file of a list, which may be packed or in another folder here."""
    places = [folder / name, folder / Path(name).name]
    return next(place for one in places for place in (one, one.with_name(one.name + ".gz")) if place.exists())


def known(folder: Path) -> dict[tuple[str, str], str]:
    file = folder / "expected.csv"
    rows = list(csv.reader(file.open(newline=""))) if file.exists() else []
    return {(Path(row[0]).name, Path(row[1]).name): row[2] for row in rows if len(row) > 2}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=None)
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--no-attack", action="store_true")
    args = parser.parse_args()
    expected, wrong, lost = known(args.folder), 0, []
    seconds: dict[str, list[float]] = {one: [] for one in ARITHMETICS}
    instances = list(csv.reader((args.folder / "instances.csv").open(newline="")))[:: args.every][: args.first]
    for network, prop, *_ in instances:
        model, question = load(found(args.folder, network)), read_vnnlib(found(args.folder, prop))
        words, spent = [], []
        for arithmetic in ARITHMETICS:
            start, more = time.process_time(), {"restarts": 0} if args.no_attack else {}
            verdict = verify(model, question, timeout=args.timeout, threads=1, arithmetic=arithmetic, **more)
            words.append(verdict.word)
            spent.append(time.process_time() - start)
        truth = expected.get((Path(network).name, Path(prop).name), "")
        wrong += any(word in {"sat", "unsat"} and truth in {"sat", "unsat"} and word != truth for word in words)
        if all(word in {"sat", "unsat"} for word in words):
            for arithmetic, one in zip(ARITHMETICS, spent, strict=True):
                seconds[arithmetic].append(one)
        elif words[0] in {"sat", "unsat"}:
            lost.append(f"{Path(network).name} {Path(prop).name}")
        print(f"{Path(network).name} {Path(prop).name}: {words} {spent[0]:.2f} {spent[1]:.2f} s", flush=True)
    real, executed = (sum(seconds[one]) for one in ARITHMETICS)
    count = len(seconds["real"])
    print(
        f"{count} of {len(instances)} decided by both: {real:.1f} and {executed:.1f} s CPU, {executed / real:.3f} times"
    )
    print(f"lost in float32: {', '.join(lost) or 'none'}; wrong: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
