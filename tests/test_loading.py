"""Networks are read as onnxruntime runs them, or refused with a sentence that says why."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from models import Graph, convolutional, dense
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from benchmarks import benchmark
from ginnacer_verify.box import Box
from ginnacer_verify.errors import GinnacerError, NetworkError, UnsupportedOperator
from ginnacer_verify.graph.chain import chain_of, graph_of
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Graph as Network
from ginnacer_verify.graph.linear import Dense
from ginnacer_verify.loading import agree, load, load_chain, operators, parse_onnx
from ginnacer_verify.loading.agree import relative_error
from ginnacer_verify.loading.node import Node
from ginnacer_verify.loading.onnx import operator_uses, parse_model, read_graph
from ginnacer_verify.loading.operators.linear import gemm
from ginnacer_verify.loading.operators.shape import identity
from ginnacer_verify.loading.oracle import Runtime


def _evaluate(network: Network, points: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return network.evaluate(points.astype(np.float64))


def agrees(network: Network, seed: int = 7) -> bool:
    """Whether onnxruntime gives the same outputs at points that the loader did not try."""
    points = np.random.default_rng(seed).normal(scale=3, size=(50, network.inputs)).astype(network.dtype)
    runtime = Runtime(network.model)
    return relative_error(_evaluate(network, points), np.array([runtime(point) for point in points])) < 1e-4


def assert_chain_agrees(graph: Network) -> None:
    """A chain of ReLU layers, where there is one, gives the same as the graph."""
    try:
        network = chain_of(graph)
    except UnsupportedOperator:
        return
    points = np.random.default_rng(8).normal(scale=3, size=(20, graph.inputs))
    np.testing.assert_allclose(list(network.through(points))[-1], graph.evaluate(points), rtol=1e-9, atol=1e-9)
    assert (network.input_shape, network.output_shape) == (graph.input_shape, graph.output_shape)


# --- operators -------------------------------------------------------------------------------------------------------

SHAPE_1D, SHAPE_2D, FLAT = (1, 4, 9), (1, 4, 7, 6), (1, 6)


def case(shape: tuple[int, ...], *nodes: tuple[Any, ...], opset: int = 13) -> Callable[[], bytes]:
    """A model that applies the nodes to a tensor which a first layer with a ReLU has made."""

    def build() -> bytes:
        graph = Graph(shape)
        graph.add("Mul", graph.weight(*shape))
        graph.add("Add", graph.weight(*shape))
        for operator, *rest in nodes:
            attributes = rest.pop() if rest and isinstance(rest[-1], dict) else {}
            values = [value(graph) if callable(value) else value for value in rest]
            graph.add(operator, *values, **attributes)
        return graph.model(opset)

    return build


def weight(*shape: int) -> Callable[[Graph], NDArray[Any]]:
    return lambda graph: graph.weight(*shape)


def last(graph: Graph) -> str:
    """What the nodes so far give, for a node that takes a constant first."""
    return graph.last


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def ones(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, "f4")


CASES: dict[str, Callable[[], bytes]] = {
    "gemm with alpha and beta": case(FLAT, ("Gemm", weight(6, 5), weight(5), {"alpha": 0.5, "beta": -2.0})),
    "gemm with transB, without bias": case(FLAT, ("Gemm", weight(5, 6), {"transB": 1})),
    "matmul with several rows": case((1, 3, 4), ("MatMul", weight(4, 2)), ("Relu",)),
    "matmul of a vector": case((6,), ("MatMul", weight(6, 2))),
    "matmul with a constant on the left": case((3, 4), ("MatMul", weight(2, 3), last, {"first": False}), ("Relu",)),
    "matmul of a constant and a vector": case((4,), ("MatMul", weight(2, 4), last, {"first": False})),
    "sub and div": case(FLAT, ("Sub", weight(6)), ("Div", weight(1, 6))),
    "broadcast that grows": case((1, 3, 1), ("Add", weight(1, 3, 4)), ("Relu",), ("Mul", weight(4))),
    "flatten at axis 2": case((1, 3, 4), ("Flatten", {"axis": 2}), ("Relu",)),
    "flatten at a negative axis": case((1, 3, 4), ("Flatten", {"axis": -1})),
    "flatten without an axis": case((2, 3, 4), ("Flatten",)),
    "reshape with 0 and -1": case((1, 3, 4), ("Reshape", ints(0, -1, 2)), ("Relu",)),
    "transpose": case((1, 3, 4), ("Transpose", {"perm": [0, 2, 1]}), ("Flatten",), ("MatMul", weight(12, 2))),
    "transpose without perm": case((1, 3, 4), ("Transpose",), ("Reshape", ints(1, 12)), ("MatMul", weight(12, 2))),
    "squeeze and unsqueeze": case((1, 3, 1, 4), ("Squeeze", ints(2)), ("Unsqueeze", ints(0, 3))),
    "squeeze without axes": case((1, 3, 1, 4), ("Squeeze",)),
    "squeeze with a list of no axes": case((1, 3, 1, 4), ("Squeeze", ints())),
    "squeeze and unsqueeze, old": case((1, 3, 1, 4), ("Squeeze", {"axes": [2]}), ("Unsqueeze", {"axes": [0]}), opset=9),
    "slice and gather": case(
        (1, 3, 8), ("Slice", ints(1), ints(7), ints(2), ints(2)), ("Gather", ints(2, 0), {"axis": 1})
    ),
    "slice without axes": case((1, 3, 8), ("Slice", ints(0, 1), ints(1, 3))),
    "concat along the last axis": case((1, 3, 4), ("Relu",), ("Concat", "input", {"axis": 2})),
    "concat along a negative axis": case((1, 3, 4), ("Relu",), ("Concat", "input", {"axis": -2})),
    "identity, dropout, cast": case(FLAT, ("Identity",), ("Dropout",), ("Cast", {"to": 1}), ("Relu",)),
    "neg": case(FLAT, ("Neg",), ("Relu",)),
    "relu of a shifted relu": case(FLAT, ("Relu",), ("Sub", np.full(6, 0.5, "f4")), ("Relu",)),
    "relu of a constant": case(FLAT, ("Mul", np.zeros(6, "f4")), ("Add", weight(6)), ("Relu",)),
    "relu of a sum with minus signs": case(FLAT, ("Relu",), ("MatMul", np.array([[2], [-1.9]] * 3, "f4")), ("Relu",)),
    "relu twice": case(FLAT, ("Relu",), ("Relu",), ("MatMul", weight(6, 2))),
    "conv 1-D": case(SHAPE_1D, ("Conv", weight(3, 4, 3), weight(3), {"strides": [2], "pads": [1, 0]}), ("Relu",)),
    "conv with dilation": case(SHAPE_2D, ("Conv", weight(2, 4, 2, 3), {"dilations": [2, 2], "pads": [0, 1, 2, 1]})),
    "conv with groups": case(SHAPE_2D, ("Conv", weight(6, 2, 3, 2), weight(6), {"group": 2, "strides": [2, 3]})),
    "conv same upper": case(SHAPE_2D, ("Conv", weight(2, 4, 2, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]})),
    "conv same lower": case(SHAPE_2D, ("Conv", weight(2, 4, 2, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]})),
    "conv valid": case(SHAPE_2D, ("Conv", weight(2, 4, 3, 3), {"auto_pad": "VALID"})),
    "average pool": case(SHAPE_2D, ("AveragePool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]})),
    "average pool that counts padding": case(
        SHAPE_2D, ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1})
    ),
    "average pool, ceil": case(SHAPE_2D, ("AveragePool", {"kernel_shape": [2, 2], "strides": [3, 4], "ceil_mode": 1})),
    "average pool, ceil, counts padding": case(
        (1, 2, 6),
        (
            "AveragePool",
            {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1, "count_include_pad": 1},
        ),
    ),
    "global average pool": case(SHAPE_2D, ("Relu",), ("GlobalAveragePool",), ("Flatten",), ("MatMul", weight(4, 2))),
    "batch normalization": case(
        SHAPE_1D,
        ("BatchNormalization", weight(4), weight(4), weight(4), np.full(4, 0.5, "f4"), {"epsilon": 1e-3}),
        ("Relu",),
    ),
    "leaky relu": case(FLAT, ("LeakyRelu", {"alpha": 0.1}), ("MatMul", weight(6, 3))),
    "leaky relu without alpha": case(FLAT, ("LeakyRelu",), ("MatMul", weight(6, 3))),
    "abs": case(FLAT, ("Abs",), ("MatMul", weight(6, 3))),
    "clip": case(FLAT, ("Clip", np.float32(-0.5), np.float32(1.5)), ("MatMul", weight(6, 3))),
    "clip from below": case(FLAT, ("Clip", np.float32(0.25)), ("MatMul", weight(6, 3))),
    "clip from above": case(FLAT, ("Clip", "", np.float32(0.25)), ("MatMul", weight(6, 3))),
    "clip, old": case(FLAT, ("Clip", {"min": 0.0, "max": 6.0}), opset=9),
    "clip, old, from below": case(FLAT, ("Clip", {"min": 0.0}), opset=9),
    "clip, old, the largest float for infinity": case(
        FLAT, ("Clip", {"min": -3.4028234663852886e38, "max": 6.0}), opset=9
    ),
    "max pool": case(SHAPE_2D, ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]})),
    "max pool of relu": case(SHAPE_2D, ("Relu",), ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]})),
    "max pool 1-D, dilation": case(SHAPE_1D, ("MaxPool", {"kernel_shape": [3], "dilations": [2]})),
    "max pool, ceil": case(SHAPE_2D, ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 4], "ceil_mode": 1})),
    "max pool, ceil, no window in the padding": case(
        (1, 2, 3), ("MaxPool", {"kernel_shape": [2], "strides": [2], "pads": [1, 1], "ceil_mode": 1})
    ),
    "max of three": case(FLAT, ("Max", weight(6), weight(6)), ("MatMul", weight(6, 2))),
    "max and min with a constant": case(FLAT, ("Max", weight(6)), ("Min", weight(1, 6)), ("MatMul", weight(6, 2))),
    "gemm with several rows and transA": case((4, 3), ("Gemm", weight(4, 5), weight(3, 5), {"transA": 1})),
    "gemm with a constant on the left": case((4, 3), ("Gemm", weight(2, 4), last, {"first": False})),
    "gemm with a computed bias": case((1, 6), ("Gemm", weight(6, 6), "input", {"beta": 0.5})),
    "matmul with a batch of matrices": case((2, 3, 4), ("MatMul", weight(2, 4, 5))),
    "matmul with a constant left of a batch": case((2, 3, 4), ("MatMul", weight(5, 3), last, {"first": False})),
    "matmul of two computed tensors": case((2, 3, 3), ("Relu",), ("MatMul", "input")),
    "product": case(FLAT, ("Relu",), ("Mul", "input")),
    "square": case(FLAT, ("Mul", last)),
    "powers": case(FLAT, ("Pow", np.float32(2)), ("Add", ones(1)), ("Pow", np.float32(0.5)), ("Pow", np.float32(3))),
    "div of two values": case(FLAT, ("Abs",), ("Add", ones(6)), ("Div", "input", last, {"first": False})),
    "div of a constant": case(FLAT, ("Abs",), ("Add", ones(6)), ("Div", ones(6), last, {"first": False})),
    "reciprocal": case(FLAT, ("Abs",), ("Add", ones(6)), ("Reciprocal",)),
    "sum and mean": case(FLAT, ("Sum", "input", weight(6)), ("Mean", "input", "v0")),
    "slice backwards": case((1, 3, 8), ("Slice", ints(7), ints(-9), ints(2), ints(-2)), ("Relu",)),
    "concat with constants": case((1, 3, 4), ("Concat", weight(1, 2, 4), "input", {"axis": 1})),
    "gather elements": case((3, 4), ("GatherElements", np.array([[0, 3], [2, 1]]), {"axis": 1})),
    "gather nd": case((3, 4), ("GatherND", np.array([[0, 3], [2, 1], [2, 2]]))),
    "split": case((1, 6), ("Split", ints(2, 4), {"axis": 1, "results": 2}), ("Relu",)),
    "expand and tile": case((1, 3, 1), ("Expand", ints(2, 1, 4)), ("Tile", ints(1, 2, 1)), ("Relu",)),
    "where": case((1, 6), ("Where", np.arange(6) % 2 == 0, last, weight(1, 6), {"first": False})),
    "pad": case((1, 3, 4), ("Pad", ints(0, 1, 2, 0, 0, -1), np.float32(2.5))),
    "pad with zeros": case((1, 3, 4), ("Pad", ints(0, 1, 2, 0, 0, 1)), ("Relu",), ("MatMul", weight(7, 2))),
    "pad by reflection": case((1, 3, 4), ("Pad", ints(0, 1, 2, 0, 0, 1), {"mode": "reflect"})),
    "pad with the edge": case((1, 3, 4), ("Pad", ints(0, 1, 2, 0, 0, 1), {"mode": "edge"})),
    "depth to space": case((1, 8, 2, 3), ("DepthToSpace", {"blocksize": 2}), ("SpaceToDepth", {"blocksize": 2})),
    "depth to space by columns": case((1, 8, 2, 3), ("DepthToSpace", {"blocksize": 2, "mode": "CRD"})),
    "conv 3-D": case((1, 2, 4, 5, 3), ("Conv", weight(3, 2, 2, 3, 2), weight(3), {"pads": [1, 0, 0, 0, 1, 1]})),
    "conv of a batch": case((2, 4, 9), ("Conv", weight(3, 4, 3), weight(3))),
    "transposed conv": case(
        SHAPE_2D, ("ConvTranspose", weight(4, 3, 3, 2), weight(3), {"strides": [2, 3], "pads": [1, 0, 0, 1]})
    ),
    "transposed conv with groups": case(
        SHAPE_2D,
        ("ConvTranspose", weight(4, 3, 3, 2), {"group": 2, "strides": [2, 2], "output_padding": [1, 0]}),
        ("Relu",),
    ),
    "transposed conv with an output shape": case(
        SHAPE_2D, ("ConvTranspose", weight(4, 2, 3, 3), {"strides": [2, 2], "output_shape": [14, 12]})
    ),
    "transposed conv, dilated": case(SHAPE_1D, ("ConvTranspose", weight(4, 2, 3), {"dilations": [2]})),
    "upsample": case(SHAPE_2D, ("Upsample", np.array([1, 1, 2, 3], "f4")), opset=9),
    "upsample, linear": case(SHAPE_2D, ("Upsample", np.array([1, 1, 2, 2], "f4"), {"mode": "linear"}), opset=9),
    **{
        f"resize {mode} {coordinates} {rounding}": case(
            SHAPE_2D,
            (
                "Resize",
                "",
                np.array([1, 1, 2, 1.5], "f4"),
                {
                    "mode": mode,
                    "coordinate_transformation_mode": coordinates,
                    **({"nearest_mode": rounding} if rounding else {}),
                },
            ),
        )
        for mode, rounding in [("linear", ""), ("nearest", "floor"), ("nearest", "round_prefer_ceil"), ("nearest", "")]
        for coordinates in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
    },
    "resize to sizes": case(SHAPE_2D, ("Resize", "", "", ints(1, 4, 5, 9), {"mode": "linear"})),
    "reduce": case((2, 3, 4), ("ReduceSum", ints(1)), ("ReduceMean", {"axes": [0], "keepdims": 0})),
    "reduce max and min": case((2, 3, 4), ("ReduceMax", {"axes": [-1]}), ("ReduceMin", {"axes": [0], "keepdims": 0})),
    "reduce sum of squares": case((2, 3, 4), ("ReduceSumSquare", {"axes": [2]})),
    "global max pool": case((1, 2, 3, 2), ("GlobalMaxPool",)),
    "softmax": case((2, 3, 4), ("Softmax", {"axis": 1})),
    "softmax, old": case((2, 3, 4), ("Softmax", {"axis": 1}), opset=11),
    "log softmax": case((2, 5), ("LogSoftmax",)),
    "softmax of one value": case((2, 1), ("Softmax",), ("Add", "input")),
    "prelu": case((1, 3, 4), ("PRelu", weight(3, 1))),
    "prelu with one slope": case((1, 3, 4), ("PRelu", weight(1))),
    "hard sigmoid": case(FLAT, ("HardSigmoid",)),
    "max and min of computed values": case(FLAT, ("Relu",), ("Max", "input", "v0"), ("Min", "v1")),
    "functions": case(FLAT, ("Sigmoid",), ("Tanh",), ("Exp",), ("Log",), ("Softplus",), ("Elu", {"alpha": 0.5})),
    "waves": case(FLAT, ("Sin",), ("Cos",), ("Erf",), ("Abs",), ("Sqrt",)),
    "steps": case(FLAT, ("Mul", np.float32(0.1)), ("Floor",), ("Sign",)),
    "hard swish": case(FLAT, ("HardSwish",), opset=14),
    "gelu": case(FLAT, ("Gelu",), ("Gelu", {"approximate": "tanh"}), opset=20),
}


def runtime_shape(network: Network) -> tuple[int, ...]:
    """The shape that onnxruntime gives the output."""
    session = onnxruntime.InferenceSession(network.model)
    (output,) = session.run(None, {session.get_inputs()[0].name: np.zeros(network.input_shape, network.dtype)})
    return tuple(output.shape)


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


def test_every_operator_of_the_tables_is_tried() -> None:
    texts = [*CASES.values(), dense, convolutional, residual, two_sided]
    used = {use.operator for build in texts for use in operator_uses(parse_model(build()))}
    assert set(operators.OPERATORS) <= used
    assert {use.status for build in texts for use in operator_uses(parse_model(build()))} == {"supported"}


def residual() -> bytes:
    """Skips of a signed value, of the input, and of a ReLU's output, over one and over two layers."""
    graph = Graph([1, 4])
    start = graph.add("MatMul", graph.weight(4, 4))
    graph.add("Relu")
    first = graph.add("MatMul", graph.weight(4, 4))
    graph.add("Add", start)
    graph.add("Relu")
    graph.add("MatMul", graph.weight(4, 4))
    graph.add("Sub", first)
    graph.add("Add", "input")
    graph.add("Relu")
    graph.add("Concat", start, axis=1)
    return graph.model()


