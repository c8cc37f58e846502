"""What the fuzzers feed (`benchmarks/fuzz.py`): any bytes give a value or an error of ours."""

import json
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path

from operator_cases import CASES

from ginnacer_check.check import check
from ginnacer_check.network import Unreadable
from ginnacer_check.proof import Refused
from ginnacer_verify.bench.report import page, read_folders
from ginnacer_verify.bench.results import JOURNAL
from ginnacer_verify.bench.tools import read_tools
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import GinnacerError
from ginnacer_verify.loading import load
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.replay.witness import parse_witness

ROOT = Path(__file__).resolve().parent.parent
CORPUS = Path(__file__).resolve().parent / "corpus"
ADVISORY = ROOT / "vnnlib" / "advisory"
NETWORK, PROPERTY = ADVISORY / "advisory_15x3.onnx", ADVISORY / "prop_03.vnnlib"
SECONDS = 5
"""More than any file of a few kilobytes may take."""


def vnnlib(data: bytes) -> None:
    """Both versions: the text says which it is."""
    with suppress(GinnacerError):
        read_vnnlib(data, deadline=Deadline.after(SECONDS))


def onnx(data: bytes) -> None:
    with suppress(GinnacerError):
        load(data, deadline=Deadline.after(SECONDS))


def witness(data: bytes) -> None:
    with suppress(GinnacerError):
        parse_witness(data.decode(errors="replace"), read_vnnlib(PROPERTY))


def certificate(data: bytes) -> None:
    with suppress(Refused, Unreadable):
        check(NETWORK.read_bytes(), PROPERTY.read_bytes(), BytesIO(data))


def records(data: bytes) -> None:
    """What a certificate holds when it is unpacked."""
    *head, _ = _proof()
    certificate(b"".join(head) + zlib.compress(data))


def checked_network(data: bytes) -> None:
    with suppress(Refused, Unreadable):
        check(data, PROPERTY.read_bytes(), BytesIO(b"".join(_proof()[:2])))


def checked_property(data: bytes) -> None:
    with suppress(Refused, Unreadable):
        check(NETWORK.read_bytes(), data, BytesIO(b"".join(_proof()[:2])))


@cache
def _proof() -> tuple[bytes, bytes, bytes]:
    """The first line of a certificate, its second, and what follows."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "proof.gcert"
        verify(NETWORK, PROPERTY, certificate=file)
        first, second, rest = file.read_bytes().split(b"\n", 2)
    return first + b"\n", second + b"\n", rest


def toml(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file, suppress(GinnacerError):
        Path(file.name).write_bytes(data)
        read_tools(Path(file.name))


def results(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, suppress(GinnacerError):
        (Path(folder) / JOURNAL).write_bytes(data)
        page(read_folders([Path(folder)]), title="results")


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (vnnlib, onnx, witness, certificate, records, checked_network, checked_property, toml, results)
}
TOML = b'[tool]\ncommand = "tool {network} {property} {timeout}"\nverdict = "(sat|unsat)"\nwords = {a = "sat"}\n'
RESULT = {
    **{
        "category": "",
        "network": "n.onnx",
        "property": "p.vnnlib",
        "tool": "ginnacer",
        "verdict": "sat",
        "seconds": 1.5,
    },
    **{"timeout": 60.0, "expected": "sat", "trace": [{"moment": "Progress", "boxes": 3, "seconds": 0.5}]},
    "details": {"counterexample": {"x": [0.5], "y": [1.0]}, "relus": {"total": 3, "unstable": 1, "kept": 0}},
}


def seeds(target: str) -> Iterator[bytes]:
    """What a fuzzer of the target begins with: what is well-formed, and what was found before."""
    match target:
        case "vnnlib" | "checked_property":
            files = [
                *sorted((ROOT / "vnnlib").glob("*/prop_*.vnnlib")),
                *sorted((ROOT / "vnnlib/twins").glob("*.vnnlib")),
            ]
            yield from (path.read_bytes() for path in files[:40] if path.stat().st_size < 20_000)
        case "onnx" | "checked_network":
            yield NETWORK.read_bytes()
            yield from (build() for build in CASES.values())
        case "witness":
            yield from (b"sat\n((X_0 0.1)\n(X_1 0.2))", b'{"x": [0.1, 0.2]}', b"X Real [1,5]\n0.1\n0.2\n")
        case "certificate":
            yield b"".join(_proof())
        case "records":
            yield zlib.decompress(_proof()[2])
        case "toml":
            yield TOML
        case "results":
            yield json.dumps(RESULT).encode() + b"\n"
    yield from (path.read_bytes() for path in found(target))


def found(target: str) -> list[Path]:
    return sorted((CORPUS / target).glob("*"))
