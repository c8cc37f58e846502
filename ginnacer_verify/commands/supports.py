"""`ginnacer supports --CAPABILITY`: what we can do, in the words of the VNN-LIB standard's solver interface.

One value per line. Versions are the oldest and the newest; `real * ...` marks partial support with its reason."""

import argparse

from ginnacer_verify.commands.output import show
from ginnacer_verify.errors import InputError
from ginnacer_verify.loading.operators import CONSTANT, OPERATORS

REAL = "proofs are in real arithmetic on the network's weights, counterexamples are replayed in its own type"
CAPABILITIES: dict[str, tuple[str, ...]] = {
    "onnx-opset-versions": ("7", "21"),
    "onnx-element-types": ("real", f"float32 * {REAL}", f"float64 * {REAL}"),
    "onnx-operators": tuple(sorted({*OPERATORS, *CONSTANT})),
    "vnnlib-versions": ("1.0", "2.0"),
    "hidden-node-theories": ("NH",),
    "multiple-input-output-theories": ("SIO",),
    "multiple-network-theories": ("SNET", "MENET", "MINET", "MNET"),
    "multiple-node-comparison-theories": ("SNC", "MNC"),
    "arithmetic-complexity-theories": ("BND", "OUTC", "LIN", "POLY"),
    "optimised-disjunctive-reasoning": ("true",),
    "serialise-assignments": ("false",),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in CAPABILITIES:
        parser.add_argument(f"--{name}", action="append_const", dest="asked", const=name)


def run(args: argparse.Namespace) -> int:
    if not args.asked:
        raise InputError(f"ask for one of: {', '.join('--' + name for name in CAPABILITIES)}")
    answers = {name: list(CAPABILITIES[name]) for name in args.asked}
    show(args, answers, [value for values in answers.values() for value in values])
    return 0
