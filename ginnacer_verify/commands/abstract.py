"""`ginnacer abstract NET -o DIR`: write the abstraction for other tools, and print how many ReLUs it has."""

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.abstraction.inputs import Mode
from ginnacer_verify.abstraction.partitioning import strategies
from ginnacer_verify.abstraction.partitioning.strategies import Strategy, strategy_names
from ginnacer_verify.abstraction.tight.tight import TightAbstraction, tight_abstraction
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.commands.arguments import add_seed
from ginnacer_verify.commands.bar import Bar
from ginnacer_verify.commands.emitted import add_emit_argument, write, write_tight
from ginnacer_verify.commands.files import content, read_array
from ginnacer_verify.commands.output import remark, show
from ginnacer_verify.errors import AbstractionError, plainly
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.replay.judge import check_fit

EXAMPLE = "ginnacer abstract ginnacer-demo/digits.onnx --centroid box ginnacer-demo/seven.vnnlib -o abstract"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_abstraction_arguments(parser)
    parser.add_argument(
        "--form",
        choices=("paper", "tight"),
        default="paper",
        help="paper, or tight: linear forms instead of intervals, with as many ReLUs (default: paper)",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the files")
    add_emit_argument(parser)
    text = (
        "prove that abstract.onnx contains the network: containment.gcert and .vnnlib in the folder, for ginnacer-check"
    )
    parser.add_argument("--certificate", action="store_true", help=text)


def add_abstraction_arguments(parser: argparse.ArgumentParser) -> None:
    """What an abstraction is built from, here and in `ginnacer margins`."""
    parser.add_argument("network", type=Path, help=".onnx or .nnet, also with .gz")
    parser.add_argument(
        "--property",
        type=Path,
        metavar="PROP",
        help="the middle of its box is the centroid, unless --centroid says otherwise",
    )
    parser.add_argument(
        "--centroid",
        nargs="+",
        metavar=("FILE|zeros|box", "PROP"),
        help="where it is exact: a .npy, .csv or .txt file, the origin, or `box PROP`, the middle of a property's box",
    )
    add_seed(parser, "for --strategy random")
    add_partition_arguments(parser)


def add_partition_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Who shares a ReLU with whom, here and in `ginnacer verify`."""
    parser.add_argument(
        "--strategy",
        default="first-fit",
        metavar="NAME",
        help=f"which neurons share a ReLU: {', '.join(strategy_names())}, budget=K or budget=K1,K2,... for so many "
        "ReLUs per layer (default: first-fit)",
    )
    parser.add_argument(
        "--layers",
        default="all",
        metavar="WHICH",
        help="which layers to abstract, from 1: all, 2-, 1-3 or 1,4 (default: all)",
    )
    parser.add_argument(
        "--inputs",
        choices=[mode for mode in get_args(Mode) if mode != "as-is"],
        help="how layer 1 copes with negative inputs (default: nonnegative where there are none, else pre-layer)",
    )
    parser.add_argument(
        "--clip", action="store_true", help="also use that ReLUs are never negative: tighter, with more ReLUs"
    )


def run(args: argparse.Namespace) -> int:
    network, prop = load_chain(args.network), read_property(args)
    start = time.perf_counter()
    paper = build(args, network, prop)
    abstraction = as_tight(args, paper) if args.form == "tight" else paper
    seconds = time.perf_counter() - start
    if isinstance(abstraction, Abstraction):
        files = write(abstraction, prop, args.output, args.emit)
    else:
        files = write_tight(abstraction, prop, args.output, args.emit)
    if not args.emit and not any(file.suffix == ".onnx" for file in files):
        remark(args, "no abstract.onnx: the abstraction is too large for an ONNX file")
    if args.certificate:
        files += _certified(args, abstraction, prop)
    document = {
        "form": args.form,
        "relus_per_layer": {"original": network.relus_per_layer, "abstract": abstraction.relus_per_layer},
        "pre_layer_relus": paper.entry.relus if isinstance(abstraction, Abstraction) else abstraction.pre_layer,
        "clip_relus": sum(paper.clips_per_layer),
        "inputs": paper.entry.mode if isinstance(abstraction, Abstraction) else "centred",
        "strategy": args.strategy,
        "seconds": seconds,
        "files": [str(file) for file in files],
    }
    show(args, document, [abstraction.describe(), f"{seconds:.3g} s", *document["files"]])
    return 0


def _certified(
    args: argparse.Namespace, abstraction: Abstraction | TightAbstraction, prop: Property | None
) -> list[Path]:
    """The proof that the ONNX file contains the network, and the property that it proves."""
    from ginnacer_verify.certificate.containment import certify_abstraction

    if not isinstance(abstraction, Abstraction):
        raise AbstractionError("there are certificates of --form paper only")
    model = args.output / "abstract.onnx"
    if not model.exists():
        raise AbstractionError("there is no abstract.onnx to certify: name onnx in --emit")
    written = certify_abstraction(abstraction, prop, content(args.network), model.read_bytes(), args.output)
    if written.path is None:
        remark(args, written.reason)
        return []
    return [written.path, written.path.with_suffix(".vnnlib")]


def as_tight(args: argparse.Namespace, paper: Abstraction) -> TightAbstraction:
    """The tight form with as many ReLUs per layer as the strategy gives the paper's."""
    if args.clip or args.inputs or len(paper.partitions) < len(paper.layers):
        raise AbstractionError("--form tight has no --clip, --inputs or --layers; --strategy gives the ReLUs per layer")
    return tight_abstraction(paper.network, paper.centroid, paper.relus_per_layer)


def read_property(args: argparse.Namespace) -> Property | None:
    """The property that --property or `--centroid box PROP` names."""
    match args.centroid, args.property:
        case ["box", file], None:
            return read_vnnlib(file)
        case (None | [_], None):
            return None
        case (None | [_], file):
            return read_vnnlib(file)
        case _:
            raise AbstractionError("--centroid takes a file, `zeros` or `box PROP`; put the network before it")


def build(args: argparse.Namespace, network: Network, prop: Property | None) -> Abstraction:
    """The abstraction that the arguments ask for, with a bar for what takes long."""
    if prop is not None:
        check_fit(network, prop)
    layers = parse_layers(args.layers, len(network.layers) - 1)
    with Bar("abstracting", quiet=args.quiet) as bar:
        return abstract(
            network,
            read_centroid(args.centroid[0] if args.centroid else None, network, prop),
            strategy=parse_strategy(args.strategy, args.seed),
            layers=layers,
            inputs=args.inputs,
            box=None if prop is None else hull(prop),
            clip=args.clip,
            progress=bar.update,
        )


def read_centroid(text: str | None, network: Network, prop: Property | None) -> Array:
    if text == "zeros" or (text is None and prop is None):
        return np.zeros(network.inputs)
    if text in (None, "box"):
        if prop is None or not prop.boxes:
            raise AbstractionError("--centroid box needs a property with an input box: write --centroid box PROP")
        return prop.boxes[0].middle
    path = Path(str(text))
    if path.suffix == ".npy":
        return np.asarray(read_array(path), dtype=np.float64)
    try:
        return np.asarray(np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None), dtype=np.float64)
    except OSError as problem:
        raise AbstractionError(f"the centroid {path} cannot be read: {plainly(problem)}") from problem
    except ValueError as problem:
        raise AbstractionError(f"the centroid {path} is not a list of numbers: {problem}") from problem


