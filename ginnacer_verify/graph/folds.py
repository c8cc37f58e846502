"""Exact folds: ReLUs that another ReLU already says, or that never bend, are left out of a graph.

`relu(-y) = relu(y) - y`, so of two neurons that are equal or each other's negative one ReLU is enough; and a sum of
values that cannot be negative is its own ReLU. What is left is the same function in real arithmetic: `relu(y) -
relu(-y)`, which lines around each ReLU would bound loosely, becomes y.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, hstack

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.channels import with_fewer_channels
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input, Node
from ginnacer_verify.graph.linear import NOTHING, Indices, LinearMap, Select, linear_map
from ginnacer_verify.graph.pruning import MATRICES, part_of, pruned

Mask = NDArray[np.bool_]
MOST_ENTRIES = 20_000_000
"""Layers with more weights are not compared row by row."""


def folded(graph: Graph) -> Graph:
    """The same function with fewer ReLUs; the graph itself if there are none to leave out."""
    if not graph.arithmetic.is_real or graph.originals:
        return graph
    graph = with_fewer_channels(graph)
    folding = _Folding(graph)
    nodes = folding.nodes()
    return pruned(replace(graph, nodes=nodes)) if folding.changed else graph


@dataclass(frozen=True, eq=False)
class _Sum:
    """A value of the old graph as a sum of choices, with signs, among values of nodes of the new one."""

    parts: tuple[tuple[int, csr_array], ...]


class _Folding:
    """The new nodes, and what became of each old one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.changed = False
        self._made: list[Node] = []
        self._became: dict[int, int | _Sum] = {}
        self._whole: dict[int, int] = {}

    def nodes(self) -> tuple[Node, ...]:
        for number, node in enumerate(self.graph.nodes):
            match node:
                case Affine():
                    self._became[number] = self._affine(node)
                case Apply() if isinstance(node.function, Relu):
                    self._became[number] = self._relu(node, self._plain(node.sources[0]))
                case Apply():
                    sources = tuple(self._plain(source) for source in node.sources)
                    self._became[number] = self._add(Apply(sources, node.function, node.size))
                case Input():
                    self._became[number] = self._add(node)
        self._plain(len(self.graph.nodes) - 1)
        last = self._plain(len(self.graph.nodes) - 1)
        if last != len(self._made) - 1:
            self._add(Affine((last,), (Select.identity(self._made[last].size),), np.zeros(self._made[last].size)))
        return tuple(self._made)

    def _add(self, node: Node) -> int:
        self._made.append(node)
        return len(self._made) - 1

    def _plain(self, number: int) -> int:
        """The new node with the values of an old one."""
        became = self._became[number]
        if isinstance(became, int):
            return became
        if number not in self._whole:
            size = self.graph.nodes[number].size
            maps = tuple(linear_map(matrix) for _, matrix in became.parts)
            self._whole[number] = self._add(Affine(tuple(at for at, _ in became.parts), maps, np.zeros(size)))
        return self._whole[number]

    def _affine(self, node: Affine) -> int:
        """The node with its maps of folded values multiplied out, as far as they are matrices."""
        sources: list[int] = []
        maps: list[LinearMap] = []
        for source, one in zip(node.sources, node.maps, strict=True):
            became = self._became[source]
            if isinstance(became, _Sum) and isinstance(one, MATRICES):
                for at, chosen in became.parts:
                    sources.append(at)
                    maps.append(_then(one, chosen))
            else:
                sources.append(self._plain(source))
                maps.append(one)
        return self._add(Affine(tuple(sources), tuple(maps), node.bias))

    def _relu(self, node: Apply, source: int) -> int | _Sum:
        before, old = self._made[source], self.graph.nodes[node.sources[0]]
        rows = _Rows.of(before) or _Rows.of(old)  # equal rows give equal values, whatever became of what they add up
        if rows is None or not isinstance(before, Affine) or not _are_matrices(before):
            return self._add(Apply((source,), node.function, node.size))
        straight = self._straight(before)
        first, sign = rows.alike
        first = np.where(straight, np.arange(node.size), first)
        kept = np.unique(first[~straight[first]])
        if len(kept) == node.size:
            return self._add(Apply((source,), node.function, node.size))
        self.changed = True
        at = np.full(node.size, NOTHING)
        at[kept] = np.arange(len(kept))
        bent = np.flatnonzero(at[first] != NOTHING)
        signs = np.where(straight, 1.0, np.where(sign < 0, -1.0, 0.0))
        taken = np.flatnonzero(signs)
        linear = csr_array((signs[taken], (taken, first[taken])), shape=(node.size, node.size))
        parts = self._origins(source, before, linear)
        if len(kept):
            entering = self._add(_rows_of(before, kept))
            chosen = csr_array((np.ones(len(bent)), (bent, at[first[bent]])), shape=(node.size, len(kept)))
            parts.append((self._add(Apply((entering,), node.function, len(kept))), chosen))
        return _Sum(tuple(parts))

    def _origins(self, number: int, node: Affine, chosen: csr_array) -> list[tuple[int, csr_array]]:
        """What is chosen of an affine node; what it only copies is chosen where it comes from."""
        copies = node.bias == 0
        for one in node.maps:
            matrix = one.matrix()
            copies &= not getattr(one, "roundings", 0)
            copies &= np.asarray((abs(matrix) > 0).sum(axis=1)) == np.asarray((matrix == 1).sum(axis=1))
        copies &= sum((np.diff(one.matrix().indptr) for one in node.maps), np.zeros(node.size)) == 1
        own, moved = (csr_array(chosen @ diags_array(mask.astype(np.float64))) for mask in (~copies, copies))
        pairs = [
            (number, own),
            *((s, csr_array(moved @ one.matrix())) for s, one in zip(node.sources, node.maps, strict=True)),
        ]
        for _, matrix in pairs:
            matrix.eliminate_zeros()
        return [(source, matrix) for source, matrix in pairs if matrix.nnz]

    def _straight(self, node: Affine) -> Mask:
        """Which values cannot be negative because they add up values of ReLUs with no minus sign."""
        found = node.bias >= 0
        for source, one in zip(node.sources, node.maps, strict=True):
            matrix = one.matrix()
            negative = np.asarray(matrix.minimum(0).sum(axis=1)) < 0
            before = self._made[source]
            positive = isinstance(before, Apply) and isinstance(before.function, Relu)
            found = found & ~negative & (positive | (np.diff(matrix.indptr) == 0))
        return np.asarray(found)


