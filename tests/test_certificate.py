"""Certificates: accepted exactly for what is true, refused when they are tampered with, checked without our code."""

import ast
import csv
import io
from pathlib import Path

import numpy as np
import pytest
from forging import below, lowest, network, records_of, refused, repacked
from models import Graph

from benchmarks import benchmark
from ginnacer_check import proof
from ginnacer_check.__main__ import main as check_main
from ginnacer_check.bounds import bounds
from ginnacer_check.check import Problem, check
from ginnacer_check.formula import Declared, read_formula
from ginnacer_check.network import Network, Unreadable, read_networks
from ginnacer_check.proof import MAGIC
from ginnacer_verify import load
from ginnacer_verify.certificate.certify import certify, retold
from ginnacer_verify.cli import main
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.record import Record
from ginnacer_verify.engines.verdict import Holds
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.properties.vnnlib import parse_vnnlib

ROOT = Path(__file__).resolve().parent.parent


def read(model: bytes, inputs: int, outputs: int) -> Network:
    return read_networks([model], [Declared("", range(inputs), outputs)], inputs)


def certified(model: bytes, text: bytes, path: Path, seconds: float = 120.0) -> bool:
    return certify(model, text, Holds(), path, Deadline.after(seconds)).path is not None


@pytest.mark.parametrize("seed", range(12))
def test_accepted_exactly_when_enumeration_says_unsat(seed: int, tmp_path: Path) -> None:
    model, path = network(seed), tmp_path / "proof.gcert"
    level = lowest(model)
    true, false = below(level - 0.02), below(level + 0.02)
    assert certified(model, true, path)
    content = path.read_bytes()
    assert not refused(model, true, content, exact=1.0)
    assert not certified(model, false, tmp_path / "none.gcert", 0.2)
    assert refused(model, false, content)  # by the hash
    assert refused(model, false, repacked(content, formula=false))  # by its leaves


