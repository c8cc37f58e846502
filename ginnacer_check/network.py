"""The network: an ONNX file as a list of nodes, each the input, a sum of linear maps of earlier nodes, or a ReLU.

What is checked is the function of these nodes in real arithmetic. Weights count as the numbers that the file holds.
Quotients and roots of constants (Div, BatchNormalization, AveragePool) are rounded once to float64; that number counts.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from ginnacer_check.maps import Array, Convolution, Dense, Map, Pick

try:
    from flint import fmpq as _number  # much faster fractions, if python-flint is installed
except ImportError:
    _number = Fraction


class Unreadable(Exception):
    """A file that this program does not understand; the sentence says what."""


def _fraction(value: Any) -> Any:
    numerator, denominator = (value if isinstance(value, Fraction) else float(value)).as_integer_ratio()
    return _number(numerator, denominator)


def exactly(values: Array) -> Array:
    """The same numbers as fractions."""
    return np.asarray(np.frompyfunc(_fraction, 1, 1)(values), dtype=object)


@dataclass(frozen=True, eq=False)
class Node:
    """`sum of maps[k](value of sources[k]) + bias`; with `relu`, the ReLU of its source; without sources, the input."""

    sources: tuple[int, ...]
    maps: tuple[Map, ...]
    bias: Array
    relu: bool = False

    @property
    def size(self) -> int:
        return len(self.bias)

    @cached_property
    def absolute(self) -> tuple[Map, ...]:
        return tuple(one.changed(abs) for one in self.maps)

    @cached_property
    def terms(self) -> int:
        return max(one.terms for one in self.maps) + len(self.maps) + 1


@dataclass(frozen=True, eq=False)
class Network:
    """Nodes in order; the first is the input, the last the output. `unit` is the rounding unit of their numbers."""

    nodes: tuple[Node, ...]
    unit: float | int = 2.0**-53

    @cached_property
    def relus(self) -> tuple[int, ...]:
        return tuple(number for number, node in enumerate(self.nodes) if node.relu)

    @cached_property
    def entering(self) -> frozenset[int]:
        """The nodes whose values enter a ReLU and come from one: on others a sum's interval is as good as anything."""
        behind: set[int] = set()
        for number, node in enumerate(self.nodes):
            if node.relu or behind.intersection(node.sources):
                behind.add(number)
        return frozenset(self.nodes[number].sources[0] for number in self.relus) & behind

    @cached_property
    def exact(self) -> "Network":
        """The same with fractions as numbers."""
        nodes = (replace(n, maps=tuple(m.changed(exactly) for m in n.maps), bias=exactly(n.bias)) for n in self.nodes)
        return Network(tuple(nodes), 0)

    def values(self, x: Array) -> list[Array]:
        """The value of each node for one input, in the arithmetic of the network."""
        values: list[Array] = []
        for node in self.nodes:
            if node.relu:
                values.append(np.where(values[node.sources[0]] > 0, values[node.sources[0]], 0 * node.bias))
            elif node.sources:
                parts = (one.apply(values[source]) for one, source in zip(node.maps, node.sources, strict=True))
                values.append(sum(parts, node.bias))
            else:
                values.append(x)
        return values


@dataclass(frozen=True)
class Value:
    """A computed tensor: the node that holds it, flat, and its shape."""

    node: int
    shape: tuple[int, ...]


MOVING = {
    "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
"""Operators that put numbers elsewhere and do not calculate with them."""
NEVER_CONSTANT = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}


