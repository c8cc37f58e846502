"""Graph: a network as inputs, affine maps and functions in topological order, each value a flat vector per input.

Everything that a network file can say becomes one of three kinds of node: an Input; an Affine node, the sum of linear
maps of earlier values and a constant (layers, convolutions, skips, concatenations); an Apply node, an elementwise
function of one or several values (ReLU, sigmoid, the maximum of a window, the product of two computed values).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array, flattened, read_only
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.function import Function, Relu
from ginnacer_verify.graph.linear import LinearMap, Select
from ginnacer_verify.graph.network import FUSED
from ginnacer_verify.rounding import FLOATS, OVERFLOW, REAL, Arithmetic
from ginnacer_verify.shown import Shown

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Input:
    """A part of the graph's flat input vector, from `start` on."""

    start: int
    size: int
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Affine:
    """The sum of `maps[k]` of the values of node `sources[k]`, and `bias`."""

    sources: tuple[int, ...]
    maps: tuple[LinearMap, ...]
    bias: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "bias", read_only(self.bias))
        if len(self.sources) != len(self.maps) or any(one.outputs != len(self.bias) for one in self.maps):
            raise NetworkError("an affine node has maps and biases of different sizes")
        if not (np.isfinite(self.bias).all() and all(np.isfinite(one.largest) for one in self.maps)):
            raise NetworkError("a weight or bias is not a finite number; retrain or repair the network")

    @property
    def size(self) -> int:
        return len(self.bias)

    @property
    def terms(self) -> int:
        """The most roundings that a product in a value of this node passes."""
        return max((one.terms for one in self.maps), default=0) + len(self.maps) + 1

    @cached_property
    def executed(self) -> int:
        """The most roundings that a product in a value passes where the network is executed, in any order of sums;
        0 if values are only moved."""
        additions = len(self.maps) - 1 + bool(self.bias.any())
        roundings = max((one.executed for one in self.maps), default=0) + additions
        return roundings + FUSED if roundings else 0

    @cached_property
    def moves(self) -> bool:
        """Whether its values are values of its source as they are, or zeros: nothing is rounded."""
        return len(self.maps) == 1 and isinstance(self.maps[0], Select) and not self.bias.any()

    @cached_property
    def absolute(self) -> "Affine":
        """The node with the absolute values of all weights and biases."""
        return Affine(self.sources, tuple(one.absolute() for one in self.maps), np.abs(self.bias))

    def linear(self, values: Sequence[Array]) -> Array:
        """The node's value without its bias, from those of its sources, a batch each."""
        total: Array | float = 0.0
        for one, x in zip(self.maps, values, strict=True):
            total = one.apply(x) + total
        return np.asarray(total)


@dataclass(frozen=True, eq=False)
class Apply:
    """An elementwise function of the values of its sources, which all have the node's size."""

    sources: tuple[int, ...]
    function: Function
    size: int

    def __post_init__(self) -> None:
        if len(self.sources) != self.function.arity:
            raise NetworkError(f"a function of {self.function.arity} values is given {len(self.sources)}")


Node: TypeAlias = Input | Affine | Apply


