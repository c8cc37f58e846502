"""Two networks in one property: generated instances in the manner of VNN-COMP 2026, and what leaning on twins saves.

    python benchmarks/twins.py isomorphic|monotonic FOLDER [--every N]
    python benchmarks/twins.py saving
    python benchmarks/twins.py int8 [--every N] [--seconds S]

`isomorphic` writes 50 instances to FOLDER, in the layout of the competition, and decides them one by one within 100 s
each: five ACAS Xu networks with all weights off by a share of 1e-4 to 1e-2, on the boxes of properties 1 to 5: does any
output differ by more than 0.05? `monotonic` does the same with 50 questions whether an output of a network falls, or
rises, while its first input rises; where the derivative's sign in the middle of the box says that it should. `saving`
decides the public instance with and without twins, in one process. `int8` compares MNIST-fc and a convolution with
their quantised versions, with and without bounds of differences. Times are CPU seconds, reading included.
"""

import argparse
import csv
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import ginnacer_verify as gv
from ginnacer_verify.bench.instances import read_instances
from ginnacer_verify.box import Box
from ginnacer_verify.engines import compare
from ginnacer_verify.engines.boxes import problem
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.twin import twinned

SETS = Path(os.environ.get("GINNACER_BENCHMARKS", "../shared/benchmarks"))
NETWORKS = ("1_1", "2_2", "3_3", "4_5", "5_9")
SCALES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
SHARES = (0.5, 0.35, 0.25, 0.18, 0.12)
"""How wide the boxes of `monotonic` are in the inputs that vary, measured by their whole ranges."""
EPSILON = Decimal("0.05")
LIMIT = 100
"""Seconds for an instance, as in the competition."""
Ends = tuple[Decimal, Decimal]


def changed(path: Path, scale: float | None, seed: int = 0) -> bytes:
    """A copy with every weight off by a share of itself; without a scale, with weights in 255 equal steps."""
    model, random = onnx.load(path), np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        weight = numpy_helper.to_array(tensor)
        if weight.ndim > 1 and weight.size > 1 and weight.dtype == np.float32:
            step = max(np.abs(weight).max() / 127, 1e-30)
            new = (
                np.round(weight / step) * step
                if scale is None
                else weight * (1 + scale * random.normal(size=weight.shape))
            )
            tensor.CopyFrom(numpy_helper.from_array(new.astype(np.float32), tensor.name))
    return model.SerializeToString()


def acasxu(name: str) -> Path:
    return SETS / "acasxu" / f"ACASXU_run2a_{name}_batch_2000.onnx"


def property_box(number: int) -> list[Ends]:
    box = gv.read_vnnlib(SETS / "acasxu" / f"prop_{number}.vnnlib").boxes[0]
    return [(Decimal(f"{low:.9f}"), Decimal(f"{high:.9f}")) for low, high in zip(box.lower, box.upper, strict=True)]


# The sets


def text_of(relation: str, box: list[Ends], more: list[str]) -> str:
    lines = [
        "(vnnlib-version <2.0>)",
        "(declare-network f (declare-input X_f real [5]) (declare-output Y_f real [5]))",
        f"(declare-network g ({relation} f) (declare-input X_g real [5]) (declare-output Y_g real [5]))",
        *(f"(assert (and (>= X_f[{i}] {low}) (<= X_f[{i}] {high})))" for i, (low, high) in enumerate(box)),
    ]
    return "\n".join([*lines, *more, ""])


