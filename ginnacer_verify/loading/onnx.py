"""An ONNX model as a Graph: its nodes are read once, in order, those that no output needs left out."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import NetworkError, UnsupportedOperator
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.graph import Tensor as Described
from ginnacer_verify.loading.composer import Composer, Constant, Tensor, Value, size_of
from ginnacer_verify.loading.node import Node
from ginnacer_verify.loading.operators import CONSTANT, CONTROL, OPERATORS, RANDOM
from ginnacer_verify.loading.operators.shape import SHAPE
from ginnacer_verify.loading.whole import TRUTH, WHOLE, Whole

if TYPE_CHECKING:
    import onnx

MALFORMED = (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError, MemoryError, AttributeError)
"""What numpy and Python raise when a node's attributes or shapes make no sense."""
ELEMENT_TYPES = {1: "float32", 10: "float16", 11: "float64"}
FOLDED = {"Mul", "Div", "Sqrt", "Reciprocal", "Neg", "Abs", "Cast", "Identity", "Constant", "ConstantOfShape"}
"""Constants that these make out of others are off by a rounding each; more is refused where that counts."""


SAME = {"Abs", "Add", "Max", "Min", "Neg", "Sub"}
LARGEST_WHOLE = 2**20
"""Operators that do the same with whole numbers as with others, as long as these are not larger than that."""
INDICES = {"Shape", "Size", "Range", "Equal", "ScatterND", "ScatterElements"}
"""These give whole numbers, or move what they are given."""


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
        raise NetworkError(_no_model(content)) from problem
    if not model.graph.node:
        raise NetworkError(_no_model(content))
    return model


def _no_model(content: bytes) -> str:
    """What the bytes are instead."""
    if content.lstrip()[:1] in {b";", b"("}:
        return "not an ONNX model but a text, such as VNN-LIB; are the arguments swapped?"
    return "not an ONNX model, or one without any node" if content else "the file is empty"


def operator_uses(model: "onnx.ModelProto") -> list[OperatorUse]:
    """Every operator of the model in order of first use: supported or unsupported."""
    counts = Counter(_operator(node) for node in _inlined(model).graph.node)
    known = {*OPERATORS, *CONSTANT}
    return [OperatorUse(name, count, "supported" if name in known else "unsupported") for name, count in counts.items()]


def read_graph(model: "onnx.ModelProto", deadline: Deadline = FOREVER, content: bytes = b"") -> Graph:
    """The graph of a model with floating-point inputs and outputs; `content` are its bytes, if they hold all of it."""
    if model.ByteSize() != len(content):  # weights came from another file
        content = bytes(model.SerializeToString())
    model = _inlined(model)
    constants = _constants(model.graph)
    make = Composer()
    x = _inputs(model.graph, constants)
    values: dict[str, Value | Whole] = {**constants}
    for tensor in x:
        values[tensor.name] = make.whole(make.input(size_of(tensor.shape)), tensor.shape)
    reading = _Reading(model, make, 11 in _kinds(model))
    for position, node in enumerate(model.graph.node):
        deadline.check("the network was read")
        label = node.name or f"number {position + 1}"
        if not node.output:
            raise NetworkError(f"node {label!r} ({_operator(node)}) is not well-formed: it has no output")
        if reading.needed.intersection(node.output):
            values.update(zip(node.output, reading.outputs(node, label, values), strict=False))
    return _graph(reading, values, x, content)


