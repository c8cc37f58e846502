"""How fast, how small and how tight abstractions are: `python benchmarks/abstraction.py`, ratios from one run.

The public benchmark sets are looked for as in the tests (GINNACER_BENCHMARKS, or ../shared/benchmarks). Give names of
parts to run only these: algorithm, evaluation, margins, limits, tight. The whole takes some ten minutes on one core.
"""

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.abstraction.icf import ICF
from ginnacer_verify.abstraction.layer import AbstractLayer
from ginnacer_verify.abstraction.margins import measure, surface
from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.abstraction.partitioning import strategies
from ginnacer_verify.abstraction.tight.tight import tight_abstraction
from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.rivals.fastlin import fastlin

FOLDER = Path(os.environ.get("GINNACER_BENCHMARKS", Path(__file__).parents[2] / "shared" / "benchmarks"))
PATIENCE = 60.0
"""Seconds after which the plain transcription is stopped; its full time is then at least this, so is the ratio."""


def main() -> None:
    parts = {"algorithm": algorithm, "evaluation": evaluation, "margins": margins, "limits": limits, "tight": tight}
    for name in sys.argv[1:] or parts:
        parts[name]()
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def tight(samples: int = 1000) -> None:
    """The paper's form, the tight one with as many ReLUs per layer, and FastLin at the same points: largest margins."""
    for name, network, centroid in cases():
        if name == "Visual Wake Words":
            continue  # its tight form takes hours, see docs/results/abstraction.md
        paper = abstract(network, centroid)
        start = time.process_time()
        form = tight_abstraction(network, centroid, paper.relus_per_layer)
        print(f"{name}: {sum(form.relus_per_layer)} ReLUs, tight form built in {time.process_time() - start:.2g} s")
        for distance in (1e-4, 1e-3, 0.01, 0.1, 1.0):
            ends = (paper.domain.clip(centroid + step) for step in (-distance, distance))
            batch = paper.domain.clip(surface(centroid, distance, samples, np.random.default_rng(0)))
            widths = [float(one.margin(batch).max()) for one in (paper, form, fastlin(network, Box(*ends)))]
            print(f"| {distance:g} |", *(f"{width:.3g} |" for width in (*widths, widths[0] / widths[1])), flush=True)


def cases() -> Iterator[tuple[str, Network, Array]]:
    acas = read_vnnlib(FOLDER / "acasxu" / "prop_1.vnnlib").boxes[0]
    yield "ACAS Xu 1_1", load_chain(FOLDER / "acasxu" / "ACASXU_run2a_1_1_batch_2000.onnx"), acas.middle
    yield "MNIST-fc 256x6", load_chain(FOLDER / "mnistfc" / "mnist-net_256x6.onnx"), image()
    toy = np.load(FOLDER / "toyadmos" / "inputs.npy")[0].astype(np.float64)
    yield "ToyADMOS", load_chain(FOLDER / "toyadmos" / "ad01.onnx"), toy
    vww = np.load(FOLDER / "vww" / "tail16_inputs.npy")[0].astype(np.float64).reshape(-1)
    yield "Visual Wake Words", load_chain(FOLDER / "vww" / "vww_96_tail16.onnx"), vww


def image() -> Array:
    """The image of MNIST-fc property 0: its box has radius 0.03, but was clipped to [0, 1]."""
    box = read_vnnlib(FOLDER / "mnistfc" / "prop_0_0.03.vnnlib").boxes[0]
    return np.where(box.lower > 0, box.lower + 0.03, np.maximum(box.upper - 0.03, 0.0))


def transcription(icf: ICF) -> tuple[int, float, bool]:
    """Algorithm "Valid Neuron Partition" as it is printed, in numpy: subsets, seconds, whether it came to its end."""
    SW, Sb, x = dense(icf.rows), icf.bias, icf.distance
    subsets = {i: [i] for i in range(len(Sb))}
    start = time.perf_counter()
    for i in range(len(Sb) - 1):
        for j in range(i + 1, len(Sb)):
            if i in subsets and j in subsets:
                union = subsets[i] + subsets[j]
                V = SW[union].max(axis=0)
                u = Sb[union].max()
                if V @ x + u <= 0:
                    subsets[i] = union
                    del subsets[j]
        if time.perf_counter() - start > PATIENCE:
            return len(subsets), time.perf_counter() - start, False
    return len(subsets), time.perf_counter() - start, True


