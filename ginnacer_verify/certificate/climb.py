"""Multipliers for leaves, by our own ascent on the checker's reading of the network and with the checker's bounds."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ginnacer_check.bounds import Known as Bounded
from ginnacer_check.check import Leaf, Problem
from ginnacer_check.network import Network as Read
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.ascent import Cuts, Found, Multipliers, ascend
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.certificate.tree import levels, rounded
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input, Node, Tensor
from ginnacer_verify.graph.linear import LinearMap


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
        if node.relu:
            nodes.append(Apply(node.sources, Relu(), node.size))
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
        decided: Any,
        steps: int,
        starts: Sequence[Multipliers | None] | None = None,
    ) -> tuple[list[Leaf], Found]:
        """The leaves with multipliers as they come back from a file, and what was found on the way."""
        first, many = leaves[0].region, len(leaves)
        network, part = self.problem.goal(first.part, False), self.problem.parts[first.part]
        mine = part.owner == first.open[0]
        rows = np.broadcast_to(np.eye(len(mine))[mine], (many, int(mine.sum()), len(mine)))
        lower, upper, reach = (
            [np.broadcast_to(v, (many, v.shape[1])) for v in some] for some in (known.lower, known.upper, known.reach)
        )
        ours = Known(lower[0], upper[0], lower, upper, reach)
        cuts = {number: Cuts(*ends) for number, ends in decided.items()}
        start = self._start(network, ours, cuts, rows.shape[1], starts or [None] * many)
        found = ascend(self.graph(first.part), rows, np.zeros(rows.shape[:2]), ours, cuts, start, steps, self.deadline)
        return [self._leaf(network, leaf, found.multipliers, i) for i, leaf in enumerate(leaves)], found

    def _start(
        self, network: Read, known: Known, cuts: dict[int, Cuts], rows: int, starts: Sequence[Multipliers | None]
    ) -> Multipliers:
        start = Multipliers(rows=np.full((len(starts), rows), 1 / rows))
        for number in network.relus:
            source = network.nodes[number].sources[0]
            start.low[number] = (known.upper[source] > -known.lower[source]).astype(float)
        for place in [(number, sign) for number in cuts for sign in (1, -1)]:
            start.decided[place] = np.zeros(cuts[place[0]].lower.shape)
        for i, one in enumerate(starts):
            if one is not None:
                start.rows[i] = one.rows
                for number in one.low:
                    start.low[number][i] = one.low[number]
                for place in one.decided.keys() & start.decided.keys():
                    start.decided[place][i] = one.decided[place]
        return start

    def _leaf(self, network: Read, leaf: Leaf, chosen: Multipliers, i: int) -> Leaf:
        weights, seen = [], set()
        for relu, index, sign in leaf.region.decisions:
            source = network.nodes[network.relus[relu]].sources[0]
            weights.append(0.0 if (relu, index, sign) in seen else chosen.decided[source, sign][i, index])
            seen.add((relu, index, sign))
        slopes = tuple(levels(chosen.low[number][i]) for number in network.relus)
        return replace(leaf, shares=rounded(chosen.rows[i]), weights=rounded(np.array(weights)), slopes=slopes)


def row_of(chosen: Multipliers, i: int) -> Multipliers:
    """What one leaf chose, without the axis of the batch."""
    return Multipliers(
        {number: values[i] for number, values in chosen.low.items()},
        {},
        {at: values[i] for at, values in chosen.decided.items()},
        chosen.rows[i],
    )
