"""`ginnacer compare A.onnx B.onnx`: how far are two networks apart, or do they ever choose different classes?"""

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from ginnacer_verify.box import Box
from ginnacer_verify.commands.arguments import add_seed, add_timeout, distance
from ginnacer_verify.commands.files import read_network, read_property
from ginnacer_verify.commands.output import remark, show
from ginnacer_verify.engines.compare import NORMS, Comparison, compare
from ginnacer_verify.engines.verdict import Undecided
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.replay.witness import decimal

EXAMPLE = (
    "ginnacer compare ginnacer-demo/digits.onnx ginnacer-demo/digits-int8.onnx "
    "--box ginnacer-demo/two.vnnlib --epsilon 0.5"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", type=Path, metavar="A.onnx", help="the original; - is stdin")
    parser.add_argument("second", type=Path, metavar="B.onnx", help="its quantised, pruned or retrained version")
    parser.add_argument(
        "--epsilon", type=distance, metavar="E", help="decide this bound, instead of looking for the smallest"
    )
    add_domain(parser)
    parser.add_argument(
        "--norm",
        choices=NORMS,
        default="output",
        help="output: how far an output differs (default); class: by how much A prefers a class that B does not choose",
    )
    add_timeout(parser)
    add_seed(parser)


def add_domain(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--box", type=Path, metavar="PROP", help="for all inputs in the box of a VNN-LIB property")
    where.add_argument("--domain", metavar="LO,HI", help="for all inputs between two numbers, such as 0,1")


def domain_of(args: argparse.Namespace, network: Graph) -> Box:
    """The box of inputs that is asked for."""
    if args.box:
        boxes = read_property(args.box).boxes
        if len(boxes) != 1 or boxes[0].inputs != network.inputs:
            raise InputError(f"{args.box} must have one box of {network.inputs} inputs")
        return boxes[0]
    try:
        low, high = (float(word) for word in args.domain.split(","))
    except ValueError:
        raise InputError(f"--domain takes two numbers, such as 0,1, not {args.domain}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InputError(f"--domain takes a lower and an upper end, such as 0,1, not {args.domain}")
    return Box(np.full(network.inputs, low), np.full(network.inputs, high))


def run(args: argparse.Namespace) -> int:
    first, second = read_network(args.first), read_network(args.second)
    found = compare(
        first,
        second,
        domain_of(args, first),
        args.epsilon,
        norm=args.norm,
        timeout=args.timeout,
        seed=args.seed,
        observe=lambda now: remark(args, _interval(now)),
    )
    show(args, document(found), [_sentence(found, args.epsilon), *_where(found)])
    return 1 if _open(found, args.epsilon) else 0


def _open(found: Comparison, epsilon: float | None) -> bool:
    return isinstance(found.verdict, Undecided) if epsilon is not None else not math.isfinite(found.proved)


def _interval(now: Comparison) -> str:
    return f"seen {now.seen:.6g}, proved {now.proved:.6g}"


def _sentence(found: Comparison, epsilon: float | None) -> str:
    what = "The outputs differ by" if found.norm == "output" else "Another class is chosen by a margin of"
    if epsilon is None:
        return f"{what} at most {found.proved:.6g}; the largest that was seen is {found.seen:.6g}."
    if _open(found, epsilon):
        assert isinstance(found.verdict, Undecided)
        return f"Not decided: {found.verdict.reason}."
    if math.isfinite(found.proved):
        return f"Proved: {what[0].lower()}{what[1:]} at most {epsilon:g}."
    return f"{what} more than {epsilon:g}: by {found.seen:.6g} at this input."


def _where(found: Comparison) -> list[str]:
    if found.x is None or math.isfinite(found.proved):
        return []
    return ["X", *(decimal(value) for value in found.x)]


def document(found: Comparison) -> dict[str, Any]:
    return {
        "norm": found.norm,
        "proved": found.proved if math.isfinite(found.proved) else None,
        "seen": found.seen,
        "x": None if found.x is None else found.x.tolist(),
    }