def two_sided() -> bytes:
    """A constant on the left of every operator that takes one, and a shape computed in the graph."""
    graph = Graph([1, 4])
    values = graph.weight(4)
    graph.constants.append(numpy_helper.from_array(values, "left"))
    graph.add("Sub", "left", "input", first=False)
    graph.add("Add", "left", graph.last, first=False)
    graph.add("Mul", "left", graph.last, first=False)
    kept = graph.add("Relu")
    graph.add("Shape")
    shape = graph.add("Concat", ints(1), axis=0)
    graph.add("Reshape", kept, shape, first=False)
    graph.add("Reshape", ints(1, 4))
    return graph.model()


def shaped() -> bytes:
    """A constant in the shape that a tensor has."""
    graph = Graph([1, 3, 4])
    kept = graph.add("Relu")
    graph.add("Shape")
    graph.add("ConstantOfShape", value=numpy_helper.from_array(np.array([2.5], "f4")))
    graph.add("Add", kept)
    return graph.model()


@pytest.mark.parametrize("build", [dense, convolutional, residual, two_sided, shaped])
def test_graphs_agree_with_onnxruntime(build: Callable[[], bytes]) -> None:
    network = parse_onnx(build())
    assert agrees(network)
    assert_chain_agrees(network)
    assert network.output_shape == runtime_shape(network)


