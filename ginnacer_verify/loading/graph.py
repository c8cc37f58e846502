"""An ONNX model as a Network: the graph is walked once, every tensor in it affine in one ReLU layer's values."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ginnacer_verify.errors import NetworkError, UnsupportedOperator
from ginnacer_verify.loading.chain import Chain, Shape, Tensor, size_of
from ginnacer_verify.loading.operators import AFFINE, CONSTANT, REWRITTEN, Constant, Node, Value
from ginnacer_verify.network import Network

if TYPE_CHECKING:
    import onnx

HANDLERS = AFFINE | REWRITTEN
MALFORMED = (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError, MemoryError, AttributeError)
"""What numpy and Python raise when a node's attributes or shapes make no sense."""


@dataclass(frozen=True)
class OperatorUse:
    """How often an operator occurs in a model, and what we do with it."""

    operator: str
    count: int
    status: str


def parse_model(content: bytes, folder: Path | None = None) -> "onnx.ModelProto":
    """The ONNX model in the bytes of a file; `folder` is where weights kept in files beside it are looked up.

    onnx's checker is not asked: it refuses files that every runtime runs, and damage shows while reading."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(content)
        if folder is not None:
            onnx.load_external_data_for_model(model, str(folder))
    except onnx.checker.ValidationError as problem:
        raise NetworkError(f"its weights are in another file: {problem}") from problem
    except (DecodeError, ValueError) as problem:
        raise NetworkError("this is no ONNX model") from problem
    if not model.graph.node:
        raise NetworkError("this is no ONNX model, or one without any node")
    return model


def operator_uses(model: "onnx.ModelProto") -> list[OperatorUse]:
    """Every operator of the model in order of first use: supported, rewritten or unsupported."""
    counts = Counter(_operator(node) for node in model.graph.node)
    return [OperatorUse(operator, count, _status(operator)) for operator, count in counts.items()]


def _operator(node: "onnx.NodeProto") -> str:
    """The operator's name, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in {"", "ai.onnx"} else f"{node.domain}.{node.op_type}"


def _status(operator: str) -> str:
    if operator in REWRITTEN:
        return "rewritten"
    return "supported" if operator in AFFINE or operator in CONSTANT else "unsupported"


def read_graph(model: "onnx.ModelProto") -> Network:
    """The network of a model with one input and one output whose operators are all piecewise linear."""
    graph = model.graph
    constants = _constants(graph)
    name, shape, dtype = _input(graph, constants)
    chain = Chain(size_of(shape))
    values: dict[str, Value] = {**constants, name: chain.input(shape)}
    for position, node in enumerate(graph.node):
        label = node.name or f"number {position + 1}"
        values[node.output[0]] = _value(node, label, values, chain, model)
    return _network(graph, values, chain, shape, dtype, model)


def _value(
    node: "onnx.NodeProto", label: str, values: dict[str, Value], chain: Chain, model: "onnx.ModelProto"
) -> Value:
    if not node.output:
        raise NetworkError(f"node {label!r} ({_operator(node)}) is not well-formed: it has no output")
    missing = [name for name in node.input if name and name not in values]
    if missing:
        raise UnsupportedOperator(_operator(node), label, f"its input {missing[0]!r} is no output that we read")
    inputs = tuple(values[name] if name else None for name in node.input)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused when it becomes a weight
            return _evaluated(node, label, inputs, chain, model)
    except MALFORMED as problem:
        reason = (str(problem).splitlines() or [type(problem).__name__])[0]
        reason = f"{reason} is missing" if isinstance(problem, KeyError) else reason
        raise NetworkError(f"node {label!r} ({_operator(node)}) is not well-formed: {reason}") from problem


def _evaluated(
    node: "onnx.NodeProto", label: str, inputs: tuple[Value | None, ...], chain: Chain, model: "onnx.ModelProto"
) -> Value:
    operator = _operator(node)
    if operator == "Shape" and not node.attribute and isinstance(inputs[0], Tensor):
        return np.array(inputs[0].shape, dtype=np.int64)
    if not any(isinstance(value, Tensor) for value in inputs):
        return _folded(node, label, inputs, model)
    if operator not in HANDLERS:
        raise UnsupportedOperator(operator, label)
    used = sum(1 for name in node.output if name)
    return HANDLERS[operator](Node(operator, label, inputs, _attributes(node), used, chain))


def _folded(node: "onnx.NodeProto", label: str, inputs: tuple[Value | None, ...], model: "onnx.ModelProto") -> Constant:
    """The value of a node whose inputs are all constants, by ONNX's own reference implementation."""
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    if node.op_type == "Constant" and node.attribute[0].name == "value":
        return numpy_helper.to_array(node.attribute[0].t)
    names = [name for name in node.input if name]
    graph = helper.make_graph(
        [node],
        "constant",
        [helper.make_tensor_value_info(name, 1, None) for name in dict.fromkeys(names)],
        [helper.make_tensor_value_info(node.output[0], 1, None)],
    )
    single = helper.make_model(graph, opset_imports=list(model.opset_import))
    feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
    try:
        (result,) = ReferenceEvaluator(single).run(None, feeds)
    except Exception as problem:  # the reference implementation raises whatever its Python code raises
        raise UnsupportedOperator(_operator(node), label, "its constant inputs cannot be evaluated") from problem
    return np.asarray(result)


def _attributes(node: "onnx.NodeProto") -> dict[str, Any]:
    from onnx import helper

    plain = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in plain.items()}


def _constants(graph: "onnx.GraphProto") -> dict[str, Constant]:
    from onnx import numpy_helper

    if graph.sparse_initializer:
        raise NetworkError("sparse initializers are not supported; store the weights densely")
    try:
        return {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    except MALFORMED as problem:
        raise NetworkError(f"an initializer is not well-formed: {problem}") from problem


def _input(graph: "onnx.GraphProto", constants: dict[str, Constant]) -> tuple[str, Shape, np.dtype[Any]]:
    """The one input that is not an initializer: old files list the weights among the inputs too."""
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1:
        raise NetworkError(f"the network has {len(inputs)} inputs; we read networks with exactly one")
    kind = inputs[0].type.tensor_type
    if kind.elem_type not in {1, 11}:
        raise NetworkError("the network's input is neither float nor double; export it in one of them")
    if not kind.HasField("shape"):
        raise NetworkError("the network's input has no shape; export it with one")
    shape = tuple(int(extent.dim_value) for extent in kind.shape.dim)
    unknown = [position for position, extent in enumerate(shape) if extent < 1]
    if unknown not in ([], [0]):
        raise NetworkError(
            f"the input's shape {list(shape)} leaves more open than the batch; export it with fixed sizes"
        )
    return inputs[0].name, tuple(max(extent, 1) for extent in shape), np.dtype("f4" if kind.elem_type == 1 else "f8")


def _network(
    graph: "onnx.GraphProto",
    values: dict[str, Value],
    chain: Chain,
    shape: Shape,
    dtype: np.dtype[Any],
    model: "onnx.ModelProto",
) -> Network:
    if len(graph.output) != 1:
        raise NetworkError(f"the network has {len(graph.output)} outputs; we read networks with exactly one")
    output = values.get(graph.output[0].name)
    if not isinstance(output, Tensor):
        raise NetworkError("the network's output does not depend on its input")
    if not size_of(output.shape):
        raise NetworkError(f"the network's output has the shape {list(output.shape)} and so no values")
    return Network(chain.layers(output), shape, output.shape, dtype, model.SerializeToString())
