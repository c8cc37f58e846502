"""`ginnacer replay NET PROP WITNESS`: is it a counterexample on the original network?"""

import argparse
import math
from pathlib import Path

from ginnacer_verify.arrays import Array
from ginnacer_verify.commands.files import read_network, read_property
from ginnacer_verify.commands.output import show, table
from ginnacer_verify.replay.judge import Counterexample, Judge
from ginnacer_verify.replay.witness import read_witness


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", type=Path, help=".onnx or .nnet, also with .gz; - reads ONNX from stdin")
    parser.add_argument("property", type=Path, help=".vnnlib, also with .gz; - reads it from stdin")
    parser.add_argument("witness", type=Path, help="VNN-LIB 1.0 or 2.0 witness text, or JSON with the inputs as x")


def run(args: argparse.Namespace) -> int:
    prop = read_property(args.property)
    judgement = Judge(read_network(args.network), prop)(read_witness(args.witness, prop))
    confirmed = isinstance(judgement, Counterexample)
    reason = "" if isinstance(judgement, Counterexample) else judgement.reason
    document = {
        "verdict": "counterexample" if confirmed else "spurious",
        "reason": reason,
        "disjunct": judgement.disjunct,
        "slacks": _numbers(judgement.slacks),
        "x": judgement.x.tolist(),
        "y": _numbers(judgement.y),
    }
    strict = prop.disjuncts[judgement.disjunct].outputs.strict if prop.disjuncts else ()
    rows = [
        ("row", number, "slack", f"{slack:+.9g}", "unsafe" if slack > 0 or (slack == 0 and not open_) else "safe")
        for number, (slack, open_) in enumerate(zip(judgement.slacks, strict, strict=False))
    ]
    heading = f"{document['verdict']}{': ' + reason if reason else ''} (disjunct {judgement.disjunct})"
    show(args, document, [heading, *table(rows)])
    return 0 if confirmed else 1


def _numbers(values: Array) -> list[float | None]:
    """JSON has no name for what is not a finite number but null."""
    return [value if math.isfinite(value) else None for value in values.tolist()]