@dataclass(frozen=True)
class Tensor:
    """The name, shape and element type of an input or output in the original file."""

    name: str
    shape: Shape
    dtype: str = "float32"

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, eq=False)
class Original:
    """A network of a joint graph, and which inputs of that graph it is given, in order."""

    network: "Graph"
    inputs: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Shown):
    """Nodes in topological order; the last one is the output. `x` and `y` say how its flat input and output vectors are
    made up of the original tensors, `model` is the original ONNX model, on which witnesses are replayed, or empty.

    `arithmetic` is what bounds have to hold in: real numbers, or those that the nodes are executed in, one by one.
    `precision` is the coarsest element type that the original computes in, empty if its weights are computed too.
    A graph that joins several networks has them as its `originals` instead of a model."""

    nodes: tuple[Node, ...]
    x: tuple[Tensor, ...]
    y: tuple[Tensor, ...]
    model: bytes = field(default=b"", repr=False)
    precision: str = "float32"
    arithmetic: Arithmetic = REAL
    originals: tuple[Original, ...] = ()

    def __post_init__(self) -> None:
        for number, node in enumerate(self.nodes):
            if any(source >= number for source in node.sources):
                raise NetworkError(f"node {number} uses a value that is computed after it")
            sizes = [self.nodes[source].size for source in node.sources]
            wanted = [one.inputs for one in node.maps] if isinstance(node, Affine) else [node.size] * len(sizes)
            if sizes != wanted:
                raise NetworkError(f"node {number} takes values of sizes {wanted}, but its sources have {sizes}")
        if not self.nodes or self.outputs != sum(tensor.size for tensor in self.y):
            raise NetworkError("the output's shape does not hold as many values as the network computes")

    @property
    def inputs(self) -> int:
        """The length of the flat input vector."""
        return sum(tensor.size for tensor in self.x)

    @property
    def outputs(self) -> int:
        """The length of the flat output vector."""
        return self.nodes[-1].size

    @property
    def input_shape(self) -> Shape:
        return self.x[0].shape if len(self.x) == 1 else (self.inputs,)

    @property
    def output_shape(self) -> Shape:
        return self.y[0].shape if len(self.y) == 1 else (self.outputs,)

    @property
    def dtype(self) -> "np.dtype[Any]":
        """The element type of the inputs."""
        return np.dtype(self.x[0].dtype)

    @property
    def applied(self) -> tuple[int, ...]:
        """The numbers of the nodes that apply a function."""
        return tuple(number for number, node in enumerate(self.nodes) if isinstance(node, Apply))

    @property
    def neurons(self) -> int:
        """How many values a function is applied to give."""
        return sum(self.nodes[number].size for number in self.applied)

    @property
    def relus(self) -> int:
        functions = (node for node in self.nodes if isinstance(node, Apply))
        return sum(node.size for node in functions if isinstance(node.function, Relu))

    @property
    def functions(self) -> tuple[tuple[str, int], ...]:
        """The functions in order, each with how many values it gives."""
        applied = (node for node in self.nodes if isinstance(node, Apply))
        return tuple((type(node.function).__name__, node.size) for node in applied)

    @property
    def parameters(self) -> int:
        """How many weights and biases are not zero."""
        affine = [node for node in self.nodes if isinstance(node, Affine)]
        biases = sum(int(np.count_nonzero(node.bias)) for node in affine)
        return biases + sum(one.parameters for node in affine for one in node.maps)

    @cached_property
    def last_use(self) -> tuple[int, ...]:
        """The number of the last node that needs each value; the output needs itself."""
        last = list(range(len(self.nodes)))
        for number, node in enumerate(self.nodes):
            for source in node.sources:
                last[source] = number
        last[-1] = len(self.nodes) - 1
        return tuple(last)

    @cached_property
    def widest(self) -> int:
        return max(node.size for node in self.nodes)

    def through(self, x: Array) -> Iterator[Array]:
        """The value of every node in turn for a batch of flat inputs, (batch, inputs); spent values are let go of."""
        kept: dict[int, Array] = {}
        for number, node in enumerate(self.nodes):
            kept[number] = value_of(node, x, [kept[source] for source in node.sources])
            yield kept[number]
            for source in {number, *node.sources}:
                if self.last_use[source] <= number and source != number:
                    del kept[source]

    def evaluate(self, x: Array) -> Array:
        """The outputs for a batch of flat inputs: (batch, inputs) to (batch, outputs), in float64."""
        value = np.zeros((len(x), 0))
        for value in self.through(np.asarray(x, dtype=np.float64)):  # noqa: B007
            pass
        return value

    def __call__(self, x: ArrayLike) -> Array:
        """The output for one input, of the network's own shape or flat; or for a batch with one of them per entry."""
        values = flattened(x, self.inputs, self.input_shape)
        return np.asarray(self.evaluate(values[None])[0]) if values.ndim == 1 else self.evaluate(values)

    def facts(self) -> dict[str, object]:
        names = ", ".join(dict.fromkeys(name for name, _ in self.functions)) or "none"
        return {
            "inputs": f"{self.inputs} {list(self.input_shape)} {self.dtype}",
            "outputs": self.outputs,
            "neurons": f"{self.neurons} ({names})",
            "parameters": self.parameters,
        }

    def executed(self) -> "Graph":
        """The same graph, to be bounded as it is executed in its own precision instead of in real arithmetic."""
        if self.precision not in FLOATS:
            raise NetworkError(
                "the network computes its own weights, so how far they are off is not known: "
                "fold its constants, or use real arithmetic"
            )
        if not max(self._multiplied) < OVERFLOW[self.precision]:
            raise NetworkError("a runtime that multiplies its layers out overflows: use real arithmetic")
        return replace(self, arithmetic=FLOATS[self.precision])

    @cached_property
    def _multiplied(self) -> tuple[float, ...]:
        """Per node, how large the weights and constants can get of which a runtime makes one layer out of it and the
        affine nodes in front of it."""
        largest: list[float] = []
        for node in self.nodes:
            total = 1.0
            if isinstance(node, Affine):
                pairs = zip(node.sources, node.maps, strict=True)
                weights = sum(one.largest * max(1, one.executed) * largest[source] for source, one in pairs)
                total = max(1.0, float(np.abs(node.bias).max(initial=0.0)) + weights)
            largest.append(total)
        return tuple(largest)

    def off(self, number: int, size: Array, largest: Sequence[Array] = ()) -> Array:
        """How far executed values of a node are from those of the node's own map at executed arguments. `size` bounds
        the sums of absolute values of an affine node, else the absolute values; `largest` those of the arguments."""
        node = self.nodes[number]
        match node:
            case Affine():
                return self.arithmetic.off(node.executed, size)
            case Apply():
                return node.function.executed.off(self.arithmetic, size, largest)
        return np.zeros_like(size)

    def then(self, maps: LinearMap, bias: Array, y: Tensor) -> "Graph":
        """The graph with an affine map of its output as its output."""
        return replace(self, nodes=(*self.nodes, Affine((len(self.nodes) - 1,), (maps,), bias)), y=(y,), model=b"")