def hull(prop: Property) -> Box | None:
    """The smallest box around all boxes of the property."""
    boxes = [box for box in prop.boxes if not box.is_empty]
    if not boxes:
        return None
    return Box(np.min([box.lower for box in boxes], axis=0), np.max([box.upper for box in boxes], axis=0))


def parse_strategy(text: str, seed: int) -> Strategy | Sequence[Strategy]:
    if text.startswith("budget="):
        try:
            counts = [int(count) for count in text.removeprefix("budget=").split(",")]
        except ValueError:
            raise AbstractionError(f"{text!r} is not a budget; write budget=20 or budget=14,38,39") from None
        return strategies.budget(counts[0]) if len(counts) == 1 else [strategies.budget(count) for count in counts]
    return partial(strategies.random, seed=seed) if text == "random" else strategies.named(text)


def parse_layers(text: str, hidden: int) -> list[int] | None:
    """`all`, or numbers and ranges from 1; an open range ends at the last layer."""
    if text == "all":
        return None
    try:
        chosen: list[int] = []
        for part in text.split(","):
            first, dash, last = part.partition("-")
            chosen += range(int(first), int(last or hidden) + 1) if dash else [int(first)]
        return chosen
    except ValueError:
        raise AbstractionError(f"{text!r} names no layers; write all, 2-, 1-3 or 1,4") from None
