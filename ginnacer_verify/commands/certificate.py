"""`ginnacer certificate show NET PROP proof.gcert`: what a proof consists of, and how it divides two of the inputs."""

import argparse
from pathlib import Path
from typing import Any

from ginnacer_check.__main__ import content
from ginnacer_check.check import Problem, Walk, check
from ginnacer_check.network import Unreadable
from ginnacer_check.proof import Refused, Stream
from ginnacer_verify.commands.output import remark, show, table, whole
from ginnacer_verify.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["show"])
    parser.add_argument("network", type=Path)
    parser.add_argument("property", type=Path)
    parser.add_argument("certificate", type=Path)
    parser.add_argument("--picture", type=Path, metavar="PNG", help="draw how the inputs are divided")
    parser.add_argument("--inputs", type=whole(0), nargs=2, default=(0, 1), metavar=("I", "J"), help="which two inputs")


def run(args: argparse.Namespace) -> int:
    model, text = content(args.network), content(args.property)
    try:
        with args.certificate.open("rb") as file:
            report = check(model, text, file)
    except (Refused, Unreadable) as problem:
        raise InputError(f"{args.certificate} is not accepted: {problem}") from problem
    document = {
        "status": report.status,
        "bytes": args.certificate.stat().st_size,
        "leaves": report.leaves,
        "lemmas": report.lemmas,
        "depth": report.depth,
        "margin": report.margin if report.leaves else None,
    }
    show(args, document, table(list(document.items())))
    if args.picture and report.status == "unsat":
        _draw(args, Problem(model, text))
        remark(args, f"picture: {args.picture}")
    return 0


def _draw(args: argparse.Namespace, problem: Problem) -> None:
    """A rectangle for each leaf, seen along all other inputs."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    i, j = args.inputs
    if max(i, j) >= problem.formula.inputs:
        raise InputError(f"the network has {problem.formula.inputs} inputs: choose two of them with --inputs")
    seen: dict[tuple[float, ...], Any] = {}
    with args.certificate.open("rb") as file:
        for leaf in Walk(problem, Stream(file)).leaves():
            low, high = leaf.region.lower, leaf.region.upper
            corner = float(low[i]), float(low[j]), float(high[i] - low[i]), float(high[j] - low[j])
            seen[corner] = Rectangle(corner[:2], *corner[2:])
    figure, axes = plt.subplots(figsize=(6, 6))
    axes.add_collection(PatchCollection(list(seen.values()), facecolor="none", edgecolor="black", linewidth=0.4))
    axes.autoscale()
    axes.set_xlabel(f"input {i}")
    axes.set_ylabel(f"input {j}")
    figure.savefig(args.picture, dpi=150)
    plt.close(figure)
