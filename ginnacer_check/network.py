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

from ginnacer_check.maps import Array, Convolution, Dense, Map, Pick, Scale

try:
    from flint import fmpq as _number  # much faster fractions, if python-flint is installed
except ImportError:
    _number = Fraction


class Unreadable(Exception):
    """A file that this program does not understand; the sentence says what."""


def fraction(value: Any) -> Any:
    numerator, denominator = (value if isinstance(value, Fraction) else float(value)).as_integer_ratio()
    return _number(numerator, denominator)


_fractions = np.frompyfunc(fraction, 1, 1)


def exactly(values: Array) -> Array:
    """The same numbers as fractions."""
    return np.asarray(_fractions(values), dtype=object)


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

    @property
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
    def entering(self) -> dict[int, int]:
        """The nodes whose values enter a ReLU, each with the number of (the first of) its ReLUs."""
        return {self.nodes[number].sources[0]: number for number in reversed(self.relus)}

    @cached_property
    def behind(self) -> frozenset[int]:
        """The nodes that some ReLU comes before: on the others plain intervals of a sum are as good as anything."""
        found: set[int] = set()
        for number, node in enumerate(self.nodes):
            if node.relu or found.intersection(node.sources):
                found.add(number)
        return frozenset(found)

    @cached_property
    def exact(self) -> "Network":
        """The same with fractions as numbers."""
        return Network(
            tuple(replace(n, maps=tuple(m.changed(exactly) for m in n.maps), bias=exactly(n.bias)) for n in self.nodes),
            0,
        )

    def evaluate(self, x: Array) -> Array:
        """The output for one input, in the arithmetic of the network."""
        values: list[Array] = []
        for node in self.nodes:
            if node.relu:
                values.append(np.where(values[node.sources[0]] > 0, values[node.sources[0]], 0 * node.bias))
            elif node.sources:
                parts = (one.apply(values[source]) for one, source in zip(node.maps, node.sources, strict=True))
                values.append(sum(parts, node.bias))
            else:
                values.append(x)
        return values[-1]

    def without(self, dead: dict[int, Array]) -> tuple["Network", list[Array]]:
        """The network without ReLUs that give zero wherever we look: `dead` marks them by the ReLU's node.

        Also which values each node has kept. Only what lies between two matrices is left out."""
        users: dict[int, list[Node]] = {}
        for node in self.nodes:
            for source in node.sources:
                users.setdefault(source, []).append(node)
        kept = [np.arange(node.size) for node in self.nodes]
        for number, mask in dead.items():
            source = self.nodes[number].sources[0]
            around = [self.nodes[source], *users.get(number, [])]
            plain = all(node.maps and all(isinstance(m, Dense) for m in node.maps) for node in around)
            if len(users[source]) == 1 and number in users and plain:
                kept[number] = kept[source] = np.flatnonzero(~mask)
        nodes = []
        for number, node in enumerate(self.nodes):
            maps: list[Map] = []
            for one, source in zip(node.maps, node.sources, strict=False):
                whole = len(kept[source]) == one.inputs and len(kept[number]) == one.outputs
                maps.append(one if whole or not isinstance(one, Dense) else _part(one, kept[number], kept[source]))
            nodes.append(Node(node.sources, tuple(maps), node.bias[kept[number]], node.relu))
        return Network(tuple(nodes), self.unit), kept


def _part(one: Dense, rows: Array, columns: Array) -> Dense:
    return Dense(np.ascontiguousarray(one.weight[np.ix_(rows, columns)]))


