"""How wide the bounds are at a distance from the centroid, on every network and with every method.

Paper: Over-Approximation Comparison."""

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ginnacer_verify.abstraction.margins import surface
from ginnacer_verify.arrays import Array
from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.methods import GLOBAL, LOCAL, STYLES, global_method, local_method
from ginnacer_verify.lab.setting import LARGE, Setting
from ginnacer_verify.lab.subjects import TITLES, Subject, subject
from ginnacer_verify.rivals.rival import Rival

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGE_IN_QUICK = ("mnistfc", "toyadmos", "vww")
"""Where alpha-CROWN takes many seconds per distance: quick runs leave it out. On Visual Wake Words all runs do, because
auto_LiRPA would need its matrices dense."""


def cells(setting: Setting) -> list[Cell]:
    return [
        Cell.of("margins", network=network, method=method)
        for network in setting.networks
        for method in (*GLOBAL, *LOCAL)
        if not (method == "alpha-crown" and network in (LARGE_IN_QUICK if setting.quick else LARGE))
    ]


def measure(setting: Setting, network: str, method: str) -> list[Row]:
    """Global methods are built once, local ones for each distance."""
    on = subject(network, setting)
    everywhere = global_method(method, on, seed=setting.seed) if method in GLOBAL else None
    rows: list[Row] = []
    for distance in (0.0, *setting.distances):
        rival = everywhere or local_method(method, on, distance)
        found = largest(rival, on, distance, setting)
        relus = int(sum(rival.relus_per_layer))
        rows.append({"network": network, "method": method, "distance": distance, **found, "relus": relus})
    return rows


def largest(rival: Rival, on: Subject, distance: float, setting: Setting) -> dict[str, float]:
    """The margin of the widest output: over all samples, and at half of them at most.

    The same points for every method: uniform on the surface of the cube, inside of the network's domain."""
    count = setting.samples if distance else 2  # one row could be read as one input
    widths = [rival.margin(batch).max(axis=1) for batch in _batches(on, distance, count, setting.seed)]
    found = np.concatenate(widths)
    return {"largest": float(found.max()), "median": float(np.median(found))}


def _batches(on: Subject, distance: float, count: int, seed: int) -> list[Array]:
    random = np.random.default_rng([seed, zlib.crc32(f"{on.name} {distance}".encode())])
    size = max(1, 2**22 // on.network.inputs)
    sizes = [min(size, count - first) for first in range(0, count, size)]
    return [on.box(distance).clip(surface(on.centroid, distance, some, random)) for some in sizes]


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    from ginnacer_verify.lab.plots import FLOOR, floored, legend, line, panels

    by_network = groups(rows, "network")
    figure, axes = panels(len(by_network))
    for axis, ((network,), some) in zip(axes, by_network.items(), strict=True):
        for (method,), own in groups([row for row in some if row["distance"] > 0], "method").items():
            line(axis, STYLES[method], [r["distance"] for r in own], floored([r["largest"] for r in own]))
        axis.set(xscale="log", yscale="log", title=TITLES[network])
        axis.set(xlabel="distance from the centroid (L-infinity, input units)", ylabel="largest margin (output units)")
        axis.set_ylim(bottom=FLOOR / 3)
    legend(figure, axes)
    return {"margins": figure}


def tables(rows: Sequence[Row]) -> list[Table]:
    found = []
    for (network,), some in groups(rows, "network").items():
        chosen = [d for d in (0.0, 1e-3, 0.01, 0.1, 1.0) if any(row["distance"] == d for row in some)]
        body = []
        for (method,), own in groups(some, "method").items():
            at = {row["distance"]: row["largest"] for row in own}
            body.append((STYLES[method].label, str(own[0]["relus"]), *(f"{at[d]:.3g}" for d in chosen if d in at)))
        header = ("method", "ReLUs", *(f"{d:g}" for d in chosen))
        found.append(Table(f"{TITLES[network]}: largest margin by distance from the centroid", header, tuple(body)))
    return found


EXPERIMENT = Experiment(
    "margins",
    "Margins by distance from the centroid",
    'Section "Over-Approximation Comparison"',
    "The largest margin (upper minus lower bound) of any output over random inputs on the surface of a cube around the "
    "centroid. Global abstractions have the same number of ReLUs per layer and are built once; local ones are built "
    "anew for each distance. Margins below 1e-13 are drawn there: they are exactly 0 or rounding errors. Broken lines "
    "are other readings of a rival: Network Abstractions that sum maxima instead of taking the maximum of sums, and "
    "FastLin whose ReLUs have their ranges from intervals, with and without substitution.",
    cells,
    figures,
    tables,
)