def edited(edit: Callable[[onnx.GraphProto], object], build: Callable[[], bytes] = dense) -> bytes:
    """A model after a change that no exporter of ours makes."""
    model = onnx.load_model_from_string(build())
    edit(model.graph)
    return bytes(model.SerializeToString())


def test_weights_may_be_listed_among_the_inputs() -> None:
    def list_weights(graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))

    assert agrees(parse_onnx(edited(list_weights)))


def test_the_output_need_not_be_the_last_node() -> None:
    network = parse_onnx(
        edited(lambda graph: graph.node.append(helper.make_node("Relu", [graph.output[0].name], ["x"])))
    )
    assert chain_of(network).relus_per_layer == (6, 6)
    assert agrees(network)


def test_a_skipped_relu_output_costs_one_relu_a_value() -> None:
    graph = Graph([1, 4])
    graph.add("MatMul", graph.weight(4, 5))
    skip = graph.add("Relu")
    graph.add("MatMul", graph.weight(5, 5))
    graph.add("Relu")
    graph.add("Add", skip)
    assert chain_of(parse_onnx(graph.model())).relus_per_layer == (5, 10)


def test_a_skipped_signed_value_costs_two_relus_a_value() -> None:
    graph = Graph([1, 4])
    skip = graph.add("MatMul", graph.weight(4, 3))
    graph.add("Relu")
    graph.add("Add", skip)
    graph.add("Add", skip)
    network = parse_onnx(graph.model())
    assert chain_of(network).relus_per_layer == (3 + 6,)
    assert agrees(network)


