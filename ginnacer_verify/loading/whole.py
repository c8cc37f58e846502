"""Whole: what a model computes from values that it has cut to whole numbers: positions, sizes, masks.

Such values choose what is sliced, so even shapes depend on them, and no graph of tensors says that. But they are few:
the part of the model between the casts and the first use is kept as a model of its own, and is run where it is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.errors import NetworkError, UnsupportedOperator
from ginnacer_verify.graph.steps import Truncate
from ginnacer_verify.graph.table import Table
from ginnacer_verify.loading.composer import Composer, Constant, Tensor, size_of
from ginnacer_verify.loading.oracle import Runtime

if TYPE_CHECKING:
    import onnx

MOST = 8
"""Tables with more arguments than this are not for enumeration."""
LIMITS = {6: 2.0**31, 7: 2.0**63}
WHOLE, TRUTH = set(LIMITS), 9
"""ONNX's numbers for the element types of whole numbers, each with what they are below, and of truth values."""


@dataclass(frozen=True, eq=False)
class Whole:
    """The value `name` of a part of a model: `nodes`, which take `sources`, cut to whole numbers, and `constants`."""

    name: str
    nodes: Mapping[str, "onnx.NodeProto"]
    sources: Mapping[str, Tensor]
    constants: Mapping[str, Constant]

    @classmethod
    def cast(cls, node: "onnx.NodeProto", tensor: Tensor) -> "Whole":
        return cls(node.output[0], {node.output[0]: node}, {node.input[0]: tensor}, {})

    @classmethod
    def of(cls, node: "onnx.NodeProto", inputs: Sequence["Whole | Constant | None"]) -> tuple["Whole", ...]:
        """What one more node gives that takes none but such values and constants."""
        wholes = [value for value in inputs if isinstance(value, Whole)]
        named = zip(node.input, inputs, strict=True)
        constants = {name: value for name, value in named if isinstance(value, np.ndarray)}
        nodes = {key: own for one in wholes for key, own in one.nodes.items()} | {node.output[0]: node}
        sources = {key: own for one in wholes for key, own in one.sources.items()}
        constants |= {key: own for one in wholes for key, own in one.constants.items()}
        return tuple(cls(name, nodes, sources, constants) for name in node.output)

    def tensor(self, model: "onnx.ModelProto", make: Composer) -> Tensor:
        """A tensor of the graph: the values themselves, or a table that is asked with all of them."""
        if len(self.nodes) == 1:
            (cast,) = self.nodes.values()
            to = next(int(attribute.i) for attribute in cast.attribute if attribute.name == "to")
            return make.applied(Truncate(LIMITS[to]), *self.sources.values())
        scalars = [tensor.moved(np.array([at])) for tensor in self.sources.values() for at in tensor.positions.flat]
        operator = self.nodes[list(self.nodes)[-1]]
        if len(scalars) > MOST:
            why = f"it depends on {len(scalars)} whole numbers that the network computes, more than {MOST}"
            raise UnsupportedOperator(operator.op_type, operator.name, why)
        table = Lookup(self._model(model), len(scalars))
        try:
            shape = table.shape
        except NetworkError as problem:
            why = "what it makes of whole numbers cannot be evaluated where all are 0"
            raise UnsupportedOperator(operator.op_type, operator.name, why) from problem
        size = size_of(shape)
        columns = [one.broadcast((size,)) for one in scalars]
        found = make.applied(Table(table, len(columns)), *columns)
        return found.moved(found.positions.reshape(shape))

    def _model(self, model: "onnx.ModelProto") -> bytes:
        """The part as a model from floating-point numbers to the value, in float64."""
        from onnx import TensorProto, helper, numpy_helper

        last = [
            helper.make_node("Cast", [self.name], ["the value"], to=TensorProto.DOUBLE),
            helper.make_node("Shape", [self.name], ["the shape"]),
            helper.make_node("Shape", ["the shape"], ["the rank"]),
        ]
        graph = helper.make_graph(
            [*self.nodes.values(), *last],
            "whole numbers",
            [helper.make_tensor_value_info(name, TensorProto.DOUBLE, own.shape) for name, own in self.sources.items()],
            [
                helper.make_tensor_value_info("the value", TensorProto.DOUBLE, None),
                helper.make_tensor_value_info("the shape", TensorProto.INT64, None),
                helper.make_tensor_value_info("the rank", TensorProto.INT64, None),
            ],
            [numpy_helper.from_array(np.asarray(own), name) for name, own in self.constants.items()],
        )
        made = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
        return bytes(made.SerializeToString())


@dataclass(frozen=True, eq=False)
class Lookup:
    """The part of a model that computes with whole numbers, as a table: not a number where it cannot be run."""

    model: bytes
    arity: int

    def __call__(self, whole: Array) -> Array:
        try:
            value, shape = self._run(whole)
        except NetworkError:
            return np.array(np.nan)
        return value if shape == self.shape else np.array(np.nan)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The value's shape at the numbers 0."""
        return self._run(np.zeros(self.arity))[1]

    @cached_property
    def _runtime(self) -> Runtime:
        return Runtime(self.model)

    def _run(self, whole: Array) -> tuple[Array, tuple[int, ...]]:
        found = self._runtime(whole)
        first = len(found) - 1 - int(found[-1])  # the last number is the rank, before it comes the shape
        return found[:first], tuple(int(extent) for extent in found[first:-1])

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "arity": self.arity}  # a session belongs to one process
