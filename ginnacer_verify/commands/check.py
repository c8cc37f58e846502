"""`ginnacer check NET [PROP]`: what they consist of, and whether we can read them."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ginnacer_verify.bounds.deviation import deviation
from ginnacer_verify.commands.files import read_property
from ginnacer_verify.commands.output import show, table
from ginnacer_verify.engines.execution import as_executed
from ginnacer_verify.errors import GinnacerError, UnsupportedOperator
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.loading import load, operators_of
from ginnacer_verify.loading.onnx import OperatorUse
from ginnacer_verify.properties.property import Property
from ginnacer_verify.replay.judge import check_fit

EXAMPLE = "ginnacer check ginnacer-demo/digits.onnx ginnacer-demo/two.vnnlib"
BOXES = 64
"""So many boxes are looked at for how far outputs differ between real and executed arithmetic."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", type=Path, help=".onnx or .nnet, also with .gz")
    parser.add_argument("property", type=Path, nargs="?", help=".vnnlib, version 1.0 or 2.0, also with .gz")


def run(args: argparse.Namespace) -> int:
    uses = operators_of(args.network)
    try:
        network = load(args.network)
    except UnsupportedOperator:
        if not args.json:
            print("\n".join(_operator_lines(uses)))
        raise
    prop = None
    if args.property:
        prop = read_property(args.property)
        check_fit(network, prop)
    counts = {use.operator: {"count": use.count, "status": use.status} for use in uses}
    apart = _apart(network, prop) if prop else None
    document = {"operators": counts, **_network(network), **_property(prop), "float32_difference": apart}
    show(args, document, [*_operator_lines(uses), *_lines(network, prop, apart)])
    return 0


def _network(network: Graph) -> dict[str, Any]:
    return {
        "inputs": network.inputs,
        "input_shape": list(network.input_shape),
        "outputs": network.outputs,
        "output_shape": list(network.output_shape),
        "element_type": str(network.dtype),
        "parameters": network.parameters,
        "relus": network.relus,
        "functions": [{"function": name, "values": size} for name, size in network.functions],
    }


def _property(prop: Property | None) -> dict[str, Any]:
    if prop is None:
        return {"disjuncts": None, "varying_inputs": None}
    return {
        "vnnlib_version": prop.version,
        "disjuncts": len(prop.disjuncts),
        "boxes": len(prop.boxes),
        "empty_boxes": sum(box.is_empty for box in prop.boxes),
        "varying_inputs": _varying(prop),
        "input_constraints": max((len(disjunct.inputs) for disjunct in prop.disjuncts), default=0),
        "output_constraints": max((len(disjunct.outputs) for disjunct in prop.disjuncts), default=0),
    }


def _apart(network: Graph, prop: Property) -> float | None:
    """By how much an output as it is executed can differ from that of real arithmetic; None if it is not known."""
    try:
        executed, seen = as_executed(network, prop)
    except GinnacerError:
        return None
    assert isinstance(executed, Graph)
    boxes = [box for box in seen.boxes if not box.is_empty and np.isfinite([box.lower, box.upper]).all()]
    most = max((float(deviation(executed, box).max()) for box in boxes[:BOXES]), default=0.0)
    return most if len(boxes) <= BOXES and np.isfinite(most) else None


def _varying(prop: Property) -> int:
    """How many inputs vary in the box where most of them do."""
    return max((len(box.varying) for box in prop.boxes), default=0)


def _difference(apart: float | None) -> str:
    """A sentence about both arithmetics."""
    if apart is None:
        return "no bound is known for how far outputs differ from real arithmetic"
    return f"outputs differ from real arithmetic by at most {apart:.2g}"


def _operator_lines(uses: list[OperatorUse]) -> list[str]:
    return table([("operator", use.operator, f"x{use.count}", use.status) for use in uses])


def _lines(network: Graph, prop: Property | None, apart: float | None) -> list[str]:
    rows: list[tuple[str, object]] = [
        ("inputs", f"{network.inputs} {list(network.input_shape)} {network.dtype}"),
        ("outputs", f"{network.outputs} {list(network.output_shape)}"),
        ("parameters", network.parameters),
        ("ReLUs", network.relus),
        ("functions", ", ".join(f"{name} {size}" for name, size in network.functions) or "none"),
    ]
    if prop:
        empty = sum(box.is_empty for box in prop.boxes)
        remark = f", {empty} of them empty: nothing is unsafe there" if empty else ""
        rows += [
            ("property", f"VNN-LIB {prop.version}"),
            ("disjuncts", len(prop.disjuncts)),
            ("input boxes", f"{len(prop.boxes)}{remark}"),
            ("varying inputs", f"{_varying(prop)} of {prop.inputs}"),
            (f"{network.precision or 'executed'}", _difference(apart)),
        ]
    return table(rows)
