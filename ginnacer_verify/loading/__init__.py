"""From files and modules to a Graph."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.chain import chain_of, graph_of
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.loading.agree import check_agreement
from ginnacer_verify.loading.nnet import parse_nnet
from ginnacer_verify.loading.onnx import OperatorUse, operator_uses, parse_model, read_graph
from ginnacer_verify.network import Network

if TYPE_CHECKING:
    import onnx


def load(source: "str | Path | bytes | onnx.ModelProto") -> Graph:
    """The network in an `.onnx` or `.nnet` file, possibly compressed with gzip, or in an ONNX model.

    An ONNX network is compared with onnxruntime on random points and refused if the two disagree."""
    if isinstance(source, bytes):
        return parse_onnx(_unzipped(source))
    if not isinstance(source, str | Path):
        return parse_onnx(source.SerializeToString())
    file = Path(source)
    with _named(file):
        content = _read_bytes(file)
        return graph_of(parse_nnet(content)) if _is_nnet(file) else parse_onnx(content, file.parent)


def load_chain(path: str | Path) -> Network:
    """The network in a file as a chain of ReLU layers; UnsupportedOperator if it is none."""
    file = Path(path)
    with _named(file):
        content = _read_bytes(file)
        return parse_nnet(content) if _is_nnet(file) else chain_of(parse_onnx(content, file.parent))


def operators_of(path: str | Path) -> list[OperatorUse]:
    """The ONNX operators of a network file, whether we support them or not; an NNet file has none."""
    file = Path(path)
    with _named(file):
        return [] if _is_nnet(file) else operator_uses(parse_model(_read_bytes(file), file.parent))


def parse_onnx(content: bytes, folder: Path | None = None) -> Graph:
    """The graph of an ONNX model's bytes, compared with onnxruntime."""
    graph = read_graph(parse_model(content, folder))
    check_agreement(graph)
    return graph


def _is_nnet(file: Path) -> bool:
    return file.name.removesuffix(".gz").endswith(".nnet")


def _read_bytes(file: Path) -> bytes:
    try:
        return _unzipped(file.read_bytes())
    except OSError as problem:
        raise NetworkError(f"it cannot be read: {problem.strerror or problem}") from problem


def _unzipped(content: bytes) -> bytes:
    """The bytes, decompressed if they are gzip's, whatever the file is called."""
    try:
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, zlib.error) as problem:
        raise NetworkError(f"it cannot be read: {problem}") from problem


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Put the file's name in front of what is wrong with it."""
    try:
        yield
    except NetworkError as problem:
        problem.args = (f"{file}: {problem}",)
        raise
