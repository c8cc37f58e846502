"""An Abstraction as a network of its own, as a Graph or as ONNX: affine maps, ReLUs and skips.

Its outputs are the lower, then the upper bounds of the network's outputs; or lower bounds of given rows alone. What is
guaranteed: for every input of the domain, the model in real arithmetic bounds the network in real arithmetic, because
every rounding of a weight or bias to the element type goes outwards (`emit.rounding`). This is the arithmetic that
solvers reason in. A run in float32 adds its own rounding errors to that, as it does to the network.

Between two layers the model carries one tensor: the values themselves up to the first layer that parts the bounds, then
the upper bounds followed by the lower bounds.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.abstraction.icf import Anchor
from ginnacer_verify.abstraction.layer import AbstractLayer, ExactLayer
from ginnacer_verify.abstraction.tight.tight import TightAbstraction
from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.emit.rounding import DOWN, UP, Direction, Rows, bound_rows, representable, rounded
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import linear_map
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.graph.onnx import graph_model
from ginnacer_verify.rounding import gamma

LARGEST = 2 * 10**9
"""Bytes: an ONNX file cannot hold more."""
Served: TypeAlias = tuple[int, tuple[int, ...]]
"""A ReLU layer of the network, from 0 (the pre-layer is -1), and the neurons of it that one ReLU serves."""


@dataclass(frozen=True, eq=False)
class Emitted:
    """The abstraction as a graph. `served[k]` has an entry for each ReLU of node k. `leaving[l]` is the node of what
    leaves ReLU layer l: its values, or where `parted[l]` their upper and then their lower bounds."""

    graph: Graph
    served: dict[int, tuple[Served, ...]]
    leaving: tuple[int, ...]
    parted: tuple[bool, ...]


def abstraction_model(abstraction: Abstraction, dtype: np.dtype[Any] | None = None, rows: Layer | None = None) -> bytes:
    """The model as ONNX, in the network's element type or in the given one."""
    chosen = np.dtype(dtype or abstraction.network.dtype)
    size = onnx_bytes(abstraction, chosen)
    if size > LARGEST:
        raise AbstractionError(f"as ONNX the abstraction would take {size / 1e9:.0f} GB, too much; save it as .npz")
    return graph_model(abstraction_graph(abstraction, chosen, rows).graph)


def abstraction_graph(abstraction: Abstraction, dtype: np.dtype[Any], rows: Layer | None = None) -> Emitted:
    """The graph, in numbers that the element type has; `rows` take the place of the network's last layer."""
    network, writer = abstraction.network, _Writer(dtype, abstraction.clip)
    own, shared = writer.enter(abstraction)
    for number, layer in enumerate(abstraction.layers):
        writer.layer(number, layer, own, shared)
        following = network.layers[number + 1]
        zero = np.zeros(following.outputs)
        own = shared = _Seen(writer.leaving[-1], following, zero, Anchor.zero(following.inputs), writer.parted[-1])
    if rows is None:
        output = _stacked(own.rows(DOWN, dtype), own.rows(UP, dtype))
    else:
        output = _Seen(own.node, rows, np.zeros(rows.outputs), own.anchor, own.parted).rows(DOWN, dtype)
    writer.affine((own.node, output))
    kind, count = str(np.dtype(dtype)), len(output.bias)
    x, y = Tensor("input", network.input_shape, kind), Tensor("bounds", (1, count), kind)
    graph = Graph(tuple(writer.builder.nodes), (x,), (y,))
    return Emitted(graph, writer.served, tuple(writer.leaving), tuple(writer.parted))


@dataclass(frozen=True, eq=False)
class _Seen:
    """A layer as the model sees it: its inputs are the values or bounds of a node and lie on the anchor's side, if any;
    its bias is known up to `error`."""

    node: int
    layer: Layer
    error: Array
    anchor: Anchor | None
    parted: bool = False

    def rows(self, direction: Direction, dtype: np.dtype[Any]) -> Rows:
        rows = bound_rows(dense(self.layer.weight), self.layer.bias, self.error, self.anchor, direction, dtype)
        return rows.on(self.parted, direction)

    def is_exact(self, dtype: np.dtype[Any]) -> bool:
        """Whether both bounds of what leaves it are one value."""
        numbers = dense(self.layer.weight), self.layer.bias
        return not self.parted and not self.error.any() and all(representable(part, dtype) for part in numbers)


