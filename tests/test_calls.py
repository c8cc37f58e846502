"""The calls people expect: any model, bounds, robustness, radius, data sets, families of inputs."""

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cases import random_network
from exhaustive import is_sat
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import random_box, random_graph

import ginnacer_verify as gv
from ginnacer_verify.arrays import Array
from ginnacer_verify.bench.own import own_instances
from ginnacer_verify.bounds.call import bounds
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.onnx import network_model
from ginnacer_verify.properties.build import robustness as build
from ginnacer_verify.robust.certify import Certified, Result, certify
from ginnacer_verify.robust.radius import Radius, radius
from ginnacer_verify.robust.robustness import along, predicted, property_of, robustness

SETS = own_instances()
NET, PROP = SETS / "digits/digits_32x2.onnx", SETS / "digits/image_003_0.04.vnnlib"


@pytest.fixture(scope="module")
def digits() -> tuple[Array, Array]:
    """The middles of our properties' boxes, nearly the images that they were made of, and what the network says."""
    files = sorted((SETS / "digits").glob("image_*.vnnlib"))
    images = np.array([gv.read_vnnlib(file).boxes[0].middle for file in files])[:6].astype("f4").astype("f8")
    return images, gv.load(NET)(images).argmax(axis=1)


@pytest.mark.parametrize(
    "model", [NET, str(NET), NET.read_bytes(), onnx.load(NET), gv.load(NET)], ids=lambda one: type(one).__name__
)
def test_a_model_is_whatever_people_have(model: Any) -> None:
    assert gv.verify(model, PROP).word == "sat"


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(InputError, match="is not a model"):
        gv.verify(3, PROP)


