"""`ginnacer abstract` and `ginnacer margins`: what they write and print, and how they refuse."""

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ginnacer_verify.abstraction.margins import surface
from ginnacer_verify.abstraction.npz import load_abstraction
from ginnacer_verify.box import Box
from ginnacer_verify.commands import abstract as abstract_command
from ginnacer_verify.commands import margins as margins_command
from ginnacer_verify.commands.abstract import parse_layers, parse_strategy, read_centroid
from ginnacer_verify.commands.margins import parse_distances
from ginnacer_verify.errors import AbstractionError, InputError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.onnx import network_model
from ginnacer_verify.loading import load_chain, parse_onnx
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.properties.write import to_vnnlib


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A network 3-10-10-2 and a property on [-1, 1]^3."""
    random = np.random.default_rng(5)
    shapes = [(10, 3), (10, 10), (2, 10)]
    network = Network.from_arrays(*((random.normal(size=shape), random.normal(size=shape[0])) for shape in shapes))
    (tmp_path / "net.onnx").write_bytes(network_model(network))
    box, unsafe = Box(-np.ones(3), np.array([1.0, 1.0, 0.5])), Polytope.of([[1.0, -1.0]], [-100.0])
    prop = Property.of(Disjunct(box, Polytope.everything(3), unsafe))
    (tmp_path / "prop.vnnlib").write_text(to_vnnlib(prop))
    return tmp_path


def call(command: ModuleType, capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    assert command.run(parser.parse_args([str(word) for word in words])) == 0
    return capsys.readouterr().out


def test_abstract_writes_what_it_says(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (files / "net.onnx", "--property", files / "prop.vnnlib", "-o", files / "out", "--json")
    document = json.loads(call(abstract_command, capsys, *words))
    counts = document["relus_per_layer"]
    assert counts["original"] == [10, 10]
    assert all(1 <= new <= 10 for new in counts["abstract"])
    assert document["strategy"] == "first-fit"
    assert document["seconds"] > 0
    assert {Path(file).name for file in document["files"]} == {"abstract.npz", "abstract.onnx", "abstract.vnnlib"}
    saved = load_abstraction(files / "out" / "abstract.npz")
    assert list(saved.relus_per_layer) == counts["abstract"]
    np.testing.assert_allclose(saved.centroid, [0.0, 0.0, -0.25])
    emitted, prop = load_chain(files / "out" / "abstract.onnx"), read_vnnlib(files / "out" / "abstract.vnnlib")
    assert (emitted.outputs, prop.outputs, prop.inputs) == (1, 1, 3), "one row, -100 below which it is unsafe"
    x = np.array([0.3, -0.4, 0.1])
    lower, upper = saved(x)
    assert lower[0] - upper[1] + 100 - 1e-4 <= emitted(x)[0] <= saved.network(x) @ [1.0, -1.0] + 100 + 1e-4


def test_without_a_property_the_bounds_are_emitted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(abstract_command, capsys, files / "net.onnx", "-o", files / "out", "--quiet")
    saved, x = load_abstraction(files / "out" / "abstract.npz"), np.array([0.3, 0.4, 0.1])
    np.testing.assert_allclose(load_chain(files / "out" / "abstract.onnx")(x), np.concatenate(saved(x)), atol=1e-4)


def test_abstract_prints_the_table(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (files / "net.onnx", "-o", files / "out", "--layers", "2-", "--strategy", "budget=3", "--clip")
    lines = call(abstract_command, capsys, *words).splitlines()
    assert lines[0].split() == ["layer", "ReLUs", "abstract", "share"]
    assert lines[1].split()[:3] == ["1", "10", "10"]
    assert not (files / "out" / "abstract.vnnlib").exists()


def test_margins(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (files / "net.onnx", "--property", files / "prop.vnnlib", "--distances", "0,0.01,1", "--samples", "200")
    document = json.loads(call(margins_command, capsys, *words, "--csv", files / "m.csv", "--json", "--quiet"))
    largest = [row["largest"] for row in document["margins"]]
    assert largest[0] == 0.0  # the centroid itself
    assert largest[1] < largest[2]
    assert (files / "m.csv").read_text().splitlines()[0] == "method,distance,largest,median"
    assert len((files / "m.csv").read_text().splitlines()) == 4
    pytest.importorskip("matplotlib")
    call(margins_command, capsys, *words, "--plot", files / "m.svg")
    assert (files / "m.svg").read_text().startswith("<?xml")


def test_margins_of_several_methods(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The library's FastLin and CROWN are ours up to rounding; the tight form is narrower than the paper's."""
    if find_spec("auto_LiRPA") is None:
        pytest.skip("needs auto_LiRPA")
    methods = "ginnacer,tight,fastlin,lirpa-fastlin,crown,lirpa-crown,alpha-crown"
    words = (files / "net.onnx", "--property", files / "prop.vnnlib", "--distances", "0.05", "--samples", "100")
    found = json.loads(call(margins_command, capsys, *words, "--method", methods, "--json", "--quiet"))["margins"]
    largest = {row["method"]: row["largest"] for row in found}
    assert list(largest) == methods.split(",")
    assert largest["lirpa-fastlin"] == pytest.approx(largest["fastlin"], rel=1e-6, abs=1e-9)
    assert largest["lirpa-crown"] == pytest.approx(largest["crown"], rel=1e-6, abs=1e-9)
    assert largest["tight"] < largest["ginnacer"]
    with pytest.raises(InputError, match="no method 'deeppoly'; choose from ginnacer, tight"):
        call(margins_command, capsys, *words, "--method", "deeppoly")


