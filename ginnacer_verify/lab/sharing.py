"""When does sharing pay? The loop with and without it, and the full query with and without it, with the same bounds.

Families where neurons resemble each other, and the networks that they come from. Times are CPU seconds, those of the
solvers' processes included."""

import csv
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ginnacer_verify.arrays import dense
from ginnacer_verify.engines.refinement import loop as cegar
from ginnacer_verify.engines.refinement.abstracted import Options
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.methods import Style
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.loading import load
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.replay.joint import subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BACKENDS = ("highs", "milp", "marabou")
WAYS = {
    "lazily exact": ("relational", "relaxed"),
    "full": ("relational", "exact"),
    "lazy sharing": ("leaning", "relaxed"),
    "full, shared": ("leaning", "exact"),
}
"""What is asked, and how it starts. Without sharing, and with it."""
STYLES = {
    "lazily exact": Style("lazily exact ReLUs", "#D55E00", "s"),
    "full": Style("full query", "#E69F00", "^"),
    "lazy sharing": Style("lazy sharing", "#0072B2", "o"),
    "full, shared": Style("full query, shared ReLUs", "#56B4E9", "D"),
}
OFF = {"": None, "doubled": 0.0, "doubled, 1 % off": 0.01}
"""What is done to a network: nothing, or every hidden neuron in two copies whose weights are off by so much."""
PERTURBED = "advisory_perturbed_0.0095"
INSTANCES = {
    "advisory": [("advisory_15x3", prop, changed) for prop in ("prop_03", "prop_11") for changed in OFF],
    "digits": [("digits_32x2", "image_188_0.1", changed) for changed in OFF],
    "mnistfc": [
        ("mnist-net_256x2", f"prop_{prop}", changed) for changed in OFF for prop in ("9_0.03", "0_0.03", "6_0.05")
    ],
}
TLL = Path("tllverifybench_2023")
"""Lattices over two inputs: measured wherever ACAS Xu is, as the networks with few inputs."""


def cells(setting: Setting) -> list[Cell]:
    """Quick runs have HiGHS alone, and the first instance of each family."""
    found = [
        (name, *one)
        for name in setting.networks
        for one in INSTANCES.get(name, [])[: len(OFF) if setting.quick else None]
    ]
    if "advisory" in setting.networks:
        found.append(("twins", "", PERTURBED, ""))
    if "acasxu" in setting.networks and Path(setting.benchmarks, TLL).is_dir():
        rows = _listed(Path(setting.benchmarks, TLL))
        found += [("tll", network, prop, "") for network, prop, known in rows if known == "unsat"][
            : 1 if setting.quick else 3
        ]
    return [
        Cell.of("sharing", family=family, network=network, prop=prop, changed=changed, backend=backend, way=way)
        for family, network, prop, changed in found
        for backend in (BACKENDS[:1] if setting.quick else BACKENDS)
        for way in WAYS
    ]


def _listed(folder: Path) -> list[tuple[str, str, str]]:
    """The instances of a folder, the smallest networks first."""
    with (folder / "expected.csv").open() as file:
        rows = [(row["onnx"], row["vnnlib"], row["expected"]) for row in csv.DictReader(file)]
    return sorted(rows, key=lambda row: (folder / f"{row[0]}.gz").stat().st_size)


def measure(setting: Setting, family: str, network: str, prop: str, changed: str, backend: str, way: str) -> list[Row]:
    """No attack, and the same bounds before all of them. The solver's process ends with the run, so that it counts."""
    chain, asked = read(setting, family, network, prop, changed)
    (abstraction, initial), before = WAYS[way], _spent()
    verdict = cegar.verify(
        chain,
        asked,
        timeout=setting.timeout,
        backend=backend,
        abstraction=abstraction,
        options=Options(initial=initial),
        bounds=True,
        seed=setting.seed,
        restarts=0,
    )
    found = verdict.statistics
    name = f"{SHORT.get(family, Path(network).stem)} {Path(prop).name.removesuffix('.vnnlib')}"
    return [
        {
            "family": f"{FAMILIES[family]}{', ' + changed if changed else ''}",
            "instance": f"{name.strip()}{', ' + changed if changed else ''}",
            "backend": backend,
            "way": way,
            "verdict": verdict.word,
            "seconds": _spent() - before,
            "elapsed": found.seconds,
            "rounds": found.rounds,
            "kept": found.kept,
            "unstable": found.unstable,
        }
    ]


FAMILIES = {
    "advisory": "Advisory",
    "digits": "Digits",
    "mnistfc": "MNIST-fc 256x2",
    "twins": "two networks",
    "tll": "TLL lattices",
}
SHORT = {"twins": "", "tll": "TLL", "mnistfc": "256x2"}


