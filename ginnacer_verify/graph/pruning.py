"""Pruning: values that nothing uses are left out of a graph."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input, Node
from ginnacer_verify.graph.linear import NOTHING, Dense, Indices, LinearMap, Scale, Select, Sparse

Mask = NDArray[np.bool_]
MATRICES = (Dense, Sparse, Scale, Select)
"""The maps whose matrices are small enough to be looked at, and to be multiplied out."""


def pruned(graph: Graph) -> Graph:
    """The same function without values that nothing uses."""
    needed = _needed(graph)
    at = {number: np.cumsum(mask) - 1 for number, mask in needed.items()}
    place: dict[int, int] = {}
    nodes: list[Node] = []
    for number, node in enumerate(graph.nodes):
        mask = needed[number]
        if not mask.any() and not isinstance(node, Input):
            continue
        sources = tuple(place[source] for source in node.sources if needed[source].any())
        match node:
            case Affine():
                pairs = [
                    (place[source], part_of(one, mask, needed[source], at[source]))
                    for source, one in zip(node.sources, node.maps, strict=True)
                    if source in place
                ]
                nodes.append(Affine(tuple(s for s, _ in pairs), tuple(m for _, m in pairs), node.bias[mask]))
            case Apply():
                nodes.append(Apply(sources, node.function, int(mask.sum())))
            case Input():
                nodes.append(node)
        place[number] = len(nodes) - 1
    return replace(graph, nodes=tuple(nodes))


def _needed(graph: Graph) -> dict[int, Mask]:
    """Which values of each node the output depends on; of inputs, and around maps that are no matrices, all."""
    needed = {number: np.zeros(node.size, dtype=np.bool_) for number, node in enumerate(graph.nodes)}
    needed[len(graph.nodes) - 1][:] = True
    for number in range(len(graph.nodes) - 1, -1, -1):
        node, mask = graph.nodes[number], needed[number]
        if isinstance(node, Input):
            mask[:] = True
        if not mask.any():
            continue
        if isinstance(node, Apply):
            if _has_arrays(node.function):
                mask[:] = True
            for source in node.sources:
                needed[source] |= mask
        elif isinstance(node, Affine):
            if not all(isinstance(one, MATRICES) for one in node.maps):
                mask[:] = True
            for source, one in zip(node.sources, node.maps, strict=True):
                if isinstance(one, MATRICES):
                    rows = one.matrix()[np.flatnonzero(mask)]
                    needed[source][rows.indices[rows.data != 0]] = True
                else:
                    needed[source][:] = True
    return needed


def _has_arrays(function: object) -> bool:
    """Whether a function holds numbers of its own for each element."""
    return is_dataclass(function) and any(np.ndim(getattr(function, one.name)) for one in fields(function))


def part_of(one: LinearMap, rows: Mask, columns: Mask, at: Indices) -> LinearMap:
    """The map between the values that are left."""
    if rows.all() and columns.all():
        return one
    match one:
        case Dense():
            return Dense(one.weight[rows][:, columns], one.roundings)
        case Scale() if np.array_equal(rows, columns):
            return Scale(one.factor[rows], one.roundings)
        case Select():
            index = one.index[rows]
            return Select(np.where(index == NOTHING, NOTHING, at[index]), int(columns.sum()))
    matrix = csr_array(one.matrix()[np.flatnonzero(rows)])[:, np.flatnonzero(columns)]
    return Sparse(matrix, getattr(one, "roundings", 0))