@dataclass
class _Writer:
    """A graph in the making, layer by layer."""

    dtype: np.dtype[Any]
    clip: bool
    builder: Builder = field(default_factory=Builder)
    served: dict[int, tuple[Served, ...]] = field(default_factory=dict)
    leaving: list[int] = field(default_factory=list)
    parted: list[bool] = field(default_factory=list)

    def affine(self, *parts: tuple[int, Rows]) -> int:
        maps = [(node, linear_map(rows.weight)) for node, rows in parts]
        return self.builder.affine(*maps, bias=sum((rows.bias for _, rows in parts), np.zeros(len(parts[0][1].bias))))

    def relu(self, node: int, rows: Rows, served: tuple[Served, ...]) -> int:
        found = self.builder.apply(Relu(), self.affine((node, rows)))
        self.served[found] = served
        return found

    def enter(self, abstraction: Abstraction) -> tuple[_Seen, _Seen]:
        """Layer 1 on the inputs, and as its shared ReLUs see it: behind the pre-layer, if there is one.

        The centred pre-layer needs a centroid that the element type has: the nearest one is taken, around which the
        same bounds hold with the bias of layer 1 that belongs to it. What is not shared reads the inputs themselves if
        the type has the weights: `relu(x) - relu(-x)` is x."""
        entry, first = abstraction.entry, abstraction.network.layers[0]
        zero, node = np.zeros(first.outputs), self.builder.input(first.inputs)
        anchor = None if entry.mode == "as-is" or entry.relus else entry.anchor()
        plain = _Seen(node, first, zero, anchor)
        readable = representable(dense(first.weight), self.dtype)
        layer = abstraction.layers[0]
        if not entry.relus or (readable and not (isinstance(layer, AbstractLayer) and layer.parts)):
            return plain, plain
        centre = entry.centroid.astype(self.dtype).astype(np.float64) if entry.mode == "centred" else zero[:0]
        centre = centre if len(centre) else np.zeros(first.inputs)
        unit = np.eye(first.inputs)
        both = Rows(np.vstack([unit, -unit]), np.concatenate([-centre, centre]))
        split = self.relu(node, both, tuple((-1, (i,)) for i in (*range(first.inputs), *range(first.inputs))))
        size = dense(abs(first.weight)) @ np.abs(centre) + np.abs(first.bias)
        error = gamma(first.inputs + 4) * size if centre.any() else zero
        entered = Layer(entry.layer(first, zero).weight, first(centre))
        behind = _Seen(split, entered, error, Anchor.zero(2 * first.inputs))
        return (plain if readable else behind), behind

    def layer(self, number: int, layer: AbstractLayer | ExactLayer, own: _Seen, shared: _Seen) -> None:
        """`P relu(V x + u) + t` above and t below; the clip takes t below through ReLUs; concrete neurons take both."""
        neurons = layer.layer.outputs
        chosen = layer.concrete if isinstance(layer, AbstractLayer) else range(neurons)
        concrete = np.array(sorted(chosen), dtype=np.intp)
        single = own.is_exact(self.dtype)
        if len(concrete) == neurons:
            self._leave(self._concrete(number, own, concrete, single), parted=not single)
            return
        assert isinstance(layer, AbstractLayer)
        parts = [self._shared(number, layer, shared)]
        upper, lower = own.rows(UP, self.dtype), own.rows(DOWN, self.dtype)
        free = layer.icf.active & ~np.isin(np.arange(neurons), concrete)
        if len(concrete):
            places = (concrete, neurons + concrete) if single else (np.concatenate([concrete, neurons + concrete]),)
            parts.append((self._concrete(number, own, concrete, single), _spread(2 * neurons, *places)))
        if self.clip and free.any():
            raised, served = np.flatnonzero(free), tuple((number, (int(i),)) for i in np.flatnonzero(free))
            node = self.relu(own.node, Rows(lower.weight[raised], lower.bias[raised]), served)
            parts.append((node, _spread(2 * neurons, neurons + raised)))
        below = np.zeros(neurons) if self.clip else free
        t = _stacked(_masked(upper, free), _masked(lower, below))
        self._leave(self.affine(*parts, (own.node, t)), parted=True)

    def _leave(self, node: int, *, parted: bool) -> None:
        self.leaving.append(node)
        self.parted.append(parted)

    def _concrete(self, number: int, own: _Seen, neurons: Any, single: bool) -> int:
        """The ReLUs of some neurons: once if both bounds of their inputs are one value, else above and then below."""
        ways: tuple[Direction, ...] = (UP,) if single else (UP, DOWN)
        rows = [own.rows(way, self.dtype) for way in ways]
        served = tuple((number, (int(i),)) for i in neurons) * len(ways)
        weight, bias = [part.weight[neurons] for part in rows], [part.bias[neurons] for part in rows]
        return self.relu(own.node, Rows(np.vstack(weight), np.concatenate(bias)), served)

    def _shared(self, number: int, layer: AbstractLayer, seen: _Seen) -> tuple[int, Rows]:
        """The shared ReLUs, and where they are added: to the upper bounds of their members."""
        kept = [k for k, subset in enumerate(layer.partition.subsets) if subset[0] not in layer.concrete]
        subsets = [layer.partition.subsets[k] for k in kept]
        node = self.relu(
            seen.node, _above(layer, seen, self.dtype, kept), tuple((number, subset) for subset in subsets)
        )
        expand = np.zeros((2 * layer.layer.outputs, len(subsets)))
        for column, subset in enumerate(subsets):
            expand[list(subset), column] = 1.0
        return node, Rows(expand, np.zeros(len(expand)))


