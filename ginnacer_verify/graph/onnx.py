"""A Network, or a Graph of ReLUs, as an ONNX model: for tools that read ONNX and for replaying witnesses."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ginnacer_verify.arrays import dense
from ginnacer_verify.errors import UnsupportedOperator
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input
from ginnacer_verify.graph.linear import dense_of
from ginnacer_verify.graph.network import Network

if TYPE_CHECKING:
    import onnx

OPSET = 13
IR_VERSION = 8
"""Both are old enough for the readers of Marabou 2.0 and of the competition's tools."""


def network_model(network: Network) -> bytes:
    """The network as one chain of Gemm and Relu in its own element type: weights are rounded to it."""
    from onnx import helper

    nodes, constants, last = [], [], "input"
    if network.input_shape != (1, network.inputs):
        constants.append(constant("flat", np.array([1, network.inputs], dtype=np.int64)))
        nodes.append(helper.make_node("Reshape", [last, "flat"], [last := "flat_input"]))
    for index, layer in enumerate(network.layers, start=1):
        constants += [constant(f"W{index}", dense(layer.weight).astype(network.dtype))]
        constants += [constant(f"b{index}", layer.bias.astype(network.dtype))]
        nodes.append(helper.make_node("Gemm", [last, f"W{index}", f"b{index}"], [f"y{index}"], transB=1))
        last = f"y{index}"
        if index < len(network.layers):
            nodes.append(helper.make_node("Relu", [last], [last := f"x{index}"]))
    constants.append(constant("shape", np.array(network.output_shape, dtype=np.int64)))
    nodes.append(helper.make_node("Reshape", [last, "shape"], ["output"]))
    return model_bytes(
        nodes, constants, {"input": network.input_shape}, {"output": network.output_shape}, network.dtype
    )


def graph_model(graph: Graph) -> bytes:
    """A graph of one input tensor, affine maps and ReLUs as Gemm, Relu and Add, in its own element type."""
    from onnx import helper

    nodes, constants, names = list["onnx.NodeProto"](), list["onnx.TensorProto"](), list[str]()
    if graph.input_shape != (1, graph.inputs):
        constants.append(constant("flat", np.array([1, graph.inputs], dtype=np.int64)))
        nodes.append(helper.make_node("Reshape", ["input", "flat"], ["flat_input"]))
    for number, node in enumerate(graph.nodes):
        match node:
            case Input():
                names.append("flat_input" if nodes else "input")
            case Apply(function=Relu()):
                names.append(f"relu{number}")
                nodes.append(helper.make_node("Relu", [names[node.sources[0]]], [names[-1]]))
            case Affine():
                last = number == len(graph.nodes) - 1
                names.append(graph.y[0].name if last else f"affine{number}")
                total = ""
                for k, (source, one) in enumerate(zip(node.sources, node.maps, strict=True)):
                    final = k == len(node.maps) - 1
                    bias = node.bias if final else np.zeros(node.size)
                    own = [f"weight{number}_{k}", f"bias{number}_{k}"]
                    constants += [constant(own[0], dense_of(one).astype(graph.dtype))]
                    constants += [constant(own[1], bias.astype(graph.dtype))]
                    product = names[-1] if final and not total else f"gemm{number}_{k}"
                    nodes.append(helper.make_node("Gemm", [names[source], *own], [product], transB=1))
                    if total:
                        added = names[-1] if final else f"add{number}_{k}"
                        nodes.append(helper.make_node("Add", [total, product], [added]))
                        product = added
                    total = product
            case _:
                raise UnsupportedOperator(type(node).__name__, str(number), "only affine maps and ReLUs are written")
    outputs = {graph.y[0].name: graph.output_shape}
    return model_bytes(nodes, constants, {"input": graph.input_shape}, outputs, graph.dtype)


def model_bytes(
    nodes: "list[onnx.NodeProto]",
    constants: "list[onnx.TensorProto]",
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    dtype: np.dtype[Any],
) -> bytes:
    """A serialised, checked model of the given nodes."""
    import onnx
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(dtype)
    graph = helper.make_graph(
        nodes,
        "ginnacer_verify",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs.items()],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    model.producer_name = "ginnacer-verify"
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def constant(name: str, values: np.ndarray[Any, Any]) -> "onnx.TensorProto":
    """A named constant of the graph."""
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ascontiguousarray(values), name)
