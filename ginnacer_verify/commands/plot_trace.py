"""`ginnacer plot-trace FILE`: ReLUs kept, the bound and the time of each round of a recorded run."""

import argparse
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ginnacer_verify.commands.output import show
from ginnacer_verify.engines.progress import read_trace
from ginnacer_verify.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, help="the file that `verify --trace` wrote")
    parser.add_argument("-o", "--output", type=Path, help=".png, .svg or .pdf (default: the trace's name as .png)")


def run(args: argparse.Namespace) -> int:
    rounds = [record for record in read_trace(args.trace) if isinstance(record, dict) and "round" in record]
    if not rounds:
        raise InputError(f"{args.trace} has no rounds: the property was decided before the loop began")
    output: Path = args.output or args.trace.with_suffix(".png")
    figure = draw(rounds)
    try:
        figure.savefig(output, dpi=150)
    except (OSError, ValueError) as problem:
        raise InputError(f"{output} cannot be written: {problem}") from problem
    show(args, {"file": str(output), "rounds": len(rounds)}, [str(output)])
    return 0


def draw(rounds: list[dict[str, Any]]) -> "Figure":
    """Three diagrams over the rounds, one above the other; a line where the disjunct changes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 6), layout="constrained")
    kept, bound, seconds = figure.subplots(3, 1, sharex=True)
    try:
        numbers = [record["round"] for record in rounds]
        layers = list(zip(*(record["kept_per_layer"] for record in rounds), strict=True))
        kept.stackplot(numbers, *layers, labels=[f"layer {n}" for n in range(1, len(layers) + 1)])
        kept.plot(numbers, [sum(record["unstable_per_layer"]) for record in rounds], "k--", label="unstable")
        known = [(record["round"], record["bound"]) for record in rounds if record["bound"] is not None]
        bound.plot([number for number, _ in known], [value for _, value in known], "o-")
        seconds.bar(numbers, [record["seconds"] for record in rounds])
        changes = [b["round"] for a, b in itertools.pairwise(rounds) if a["disjunct"] != b["disjunct"]]
    except (KeyError, TypeError, ValueError) as problem:
        raise InputError(f"this is no trace of ours: {problem!r}") from problem
    bound.axhline(0.0, color="grey", linewidth=0.8)
    for diagram, label in ((kept, "ReLUs kept"), (bound, "excess at the witness"), (seconds, "seconds")):
        diagram.set_ylabel(label)
        for number in changes:
            diagram.axvline(number - 0.5, color="lightgrey", linewidth=0.8, zorder=0)
    kept.legend(loc="upper right", fontsize="small")
    seconds.set_xlabel("round (a new disjunct begins at each grey line)")
    return figure