def test_the_tight_form_is_emitted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (files / "net.onnx", "--property", files / "prop.vnnlib", "-o", files / "tight", "--form", "tight")
    paper = json.loads(call(abstract_command, capsys, *words[:-1], "paper", "--json", "--quiet"))
    document = json.loads(call(abstract_command, capsys, *words, "--json", "--quiet"))
    assert document["relus_per_layer"] == paper["relus_per_layer"]
    model, prop = parse_onnx((files / "tight" / "abstract.onnx").read_bytes()), files / "tight" / "abstract.vnnlib"
    assert read_vnnlib(prop).outputs == model.outputs
    with pytest.raises(AbstractionError, match="no --clip, --inputs or --layers"):
        call(abstract_command, capsys, *words, "--clip")


def test_other_drawings_are_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=r"m\.doc: .* \.png, \.svg, \.pdf"):
        call(margins_command, capsys, files / "net.onnx", "--plot", files / "m.doc")


def test_the_surface_of_the_cube() -> None:
    found = surface(np.array([1.0, 2.0, 3.0]), 0.5, 1000, np.random.default_rng(0)) - [1.0, 2.0, 3.0]
    np.testing.assert_allclose(np.abs(found).max(axis=1), 0.5)
    assert found.max() > 0.49
    assert found.min() < -0.49


def test_layers_are_parsed() -> None:
    assert parse_layers("all", 6) is None
    assert parse_layers("2-", 4) == [2, 3, 4]
    assert parse_layers("1,3-4", 6) == [1, 3, 4]
    for wrong in ("", "x", "-", "1;2"):
        with pytest.raises(AbstractionError, match="names no layers"):
            parse_layers(wrong, 6)


def test_strategies_and_distances_are_parsed() -> None:
    for wrong in ("best", "budget=x", "budget="):
        with pytest.raises(AbstractionError):
            parse_strategy(wrong, 0)
    assert callable(parse_strategy("random", 3))
    assert len(list(parse_strategy("budget=3,4", 0))) == 2  # type: ignore[arg-type]
    for wrong in ("", "a,b", "nan", "-1"):
        with pytest.raises(AbstractionError):
            parse_distances(wrong)


def test_centroids_are_read(tmp_path: Path) -> None:
    network = Network.from_arrays((np.eye(2), [0, 0]), (np.eye(2), [0, 0]))
    np.save(tmp_path / "c.npy", np.array([[1.0, 2.0]]))
    (tmp_path / "c.csv").write_text("1,2\n")
    (tmp_path / "c.txt").write_text("1\n2\n")
    for name in ("c.npy", "c.csv", "c.txt"):
        assert read_centroid(str(tmp_path / name), network, None).reshape(-1).tolist() == [1.0, 2.0]
    assert read_centroid("zeros", network, None).tolist() == [0.0, 0.0]
    (tmp_path / "bad.txt").write_text("one two")
    for wrong in (str(tmp_path / "absent.npy"), str(tmp_path / "bad.txt")):
        with pytest.raises(InputError, match=r"cannot be read|is not"):
            read_centroid(wrong, network, None)
    with pytest.raises(AbstractionError, match="write --centroid box PROP"):
        read_centroid("box", network, None)