def value_of(node: Node, x: Array, sources: Sequence[Array]) -> Array:
    """The value of one node for a batch of flat inputs, given those of its sources."""
    match node:
        case Input():
            return np.asarray(x[:, node.start : node.start + node.size])
        case Affine():
            return np.asarray(node.linear(sources) + node.bias)
        case Apply():
            return node.function.apply(*sources)
    raise TypeError(f"{node!r} is no node of a graph")


class Builder:
    """Nodes on their way to become a graph; what is added returns its number."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._inputs = 0

    def input(self, size: int) -> int:
        self.nodes.append(Input(self._inputs, size))
        self._inputs += size
        return len(self.nodes) - 1

    def affine(self, *parts: tuple[int, LinearMap], bias: ArrayLike | None = None) -> int:
        """A new affine node; a selection that changes nothing is no node at all."""
        if bias is None and len(parts) == 1 and isinstance(parts[0][1], Select) and parts[0][1].is_identity:
            return parts[0][0]
        size = parts[0][1].outputs
        constant = np.zeros(size) if bias is None else np.broadcast_to(np.asarray(bias, np.float64), (size,))
        self.nodes.append(Affine(tuple(s for s, _ in parts), tuple(m for _, m in parts), constant))
        return len(self.nodes) - 1

    def apply(self, function: Function, *sources: int) -> int:
        self.nodes.append(Apply(sources, function, self.nodes[sources[0]].size))
        return len(self.nodes) - 1

    def size(self, number: int) -> int:
        return self.nodes[number].size

    def graph(self, output: int, x: Sequence[Tensor], y: Sequence[Tensor], model: bytes = b"") -> Graph:
        """The graph whose output is the given node; nodes that it does not need are left out, inputs stay."""
        needed = {output}
        for number in range(len(self.nodes) - 1, -1, -1):
            if number in needed:
                needed.update(self.nodes[number].sources)
        needed.update(number for number, node in enumerate(self.nodes) if isinstance(node, Input))
        order = [*sorted(needed - {output}), output]
        if isinstance(self.nodes[output], Input):
            return self.graph(self.affine((output, Select.identity(self.size(output))), bias=0.0), x, y, model)
        place = {old: new for new, old in enumerate(order)}
        return Graph(tuple(_moved(self.nodes[old], place) for old in order), tuple(x), tuple(y), model)


def _moved(node: Node, place: dict[int, int]) -> Node:
    sources = tuple(place[source] for source in node.sources)
    match node:
        case Input():
            return node
        case Affine():
            return Affine(sources, node.maps, node.bias)
        case Apply():
            return Apply(sources, node.function, node.size)
    raise TypeError(f"{node!r} is no node of a graph")
