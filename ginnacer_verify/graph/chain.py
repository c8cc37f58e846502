"""Graphs of affine maps and piecewise linear functions as Networks, chains of ReLU layers, and back.

`max(a, b) = b + relu(a - b)`, `min(a, b) = -max(-a, -b)`, `clip(y) = low + relu(y - low) - relu(y - high)`, a leaky
ReLU is `relu(y) - alpha relu(-y)` and `abs(y)` is it with alpha -1. All of these are exact.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import NetworkError, UnsupportedOperator
from ginnacer_verify.graph.function import Function, Relu
from ginnacer_verify.graph.graph import Affine, Apply, Builder, Graph, Input
from ginnacer_verify.graph.graph import Tensor as Described
from ginnacer_verify.graph.layers import Chain, Tensor
from ginnacer_verify.graph.linear import LinearMap, Select, linear_map, matrix_of
from ginnacer_verify.graph.network import Network
from ginnacer_verify.rounding import OVERFLOW

LARGEST_CLIP = 1e15
"""`low + relu(y - low)` keeps no digit of y if low is much larger than this."""


def as_chain(network: "Graph | Network", deadline: Deadline = FOREVER) -> Network:
    """The network as a chain of layers, whatever it is now."""
    return chain_of(network, deadline) if isinstance(network, Graph) else network


def chain_of(graph: Graph, deadline: Deadline = FOREVER) -> Network:
    """The Network that computes the same, in real arithmetic; UnsupportedOperator if there is none."""
    if not graph.arithmetic.is_real:
        _refuse_hidden_overflow(graph)
    chain, values = Chain(graph.inputs, graph.arithmetic), dict[int, Tensor]()
    whole = chain.input((graph.inputs,))
    for number, node in enumerate(graph.nodes):
        deadline.check("the network was written as a chain")
        match node:
            case Input():
                everything = node.size == graph.inputs
                values[number] = whole if everything else whole.taken(np.arange(node.start, node.start + node.size))
            case Affine():
                values[number] = _affine(chain, node, [values[source] for source in node.sources])
            case Apply():
                values[number] = _applied(chain, node.function, [values[source] for source in node.sources], number)
        for source in node.sources:
            if graph.last_use[source] <= number:
                values.pop(source, None)
    layers = chain.layers(values[len(graph.nodes) - 1])
    return Network(layers, graph.input_shape, graph.output_shape, graph.dtype, graph.model, graph.originals)


def _refuse_hidden_overflow(graph: Graph) -> None:
    """Refuse affine nodes that follow each other where the later ones make large values so small that a layer made out
    of them all would not show that the execution overflows between them."""
    shown = {number: 1.0 for number, node in enumerate(graph.nodes) if not isinstance(node, Affine)}
    for number, node in enumerate(graph.nodes):
        if isinstance(node, Affine):
            pairs = zip(node.sources, node.maps, strict=True)
            shown[number] = min((shown[source] * _least_weight(graph, source, one) for source, one in pairs), default=1)
            if not shown[number] * OVERFLOW[graph.precision] > 4 * graph.arithmetic.largest:
                raise UnsupportedOperator("Gemm", str(number), "what is executed in front of it may overflow unseen")


def _least_weight(graph: Graph, source: int, one: LinearMap) -> float:
    """The least among the largest weights of each value of an affine node; 1 if they are only moved."""
    if not (isinstance(graph.nodes[source], Affine) and one.executed):
        return 1.0
    return float(np.asarray(abs(one.matrix()).max(axis=0).todense()).min(initial=1.0))


def graph_of(network: Network | Graph) -> Graph:
    """The same layers as a graph; a graph stays what it is."""
    if isinstance(network, Graph):
        return network
    builder = Builder()
    at = builder.input(network.inputs)
    for number, layer in enumerate(network.layers):
        at = builder.apply(Relu(), at) if number else at
        at = builder.affine((at, linear_map(layer.weight)), bias=layer.bias)
    kind = str(network.dtype)
    x, y = Described("input", network.input_shape, kind), Described("output", network.output_shape, kind)
    graph = replace(builder.graph(at, [x], [y], network.model), originals=network.originals)
    if any(layer.size is not None for layer in network.layers):
        return graph  # layers that were multiplied out are not what is executed
    return replace(graph, arithmetic=network.arithmetic)


def _affine(chain: Chain, node: Affine, sources: list[Tensor]) -> Tensor:
    total: Tensor | None = None
    for source, linear in zip(sources, node.maps, strict=True):
        part = _mapped(source, linear)
        total = part if total is None else chain.add(total, part)
    if total is None:
        raise NetworkError("an affine node without a source")
    total = total.shifted(node.bias) if node.bias.any() else total
    return total.rounded(node.executed, chain.arithmetic.floor)


def _mapped(source: Tensor, linear: LinearMap) -> Tensor:
    if isinstance(linear, Select) and linear.is_identity:
        return source
    return source.mapped(matrix_of(linear), (linear.outputs,))


def _applied(chain: Chain, function: Function, y: list[Tensor], number: int) -> Tensor:
    alike: Any = function
    match type(function).__name__:
        case "Relu":
            return chain.relu(y[0])
        case "Absolute":
            return _leaky(chain, y[0], -1.0)
        case "LeakyRelu":
            return _leaky(chain, y[0], alike.alpha)
        case "Clip":
            return _clip(chain, y[0], alike.low, alike.high)
        case "Maximum":
            return _tournament(chain, y)
        case "Minimum":
            return _tournament(chain, [one.scaled(-1.0) for one in y]).scaled(-1.0)
        case name:
            raise UnsupportedOperator(name, str(number), "it cannot be written with affine maps and ReLUs")


def _leaky(chain: Chain, y: Tensor, alpha: float | Array) -> Tensor:
    return chain.add(chain.relu(y), chain.relu(y.scaled(-1.0)).scaled(-np.asarray(alpha))).rounded(
        2, chain.arithmetic.floor
    )


def _clip(chain: Chain, y: Tensor, low: float | Array, high: float | Array) -> Tensor:
    if not (np.max(np.abs(low)) <= LARGEST_CLIP and np.max(np.abs(high)) <= LARGEST_CLIP):
        raise UnsupportedOperator("Clip", "", "its ends are too large to write it with ReLUs")
    raised = chain.relu(y.shifted(-np.asarray(low))).shifted(low)
    return chain.add(raised, chain.relu(y.shifted(-np.asarray(high))).scaled(-1.0))


def _tournament(chain: Chain, players: list[Tensor]) -> Tensor:
    while len(players) > 1:
        pairs = zip(players[::2], players[1::2], strict=False)
        players = [chain.maximum(a, b) for a, b in pairs] + players[len(players) // 2 * 2 :]
    return players[0]
