"""What was read against onnxruntime, and models with one thing changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from models import Graph, dense
from numpy.typing import NDArray
from onnx import helper
from operator_cases import FLAT

from ginnacer_verify.errors import NetworkError, UnsupportedOperator
from ginnacer_verify.graph.chain import chain_of
from ginnacer_verify.graph.graph import Graph as Network
from ginnacer_verify.loading import parse_onnx
from ginnacer_verify.loading.agree import relative_error
from ginnacer_verify.loading.oracle import Runtime


def evaluated(network: Network, points: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return network.evaluate(points.astype(np.float64))


def agrees(network: Network, seed: int = 7) -> bool:
    """Whether onnxruntime gives the same outputs at points that the loader did not try."""
    points = np.random.default_rng(seed).normal(scale=3, size=(50, network.inputs)).astype(network.dtype)
    runtime = Runtime(network.model)
    return relative_error(evaluated(network, points), np.array([runtime(point) for point in points])) < 1e-4


def assert_chain_agrees(graph: Network) -> None:
    """A chain of ReLU layers, where there is one, gives the same as the graph."""
    try:
        network = chain_of(graph)
    except UnsupportedOperator:
        return
    points = np.random.default_rng(8).normal(scale=3, size=(20, graph.inputs))
    np.testing.assert_allclose(list(network.through(points))[-1], graph.evaluate(points), rtol=1e-9, atol=1e-9)
    assert (network.input_shape, network.output_shape) == (graph.input_shape, graph.output_shape)


def runtime_shape(network: Network) -> tuple[int, ...]:
    """The shape that onnxruntime gives the output."""
    session = onnxruntime.InferenceSession(network.model)
    (output,) = session.run(None, {session.get_inputs()[0].name: np.zeros(network.input_shape, network.dtype)})
    return tuple(output.shape)


def edited(edit: Callable[[onnx.GraphProto], object], build: Callable[[], bytes] = dense) -> bytes:
    """A model after a change that no exporter of ours makes."""
    model = onnx.load_model_from_string(build())
    edit(model.graph)
    return bytes(model.SerializeToString())


def refused(build: Callable[[Graph], object], shape: tuple[int, ...] = FLAT) -> NetworkError:
    graph = Graph(shape)
    build(graph)
    with pytest.raises(NetworkError) as problem:
        parse_onnx(graph.model())
    return problem.value


def float_input(name: str, shape: list[Any], kind: int = 1) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)
