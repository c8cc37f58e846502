"""ReLUs against margin: every partition strategy of GINNACER and every rival, one plot per network."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.abstraction.partitioning import strategies
from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.margins import largest
from ginnacer_verify.lab.methods import STYLES, ginnacer, local_method, with_counts
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.lab.subjects import TITLES, Subject, subject
from ginnacer_verify.rivals.rival import Rival

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISTANCES = (0.01, 0.1)
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
COPIES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Of each layer's ReLUs; Network Abstractions have up to four copies of each."""
SPENT = (0.0, 0.25, 0.5, 0.75)
"""How much of what first fit saves is given back to `budget`."""
SERIES = (
    "first-fit",
    "random",
    "cosine",
    "best-fit",
    "budget",
    "budget-clip",
    "singletons",
    "prabhakar",
    "elboher",
    "fastlin",
    "crown",
)


def cells(setting: Setting) -> list[Cell]:
    small = [name for name in setting.networks if name != "vww"]
    return [Cell.of("frontier", network=network, series=series) for network in small for series in SERIES]


def measure(setting: Setting, network: str, series: str) -> list[Row]:
    on = subject(network, setting)
    rows: list[Row] = []
    if series in {"fastlin", "crown"}:
        built = [(d, local_method(series, on, d)) for d in DISTANCES]
    else:
        built = [(d, rival) for rival in _rivals(series, on, setting) for d in DISTANCES]
    for distance, rival in built:
        found = largest(rival, on, distance, setting)
        rows.append({"network": network, "series": series, "relus": _relus(rival), "distance": distance, **found})
    return rows


def _rivals(series: str, on: Subject, setting: Setting) -> Iterator[Rival]:
    if series in {"prabhakar", "elboher"}:
        for share in SHARES if series == "prabhakar" else COPIES:
            counts = [max(1, round(share * neurons)) for neurons in on.network.relus_per_layer]
            yield with_counts(series, on, counts, seed=setting.seed)
    else:
        yield from _partitions(series, on, setting)


def _partitions(series: str, on: Subject, setting: Setting) -> Iterator[Abstraction]:
    build = partial(abstract, on.network, on.centroid, inputs=on.inputs)
    match series:
        case "random":
            for seed in range(setting.seed, setting.seed + 3):
                yield build(strategy=partial(strategies.random, seed=seed))
        case "budget" | "budget-clip":
            least = ginnacer(on).relus_per_layer
            for spent in SPENT:
                pairs = zip(least, on.network.relus_per_layer, strict=True)
                counts = [round(few + spent * (many - few)) for few, many in pairs]
                yield build(strategy=[strategies.budget(k) for k in counts], clip=series == "budget-clip")
        case _:
            yield build(strategy=getattr(strategies, series.replace("-", "_")))


def _relus(rival: Rival) -> int:
    """With those of the clip, without the pre-layer's: all global methods need that alike."""
    clips = rival.clips_per_layer if isinstance(rival, Abstraction) else ()
    return int(sum(rival.relus_per_layer) + sum(clips))


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    return {f"frontier-{distance:g}": _figure([r for r in rows if r["distance"] == distance]) for distance in DISTANCES}


def _figure(rows: Sequence[Row]) -> "Figure":
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    from ginnacer_verify.lab.plots import FLOOR, STRATEGIES, floored, legend, line, panels

    styles = STYLES | STRATEGIES
    by_network = groups(rows, "network")
    figure, axes = panels(len(by_network))
    for axis, ((network,), some) in zip(axes, by_network.items(), strict=True):
        for (series,), own in groups(some, "series").items():
            x, y = [row["relus"] for row in own], floored([row["largest"] for row in own])
            if series in {"fastlin", "crown"}:
                style = styles[series]
                axis.axhline(y[0], color=style.colour, linestyle="--", linewidth=1.2, label=f"{style.label}, no ReLUs")
            else:
                line(axis, styles[series], x, y, linestyle="none" if series == "random" else "-")
        axis.set(
            xscale="log", yscale="log", title=TITLES[network], xlabel="ReLUs of the abstraction", ylim=(FLOOR / 3, None)
        )
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_ylabel(f"largest margin at {rows[0]['distance']:g} (output units)")
        axis.axvline(_total(some), color="#999999", linestyle=":", linewidth=1, label="ReLUs of the network")
    legend(figure, axes, fontsize="small")
    return figure


def _total(rows: Sequence[Row]) -> float:
    return float(max((row["relus"] for row in rows if row["series"] in {"singletons", "prabhakar"}), default=0))


def tables(rows: Sequence[Row]) -> list[Table]:
    from ginnacer_verify.lab.plots import STRATEGIES

    styles, found = STYLES | STRATEGIES, []
    for (network,), some in groups(rows, "network").items():
        body = []
        for (series, relus), own in groups(some, "series", "relus").items():
            at = {row["distance"]: row["largest"] for row in own}
            body.append((styles[series].label, relus, *(f"{at[d]:.3g}" for d in DISTANCES if d in at)))
        header = ("method", "ReLUs", *(f"margin at {d:g}" for d in DISTANCES))
        found.append(Table(TITLES[network], header, tuple(body)))
    return found


EXPERIMENT = Experiment(
    "frontier",
    "ReLUs against margin",
    "not in the paper",
    "What a ReLU buys: the largest margin at a distance from the centroid against the number of ReLUs, for every "
    "partition strategy (blue, at the paper's own input mode) and for rivals with more or fewer merged neurons. Lower "
    "left is better. ReLUs of the clip are counted, those of the pre-layer, which all global methods share, are not.",
    cells,
    figures,
    tables,
)
