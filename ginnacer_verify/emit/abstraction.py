"""An Abstraction as one ONNX model of Gemm, Relu and Add whose output holds the lower, then the upper bounds.

What is guaranteed: for every input of the domain, the model in real arithmetic bounds the network in real arithmetic,
because every rounding of a weight or bias to the element type goes outwards (`emit.rounding`). This is the arithmetic
that solvers reason in. A run in float32 adds its own rounding errors to that, as it does to the network.

Between two layers the model carries one tensor: the values themselves up to the first abstract layer, then the upper
bounds followed by the lower bounds.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.abstraction.icf import Anchor
from ginnacer_verify.abstraction.layer import AbstractLayer, ExactLayer
from ginnacer_verify.abstraction.tight.tight import TightAbstraction
from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.bounds.chain import gamma
from ginnacer_verify.emit.rounding import DOWN, UP, Direction, Rows, bound_rows, representable, rounded
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.graph.onnx import constant, model_bytes

if TYPE_CHECKING:
    import onnx

LARGEST = 2 * 10**9
"""Bytes: an ONNX file cannot hold more."""


def abstraction_model(abstraction: Abstraction, dtype: np.dtype[Any] | None = None) -> bytes:
    """The model, in the network's element type or in the given one."""
    chosen = np.dtype(dtype or abstraction.network.dtype)
    size = onnx_bytes(abstraction, chosen)
    if size > LARGEST:
        raise AbstractionError(f"as ONNX the abstraction would take {size / 1e9:.0f} GB, too much; save it as .npz")
    graph = _Graph(chosen)
    network = abstraction.network
    last = graph.flat("input", network.inputs) if network.input_shape != (1, network.inputs) else "input"
    last, seen = _enter(graph, abstraction, last)
    bounded = False
    for number, layer in enumerate(abstraction.layers):
        if number:
            seen = _Seen(layer.layer, np.zeros(layer.layer.outputs), Anchor.zero(layer.layer.inputs))
        match layer:
            case AbstractLayer():
                last = _abstract_layer(graph, last, layer, seen, bounded, abstraction.clip)
                bounded = True
            case ExactLayer():
                last, bounded = _exact_layer(graph, last, seen, bounded)
    output = network.layers[-1]
    seen = _Seen(output, np.zeros(output.outputs), Anchor.zero(output.inputs))
    lower, upper = seen.rows(DOWN, chosen).on(bounded, DOWN), seen.rows(UP, chosen).on(bounded, UP)
    graph.gemm(last, _stacked(lower, upper), "bounds")
    return model_bytes(
        graph.nodes, graph.constants, {"input": network.input_shape}, {"bounds": (1, 2 * network.outputs)}, chosen
    )


@dataclass(frozen=True, eq=False)
class _Seen:
    """A layer as the model sees it: its bias is known up to `error`, its inputs lie on the anchor's side, if any."""

    layer: Layer
    error: Array
    anchor: Anchor | None

    def rows(self, direction: Direction, dtype: np.dtype[Any]) -> Rows:
        return bound_rows(dense(self.layer.weight), self.layer.bias, self.error, self.anchor, direction, dtype)


def _enter(graph: "_Graph", abstraction: Abstraction, last: str) -> tuple[str, _Seen]:
    """The pre-layer, if there is one, and layer 1 behind it.

    The centred pre-layer needs a centroid that the element type has: the nearest one is taken, around which the same
    bounds hold with the bias of layer 1 that belongs to it."""
    entry, first = abstraction.entry, abstraction.network.layers[0]
    zero = np.zeros(first.outputs)
    if not entry.relus:
        anchor = None if entry.mode == "as-is" else entry.anchor()
        return last, _Seen(first, zero, anchor)
    centre = (
        entry.centroid.astype(graph.dtype).astype(np.float64) if entry.mode == "centred" else np.zeros(first.inputs)
    )
    unit = np.eye(first.inputs)
    last = graph.relu(graph.gemm(last, Rows(np.vstack([unit, -unit]), np.concatenate([-centre, centre]))))
    layer = Layer(entry.layer(first, zero).weight, first(centre))
    size = dense(abs(first.weight)) @ np.abs(centre) + np.abs(first.bias)
    error = gamma(first.inputs + 4) * size if centre.any() else zero
    return last, _Seen(layer, error, Anchor.zero(2 * first.inputs))


