"""`ginnacer robust NET INPUTS LABELS --eps E -o DIR`: certified accuracy of a data set, with a page about it."""

import argparse
import csv
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.commands.bar import Bar
from ginnacer_verify.commands.files import read_network
from ginnacer_verify.commands.output import show, table, whole
from ginnacer_verify.commands.verify import seconds
from ginnacer_verify.errors import InputError
from ginnacer_verify.properties.build import Norm
from ginnacer_verify.robust.certify import Certified, Result, certify
from ginnacer_verify.robust.page import page

NORMS: dict[str, Norm] = {"inf": "inf", "2": 2, "1": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", type=Path, help=".onnx or .nnet, also with .gz; - reads ONNX from stdin")
    parser.add_argument("inputs", type=Path, help=".npy with one input per entry, in the network's shape or flat")
    parser.add_argument("labels", type=Path, help=".npy with one class number per input")
    parser.add_argument("--eps", type=float, nargs="+", required=True, metavar="E", help="one radius or several")
    parser.add_argument(
        "--norm", choices=list(NORMS), default="inf", help="of distances (default: inf, the largest change)"
    )
    parser.add_argument(
        "--range", type=float, nargs=2, default=(0.0, 1.0), metavar=("LOW", "HIGH"), help="of input values"
    )
    parser.add_argument("--radius", action="store_true", help="also narrow the largest radius of each input")
    parser.add_argument(
        "--timeout", type=seconds, default=60.0, metavar="S", help="per input and radius (default: 60 s)"
    )
    parser.add_argument("-j", "--jobs", type=whole(1), default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--first", type=whole(1), metavar="N", help="only the first N inputs")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="for results; a second run resumes"
    )


def run(args: argparse.Namespace) -> int:
    network = read_network(args.network)
    inputs, labels = (_array(path)[: args.first] for path in (args.inputs, args.labels))
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


def _array(path: Path) -> NDArray[np.float64]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as problem:
        raise InputError(f"{path} holds no array: {problem}; save it with numpy.save") from problem