def isomorphic(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Names of both networks and of the property of each instance, whose files are there then."""
    for place, name in enumerate(NETWORKS):
        (folder / f"{name}.onnx").write_bytes(acasxu(name).read_bytes())
        for step, scale in enumerate(SCALES):
            other = f"{name}_{scale:.0e}.onnx"
            (folder / other).write_bytes(changed(acasxu(name), scale, seed=step))
            for number in (1 + (place + step) % 5, 1 + (place + step + 2) % 5):
                equal = [f"(assert (== X_f[{i}] X_g[{i}]))" for i in range(5)]
                apart = [
                    part
                    for i in range(5)
                    for part in (f"(> Y_g[{i}] (+ Y_f[{i}] {EPSILON}))", f"(< Y_g[{i}] (- Y_f[{i}] {EPSILON}))")
                ]
                prop = f"isomorphic_{number}.vnnlib"
                any_of = "(assert (or " + "\n    ".join(apart) + "))"
                (folder / prop).write_text(text_of("isomorphic-to", property_box(number), [*equal, any_of]))
                yield f"{name}.onnx", other, prop


def monotonic(folder: Path) -> Iterator[tuple[str, str, str]]:
    random = np.random.default_rng(0)
    for name in NETWORKS:
        network = gv.load(acasxu(name))
        (folder / f"{name}.onnx").write_bytes(acasxu(name).read_bytes())
        for k, share in enumerate(SHARES * 2):
            whole = np.array([[-0.3, 0.68], [-0.5, 0.5], [-0.5, 0.5], [-0.5, 0.5], [-0.5, 0.5]])
            width = share * (whole[:, 1] - whole[:, 0]) * [1, 1, 1, 0, 0]
            low = whole[:, 0] + random.random(5) * (whole[:, 1] - whole[:, 0] - width)
            box = [(Decimal(f"{a:.6f}"), Decimal(f"{b:.6f}")) for a, b in zip(low, low + width, strict=True)]
            middle, moved, output = low + width / 2, np.array([1e-3, 0, 0, 0, 0]), int(random.integers(5))
            rises = network(middle + moved)[output] > network(middle)[output]
            equal = [f"(assert (== X_f[{i}] X_g[{i}]))" for i in range(1, 5)]
            order = f"(assert (and (>= X_f[0] X_g[0]) (>= X_g[0] {box[0][0]})))"
            broken = f"(assert ({'<' if rises else '>'} Y_f[{output}] Y_g[{output}]))"
            prop = f"monotonic_{name}_{k}.vnnlib"
            (folder / prop).write_text(text_of("equal-to", box, [*equal, order, broken]))
            yield f"{name}.onnx", f"{name}.onnx", prop


def run_all(what: str, folder: Path, every: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = {"isomorphic": isomorphic, "monotonic": monotonic}[what](folder)
    with (folder / "instances.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows((str([("f", f), ("g", g)]), prop, LIMIT) for f, g, prop in made)
    words, slowest, total = Counter[str](), 0.0, 0.0
    print("| networks | property | verdict | boxes | CPU s |\n|---|---|---|---|---|")
    for instance in read_instances(folder / "instances.csv")[::every]:
        start = time.process_time()
        networks = {name: gv.load(file) for name, file in instance.network_files.items()}
        verdict = gv.verify(networks, instance.property_file, timeout=instance.timeout)
        seconds = time.process_time() - start
        words[verdict.word], slowest, total = words[verdict.word] + 1, max(slowest, seconds), total + seconds
        files = ", ".join(dict.fromkeys(file.stem for file in instance.network_files.values()))
        line = f"{files} | {instance.property_file.stem} | {verdict.word} | {verdict.statistics.boxes} | {seconds:.2f}"
        print(f"| {line} |", flush=True)
    print(f"\n{dict(words)}; {total:.1f} CPU s, the slowest {slowest:.1f}")


# What twins save


def saving() -> None:
    folder, lean = SETS / "two_networks" / "onnx", problem.twins
    f, g = (gv.load(folder / f"ACASXU_run2a_2_2_batch_2000{word}.onnx.gz") for word in ("", "_perturbed_0"))
    lower, upper = (0.6, -0.5, -0.5, 0.45, -0.5), (0.679857769, 0.5, 0.5, 0.5, -0.45)
    prop = compare.difference(f, g, Box(np.array(lower), np.array(upper)), 0.05)
    alternatives = problem.ALTERNATIVES
    for what, few, twins in (
        ("product network", 1, None),
        ("rows together", alternatives, None),
        ("twins", alternatives, lean),
    ):
        problem.ALTERNATIVES = few
        problem.twins = twins or (lambda network, box: np.full(network.relus, -1, dtype=np.int64))
        start = time.process_time()
        verdict = gv.verify({"f": f, "g": g}, prop, timeout=300, threads=1, restarts=0)
        seconds = time.process_time() - start
        print(f"{what}: {verdict.word}, {verdict.statistics.boxes} boxes, {seconds:.2f} CPU s", flush=True)


def plain(graph: Graph) -> Graph:
    """In the place of `twinned`: nobody leans on anybody."""
    return graph


def int8(every: int, seconds: float) -> None:
    image = gv.read_vnnlib(SETS / "mnistfc" / "prop_0_0.03.vnnlib").boxes[0].middle
    digits = Path(__file__).resolve().parent.parent / "vnnlib" / "digits" / "digits_conv.onnx"
    files = [(SETS / "mnistfc" / f"mnist-net_{name}.onnx", image) for name in ("256x2", "256x4")]
    files.append((digits, np.random.default_rng(0).integers(0, 17, 64) / 16))
    cases = [(path, centre, radius) for path, centre in files for radius in (0.01, 1.0)][::every]
    print("| network | box | seen | proved | ratio | without differences | ratio |\n|---|---|---|---|---|---|---|")
    for path, centre, radius in cases:
        network, other = gv.load(path), gv.load(changed(path, None))
        box = Box(np.clip(centre - radius, 0, 1), np.clip(centre + radius, 0, 1))
        found = []
        for form in (twinned, plain):
            compare.twinned = form
            found.append(gv.compare(network, other, box, timeout=seconds))
        compare.twinned = twinned
        seen = max(one.seen for one in found)
        numbers = " | ".join(f"{one.proved:.3g} | {one.proved / seen:.1f}" for one in found)
        print(f"| {path.stem} | {'radius 0.01' if radius < 1 else 'whole'} | {seen:.3g} | {numbers} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["isomorphic", "monotonic", "saving", "int8"])
    parser.add_argument("folder", type=Path, nargs="?", help="where instances are written")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every so many-th instance")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one comparison of int8")
    arguments = parser.parse_args()
    match arguments.what:
        case "saving":
            saving()
        case "int8":
            int8(arguments.every, arguments.seconds)
        case what if arguments.folder:
            run_all(what, arguments.folder, arguments.every)
        case what:
            parser.error(f"{what} needs a folder for its instances")
    return 0


if __name__ == "__main__":
    sys.exit(main())
