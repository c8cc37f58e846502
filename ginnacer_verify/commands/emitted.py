"""The files that `abstract` and `refine` write."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.abstraction.npz import save
from ginnacer_verify.abstraction.tight.tight import TightAbstraction
from ginnacer_verify.emit.abstraction import LARGEST, abstraction_model, onnx_bytes
from ginnacer_verify.emit.marabou import contradiction, save_ipq
from ginnacer_verify.emit.milp import to_mps
from ginnacer_verify.emit.pair import abstract_rows, rows_property
from ginnacer_verify.emit.tight import tight_model
from ginnacer_verify.emit.vnnlib import abstract_property
from ginnacer_verify.engines.refinement.paper import Paper
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.write import to_vnnlib

KINDS = ("npz", "onnx", "vnnlib", "ipq", "mps")


def add_emit_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--emit",
        type=kinds,
        metavar="KIND,...",
        help=f"which files to write, of {', '.join(KINDS)}; ipq and mps are queries for Marabou and for MILP solvers; "
        "they and vnnlib need a property (default: npz, onnx, and vnnlib if there is one)",
    )


def kinds(text: str) -> tuple[str, ...]:
    """The kinds of files that `--emit` names."""
    chosen = tuple(dict.fromkeys(text.split(",")))
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of {', '.join(KINDS)}")
    return chosen


def write(
    abstraction: Abstraction, prop: Property | None, folder: Path, chosen: Sequence[str] | None = None
) -> list[Path]:
    """The files, in a folder that is made if need be; unless asked for, no ONNX where it would be too large.

    With a property the model's outputs are lower bounds of the property's rows; without one they are the bounds of the
    network's outputs."""
    wanted = _wanted(abstraction, prop, chosen, KINDS)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"abstract.{kind}" for kind in wanted if kind in {"npz", "vnnlib", "onnx"}]
    for file in files:
        match file.suffix:
            case ".npz":
                save(abstraction, file, prop)
            case ".vnnlib":
                assert prop is not None
                file.write_text(to_vnnlib(rows_property(prop)), encoding="utf-8")
            case ".onnx":
                rows = None if prop is None else abstract_rows(abstraction, prop)
                file.write_bytes(abstraction_model(abstraction, rows=rows))
    return [*files, *_write_queries(abstraction, prop, folder, {"ipq", "mps"} & set(wanted))]


def write_tight(
    abstraction: TightAbstraction, prop: Property | None, folder: Path, chosen: Sequence[str] | None = None
) -> list[Path]:
    """The pair of a tight form, over bounds of the network's outputs."""
    wanted = _wanted(abstraction, prop, chosen, ("onnx", "vnnlib"))
    folder.mkdir(parents=True, exist_ok=True)
    if "vnnlib" in wanted:
        assert prop is not None
        text = to_vnnlib(abstract_property(prop, abstraction))
        (folder / "abstract.vnnlib").write_text(text, encoding="utf-8")
    if "onnx" in wanted:
        (folder / "abstract.onnx").write_bytes(tight_model(abstraction))
    return [folder / f"abstract.{kind}" for kind in wanted]


def _wanted(
    abstraction: Abstraction | TightAbstraction,
    prop: Property | None,
    chosen: Sequence[str] | None,
    possible: Sequence[str],
) -> list[str]:
    """The kinds of files that were chosen, or the usual ones."""
    small = onnx_bytes(abstraction, abstraction.network.dtype) <= LARGEST
    usual = ("npz", *(["vnnlib"] if prop is not None else []), *(["onnx"] if small else []))
    wanted = list(chosen or (kind for kind in usual if kind in possible))
    if impossible := [kind for kind in wanted if kind not in possible]:
        raise AbstractionError(f"{', '.join(impossible)} cannot be written of this form: choose --form paper")
    if prop is None and (lacking := [kind for kind in wanted if kind in {"vnnlib", "ipq", "mps"}]):
        raise AbstractionError(f"{', '.join(lacking)} needs a property: give --property PROP")
    return wanted


def _write_queries(abstraction: Abstraction, prop: Property | None, folder: Path, wanted: set[str]) -> Iterator[Path]:
    """A query for each disjunct, numbered if there are several; but none that Marabou cannot be told and need not be
    asked, because one of its rows is constant and not met."""
    for number, disjunct in enumerate(prop.disjuncts if prop is not None and wanted else ()):
        assert prop is not None
        if disjunct.box.is_empty:
            continue
        query = Paper.of(abstraction, disjunct, disjunct.box).query
        stem = "abstract" if len(prop.disjuncts) == 1 else f"abstract.{number}"
        if "mps" in wanted:
            (folder / f"{stem}.mps").write_text(to_mps(query))
            yield folder / f"{stem}.mps"
        if "ipq" in wanted and not contradiction(query):
            save_ipq(query, folder / f"{stem}.ipq")
            yield folder / f"{stem}.ipq"