class Reader:
    """Turns the operators of an ONNX graph into nodes, one after the other."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.opset = max((one.version for one in model.opset_import if one.domain in {"", "ai.onnx"}), default=1)
        self.nodes: list[Node] = []
        self.values: dict[str, Any] = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        inputs = [one for one in model.graph.input if one.name not in self.values]
        if len(inputs) != 1 or len(model.graph.output) != 1:
            raise Unreadable("the network has several inputs or outputs: only networks with one of each are checked")
        shape = tuple(d.dim_value if d.HasField("dim_value") else 1 for d in inputs[0].type.tensor_type.shape.dim)
        self.values[inputs[0].name] = self.add(Node((), (), np.zeros(prod(shape))), shape)
        for proto in model.graph.node:
            self._read(proto)
        output = self.values[model.graph.output[0].name]
        if not isinstance(output, Value):
            raise Unreadable("the output of the network does not depend on its input")
        self.output = output.node

    def network(self) -> Network:
        """The nodes that the output needs."""
        needed = {0, self.output}
        for number in range(self.output, -1, -1):
            if number in needed:
                needed.update(self.nodes[number].sources)
        place = {old: new for new, old in enumerate(sorted(needed))}
        chosen = (self.nodes[old] for old in sorted(needed))
        nodes = tuple(replace(node, sources=tuple(place[source] for source in node.sources)) for node in chosen)
        numbers = [node.bias for node in nodes] + [one.weight for node in nodes for one in node.maps]
        if not all(np.isfinite(some).all() for some in numbers):
            raise Unreadable("a weight of the network is not a finite number")
        return Network(nodes)

    def _read(self, proto: onnx.NodeProto) -> None:
        kind, given = proto.op_type, [self.values[name] if name else None for name in proto.input]
        if proto.domain not in {"", "ai.onnx"}:
            raise Unreadable(f"the operator {proto.domain}.{kind} is not one that this program reads")
        computed = any(isinstance(one, Value) for one in given)
        if kind == "Shape" or (not computed and kind not in NEVER_CONSTANT):
            results = self._run(proto, [np.zeros(v.shape) if isinstance(v, Value) else v for v in given])
        elif kind in MOVING and computed:
            results = self._move(proto, given)
        elif method := getattr(self, f"read_{kind.lower()}", None):
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
            results = [method(attributes, *given)]
        else:
            raise Unreadable(f"the operator {kind} is not one that this program reads")
        if any(proto.output[len(results) :]):
            raise Unreadable(f"the operator {kind} has several outputs here, which this program does not read")
        self.values.update(zip(proto.output, results, strict=False))

    def _run(self, proto: onnx.NodeProto, given: list[Any]) -> list[Any]:
        """What the operator gives for these numbers, as the ONNX project's own reference calculates it."""
        named = {name: one for name, one in zip(proto.input, given, strict=True) if name}
        return list(ReferenceEvaluator(proto, opsets={"": self.opset}).run(None, named))

    def _move(self, proto: onnx.NodeProto, given: list[Any]) -> list[Value]:
        """An operator that only moves numbers: run on zeros it shows the constants, run on indices what comes where."""
        if proto.op_type == "Dropout" and len(given) > 2 and given[2] is not None and np.any(given[2]):
            raise Unreadable("a Dropout in training mode is not something that this program reads")
        sources = [(k, one) for k, one in enumerate(given) if isinstance(one, Value)]
        starts = np.cumsum([1, *(prod(one.shape) for _, one in sources)])
        zeros, indices = list(given), list(given)
        for (k, one), start in zip(sources, starts, strict=False):
            zeros[k] = np.zeros(one.shape)
            indices[k] = np.arange(start, start + prod(one.shape), dtype=float).reshape(one.shape)
        results = []
        for name, bias, index in zip(proto.output, self._run(proto, zeros), self._run(proto, indices), strict=False):
            if not name or bias.dtype != float:
                continue  # the mask of a Dropout
            moved, maps = np.asarray(index - bias).reshape(-1).astype(int), []
            for (_, one), start in zip(sources, starts, strict=False):
                local, size = moved - start, prod(one.shape)
                maps.append(Pick(np.where((local >= 0) & (local < size), local, -1), size))
            results.append(self.affine([one.node for _, one in sources], maps, bias.shape, bias))
        return results

    def add(self, node: Node, shape: tuple[int, ...]) -> Value:
        self.nodes.append(node)
        return Value(len(self.nodes) - 1, shape)

    def affine(self, sources: list[int], maps: list[Any], shape: Any, bias: Any = 0.0) -> Value:
        """A sum of linear maps, and a bias that is spread as numpy spreads it."""
        for source, one in zip(sources, maps, strict=True):
            if prod(shape) != one.outputs or self.nodes[source].size != one.inputs:
                raise Unreadable(f"a layer of {one.inputs} inputs and {one.outputs} outputs does not fit its tensors")
        bias = np.array(np.broadcast_to(bias, shape), float).reshape(-1)
        if len(maps) == 1 and isinstance(maps[0], Pick) and maps[0].identity:
            before = self.nodes[sources[0]]
            if not bias.any():
                return Value(sources[0], shape)
            if before.maps and not before.bias.any():  # a layer's bias as an operator of its own
                return self.add(replace(before, bias=bias), shape)
        return self.add(Node(tuple(sources), tuple(maps), bias), shape)

    def _spread(self, value: Value, shape: tuple[int, ...], factor: Any = None) -> Pick:
        """A value in a larger shape, as numpy spreads it, times a number or numbers of that shape."""
        index = np.broadcast_to(np.arange(prod(value.shape)).reshape(value.shape), shape)
        weight = None if factor is None else np.array(np.broadcast_to(factor, shape), float).reshape(-1)
        return Pick(index, prod(value.shape), weight)

    def read_cast(self, a: Any, value: Value) -> Value:
        if a["to"] not in {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE}:
            raise Unreadable("a Cast of a computed value to another type than float or double is not read here")
        return value

    def read_relu(self, _: Any, value: Value) -> Value:
        return self.add(Node((value.node,), (), np.zeros(prod(value.shape)), relu=True), value.shape)

    def read_leakyrelu(self, a: Any, value: Value) -> Value:
        slope = float(np.float32(a.get("alpha", 0.01)))
        maps = [self._spread(value, value.shape, factor) for factor in (slope, 1.0 - slope)]
        return self.affine([value.node, self.read_relu(a, value).node], maps, value.shape)

    def read_add(self, _: Any, left: Any, right: Any, sign: float = 1.0) -> Value:
        shape = np.broadcast_shapes(*(v.shape if isinstance(v, Value) else np.shape(v) for v in (left, right)))
        bias, sources, maps = np.zeros(shape), [], []
        for value, factor in ((left, 1.0), (right, sign)):
            if isinstance(value, Value):
                sources.append(value.node)
                maps.append(self._spread(value, shape, None if factor == 1.0 else factor))
            else:
                bias = bias + factor * np.asarray(value, float)
        return self.affine(sources, maps, shape, bias)

    def read_sub(self, a: Any, left: Any, right: Any) -> Value:
        return self.read_add(a, left, right, -1.0)

    def read_mul(self, _: Any, left: Any, right: Any) -> Value:
        if isinstance(left, Value) and isinstance(right, Value):
            raise Unreadable("the product of two computed values is not something that this program reads")
        value, factor = (left, right) if isinstance(left, Value) else (right, left)
        shape = np.broadcast_shapes(value.shape, np.shape(factor))
        return self.affine([value.node], [self._spread(value, shape, np.asarray(factor, float))], shape)

    def read_div(self, a: Any, left: Any, right: Any) -> Value:
        if isinstance(right, Value) or not np.all(right):
            raise Unreadable("a division by a computed value or by zero is not something that this program reads")
        return self.read_mul(a, left, 1.0 / np.asarray(right, float))

    def read_neg(self, a: Any, value: Value) -> Value:
        return self.read_mul(a, value, -1.0)

    def read_matmul(self, _: Any, left: Any, right: Any) -> Value:
        if isinstance(left, Value) and not isinstance(right, Value) and prod(left.shape[:-1]) == 1 and right.ndim == 2:
            shape: Any = (*left.shape[:-1], right.shape[1])
            return self.affine([left.node], [Dense(np.array(right.T, float))], shape)
        if isinstance(right, Value) and not isinstance(left, Value) and left.ndim == 2:
            shape = right.shape
            if len(shape) == 1 or (prod(shape[:-2]) == 1 and shape[-1] == 1):
                shape = (len(left),) if len(shape) == 1 else (*shape[:-2], len(left), 1)
                return self.affine([right.node], [Dense(np.array(left, float))], shape)
        raise Unreadable("this product of matrices is not something that this program reads")

    def read_gemm(self, a: Any, left: Any, right: Any, bias: Any = None) -> Value:
        if not isinstance(left, Value) or isinstance(right, Value) or isinstance(bias, Value) or left.shape[0] != 1:
            raise Unreadable("a Gemm whose weights are computed or whose input has several rows is not read here")
        if a.get("transA", 0):
            raise Unreadable("a Gemm with transA is not something that this program reads")
        weight = float(a.get("alpha", 1.0)) * np.array(right if a.get("transB", 0) else right.T, float)
        offset = 0.0 if bias is None else float(a.get("beta", 1.0)) * np.asarray(bias, float)
        return self.affine([left.node], [Dense(weight)], (1, len(weight)), offset)

    def read_conv(self, a: Any, value: Value, weight: Any, bias: Any = None) -> Value:
        if isinstance(weight, Value) or isinstance(bias, Value) or value.shape[0] != 1:
            raise Unreadable("a Conv whose weights are computed or whose input has several rows is not read here")
        return self._windows(a, value, np.array(weight, float).reshape(a.get("group", 1), -1, *weight.shape[1:]), bias)

    def _windows(self, a: Any, value: Value, weight: Array, bias: Any = None) -> Value:
        axes, kernel = len(value.shape) - 2, weight.shape[3:]
        if a.get("auto_pad", b"NOTSET") not in {b"NOTSET", b"VALID"} or a.get("ceil_mode", 0):
            raise Unreadable("auto_pad and ceil_mode are not things that this program reads")
        if tuple(a.get("kernel_shape", kernel)) != kernel:
            raise Unreadable("a kernel_shape that is not that of the weights is not something that this program reads")
        ones, none = (1,) * axes, (0,) * (2 * axes)
        pads = none if a.get("auto_pad") == b"VALID" else a.get("pads", none)
        one = Convolution(weight, value.shape[2:], a.get("strides", ones), a.get("dilations", ones), pads)
        offset = 0.0 if bias is None else np.asarray(bias, float).reshape(1, -1, *ones)
        return self.affine([value.node], [one], (1, one.groups * one.out, *one.count), offset)

    def read_averagepool(self, a: Any, value: Value) -> Value:
        if any(a.get("pads", ())) and not a.get("count_include_pad", 0):
            raise Unreadable("an AveragePool that leaves padding out of its mean is not read here")
        kernel = tuple(a["kernel_shape"])
        return self._windows(a, value, np.full((value.shape[1], 1, 1, *kernel), 1.0 / prod(kernel)))

    def read_globalaveragepool(self, a: Any, value: Value) -> Value:
        return self.read_averagepool({"kernel_shape": value.shape[2:]}, value)

    def read_batchnormalization(self, a: Any, value: Value, gamma: Any, beta: Any, mean: Any, variance: Any) -> Value:
        if a.get("training_mode", 0) or a.get("spatial", 1) != 1 or self.opset < 7:
            raise Unreadable("this kind of BatchNormalization is not something that this program reads")
        factor = np.asarray(gamma, float) / np.sqrt(
            np.asarray(variance, float) + float(np.float32(a.get("epsilon", 1e-5)))
        )
        axes = (1, -1, *(1,) * (len(value.shape) - 2))
        offset = (np.asarray(beta, float) - factor * np.asarray(mean, float)).reshape(axes)
        return self.affine([value.node], [self._spread(value, value.shape, factor.reshape(axes))], value.shape, offset)


def read_network(model: bytes) -> Network:
    """The network of an ONNX file, or Unreadable."""
    try:
        proto = onnx.load_model_from_string(model)
    except Exception as problem:
        raise Unreadable("the network is not an ONNX file") from problem
    try:
        return Reader(proto).network()
    except Unreadable:
        raise
    except Exception as problem:
        raise Unreadable(f"the network cannot be read ({type(problem).__name__}: {problem})") from problem
