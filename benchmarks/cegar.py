"""What abstraction and refinement save: `OMP_NUM_THREADS=1 python benchmarks/cegar.py [PART ...]`, a table per part.

    mnist       MNIST-fc 256x2: the loop with HiGHS and with Marabou against each of them on the full network
    digits      the same on our own digits instances
    strategies  every way to refine and to start, on the MNIST-fc 256x2 instances that bounds alone do not decide
    acas        ACAS Xu properties 3 and 4 with bisect

Every run of an instance has the same bounds, the same falsifier (switched off, so that the solvers do the work) and the
same time limit. Times are wall clock; run nothing beside it. The public benchmark sets are looked for as in the tests
(GINNACER_BENCHMARKS, or ../shared/benchmarks). TIMEOUT in the environment sets the limit per run, 60 s by default;
BACKENDS=marabou,milp leaves out the others' columns.
"""

import csv
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ginnacer_verify.engines.parts import Bounded, parts
from ginnacer_verify.engines.refinement.loop import verify
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("GINNACER_BENCHMARKS", ROOT.parent / "shared" / "benchmarks"))
TIMEOUT = float(os.environ.get("TIMEOUT", "60"))


@dataclass(frozen=True)
class Instance:
    """One row of an instance list."""

    folder: Path
    network: str
    prop: str
    expected: str

    @property
    def name(self) -> str:
        return f"{Path(self.network).stem[-12:]} {Path(self.prop).stem}"


@dataclass(frozen=True)
class Way:
    """One way to decide an instance, with its column's title."""

    title: str
    backend: str = "highs"
    initial: str = "relaxed"
    refine: str = "split"


@dataclass
class Total:
    """What one way took over all instances."""

    decided: int = 0
    seconds: float = 0.0
    rounds: int = 0
    kept: int = 0


BACKENDS = os.environ.get("BACKENDS", "highs,milp,marabou").split(",")
AGAINST_FULL = tuple(
    Way(f"{backend} {name}", backend=backend, initial=initial)
    for backend in BACKENDS
    for name, initial in (("loop", "relaxed"), ("full", "exact"))
)
STRATEGIES = (
    Way("split"),
    Way("recentre", refine="recentre"),
    Way("ginnacer + split", initial="ginnacer"),
    Way("ginnacer + recentre", initial="ginnacer", refine="recentre"),
    Way("random", refine="random"),
    Way("max_weight_loss", refine="max_weight_loss"),
    Way("exact", initial="exact"),
)


def instances(folder: Path, *words: str) -> Iterator[Instance]:
    """The rows of a folder's expected.csv whose names contain one of the words."""
    with (folder / "expected.csv").open() as file:
        for row in csv.DictReader(file):
            if any(word in f"{row['onnx']} {row['vnnlib']}" for word in words):
                yield Instance(folder, row["onnx"], row["vnnlib"], row["expected"])


def open_ones(rows: Iterator[Instance]) -> Iterator[Instance]:
    """Those that hold and that bounds alone do not prove: where a solver has work to do."""
    for instance in rows:
        network, prop = load_chain(instance.folder / instance.network), read_vnnlib(instance.folder / instance.prop)
        bounded = [Bounded.of(network, prop, part) for part in parts(prop)]
        if instance.expected == "unsat" and any(part.open_disjuncts for part in bounded):
            yield instance


def compare(rows: Iterator[Instance], ways: tuple[Way, ...], *, restarts: int = 0) -> None:
    """One line per instance, one column per way: verdict, seconds, ReLUs kept of those unstable, rounds."""
    totals = {way.title: Total() for way in ways}
    print(f"| instance | {' | '.join(way.title for way in ways)} |\n|{'---|' * (len(ways) + 1)}", flush=True)
    for instance in rows:
        network, prop = load_chain(instance.folder / instance.network), read_vnnlib(instance.folder / instance.prop)
        cells = [run(instance, network, prop, way, totals[way.title], restarts) for way in ways]
        print(f"| {instance.name} | " + " | ".join(cells) + " |", flush=True)
    cells = [f"{t.decided} decided, {t.seconds:.1f} s, {t.kept} kept, {t.rounds} rounds" for t in totals.values()]
    print("| total | " + " | ".join(cells) + " |\n", flush=True)


def run(instance: Instance, network: Network, prop: Property, way: Way, total: Total, restarts: int) -> str:
    verdict = verify(
        network,
        prop,
        timeout=TIMEOUT,
        backend=way.backend,
        initial=way.initial,
        refine=way.refine,
        restarts=restarts,
    )
    numbers = verdict.statistics
    if verdict.word in {"sat", "unsat"} and instance.expected in {"sat", "unsat"} and verdict.word != instance.expected:
        sys.exit(f"WRONG: {instance.name} is {instance.expected}, {way.title} says {verdict.word}")
    total.decided += verdict.word in {"sat", "unsat"}
    total.seconds += numbers.seconds
    total.rounds += numbers.rounds
    total.kept += numbers.kept
    return f"{verdict.word} {numbers.seconds:.2f} s, {numbers.kept}/{numbers.unstable}, {numbers.rounds}"


def main(asked: list[str]) -> None:
    mnist = FOLDER / "mnistfc"
    for part in asked or ["mnist", "digits", "strategies", "acas"]:
        print(f"## {part}, at most {TIMEOUT:.0f} s each\n")
        match part:
            case "mnist":
                compare(open_ones(instances(mnist, "256x2")), AGAINST_FULL)
            case "digits":
                compare(open_ones(instances(ROOT / "vnnlib" / "digits", "")), AGAINST_FULL)
            case "strategies":
                compare(open_ones(instances(mnist, "256x2")), STRATEGIES)
            case "acas":
                compare(
                    instances(FOLDER / "acasxu", "prop_3.", "prop_4."), (Way("bisect", refine="bisect"),), restarts=24
                )
            case _:
                sys.exit(f"there is no part {part!r}; there are: mnist, digits, strategies, acas")


if __name__ == "__main__":
    main(sys.argv[1:])
