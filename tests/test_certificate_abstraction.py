"""Proofs that an emitted abstraction contains its network: accepted for what was emitted, refused for anything less."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import Graph
from onnx import numpy_helper

from ginnacer_check.check import check
from ginnacer_check.proof import Refused
from ginnacer_verify import load
from ginnacer_verify.abstraction.abstraction import abstract
from ginnacer_verify.box import Box
from ginnacer_verify.certificate.containment import contain, containment
from ginnacer_verify.cli import main
from ginnacer_verify.deadline import FOREVER
from ginnacer_verify.emit.abstraction import abstraction_graph
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.graph.onnx import graph_model

CUBE = Box(-np.ones(3), np.ones(3))
KINDS: dict[str, dict[str, object]] = {
    "all inputs that are not negative": {},
    "second layer alone": {"layers": [2]},
    "with the clip": {"clip": True},
    "everyone alone": {"strategy": "singletons"},
    "shifted": {"box": CUBE, "inputs": "shift"},
    "nearest corner": {"box": CUBE, "inputs": "nearest"},
}


def model(seed: int) -> bytes:
    graph = Graph([1, 3], seed=seed)
    for size in (6, 5):
        graph.add("Gemm", graph.weight(size, 3 if size == 6 else 6), graph.weight(size), transB=1)
        graph.add("Relu")
    graph.add("Gemm", graph.weight(2, 5), graph.weight(2), transB=1)
    return graph.model()


def accepted(models: Mapping[str, bytes], text: str, path: Path) -> bool:
    try:
        return check(models, text.encode(), io.BytesIO(path.read_bytes())).exact > 0
    except Refused:
        return False


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_emitted_is_proved_and_no_less(kind: str, tmp_path: Path) -> None:
    for seed in range(2):
        network, path = model(seed), tmp_path / "containment.gcert"
        chain = as_chain(load(network))
        abstraction = abstract(chain, np.full(3, 0.3), **KINDS[kind])  # type: ignore[arg-type]
        emitted = abstraction_graph(abstraction, np.dtype("float32"))
        outer, text = graph_model(emitted.graph), containment(abstraction.domain, chain.outputs)
        assert contain({"f": network, "g": outer}, text, emitted, path, FOREVER).path
        assert accepted({"f": network, "g": outer}, text, path)
        for tighter in spoilt(outer):  # one of its biases, or a weight, a little less outwards
            written = contain({"f": network, "g": tighter}, text, emitted, tmp_path / "spoilt.gcert", FOREVER)
            assert not written.path
            copied = path.read_bytes().replace(digest(outer), digest(tighter))
            (tmp_path / "copied.gcert").write_bytes(copied)
            assert not accepted({"f": network, "g": tighter}, text, tmp_path / "copied.gcert")


def digest(content: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(content).hexdigest().encode()


def spoilt(content: bytes) -> list[bytes]:
    """The model with its last upper bounds lower, and with its last lower bounds higher."""
    found = []
    for rows, change in ((slice(2, None), -1e-3), (slice(0, 2), 1e-3)):
        changed = onnx.load_model_from_string(content)
        last = max((t for t in changed.graph.initializer if t.name.startswith("bias")), key=lambda t: _number(t.name))
        values = numpy_helper.to_array(last).copy()
        values[rows] += np.float32(change)
        last.CopyFrom(numpy_helper.from_array(values, last.name))
        found.append(changed.SerializeToString())
    return found


def _number(name: str) -> int:
    return int(name.removeprefix("bias").split("_")[0])


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(model(0))
    assert main(["abstract", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "out"), "--certificate"]) == 0
    files = [tmp_path / "out" / name for name in ("abstract.onnx", "containment.vnnlib", "containment.gcert")]
    assert accepted({"f": model(0), "g": files[0].read_bytes()}, files[1].read_text(), files[2])