def test_consecutive_affine_maps_are_composed() -> None:
    graph = Graph([1, 4])
    for _ in range(3):
        graph.add("MatMul", graph.weight(4, 4))
        graph.add("Add", graph.weight(4))
    assert chain_of(parse_onnx(graph.model())).relus_per_layer == ()


def test_double_networks_and_open_batches() -> None:
    graph = Graph([1, 3], dtype="f8")
    graph.add("MatMul", graph.weight(3, 4))
    graph.add("Relu")
    network = parse_onnx(graph.model(batch="N"))
    assert network.dtype == np.float64
    assert network.input_shape == (1, 3)
    assert agrees(network)


def test_several_inputs_and_outputs_follow_each_other() -> None:
    """In the order of the file, in the flat vectors of both sides."""

    def add_one_of_each(graph: onnx.GraphProto) -> None:
        graph.input.append(float_input("other", ["N", 2]))
        graph.node.append(helper.make_node("Relu", ["other"], ["bent"]))
        graph.output.append(float_input("bent", [1, 2]))
        graph.output.append(float_input("v1", [1, 6]))

    network = parse_onnx(edited(add_one_of_each))
    assert [tensor.shape for tensor in network.x] == [(1, 3), (1, 2)]
    assert [tensor.name for tensor in network.y] == ["v5", "bent", "v1"]
    assert network([0, 0, 0, -1, 5])[2:4].tolist() == [0, 5]
    assert agrees(network)
    assert_chain_agrees(network)


def test_half_precision_inputs_are_read() -> None:
    graph = Graph([1, 3], dtype="f2")
    graph.add("MatMul", graph.weight(3, 4))
    assert read_graph(parse_model(graph.model())).dtype == np.float16


