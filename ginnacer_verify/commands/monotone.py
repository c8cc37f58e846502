"""`ginnacer monotone NET --input I --output J`: does an output never fall, or never rise, while one input rises?"""

import argparse
from pathlib import Path

from ginnacer_verify.commands.arguments import add_seed, add_timeout, whole
from ginnacer_verify.commands.compare import add_domain, domain_of
from ginnacer_verify.commands.files import read_network
from ginnacer_verify.commands.output import remark, show
from ginnacer_verify.commands.verify import document
from ginnacer_verify.engines.slopes import DIRECTIONS, Question, monotone, monotonicity
from ginnacer_verify.engines.verdict import Undecided, Violated
from ginnacer_verify.replay.witness import witness_text

EXAMPLE = "ginnacer monotone ginnacer-demo/advisory.onnx --input 0 --output 0 --domain=-0.5,0.5 --timeout 20"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", type=Path, help=".onnx or .nnet, also with .gz; - reads ONNX from stdin")
    parser.add_argument(
        "--input", type=whole(0), required=True, metavar="I", help="the input that rises, counted from 0"
    )
    parser.add_argument("--output", type=whole(0), required=True, metavar="J", help="the output, counted from 0")
    parser.add_argument(
        "--direction",
        choices=DIRECTIONS,
        default="up",
        help="which way the output may move: up (never fall, default) or down",
    )
    add_domain(parser)
    add_timeout(parser)
    add_seed(parser)


def run(args: argparse.Namespace) -> int:
    network = read_network(args.network)
    box = domain_of(args, network)
    verdict = monotone(
        network,
        box,
        input=args.input,
        output=args.output,
        direction=args.direction,
        timeout=args.timeout,
        seed=args.seed,
    )
    lines = [verdict.word]
    if isinstance(verdict, Violated):
        prop = monotonicity(network, Question(box, args.input, args.output, 1))
        lines.append(witness_text(prop, verdict.counterexample.x, verdict.counterexample.y).rstrip("\n"))
    show(args, document(verdict), lines)
    if isinstance(verdict, Undecided):
        remark(args, verdict.reason)
    remark(args, f"{verdict.statistics.seconds:.2f} s, {verdict.statistics.boxes} boxes")
    return 1 if isinstance(verdict, Undecided) else 0
