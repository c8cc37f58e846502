"""From files and modules to a Graph."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import NetworkError, plainly
from ginnacer_verify.graph.chain import chain_of, graph_of
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading.agree import check_agreement
from ginnacer_verify.loading.nnet import parse_nnet
from ginnacer_verify.loading.onnx import OperatorUse, operator_uses, parse_model, read_graph
from ginnacer_verify.loading.unpack import Damaged, TooLarge, unpacked

if TYPE_CHECKING:
    import onnx


def load(source: "str | Path | bytes | onnx.ModelProto", *, deadline: Deadline = FOREVER) -> Graph:
    """The network in an `.onnx` or `.nnet` file, possibly compressed with gzip, or in an ONNX model.

    An ONNX network is compared with onnxruntime on random points and refused if the two disagree.

    Args:
        source: A file, the bytes of one, or an `onnx.ModelProto`.
        deadline: Raises OutOfTime when it passes.
    """
    if isinstance(source, bytes):
        return parse_onnx(_unzipped(source, deadline), deadline=deadline)
    if not isinstance(source, str | Path):
        return parse_onnx(source.SerializeToString(), deadline=deadline)
    file = Path(source)
    with _named(file):
        content = _read_bytes(file, deadline)
        return graph_of(parse_nnet(content)) if _is_nnet(file) else parse_onnx(content, file.parent, deadline)


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


def parse_onnx(content: bytes, folder: Path | None = None, deadline: Deadline = FOREVER) -> Graph:
    """The graph of an ONNX model's bytes, compared with onnxruntime."""
    graph = read_graph(parse_model(content, folder), deadline, content)
    check_agreement(graph, deadline=deadline)
    return graph


def _is_nnet(file: Path) -> bool:
    return file.name.removesuffix(".gz").endswith(".nnet")


def _read_bytes(file: Path, deadline: Deadline = FOREVER) -> bytes:
    try:
        return _unzipped(file.read_bytes(), deadline)
    except OSError as problem:
        raise NetworkError(plainly(problem)) from problem


def _unzipped(content: bytes, deadline: Deadline = FOREVER) -> bytes:
    try:
        return unpacked(content, deadline)
    except Damaged as problem:
        raise NetworkError(f"damaged gzip data: {problem}") from problem
    except TooLarge as problem:
        raise NetworkError(str(problem)) from problem


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Put the file's name in front of what is wrong with it."""
    try:
        yield
    except NetworkError as problem:
        problem.args = (f"{file}: {problem}",)
        raise