def test_torch_modules_and_tensors() -> None:
    torch = pytest.importorskip("torch")

    class Small(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = torch.nn.Conv2d(1, 2, 3), torch.nn.Linear(72, 10)

        def forward(self, x: Any) -> Any:
            return self.last(torch.relu(self.conv(x)).flatten(1))

    torch.manual_seed(0)
    module = Small().train()
    assert gv.verify(module, PROP).word in {"sat", "unsat"}
    x = torch.rand(1, 8, 8)
    verdict = gv.robustness(module, x, eps=0.001)
    assert verdict.holds
    label = torch.tensor(int(module(x[None]).argmax()))
    assert gv.robustness(module, x[None], label, torch.tensor(0.9)).violated
    assert module.training
    lower, upper = gv.bounds(module, (x - 0.1, x + 0.1))
    with torch.no_grad():
        y = module.eval()(x[None]).numpy()
    assert lower.shape == y.shape
    assert ((lower <= y) & (y <= upper)).all()
    with pytest.raises(InputError, match="is not clear"):
        gv.bounds(module, (np.zeros(5), np.ones(5)))


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_bounds_hold_on_random_graphs_and_better_ones_are_tighter(seed: int) -> None:
    graph = random_graph(seed)
    random = np.random.default_rng(seed)
    box = random_box(random, graph.inputs)
    lower, upper = box[0].reshape(-1), box[1].reshape(-1)
    points = lower + random.random((400, graph.inputs)) * (upper - lower)
    values = graph.evaluate(np.vstack([points, lower, upper]))
    before = None
    for method in ("interval", "crown", "alpha"):
        low, high = (end.reshape(-1) for end in bounds(graph, (lower, upper), method))
        scale = 1e-9 * (1 + np.abs(values).max(axis=0))  # of float64 evaluation itself
        assert (values.min(axis=0) >= low - scale).all()
        assert (values.max(axis=0) <= high + scale).all()
        if before is not None:
            assert (high - low <= before * (1 + 1e-9) + 1e-12).all()
        before = high - low


@pytest.mark.parametrize(
    ("box", "method"),
    [
        (([0.0], [1.0]), "alpha"),
        ((np.ones(64), np.zeros(64)), "crown"),
        ((np.zeros(64), np.full(64, np.inf)), "alpha"),
        ((np.zeros(64), np.ones(64)), "beta"),
    ],
)
def test_boxes_and_methods_that_make_no_sense(box: Any, method: Any) -> None:
    with pytest.raises(InputError):
        gv.bounds(NET, box, method)


def test_bounds_can_be_called_after_its_parts_were_imported() -> None:
    assert callable(gv.bounds)
    assert "box" in inspect.signature(bounds).parameters


@pytest.mark.parametrize("seed", range(20))
def test_robustness_is_that_of_enumeration(seed: int) -> None:
    random = np.random.default_rng(seed)
    network = random_network(random, (2, 4, 3))
    x = np.round(random.random(2) * 8) / 8
    for eps in (0.125, 0.5):
        label = predicted(network, x)
        prop = property_of(network, x, label, eps)
        assert robustness(network, x, eps=eps).violated == is_sat(network, prop)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("norm", ["inf", 2, 1])
def test_the_radius_lies_between_what_is_proved_and_what_is_refuted(seed: int, norm: Any) -> None:
    random = np.random.default_rng(seed)
    network = random_network(random, (2, 4, 3))
    x, seen = np.round(random.random(2) * 8) / 8, list[Radius]()
    found = radius(network, x, norm=norm, timeout=5, observe=seen.append)
    assert 0 <= found.proved <= found.refuted
    assert [one.proved for one in seen] == sorted(one.proved for one in seen)
    assert [one.refuted for one in seen] == sorted((one.refuted for one in seen), reverse=True)
    label = predicted(network, x)
    if found.counterexample is not None:
        assert (
            np.argmax(found.counterexample.y) != label
            or sorted(found.counterexample.y)[-2:] == [found.counterexample.y[label]] * 2
        )
        far = np.linalg.norm(found.counterexample.x - x, np.inf if norm == "inf" else norm)
        assert far <= found.refuted <= far * (1 + 1e-9)
    moved = random.standard_normal((2000, 2))
    moved *= (
        random.random((2000, 1))
        * found.proved
        / np.linalg.norm(moved, np.inf if norm == "inf" else norm, axis=1)[:, None]
    )
    assert (network(np.clip(x + moved, 0, 1)).argmax(axis=1) == label).all()


def test_the_radius_of_what_is_misclassified_is_zero() -> None:
    network = gv.load(NET)
    x = np.zeros(64)
    wrong = (predicted(network, x) + 1) % 10
    assert (radius(network, x, wrong).proved, radius(network, x, wrong).refuted) == (0.0, 0.0)


def test_brightness_is_a_network_of_one_input(digits: tuple[Array, Array]) -> None:
    x = digits[0][0]
    bright = along(NET, x, np.ones(64))
    network = gv.load(NET)
    for t in (-0.3, 0.0, 0.2):
        assert np.allclose(bright([t]), network(np.clip(x + t, 0, 1)), atol=1e-5)
    found = radius(bright, [0.0], within=None, timeout=20)
    assert 0 < found.proved <= found.refuted
    for t in np.linspace(-found.proved, found.proved, 101):
        assert predicted(network, np.clip(x + t, 0, 1)) == predicted(network, x)
    two = along(NET, x, np.ones(64), x - x.mean(), within=None)
    assert np.allclose(two([0.1, 0.2]), network(x + 0.1 + 0.2 * (x - x.mean())), atol=1e-5)
    with pytest.raises(InputError, match="at least one direction"):
        along(NET, x)


def test_a_data_set_is_certified_and_resumed(digits: tuple[Array, Array], tmp_path: Path) -> None:
    images, labels = digits
    labels = labels.copy()
    labels[1] = (labels[1] + 1) % 10
    seen = list[Result]()

    def stop(done: int, total: int, result: Result | None) -> None:
        if result is not None:
            seen.append(result)
            if len(seen) == 5:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify(NET, images, labels, [0.01, 0.1], folder=tmp_path, timeout=20, progress=stop)
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"index": 3, "cut')  # as a kill in the middle of a line leaves it
    again = list[Result | None]()
    resumed = certify(
        NET, images, labels, [0.01, 0.1], folder=tmp_path, timeout=20, jobs=2, progress=lambda d, t, r: again.append(r)
    )
    assert len([one for one in again if one is not None]) == 12 - 5
    whole = certify(NET, images, labels, [0.01, 0.1], timeout=20)
    assert resumed.table == whole.table
    assert [one.state for one in whole.results[:6]] == [one.state for one in resumed.results[:6]]
    assert whole.results[1].state == "misclassified"
    assert whole.table[0]["accuracy"] == 5 / 6
    assert whole.table[0]["certified"] >= whole.table[1]["certified"]
    for result in whole.results:
        if result.state == "attacked":
            prop = build(images[result.index], result.eps, result.label, 10)
            assert np.array(result.adversarial) in prop.boxes[0]
            assert result.becomes != result.label or result.adversarial
    assert "certified" in repr(whole)


def test_radii_of_a_data_set(digits: tuple[Array, Array]) -> None:
    (result,) = certify(NET, digits[0][:1], digits[1][:1], 0.02, radii=True, timeout=10).results
    assert (result.state == "certified") == (result.radius >= 0.019)


def test_data_sets_that_do_not_fit(digits: tuple[Array, Array]) -> None:
    images, labels = digits
    for arguments in ((images[:2], labels), (images[:, :5], labels), (images, labels, -1.0), (images[:0], labels[:0])):
        with pytest.raises(InputError):
            certify(NET, *arguments[:2], *(arguments[2:] or (0.1,)))
    with pytest.raises(InputError, match="none of the network's classes"):
        gv.robustness(NET, images[0], 10, 0.1)


def test_a_table_by_hand() -> None:
    states = ["certified", "attacked", "open", "misclassified"]
    results = tuple(Result(i, 0, 0, 0.1, state, 0.0, "") for i, state in enumerate(states))
    (row,) = Certified(results).table
    assert row == {"eps": 0.1, "inputs": 4, "accuracy": 0.75, "certified": 0.25, "attacked": 0.25, "open": 0.25}
    assert json.dumps(row)
    assert network_model(random_network(np.random.default_rng(0), (2, 2, 2)))