def test_omitted_attributes_are_float32_numbers() -> None:
    graph = Graph([1, 1])
    graph.add("LeakyRelu")
    assert parse_onnx(graph.model())([-1.0]) == [-float(np.float32(0.01))]
    graph = Graph([1, 1])
    graph.add("BatchNormalization", ones(1), np.zeros(1, "f4"), np.zeros(1, "f4"), np.zeros(1, "f4"))
    assert parse_onnx(graph.model())([1.0]) == [1 / np.sqrt(float(np.float32(1e-5)))]


def test_huge_bounds_of_clip_hold_in_double() -> None:
    graph = Graph([1, 2], dtype="f8")
    graph.add("Clip", np.array(-1e300), np.array(1e39))
    network = parse_onnx(graph.model())
    assert network([1e40, -2e300]).tolist() == [1e39, -1e300]
    with pytest.raises(UnsupportedOperator, match="too large to write it with ReLUs"):
        chain_of(network)


def test_constant_nodes_that_are_random_are_not_folded() -> None:
    graph = Graph(FLAT)
    graph.add("RandomNormal", first=False, shape=[1, 6])
    graph.add("Add", "input")
    with pytest.raises(UnsupportedOperator, match="its values are random"):
        parse_onnx(graph.model())


def test_functions_of_the_model_are_inlined() -> None:
    model = onnx.load_model_from_string(dense())
    body = [helper.make_node("Relu", ["x"], ["y"])]
    made = helper.make_function("own", "Bend", ["x"], ["y"], body, [helper.make_opsetid("", 13)])
    model.functions.append(made)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node[1].op_type, model.graph.node[1].domain = "Bend", "own"
    network = parse_onnx(model.SerializeToString())
    assert network.relus == 12
    assert agrees(network)


def test_moves_cost_no_node() -> None:
    graph = Graph([1, 3, 4])
    graph.add("Transpose", perm=[0, 2, 1])
    graph.add("Relu")
    graph.add("Reshape", ints(2, 6))
    graph.add("Mul", graph.weight(2, 6))
    graph.add("Add", graph.weight(6))
    assert [type(node).__name__ for node in parse_onnx(graph.model()).nodes] == ["Input", "Apply", "Affine", "Affine"]


def test_a_gate_far_from_the_unit_cube_is_seen_in_the_box(monkeypatch: pytest.MonkeyPatch) -> None:
    def gated() -> bytes:
        graph = Graph([1, 1])
        graph.add("Sub", np.full(1, 150, "f4"))
        graph.add("Relu")
        return graph.model()

    right = parse_onnx(gated())
    agree.check_agreement(right, Box(np.array([100.0]), np.array([200.0])))
    monkeypatch.setitem(
        operators.HANDLERS, "Relu", lambda node: node.make.scaled(node.make.applied(Relu(), node.tensor()), 0.5)
    )
    wrong = parse_onnx(gated())
    with pytest.raises(NetworkError, match="differs from onnxruntime"):
        agree.check_agreement(wrong, Box(np.array([100.0]), np.array([200.0])))


def test_graph_of_and_chain_of_are_inverse() -> None:
    network = chain_of(parse_onnx(dense()))
    again = chain_of(graph_of(network))
    for one, other in zip(network.layers, again.layers, strict=True):
        assert (one.weight == other.weight).all()
        assert (one.bias == other.bias).all()
    assert again.model == network.model


@pytest.mark.parametrize(
    "file",
    [
        "cersyve/onnx/pendulum_finetune_inv.onnx.gz",
        "cgan_2023/onnx/cGAN_imgSz32_nCh_3_nonlinear_activations.onnx.gz",
        "cgan_2023/onnx/cGAN_imgSz32_nCh_3_upsample.onnx.gz",
        "cifar10_resnet_2021/onnx/resnet_4b.onnx.gz",
        "lsnc_relu/onnx/relu_quadrotor2d_state.onnx.gz",
        "ml4acopf_2024/onnx/14_ieee_ml4acopf.onnx.gz",
        "nn4sys/onnx/mscn_128d_dual.onnx.gz",
        "nn4sys/onnx/pensieve_small_parallel.onnx.gz",
        "tllverifybench_2023/onnx/tllBench_n=2_N=M=16_m=1_instance_1_0.onnx.gz",
        "traffic_signs_recognition_2023/onnx/3_30_30_QConv_16_3_QConv_32_2_Dense_43_ep_30.onnx.gz",
        "verivital_2021/Convnet_maxpool.onnx.gz",
        "vit_2023/onnx/pgd_2_3_16.onnx.gz",
        "yolo_2023/onnx/TinyYOLO.onnx.gz",
    ],
)
def test_competition_networks_are_read(file: str) -> None:
    load(benchmark(file))


# --- what is refused -------------------------------------------------------------------------------------------------


def refused(build: Callable[[Graph], object], shape: tuple[int, ...] = FLAT) -> NetworkError:
    graph = Graph(shape)
    build(graph)
    with pytest.raises(NetworkError) as problem:
        parse_onnx(graph.model())
    return problem.value