def test_what_is_missing_or_too_much_is_refused(tmp_path: Path) -> None:
    model, path = network(1), tmp_path / "proof.gcert"
    text = below(lowest(model) - 0.02)
    assert certified(model, text, path)
    content = path.read_bytes()
    records = records_of(content)
    assert len(records) > 8
    for wrong in (
        content[:-5],
        content[: len(content) // 2],
        b"GCERT 2\n" + content[len(MAGIC) :],
        content + b"x",
        repacked(content, records[:-2] + b"E"),  # a leaf is missing
        repacked(content, records + b"M\1"),
        repacked(content, b"M\1E"),  # no cuts
        repacked(content, b"I\x00" + np.float64(np.nan).tobytes() + b"M\1M\1E"),
        repacked(content, b"I\x00" + np.float64(7.0).tobytes() + b"M\1M\1E"),
        repacked(content, b"H\x09M\1M\1E"),
        repacked(content, b"R\x00\xff\xff\xff\x7fM\1M\1E"),
        repacked(content, b"M\x02" + np.float32(-1.0).tobytes() + b"E"),
        repacked(content, b"M\x02" + np.float32(np.nan).tobytes() + b"E"),
        repacked(content, b"M\x02" + np.float32(3e38).tobytes() + b"E"),
    ):
        assert refused(model, text, wrong)
    assert refused(network(2), text, content)


def test_decisions_and_multipliers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proofs by deciding ReLUs instead of halving boxes; their multipliers are part of the file, and can be spoilt."""
    monkeypatch.setattr("ginnacer_verify.certificate.certify.FEW_INPUTS", 0)
    cut = 0
    for seed in range(8):
        model, path = network(seed), tmp_path / "proof.gcert"
        level = lowest(model)
        true, false = below(level - 0.02), below(level + 1e-6)
        assert certified(model, true, path)
        assert not refused(model, true, path.read_bytes(), exact=1.0)
        assert refused(model, false, repacked(path.read_bytes(), formula=false))
        cut += proof.PHASE in records_of(path.read_bytes())
    assert cut


@pytest.mark.parametrize("engine", ["boxes", "phases"])
def test_what_engines_record_is_a_proof(engine: str, tmp_path: Path) -> None:
    """The cuts, lemmas and multipliers of an engine are accepted as they are, exactly, and only for what is true."""
    path, as_told = tmp_path / "proof.gcert", 0
    for seed in (3, 5, 7, 9):
        model = network(seed, layers=3, width=6)
        level = lowest(model)
        true, false = below(level - 0.2), below(level + 1e-6)
        prop = parse_vnnlib(true.decode())
        record = Record(prop)
        verdict = verify(load(model), prop, engine=engine, restarts=0, record=record)
        assert verdict.holds
        told = retold(Problem(model, true), record, path, {})
        as_told += told
        if not told:
            assert certify(model, true, verdict, path, Deadline.after(20), record).path
        content = path.read_bytes()
        assert not refused(model, true, content, exact=0.3)
        assert refused(model, false, repacked(content, formula=false))
        assert (proof.LEMMA in records_of(content)) >= told
    assert (as_told > 0) == (engine == "phases")


def test_bounds_hold_and_exact_ones_are_tighter() -> None:
    """Values at sampled inputs are inside of the bounds, in both arithmetics, with convolutions and skips."""
    graph = Graph([1, 1, 4, 4], seed=3)
    graph.add("Conv", graph.weight(2, 1, 3, 3), graph.weight(2), strides=[2, 2], pads=[1, 1, 1, 1])
    skip = graph.add("Relu")
    graph.add("Conv", graph.weight(2, 1, 1, 1), group=2)
    graph.add("Relu")
    graph.add("Add", skip)
    graph.add("AveragePool", kernel_shape=[2, 2])
    graph.add("Flatten")
    graph.add("Gemm", graph.weight(2, 3), graph.weight(3))
    ours = load(graph.model())
    network = read(graph.model(), 16, 3)
    random = np.random.default_rng(0)
    lower = random.normal(size=(2, 16))
    upper = lower + random.random((2, 16))
    fast, exact = (bounds(one, lower, upper, None, {}) for one in (network, network.exact))
    for x in lower + random.random((40, 2, 16)) * (upper - lower):
        y = np.array([network.values(one)[-1] for one in x])
        assert np.allclose(y, [ours(one) for one in x], rtol=1e-5, atol=1e-5)
        for known in (fast, exact):
            assert (known.lower[-1] <= y + 1e-9).all()
            assert (y - 1e-9 <= known.upper[-1]).all()
    assert (fast.lower[-1] <= exact.lower[-1]).all()
    assert (exact.upper[-1] <= fast.upper[-1]).all()


def test_a_relu_of_a_relu_keeps_its_values(tmp_path: Path) -> None:
    for seed in range(6):
        graph = Graph([1, 2], seed=seed)
        graph.add("Gemm", graph.weight(3, 2), graph.weight(3), transB=1)
        graph.add("Relu")
        graph.add("Relu")
        graph.add("Gemm", graph.weight(3, 1), graph.weight(1))
        level = lowest(graph.model())
        assert certified(graph.model(), below(level - 0.02), tmp_path / "proof.gcert")
        content = repacked((tmp_path / "proof.gcert").read_bytes(), formula=below(level + 1e-6))
        assert refused(graph.model(), below(level + 1e-6), content)


def test_what_is_not_read_is_said() -> None:
    graph = Graph([1, 2])
    graph.add("Cast", to=7)
    graph.add("Cast", to=1)
    graph.add("Gemm", graph.weight(2, 1))
    with pytest.raises(Unreadable, match="Cast"):
        read(graph.model(), 2, 1)
    graph = Graph([1, 2])
    graph.add("ArgMax", axis=1)
    with pytest.raises(Unreadable, match="ArgMax"):
        read(graph.model(), 2, 1)
    with pytest.raises(Unreadable, match="declare-hidden"):
        read_formula("(vnnlib-version <2.0>) (declare-network f (declare-hidden Z real [3] node))")


def test_the_checker_is_alone() -> None:
    """It imports numpy and onnx (and python-flint if it is there), the standard library and itself."""
    import sys

    for file in (ROOT / "ginnacer_check").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                first = name.split(".")[0]
                assert first in {"numpy", "onnx", "flint", "ginnacer_check"} | set(sys.stdlib_module_names), file


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, prop, path = tmp_path / "net.onnx", tmp_path / "prop.vnnlib", tmp_path / "proof.gcert"
    net.write_bytes(network(0))
    for offset, word in ((-0.02, "unsat"), (0.5, "sat")):
        prop.write_bytes(below(lowest(network(0)) + offset))
        assert main(["verify", str(net), str(prop), "--certificate", str(path)]) == 0
        assert check_main([str(net), str(prop), str(path), "--exact", "--jobs", "2", "--quiet"]) == 0
        assert f"accepted: {word}" in capsys.readouterr().out
        assert main(["certificate", "show", str(net), str(prop), str(path)]) == 0
        assert word in capsys.readouterr().out
    path.write_bytes(path.read_bytes().replace(b'"witness": [', b'"witness": [9.0, '))
    assert check_main([str(net), str(prop), str(path)]) == 1
    assert "refused" in capsys.readouterr().out


def test_a_proof_about_two_networks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is written, shown with a picture, and checked, by the names that the property gives the networks."""
    folder, path = ROOT / "vnnlib" / "twins", tmp_path / "proof.gcert"
    net = str(ROOT / "vnnlib" / "advisory" / "advisory_15x3.onnx")
    prop, named = str(folder / "monotone_3_0.0010.vnnlib"), ["--network", f"f={net}", "--network", f"g={net}"]
    assert main(["verify", prop, *named, "--certificate", str(path)]) == 0
    picture = tmp_path / "boxes.png"
    shown = ["certificate", "show", prop, str(path), *named, "--picture", str(picture), "--inputs", "3", "5"]
    assert main(shown) == 0
    assert picture.stat().st_size > 1000
    assert check_main([prop, str(path), *named, "--quiet"]) == 0
    assert "accepted: unsat" in capsys.readouterr().out
    other = str(folder / "advisory_int8.onnx")
    assert check_main([prop, str(path), *named[:2], "--network", f"g={other}"]) == 2  # not equal, as it says they are


def test_from_python(tmp_path: Path) -> None:
    model, path = network(0), tmp_path / "proof.gcert"
    text = below(lowest(model) - 0.1)
    (tmp_path / "prop.vnnlib").write_bytes(text)
    verdict = verify(model, tmp_path / "prop.vnnlib", certificate=path)
    assert verdict.certificate is not None
    assert verdict.certificate.path == path
    assert not refused(model, text, path.read_bytes())
    assert verify(model, parse_vnnlib(text.decode()), certificate=path).holds
    assert not refused(model, (tmp_path / "proof.vnnlib").read_bytes(), path.read_bytes())
    assert verify(model, text).certificate is None
    chain = verify(as_chain(load(model)), parse_vnnlib(text.decode()), certificate=path)
    assert chain.certificate is not None
    with pytest.raises(InputError, match="real arithmetic"):
        verify(model, text, certificate=path, arithmetic="float32")


def test_runs_write_certificates(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(network(0))
    (tmp_path / "prop.vnnlib").write_bytes(below(lowest(network(0)) - 0.1))
    (tmp_path / "instances.csv").write_text("net.onnx,prop.vnnlib,30\n")
    given = ["bench", "run", str(tmp_path / "instances.csv"), "-o", str(tmp_path / "out"), "--quiet"]
    assert main([*given, "--certificates", str(tmp_path / "proofs")]) == 0
    (file,) = (tmp_path / "proofs").iterdir()
    assert check_main([str(tmp_path / "net.onnx"), str(tmp_path / "prop.vnnlib"), str(file), "--quiet"]) == 0


@pytest.mark.parametrize("folder", ["advisory", "digits", "pade"])
def test_our_own_instances(folder: str, tmp_path: Path) -> None:
    """Some `unsat` of vnnlib/ that are written in VNN-LIB 1.0 get a certificate that is accepted."""
    with (ROOT / "vnnlib" / folder / "expected.csv").open() as file:
        rows = [row for row in csv.reader(file) if row[2] == "unsat" and "_v2" not in row[1]]
    assert rows
    for net, prop, *_ in rows[:: 1 + len(rows) // 4]:
        model, text = ((ROOT / "vnnlib" / folder / name).read_bytes() for name in (net, prop))
        assert certified(model, text, tmp_path / "proof.gcert", 60.0), (net, prop)
        check(model, text, io.BytesIO((tmp_path / "proof.gcert").read_bytes()))


@pytest.mark.parametrize(
    ("folder", "network", "prop"),
    [
        ("acasxu", "ACASXU_run2a_1_1_batch_2000.onnx", "prop_3.vnnlib"),
        ("mnistfc", "mnist-net_256x2.onnx", "prop_0_0.03.vnnlib"),
    ],
)
def test_public_instances(folder: str, network: str, prop: str, tmp_path: Path) -> None:
    model, text = benchmark(folder, network).read_bytes(), benchmark(folder, prop).read_bytes()
    assert certified(model, text, tmp_path / "proof.gcert", 60.0)
    check(model, text, io.BytesIO((tmp_path / "proof.gcert").read_bytes()), exact=0.001, seed=0)


def test_networks_and_properties_are_read_as_ours() -> None:
    for seed in range(3):
        problem = Problem(network(seed), below(0.0))
        x = np.random.default_rng(seed).uniform(-1, 1, size=(20, 2))
        ours = load(network(seed))
        assert np.allclose([problem.network.values(one)[-1] for one in x], [ours(one) for one in x], rtol=1e-9)