def _rows_of(node: Affine, rows: Indices) -> Affine:
    """Some values of an affine node, from the sources that they depend on."""
    mask = np.zeros(node.size, dtype=np.bool_)
    mask[rows] = True
    parts = [
        (source, part_of(one, mask, np.ones(one.inputs, dtype=np.bool_), np.arange(one.inputs)))
        for source, one in zip(node.sources, node.maps, strict=True)
    ]
    used = [(source, one) for source, one in parts if one.largest > 0] or parts[:1]
    return Affine(tuple(source for source, _ in used), tuple(one for _, one in used), node.bias[rows])


def _then(one: LinearMap, chosen: csr_array) -> LinearMap:
    """`one` of what is chosen, with signs; each entry of the product is rounded once, if it is not exact."""
    matrix, across = one.matrix(), csr_array(chosen.T)
    counts = np.diff(across.indptr)
    parts = [csr_array(matrix @ _member(across, k)) for k in range(min(2, int(counts.max(initial=0))))]
    product = sum(parts[1:], parts[0]) if parts else csr_array((matrix.shape[0], chosen.shape[1]))
    exact = len(parts) < 2 or not _rounded(*parts).any()
    many = np.flatnonzero(counts > 2)
    if len(many):
        exact, product = False, product.tolil()
        for column in many:
            own = slice(*across.indptr[column : column + 2])
            terms = matrix[:, across.indices[own]].toarray() * across.data[own]
            product[:, [column]] = np.array([[fsum(row)] for row in terms])
    product = csr_array(product)
    product.eliminate_zeros()
    return linear_map(product, getattr(one, "roundings", 0) + int(not exact))


def _member(across: csr_array, number: int) -> csr_array:
    """Of what is chosen for each value only the member with this number, if there is one."""
    there = np.flatnonzero(np.diff(across.indptr) > number)
    at = across.indptr[there] + number
    return csr_array((across.data[at], (across.indices[at], there)), shape=across.shape[::-1])


def _rounded(a: csr_array, b: csr_array) -> Array:
    """What is lost in each sum, exactly (Knuth's TwoSum)."""
    total = a + b
    other = total - a
    return np.asarray(((a - (total - other)) + (b - other)).data)


def _are_matrices(node: Affine) -> bool:
    """Whether its maps are matrices that are small enough to be looked at."""
    return all(isinstance(one, MATRICES) for one in node.maps) and sum(m.parameters for m in node.maps) <= MOST_ENTRIES


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of an affine node, its constants as their last entries."""

    matrix: csr_array

    @classmethod
    def of(cls, node: Node) -> "_Rows | None":
        """None if there are none, or they may be off by roundings."""
        if not isinstance(node, Affine) or not _are_matrices(node):
            return None
        if any(getattr(one, "roundings", 0) for one in node.maps):
            return None
        parts = [one.matrix() for one in node.maps]
        found = csr_array(hstack([*parts, csr_array(node.bias[:, None])], format="csr"))
        found.sum_duplicates()
        found.eliminate_zeros()
        return cls(found)

    @cached_property
    def alike(self) -> tuple[Indices, Array]:
        """Of each row the first one that is equal to it or to its negative, and the sign."""
        m, count = self.matrix, self.matrix.shape[0]
        first, sign = np.arange(count), np.ones(count)
        sizes = np.array([_size(m.data[a:b]) for a, b in zip(m.indptr, m.indptr[1:], strict=False)])
        _, kind, counts = np.unique(sizes, axis=0, return_inverse=True, return_counts=True)
        seen: dict[bytes, int] = {}
        for k in np.flatnonzero(counts[kind.reshape(-1)] > 1):
            own = slice(m.indptr[k], m.indptr[k + 1])
            columns, data = m.indices[own].tobytes(), m.data[own]
            for turned in (1.0, -1.0):
                if (other := seen.get(columns + (turned * data).tobytes())) is not None:
                    first[k], sign[k] = other, turned
                    break
            else:
                seen[columns + data.tobytes()] = int(k)
        return first, sign


def _size(values: Array) -> tuple[float, float]:
    """The same for a row and its negative, and hardly ever for two others."""
    size = np.abs(values)
    return float(size.sum()), float(size.max(initial=0.0))
