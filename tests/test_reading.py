"""What was read is compared with onnxruntime where a property asks, too."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from cases import box_of, one_disjunct
from models import Graph as Model

from ginnacer_verify.engines.reading import check_reading
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.loading import load, operators
from ginnacer_verify.loading.onnx import parse_model, read_graph
from ginnacer_verify.properties.property import Property

FAR = one_disjunct(box_of([100.0], [200.0]), [[-1.0]], [-40.0])
"""Unsafe: an output of at least 40."""


def _gated() -> bytes:
    """`relu(x - 150)`: 0 at all random points."""
    model = Model([1, 1])
    model.add("Sub", np.full(1, 150, "f4"))
    model.add("Relu")
    return model.model()


@pytest.fixture
def _misread(monkeypatch: pytest.MonkeyPatch) -> None:
    half: Mapping[str, object] = {"Relu": lambda node: node.make.scaled(node.make.applied(Relu(), node.tensor()), 0.5)}
    monkeypatch.setattr(operators, "OPERATORS", {**operators.OPERATORS, **half})
    monkeypatch.setattr("ginnacer_verify.loading.onnx.OPERATORS", operators.OPERATORS)


def test_what_is_read_rightly_passes() -> None:
    assert verify(_gated(), FAR).word == "sat"


@pytest.mark.usefixtures("_misread")
def test_a_gate_far_from_every_random_point_is_seen_in_the_box() -> None:
    with pytest.raises(NetworkError, match="differs from onnxruntime"):
        verify(_gated(), FAR)


@pytest.mark.usefixtures("_misread")
def test_it_is_seen_in_the_box_of_a_later_disjunct_and_in_one_of_two_networks() -> None:
    near = one_disjunct(box_of([0.0], [1.0]), [[-1.0]], [-40.0]).disjuncts[0]
    with pytest.raises(NetworkError, match="differs from onnxruntime"):
        verify(_gated(), Property.of(near, *FAR.disjuncts))
    text = (
        "(vnnlib-version <2.0>)\n(declare-network f (declare-input X real [1,1]) (declare-output Y real [1,1]))\n"
        "(declare-network g (declare-input Z real [1,1]) (declare-output W real [1,1]))\n"
        "(assert (and (>= X[0,0] 100.0) (<= X[0,0] 200.0) (== Z[0,0] X[0,0]) (>= Y[0,0] 40.0)))"
    )
    with pytest.raises(NetworkError, match="differs from onnxruntime"):
        verify({"f": _gated(), "g": _gated()}, text.encode())


@pytest.mark.parametrize("output", [1.0, -1.0])
def test_rounding_is_no_difference(output: float) -> None:
    """`(x + 2^25) - 2^25` is 0, 2 or 4 in float32 where it is x in real numbers."""
    model = Model([1, 1])
    model.add("Add", np.full(1, 2.0**25, "f4"))
    model.add("Relu")
    model.add("Sub", np.full(1, 2.0**25, "f4"))
    prop = one_disjunct(box_of([0.5], [1.5]), [[output]], [-99.0])
    check_reading(read_graph(parse_model(model.model()), content=model.model()), prop)


def test_boxes_without_points_and_networks_without_a_model_pass() -> None:
    graph = load(_gated())
    for box in (box_of([1.0], [0.0]), box_of([-np.inf], [0.0]), box_of([-1e308], [1e308])):
        check_reading(graph, one_disjunct(box, [[1.0]], [0.0]))
    check_reading(replace(graph, model=b""), FAR)
    assert isinstance(graph, Graph)


def test_outputs_that_nearly_cancel_are_read_where_executions_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """`(x + 100) - 100` loses three digits in float32; it is compared with how large the outputs get."""
    model = Model([1, 1])
    model.add("Add", np.full(1, 100, "f4"))
    model.add("Sub", np.full(1, 100, "f4"))
    small = one_disjunct(box_of([0.001], [0.3]), [[-1.0]], [-40.0])
    monkeypatch.setattr("ginnacer_verify.engines.reading._executed", lambda graph: None)
    check_reading(load(model.model()), small)
    with pytest.raises(NetworkError, match="differs from onnxruntime"):
        check_reading(load(model.model()), one_disjunct(box_of([0.0001], [0.0002]), [[-1.0]], [-40.0]))
