"""`ginnacer margins NET`: how wide the bounds are at given distances from the centroid (the paper's Section 5.3)."""

import argparse
import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ginnacer_verify.abstraction.margins import Margins, measure
from ginnacer_verify.commands.abstract import add_abstraction_arguments, build, read_property
from ginnacer_verify.commands.bar import Bar
from ginnacer_verify.commands.output import remark, show, table, whole
from ginnacer_verify.errors import AbstractionError, InputError
from ginnacer_verify.loading import load_chain

DISTANCES = "0.0001,0.001,0.01,0.1,1"
PLOTS = (".png", ".svg", ".pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_abstraction_arguments(parser)
    parser.add_argument("--distances", default=DISTANCES, help=f"from the centroid, by commas; default: {DISTANCES}")
    parser.add_argument(
        "--samples", type=whole(1), default=10_000, help="inputs per distance; default: 10000, as the paper"
    )
    parser.add_argument("--csv", type=Path, help="write the table to this file as well")
    parser.add_argument("--plot", type=Path, help=f"draw it into this file ({', '.join(PLOTS)}); needs matplotlib")


def run(args: argparse.Namespace) -> int:
    distances = parse_distances(args.distances)
    if args.plot and args.plot.suffix not in PLOTS:
        raise InputError(f"{args.plot} is no drawing that we make: choose one of {', '.join(PLOTS)}")
    abstraction = build(args, load_chain(args.network), read_property(args))
    with Bar("sampling", quiet=args.quiet) as bar:
        rows = []
        for number, distance in enumerate(distances, start=1):
            rows.append(measure(abstraction, distance, args.samples, args.seed))
            bar.update(number, len(distances))
    if args.csv:
        args.csv.write_text(as_csv(rows), encoding="utf-8")
    if args.plot:
        draw(rows, args.plot)
    for path in filter(None, (args.csv, args.plot)):
        remark(args, f"wrote {path}")
    document = {"relus_per_layer": abstraction.relus_per_layer, "margins": [asdict(row) for row in rows]}
    cells = [(f"{row.distance:g}", f"{row.largest:.4g}", f"{row.median:.4g}") for row in rows]
    show(args, document, table([("distance", "largest", "median"), *cells]))
    return 0


def parse_distances(text: str) -> list[float]:
    try:
        distances = [float(part) for part in text.split(",")]
    except ValueError:
        raise AbstractionError(
            f"{text!r} are no distances; write numbers with commas between, as {DISTANCES}"
        ) from None
    if not all(np.isfinite(distance) and distance >= 0 for distance in distances):
        raise AbstractionError("a distance must be a finite number and not negative")
    return distances


def as_csv(rows: list[Margins]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=["distance", "largest", "median"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def draw(rows: list[Margins], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes: Any = figure.subplots()
    for name in ("largest", "median"):
        axes.plot([row.distance for row in rows], [getattr(row, name) for row in rows], marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="distance from the centroid", ylabel="margin")
    axes.legend()
    figure.savefig(path)
