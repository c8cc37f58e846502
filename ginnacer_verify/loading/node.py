"""Node: one node of an ONNX graph with its inputs already read, as the operators' readers are given it."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.errors import UnsupportedOperator
from ginnacer_verify.graph.function import Function
from ginnacer_verify.loading.composer import Composer, Constant, Tensor, Value


@dataclass(frozen=True, eq=False)
class Node:
    """`None` stands for an input that is left out; `double` says whether the model computes in float64 anywhere, `kind`
    is the element type of the first computed input, as ONNX numbers them."""

    operator: str
    name: str
    inputs: tuple[Value | None, ...]
    attributes: Mapping[str, Any]
    outputs: int
    opset: int
    double: bool
    make: Composer
    kind: int = 1

    def tensor(self, position: int = 0) -> Tensor:
        match self.input(position):
            case Tensor() as value:
                return value
            case None:
                raise self.unsupported(f"its input {position} is missing")
            case _:
                raise self.unsupported("it needs a computed tensor where the graph has a constant")

    def constant(self, position: int) -> Constant:
        match self.input(position):
            case Tensor():
                raise self.unsupported(f"its input {position} is computed by the network; we need a constant there")
            case None:
                raise self.unsupported(f"its input {position} is missing")
            case value:
                return value

    def value(self, position: int) -> Value:
        found = self.input(position)
        if found is None:
            raise self.unsupported(f"its input {position} is missing")
        return found

    def values(self) -> list[Value]:
        return [self.value(position) for position in range(len(self.inputs))]

    def numbers(self, position: int) -> Array:
        return self.constant(position).astype(np.float64)

    def has(self, position: int) -> bool:
        return self.input(position) is not None

    def integers(self, attribute: str, position: int) -> list[int] | None:
        """What newer opsets pass as an input and older ones as an attribute."""
        if self.has(position):
            return [int(value) for value in self.constant(position).reshape(-1)]
        values = self.attributes.get(attribute)
        return None if values is None else [int(value) for value in values]

    def real(self, attribute: str, default: float) -> float:
        """An attribute that is a float32, also where it is left out."""
        return float(np.float32(self.attributes.get(attribute, default)))

    def axis(self, axes: int, default: int | None = None) -> int:
        """The attribute `axis`, counted from the front."""
        axis = int(self.attributes["axis"] if default is None else self.attributes.get("axis", default))
        if not -axes <= axis < axes:
            raise ValueError(f"axis {axis} is not one of {axes}")
        return axis % axes

    def function(self, module: str, name: str, *arguments: Any) -> Function:
        """A function of `graph`, imported when a network needs it."""
        try:
            found: Function = getattr(import_module(f"ginnacer_verify.graph.{module}"), name)(*arguments)
        except (ImportError, AttributeError) as problem:
            raise self.unsupported() from problem
        return found

    def unsupported(self, why: str = "") -> UnsupportedOperator:
        return UnsupportedOperator(self.operator, self.name, why)

    def input(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None
