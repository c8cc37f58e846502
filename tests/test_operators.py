"""Every operator is read as onnxruntime runs it."""

from typing import Any

import numpy as np
import pytest
from loaded import agrees, assert_chain_agrees, runtime_shape
from models import Graph, convolutional, dense, residual, two_sided
from operator_cases import CASES, FLAT

from ginnacer_verify.loading import operators, parse_onnx
from ginnacer_verify.loading.onnx import operator_uses, parse_model, read_graph
from ginnacer_verify.loading.oracle import Runtime


@pytest.mark.parametrize("name", CASES)
def test_operator_agrees_with_onnxruntime(name: str) -> None:
    network = parse_onnx(CASES[name]())
    assert agrees(network)
    assert_chain_agrees(network)
    assert network.output_shape == runtime_shape(network)


def test_bounds_of_clip_hold_far_from_every_random_point() -> None:
    graph = Graph(FLAT)
    graph.add("Clip", np.float32(-5e4), np.float32(5e5))
    assert parse_onnx(graph.model())(np.array([-1e6, -4e4, 0, 4e5, 6e5, 1e6])).tolist() == [
        -5e4,
        -4e4,
        0,
        4e5,
        5e5,
        5e5,
    ]


LARGEST = np.finfo("f4").max


@pytest.mark.parametrize("bounds", [("", -LARGEST), (LARGEST,), (-LARGEST, LARGEST), (-LARGEST, -LARGEST)], ids=str)
def test_the_largest_float_bounds_nothing_on_its_own_side_only(bounds: tuple[Any, ...]) -> None:
    graph, points = Graph([1, 2]), np.array([1.0, -3.0])
    graph.add("Clip", *bounds)
    content = graph.model()
    assert (read_graph(parse_model(content), content=content)(points) == Runtime(content)(points)).all()


def test_every_operator_of_the_tables_is_tried() -> None:
    texts = [*CASES.values(), dense, convolutional, residual, two_sided]
    used = {use.operator for build in texts for use in operator_uses(parse_model(build()))}
    assert set(operators.OPERATORS) <= used
    assert {use.status for build in texts for use in operator_uses(parse_model(build()))} == {"supported"}