def _spread(size: int, *places: Any) -> Rows:
    """A matrix with a 1 at each of the places, column by column."""
    weight = np.zeros((size, len(places[0])))
    for rows in places:
        weight[rows, np.arange(len(rows))] = 1.0
    return Rows(weight, np.zeros(size))


def _above(layer: AbstractLayer, seen: _Seen, dtype: np.dtype[Any], kept: list[int]) -> Rows:
    """Rows not below `V |x - a| + u` for x on the anchor's side, for the subsets `kept`; u is that of the layer's real
    bias."""
    anchor = layer.anchor
    sign = np.where(layer.icf.active, -1.0, 1.0)
    at_anchor = sign * (np.asarray(seen.layer.weight @ anchor.point) + seen.layer.bias)
    size = np.asarray(abs(seen.layer.weight) @ np.abs(anchor.point)) + np.abs(seen.layer.bias)
    off = seen.error + (gamma(seen.layer.inputs + 8) * size if anchor.point.any() else 0.0)
    off = off + np.where(off == 0, 0.0, gamma(4) * np.abs(at_anchor))
    highest = np.array([max(at_anchor[i] + off[i] for i in layer.partition.subsets[k]) for k in kept])
    weight = rounded(dense(layer.shared_weight)[kept], anchor.side, dtype)
    away = weight @ anchor.point
    slack = gamma(seen.layer.inputs + 8) * (np.abs(weight) @ np.abs(anchor.point) + np.abs(highest))
    bias = rounded(highest - away + (slack if anchor.point.any() else 0.0), UP, dtype)
    return Rows(weight, bias).on(seen.parted, UP)


def _masked(rows: Rows, kept: Any) -> Rows:
    return Rows(rows.weight * kept[:, None], rows.bias * kept)


def _stacked(first: Rows, second: Rows) -> Rows:
    return Rows(np.vstack([first.weight, second.weight]), np.concatenate([first.bias, second.bias]))


def onnx_bytes(abstraction: Abstraction | TightAbstraction, dtype: np.dtype[Any]) -> int:
    """About how large the model is: its matrices are dense, and each layer has several."""
    widths = [abstraction.network.inputs, *abstraction.network.relus_per_layer, abstraction.network.outputs]
    return int(dtype.itemsize * sum(6 * a * b for a, b in pairwise(widths)))