@pytest.mark.parametrize(
    ("operator", "shape", "values", "attributes"),
    [
        ("ArgMax", FLAT, (), {}),
        ("RandomNormalLike", FLAT, (), {}),
        ("If", FLAT, (), {}),
        ("Pow", FLAT, (np.arange(6, dtype="f4"),), {}),
        ("MatMul", FLAT, (ones(5, 2),), {}),
        ("Gemm", FLAT, (ones(6),), {"transB": 1}),
        ("Div", FLAT, (np.arange(6, dtype="f4"),), {}),
        ("Clip", FLAT, (np.float32(1), np.float32(0)), {}),
        ("Cast", FLAT, (), {"to": 7}),
        ("Dropout", FLAT, (np.float32(0.5), np.array(True)), {}),
        ("BatchNormalization", SHAPE_1D, (ones(4),) * 4, {"training_mode": 1}),
        ("MaxPool", SHAPE_1D, (), {"kernel_shape": [2], "dilations": [2], "auto_pad": "SAME_UPPER"}),
        ("AveragePool", SHAPE_1D, (), {"kernel_shape": [2], "dilations": [2], "auto_pad": "SAME_LOWER"}),
        ("BatchNormalization", SHAPE_1D, (ones(4),) * 4, {"spatial": 0}),
        ("Resize", SHAPE_2D, ("", np.array([1, 1, 2, 2], "f4")), {"mode": "cubic"}),
        ("Pad", FLAT, (ints(0, 1, 0, 1),), {"mode": "strange"}),
        ("MaxPool", SHAPE_1D, (), {"kernel_shape": [2], "pads": [2, 0]}),
        ("Shape", FLAT, (), {"start": 1}),
    ],
)
def test_unsupported_operators_are_named(
    operator: str, shape: tuple[int, ...], values: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    problem = refused(lambda graph: graph.add(operator, *values, **attributes), shape)
    assert isinstance(problem, UnsupportedOperator)
    assert (problem.operator, problem.node) == (operator, "node0")


@pytest.mark.parametrize(
    ("operator", "values", "attributes", "reason"),
    [
        ("Conv", (ones(6, 3, 3),), {"group": 2}, "does not fit 4 channels"),
        ("Conv", (ones(5, 2, 3),), {"group": 2}, "does not fit 4 channels"),
        ("Conv", (ones(2, 4, 3),), {"strides": [0]}, "stride or dilation below 1"),
        ("Conv", (ones(2, 4, 10),), {}, "10 cells does not fit an axis of 9"),
        ("Conv", (ones(2, 4, 3),), {"pads": [-1, 0]}, "does not fit an axis of 9"),
        ("Conv", (ones(2, 4, 3),), {"auto_pad": "SAME"}, "auto_pad 'SAME'"),
        (
            "Conv",
            (ones(2, 4, 3),),
            {"auto_pad": "SAME_UPPER", "dilations": [2]},
            "onnxruntime cannot run the network: .* Dilation",
        ),
        ("MaxPool", (), {}, r"node 'node0' \(MaxPool\) .* 'kernel_shape' is missing"),
        ("Reshape", (ints(-1, -1),), {}, r"node 'node0' \(Reshape\) is not well-formed"),
        ("Add", ("absent",), {}, "its input 'absent' is no output that we read"),
        ("Slice", (ints(1), ints(1), ints(2)), {}, r"shape \[1, 4, 0\] and so no values"),
    ],
)
def test_nodes_that_make_no_sense_are_refused(
    operator: str, values: tuple[Any, ...], attributes: dict[str, Any], reason: str
) -> None:
    assert re.search(reason, str(refused(lambda graph: graph.add(operator, *values, **attributes), SHAPE_1D)))


def float_input(name: str, shape: list[Any], kind: int = 1) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def replace_input(*shape: Any, kind: int = 1) -> Callable[[onnx.GraphProto], object]:
    return lambda graph: graph.input[0].CopyFrom(float_input("input", list(shape), kind))


def leave_out_the_output(graph: onnx.GraphProto) -> None:
    del graph.node[1].output[:]


def weigh_sparsely(graph: onnx.GraphProto) -> None:
    values, indices = numpy_helper.from_array(ones(1), "sparse"), numpy_helper.from_array(ints(0), "indices")
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [6]))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda graph: graph.output[0].CopyFrom(float_input("c0", [6, 3])), "does not depend on its input"),
        (replace_input("N", "M"), "more open than the batch"),
        (replace_input(1, 0), "more open than the batch"),
        (replace_input(1, 3, kind=7), "not floating-point"),
        (replace_input(1, 2**40), "larger than we handle"),
        (weigh_sparsely, "sparse initializers"),
        (leave_out_the_output, r"node 'node1' \(Relu\) .* no output"),
        (lambda graph: graph.node[1].ClearField("input"), "node1"),
    ],
)
def test_graphs_that_we_do_not_read_are_refused(edit: Callable[[onnx.GraphProto], object], reason: str) -> None:
    with pytest.raises(NetworkError, match=reason):
        parse_onnx(edited(edit))


def test_what_onnxruntime_cannot_read_is_refused() -> None:
    graph = Graph(FLAT)
    graph.add("Relu")
    with pytest.raises(NetworkError, match="onnxruntime cannot read the network"):
        parse_onnx(graph.model(opset=99))


def test_the_oracle_takes_floating_point_inputs() -> None:
    graph = Graph([1, 3], dtype="i8")
    graph.add("Identity")
    with pytest.raises(NetworkError, match=r"tensor\(int64\); we read floating-point inputs"):
        Runtime(graph.model())


def test_operators_of_other_domains_are_refused() -> None:
    content = edited(lambda graph: setattr(graph.node[1], "domain", "com.example"))
    with pytest.raises(UnsupportedOperator, match=r"operator com\.example\.Relu"):
        parse_onnx(content)


def test_outputs_beside_the_first_are_refused() -> None:
    def ask_for_indices(graph: onnx.GraphProto) -> None:
        (pool,) = (node for node in graph.node if node.op_type == "MaxPool")
        pool.output.append("indices")
        graph.output.append(helper.make_tensor_value_info("indices", 7, None))

    with pytest.raises(NetworkError, match=r"an output that no node gives"):
        parse_onnx(edited(ask_for_indices, convolutional))


