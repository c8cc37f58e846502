"""The network: ONNX files as a list of nodes, each the input, a sum of linear maps of earlier nodes, or a function.

What is checked is the function of these nodes in real arithmetic. Weights count as the numbers that the file holds.
Quotients and roots of constants (Div, BatchNormalization, means) are rounded once to float64; that number counts, and
what an operator makes of constants alone is what the ONNX project's reference implementation makes of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from ginnacer_check.functions import FUNCTIONS, PRODUCT, RELU, SQUARE, TWIN, Function
from ginnacer_check.maps import Array, Convolution, Dense, Map, Pick, Transposed, exactly


class Unreadable(Exception):
    """A file that this program does not understand; the sentence says what."""


@dataclass(frozen=True, eq=False)
class Node:
    """`sum of maps[k](value of sources[k]) + bias`, or a function of its sources; without sources, the input."""

    sources: tuple[int, ...]
    maps: tuple[Map, ...]
    bias: Array
    function: Function | None = None

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
    """Nodes in order; the first is the input. `ends` are the nodes of a property: inputs, outputs, and products if it
    has any. `named` has the nodes of tensors. `unit` is the rounding unit of all numbers."""

    nodes: tuple[Node, ...]
    ends: tuple[int, ...]
    named: Mapping[str, int]
    unit: float | int = 2.0**-53

    @cached_property
    def functions(self) -> tuple[int, ...]:
        return tuple(number for number, node in enumerate(self.nodes) if node.function)

    @cached_property
    def arguments(self) -> tuple[int, ...]:
        """The nodes whose values enter functions, in the order of the functions: what proofs cut."""
        return tuple(dict.fromkeys(source for number in self.functions for source in self.nodes[number].sources))

    @cached_property
    def entering(self) -> dict[int, bool]:
        """Arguments that a sum's interval says less of than back-substitution, and whether 0 alone divides them."""
        direct = {0}  # each value is one input's
        for number, node in enumerate(self.nodes):
            if direct.issuperset(node.sources) and len(node.maps) == 1 and isinstance(node.maps[0], Pick):
                direct.add(number)
        functions = [self.nodes[number] for number in self.functions]
        bends = {source for one in functions if one.function not in (RELU, TWIN) for source in one.sources}
        shares = {one.sources[1] for one in functions if one.function is TWIN}
        wanted = (
            n for n in self.arguments if not (n in shares or n in direct or direct.issuperset(self.nodes[n].sources))
        )
        return {number: number not in bends for number in wanted}

    @cached_property
    def fan(self) -> int:
        """How often a value is used at most."""
        return max(Counter(source for node in self.nodes for source in node.sources).values(), default=0)

    @cached_property
    def exact(self) -> "Network":
        """The same with fractions as numbers."""
        nodes = (replace(n, maps=tuple(m.changed(exactly) for m in n.maps), bias=exactly(n.bias)) for n in self.nodes)
        return replace(self, nodes=tuple(nodes), unit=0)

    def values(self, x: Array) -> list[Array]:
        """The value of each node for one input, in the arithmetic of the network."""
        values: list[Array] = []
        for node in self.nodes:
            given = [values[source] for source in node.sources]
            if node.function:
                values.append(node.function.values[-1](*given))
            elif node.maps:
                values.append(sum((one.apply(v) for one, v in zip(node.maps, given, strict=True)), node.bias))
            else:
                values.append(x)
        return values


@dataclass(frozen=True)
class Value:
    """A computed tensor: the node that holds it, flat, and its shape."""

    node: int
    shape: tuple[int, ...]


MOVING = {
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Resize", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Upsample", "Where",
}  # fmt: skip
"""Operators that put numbers elsewhere and do not calculate with them."""
NEVER_CONSTANT = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}
ALIKE = {"Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Floor", "Sign", "Relu"}
"""Operators that are a function as they stand."""


