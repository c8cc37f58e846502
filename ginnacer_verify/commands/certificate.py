"""`ginnacer certificate show NET PROP proof.gcert`: what a proof consists of, and how it divides two of the inputs."""

import argparse
from pathlib import Path
from typing import Any

from ginnacer_check.__main__ import content
from ginnacer_check.check import Models, Problem, Walk, check
from ginnacer_check.network import Unreadable
from ginnacer_check.proof import Refused, Stream
from ginnacer_verify.commands.arguments import whole
from ginnacer_verify.commands.networks import add_networks, split_files
from ginnacer_verify.commands.output import remark, show, table
from ginnacer_verify.commands.picture import save_figure
from ginnacer_verify.errors import InputError

USAGE = "give NET PROP proof.gcert, or networks by name: PROP proof.gcert --network N=NET ..."
EXAMPLE = "ginnacer certificate show ginnacer-demo/advisory.onnx ginnacer-demo/head-on.vnnlib proof.gcert"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["show"], help="what to do: show it")
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="the .onnx file, the .vnnlib file and the proof"
    )
    add_networks(parser)
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="draw how two inputs are divided, as .png, .svg or .pdf"
    )
    parser.add_argument(
        "--inputs",
        type=whole(0),
        nargs=2,
        default=(0, 1),
        metavar=("I", "J"),
        help="which two inputs to draw, counted from 0 (default: 0 1)",
    )


def run(args: argparse.Namespace) -> int:
    networks, (prop, path) = split_files(args.files, args.network, 2, USAGE)
    models, text = {name: content(file) for name, file in networks.items()}, content(prop)
    given = models if len(models) > 1 else next(iter(models.values()))
    try:
        with path.open("rb") as file:
            report = check(given, text, file)
    except (Refused, Unreadable) as problem:
        raise InputError(f"{path} is not accepted: {problem}") from problem
    document = {
        "status": report.status,
        "bytes": path.stat().st_size,
        "leaves": report.leaves,
        "lemmas": report.lemmas,
        "depth": report.depth,
        "margin": report.margin if report.leaves else None,
    }
    show(args, document, table(list(document.items())))
    if args.picture and report.status == "unsat":
        _draw(args, given, text, path)
        remark(args, f"picture: {args.picture}")
    return 0


def _draw(args: argparse.Namespace, given: Models, text: bytes, path: Path) -> None:
    """A rectangle for each leaf, seen along all other inputs."""
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    i, j = args.inputs
    with path.open("rb") as file:
        problem = Problem(given, text, Stream(file).header.twins)
    if max(i, j) >= problem.formula.inputs:
        raise InputError(f"the network has {problem.formula.inputs} inputs: choose two of them with --inputs")
    seen: dict[tuple[float, ...], Any] = {}
    count = 0
    with path.open("rb") as file:
        stream = Stream(file)
        for leaf in Walk(problem, stream).leaves():
            count += 1
            low, high = leaf.region.lower, leaf.region.upper
            corner = float(low[i]), float(low[j]), float(high[i] - low[i]), float(high[j] - low[j])
            seen[corner] = Rectangle(corner[:2], *corner[2:])
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    axes.add_collection(PatchCollection(list(seen.values()), facecolor="none", edgecolor="black", linewidth=0.4))
    axes.autoscale()
    axes.set_xlabel(f"input {i}")
    axes.set_ylabel(f"input {j}")
    axes.set_title(f"{path.name}: {len(seen)} boxes of {count} leaves")
    save_figure(figure, args.picture)
