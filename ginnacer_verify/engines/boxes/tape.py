"""Tape: a graph over the inputs that vary, value by value, as the compiled engine for graphs wants it.

What does not depend on a varying input is a constant of the box; what a node only copies is the value itself.
Selections, convolutions and sums of maps all become rows of entries, so one kernel does for every graph that is not too
large.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.engines.boxes.problem import Integers
from ginnacer_verify.graph.convolution import Convolution
from ginnacer_verify.graph.elementary import Exp, Reciprocal, Sigmoid, Square, Tanh
from ginnacer_verify.graph.function import Function, Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input
from ginnacer_verify.graph.linear import Adjoint, Dense, Indices, LinearMap, Repeated, Sparse
from ginnacer_verify.graph.piecewise import Absolute, LeakyRelu, Maximum, Minimum
from ginnacer_verify.graph.product import Product
from ginnacer_verify.native import available, call
from ginnacer_verify.rounding import TINY, gamma

ENTERING, SUM, BENT, PRODUCT, SIGMOID, TANH, SQUARE, RECIPROCAL, EXPONENTIAL = range(9)
KINDS: dict[type[Function], int] = {
    Relu: BENT,
    LeakyRelu: BENT,
    Absolute: BENT,
    Product: PRODUCT,
    Sigmoid: SIGMOID,
    Tanh: TANH,
    Square: SQUARE,
    Reciprocal: RECIPROCAL,
    Exp: EXPONENTIAL,
}
MOST_ENTRIES = 3_000_000
"""Graphs whose maps have more entries are left to numpy, which knows convolutions as convolutions."""
NOWHERE = -1
"""The place of what is constant."""


def takes(graph: Graph) -> bool:
    """Whether a graph can be written as a tape that is not too large."""
    if not (available() and graph.arithmetic.is_real and call("cells_room", 1, 1, 1, 1)):
        return False
    known = all(_is_known(node.function) for node in graph.nodes if isinstance(node, Apply))
    maps = [one for node in graph.nodes if isinstance(node, Affine) for one in node.maps]
    return known and sum(map(_entries, maps)) <= MOST_ENTRIES


def _is_known(function: Function) -> bool:
    if isinstance(function, LeakyRelu) and type(function) in KINDS:
        return bool(np.less_equal(function.alpha, 1).all())
    return type(function) in KINDS or type(function) in (Maximum, Minimum)


def _entries(one: LinearMap) -> float:
    """About how many entries the matrix of a map has that are not zero."""
    match one:
        case Dense():
            return one.weight.size
        case Sparse():
            return int(one.weight.nnz)
        case Repeated():
            return one.weight.weight.size * one.times
        case Convolution() | Adjoint():
            return float(one.outputs) * one.terms
    return one.outputs


@dataclass(frozen=True, eq=False)
class Constant:
    """Where the constants of some sums come from: rows of an affine node, and of what is constant before it."""

    values: Indices
    bias: Array
    before: tuple[tuple[int, csr_array], ...]
    terms: int

    def on(self, known: Known) -> tuple[Array, Array]:
        """The constants on every box, and how far they may be off."""
        batch = known.batch
        centre = np.broadcast_to(self.bias, (batch, len(self.bias)))
        off, size = np.zeros(centre.shape), np.abs(centre)
        for source, matrix in self.before:
            lower, upper = known.lower[source], known.upper[source]
            middle = lower + (upper / 2 - lower / 2)
            radius = np.maximum(upper - middle, middle - lower) * (1 + 1e-15)
            centre = centre + (matrix @ middle.T).T
            off = off + (abs(matrix) @ radius.T).T
            size = size + (abs(matrix) @ (np.abs(middle) + radius).T).T
        if not self.before:
            return centre, off
        return centre, off + 2 * gamma(self.terms + 8) * size + TINY


@dataclass(frozen=True, eq=False)
class Flat:
    """The blocks, entries and constants of a graph for given varying inputs."""

    kinds: Integers
    starts: Integers
    entries: Integers
    columns: Integers
    weights: Array
    bends: Array
    constants: tuple[Constant, ...]
    output: Integers
    roundings: int

    @property
    def length(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def block(self) -> Integers:
        """Of each value."""
        return np.repeat(np.arange(len(self.kinds)), np.diff(self.starts)).astype(np.int64)

    @cached_property
    def wanted(self) -> Integers:
        """1 for sums that enter bent functions only, 2 for those that enter any other."""
        found = np.zeros(self.length, dtype=np.int64)
        owner = np.repeat(np.arange(self.length), np.diff(self.entries))
        kind = self.kinds[self.block[owner]]
        found[self.columns[kind == BENT]] = 1
        found[self.columns[kind > BENT]] = 2
        return np.where((self.kinds[self.block] == SUM) & (np.diff(self.entries) > 0), found, 0)

    @cached_property
    def touches(self) -> tuple[Integers, Integers, Integers, Integers]:
        """For each value the stretches of blocks that its entries lie in."""
        owner = np.repeat(np.arange(self.length), np.diff(self.entries))
        block = self.block[self.columns]
        order = np.lexsort((self.columns, owner))
        owner, block, columns = owner[order], block[order], self.columns[order]
        new = np.ones(len(owner), dtype=np.bool_)
        new[1:] = (owner[1:] != owner[:-1]) | (block[1:] != block[:-1])
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(owner))[: len(first)] - 1
        starts = np.searchsorted(owner[first], np.arange(self.length + 1))
        return starts.astype(np.int64), block[first], columns[first], columns[last]

    @property
    def spread(self) -> int:
        """The most uses of one value."""
        return int(np.bincount(self.columns, minlength=1).max(initial=0)) + 1


def flat_of(graph: Graph, varying: Sequence[int]) -> Flat:
    """A graph that `takes` says yes to, for some varying inputs."""
    return _Writer(graph, varying).flat()


class _Writer:
    """Blocks under construction; `place` has for each node the values that it became, NOWHERE for constants."""

    def __init__(self, graph: Graph, varying: Sequence[int]) -> None:
        self.graph = graph
        self.kinds: list[int] = []
        self.starts = [0]
        self.counts: list[Indices] = []
        self.columns: list[Indices] = []
        self.weights: list[Array] = []
        self.bends: list[Array] = []
        self.constants: list[Constant] = []
        self.place: list[Indices] = []
        self.roundings = 0
        self.varying = np.asarray(varying, dtype=np.intp)
        none = np.zeros(len(varying), dtype=np.intp)
        self._block(ENTERING, none, np.zeros(0, np.intp), np.zeros(0))

    def flat(self) -> Flat:
        for node in self.graph.nodes:
            match node:
                case Input():
                    self.place.append(self._input(node))
                case Affine():
                    self.place.append(self._affine(node))
                case Apply():
                    self.place.append(self._apply(node))
        last = len(self.graph.nodes) - 1
        output = self._values(last, np.ones(self.graph.outputs, dtype=np.bool_))
        return Flat(
            np.array(self.kinds, dtype=np.int64),
            np.array(self.starts, dtype=np.int64),
            np.concatenate([[0], np.cumsum(np.concatenate(self.counts))]).astype(np.int64),
            np.concatenate(self.columns).astype(np.int64),
            np.concatenate(self.weights),
            np.concatenate(self.bends),
            tuple(self.constants),
            output.astype(np.int64),
            self.roundings,
        )

    def _block(
        self, kind: int, counts: Indices, columns: Indices, weights: Array, bends: Array | float = 0.0
    ) -> Indices:
        """New values, each with so many of the entries; returns their places."""
        start = self.starts[-1]
        if len(counts) or kind == ENTERING:
            self.kinds.append(kind)
            self.starts.append(start + len(counts))
            self.counts.append(counts)
            self.columns.append(columns)
            self.weights.append(weights)
            self.bends.append(np.broadcast_to(np.asarray(bends, np.float64), len(counts)))
        return np.arange(start, start + len(counts))

    def _input(self, node: Input) -> Indices:
        found = np.full(node.size, NOWHERE)
        inside = np.flatnonzero((self.varying >= node.start) & (self.varying < node.start + node.size))
        found[self.varying[inside] - node.start] = inside
        return found

    def _affine(self, node: Affine) -> Indices:
        places = np.concatenate([self.place[source] for source in node.sources])
        matrix = csr_array(hstack([one.matrix() for one in node.maps], format="csr"))
        matrix.eliminate_zeros()
        live = places[matrix.indices] != NOWHERE
        rows = np.repeat(np.arange(node.size), np.diff(matrix.indptr))
        uses = np.bincount(rows[live], minlength=node.size)
        place = np.full(node.size, NOWHERE)
        alone = (np.diff(matrix.indptr) == 1) & (uses == 1) & (node.bias == 0)
        roundings = max((getattr(one, "roundings", 0) for one in node.maps), default=0)
        copies = np.flatnonzero(alone)[matrix.data[matrix.indptr[:-1][alone]] == 1.0] if not roundings else []
        place[copies] = places[matrix.indices[matrix.indptr[copies]]]
        own = np.flatnonzero((uses > 0) & (place == NOWHERE))
        kept = matrix[own]
        live = places[kept.indices] != NOWHERE
        rows = np.repeat(np.arange(len(own)), np.diff(kept.indptr))
        counts = np.bincount(rows[live], minlength=len(own))
        self.roundings = max(self.roundings, roundings)
        place[own] = self._block(SUM, counts, places[kept.indices[live]], kept.data[live])
        if len(own):
            self._constant(node, place[own], node.bias[own], own)
        return place

    def _constant(self, node: Affine, values: Indices, bias: Array, rows: Indices) -> None:
        before = []
        for source, one in zip(node.sources, node.maps, strict=True):
            dead = self.place[source] == NOWHERE
            matrix = csr_array(one.matrix()[rows])
            matrix.data = np.where(dead[matrix.indices], matrix.data, 0.0)
            matrix.eliminate_zeros()
            if matrix.nnz:
                before.append((source, matrix))
        self.constants.append(Constant(values, bias, tuple(before), node.terms))

    def _values(self, number: int, wanted: NDArray[np.bool_]) -> Indices:
        """The places of some values of a node; those that are constant get sums without entries."""
        place = self.place[number].copy()
        rows = np.flatnonzero(wanted & (place == NOWHERE))
        if len(rows):
            place[rows] = self._block(SUM, np.zeros(len(rows), np.intp), np.zeros(0, np.intp), np.zeros(0))
            size = self.graph.nodes[number].size
            chosen = csr_array((np.ones(len(rows)), (np.arange(len(rows)), rows)), shape=(len(rows), size))
            self.constants.append(Constant(place[rows], np.zeros(len(rows)), ((number, chosen),), 1))
            self.place[number] = place
        return place

    def _apply(self, node: Apply) -> Indices:
        live = np.any([self.place[source] != NOWHERE for source in node.sources], axis=0)
        place = np.full(node.size, NOWHERE)
        if not live.any():
            return place
        arguments = [self._values(source, live)[live] for source in node.sources]
        if isinstance(node.function, Maximum):
            place[live] = self._largest(arguments, -1.0 if isinstance(node.function, Minimum) else 1.0)
            return place
        columns = np.stack(arguments, axis=1).reshape(-1)
        counts = np.full(int(live.sum()), len(arguments))
        bends = np.broadcast_to(getattr(node.function, "alpha", 0.0), live.shape)[live]
        place[live] = self._block(KINDS[type(node.function)], counts, columns, np.ones(len(columns)), bends)
        return place

    def _largest(self, players: list[Indices], sign: float) -> Indices:
        """`max(a, b) = b + relu(a - b)`, `min(a, b) = b - relu(b - a)`, in rounds."""
        while len(players) > 1:
            left, right = players[0], players[1]
            two, ones = np.full(len(left), 2), np.ones(len(left))
            apart = self._sum(left, right, sign, -sign)
            bent = self._block(BENT, two // 2, apart, ones)
            players = [*players[2:], self._sum(right, bent, 1.0, sign)]
        return players[0]

    def _sum(self, left: Indices, right: Indices, first: float, second: float) -> Indices:
        columns = np.stack([left, right], axis=1).reshape(-1)
        place = self._block(SUM, np.full(len(left), 2), columns, np.tile([first, second], len(left)))
        self.constants.append(Constant(place, np.zeros(len(left)), (), 1))
        return place