def fastest(work: Callable[[], object], times: int) -> float:
    """The shortest of several runs: what the machine can do when nothing else runs on it."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def algorithm() -> None:
    """Partition time against the transcription, layer by layer, and the time of whole abstractions."""
    print("network | layer | neurons | subsets | transcription s | first_fit s | ratio")
    for name, network, centroid in cases():
        abstraction = abstract(network, centroid)  # compiles
        whole = fastest(lambda n=network, c=centroid: abstract(n, c), 3)  # type: ignore[misc]
        for number, layer in enumerate(abstraction.layers, start=1):
            if not isinstance(layer, AbstractLayer) or (layer.icf.neurons == 4608 and number > 2):
                continue
            ours = fastest(lambda icf=layer.icf: strategies.first_fit(icf), 5)  # type: ignore[misc]
            count, seconds, ended = transcription(layer.icf)
            more = "" if ended else ">"
            subsets = f"{len(layer.partition)}" if count == len(layer.partition) or not ended else "differ!"
            cells = (
                number,
                layer.icf.neurons,
                subsets,
                f"{more}{seconds:.3g}",
                f"{ours:.3g}",
                f"{more}{seconds / ours:.0f}",
            )
            print(name, *cells, sep=" | ", flush=True)
        print(f"{name} | all | {network.relus} | {sum(abstraction.relus_per_layer)} | | {whole:.3g} |", flush=True)


def evaluation() -> None:
    """The same batch through the abstraction and through the network: in one call, and 500 inputs at a time."""
    print("network | inputs | abstraction s | network s | ratio | network by 500 s | ratio")
    for name, network, centroid in cases():
        abstraction, count = abstract(network, centroid), 10_000 if network.inputs < 5000 else 1000
        batch = abstraction.domain.clip(surface(centroid, 0.1, count, np.random.default_rng(0)))
        ours = fastest(lambda: abstraction(batch), 7)  # noqa: B023
        whole = fastest(lambda: network(batch), 7)  # noqa: B023
        parts = fastest(lambda: [network(batch[k : k + 500]) for k in range(0, count, 500)], 7)  # noqa: B023
        ratios = (f"{whole:.3g}", f"{ours / whole:.2f}", f"{parts:.3g}", f"{ours / parts:.2f}")
        print(name, count, f"{ours:.3g}", *ratios, sep=" | ", flush=True)


def margins() -> None:
    """Largest margins at equal numbers of ReLUs."""
    print("network | setting | ReLUs | all | margin at 0.001 | 0.01 | 0.1 | 1")
    names = {name: (network, centroid) for name, network, centroid in cases() if network.inputs < 1000}
    network, centroid = names["ACAS Xu 1_1"]
    paper = abstract(network, centroid)
    same = [strategies.budget(count) for count in paper.relus_per_layer]
    for setting, abstraction in {
        "first_fit (paper)": paper,
        "cosine": abstract(network, centroid, strategy=strategies.cosine),
        "best_fit": abstract(network, centroid, strategy=strategies.best_fit),
        "budget": abstract(network, centroid, strategy=same),
        "budget, centred": abstract(network, centroid, strategy=same, inputs="centred"),
        "budget, centred, clip": abstract(network, centroid, strategy=same, inputs="centred", clip=True),
        "first_fit, clip": abstract(network, centroid, clip=True),
        "singletons": abstract(network, centroid, strategy=strategies.singletons),
        "singletons, clip": abstract(network, centroid, strategy=strategies.singletons, clip=True),
    }.items():
        row("ACAS Xu 1_1", setting, abstraction)
    network, centroid = names["MNIST-fc 256x6"]
    paper, unit = abstract(network, centroid), Box(np.zeros(784), np.ones(784))
    same = [strategies.budget(count) for count in paper.relus_per_layer]
    moved = [strategies.budget(count) for count in (236, 136, 102, 105, 82, 8)]
    for setting, abstraction in {
        "first_fit (paper)": paper,
        "cosine": abstract(network, centroid, strategy=strategies.cosine),
        "best_fit": abstract(network, centroid, strategy=strategies.best_fit),
        "budget": abstract(network, centroid, strategy=same),
        "budget, same sum": abstract(network, centroid, strategy=moved),
        "budget, nearest [0, 1]": abstract(network, centroid, strategy=same, inputs="nearest", box=unit),
        "budget, same sum, clip": abstract(network, centroid, strategy=moved, clip=True),
        "singletons": abstract(network, centroid, strategy=strategies.singletons),
        "singletons, clip": abstract(network, centroid, strategy=strategies.singletons, clip=True),
    }.items():
        row("MNIST-fc 256x6", setting, abstraction)


def row(name: str, setting: str, abstraction: Abstraction) -> None:
    found = [
        measure(abstraction, abstraction.centroid, distance, 10_000, seed=0).largest
        for distance in (0.001, 0.01, 0.1, 1.0)
    ]
    counts = ", ".join(map(str, abstraction.relus_per_layer))
    print(name, setting, counts, sum(abstraction.relus_per_layer), *(f"{m:.3g}" for m in found), sep=" | ", flush=True)


def limits() -> None:
    """ReLUs per layer by strategy, and the number that no valid partition can go below."""
    print("network | strategy | ReLUs per layer")
    choices: dict[str, Callable[[ICF], Partition]] = {
        "first_fit": strategies.first_fit,
        "random": strategies.random,
        "cosine": strategies.cosine,
        "best_fit": strategies.best_fit,
    }
    for name, network, centroid in cases():
        for choice, strategy in choices.items():
            abstraction = abstract(network, centroid, strategy=strategy)
            print(f"{name} | {choice} | {', '.join(map(str, abstraction.relus_per_layer))}", flush=True)
        if network.relus < 5000:
            forms = [layer.icf for layer in abstraction.layers if isinstance(layer, AbstractLayer)]
            print(f"{name} | lower bound | {', '.join(str(strategies.lower_bound_on_subsets(icf)) for icf in forms)}")


if __name__ == "__main__":
    main()
