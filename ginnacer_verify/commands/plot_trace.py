"""`ginnacer plot-trace FILE`: a recorded run, round by round: how subsets split, the bound and the time.

A run of another engine than the loop has no rounds: then regions are drawn over time."""

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ginnacer_verify.commands.output import show
from ginnacer_verify.commands.picture import save_figure
from ginnacer_verify.engines.progress import read_trace
from ginnacer_verify.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"shared": "#0072B2", "alone": "#9CC5E3", "exact": "#E69F00", "relaxed": "#E5E5E5", "stable": "white"}
NAMES = {
    "shared": "several share a ReLU",
    "alone": "own ReLU in the upper bound only",
    "exact": "own ReLU, exact",
    "relaxed": "lines in place of a ReLU",
}
SPLIT = "#D55E00"
Record = dict[str, Any]

EXAMPLE = "ginnacer plot-trace trace.jsonl -o trace.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="the file that `verify --trace` wrote")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=".png, .svg or .pdf (default: the trace's name, as .png)"
    )


def run(args: argparse.Namespace) -> int:
    records = [record for record in read_trace(args.trace) if isinstance(record, dict)]
    rounds = [record for record in records if "round" in record]
    moments = [record for record in records if "boxes" in record]
    if not rounds and not moments:
        raise InputError(f"{args.trace} has no rounds: the property was decided before the loop began")
    output: Path = args.output or args.trace.with_suffix(".png")
    try:
        figure = draw(rounds) if rounds else draw_regions(moments)
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise InputError(f"this file is not a trace of `verify --trace` ({problem!r})") from problem
    save_figure(figure, output)
    show(args, {"file": str(output), "rounds": len(rounds)}, [str(output)])
    return 0


def draw(rounds: Sequence[Record]) -> "Figure":
    """Blocks of neurons that share a ReLU, over the rounds; below them the bound and the time."""
    from matplotlib.figure import Figure

    shared = bool(rounds[0].get("sharing"))
    figure = Figure(figsize=(8, 8.5 if shared else 6.5), layout="constrained")
    who, bound, seconds = figure.subplots(3, 1, sharex=True, height_ratios=(4 if shared else 1.5, 1, 1))
    numbers = [record["round"] for record in rounds]
    if shared:
        blocks(who, rounds)
    else:
        _counts(who, rounds)
    for _, some in itertools.groupby(rounds, _place):
        known = [(record["round"], record["bound"]) for record in some if record["bound"] is not None]
        bound.plot([number for number, _ in known], [value for _, value in known], "o-", color=COLOURS["shared"])
    bound.axhline(0.0, color="grey", linewidth=0.8)
    bound.set_ylabel("excess")
    bound.margins(y=0.15)
    bound.set_title("Excess of the unsafe rows at the witness (above 0 there is none: proved)", fontsize="medium")
    seconds.bar(numbers, [record["seconds"] for record in rounds], color=COLOURS["shared"])
    seconds.set_ylabel("time (s)")
    seconds.set_title("Time of the solver", fontsize="medium")
    seconds.set_xlabel("round (a new disjunct or box begins at each grey line)")
    changes = [b["round"] for a, b in itertools.pairwise(rounds) if _place(a) != _place(b)]
    for diagram in (who, bound, seconds):
        diagram.xaxis.get_major_locator().set_params(integer=True)
        for number in changes:
            diagram.axvline(number - 0.5, color="grey", linewidth=0.8, zorder=3)
    return figure


def _place(record: Record) -> tuple[Any, str]:
    return record["disjunct"], str(record["box"])


def _counts(axes: "Axes", rounds: Sequence[Record]) -> None:
    """How many ReLUs of each layer are kept."""
    layers = list(zip(*(record["kept_per_layer"] for record in rounds), strict=True))
    numbers = [record["round"] for record in rounds]
    axes.stackplot(numbers, *layers, labels=[f"layer {n}" for n in range(1, len(layers) + 1)])
    axes.plot(numbers, [sum(record["unstable_per_layer"]) for record in rounds], "k--", label="unstable")
    axes.set_ylabel("ReLUs kept")
    axes.legend(loc="upper right", fontsize="small")


