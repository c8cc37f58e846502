"""Exact folds of whole channels: one of two that are equal, or each other's negative, takes no ReLU of its own.

`relu(-y) = relu(y) - y`, pixel by pixel, so what adds up such a pair adds up one ReLU and y itself; where the two
cancel, as in `relu(y) - relu(-y)`, nothing but y is left. A selection of channels that follows is made one layer."""

from dataclasses import replace

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.convolution import Convolution
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Node
from ginnacer_verify.graph.linear import Dense, Indices, LinearMap
from ginnacer_verify.graph.pruning import pruned


def with_fewer_channels(graph: Graph) -> Graph:
    """The same function with one ReLU for each pair of such channels; the graph itself if there are none."""
    nodes, users = list(graph.nodes), _users(graph)
    for number in graph.applied:
        _fold(nodes, number, users)
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return graph
    return _with_one_layer(pruned(replace(graph, nodes=tuple(nodes))))


def _users(graph: Graph) -> list[list[int]]:
    """Who uses each node; the output is used once more."""
    users: list[list[int]] = [[] for _ in graph.nodes]
    for number, node in enumerate(graph.nodes):
        for source in node.sources:
            users[source].append(number)
    users[-1].append(len(graph.nodes))
    return users


def _convolution(node: Node) -> Convolution | None:
    """The convolution that a node is, if it is one that knows its weights."""
    if isinstance(node, Affine) and len(node.maps) == 1:
        (one,) = node.maps
        if isinstance(one, Convolution) and one.groups == 1 and not one.roundings:
            return one
    return None


def _fold(nodes: list[Node], number: int, users: list[list[int]]) -> None:
    """Leave out channels before a ReLU whose users all multiply them with weights."""
    relu = nodes[number]
    if not (isinstance(relu, Apply) and isinstance(relu.function, Relu)) or number + 1 == len(nodes):
        return
    before = nodes[source := relu.sources[0]]
    one = _convolution(before)
    if one is None or users[source] != [number] or not isinstance(before, Affine):
        return
    first, sign = _pairs(one, before.bias)
    kept = np.flatnonzero(first == np.arange(len(first)))
    followers = [nodes[user] for user in users[number]]
    if len(kept) == len(first) or not all(_multiplies(follower, number) for follower in followers):
        return
    chosen = Convolution(one.weight[:, kept].reshape(1, len(kept), one.in_channels, *one.geometry.kernel), one.geometry)
    nodes[source] = Affine(before.sources, (chosen,), before.bias.reshape(len(first), -1)[kept].reshape(-1))
    nodes[number] = Apply((source,), relu.function, chosen.outputs)
    for user in set(users[number]):
        nodes[user] = _following(nodes[user], number, source, first, sign)


def _pairs(one: Convolution, bias: Array) -> tuple[Indices, Array]:
    """Of each channel the one that it is equal to or the negative of, itself if there is none, and the sign."""
    channels = one.out_channels
    rows = np.hstack([one.weight[0].reshape(channels, -1), bias.reshape(channels, -1)])
    first, sign, single = np.arange(channels), np.ones(channels), dict[bytes, int]()
    for k, row in enumerate(rows):
        for turned in (1.0, -1.0):
            other = single.pop((turned * row + 0.0).tobytes(), None)
            if other is not None:
                first[k], sign[k] = other, turned
                break
        else:
            single[(row + 0.0).tobytes()] = k
    return first, sign


def _multiplies(node: Node, source: int) -> bool:
    """Whether every map of that source has weights for each of its channels."""
    if not isinstance(node, Affine):
        return False
    own = [one for one, number in zip(node.maps, node.sources, strict=True) if number == source]
    return all(isinstance(one, Dense) or (isinstance(one, Convolution) and one.groups == 1) for one in own)


def _following(node: Node, relu: int, source: int, first: Indices, sign: Array) -> Affine:
    """A user of the ReLUs of all channels as one of those that are left, and of what enters them."""
    assert isinstance(node, Affine)
    sources: list[int] = []
    maps: list[LinearMap] = []
    for number, one in zip(node.sources, node.maps, strict=True):
        parts = _parted(one, first, sign) if number == relu else [one, None]
        for at, part in zip((number, source), parts, strict=True):
            if part is not None:
                sources.append(at)
                maps.append(part)
    return Affine(tuple(sources), tuple(maps), node.bias)


def _parted(one: LinearMap, first: Indices, sign: Array) -> list[LinearMap | None]:
    """What a map makes of the ReLUs that are left, and of what enters them; None where that is nothing."""
    assert isinstance(one, Convolution | Dense)
    weight = one.weight[0] if isinstance(one, Convolution) else one.weight.reshape(one.outputs, len(first), -1)
    kept = first == np.arange(len(first))
    place = np.cumsum(kept) - 1
    bent, straight, rounded = weight[:, kept].copy(), np.zeros_like(weight[:, kept]), False
    for k in np.flatnonzero(~kept):
        at = place[first[k]]
        rounded |= bool(_lost(bent[:, at], weight[:, k]).any())
        bent[:, at] += weight[:, k]
        if sign[k] < 0:
            straight[:, at] = -weight[:, k]
    return [_like(one, values, rounded and values is bent) if values.any() else None for values in (bent, straight)]


def _like(one: Convolution | Dense, weight: Array, rounded: bool) -> LinearMap:
    roundings = one.roundings + int(rounded)
    if isinstance(one, Dense):
        return Dense(weight.reshape(one.outputs, -1), roundings)
    return Convolution(weight.reshape(1, *weight.shape[:2], *one.geometry.kernel), one.geometry, roundings)


def _lost(a: Array, b: Array) -> Array:
    """What is lost in each sum, exactly (Knuth's TwoSum)."""
    total = a + b
    other = total - a
    return np.asarray((a - (total - other)) + (b - other))


def _with_one_layer(graph: Graph) -> Graph:
    """Convolutions of which only channels are chosen, with signs, as one layer where that is exact."""
    nodes, users = list(graph.nodes), _users(graph)
    for number, node in enumerate(graph.nodes):
        outer = _convolution(node)
        if outer is None or not isinstance(node, Affine):
            continue
        before, weight = nodes[node.sources[0]], outer.weight[0, :, :, 0]
        inner = _convolution(before)
        alone = outer.cells == 1 and outer.windows == outer.inputs // outer.in_channels
        if inner is None or not isinstance(before, Affine) or users[node.sources[0]] != [number] or not alone:
            continue
        if not ((np.count_nonzero(weight, axis=1) == 1).all() and np.isin(weight, (-1.0, 0.0, 1.0)).all()):
            continue
        picked, sign = np.abs(weight).argmax(axis=1), weight.sum(axis=1)
        given = (sign[:, None] * before.bias.reshape(inner.out_channels, -1)[picked]).reshape(-1)
        if _lost(given, node.bias).any():
            continue
        kernels = inner.weight[:, picked] * sign[:, None, None]
        chosen = Convolution(kernels.reshape(*kernels.shape[:3], *inner.geometry.kernel), inner.geometry)
        nodes[number] = Affine(before.sources, (chosen,), given + node.bias)
    return pruned(replace(graph, nodes=tuple(nodes)))
