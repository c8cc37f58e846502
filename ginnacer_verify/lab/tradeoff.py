"""What abstracting fewer layers gains: the first layers are left untouched.

Paper: Abstraction and Over-Approximation Trade-Off, Figure "Comparison between GINNACER abstractions"."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ginnacer_verify.abstraction.abstraction import abstract
from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.margins import largest
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.lab.subjects import TITLES, subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIDDEN = {"pade": 2, "digits": 4, "advisory": 4, "acasxu": 6, "mnistfc": 6, "toyadmos": 9, "vww": 16}
MANY = 9
"""Legends with more lines stand beside their panel."""


def cells(setting: Setting) -> list[Cell]:
    return [
        Cell.of("tradeoff", network=network, first=first)
        for network in setting.networks
        for first in range(1, HIDDEN[network] + 1)
    ]


def measure(setting: Setting, network: str, first: int) -> list[Row]:
    """Abstract from layer `first` on."""
    on = subject(network, setting)
    inputs = on.inputs if first == 1 else None
    layers = range(first, len(on.network.layers))
    abstraction = abstract(on.network, on.centroid, layers=list(layers), inputs=inputs)
    relus = sum(abstraction.relus_per_layer)
    return [
        {"network": network, "first": first, "distance": d, **largest(abstraction, on, d, setting), "relus": relus}
        for d in setting.distances
    ]


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    from ginnacer_verify.lab.methods import Style
    from ginnacer_verify.lab.plots import FLOOR, floored, line, panels

    by_network = groups(rows, "network")
    figure, axes = panels(len(by_network))
    for axis, ((network,), some) in zip(axes, by_network.items(), strict=True):
        by_first = groups(some, "first")
        for k, ((first,), own) in enumerate(by_first.items()):
            colour = "#0072B2" if k == 0 else to_hex(colormaps["cividis"](k / len(by_first)))
            label = "all layers" if first == "1" else f"from layer {first} on"
            style = Style(label, colour, "os^vDP<>*Xxhd+p1"[k % 16])
            line(axis, style, [row["distance"] for row in own], floored([row["largest"] for row in own]))
        axis.set(xscale="log", yscale="log", title=TITLES[network], ylim=(FLOOR / 3, None))
        axis.set(xlabel="distance from the centroid (L-infinity, input units)", ylabel="largest margin (output units)")
        beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(by_first) > MANY else {}
        axis.legend(fontsize="x-small", frameon=False, **beside)
    return {"tradeoff": figure}


def tables(rows: Sequence[Row]) -> list[Table]:
    body = []
    for (network, first), own in groups(rows, "network", "first").items():
        at = {row["distance"]: row["largest"] for row in own}
        cells = (f"{at[d]:.3g}" if d in at else "-" for d in (0.01, 0.1, 1.0))
        body.append((TITLES[network], f"from layer {first} on", str(own[0]["relus"]), *cells))
    header = ("network", "abstracted", "ReLUs of both bounds", "margin at 0.01", "at 0.1", "at 1")
    return [
        Table("ReLUs and largest margin; a layer that is not abstracted needs its ReLUs twice", header, tuple(body))
    ]


EXPERIMENT = Experiment(
    "tradeoff",
    "Abstracting fewer layers",
    'Appendix "Abstraction and Over-Approximation Trade-Off"',
    "GINNACER with the first layers left as they are. Layers before the first abstract one have their own ReLUs; "
    "margins below 1e-13 are drawn there.",
    cells,
    figures,
    tables,
)
