"""`ginnacer replay NET PROP WITNESS`: is it a counterexample on the original network?

The witness is VNN-LIB 1.0 or 2.0 text, or JSON with the inputs as x."""

import argparse
import math
from pathlib import Path

from ginnacer_verify.arrays import Array
from ginnacer_verify.commands.files import read_property
from ginnacer_verify.commands.networks import add_networks, load_all, split_files
from ginnacer_verify.commands.output import show, table
from ginnacer_verify.replay.joint import subject
from ginnacer_verify.replay.judge import Counterexample, Judge
from ginnacer_verify.replay.witness import read_witness

USAGE = "give `replay NET PROP WITNESS`, or networks by name, `replay PROP WITNESS --network N=NET ...`"

EXAMPLE = "ginnacer replay ginnacer-demo/digits.onnx ginnacer-demo/two.vnnlib witness.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "NET.onnx PROP.vnnlib WITNESS, or PROP.vnnlib WITNESS --network; - is stdin"
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help=text)
    add_networks(parser)


def run(args: argparse.Namespace) -> int:
    files, (property_file, witness) = split_files(args.files, args.network, 2, USAGE)
    prop = read_property(property_file)
    judgement = Judge(subject(load_all(files), prop), prop)(read_witness(witness, prop))
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