@dataclass(frozen=True)
class Value:
    """A computed tensor: the node that holds it, flat, and its shape."""

    node: int
    shape: tuple[int, ...]


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
        self.nodes.append(Node((), (), np.zeros(prod(shape))))
        self.values[inputs[0].name] = Value(0, shape)
        for proto in model.graph.node:
            self._read(proto)
        output = self.values[model.graph.output[0].name]
        if not isinstance(output, Value):
            raise Unreadable("the output of the network does not depend on its input")
        self.output = self.affine(output, Pick(np.arange(prod(output.shape)), prod(output.shape)), output.shape).node

    def network(self) -> Network:
        """The nodes that the output needs."""
        needed = {0, self.output}
        for number in range(self.output, -1, -1):
            if number in needed:
                needed.update(self.nodes[number].sources)
        place = {old: new for new, old in enumerate(sorted(needed))}
        chosen = (self.nodes[old] for old in sorted(needed))
        nodes = tuple(replace(node, sources=tuple(place[source] for source in node.sources)) for node in chosen)
        numbers: list[Array] = [node.bias for node in nodes]
        for one in (one for node in nodes for one in node.maps):
            numbers += [one.weight] if isinstance(one, Dense | Convolution) else []
            numbers += [one.factor] if isinstance(one, Scale) else []
        if not all(np.isfinite(some).all() for some in numbers):
            raise Unreadable("a weight of the network is not a finite number")
        return Network(nodes)

    def _read(self, proto: onnx.NodeProto) -> None:
        given = [self.values[name] if name else None for name in proto.input]
        if proto.domain not in {"", "ai.onnx"}:
            raise Unreadable(f"the operator {proto.domain}.{proto.op_type} is not one that this program reads")
        if not any(isinstance(one, Value) for one in given) and proto.op_type not in NEVER_CONSTANT:
            named = {name: one for name, one in zip(proto.input, given, strict=True) if name}
            results = ReferenceEvaluator(proto).run(None, named)
            self.values.update(zip(proto.output, results, strict=True))
            return
        method = getattr(self, f"read_{proto.op_type.lower()}", None)
        if method is None:
            raise Unreadable(f"the operator {proto.op_type} is not one that this program reads")
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
        if len([name for name in proto.output if name]) > 1:
            raise Unreadable(f"the operator {proto.op_type} has several outputs here, which this program does not read")
        self.values[proto.output[0]] = method(attributes, *given)

    # What operators are made of

    def affine(self, value: Value, one: Map, shape: tuple[int, ...], bias: Array | None = None) -> Value:
        if prod(shape) != one.outputs or self.nodes[value.node].size != one.inputs:
            raise Unreadable(f"a layer of {one.inputs} inputs and {one.outputs} outputs does not fit its tensors")
        bias = np.zeros(one.outputs) if bias is None else np.array(np.broadcast_to(bias, shape), float).reshape(-1)
        if isinstance(one, Pick) and one.identity and not bias.any():
            return Value(value.node, shape)
        return self.add(Node((value.node,), (one,), bias), shape)

    def add(self, node: Node, shape: tuple[int, ...]) -> Value:
        self.nodes.append(node)
        return Value(len(self.nodes) - 1, shape)

    def picked(self, value: Value, index: Array) -> Value:
        """The values at the given flat indices, in the shape of the index."""
        return self.affine(value, Pick(index, prod(value.shape)), np.shape(index))

    def indices(self, value: Value) -> Array:
        return np.arange(prod(value.shape)).reshape(value.shape)

    # Operators that move values

    def read_identity(self, _: Any, value: Value, *_rest: Any) -> Value:
        return value

    def read_dropout(self, _: Any, value: Value, *rest: Any) -> Value:
        if len(rest) > 1 and rest[1] is not None and np.any(rest[1]):
            raise Unreadable("a Dropout in training mode is not something that this program reads")
        return value

    def read_cast(self, a: Any, value: Value) -> Value:
        if a["to"] not in {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE}:
            raise Unreadable("a Cast of a computed value to another type than float or double is not read here")
        return value

    def read_flatten(self, a: Any, value: Value) -> Value:
        axis = a.get("axis", 1) % (len(value.shape) + 1) if a.get("axis", 1) < 0 else a.get("axis", 1)
        return Value(value.node, (prod(value.shape[:axis]), prod(value.shape[axis:])))

    def read_reshape(self, a: Any, value: Value, shape: Any) -> Value:
        wanted = [value.shape[i] if n == 0 and not a.get("allowzero") else int(n) for i, n in enumerate(shape)]
        return Value(value.node, self.indices(value).reshape(wanted).shape)

    def read_squeeze(self, a: Any, value: Value, axes: Any = None) -> Value:
        chosen = a.get("axes") if axes is None else axes
        at = None if chosen is None else tuple(int(n) for n in chosen)
        return Value(value.node, np.squeeze(self.indices(value), at).shape)

    def read_unsqueeze(self, a: Any, value: Value, axes: Any = None) -> Value:
        chosen = a["axes"] if axes is None else axes
        return Value(value.node, np.expand_dims(self.indices(value), tuple(int(n) for n in chosen)).shape)

    def read_transpose(self, a: Any, value: Value) -> Value:
        return self.picked(value, np.transpose(self.indices(value), a.get("perm")))

    def read_shape(self, a: Any, value: Value) -> Any:
        if "start" in a or "end" in a:
            raise Unreadable("the operator Shape with start or end is not one that this program reads")
        return np.array(value.shape, dtype=np.int64)

    def read_concat(self, a: Any, *values: Any) -> Value:
        parts, start, total = [], 0, Node((), (), np.zeros(0))
        for value in values:
            shape = value.shape if isinstance(value, Value) else np.shape(value)
            parts.append(start + np.arange(prod(shape)).reshape(shape))
            start += prod(shape)
        index = np.concatenate(parts, axis=a["axis"])
        where = index.reshape(-1)
        bias = np.zeros(len(where))
        for value, part in zip(values, parts, strict=True):
            local = np.where((where >= part.min()) & (where <= part.max()), where - part.min(), -1)
            if isinstance(value, Value):
                one = Pick(local, part.size)
                total = Node((*total.sources, value.node), (*total.maps, one), total.bias)
            else:
                bias = bias + np.where(local >= 0, np.asarray(value, float).reshape(-1)[local], 0.0)
        return self.add(replace(total, bias=bias), index.shape)

    # Operators that calculate

    def read_relu(self, _: Any, value: Value) -> Value:
        return self.add(Node((value.node,), (), np.zeros(prod(value.shape)), relu=True), value.shape)

    def _sum(self, left: Any, right: Any, sign: float) -> Value:
        """left + sign * right, with the shapes that numpy gives."""
        shape = np.broadcast_shapes(*(v.shape if isinstance(v, Value) else np.shape(v) for v in (left, right)))
        bias: Array = np.zeros(shape)
        sources: list[int] = []
        maps: list[Map] = []
        for value, factor in ((left, 1.0), (right, sign)):
            if not isinstance(value, Value):
                bias = bias + factor * np.broadcast_to(np.asarray(value, float), shape)
                continue
            spread = self.picked(value, np.broadcast_to(self.indices(value), shape))
            same = Pick(np.arange(prod(shape)), prod(shape))
            sources.append(spread.node)
            maps.append(same if factor == 1.0 else Scale(np.full(prod(shape), factor)))
        bias = bias.reshape(-1)
        before = self.nodes[sources[0]]
        if len(sources) == 1 and isinstance(maps[0], Pick) and before.maps and not before.bias.any():
            return self.add(replace(before, bias=bias), shape)  # a layer's bias as an operator of its own
        return self.add(Node(tuple(sources), tuple(maps), bias), shape)

    def read_add(self, _: Any, left: Any, right: Any) -> Value:
        return self._sum(left, right, 1.0)

    def read_sub(self, _: Any, left: Any, right: Any) -> Value:
        return self._sum(left, right, -1.0)

    def _times(self, value: Value, factor: Array) -> Value:
        shape = np.broadcast_shapes(value.shape, np.shape(factor))
        spread = self.picked(value, np.broadcast_to(self.indices(value), shape))
        return self.affine(spread, Scale(np.array(np.broadcast_to(factor, shape), float).reshape(-1)), shape)

    def read_mul(self, _: Any, left: Any, right: Any) -> Value:
        if isinstance(left, Value) and isinstance(right, Value):
            raise Unreadable("the product of two computed values is not something that this program reads")
        value, factor = (left, right) if isinstance(left, Value) else (right, left)
        return self._times(value, np.asarray(factor, float))

    def read_div(self, _: Any, left: Any, right: Any) -> Value:
        if isinstance(right, Value) or not np.all(right):
            raise Unreadable("a division by a computed value or by zero is not something that this program reads")
        return self._times(left, 1.0 / np.asarray(right, float))

    def read_neg(self, _: Any, value: Value) -> Value:
        return self._times(value, np.float64(-1.0))

    def read_matmul(self, _: Any, left: Any, right: Any) -> Value:
        if isinstance(left, Value) and not isinstance(right, Value) and prod(left.shape[:-1]) == 1 and right.ndim == 2:
            return self.affine(left, Dense(np.array(right.T, float)), (*left.shape[:-1], right.shape[1]))
        if isinstance(right, Value) and not isinstance(left, Value) and left.ndim == 2:
            shape = right.shape
            if len(shape) == 1 or (prod(shape[:-2]) == 1 and shape[-1] == 1):
                axis = -1 if len(shape) == 1 else -2
                shape = (*shape[:axis], left.shape[0], *((1,) if axis == -2 else ()))
                return self.affine(right, Dense(np.array(left, float)), shape)
        raise Unreadable("this product of matrices is not something that this program reads")

    def read_gemm(self, a: Any, left: Any, right: Any, bias: Any = 0.0) -> Value:
        if not isinstance(left, Value) or isinstance(right, Value) or isinstance(bias, Value) or left.shape[0] != 1:
            raise Unreadable("a Gemm whose weights are computed or whose input has several rows is not read here")
        if a.get("transA", 0):
            raise Unreadable("a Gemm with transA is not something that this program reads")
        weight = float(a.get("alpha", 1.0)) * np.array(right if a.get("transB", 0) else right.T, float)
        offset = float(a.get("beta", 1.0)) * np.asarray(bias, float)
        return self.affine(left, Dense(weight), (1, len(weight)), offset)

    def read_conv(self, a: Any, value: Value, weight: Any, bias: Any = None) -> Value:
        if isinstance(weight, Value) or isinstance(bias, Value) or value.shape[0] != 1:
            raise Unreadable("a Conv whose weights are computed or whose input has several rows is not read here")
        groups = a.get("group", 1)
        grouped = np.array(weight, float).reshape(groups, -1, *weight.shape[1:])
        return self._windows(a, value, grouped, bias)

    def _windows(self, a: Any, value: Value, weight: Array, bias: Any = None) -> Value:
        axes, kernel = len(value.shape) - 2, weight.shape[3:]
        if a.get("auto_pad", b"NOTSET") not in {b"NOTSET", b"VALID"} or a.get("ceil_mode", 0):
            raise Unreadable("auto_pad and ceil_mode are not things that this program reads")
        ones, none = (1,) * axes, (0,) * (2 * axes)
        stride, dilation = tuple(a.get("strides", ones)), tuple(a.get("dilations", ones))
        pads = none if a.get("auto_pad") == b"VALID" else tuple(a.get("pads", none))
        if tuple(a.get("kernel_shape", kernel)) != kernel:
            raise Unreadable("a kernel_shape that is not that of the weights is not something that this program reads")
        one = Convolution(weight, value.shape[2:], stride, dilation, pads)
        shape = (1, one.groups * one.out, *one.count)
        spread = None if bias is None else np.asarray(bias, float).reshape(1, -1, *(1,) * axes)
        return self.affine(value, one, shape, spread)

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
        epsilon = float(np.float32(a.get("epsilon", 1e-5)))
        factor = np.asarray(gamma, float) / np.sqrt(np.asarray(variance, float) + epsilon)
        offset = np.asarray(beta, float) - factor * np.asarray(mean, float)
        axes = (1, -1, *(1,) * (len(value.shape) - 2))
        full = np.array(np.broadcast_to(factor.reshape(axes), value.shape)).reshape(-1)
        return self.affine(value, Scale(full), value.shape, offset.reshape(axes))


NEVER_CONSTANT = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}


def read_network(model: bytes) -> Network:
    """The network of an ONNX file, or Unreadable."""
    try:
        proto = onnx.load_model_from_string(model)
        return Reader(proto).network()
    except Unreadable:
        raise
    except Exception as problem:
        raise Unreadable(f"the network cannot be read ({type(problem).__name__}: {problem})") from problem
