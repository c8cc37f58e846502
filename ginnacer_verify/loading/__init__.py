"""From files and modules to a Network."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ginnacer_verify.errors import NetworkError
from ginnacer_verify.loading.agree import check_agreement
from ginnacer_verify.loading.graph import OperatorUse, operator_uses, parse_model, read_graph
from ginnacer_verify.loading.nnet import parse_nnet
from ginnacer_verify.network import Network


def load(path: str | Path) -> Network:
    """The network in an `.onnx` or `.nnet` file, possibly compressed with gzip.

    An ONNX network is compared with onnxruntime on 1000 random points and refused if the two disagree."""
    file = Path(path)
    with _named(file):
        content = _read_bytes(file)
        return parse_nnet(content) if _is_nnet(file) else parse_onnx(content, file.parent)


def operators_of(path: str | Path) -> list[OperatorUse]:
    """The ONNX operators of a network file, whether we support them or not; an NNet file has none."""
    file = Path(path)
    with _named(file):
        return [] if _is_nnet(file) else operator_uses(parse_model(_read_bytes(file), file.parent))


def parse_onnx(content: bytes, folder: Path | None = None) -> Network:
    """The network of an ONNX model's bytes, compared with onnxruntime."""
    network = read_graph(parse_model(content, folder))
    check_agreement(network)
    return network


def _is_nnet(file: Path) -> bool:
    return file.name.removesuffix(".gz").endswith(".nnet")


def _read_bytes(file: Path) -> bytes:
    """The bytes of a file, decompressed if they are gzip's, whatever the file is called."""
    try:
        content = file.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else problem
        raise NetworkError(f"it cannot be read: {reason}") from problem


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Put the file's name in front of what is wrong with it."""
    try:
        yield
    except NetworkError as problem:
        problem.args = (f"{file}: {problem}",)
        raise
