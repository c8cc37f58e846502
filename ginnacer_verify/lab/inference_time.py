"""How long the original network and its abstractions take for one input, and per input of a batch.

Paper: Time Comparison, Table "Average execution time of the original and abstracted networks"."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ginnacer_verify.abstraction.margins import surface
from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.methods import OF_THE_PAPER, STYLES, global_method, local_method
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.lab.subjects import TITLES, subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISTANCE, BATCH = 0.1, 1000
METHODS = ("original", *OF_THE_PAPER)
PAPER = {
    "acasxu": {"original": 9.86e-5, "ginnacer": 7.75e-4, "fastlin": 3.68e-4, "prabhakar": 7.59e-4, "elboher": 1.09e-2},
    "mnistfc": {"original": 4.78e-3, "ginnacer": 2.07e-2, "fastlin": 1.65e-2, "prabhakar": 6.66e-2, "elboher": 2.94e-2},
    "toyadmos": {"original": 5.5e-3, "ginnacer": 2.69e-2, "fastlin": 1.46e-2, "prabhakar": 5.85e-2, "elboher": 3.1e-2},
    "vww": {"original": 1.25e-2, "ginnacer": 1.37e-2, "fastlin": 5.23e-2, "prabhakar": 0.246, "elboher": 1.27},
}
"""Seconds of the paper's table."""


def cells(setting: Setting) -> list[Cell]:
    return [Cell.of("inference-time", network=n, method=m) for n in setting.networks for m in METHODS]


def measure(setting: Setting, network: str, method: str) -> list[Row]:
    """`runs` times `inferences` single inputs, after a few that are not counted; then one batch per run."""
    on = subject(network, setting)
    call: Callable[..., object]
    if method == "original":
        call = on.network
    elif method == "fastlin":
        call = local_method(method, on, DISTANCE)
    else:
        call = global_method(method, on, seed=setting.seed)
    batch = on.box(DISTANCE).clip(surface(on.centroid, DISTANCE, BATCH, np.random.default_rng(setting.seed)))
    seconds: list[float] = []
    for _ in range(setting.runs):
        found = [_seconds(call, batch[k % BATCH]) for k in range(setting.inferences + 10)]
        seconds += found[10:]
    together = min(_seconds(call, batch) for _ in range(setting.runs)) / BATCH
    return [
        {
            "network": network,
            "method": method,
            "mean": float(np.mean(seconds)),
            "deviation": float(np.std(seconds)),
            "median": float(np.median(seconds)),
            "in_batch": together,
        }
    ]


def _seconds(call: Callable[..., object], x: object) -> float:
    start = time.perf_counter()
    call(x)
    return time.perf_counter() - start


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    from ginnacer_verify.lab.plots import panels, patch_legend

    figure, axes = panels(2, width=6.0)
    networks = [name for (name,) in groups(rows, "network")]
    for axis, column, title in zip(
        axes, ("mean", "in_batch"), ("one input at a time", f"in a batch of {BATCH}"), strict=True
    ):
        for row in rows:
            k = METHODS.index(row["method"])
            place = networks.index(row["network"]) + (k - 2) * 0.16
            axis.bar(place, row[column], width=0.14, color=STYLES[row["method"]].colour)
        axis.set(yscale="log", title=title, ylabel="time per input (s)")
        axis.set_xticks(range(len(networks)), [TITLES[name] for name in networks], rotation=20, ha="right")
    patch_legend(figure, METHODS)
    return {"inference-time": figure}


def tables(rows: Sequence[Row]) -> list[Table]:
    body = []
    for (network,), some in groups(rows, "network").items():
        found = {row["method"]: row for row in some}
        base = found.get("original")
        for method, row in found.items():
            paper = PAPER.get(network, {})
            theirs = f"{paper[method] / paper['original']:.2g}" if method in paper else "-"
            ratios = [f"{row[c] / base[c]:.2g}" if base else "-" for c in ("median", "in_batch")]
            spread = f"{row['mean']:.2e} ± {row['deviation']:.1e}"
            body.append((TITLES[network], STYLES[method].label, spread, *ratios, theirs))
    header = ("network", "method", "one input (s)", "times the original", "in a batch", "in the paper")
    return [Table("Average execution time, and ratios to the original network (medians)", header, tuple(body))]


EXPERIMENT = Experiment(
    "inference-time",
    "Inference time",
    'Section "Time Comparison", table "Average execution time of the original and abstracted networks"',
    "Seconds for one input at distance 0.1 of the centroid, and per input of a batch. All methods account for the "
    "rounding of their own sums, which the paper's code did not.",
    cells,
    figures,
    tables,
    alone=True,
)