def _spent() -> float:
    """CPU seconds of this process and of those that it has ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in both)


def read(setting: Setting, family: str, network: str, prop: str, changed: str) -> tuple[Network, Property]:
    """An instance's network, changed as it says, and its property."""
    if family == "twins":
        folder = Path(setting.own, "twins")
        files = {"f": Path(setting.own, "advisory", "advisory_15x3.onnx"), "g": folder / "advisory_perturbed.onnx"}
        asked = read_vnnlib(_there(folder / f"{prop}.vnnlib"))
        return as_chain(subject({name: load(_there(file)) for name, file in files.items()}, asked)), asked
    if family == "tll":
        folder = Path(setting.benchmarks, TLL)
        return as_chain(load(_there(folder / f"{network}.gz"))), read_vnnlib(_there(folder / f"{prop}.gz"))
    folder = Path(setting.benchmarks if family == "mnistfc" else setting.own, family)
    chain = as_chain(load(_there(folder / f"{network}.onnx")))
    off = OFF[changed]
    return chain if off is None else doubled(chain, off), read_vnnlib(_there(folder / f"{prop}.vnnlib"))


def _there(file: Path) -> Path:
    if not file.exists():
        raise InputError(f"{file} is not there; set GINNACER_BENCHMARKS or --benchmarks")
    return file


def doubled(network: Network, off: float, seed: int = 0) -> Network:
    """Every hidden neuron in two copies, half of it each, whose weights are off by a share of themselves, one of them
    upwards and one downwards."""
    random, layers = np.random.default_rng(seed), list[Layer]()
    for number, layer in enumerate(network.layers):
        weight, bias = dense(layer.weight), layer.bias
        if number:
            weight = np.hstack([weight / 2, weight / 2])
        if number < len(network.layers) - 1:
            error = off * np.abs(weight) * random.normal(size=weight.shape)
            weight, bias = np.vstack([weight + error, weight - error]), np.concatenate([bias, bias])
        layers.append(Layer(weight, bias))
    return Network(tuple(layers))


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    from ginnacer_verify.lab.plots import legend, panels

    by_backend = groups(rows, "backend")
    figure, axes = panels(
        len(by_backend), width=4.6 if len(by_backend) > 1 else 8.0, height=1.6 + 0.4 * len(groups(rows, "instance"))
    )
    instances = [name for (name,) in groups(rows, "instance")]
    for axis, ((backend,), some) in zip(axes, by_backend.items(), strict=True):
        for (way,), own in groups(some, "way").items():
            shift = 0.16 * (list(WAYS).index(way) - 1.5)
            for proved in (True, False):
                points = [row for row in own if (row["verdict"] == "unsat") == proved]
                axis.plot(
                    [max(row["seconds"], 1e-2) for row in points],
                    [instances.index(row["instance"]) + shift for row in points],
                    marker=STYLES[way].marker,
                    color=STYLES[way].colour,
                    fillstyle="full" if proved else "none",
                    linestyle="none",
                    label=STYLES[way].label if proved else None,
                )
        axis.set(xscale="log", xlim=(5e-3, None), xlabel="CPU time (s)", title=f"{backend}\nhollow: not decided")
        axis.set_yticks(range(len(instances)), instances if axis is axes[0] else [])
        axis.set_ylim(len(instances) - 0.5, -0.5)
    legend(figure, axes)
    return {"sharing": figure}


def tables(rows: Sequence[Row]) -> list[Table]:
    """Seconds in all, decided or not, with how many were."""
    found = []
    for (backend,), some in groups(rows, "backend").items():
        body = []
        for (family,), own in groups(some, "family").items():
            ways = groups(own, "way")
            body.append((family, *(_cell(ways.get((way,), [])) for way in WAYS)))
        header = ("family", *(STYLES[way].label for way in WAYS))
        found.append(Table(f"{backend}: CPU seconds in all, decided of all, ReLUs kept of all", header, tuple(body)))
    return found


def _cell(rows: Sequence[Row]) -> str:
    if not rows:
        return "-"
    decided = sum(row["verdict"] in {"sat", "unsat"} for row in rows)
    kept, unstable = sum(row["kept"] for row in rows), sum(row["unstable"] for row in rows)
    return f"{sum(row['seconds'] for row in rows):.1f} s, {decided}/{len(rows)}, {kept}/{unstable}"


EXPERIMENT = Experiment(
    "sharing",
    "When sharing pays",
    "not in the paper",
    "One ReLU for neurons that are nearly copies of each other (lazy sharing) against lazily exact ReLUs and the full "
    "query, with the same linear bounds before all of them, no attack and one limit per instance. In a doubled network "
    "every hidden neuron is there twice. All of these properties hold.",
    cells,
    figures,
    tables,
    alone=True,
)