@dataclass(frozen=True, eq=False)
class _Reading:
    """A model that is being read."""

    model: "onnx.ModelProto"
    make: Composer
    double: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "needed", self._needed())
        object.__setattr__(self, "opset", self._opset())

    needed: Any = ()
    opset: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    """The element types of computed tensors that are none of floating-point numbers."""

    def _needed(self) -> set[str]:
        """The names of all values that an output depends on."""
        needed = {output.name for output in self.model.graph.output}
        for node in reversed(self.model.graph.node):
            if needed.intersection(node.output):
                needed.update(node.input)
        return needed - {""}

    def _opset(self) -> int:
        return max((one.version for one in self.model.opset_import if one.domain in {"", "ai.onnx"}), default=1)

    def outputs(
        self, node: "onnx.NodeProto", label: str, values: dict[str, Value | Whole]
    ) -> tuple[Value | Whole, ...]:
        missing = [name for name in node.input if name and name not in values]
        if missing:
            raise UnsupportedOperator(_operator(node), label, f"its input {missing[0]!r} is not an output that we read")
        inputs = tuple(values[name] if name else None for name in node.input)
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused when it becomes a weight
                found = self._evaluated(node, label, inputs)
        except MALFORMED as problem:
            reason = (str(problem).splitlines() or [type(problem).__name__])[0]
            reason = f"{reason} is missing" if isinstance(problem, KeyError) else reason
            raise NetworkError(f"node {label!r} ({_operator(node)}) is not well-formed: {reason}") from problem
        return found if isinstance(found, tuple) else (found,)

    def _evaluated(
        self, node: "onnx.NodeProto", label: str, inputs: tuple[Value | Whole | None, ...]
    ) -> Value | Whole | tuple[Value | Whole, ...]:
        operator = _operator(node)
        if operator in RANDOM or (operator == "Dropout" and _is_training(inputs)):
            raise UnsupportedOperator(operator, label, "its values are random; export the network in evaluation mode")
        if operator in CONTROL:
            raise UnsupportedOperator(operator, label, "we read networks without branches and loops; export it traced")
        if operator in {"Shape", "Size"} and isinstance(inputs[0], Tensor):
            inputs = (np.broadcast_to(np.float32(0), inputs[0].shape),)
        if not any(isinstance(value, Tensor) for value in inputs):
            if any(isinstance(value, Whole) for value in inputs):
                return self._of_whole(node, inputs)
            return self._folded(node, label, inputs)
        if operator not in OPERATORS:
            raise UnsupportedOperator(operator, label)
        kind, attributes = self._kind(node, inputs), _attributes(node)
        if operator == "Cast" and kind not in {*WHOLE, TRUTH} and attributes.get("to") in WHOLE:
            return Whole.cast(node, cast("Tensor", inputs[0]))
        read = tuple(value if value is None else self.read(value) for value in inputs)
        if kind in {*WHOLE, TRUTH} and not _is_same_for_whole(operator, read):
            why = "of whole numbers that the network computes it gives something else than of others; cast them before"
            raise UnsupportedOperator(operator, label, why)
        made = Node(operator, label, read, attributes, len(node.output), self.opset, self.double, self.make, kind)
        self.kinds.update(dict.fromkeys(node.output, _kind_of(operator, attributes, kind)))
        return OPERATORS[operator](made)

    def read(self, value: Value | Whole) -> Value:
        """A value as operators take it."""
        return value.tensor(self.model, self.make) if isinstance(value, Whole) else value

    def _kind(self, node: "onnx.NodeProto", inputs: tuple[Value | Whole | None, ...]) -> int:
        """The element type of the first computed input."""
        names = (name for name, value in zip(node.input, inputs, strict=True) if isinstance(value, Tensor))
        return self.kinds.get(next(names), 1)

    def _of_whole(self, node: "onnx.NodeProto", inputs: tuple[Any, ...]) -> tuple[Whole, ...]:
        """What a node makes of whole numbers; rounding that nobody states, if it may be more than moving them."""
        self.make.unstated |= node.op_type not in {*SHAPE, *FOLDED, *INDICES}
        return Whole.of(node, inputs)

    def _folded(self, node: "onnx.NodeProto", label: str, inputs: tuple[Any, ...]) -> tuple[Constant, ...]:
        """The values of a node whose inputs are all constants, by ONNX's own reference implementation."""
        from onnx import helper, numpy_helper
        from onnx.reference import ReferenceEvaluator

        if node.op_type == "Constant" and node.attribute[0].name == "value":
            return (numpy_helper.to_array(node.attribute[0].t),)
        size_of([sum(value.size for value in inputs if value is not None)])
        names = [name for name in node.input if name]
        graph = helper.make_graph(
            [node],
            "constant",
            [helper.make_tensor_value_info(name, 1, None) for name in dict.fromkeys(names)],
            [helper.make_tensor_value_info(name, 1, None) for name in node.output if name],
        )
        single = helper.make_model(graph, opset_imports=list(self.model.opset_import))
        feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
        try:
            results = iter(ReferenceEvaluator(single).run(None, feeds))
        except Exception as problem:  # the reference implementation raises whatever its Python code raises
            raise UnsupportedOperator(_operator(node), label, "its constant inputs cannot be evaluated") from problem
        found = tuple(np.asarray(next(results)) if name else np.zeros(0) for name in node.output)
        moves = node.op_type in SHAPE or node.op_type in FOLDED
        self.make.unstated |= not moves and any(
            name and value.dtype.kind == "f" for name, value in zip(node.output, found, strict=True)
        )
        return found


