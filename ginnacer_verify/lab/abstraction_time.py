"""How long each layer of an abstraction takes to compute.

Paper: Time Comparison, Figure "Abstraction time over all network layers"."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.methods import OF_THE_PAPER, STYLES, ginnacer, local_method, with_counts
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.lab.subjects import TITLES, Subject, subject
from ginnacer_verify.rivals.rival import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISTANCE = 0.1
"""The radius of FastLin's box; its time hardly depends on it."""
LONG = 60.0
"""Seconds: a method that takes longer than this for a network is not run again."""


def cells(setting: Setting) -> list[Cell]:
    return [Cell.of("abstraction-time", network=n, method=m) for n in setting.networks for m in OF_THE_PAPER]


def measure(setting: Setting, network: str, method: str) -> list[Row]:
    """Once to compile, then `runs` times, or fewer if one takes very long."""
    on = subject(network, setting)
    counts = ginnacer(on).relus_per_layer
    build = builder(method, on, counts)
    rows: list[Row] = []
    first = sum(timed(build, on, 0))
    runs = setting.runs if first < LONG else 1
    for run in range(runs):
        for layer, seconds in enumerate(timed(build, on, setting.seed + run), start=1):
            rows.append({"network": network, "method": method, "layer": layer, "run": run, "seconds": seconds})
    return rows


def builder(method: str, on: Subject, counts: Sequence[int]) -> Callable[[int, Progress], object]:
    """A call that builds the abstraction from a seed and tells its progress."""
    match method:
        case "ginnacer":
            return lambda seed, progress: ginnacer(on, progress)
        case "fastlin":
            return lambda seed, progress: local_method(method, on, DISTANCE, progress=progress)
        case _:
            return lambda seed, progress: with_counts(method, on, counts, seed=seed, progress=progress)


def timed(build: Callable[[int, Progress], object], on: Subject, seed: int) -> list[float]:
    """The seconds of each ReLU layer; the first one includes what comes before it."""
    moments = [time.perf_counter()]
    build(seed, lambda done, total: moments.append(time.perf_counter()))
    return [float(step) for step in np.diff(moments)[: len(on.network.layers) - 1]]


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    from ginnacer_verify.lab.plots import boxes, panels, patch_legend

    by_network = groups(rows, "network")
    figure, axes = panels(len(by_network))
    for axis, ((network,), some) in zip(axes, by_network.items(), strict=True):
        layers = sorted({row["layer"] for row in some})
        methods = [name for name in OF_THE_PAPER if any(row["method"] == name for row in some)]
        for k, method in enumerate(methods):
            data = [[r["seconds"] for r in some if r["method"] == method and r["layer"] == n] for n in layers]
            places = [layer + (k - (len(methods) - 1) / 2) * 0.2 for layer in layers]
            boxes(axis, STYLES[method], data, places, 0.16)
        axis.set(yscale="log", title=TITLES[network], xlabel="ReLU layer", ylabel="time per layer (s)")
        axis.set_xticks(layers)
    patch_legend(figure, OF_THE_PAPER)
    return {"abstraction-time": figure}


def tables(rows: Sequence[Row]) -> list[Table]:
    body = []
    for (network,), some in groups(rows, "network").items():
        medians = {method: total(own) for (method,), own in groups(some, "method").items()}
        base = medians.get("ginnacer", float("nan"))
        cells = (f"{medians[m]:.3g} s ({medians[m] / base:.2g}x)" if m in medians else "-" for m in OF_THE_PAPER)
        body.append((TITLES[network], *cells))
    header = ("network", *(STYLES[name].label for name in OF_THE_PAPER))
    return [
        Table("Time of a whole abstraction: median over the runs, and as a multiple of GINNACER's", header, tuple(body))
    ]


def total(rows: Sequence[Row]) -> float:
    """The median over the runs of the sum over the layers."""
    return float(np.median([sum(row["seconds"] for row in some) for some in groups(rows, "run").values()]))


EXPERIMENT = Experiment(
    "abstraction-time",
    "Abstraction time",
    'Section "Time Comparison", figure "Abstraction time over all network layers"',
    "Seconds to abstract each ReLU layer, one process and one thread, nothing of ours beside it. Boxes are quartiles, "
    "whiskers reach to the last point within 1.5 times their distance, as in the paper.",
    cells,
    figures,
    tables,
    alone=True,
)
