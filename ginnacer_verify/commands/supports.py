"""`ginnacer supports --CAPABILITY`: what we can do, in the words of the VNN-LIB standard's solver interface.

One value per line. Versions are the oldest and the newest; `real * ...` marks partial support with its reason."""

import argparse

from ginnacer_verify.commands.output import show
from ginnacer_verify.errors import InputError
from ginnacer_verify.loading.operators import CONSTANT, OPERATORS

REAL = "proofs are in real arithmetic on the network's weights, counterexamples are replayed in its own type"
EXPLAINED = {
    "onnx-opset-versions": "oldest and newest versions of ONNX operators",
    "onnx-element-types": "types of numbers, and what is proved about each",
    "onnx-operators": "operators of networks",
    "vnnlib-versions": "versions of the property language",
    "hidden-node-theories": "whether properties may mention hidden values",
    "multiple-input-output-theories": "whether networks may have several inputs or outputs",
    "multiple-network-theories": "whether properties may mention several networks",
    "multiple-node-comparison-theories": "whether one comparison may mention several variables",
    "arithmetic-complexity-theories": "which arithmetic is allowed: bounds, linear, polynomial",
    "optimised-disjunctive-reasoning": "whether disjunctions are decided together",
    "serialise-assignments": "whether a partial run can be saved",
}
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

EXAMPLE = "ginnacer supports --onnx-operators"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name in CAPABILITIES:
        parser.add_argument(f"--{name}", action="append_const", dest="asked", const=name, help=EXPLAINED[name])


def run(args: argparse.Namespace) -> int:
    if not args.asked:
        raise InputError(f"ask for one of: {', '.join('--' + name for name in CAPABILITIES)}")
    answers = {name: list(CAPABILITIES[name]) for name in args.asked}
    show(args, answers, [value for values in answers.values() for value in values])
    return 0