def _kind_of(operator: str, attributes: dict[str, Any], kind: int) -> int:
    """The element type of what an operator gives, given that of what it takes."""
    match operator:
        case "Cast":
            return int(attributes.get("to", 1))
        case "ArgMax":
            return 7
        case "Equal":
            return TRUTH
    return kind if operator in {*SHAPE, *SAME} else 1


def _is_same_for_whole(operator: str, inputs: tuple[Value | None, ...]) -> bool:
    """Whether an operator gives the same of whole numbers as of real ones: those divide, and overflow, differently."""
    constants = (value for value in inputs if isinstance(value, np.ndarray))
    few = all(np.abs(value.astype(np.float64)).max(initial=0.0) <= LARGEST_WHOLE for value in constants)
    return operator in {*SHAPE, "Equal"} or (operator in SAME and few)


def _is_training(inputs: tuple[Value | Whole | None, ...]) -> bool:
    return len(inputs) > 2 and isinstance(inputs[2], np.ndarray) and bool(inputs[2].any())


def _operator(node: "onnx.NodeProto") -> str:
    """The operator's name, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in {"", "ai.onnx"} else f"{node.domain}.{node.op_type}"


def _inlined(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """The model with the bodies of its own functions in place of their calls."""
    if not model.functions:
        return model
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except Exception as problem:  # as raised by the C++ code
        raise NetworkError(f"the model's own functions cannot be inlined: {problem}") from problem


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


def _kinds(model: "onnx.ModelProto") -> set[int]:
    """The element types of all inputs, weights, casts and constants."""
    kinds = [value.type.tensor_type.elem_type for value in model.graph.input]
    kinds += [tensor.data_type for tensor in model.graph.initializer]
    kinds += [a.i for node in model.graph.node if node.op_type == "Cast" for a in node.attribute if a.name == "to"]
    kinds += [a.t.data_type for node in model.graph.node if node.op_type == "Constant" for a in node.attribute]
    return set(kinds)


def _precision(model: "onnx.ModelProto", make: Composer) -> str:
    """The coarsest type that the model computes in; empty if it computes weights."""
    coarsest = next((ELEMENT_TYPES[kind] for kind in (10, 1, 11) if kind in _kinds(model)), "float32")
    return "" if make.unstated else coarsest


def _inputs(graph: "onnx.GraphProto", constants: dict[str, Constant]) -> tuple[Described, ...]:
    """The inputs that are not initializers: old files list the weights among the inputs too."""
    inputs = [value for value in graph.input if value.name not in constants]
    if not inputs:
        raise NetworkError("the network has no input")
    return tuple(_input(value) for value in inputs)


def _input(value: "onnx.ValueInfoProto") -> Described:
    kind = value.type.tensor_type
    if kind.elem_type not in ELEMENT_TYPES:
        raise NetworkError(f"the network's input {value.name!r} is not floating-point; export it as float or double")
    if not kind.HasField("shape"):
        raise NetworkError(f"the network's input {value.name!r} has no shape; export it with one")
    shape = tuple(int(extent.dim_value) for extent in kind.shape.dim)
    unknown = [position for position, extent in enumerate(shape) if extent < 1]
    if unknown not in ([], [0]):
        raise NetworkError(
            f"the input's shape {list(shape)} leaves more open than the batch; export it with fixed sizes"
        )
    return Described(value.name, tuple(max(extent, 1) for extent in shape), ELEMENT_TYPES[kind.elem_type])


def _graph(reading: _Reading, values: dict[str, Value | Whole], x: tuple[Described, ...], content: bytes) -> Graph:
    model, make = reading.model, reading.make
    names = [output.name for output in model.graph.output]
    found = [reading.read(values[name]) for name in names if name in values]
    if len(found) < len(names) or not names:
        raise NetworkError("the network has an output that no node gives")
    if not any(isinstance(value, Tensor) for value in found):
        raise NetworkError("the network's output does not depend on its input")
    for value in found:
        if not size_of(value.shape):
            raise NetworkError(f"the network's output has the shape {list(value.shape)} and so no values")
    kinds = [ELEMENT_TYPES.get(output.type.tensor_type.elem_type, x[0].dtype) for output in model.graph.output]
    y = tuple(Described(name, v.shape, kind) for name, v, kind in zip(names, found, kinds, strict=True))
    ends = np.cumsum([0, *(tensor.size for tensor in y)])
    pieces = [(value, np.arange(first, last)) for value, first, last in zip(found, ends, ends[1:], strict=False)]
    whole = found[0] if len(found) == 1 else make.joined(pieces, (int(ends[-1]),))
    assert isinstance(whole, Tensor)
    return replace(make.graph(make.ordered(whole), x, y, content), precision=_precision(model, make))