def places(value: Value) -> Array:
    """The places of a tensor's numbers, in its shape."""
    return np.arange(prod(value.shape)).reshape(value.shape)


def spread(value: Value, shape: Any, factor: Any = 1.0) -> Pick:
    """A tensor in a larger shape, as numpy spreads it, times a number or numbers of that shape."""
    weight = np.array(np.broadcast_to(factor, shape), float).reshape(-1)
    index = np.broadcast_to(places(value), shape)
    return Pick(index, prod(value.shape), None if (weight == 1).all() else weight)


class Reader:
    """Turns the operators of ONNX graphs into nodes, one after the other."""

    def __init__(self, inputs: int) -> None:
        self.nodes = [Node((), (), np.zeros(inputs))]

    def read(self, content: bytes, index: Sequence[int]) -> Value:
        """The output of a network that is given these of all inputs."""
        try:
            model = onnx.load_model_from_string(content)
        except Exception as problem:
            raise Unreadable("the network is not an ONNX file") from problem
        self.opset = max((one.version for one in model.opset_import if one.domain in {"", "ai.onnx"}), default=1)
        self.values: dict[str, Any] = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        inputs = [one for one in model.graph.input if one.name not in self.values]
        if len(inputs) != 1 or len(model.graph.output) != 1:
            raise Unreadable("the network has several inputs or outputs: only networks with one of each are checked")
        shape = tuple(d.dim_value if d.HasField("dim_value") else 1 for d in inputs[0].type.tensor_type.shape.dim)
        if prod(shape) != len(index):
            raise Unreadable(f"the network has {prod(shape)} inputs, the property {len(index)}")
        self.values[inputs[0].name] = self.picked(Value(0, (self.nodes[0].size,)), np.reshape(index, shape))
        for proto in model.graph.node:
            self._read(proto)
        output = self.values[model.graph.output[0].name]
        if not isinstance(output, Value):
            raise Unreadable("the output of the network does not depend on its input")
        return output

    def _read(self, proto: onnx.NodeProto) -> None:
        kind, given = proto.op_type, [self.values[name] if name else None for name in proto.input]
        if proto.domain not in {"", "ai.onnx"}:
            raise Unreadable(f"the operator {proto.domain}.{kind} is not one that this program reads")
        computed = any(isinstance(one, Value) for one in given)
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
        if kind == "Shape" or (not computed and kind not in NEVER_CONSTANT):
            results = self._run(proto, [np.zeros(v.shape) if isinstance(v, Value) else v for v in given])
        elif kind in MOVING and computed:
            moved = slice(None) if kind == "Concat" else slice(1, None) if kind == "Where" else slice(0, 1)
            others = set(range(len(given))).difference(range(len(given))[moved])
            plain = attributes.get("mode", b"nearest") in {b"nearest", b"constant"}
            if not plain or any(isinstance(given[k], Value) for k in others):
                raise Unreadable(f"a {kind} that calculates, or by computed places, is not read here")
            results = self._move(proto, given)
        elif kind in ALIKE:
            results = [self.apply(FUNCTIONS[kind], self.values[proto.input[0]])]
        elif method := getattr(self, f"read_{kind.lower()}", None):
            results = [method(attributes, *given)]
        else:
            raise Unreadable(f"the operator {kind} is not one that this program reads")
        if any(proto.output[len(results) :]):
            raise Unreadable(f"the operator {kind} has several outputs here, which this program does not read")
        self.values.update(zip(proto.output, results, strict=False))

    def _run(self, proto: onnx.NodeProto, given: list[Any]) -> list[Any]:
        """What the operator gives for these numbers, as the ONNX project's own reference calculates it."""
        named = {name: one for name, one in zip(proto.input, given, strict=True) if name}
        x, y = ([onnx.ValueInfoProto(name=name) for name in some if name] for some in (named, proto.output))
        graph = onnx.helper.make_graph([proto], "one operator", x, y)
        return list(ReferenceEvaluator(graph, opsets={"": self.opset}).run(None, named))

    def _move(self, proto: onnx.NodeProto, given: list[Any]) -> list[Value]:
        """An operator that only moves numbers: run on zeros it shows the constants, run on indices what comes where."""
        sources = [(k, one) for k, one in enumerate(given) if isinstance(one, Value)]
        starts = np.cumsum([1, *(prod(one.shape) for _, one in sources)])
        zeros, indices = list(given), list(given)
        for (k, one), start in zip(sources, starts, strict=False):
            zeros[k], indices[k] = np.zeros(one.shape), (places(one) + start).astype(float)
        results = []
        for bias, index in zip(self._run(proto, zeros), self._run(proto, indices), strict=True):
            moved, maps = np.asarray(index - bias).reshape(-1).astype(int), []
            for (_, one), start in zip(sources, starts, strict=False):
                local, size = moved - start, prod(one.shape)
                maps.append(Pick(np.where((local >= 0) & (local < size), local, -1), size))
            results.append(self.affine([one.node for _, one in sources], maps, bias.shape, bias))
        return results

    def add(self, node: Node, shape: Any) -> Value:
        self.nodes.append(node)
        return Value(len(self.nodes) - 1, tuple(shape))

    def apply(self, function: Function, *values: Value) -> Value:
        shape = values[0].shape
        return self.add(Node(tuple(one.node for one in values), (), np.zeros(prod(shape)), function), shape)

    def affine(self, sources: list[int], maps: list[Any], shape: Any, bias: Any = 0.0) -> Value:
        """A sum of linear maps, and a bias that is spread as numpy spreads it."""
        for k, one in enumerate(maps):
            before = self.nodes[sources[k]]
            if prod(shape) != one.outputs or before.size != one.inputs:
                raise Unreadable(f"a layer of {one.inputs} inputs and {one.outputs} outputs does not fit its tensors")
            first = before.maps[0] if len(before.maps) == 1 and not before.bias.any() else None
            if isinstance(one, Pick) and isinstance(first, Pick) and first.plain:  # picked from what is picked
                sources[k], maps[k] = before.sources[0], one.after(first)
        bias = np.array(np.broadcast_to(bias, shape), float).reshape(-1)
        if len(maps) == 1 and isinstance(maps[0], Pick) and maps[0].identity:
            before = self.nodes[sources[0]]
            if not bias.any():
                return Value(sources[0], tuple(shape))
            if before.maps and not before.bias.any():  # a layer's bias as an operator of its own
                return self.add(replace(before, bias=bias), shape)
        return self.add(Node(tuple(sources), tuple(maps), bias), shape)

    def picked(self, value: Value, index: Array) -> Value:
        return self.affine([value.node], [Pick(index, prod(value.shape))], index.shape)

    def joined(self, values: Sequence[Value]) -> Value:
        """One after the other."""
        sizes = [prod(one.shape) for one in values]
        places = [np.arange(sum(sizes)) - sum(sizes[:k]) for k in range(len(values))]
        maps = [Pick(np.where((p >= 0) & (p < n), p, -1), n) for p, n in zip(places, sizes, strict=True)]
        return self.affine([one.node for one in values], maps, (sum(sizes),))

    def times(self, value: Value, factor: Any) -> Value:
        shape = np.broadcast_shapes(value.shape, np.shape(factor))
        return self.affine([value.node], [spread(value, shape, factor)], shape)

    def sum(self, given: Sequence[Any], factors: Sequence[float]) -> Value:
        shape, bias = np.broadcast_shapes(*(one.shape for one in given)), np.zeros(1)
        pairs = list(zip(given, factors, strict=True))
        for one, factor in pairs:
            bias = bias if isinstance(one, Value) else bias + factor * np.asarray(one, float)
        values = [(one, factor) for one, factor in pairs if isinstance(one, Value)]
        return self.affine([v.node for v, _ in values], [spread(v, shape, f) for v, f in values], shape, bias)

    def maximum(self, left: Any, right: Any, sign: float = 1.0) -> Value:
        """Of two values; with the sign -1 the minimum."""
        excess = self.apply(RELU, self.sum([left, right], [sign, -sign]))
        return self.sum([right, excess], [1.0, sign])

    def product(self, left: Value, right: Value) -> Value:
        shape = np.broadcast_shapes(left.shape, right.shape)
        both = [self.picked(one, np.broadcast_to(places(one), shape)) for one in (left, right)]
        return self.apply(SQUARE, both[0]) if both[0] == both[1] else self.apply(PRODUCT, *both)

    def weighed(self, weight: Array, value: Value) -> Value:
        """Matrices times a stack of matrices that are computed."""
        front, (n, k) = value.shape[:-2], value.shape[-2:]
        weight = np.broadcast_to(weight, (*front, *weight.shape[-2:])).reshape(-1, weight.shape[-2], n).astype(float)
        one: Map = Convolution(weight[..., None], (k,), (1,), (1,), (0, 0))
        one = Dense(weight[0]) if len(weight) == k == 1 else one
        return self.affine([value.node], [one], (*front, weight.shape[1], k))

    def total(self, value: Value, axes: Sequence[int], kept: bool, factor: float = 1.0) -> Value:
        """The sum along some axes, times a number."""
        axes = sorted({axis % len(value.shape) for axis in axes})
        rest = [axis for axis in range(len(value.shape)) if axis not in axes]
        shape = [value.shape[axis] for axis in rest]
        index = places(value).transpose(*axes, *rest).reshape(-1, prod(shape))
        result = self.weighed(np.full((1, len(index)), factor), self.picked(value, index))
        return Value(
            result.node, tuple(1 if a in axes else n for a, n in enumerate(value.shape)) if kept else tuple(shape)
        )

    def read_cast(self, a: Any, value: Value) -> Value:
        if a["to"] not in {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE}:
            raise Unreadable("a Cast of a computed value to another type than float or double is not read here")
        return value

    def read_dropout(self, _: Any, value: Value, __: Any = None, training: Any = None) -> Value:
        if training is not None and np.any(training):
            raise Unreadable("a Dropout in training mode is not something that this program reads")
        return value

    def read_add(self, _: Any, left: Any, right: Any) -> Value:
        return self.sum([left, right], [1.0, 1.0])

    def read_sub(self, _: Any, left: Any, right: Any) -> Value:
        return self.sum([left, right], [1.0, -1.0])

    def read_neg(self, _: Any, value: Value) -> Value:
        return self.times(value, -1.0)

    def read_max(self, _: Any, *given: Any) -> Value:
        result: Value = reduce(self.maximum, given)
        return result

    def read_min(self, _: Any, *given: Any) -> Value:
        result: Value = reduce(lambda left, right: self.maximum(left, right, -1.0), given)
        return result

    def read_mul(self, _: Any, left: Any, right: Any) -> Value:
        if isinstance(left, Value) and isinstance(right, Value):
            return self.product(left, right)
        return self.times(left, right) if isinstance(left, Value) else self.times(right, left)

    def read_div(self, a: Any, left: Any, right: Any) -> Value:
        if not isinstance(right, Value) and not np.all(right):
            raise Unreadable("a division by zero is not something that this program reads")
        constant = not isinstance(right, Value)
        return self.read_mul(
            a, left, 1.0 / np.asarray(right, float) if constant else self.apply(FUNCTIONS["Reciprocal"], right)
        )

    def read_pow(self, _: Any, value: Value, exponent: Any) -> Value:
        powers = set() if isinstance(exponent, Value) else set(np.ravel(exponent).tolist())
        if len(powers) != 1 or not powers <= set(range(1, 9)):
            raise Unreadable("a power other than from 1 to 8 is not something that this program reads")
        result: Value = reduce(self.product, [value] * int(powers.pop()))
        return result

    def read_leakyrelu(self, a: Any, value: Value) -> Value:
        return self.read_prelu(a, value, np.float32(a.get("alpha", 0.01)))

    def read_prelu(self, _: Any, value: Value, slope: Any) -> Value:
        maps = [spread(value, value.shape, factor) for factor in (slope, 1.0 - np.asarray(slope, float))]
        return self.affine([value.node, self.apply(RELU, value).node], maps, value.shape)

    def read_abs(self, _: Any, value: Value) -> Value:
        return self.read_prelu({}, value, np.float32(-1.0))

    def read_clip(self, a: Any, value: Value, low: Any = None, high: Any = None) -> Value:
        for end, sign in ((a.get("min") if low is None else low, 1.0), (a.get("max") if high is None else high, -1.0)):
            if end is not None and abs(float(end)) < np.finfo(np.float32).max:
                value = self.maximum(value, np.asarray(float(end)), sign)
        return value

    def read_softmax(self, a: Any, value: Value) -> Value:
        """`1 / sum of exp(y_j - y_i)`, along an axis or, before version 13, along all axes from there on."""
        late, index = self.opset >= 13, places(value)
        axis = a.get("axis", -1 if late else 1) % len(value.shape)
        index = np.moveaxis(index, axis, -1) if late else index.reshape(prod(value.shape[:axis]), -1)
        rows = index.reshape(-1, index.shape[-1])
        others, own = (np.broadcast_to(one, (*rows.shape, rows.shape[1])) for one in (rows[:, None], rows[..., None]))
        apart = self.sum([self.picked(value, others), self.picked(value, own)], [1.0, -1.0])
        result = self.apply(FUNCTIONS["Reciprocal"], self.total(self.apply(FUNCTIONS["Exp"], apart), [2], kept=False))
        back = np.arange(index.size).reshape(index.shape)
        return self.picked(result, np.moveaxis(back, -1, axis) if late else back.reshape(value.shape))

    def read_matmul(self, _: Any, left: Any, right: Any) -> Value:
        shapes = (1, *left.shape)[-max(2, len(left.shape)) :], (*right.shape, 1)[: max(2, len(right.shape))]
        front = np.broadcast_shapes(*(shape[:-2] for shape in shapes))
        shape = (*front, *left.shape[-2:-1], *right.shape[1:][-1:])
        here, there = (
            np.broadcast_to(places(one).reshape(s), (*front, *s[-2:])) if isinstance(one, Value) else one.reshape(s)
            for one, s in zip((left, right), shapes, strict=True)
        )
        if not isinstance(left, Value):
            result = self.weighed(here, self.picked(right, there))
        elif not isinstance(right, Value):
            flipped = self.weighed(there.swapaxes(-1, -2), self.picked(left, here.swapaxes(-1, -2)))
            result = self.picked(flipped, places(flipped).swapaxes(-1, -2))
        else:
            here, there = np.broadcast_arrays(here[..., None], there[..., None, :, :])
            result = self.total(self.product(self.picked(left, here), self.picked(right, there)), [-2], kept=False)
        return Value(result.node, shape)

    def read_gemm(self, a: Any, left: Any, right: Any, bias: Any = None) -> Value:
        given = [left, right]
        for k, flag in enumerate(("transA", "transB")):
            if a.get(flag, 0):
                one = given[k]
                given[k] = self.picked(one, places(one).T) if isinstance(one, Value) else one.T
        result = self.times(self.read_matmul({}, *given), float(a.get("alpha", 1.0)))
        return result if bias is None else self.sum([result, bias], [1.0, float(a.get("beta", 1.0))])

    def read_conv(self, a: Any, value: Value, weight: Any, bias: Any = 0.0) -> Value:
        weight = np.array(weight, float).reshape(a.get("group", 1), -1, *weight.shape[1:])
        one = Convolution(weight, value.shape[2:], *geometry(a, weight.shape[3:]))
        return self.channels(value, one, (one.groups * one.out, *one.count), bias)

    def read_convtranspose(self, a: Any, value: Value, weight: Any, bias: Any = 0.0) -> Value:
        weight = np.array(weight, float).reshape(a.get("group", 1), -1, *weight.shape[1:])
        (stride, dilation, pads), more = geometry(a, weight.shape[3:]), a.get("output_padding", (0,) * 9)
        if "output_shape" in a:
            raise Unreadable("the output_shape of a ConvTranspose is not something that this program reads")
        sizes = zip(value.shape[2:], stride, dilation, weight.shape[3:], pads, pads[len(stride) :], more, strict=False)
        extent = [(n - 1) * s + d * (k - 1) + 1 - p - q + e for n, s, d, k, p, q, e in sizes]
        one = Transposed(Convolution(weight, extent, stride, dilation, pads))
        return self.channels(value, one, (weight.shape[0] * weight.shape[2], *extent), bias)

    def channels(self, value: Value, one: Map, shape: Any, bias: Any = 0.0) -> Value:
        """A layer with a number to be added for each channel."""
        return self.affine([value.node], [one], (1, *shape), np.reshape(bias, (1, -1, *(1,) * (len(shape) - 1))))

    def read_averagepool(self, a: Any, value: Value) -> Value:
        if any(a.get("pads", ())) and not a.get("count_include_pad", 0):
            raise Unreadable("an AveragePool that leaves padding out of its mean is not read here")
        kernel = tuple(a["kernel_shape"])
        return self.read_conv(
            {**a, "group": value.shape[1]}, value, np.full((value.shape[1], 1, *kernel), 1.0 / prod(kernel))
        )

    def read_globalaveragepool(self, _: Any, value: Value) -> Value:
        return self.read_averagepool({"kernel_shape": value.shape[2:]}, value)

    def read_maxpool(self, a: Any, value: Value) -> Value:
        """The maximum of what the cells of a window see; padding is replaced by another value of the window."""
        kernel = tuple(a["kernel_shape"])
        one = Convolution(np.zeros((1, 1, 1, *kernel)), value.shape[2:], *geometry(a, kernel))
        index = np.full((*value.shape[:2], *one.padded), -1)
        index[one.inside] = places(value)
        seen = [index[(..., *part)] for _, part in one.cells]
        best = np.max(seen, axis=0)
        return reduce(self.maximum, (self.picked(value, np.where(cell < 0, best, cell)) for cell in seen))

    def read_reducesum(self, a: Any, value: Value, axes: Any = None, mean: bool = False) -> Value:
        axes = a.get("axes", range(len(value.shape))) if axes is None else np.ravel(axes).tolist()
        count = prod(value.shape[axis] for axis in axes) if mean else 1
        return self.total(value, list(axes), bool(a.get("keepdims", 1)), 1.0 / count)

    def read_reducemean(self, a: Any, value: Value, axes: Any = None) -> Value:
        return self.read_reducesum(a, value, axes, mean=True)

    def read_batchnormalization(self, a: Any, value: Value, gamma: Any, beta: Any, mean: Any, variance: Any) -> Value:
        if a.get("training_mode", 0) or a.get("spatial", 1) != 1 or self.opset < 7:
            raise Unreadable("this kind of BatchNormalization is not something that this program reads")
        parts = (
            np.asarray(one, float).reshape(-1, *(1,) * (len(value.shape) - 2)) for one in (gamma, beta, mean, variance)
        )
        gamma, beta, mean, variance = parts
        factor = gamma / np.sqrt(variance + float(np.float32(a.get("epsilon", 1e-5))))
        return self.affine([value.node], [spread(value, value.shape, factor)], value.shape, beta - factor * mean)


