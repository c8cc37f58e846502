"""What the fuzzers feed (`benchmarks/fuzz.py`): any bytes give a value or an error of ours."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from ginnacer_check.check import check
from ginnacer_check.network import Unreadable
from ginnacer_check.proof import Refused
from ginnacer_verify.bench.tools import read_tools
from ginnacer_verify.deadline import Deadline
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


def toml(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file, suppress(GinnacerError):
        Path(file.name).write_bytes(data)
        read_tools(Path(file.name))


TARGETS: dict[str, Callable[[bytes], None]] = {one.__name__: one for one in (vnnlib, onnx, witness, certificate, toml)}


def seeds(target: str) -> Iterator[bytes]:
    """What a fuzzer of the target begins with: files of ours that are well-formed, and what was found before."""
    for pattern in {"vnnlib": ("*/prop_*.vnnlib",), "onnx": ("advisory/advisory_15x3.onnx",)}.get(target, ()):
        yield from (path.read_bytes() for path in sorted((ROOT / "vnnlib").glob(pattern))[:20])
    if target == "witness":
        yield from (b"sat\n((X_0 0.1)\n(X_1 0.2))", b'{"x": [0.1, 0.2]}', b"X Real [1,5]\n0.1\n0.2\n")
    if target == "toml":
        yield b'[tool]\ncommand = "tool {network} {property} {timeout}"\nverdict = "(sat|unsat)"\nwords = {a = "sat"}\n'
    yield from (path.read_bytes() for path in found(target))


def found(target: str) -> list[Path]:
    return sorted((CORPUS / target).glob("*"))
