"""`ginnacer robust NET INPUTS LABELS --eps E -o DIR`: certified accuracy of a data set, with a page about it."""

import argparse
import csv
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.commands.arguments import distance, seconds, whole
from ginnacer_verify.commands.bar import Bar
from ginnacer_verify.commands.files import read_array, read_network
from ginnacer_verify.commands.output import show, table
from ginnacer_verify.properties.build import Norm
from ginnacer_verify.robust.certify import Certified, Result, certify
from ginnacer_verify.robust.page import page

NORMS: dict[str, Norm] = {"inf": "inf", "2": 2, "1": 1}

EXAMPLE = (
    "ginnacer robust ginnacer-demo/digits.onnx ginnacer-demo/images.npy ginnacer-demo/labels.npy "
    "--eps 0.05 --first 20 -o robust"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", type=Path, help=".onnx or .nnet, also with .gz; - reads ONNX from stdin")
    parser.add_argument("inputs", type=Path, help=".npy with one input per row, in the network's shape or flat")
    parser.add_argument("labels", type=Path, help=".npy with one class number per input")
    parser.add_argument(
        "--eps",
        type=distance,
        nargs="+",
        required=True,
        metavar="E",
        help="how far inputs may be moved: one or several",
    )
    parser.add_argument(
        "--norm",
        choices=list(NORMS),
        default="inf",
        help="how distances are measured (default: inf, the largest change of a value)",
    )
    parser.add_argument(
        "--range",
        type=float,
        nargs=2,
        default=(0.0, 1.0),
        metavar=("LOW", "HIGH"),
        help="what values can be (default: 0 1)",
    )
    parser.add_argument("--radius", action="store_true", help="also look for the largest radius of each input")
    parser.add_argument(
        "--timeout", type=seconds, default=60.0, metavar="S", help="seconds per input and radius (default: 60)"
    )
    parser.add_argument(
        "-j", "--jobs", type=whole(1), default=1, metavar="N", help="how many inputs at a time (default: 1)"
    )
    parser.add_argument("--first", type=whole(1), metavar="N", help="only the first N inputs")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the results; the same command again goes on where it was",
    )


def run(args: argparse.Namespace) -> int:
    network = read_network(args.network)
    inputs, labels = (np.atleast_1d(read_array(path))[: args.first] for path in (args.inputs, args.labels))
    with Bar("certifying", quiet=args.quiet) as bar:
        found = certify(
            network,
            inputs,
            labels,
            args.eps,
            norm=NORMS[args.norm],
            within=tuple(args.range),
            timeout=args.timeout,
            folder=args.output,
            jobs=args.jobs,
            radii=args.radius,
            progress=lambda done, total, result: bar.update(done, total),
        )
    files = write(found, np.asarray(inputs, np.float64).reshape(len(labels), -1), network.input_shape, args)
    head = ("radius", "inputs", "accuracy", "certified", "attacked", "open")
    shares = ("accuracy", "certified", "attacked", "open")
    rows = [
        (f"{row['eps']:g}", f"{row['inputs']:.0f}", *(f"{row[name]:.1%}" for name in shares)) for row in found.table
    ]
    show(
        args, {"table": found.table, "files": [str(file) for file in files]}, [*table([head, *rows]), *map(str, files)]
    )
    return 0 if all(result.state != "open" for result in found.results) else 1


def write(
    found: Certified, inputs: NDArray[np.float64], shape: tuple[int, ...], args: argparse.Namespace
) -> list[Path]:
    """A table for other programs, the adversarial examples, and the page."""
    folder: Path = args.output
    names = [name for name in Result.__dataclass_fields__ if name not in ("adversarial", "digest")]
    with (folder / "results.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, names, extrasaction="ignore")
        rows.writeheader()
        rows.writerows(asdict(result) for result in found.results)
    attacked = [result for result in found.results if result.adversarial]
    arrays = {f"{one.index}_{one.eps:g}": np.array(one.adversarial).reshape(shape) for one in attacked}
    np.savez_compressed(folder / "adversarial.npz", allow_pickle=False, **arrays)
    (folder / "report.html").write_text(page(found, inputs, shape, args.network.name), encoding="utf-8")
    return [folder / name for name in ("results.csv", "adversarial.npz", "report.html")]
