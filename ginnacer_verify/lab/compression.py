"""Which share of the ReLUs GINNACER keeps in each layer, over many centroids.

Paper: Effectiveness of our Partition Strategy, Figure "Percentage of ReLU activation functions remaining"."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ginnacer_verify.abstraction.abstraction import abstract
from ginnacer_verify.abstraction.inputs import Mode
from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.network import Network
from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.lab.subjects import TITLES, acas, middles, subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL_ACAS = [f"{first}_{second}" for first in range(1, 6) for second in range(1, 10)]


def cells(setting: Setting) -> list[Cell]:
    """One per network; the 45 ACAS Xu networks in five cells of nine."""
    found = []
    for network in setting.networks:
        parts = [str(number) for number in range(1, 6)] if network == "acasxu" else ["all"]
        found += [Cell.of("compression", network=network, part=part) for part in parts]
    return found


def measure(setting: Setting, network: str, part: str) -> list[Row]:
    rows: list[Row] = []
    if network == "acasxu":
        centroids = middles(Path(setting.benchmarks, "acasxu"), "prop_*.vnnlib")
        for number in (name for name in ALL_ACAS if name.startswith(part)):
            own = acas(setting, number)
            rows += [r for k, c in enumerate(centroids) for r in _rows(network, f"{number} {k}", own, c, "pre-layer")]
        return rows
    on = subject(network, setting)
    for k, centroid in enumerate(on.centroids):
        rows += _rows(network, str(k), on.network, centroid, on.inputs)
    return rows


def _rows(network: str, centroid: str, own: Network, point: Array, inputs: Mode) -> list[Row]:
    counts = abstract(own, point, inputs=inputs).relus_per_layer
    return [
        {"network": network, "centroid": centroid, "layer": layer, "relus": kept, "share": kept / total}
        for layer, (kept, total) in enumerate(zip(counts, own.relus_per_layer, strict=True), start=1)
    ]


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    from ginnacer_verify.lab.methods import STYLES
    from ginnacer_verify.lab.plots import boxes, panels

    by_network = groups(rows, "network")
    figure, axes = panels(len(by_network))
    for axis, ((network,), some) in zip(axes, by_network.items(), strict=True):
        layers = sorted({row["layer"] for row in some})
        data = [[100 * row["share"] for row in some if row["layer"] == layer] for layer in layers]
        boxes(axis, STYLES["ginnacer"], data, layers, 0.6)
        count = len(groups(some, "centroid"))
        title = "ACAS Xu, 45 networks" if network == "acasxu" else TITLES[network]
        axis.set(
            title=f"{title}\n{count} centroid{'s' * (count > 1)}",
            xlabel="ReLU layer",
            ylabel="ReLUs kept (%)",
            ylim=(-3, 103),
        )
        axis.set_xticks(layers)
    return {"compression": figure}


def tables(rows: Sequence[Row]) -> list[Table]:
    found = []
    for (network,), some in groups(rows, "network").items():
        layers = sorted({row["layer"] for row in some})
        shares = [[100 * row["share"] for row in some if row["layer"] == layer] for layer in layers]
        quartiles = [np.percentile(values, (25, 50, 75)) for values in shares]
        body = tuple(
            (name, *(f"{quartile[k]:.3g}" for quartile in quartiles))
            for k, name in enumerate(("lower quartile", "median", "upper quartile"))
        )
        title = f"{TITLES[network]}: ReLUs kept, in percent of each layer"
        found.append(Table(title, ("over all centroids", *(f"L{layer}" for layer in layers)), body))
    return found


EXPERIMENT = Experiment(
    "compression",
    "ReLUs kept in each layer",
    'Section "Effectiveness of our Partition Strategy"',
    "The share of ReLUs that the paper's first fit leaves, over many centroids: the middles of all property boxes on "
    "all 45 ACAS Xu networks, the images of the MNIST-fc properties (15, where the paper had 1000), 40 windows of one "
    "ToyADMOS clip (1000 in the paper) and the property boxes of our own networks.",
    cells,
    figures,
    tables,
)
