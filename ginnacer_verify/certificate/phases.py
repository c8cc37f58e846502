"""Proofs by deciding ReLUs, for many varying inputs: the file holds the decisions and, for each leaf, multipliers.

Multipliers come from our own ascent, on the checker's reading of the network and with the checker's bounds. Before a
leaf is written they are rounded as in the file, and the checker's own bound says whether it is closed.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ginnacer_check import proof
from ginnacer_check.bounds import Known as Bounded
from ginnacer_check.bounds import bounds
from ginnacer_check.check import Closer, Context, Leaf, Region, decided_ends
from ginnacer_check.network import Network as Read
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.ascent import Cuts, Found, Multipliers, ascend
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.certificate.boxes import OutOfTime, TooNear, halves_of, widest
from ginnacer_verify.certificate.tree import Tree, halve, mixed, phase
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input, Node, Tensor
from ginnacer_verify.graph.linear import LinearMap

STEPS_ROOT, STEPS = 40, 12
BATCH = 32


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


@dataclass(frozen=True, eq=False)
class Open:
    """A region that is not closed yet: its node of the tree, and the multipliers of where it came from."""

    node: int
    region: Region
    start: Multipliers | None = field(default=None, repr=False)


class Phases:
    """Decides ReLUs in one part until the checker's bounds with our multipliers close all regions."""

    def __init__(self, closer: Closer, tree: Tree, deadline: Deadline) -> None:
        self.closer, self.tree, self.deadline = closer, tree, deadline
        self.network = closer.problem.network
        self.graph = graph_of(self.network)
        self.contexts = self.regions = 0

    def prove(self, root: int, region: Region) -> None:
        self.contexts += 1
        context = Context(self.contexts, region.context, proof.BOUNDS, region.lower, region.upper, ())
        (node,) = self.tree.cut(root, proof.BOUNDS, 1)
        region = replace(region, context=context)
        self.known = bounds(self.network, region.lower[None], region.upper[None])
        singles = [(node, region)]
        if len(region.open) > 1:
            nodes = self.tree.cut(node, proof.EACH, len(region.open))
            singles = [(n, replace(region, open=(k,))) for n, k in zip(nodes, region.open, strict=True)]
        for node, region in singles:
            closed, _ = self.closer.close([Leaf(region, proof.PLAIN, 0)])
            if closed.all():
                self.tree.close(node, proof.PLAIN)
            else:
                self._search(Open(node, region))

    def _search(self, first: Open) -> None:
        part = self.closer.problem.parts[first.region.part]
        mine = part.owner == first.region.open[0]
        rows, offset = part.matrix[mine].astype(float), part.offset[mine].astype(float)
        if not len(rows):
            raise TooNear
        stack = [first]
        while stack:
            if self.deadline.passed:
                raise OutOfTime
            batch = [stack.pop() for _ in range(min(BATCH, len(stack)))]
            found, known = self._ascend(batch, rows, offset)
            leaves = [self._leaf(one, found, i) for i, one in enumerate(batch)]
            closed, _ = self.closer.close(leaves)
            self.regions += len(batch)
            for i in np.argsort(found.bound):
                if closed[i]:
                    leaf = leaves[i]
                    assert leaf.shares is not None
                    self.tree.close(batch[i].node, mixed(leaf.shares, np.asarray(leaf.weights), leaf.slopes))
                else:
                    stack += self._children(batch[i], found, known, int(i))

    def _ascend(self, batch: list[Open], rows: Array, offset: Array) -> tuple[Found, Bounded]:
        many = len(batch)
        lower = np.array([one.region.lower for one in batch])
        upper = np.array([one.region.upper for one in batch])
        decided = decided_ends(self.network, [one.region.decisions for one in batch])
        known = bounds(self.network, lower, upper, self.known, decided, tighten=False)
        cuts = {number: Cuts(*ends) for number, ends in decided.items()}
        start = Multipliers(rows=np.full((many, len(rows)), 1 / len(rows)))
        for number in self.network.relus:
            source = self.network.nodes[number].sources[0]
            start.low[number] = (known.upper[source] > -known.lower[source]).astype(float)
        for number in cuts:
            for sign in (1, -1):
                start.decided[number, sign] = np.zeros(cuts[number].lower.shape)
        for i, one in enumerate(batch):
            if one.start is not None:
                start.rows[i] = one.start.rows
                for number in start.low:
                    start.low[number][i] = one.start.low[number]
                for place in one.start.decided:
                    if place in start.decided:
                        start.decided[place][i] = one.start.decided[place]
        ours = Known(lower, upper, list(known.lower), list(known.upper), list(known.reach))
        spread = np.broadcast_to(rows, (many, *rows.shape)), np.broadcast_to(offset, (many, len(offset)))
        steps = STEPS if batch[0].region.decisions else STEPS_ROOT
        return ascend(self.graph, *spread, ours, cuts, start, steps, self.deadline), known

    def _leaf(self, one: Open, found: Found, i: int) -> Leaf:
        """A leaf with the multipliers as they come back from a file."""
        chosen = found.multipliers
        weights = []
        seen = set()
        for relu, index, sign in one.region.decisions:
            source = self.network.nodes[self.network.relus[relu]].sources[0]
            weights.append(0.0 if (relu, index) in seen else chosen.decided[source, sign][i, index])
            seen.add((relu, index))
        slopes = {
            k: np.rint(255 * np.clip(chosen.low[number][i], 0, 1)) / 255.0
            for k, number in enumerate(self.network.relus)
        }
        shares = chosen.rows[i].astype(np.float32).astype(float)
        return Leaf(
            one.region, proof.MIXED, 0, False, shares, np.array(weights, np.float32).astype(float), self._lean(slopes)
        )

    def _lean(self, slopes: dict[int, Array]) -> dict[int, Array]:
        """Zero where no slope is used: the ReLU is stable in the whole box. Zeros take no room in the file."""
        for k, number in enumerate(self.network.relus):
            source = self.network.nodes[number].sources[0]
            both = (self.known.lower[source][0] < 0) & (self.known.upper[source][0] > 0)
            slopes[k] = np.where(both, slopes[k], 0.0)
        return slopes

    def _children(self, one: Open, found: Found, known: Bounded, i: int) -> list[Open]:
        """Decide the ReLU whose lines give away most."""
        best, place = 0.0, None
        for k, number in enumerate(self.network.relus):
            if number not in found.planes.met:
                continue
            source = self.network.nodes[number].sources[0]
            low, high = known.lower[source][i], known.upper[source][i]
            both = (low < 0) & (high > 0)
            c, y, a = found.planes.met[number][i, 0], found.values[source][i], found.multipliers.low[number][i]
            top = np.where(both, -high * low / np.where(both, high - low, 1.0), 0.0)
            gap = np.maximum(c, 0.0) * (np.maximum(y, 0.0) - a * y) - np.minimum(c, 0.0) * top
            gap = np.where(both & np.isfinite(gap), gap, -1.0)
            j = int(gap.argmax())
            if gap[j] > best:
                best, place = float(gap[j]), (k, j)
        m = found.multipliers
        start = Multipliers(
            {number: values[i] for number, values in m.low.items()},
            {},
            {at: values[i] for at, values in m.decided.items()},
            m.rows[i],
        )
        if place is None:  # no line gives anything away: the multipliers are not good enough for a box of this size
            steep = np.abs(found.planes.slope[i, 0]) + 1e-12
            at = widest(one.region, steep, one.region.upper - one.region.lower + 1e-300)
            pairs = zip(self.tree.cut(one.node, halve(at)), halves_of(one.region, at), strict=True)
            return [Open(node, region, start) for node, region in pairs]
        nodes = self.tree.cut(one.node, phase(*place))
        return [
            Open(node, replace(one.region, decisions=(*one.region.decisions, (*place, sign))), start)
            for node, sign in zip(nodes, (1, -1), strict=True)
        ]