def test_no_operator_is_silently_skipped() -> None:
    """Every operator of ONNX that we have no rule for is refused by name, wherever it stands."""
    known = {*operators.OPERATORS, *operators.CONSTANT}
    names = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""} - known
    assert len(names) > 100
    for name in names:
        graph = Graph(FLAT)
        graph.add("Relu")
        graph.add(name)
        graph.add("Relu")
        with pytest.raises(UnsupportedOperator, match=f"operator {name} "):
            parse_onnx(graph.model())


def test_unsupported_operator_names_the_file(tmp_path: Path) -> None:
    graph = Graph(FLAT)
    graph.add("Hardmax")
    file = tmp_path / "net.onnx"
    file.write_bytes(graph.model())
    with pytest.raises(UnsupportedOperator, match=r"net\.onnx: operator Hardmax \(node 'node0'\)"):
        load(file)


DAMAGED = gzip.compress(dense(), mtime=0)[:10] + b"\xff" * 50


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x1f\x8bgarbage", b"\x00" * 100, DAMAGED, DAMAGED[:10]])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(content)
    with pytest.raises(NetworkError, match=r"net\.onnx: (not an ONNX model|it cannot be read)"):
        load(file)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="No such file"):
        load(tmp_path / "absent.onnx")
    with pytest.raises(NetworkError, match="cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(value: float) -> None:
    assert "finite" in str(refused(lambda graph: graph.add("Add", np.full(6, value, "f4"))))


def test_a_negative_variance_is_refused() -> None:
    def normalize(graph: Graph) -> None:
        graph.add("BatchNormalization", ones(4), ones(4), ones(4), -ones(4))

    assert "finite" in str(refused(normalize, SHAPE_1D))


def test_outputs_that_overflow_are_refused() -> None:
    def overflow(graph: Graph) -> None:
        graph.add("Mul", np.full(6, 1e30, "f4"))
        graph.add("Mul", np.full(6, 1e30, "f4"))

    assert "an output is not a finite number" in str(refused(overflow))


def test_compressed_networks_are_read(tmp_path: Path) -> None:
    for name in ("net.onnx.gz", "net.onnx"):
        file = tmp_path / name
        file.write_bytes(gzip.compress(dense()))
        assert load_chain(file).relus_per_layer == (6, 6)


def test_weights_in_a_file_beside_the_network_are_read(tmp_path: Path) -> None:
    model = onnx.load_model_from_string(dense())
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert agrees(load(tmp_path / "net.onnx"))
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(NetworkError, match=r"net\.onnx: its weights are in another file"):
        load(tmp_path / "net.onnx")


# --- the check against onnxruntime (FIELD: a bias dropped, an operator skipped, a matrix transposed) ------------------


def drop_bias(node: Node) -> Any:
    return node.tensor()


def transposed(node: Node) -> Any:
    return node.make.mapped(node.tensor(), Dense(node.numbers(1)), (1, 6))


def a_little_off(node: Node) -> Any:
    return node.make.scaled(gemm(node), 1.0005)


@pytest.mark.parametrize(
    ("operator", "fault"),
    [("Add", drop_bias), ("MatMul", transposed), ("Relu", drop_bias), ("Gemm", a_little_off)],
)
def test_a_fault_in_the_reader_is_caught(monkeypatch: pytest.MonkeyPatch, operator: str, fault: Any) -> None:
    monkeypatch.setitem(operators.HANDLERS, operator, fault)
    with pytest.raises(NetworkError, match="differs from onnxruntime"):
        parse_onnx(dense())


@pytest.mark.parametrize(
    ("operator", "values", "fault"),
    [("Relu", (), identity), ("Clip", (np.float32(-12), np.float32(12)), identity)],
)
def test_a_fault_at_negative_or_few_inputs_is_caught(
    monkeypatch: pytest.MonkeyPatch, operator: str, values: tuple[Any, ...], fault: Any
) -> None:
    monkeypatch.setitem(operators.HANDLERS, operator, fault)
    assert "differs from onnxruntime" in str(refused(lambda graph: graph.add(operator, *values)))


def test_a_lost_output_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operators.HANDLERS, "Relu", lambda node: node.tensor().moved(np.array([[0]])))
    assert "onnxruntime gives 6 outputs where we read 1" in str(refused(lambda graph: graph.add("Relu")))


