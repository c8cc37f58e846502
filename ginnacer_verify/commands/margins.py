"""`ginnacer margins NET`: how wide bounds are at given distances from the centroid (Over-Approximation Comparison)."""

import argparse
import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.abstraction.margins import Bounding, Margins, measure
from ginnacer_verify.abstraction.tight.tight import tight_abstraction
from ginnacer_verify.box import Box
from ginnacer_verify.commands.abstract import add_abstraction_arguments, build, read_property
from ginnacer_verify.commands.arguments import whole
from ginnacer_verify.commands.bar import Bar
from ginnacer_verify.commands.output import remark, show, table
from ginnacer_verify.commands.picture import save_figure
from ginnacer_verify.errors import AbstractionError, InputError
from ginnacer_verify.loading import load_chain
from ginnacer_verify.rivals.local import LOCAL

DISTANCES = "0.0001,0.001,0.01,0.1,1"
PLOTS = (".png", ".svg", ".pdf")
METHODS = ("ginnacer", "tight", *LOCAL)

EXAMPLE = "ginnacer margins ginnacer-demo/digits.onnx --centroid box ginnacer-demo/seven.vnnlib --samples 1000"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_abstraction_arguments(parser)
    parser.add_argument(
        "--method",
        default="ginnacer",
        metavar="A,B,...",
        help=f"what to measure, of {', '.join(METHODS)}; lirpa-* and alpha-crown need auto_LiRPA (default: ginnacer)",
    )
    parser.add_argument(
        "--distances", default=DISTANCES, metavar="D,...", help=f"distances from the centroid (default: {DISTANCES})"
    )
    parser.add_argument(
        "--samples",
        type=whole(1),
        default=10_000,
        metavar="N",
        help="inputs per distance (default: 10000, as the paper)",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table to this file as well")
    parser.add_argument("--plot", type=Path, metavar="FILE", help=f"draw it ({', '.join(PLOTS)}); needs matplotlib")


def run(args: argparse.Namespace) -> int:
    distances = parse_distances(args.distances)
    if args.plot and args.plot.suffix not in PLOTS:
        raise InputError(f"{args.plot}: unknown kind of picture; end its name in one of {', '.join(PLOTS)}")
    methods = parse_methods(args.method)
    abstraction = build(args, load_chain(args.network), read_property(args))
    rows: list[tuple[str, Margins]] = []
    with Bar("sampling", quiet=args.quiet) as bar:
        for method in methods:
            tight = (
                tight_abstraction(abstraction.network, abstraction.centroid, abstraction.relus_per_layer)
                if (method == "tight")
                else None
            )
            for distance in distances:
                bounding = tight or bounding_of(method, abstraction, distance)
                rows.append((method, measure(bounding, abstraction.centroid, distance, args.samples, args.seed)))
                bar.update(len(rows), len(methods) * len(distances))
    if args.csv:
        args.csv.write_text(as_csv(rows), encoding="utf-8")
    if args.plot:
        draw(rows, args.plot, f"{args.network.name}, {args.samples} inputs per distance")
    for path in filter(None, (args.csv, args.plot)):
        remark(args, f"wrote {path}")
    found = [{"method": method, **asdict(row)} for method, row in rows]
    document = {"relus_per_layer": abstraction.relus_per_layer, "margins": found}
    cells = [(method, f"{row.distance:g}", f"{row.largest:.4g}", f"{row.median:.4g}") for method, row in rows]
    show(args, document, table([("method", "distance", "largest", "median"), *cells]))
    return 0


def parse_methods(text: str) -> list[str]:
    methods = list(dict.fromkeys(text.split(",")))
    if unknown := [method for method in methods if method not in METHODS]:
        raise InputError(f"there is no method {unknown[0]!r}; choose from {', '.join(METHODS)}")
    return methods


def bounding_of(method: str, abstraction: Abstraction, distance: float) -> Bounding:
    """The paper's abstraction, or a local one on the part of its domain that is no farther than the distance."""
    if method == "ginnacer":
        return abstraction
    ends = (abstraction.domain.clip(abstraction.centroid + step) for step in (-distance, distance))
    return LOCAL[method](abstraction.network, Box(*ends))


def parse_distances(text: str) -> list[float]:
    try:
        distances = [float(part) for part in text.split(",")]
    except ValueError:
        raise AbstractionError(
            f"{text!r} are not distances; write numbers with commas between, such as {DISTANCES}"
        ) from None
    if not all(np.isfinite(distance) and distance >= 0 for distance in distances):
        raise AbstractionError("a distance must be a finite number and not negative")
    return distances


def as_csv(rows: list[tuple[str, Margins]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=["method", "distance", "largest", "median"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({"method": method, **asdict(row)} for method, row in rows)
    return text.getvalue()


def draw(rows: list[tuple[str, Margins]], path: Path, title: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes: Any = figure.subplots()
    for method in dict.fromkeys(method for method, _ in rows):
        own = [row for name, row in rows if name == method and row.distance > 0]
        axes.plot([row.distance for row in own], [row.largest for row in own], marker="o", label=method)
    axes.set(xscale="log", yscale="log", title=title)
    axes.set(xlabel="distance from the centroid (L-infinity, input units)", ylabel="largest margin (output units)")
    axes.legend()
    save_figure(figure, path)
