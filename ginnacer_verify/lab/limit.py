"""The paper's open question: is the number of ReLUs left a property of the network, or of the partition strategy?

Paper: Effectiveness of our Partition Strategy, its "compressibility limit"."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ginnacer_verify.abstraction.layer import AbstractLayer
from ginnacer_verify.abstraction.partitioning import strategies
from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.methods import ginnacer
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.lab.subjects import TITLES, subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERIES = ("first-fit", "random", "cosine", "best-fit", "bound")


def cells(setting: Setting) -> list[Cell]:
    """Visual Wake Words is left out: its layers have 4608 neurons, and the bound looks at all pairs."""
    return [Cell.of("limit", network=network) for network in setting.networks if network != "vww"]


def measure(setting: Setting, network: str) -> list[Row]:
    on = subject(network, setting)
    rows: list[Row] = []
    for number, layer in enumerate(ginnacer(on).layers, start=1):
        if not isinstance(layer, AbstractLayer):
            continue
        found = {
            "first-fit": len(layer.partition),
            "random": len(partial(strategies.random, seed=setting.seed)(layer.icf)),
            "cosine": len(strategies.cosine(layer.icf)),
            "best-fit": len(strategies.best_fit(layer.icf)),
            "bound": strategies.lower_bound_on_subsets(layer.icf),
        }
        rows += [
            {"network": network, "layer": number, "neurons": layer.icf.neurons, "series": series, "subsets": count}
            for series, count in found.items()
        ]
    return rows


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    from ginnacer_verify.lab.plots import STRATEGIES, legend, panels

    by_network = groups(rows, "network")
    figure, axes = panels(len(by_network))
    for axis, ((network,), some) in zip(axes, by_network.items(), strict=True):
        for k, series in enumerate(SERIES):
            own, style = [row for row in some if row["series"] == series], STRATEGIES[series]
            x, y = [row["layer"] + (k - 2) * 0.12 for row in own], [row["subsets"] for row in own]
            if series == "bound":
                axis.bar([row["layer"] for row in own], y, width=0.7, color="#dddddd", label=style.label, zorder=0)
            else:
                axis.plot(x, y, color=style.colour, marker=style.marker, linestyle="none", label=style.label)
        neurons = {row["layer"]: row["neurons"] for row in some}
        axis.step(list(neurons), list(neurons.values()), where="mid", color="#999999", linestyle=":", label="neurons")
        axis.set(title=TITLES[network], xlabel="ReLU layer", ylabel="subsets (ReLUs)", ylim=(0, None))
        axis.set_xticks(list(neurons))
    legend(figure, axes)
    return {"limit": figure}


def tables(rows: Sequence[Row]) -> list[Table]:
    from ginnacer_verify.lab.plots import STRATEGIES

    body = []
    for (network, series), own in groups(rows, "network", "series").items():
        counts = [row["subsets"] for row in own]
        body.append((TITLES[network], STRATEGIES[series].label, ", ".join(map(str, counts)), str(sum(counts))))
    header = ("network", "strategy", "subsets per layer", "all")
    return [Table("Subsets per layer, and the number that no valid partition can go below", header, tuple(body))]


EXPERIMENT = Experiment(
    "limit",
    "The compressibility limit",
    'Section "Effectiveness of our Partition Strategy", open question',
    "How many subsets each strategy reaches, against a lower bound that holds for every valid partition: the size of a "
    "clique of neurons of which no two may share a ReLU. Where they meet, the limit is the network's (at this "
    "centroid), not the strategy's.",
    cells,
    figures,
    tables,
)