def test_networks_are_compared_point_by_point_if_they_are_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single row of points has the shape of an input."""
    monkeypatch.setattr(agree, "BATCH_VALUES", 1)
    assert agrees(parse_onnx(dense()))


def test_relative_error_sees_one_wrong_small_output() -> None:
    theirs = np.array([[1000.0, 1.0], [900.0, 20.0]])
    assert relative_error(theirs + np.array([[0, 0], [0, 0.1]]), theirs) == pytest.approx(0.1 / 20)
    assert relative_error(theirs - 1, theirs) == pytest.approx(1 / 20)
    assert relative_error(np.zeros((2, 2)), np.zeros((2, 2))) == 0
    assert relative_error(np.ones((2, 2)), np.zeros((2, 2))) == np.inf
    assert not relative_error(np.full((2, 2), np.nan), theirs) <= 1


# --- mutated files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_mutated_files_are_read_right_or_refused(seed: int) -> None:
    """56 mutants a seed: either one of our exceptions, or a network that onnxruntime agrees with."""
    random = np.random.default_rng(seed)
    originals = [dense(seed=seed), convolutional(seed=seed), residual(), CASES["max pool"](), CASES["clip, old"]()]
    outcomes = {"read": 0, "refused": 0}
    for number in range(56):
        content = bytearray(originals[number % len(originals)])
        for _ in range(random.integers(1, 4)):
            mutate(content, random)
        try:
            network = parse_onnx(bytes(content))
        except GinnacerError:
            outcomes["refused"] += 1
        else:
            assert agrees(network)
            outcomes["read"] += 1
    assert min(outcomes.values()) > 0


def mutate(content: bytearray, random: np.random.Generator) -> None:
    """Change, drop, double or insert some bytes; half of the time among the node descriptions at the front."""
    at = int(random.integers(len(content) if random.random() < 0.5 else min(len(content), 400)))
    match random.integers(5):
        case 0:
            content[at] ^= 1 << int(random.integers(8))
        case 1:
            content[at] = int(random.integers(256))
        case 2:
            del content[at : at + int(random.integers(1, 9))]
        case 3:
            content[at:at] = content[at : at + int(random.integers(1, 30))]
        case _:
            content[at:at] = random.bytes(int(random.integers(1, 5)))


ORIGINALS: list[Callable[[], bytes]] = [dense, convolutional, residual, two_sided, *CASES.values()]


def test_mutated_graphs_are_read_right_or_refused() -> None:
    """600 mutants, all of them well-formed protobuf, so that it is our reader that has to judge them."""
    random = np.random.default_rng(0)
    outcomes = {"read": 0, "refused": 0}
    for number in range(600):
        model = onnx.load_model_from_string(ORIGINALS[number % len(ORIGINALS)]())
        mutate_graph(model.graph, random)
        try:
            network = parse_onnx(model.SerializeToString())
        except GinnacerError:
            outcomes["refused"] += 1
        else:
            assert agrees(network)
            outcomes["read"] += 1
    assert outcomes["read"] > 80
    assert outcomes["refused"] > 200


def mutate_graph(graph: onnx.GraphProto, random: np.random.Generator) -> None:
    """Change an operator, an attribute, the inputs of a node, a constant or the input, or drop or double a node."""
    node = graph.node[random.integers(len(graph.node))]
    names = [
        "input",
        "",
        *(tensor.name for tensor in graph.initializer),
        *(n.output[0] for n in graph.node if n.output),
    ]
    match random.integers(10):
        case 0:
            node.op_type = str(random.choice(list(operators.OPERATORS)))
        case 1 | 2 if node.attribute:
            mutate_attribute(node.attribute[random.integers(len(node.attribute))], random)
        case 3 if node.input:
            node.input[random.integers(len(node.input))] = str(random.choice(names))
        case 4:
            node.input.append(str(random.choice(names)))
        case 5 | 8 | 9 if graph.initializer:
            mutate_constant(graph.initializer[random.integers(len(graph.initializer))], random)
        case 6:
            extents = graph.input[0].type.tensor_type.shape.dim
            extents[random.integers(len(extents))].dim_value = int(random.integers(-1, 5))
        case 7 if len(graph.node) > 1:
            graph.node.remove(node)
        case _:
            node.attribute.append(helper.make_attribute("axis", int(random.integers(-3, 4))))


def mutate_attribute(attribute: onnx.AttributeProto, random: np.random.Generator) -> None:
    match helper.get_attribute_value(attribute):
        case int():
            attribute.i = int(random.integers(-3, 5))
        case float():
            attribute.f = float(random.choice([-1.0, 0.0, 0.5, np.inf, np.nan]))
        case bytes():
            attribute.s = random.choice([b"VALID", b"SAME_UPPER", b"SAME_LOWER", b"NOTSET", b"", b"\xff"])
        case _:
            values = [int(value) for value in random.integers(-2, 5, random.integers(5))]
            attribute.CopyFrom(helper.make_attribute(attribute.name, values, attr_type=onnx.AttributeProto.INTS))


def mutate_constant(tensor: onnx.TensorProto, random: np.random.Generator) -> None:
    values = numpy_helper.to_array(tensor)
    match random.integers(5):
        case 0:
            values = values.T
        case 1:
            values = values[None]
        case 2:
            values = values.reshape(-1)[: random.integers(values.size + 1)]
        case 3:
            values = values.astype(random.choice(["f4", "f8", "i8", "?"]))
        case _:
            values = np.where(random.random(values.shape) < 0.2, random.choice([0, -1, 3, 1000]), values)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), tensor.name))


# --- the public benchmarks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "relus"),
    [
        ("acasxu/ACASXU_run2a_1_1_batch_2000.onnx", [50] * 6),
        ("acasxu/ACASXU_run2a_5_9_batch_2000.onnx", [50] * 6),
        ("mnistfc/mnist-net_256x2.onnx", [256] * 2),
        ("mnistfc/mnist-net_256x4.onnx", [256] * 4),
        ("mnistfc/mnist-net_256x6.onnx", [256] * 6),
        ("toyadmos/ad01.onnx", [128, 128, 128, 128, 8, 128, 128, 128, 128]),
        ("vww/vww_96_tail16.onnx", [2304, *[4608] * 11, 1152, 2304, 2304, 2304]),
    ],
)
def test_benchmark_networks(file: str, relus: list[int]) -> None:
    assert list(load_chain(benchmark(file)).relus_per_layer) == relus


def test_all_acas_networks_load() -> None:
    folder = benchmark("acasxu")
    files = sorted(folder.glob("*.onnx"))
    assert len(files) == 45
    for file in files:
        assert load(file).relus == 300


def test_visual_wake_words_gives_the_original_scores() -> None:
    network = load(benchmark("vww", "vww_96.onnx"))
    assert network.relus == 231_552
    images, scores = (np.load(benchmark("vww", name)) for name in ("inputs.npy", "logits.npy"))
    np.testing.assert_allclose(network(images.reshape(2, -1)), scores, atol=1e-5)


def test_toyadmos_gives_the_original_outputs() -> None:
    network = load(benchmark("toyadmos", "ad01.onnx"))
    windows, outputs = (np.load(benchmark("toyadmos", name)) for name in ("inputs.npy", "outputs.npy"))
    np.testing.assert_allclose(network(windows), outputs, atol=1e-2)
