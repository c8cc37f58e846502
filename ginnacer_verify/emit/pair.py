"""Pairs of ONNX and VNN-LIB for any tool that reads them: `unsat` of the pair implies `unsat` of what it stands for.

`abstract_rows` and `rows_property` belong to an abstraction of a network with a property: the model's outputs are below
the property's rows, wherever the network is looked at. `query_pair` is a Query, which belongs to a box: its additional
inputs say how far below its line each relaxed ReLU lies (as in `emit.marabou`), and whatever a network cannot say
becomes one more output to be at most a number. Weights are rounded to the element type; what that can do to an output
is charged to its row.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.abstraction.fold import rows_below
from ginnacer_verify.arrays import Array, dense, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.graph.onnx import graph_model
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable
from ginnacer_verify.query.query import Base, Query
from ginnacer_verify.rounding import gamma

FLOAT32 = np.dtype(np.float32)


def abstract_rows(abstraction: Abstraction, prop: Property) -> Layer:
    """The property's rows as a last layer of the abstraction's network, for `abstraction_model`."""
    network, domain = abstraction.network, abstraction.domain
    if (prop.inputs, prop.outputs) != (network.inputs, network.outputs):
        raise AbstractionError(
            f"a property over {prop.inputs} inputs and {prop.outputs} outputs does not fit a network with "
            f"{network.inputs} and {network.outputs}"
        )
    if not all(box.is_empty or (box.lower in domain and box.upper in domain) for box in prop.boxes):
        raise AbstractionError(
            "the property goes beyond the domain of the abstraction: abstract with inputs='pre-layer', 'centred', "
            "or with a box that holds the property's"
        )
    rows = [rows_below(network.layers[-1], disjunct.outputs) for disjunct in prop.disjuncts]
    return Layer(np.vstack([dense(layer.weight) for layer in rows]), np.concatenate([layer.bias for layer in rows]))


def rows_property(prop: Property) -> Property:
    """The property over a model with `abstract_rows`: unsafe where all outputs of a disjunct are at most 0."""
    ends = np.cumsum([0, *(len(disjunct.outputs) for disjunct in prop.disjuncts)])
    disjuncts = []
    for disjunct, first in zip(prop.disjuncts, ends, strict=False):
        unit = np.eye(len(disjunct.outputs), int(ends[-1]), k=int(first))
        outputs = Polytope.of(unit, np.zeros(len(unit)), disjunct.outputs.strict.tolist())
        disjuncts.append(Disjunct(disjunct.box, disjunct.inputs, outputs))
    return Property(tuple(disjuncts), prop.x, Variable("Y", (int(ends[-1]),)))


@dataclass(frozen=True, eq=False)
class QueryPair:
    """A query as a graph and a property over it; `room` is by how much a solution of the pair may miss the query."""

    query: Query
    graph: Graph
    prop: Property
    relaxed: NDArray[np.intp]
    room: float

    @property
    def model(self) -> bytes:
        return graph_model(self.graph)

    def z(self, x: Array) -> Array:
        """The query's variables for an input of the graph."""
        base, relus = self.query.base, self.query.base.relus
        z = np.concatenate([x[: base.free], np.zeros(len(relus))])
        below = dict(zip(self.relaxed.tolist(), x[base.free :], strict=False))
        for i in range(len(relus)):
            y = float(relus.weight[i] @ z) + relus.bias[i]
            z[base.free + i] = (
                _line(base, i) * (y - relus.lower[i]) + relus.slack[i] - below[i] if i in below else max(y, 0)
            )
        return read_only(z)


def query_pair(query: Query, dtype: np.dtype[np.float32] | np.dtype[np.float64] = FLOAT32) -> QueryPair:
    """A query for tools: all of its rows hold for some values of the inputs, or it has no solution."""
    return _Writer(query, np.dtype(dtype)).pair()


def _line(base: Base, i: int) -> float:
    return float(base.relus.upper[i] / (base.relus.upper[i] - base.relus.lower[i]))


