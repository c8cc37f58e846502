"""A TightAbstraction as one ONNX model of Gemm, Relu and Add; its output holds the lower, then the upper bounds of each
tier.

What is guaranteed is what `emit.abstraction` guarantees. The values v that all forms are of are never negative, so a
weight that is rounded upwards stays an upper bound; but not where a ReLU is subtracted again, as own ReLUs are in lower
bounds. An element type that has not all weights gets an abstraction without these, at the nearest centroid it has.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ginnacer_verify.abstraction.tight.tight import TightAbstraction, tight_abstraction
from ginnacer_verify.arrays import Array
from ginnacer_verify.emit.rounding import DOWN, UP, Direction, Rows, rounded
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.onnx import constant, model_bytes
from ginnacer_verify.rounding import UNIT

if TYPE_CHECKING:
    import onnx


def tight_model(abstraction: TightAbstraction, dtype: np.dtype[Any] | None = None) -> bytes:
    """The model, in the network's element type or in the given one."""
    chosen = np.dtype(dtype or abstraction.network.dtype)
    if chosen != np.float64:
        centroid = abstraction.centroid.astype(chosen).astype(np.float64)
        abstraction = tight_abstraction(abstraction.network, centroid, abstraction.relus_per_layer, one_sided=True)
    network, nodes = abstraction.network, _Nodes(chosen)
    unit, c = np.eye(network.inputs), abstraction.centroid
    parts = [nodes.relu(nodes.sum([nodes.input(network)], Rows(np.vstack([unit, -unit]), np.concatenate([-c, c]))))]
    for rows in abstraction.layers:
        parts.append(nodes.relu(nodes.sum(parts, _outwards(rows.weight, rows.potential, UP, chosen))))
    nodes.sum(parts, _bounds(abstraction, chosen), "bounds")
    shape = (1, 2 * network.outputs * len(abstraction.tiers))
    return model_bytes(nodes.made, nodes.constants, {"input": network.input_shape}, {"bounds": shape}, chosen)


def _bounds(abstraction: TightAbstraction, dtype: np.dtype[Any]) -> Rows:
    """The outputs at the centroid, and how far the forms let them change."""
    y = abstraction.trace.y[-1]
    off = abstraction.rounding + 4 * UNIT * np.abs(y)
    found = []
    for tier in abstraction.tiers:
        found += [_outwards(-tier.below, y - off, DOWN, dtype), _outwards(tier.above, y + off, UP, dtype)]
    return Rows(np.vstack([rows.weight for rows in found]), np.concatenate([rows.bias for rows in found]))


def _outwards(weight: Array, bias: Array, direction: Direction, dtype: np.dtype[Any]) -> Rows:
    return Rows(rounded(weight, direction, dtype), rounded(bias, direction, dtype))


@dataclass
class _Nodes:
    """Nodes and constants in the making; every method returns the name of its result."""

    dtype: np.dtype[Any]
    made: "list[onnx.NodeProto]" = field(default_factory=list)
    constants: "list[onnx.TensorProto]" = field(default_factory=list)
    widths: dict[str, int] = field(default_factory=dict)

    def input(self, network: Network) -> str:
        if network.input_shape == (1, network.inputs):
            self.widths["input"] = network.inputs
            return "input"
        self.constants.append(constant("flat", np.array([1, network.inputs], dtype=np.int64)))
        return self._node("Reshape", ["input", "flat"], network.inputs)

    def sum(self, sources: list[str], rows: Rows, result: str = "") -> str:
        """rows.weight @ (sources one after the other) + rows.bias."""
        first, total = 0, ""
        for source in sources:
            last = first + self.widths[source]
            bias = rows.bias if not first else np.zeros(len(rows.bias))
            final = result if source == sources[-1] else ""
            part = self._gemm(source, rows.weight[:, first:last], bias, "" if total else final)
            total = self._node("Add", [total, part], len(rows.bias), final) if total else part
            first = last
        return total

    def relu(self, name: str) -> str:
        return self._node("Relu", [name], self.widths[name])

    def _gemm(self, name: str, weight: Array, bias: Array, result: str) -> str:
        names = [f"{kind}{len(self.constants)}" for kind in ("weight", "bias")]
        self.constants += [constant(names[0], weight.astype(self.dtype)), constant(names[1], bias.astype(self.dtype))]
        return self._node("Gemm", [name, *names], len(bias), result, transB=1)

    def _node(self, operator: str, inputs: list[str], width: int, result: str = "", **attributes: Any) -> str:
        from onnx import helper

        result = result or f"{operator.lower()}{len(self.made)}"
        self.made.append(helper.make_node(operator, inputs, [result], **attributes))
        self.widths[result] = width
        return result