def _abstract_layer(graph: "_Graph", last: str, layer: AbstractLayer, seen: _Seen, bounded: bool, clip: bool) -> str:
    """`P relu(V x + u) + t` and t; the clip takes the lower bounds through ReLUs as well."""
    active = layer.icf.active
    upper, lower = (seen.rows(way, graph.dtype).on(bounded, way) for way in (UP, DOWN))
    upper, lower = (Rows(rows.weight * active[:, None], rows.bias * active) for rows in (upper, lower))
    shared = _shared(layer, seen, graph.dtype).on(bounded, UP)
    expand = np.eye(len(layer.partition))[layer.partition.subset_of]
    if clip:
        kept = np.flatnonzero(active)
        shared = _stacked(shared, Rows(lower.weight[kept], lower.bias[kept]))
        lower = Rows(np.zeros_like(lower.weight), np.zeros_like(lower.bias))
        raised = np.eye(len(active))[:, kept]
    else:
        raised = np.zeros((len(active), 0))
    spread = np.block([[expand, np.zeros_like(raised)], [np.zeros_like(expand), raised]])
    relus = graph.relu(graph.gemm(last, shared))
    t = graph.gemm(last, _stacked(upper, lower))
    return graph.add(graph.gemm(relus, Rows(spread, np.zeros(len(spread)))), t)


def _shared(layer: AbstractLayer, seen: _Seen, dtype: np.dtype[Any]) -> Rows:
    """Rows not below `V |x - a| + u` for x on the anchor's side; u is that of the layer's real bias."""
    anchor = layer.anchor
    sign = np.where(layer.icf.active, -1.0, 1.0)
    at_anchor = sign * (np.asarray(seen.layer.weight @ anchor.point) + seen.layer.bias)
    size = np.asarray(abs(seen.layer.weight) @ np.abs(anchor.point)) + np.abs(seen.layer.bias)
    off = seen.error + (gamma(seen.layer.inputs + 8) * size if anchor.point.any() else 0.0)
    off = off + np.where(off == 0, 0.0, gamma(4) * np.abs(at_anchor))
    highest = np.array([max(at_anchor[i] + off[i] for i in subset) for subset in layer.partition.subsets])
    weight = rounded(dense(layer.shared_weight), anchor.side, dtype)
    away = weight @ anchor.point
    slack = gamma(seen.layer.inputs + 8) * (np.abs(weight) @ np.abs(anchor.point) + np.abs(highest))
    return Rows(weight, rounded(highest - away + (slack if anchor.point.any() else 0.0), UP, dtype))


def _exact_layer(graph: "_Graph", last: str, seen: _Seen, bounded: bool) -> tuple[str, bool]:
    """All ReLUs: once for the values if these are known and the type has the weights, else for both bounds."""
    weight = dense(seen.layer.weight)
    if not bounded and representable(weight, graph.dtype) and representable(seen.layer.bias, graph.dtype):
        return graph.relu(graph.gemm(last, Rows(weight, seen.layer.bias))), False
    upper, lower = (seen.rows(way, graph.dtype).on(bounded, way) for way in (UP, DOWN))
    return graph.relu(graph.gemm(last, _stacked(upper, lower))), True


def _stacked(first: Rows, second: Rows) -> Rows:
    return Rows(np.vstack([first.weight, second.weight]), np.concatenate([first.bias, second.bias]))


def onnx_bytes(abstraction: Abstraction | TightAbstraction, dtype: np.dtype[Any]) -> int:
    """About how large the model is: its matrices are dense, and each layer has several."""
    widths = [abstraction.network.inputs, *abstraction.network.relus_per_layer, abstraction.network.outputs]
    return int(dtype.itemsize * sum(6 * a * b for a, b in pairwise(widths)))


@dataclass
class _Graph:
    """Nodes and constants in the making; every method returns the name of its result."""

    dtype: np.dtype[Any]
    nodes: "list[onnx.NodeProto]" = field(default_factory=list)
    constants: "list[onnx.TensorProto]" = field(default_factory=list)

    def flat(self, name: str, size: int) -> str:
        self.constants.append(constant("flat", np.array([1, size], dtype=np.int64)))
        return self._node("Reshape", [name, "flat"], "flat_input")

    def gemm(self, name: str, rows: Rows, result: str = "") -> str:
        number = len(self.constants)
        names = [f"weight{number}", f"bias{number}"]
        self.constants.append(constant(names[0], rows.weight.astype(self.dtype)))
        self.constants.append(constant(names[1], rows.bias.astype(self.dtype)))
        return self._node("Gemm", [name, *names], result, transB=1)

    def relu(self, name: str) -> str:
        return self._node("Relu", [name])

    def add(self, first: str, second: str) -> str:
        return self._node("Add", [first, second])

    def _node(self, operator: str, inputs: list[str], result: str = "", **attributes: Any) -> str:
        from onnx import helper

        result = result or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [result], **attributes))
        return result