class _Writer:
    """Columns are the query's z and, behind them, one e per relaxed ReLU and one s per subset of several."""

    def __init__(self, query: Query, dtype: np.dtype[np.float32] | np.dtype[np.float64]) -> None:
        self.query, self.base, self.relus, self.dtype = query, query.base, query.base.relus, dtype
        exact = {shared.members[0] for shared in query.kept if shared.is_singleton}
        self.relaxed = np.array([i for i in range(len(self.relus)) if i not in exact], dtype=np.intp)
        self.subsets = [shared for shared in query.kept if not shared.is_singleton]
        height = -self.relus.lower * self.relus.upper / (self.relus.upper - self.relus.lower) + 2 * self.relus.slack
        self.height = height[self.relaxed]
        base = self.base
        self.width = base.size + len(self.relaxed) + len(self.subsets)
        least = np.concatenate([base.lower, np.zeros(len(self.relaxed) + len(self.subsets))])
        most = np.concatenate([base.upper, self.height, [max(shared.upper, 0.0) for shared in self.subsets]])
        self.largest = np.maximum(np.abs(least), np.abs(most))
        self.off = np.zeros(self.width)
        """How far each column of the model may be from the query's."""
        self.builder = Builder()
        self.places: list[tuple[int, NDArray[np.intp]]] = []

    def pair(self) -> QueryPair:
        base, free = self.base, self.base.free
        inputs = np.concatenate([np.arange(free), base.size + np.arange(len(self.relaxed))])
        size = max(1, len(inputs))  # a query without a variable gets one that does nothing
        self.places.append((self.builder.input(size), inputs))
        for number in np.unique(self.relus.layer):
            here = np.flatnonzero(self.relus.layer == number)
            relaxed = np.isin(here, self.relaxed)
            for some, function in ((here[~relaxed], True), (here[relaxed], False)):
                if len(some):
                    self._values(some, function)
        if self.subsets:
            weight, bias = np.vstack([shared.weight for shared in self.subsets]), [s.bias for s in self.subsets]
            columns = base.size + len(self.relaxed) + np.arange(len(self.subsets))
            self._add(self._wide(weight), np.array(bias), columns, relu=True, slack=np.zeros(len(bias)))
        rows, offset = self._rows()
        node, off = self._affine(rows, np.zeros(len(rows)))
        x, y = Tensor("input", (1, size), str(self.dtype)), Tensor("output", (1, len(rows)), str(self.dtype))
        graph = Graph(tuple(self.builder.nodes), (x,), (y,))
        assert node == len(graph.nodes) - 1
        lower, upper = np.zeros(size), np.zeros(size)
        lower[:free], upper[:free] = base.box.lower, base.box.upper
        upper[free : len(inputs)] = self.height
        unsafe = Polytope.of(np.eye(len(rows)), offset + off)
        disjunct = Disjunct(Box(lower, upper), Polytope.everything(size), unsafe)
        return QueryPair(self.query, graph, Property.of(disjunct), self.relaxed, float(off.max(initial=0.0)))

    def _wide(self, rows: Array) -> Array:
        return np.hstack([rows, np.zeros((len(rows), self.width - rows.shape[1]))])

    def _values(self, some: NDArray[np.intp], exact: bool) -> None:
        """The ReLUs of some neurons of a layer; or, relaxed, what lies e below the line."""
        relus, rows, bias = self.relus, self._wide(self.relus.weight[some]), self.relus.bias[some]
        columns = self.base.free + some
        if not exact:
            slope = np.array([_line(self.base, i) for i in some])
            rows = rows * slope[:, None]
            rows[np.arange(len(some)), self.base.size + np.searchsorted(self.relaxed, some)] = -1.0
            bias = slope * (bias - relus.lower[some]) + relus.slack[some]
        self._add(rows, bias, columns, relu=exact, slack=relus.slack[some] if exact else np.zeros(len(some)))

    def _add(self, rows: Array, bias: Array, columns: NDArray[np.intp], *, relu: bool, slack: Array) -> None:
        node, off = self._affine(rows, bias)
        self.off[columns] = off + slack
        self.places.append((self.builder.apply(Relu(), node) if relu else node, columns))

    def _affine(self, rows: Array, bias: Array) -> tuple[int, Array]:
        """A node with `rows @ columns + bias`, and how far it may be off: through the columns and through rounding."""
        weight, constant = (part.astype(self.dtype).astype(np.float64) for part in (rows, bias))
        parts = [(node, columns) for node, columns in self.places if weight[:, columns].any()] or self.places[:1]
        maps = [(node, Dense(self._padded(weight[:, columns], node))) for node, columns in parts]
        size = np.abs(rows) @ (self.largest + self.off) + np.abs(bias)
        off = np.abs(weight) @ self.off + np.abs(weight - rows) @ self.largest + np.abs(constant - bias)
        rounding = gamma(4 * self.width + 64) * size
        return self.builder.affine(*maps, bias=constant), np.asarray(off * (1 + 1e-9) + rounding)

    def _padded(self, weight: Array, node: int) -> Array:
        return np.hstack([weight, np.zeros((len(weight), self.builder.size(node) - weight.shape[1]))])

    def _rows(self) -> tuple[Array, Array]:
        """Every row of the query that is no definition of a column: `rows @ columns <= offset`."""
        base, relus = self.base, self.relus
        rows = [self._wide(base.unsafe.matrix), self._wide(base.inputs.matrix)]
        offset = [base.unsafe.offset, base.inputs.offset]
        unit = np.eye(self.width)
        for i in self.relaxed:  # 0 <= x' and y - x' <= slack
            rows += [-unit[base.free + i][None], self._wide(relus.weight[i][None]) - unit[base.free + i]]
            offset.append(np.array([0.0, relus.slack[i] - relus.bias[i]]))
        for number, shared in enumerate(self.subsets):  # x' - active y - s <= slack
            s = unit[base.size + len(self.relaxed) + number]
            for i, active in zip(shared.members, shared.active, strict=True):
                own = self._wide(relus.weight[i][None]) if active else np.zeros((1, self.width))
                rows.append(unit[base.free + i] - s - own)
                offset.append(np.array([relus.slack[i] + (relus.bias[i] if active else 0.0)]))
        return np.vstack(rows), np.concatenate(offset)
