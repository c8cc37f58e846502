"""What the native engines cost and gain: `python benchmarks/engine.py [PART ...]`, ratios from one run.

    nodes   time per box against the ReLUs that are unstable on it, in networks of several widths; draws its picture
    cores   boxes and regions bounded per second by two threads against one
    tiny    random tiny networks decided by each engine against exhaustive enumeration (N in the environment, 10 000)
    sat     every instance that is known to be sat with the falsifier off: none may be proved

The public benchmark sets are looked for as in the tests (GINNACER_BENCHMARKS, or ../shared/benchmarks)."""

import csv
import os
import sys
import time
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

import numpy as np
from cases import one_disjunct, random_case

from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.problem import problem
from ginnacer_verify.engines.boxes.run import NativeRun
from ginnacer_verify.engines.boxes.search import Boxes, Memory, record_of
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.choice import choose
from ginnacer_verify.engines.phases.run import PhaseRun
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.native import call
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.replay.judge import Judge

FOLDER = Path(os.environ.get("GINNACER_BENCHMARKS", ROOT.parent / "shared" / "benchmarks"))
WIDTHS = (25, 50, 100, 200)


def main() -> None:
    parts = {"nodes": nodes, "cores": cores, "tiny": tiny, "sat": sat}
    for name in sys.argv[1:] or parts:
        if name not in parts:
            sys.exit(f"there is no part {name!r}; there are: {', '.join(parts)}")
        parts[name]()


def network_of(width: int) -> Network:
    """Six random hidden layers of one width, five inputs, five outputs."""
    random = np.random.default_rng(width)
    sizes = (5, *[width] * 6, 5)
    return Network.from_arrays(
        *(
            (random.normal(scale=(2 / a) ** 0.5, size=(b, a)), random.normal(scale=0.1, size=b))
            for a, b in pairwise(sizes)
        )
    )


def cost(network: Network, radius: float) -> tuple[float, float]:
    """Unstable ReLUs and microseconds of a box of a radius, means over 64 boxes; the fastest of five runs."""
    random = np.random.default_rng(0)
    task = problem(network, one_disjunct(Box(-np.ones(5), np.ones(5)), [[1.0, 0, 0, 0, 0]], [-1e6]).disjuncts[0])
    middle = random.uniform(-0.5, 0.5, (64, 5))

    bounds, (space,), seconds = np.repeat(task.largest, 64, axis=0), Memory().of(task.net), []
    for _ in range(5):
        batch = record_of(Boxes(np.zeros(64, np.int64), middle - radius, middle + radius, -bounds, bounds.copy()))
        start = time.perf_counter()
        call("bound_boxes", task.net, batch, 0, 64, space)
        seconds.append(time.perf_counter() - start)
    return float(batch.values["unstable"].mean()), min(seconds) / 64 * 1e6


def nodes() -> None:
    """One line per width; the points of a line are boxes of growing size."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for width, marker in zip(WIDTHS, "osD^", strict=True):
        network = network_of(width)
        points = [cost(network, radius) for radius in np.geomspace(1e-4, 0.1, 12)]
        axes.plot(*zip(*points, strict=True), marker=marker, label=f"{network.relus} ReLUs, {width} a layer")
        for unstable, microseconds in points:
            print(f"{network.relus:5d} ReLUs  {unstable:7.1f} unstable  {microseconds:9.0f} microseconds")
    axes.set(xscale="symlog", yscale="log", xlabel="ReLUs unstable on the box", ylabel="time per box [microseconds]")
    axes.legend(title="network")
    figure.savefig(ROOT / "docs" / "results" / "nodes.png", dpi=120)


def cores() -> None:
    """The same search with one thread and with two; the falsifier is off, so that both do the same work.

    A first run, which is not measured, loads the compiled code."""
    for network, prop, run in (
        ("acasxu/ACASXU_run2a_4_2_batch_2000.onnx", "acasxu/prop_2.vnnlib", NativeRun),
        ("acasxu/ACASXU_run2a_3_3_batch_2000.onnx", "acasxu/prop_2.vnnlib", NativeRun),
        ("mnistfc/mnist-net_256x4.onnx", "mnistfc/prop_12_0.05.vnnlib", PhaseRun),
        ("mnistfc/mnist-net_256x6.onnx", "mnistfc/prop_6_0.05.vnnlib", PhaseRun),
    ):
        judge, seconds = Judge(load_chain(FOLDER / network), read_vnnlib(FOLDER / prop)), []
        run(judge, Budget(Deadline.after(600), threads=2, restarts=0)).run()
        for threads in (1, 2):
            start = time.perf_counter()
            outcome = run(judge, Budget(Deadline.after(600), threads=threads, restarts=0)).run()
            seconds.append(time.perf_counter() - start)
            print(
                f"{network} {prop}: {threads} threads, {'unsat' if outcome is None else outcome}, {seconds[-1]:.2f} s"
            )
        print(f"two threads are {seconds[0] / seconds[1]:.2f} times as fast as one")


def tiny() -> None:
    """None may be wrong; what an engine leaves open is counted."""
    count = int(os.environ.get("N", "10000"))
    for engine in ("boxes", "phases"):
        wrong, undecided = [], 0
        for seed in range(count):
            case = random_case(seed)
            word = verify(case.network, case.prop, engine=engine, restarts=0, timeout=20, threads=1).word
            undecided += word not in {"sat", "unsat"}
            if word in {"sat", "unsat"} and word != case.expected:
                wrong.append(seed)
        print(f"{engine}: {count} networks, {len(wrong)} wrong {wrong[:5]}, {undecided} undecided")


def sat() -> None:
    """Ten seconds each; an `unsat` here is a fault."""
    for folder in ("acasxu", "mnistfc"):
        words: dict[str, int] = {}
        with (FOLDER / folder / "expected.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["expected"] == "sat"]
        for row in rows:
            network, prop = load_chain(FOLDER / folder / row["onnx"]), read_vnnlib(FOLDER / folder / row["vnnlib"])
            word = verify(network, prop, engine=choose(network, prop).engine, restarts=0, timeout=10).word
            words[word] = words.get(word, 0) + 1
            if word == "unsat":
                print(f"WRONG: {row['onnx']} {row['vnnlib']}")
        print(f"{folder}: {len(rows)} instances known to be sat, without the falsifier: {words}")


if __name__ == "__main__":
    main()
