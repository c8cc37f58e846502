"""Multipliers for leaves, by our own ascent on the checker's reading of the network and with the checker's bounds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ginnacer_check.bounds import Known as Bounded
from ginnacer_check.check import Leaf, Problem, ends_of
from ginnacer_check.network import Network as Read
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.ascent import Cuts, Found, Multipliers, ascend
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.bounds.substitution import lines_of
from ginnacer_verify.certificate.tree import levels, rounded
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.graph.elementary import Cos, Exp, Log, Reciprocal, Sigmoid, Sin, Sqrt, Square, Tanh
from ginnacer_verify.graph.function import Function, Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input, Node, Tensor
from ginnacer_verify.graph.linear import LinearMap
from ginnacer_verify.graph.product import Product
from ginnacer_verify.graph.steps import Floor, Sign
from ginnacer_verify.graph.twin import Twin

OURS = (Cos, Exp, Floor, Log, Product, Reciprocal, Relu, Sigmoid, Sign, Sin, Sqrt, Square, Tanh, Twin)
FUNCTIONS: dict[str, Callable[[], Function]] = {one.__name__: one for one in OURS}
"""Ours by the checker's names."""


class Foreign(LinearMap):
    """A map of the checker as one of ours."""

    def __init__(self, one: Any) -> None:
        self.one, self.inputs, self.outputs, self.terms = one, one.inputs, one.outputs, one.terms

    def apply(self, x: Array) -> Array:
        return np.asarray(self.one.apply(x))

    def pull_back(self, rows: Array) -> Array:
        return np.asarray(self.one.pull(rows))

    def absolute(self) -> "Foreign":
        return Foreign(self.one.changed(np.abs))

    def matrix(self) -> Any:
        raise NotImplementedError("only bounds are computed with the checker's maps")

    single = matrix

    @property
    def largest(self) -> float:
        return 0.0


def graph_of(network: Read) -> Graph:
    """The checker's network as a graph of ours, node by node."""
    nodes: list[Node] = []
    for node in network.nodes:
        if node.function:
            nodes.append(Apply(node.sources, FUNCTIONS[node.function.name](), node.size))
        elif node.sources:
            nodes.append(Affine(node.sources, tuple(Foreign(one) for one in node.maps), node.bias))
        else:
            nodes.append(Input(0, node.size))
    return Graph(tuple(nodes), (Tensor("X", (nodes[0].size,)),), (Tensor("Y", (nodes[-1].size,)),))


class Climber:
    """Finds multipliers for leaves of one open disjunct each."""

    def __init__(self, problem: Problem, deadline: Deadline) -> None:
        self.problem, self.deadline = problem, deadline
        self.graph = cache(lambda part: graph_of(problem.goal(part, False)))

    def climb(
        self,
        leaves: Sequence[Leaf],
        known: Bounded,
        steps: int,
        starts: Sequence[Multipliers | None] | None = None,
    ) -> tuple[list[Leaf], Found, Known]:
        """The leaves with multipliers as they come back from a file, and what was found on the way."""
        first, many = leaves[0].region, len(leaves)
        network, part = self.problem.goal(first.part, False), self.problem.parts[first.part]
        graph, mine = self.graph(first.part), part.owner == first.open[0]
        rows = np.broadcast_to(np.eye(len(mine))[mine], (many, int(mine.sum()), len(mine)))
        lower, upper, reach = (
            [np.broadcast_to(v, (many, v.shape[1])) for v in some] for some in (known.lower, known.upper, known.reach)
        )
        ours = Known(lower[0], upper[0], lower, upper, reach)
        cuts = {k: Cuts(*ends) for k, ends in ends_of(network, [leaf.region.decisions for leaf in leaves]).items()}
        start = self._start(graph, ours, cuts, rows.shape[1], starts or [None] * many)
        found = ascend(graph, rows, np.zeros(rows.shape[:2]), ours, cuts, start, steps, self.deadline)
        slopes = self._slopes(graph, ours, found.multipliers)
        return [self._leaf(leaf, found.multipliers, cuts, slopes, i) for i, leaf in enumerate(leaves)], found, ours

    def _start(
        self, graph: Graph, known: Known, cuts: dict[int, Cuts], rows: int, starts: Sequence[Multipliers | None]
    ) -> Multipliers:
        start = Multipliers(rows=np.full((len(starts), rows), 1 / rows))
        for number in graph.applied:
            function, shape = _function(graph, number), known.lower[number].shape
            lower, upper = known.ends(graph.nodes[number].sources)
            if isinstance(function, Twin):
                start.low[number], start.high[number] = function.preferred(lower, upper)
                continue
            if function.choices[0]:
                relu = isinstance(function, Relu)
                start.low[number] = (upper[0] > -lower[0]).astype(float) if relu else np.full(shape, 0.5)
            if function.choices[1]:
                start.high[number] = np.full(shape, 0.5)
        for place in [(number, sign) for number in cuts for sign in (1, -1)]:
            start.decided[place] = np.zeros(cuts[place[0]].lower.shape)
        for i, one in enumerate(starts):
            if one is not None:
                start.rows[i] = one.rows
                for own, given in ((start.low, one.low), (start.high, one.high)):
                    for number in given:
                        own[number][i] = given[number]
                for place in one.decided.keys() & start.decided.keys():
                    start.decided[place][i] = one.decided[place]
        return start

    def _slopes(self, graph: Graph, known: Known, chosen: Multipliers) -> list[Array]:
        """The slopes of all functions as a file holds them, each with an axis for leaves."""
        found = []
        for number in graph.applied:
            if isinstance(_function(graph, number), Relu):
                found.append(levels(chosen.low[number]))
            else:
                lines = lines_of(graph, number, known, chosen.choices({}))
                both = [
                    np.stack([np.broadcast_to(s, (known.batch, 1, s.shape[-1]))[:, 0] for s in one], axis=1)
                    for one in (lines.lower_slope, lines.upper_slope)
                ]
                found.append(
                    np.nan_to_num(np.stack(both, axis=1), posinf=0.0, neginf=0.0).astype(np.float32).astype(float)
                )
        return found

    def _leaf(self, leaf: Leaf, chosen: Multipliers, cuts: dict[int, Cuts], slopes: Sequence[Array], i: int) -> Leaf:
        weights, seen = [], set()
        for node, index, sign, at in leaf.region.decisions:
            ends = cuts[node].lower if sign > 0 else cuts[node].upper
            counts = ends[i, index] == at and (node, index, sign) not in seen
            weights.append(chosen.decided[node, sign][i, index] if counts else 0.0)
            if counts:
                seen.add((node, index, sign))
        shares = rounded(chosen.rows[i])
        return replace(leaf, shares=shares, weights=rounded(np.array(weights)), slopes=tuple(one[i] for one in slopes))


def _function(graph: Graph, number: int) -> Function:
    node = graph.nodes[number]
    assert isinstance(node, Apply)
    return node.function


def row_of(chosen: Multipliers, i: int) -> Multipliers:
    """What one leaf chose, without the axis of the batch."""
    low, high = ({key: values[i] for key, values in some.items()} for some in (chosen.low, chosen.high))
    return Multipliers(low, high, {key: values[i] for key, values in chosen.decided.items()}, chosen.rows[i])
