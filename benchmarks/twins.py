"""Two networks in one property: generated instances in the manner of VNN-COMP 2026, and what leaning on twins saves.

    python benchmarks/twins.py [isomorphic|monotonic|saving|int8] [--every N]

`isomorphic` perturbs five ACAS Xu networks by 1e-4 and 1e-2 of their weights and asks whether any output differs by
more than 0.05 on the boxes of properties 1 to 5; `monotonic` asks whether outputs of
the five networks fall while the first input rises, on the same boxes; `saving` decides the public instance with and
without twins, in one process; `int8` compares MNIST-fc and a convolution with their quantised versions.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

import ginnacer_verify as gv
from ginnacer_verify.box import Box
from ginnacer_verify.engines import compare
from ginnacer_verify.engines.boxes import problem
from ginnacer_verify.graph.graph import Graph

SETS = Path(os.environ.get("GINNACER_BENCHMARKS", "../shared/benchmarks"))
NETWORKS = ("1_1", "2_2", "3_3", "4_5", "5_9")
SCALES = (1e-4, 1e-2)
SECONDS = 30.0
"""For one comparison of int8."""


def changed(path: Path, scale: float | None, seed: int = 0) -> Graph:
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
    return gv.load(model.SerializeToString())


def acasxu(name: str) -> Path:
    return SETS / "acasxu" / f"ACASXU_run2a_{name}_batch_2000.onnx"


def boxes() -> list[Box]:
    return [gv.read_vnnlib(SETS / "acasxu" / f"prop_{number}.vnnlib").boxes[0] for number in range(1, 6)]


def isomorphic(every: int) -> None:
    cases = [(n, s, k, box) for n in NETWORKS for s in SCALES for k, box in enumerate(boxes(), 1)][::every]
    for name, scale, number, box in cases:
        network = gv.load(acasxu(name))
        start = time.process_time()
        found = gv.compare(network, changed(acasxu(name), scale), box, 0.05, timeout=100)
        assert found.verdict is not None
        print(name, scale, f"box {number}", found.verdict.word, f"{time.process_time() - start:.2f} CPU s", flush=True)


def monotonic(every: int) -> None:
    cases = [(n, j, k, box) for n in NETWORKS for j in (0, 3) for k, box in enumerate(boxes(), 1)][::every]
    for name, output, number, box in cases:
        network, start = gv.load(acasxu(name)), time.process_time()
        verdict = gv.monotone(network, box, input=0, output=output, timeout=100)
        print(
            name, f"output {output}, box {number}", verdict.word, f"{time.process_time() - start:.2f} CPU s", flush=True
        )


def saving(every: int) -> None:
    folder, lean = SETS / "two_networks" / "onnx", problem.twins
    f, g = (gv.load(folder / f"ACASXU_run2a_2_2_batch_2000{word}.onnx.gz") for word in ("", "_perturbed_0"))
    text = SETS / "two_networks" / "vnnlib" / "isomorphic_0.vnnlib.gz"
    inputs = gv.read_vnnlib(text)
    lower, upper = (0.6, -0.5, -0.5, 0.45, -0.5), (0.679857769, 0.5, 0.5, 0.5, -0.45)
    assert inputs.inputs == len(lower)
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
        print(
            what,
            verdict.word,
            verdict.statistics.boxes,
            "boxes",
            f"{time.process_time() - start:.2f} CPU s",
            flush=True,
        )


def int8(every: int) -> None:
    image = gv.read_vnnlib(SETS / "mnistfc" / "prop_0_0.03.vnnlib").boxes[0].middle
    digits = Path(__file__).resolve().parent.parent / "vnnlib" / "digits" / "digits_conv.onnx"
    cases = [(SETS / "mnistfc" / f"mnist-net_{name}.onnx", image) for name in ("256x2", "256x4")]
    for path, centre in [*cases, (digits, np.random.default_rng(0).integers(0, 17, 64) / 16)]:
        network, other = gv.load(path), changed(path, None)
        near = Box(np.clip(centre - 0.01, 0, 1), np.clip(centre + 0.01, 0, 1))
        for what, box in (("radius 0.01", near), ("whole domain", Box(np.zeros(len(centre)), np.ones(len(centre))))):
            found, lean = gv.compare(network, other, box, timeout=SECONDS), compare.twinned
            compare.twinned = lambda graph: graph
            plain = compare._root((network, other), box, "output", compare.Deadline.after(60))
            compare.twinned = lean
            print(
                path.stem,
                what,
                f"seen {found.seen:.5g}, proved {found.proved:.5g}, plain bounds {plain:.5g}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["isomorphic", "monotonic", "saving", "int8"])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every so many-th instance")
    arguments = parser.parse_args()
    {"isomorphic": isomorphic, "monotonic": monotonic, "saving": saving, "int8": int8}[arguments.what](arguments.every)
