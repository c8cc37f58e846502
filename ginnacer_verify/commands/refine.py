"""`ginnacer refine abstract.npz --witness W -o DIR`: split what a spurious witness exploits, and write the next files.

With any verifier that reads the pair `abstract.onnx` and `abstract.vnnlib`, a shell loop around this is a
counterexample-guided refinement: see docs/cegar.md.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.abstraction.npz import load_both
from ginnacer_verify.arrays import Array
from ginnacer_verify.commands.arguments import add_seed, whole
from ginnacer_verify.commands.emitted import add_emit_argument, write
from ginnacer_verify.commands.files import read_property
from ginnacer_verify.commands.output import remark, show
from ginnacer_verify.engines.refinement.abstracted import Situation
from ginnacer_verify.engines.refinement.paper import REFINEMENTS, Paper
from ginnacer_verify.engines.refinement.sharing import Split, splits
from ginnacer_verify.errors import InputError
from ginnacer_verify.properties.property import Property
from ginnacer_verify.replay.judge import Counterexample, Judge
from ginnacer_verify.replay.witness import read_witness

FEW_DIGITS = 1e-5
"""Tools print inputs with few digits: so far beyond a box counts as inside, relatively."""
WAYS = tuple(name for name in REFINEMENTS if name != "bisect")

EXAMPLE = "ginnacer refine abstract/abstract.npz --witness witness.txt -o next"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("abstraction", type=Path, metavar="abstract.npz", help="what `abstract` or `refine` saved")
    parser.add_argument(
        "--witness", type=Path, required=True, metavar="FILE", help="what a tool calls a counterexample of the pair"
    )
    parser.add_argument(
        "--property", type=Path, metavar="PROP", help=".vnnlib (default: what was saved with the abstraction)"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the next files")
    parser.add_argument("--refine", choices=WAYS, default="split", help="what to split (default: split)")
    parser.add_argument(
        "--per-round", type=whole(1), default=8, metavar="N", help="how many neurons or subsets (default: 8)"
    )
    add_seed(parser, "for --refine random")
    add_emit_argument(parser)


def run(args: argparse.Namespace) -> int:
    abstraction, saved = load_both(args.abstraction)
    prop = read_property(args.property) if args.property else saved
    if prop is None:
        raise InputError(f"{args.abstraction} was saved without a property: give --property PROP")
    x = read_witness(args.witness, prop)
    if isinstance(judgement := Judge(abstraction.network, prop)(x), Counterexample):
        show(args, {"verdict": "counterexample", "disjunct": judgement.disjunct}, ["counterexample"])
        remark(args, "The witness is a counterexample of the network itself: there is nothing to refine.")
        return 1
    now = exploited_by(abstraction, prop, x)
    base = now.query.base
    z = np.concatenate([now.box.clip(x)[base.varying], np.zeros(len(base.relus))])
    finer = REFINEMENTS[args.refine](Situation(now, z, args.per_round, np.random.default_rng(args.seed)))
    if finer is now or not isinstance(finer, Paper):
        show(args, {"verdict": "exact", "split": []}, ["exact"])
        remark(args, "Every neuron has its own ReLU already: the abstract network is the network.")
        return 1
    done = splits(now.sharing, finer.sharing)
    files = write(finer.abstraction, prop, args.output, args.emit)
    document: dict[str, Any] = {
        "verdict": "refined",
        "relus_per_layer": finer.abstraction.relus_per_layer,
        "split": [{"layer": one.layer + 1, "from": one.neurons, "into": one.into} for one in done],
        "files": [str(file) for file in files],
    }
    show(args, document, [*(_line(one) for one in done), finer.abstraction.describe(), *document["files"]])
    return 0


def exploited_by(abstraction: Abstraction, prop: Property, x: Array) -> Paper:
    """The abstraction with the disjunct that the witness comes nearest to in it."""
    boxes = [disjunct.box for disjunct in prop.disjuncts]
    near = [np.abs(box.clip(x) - x).max(initial=0.0) <= FEW_DIGITS * (1 + np.abs(x).max(initial=0.0)) for box in boxes]
    if not any(near):
        raise InputError("the witness lies in no box of the property")
    inside = [disjunct for disjunct, here in zip(prop.disjuncts, near, strict=True) if here]
    candidates = [Paper.of(abstraction, disjunct, disjunct.box) for disjunct in inside]
    return min(candidates, key=lambda one: float(one.emitted.graph(one.box.clip(x)).max()))


def _line(one: Split) -> str:
    into = " and ".join(str(list(part)) for part in one.into)
    return f"layer {one.layer + 1}: {list(one.neurons)} into {into}"