def _units(record: Record, layer: int) -> dict[int, tuple[str, tuple[int, ...]]]:
    """For each neuron of a layer what it has, and with whom; a neuron that is not named is stable on the box."""
    here = record["sharing"][layer]
    found = {i: ("shared" if len(subset) > 1 else "alone", tuple(subset)) for subset in here["shared"] for i in subset}
    found |= {i: ("exact", (i,)) for i in here["exact"]}
    return found | {i: ("relaxed", (i,)) for i in here["relaxed"]}


def blocks(axes: "Axes", rounds: Sequence[Record]) -> None:
    """One column per round; neurons are in an order in which those that share a ReLU are next to each other."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    shapes: dict[tuple[str, bool], list[Any]] = {}
    ticks, floor = list[float](), 0
    for layer in range(len(rounds[0]["sharing"])):
        units = [_units(record, layer) for record in rounds]
        neurons = {i for found in units for i in found}
        order = sorted(neurons, key=lambda i: [*(found.get(i, ("stable", (i,)))[1] for found in units), (i,)])
        for record, found in zip(rounds, units, strict=True):
            cut = {tuple(one["neurons"]) for one in record["split"] if one["layer"] == layer + 1}
            at = floor
            for (kind, subset), members in itertools.groupby(order, lambda i: found.get(i, ("stable", (i,)))):  # noqa: B023
                count, left = len(list(members)), record["round"] - 0.46
                corners = [(left, at), (left + 0.92, at), (left + 0.92, at + count), (left, at + count)]
                shapes.setdefault((kind, subset in cut), []).append(corners)
                at += count
        ticks.append(floor + len(order) / 2)
        floor += len(order) + 1
    for (kind, refined), corners in sorted(shapes.items(), key=lambda item: item[0][1]):
        edge, width = (SPLIT, 1.4) if refined else ("white", 0.5)
        axes.add_collection(PolyCollection(corners, facecolors=COLOURS[kind], edgecolors=edge, linewidths=width))
    axes.set(xlim=(rounds[0]["round"] - 0.6, rounds[-1]["round"] + 0.6), ylim=(floor, -1))
    axes.set_yticks(ticks, [f"layer {n}" for n in range(1, len(ticks) + 1)])
    used = [kind for kind in NAMES if any(found == kind for found, _ in shapes)]
    handles = [Patch(facecolor=COLOURS[kind], label=NAMES[kind]) for kind in used]
    if any(refined for _, refined in shapes):
        handles.append(Patch(facecolor="white", edgecolor=SPLIT, label="refined after this round"))
    axes.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=3, fontsize="small")
    axes.set_title("Neurons, one row each: which share a ReLU", fontsize="medium")


def draw_regions(moments: Sequence[Record]) -> "Figure":
    """Regions that were bounded and that are open, and disjuncts that are open, over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6.5), layout="constrained")
    done, waiting, left = figure.subplots(3, 1, sharex=True)
    start = moments[0]["left"]
    seconds = [start - record["left"] for record in moments]
    titles = (
        (done, "boxes", "regions bounded", f"Engine {moments[-1]['engine']}: regions bounded so far"),
        (waiting, "open_boxes", "regions open", "Regions that are still to be decided"),
        (left, "open_disjuncts", "disjuncts open", "Disjuncts that are not decided"),
    )
    for axes, name, label, title in titles:
        axes.plot(seconds, [record[name] for record in moments], "o-", markersize=3, color=COLOURS["shared"])
        axes.set_ylabel(label)
        axes.set_title(title, fontsize="medium")
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_ylim(bottom=0)
    left.set_xlabel("time since the first step (s)")
    return figure