def geometry(a: Any, kernel: Any) -> tuple[Any, Any, Any]:
    """Strides, dilations and padding of windows."""
    if a.get("auto_pad", b"NOTSET") not in {b"NOTSET", b"VALID"} or a.get("ceil_mode", 0) or a.get("storage_order", 0):
        raise Unreadable("auto_pad, ceil_mode and storage_order are not things that this program reads")
    if tuple(a.get("kernel_shape", kernel)) != tuple(kernel):
        raise Unreadable("a kernel_shape that is not that of the weights is not something that this program reads")
    ones, none = (1,) * len(kernel), (0,) * (2 * len(kernel))
    pads = none if a.get("auto_pad") == b"VALID" else a.get("pads", none)
    return a.get("strides", ones), a.get("dilations", ones), pads


def read_networks(
    models: Sequence[bytes], declared: Sequence[Any], inputs: int, products: Sequence[Any] = ()
) -> Network:
    """The networks of a property side by side, or Unreadable."""
    try:
        return _networks(models, declared, inputs, products)
    except Unreadable:
        raise
    except Exception as problem:
        raise Unreadable(f"the network cannot be read ({type(problem).__name__}: {problem})") from problem


def _networks(models: Sequence[bytes], declared: Sequence[Any], inputs: int, products: Sequence[Any]) -> Network:
    reader, ends, named = Reader(inputs), list[Value](), dict[str, int]()
    for model, one in zip(models, declared, strict=True):
        ends.append(reader.read(model, one.inputs))
        if prod(ends[-1].shape) != one.outputs:
            raise Unreadable(f"the network has {prod(ends[-1].shape)} outputs, the property {one.outputs}")
        named |= {f"{one.name}:{name}": v.node for name, v in reader.values.items() if isinstance(v, Value)}
    x, y = Value(0, (inputs,)), reader.joined(ends) if len(ends) > 1 else ends[0]
    found = [x, y]
    if products:
        both, starts = reader.joined(found), {"X": 0, "Y": inputs}
        sides = np.array([[starts[name[0]] + int(name[2:]) for name in pair] for pair in products]).T
        found.append(reader.product(*(reader.picked(both, side) for side in sides)))
    needed = {one.node for one in found}
    for number in range(max(needed), -1, -1):
        if number in needed:
            needed.update(reader.nodes[number].sources)
    place = {old: new for new, old in enumerate(sorted(needed))}
    nodes = [reader.nodes[old] for old in place]
    nodes = [replace(node, sources=tuple(place[source] for source in node.sources)) for node in nodes]
    numbers = [node.bias for node in nodes] + [one.weight for node in nodes for one in node.maps]
    if not all(np.isfinite(some).all() for some in numbers):
        raise Unreadable("a weight of the network is not a finite number")
    kept = {name: place[node] for name, node in named.items() if node in place}
    return Network(tuple(nodes), tuple(place[one.node] for one in found), kept)


def twinned(network: Network, twins: Mapping[int, int]) -> Network:
    """The same network, some of whose ReLU nodes lean on earlier ones: `relu(g)` beside `relu(f)` and `g - f`."""
    nodes, place = list[Node](), list[int]()
    for number, node in enumerate(network.nodes):
        sources = tuple(place[source] for source in node.sources)
        if number in twins:
            other = network.nodes[twins[number]]
            if not (node.function is other.function is RELU and node.size == other.size and twins[number] < number):
                raise Unreadable("a twin is not another ReLU node of the same size")
            f, same = place[other.sources[0]], np.arange(node.size)
            minus = Pick(same, node.size, np.full(node.size, -1.0))
            nodes.append(Node((sources[0], f), (Pick(same, node.size), minus), 0 * node.bias))
            node, sources = replace(node, function=TWIN), (sources[0], place[twins[number]], len(nodes) - 1)
        place.append(len(nodes))
        nodes.append(replace(node, sources=sources))
    named = {name: place[old] for name, old in network.named.items()}
    return Network(tuple(nodes), tuple(place[old] for old in network.ends), named, network.unit)
