"""Proofs by deciding ReLUs, for many varying inputs: the file holds the decisions and, for each leaf, multipliers."""

from dataclasses import dataclass, field, replace

import numpy as np

from ginnacer_check import proof
from ginnacer_check.bounds import Known
from ginnacer_check.check import Closer, Context, Leaf, Region, ends_of
from ginnacer_verify.bounds.ascent import Found, Multipliers
from ginnacer_verify.certificate.boxes import OutOfTime, TooNear, halves_of, widest
from ginnacer_verify.certificate.climb import Climber, row_of
from ginnacer_verify.certificate.tree import Tree, halve, leaf_bytes, phase
from ginnacer_verify.deadline import Deadline

STEPS_ROOT, STEPS = 40, 12
BATCH = 32


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
        self.climber = Climber(closer.problem, deadline)
        self.contexts = 0

    def prove(self, root: int, region: Region) -> None:
        self.contexts -= 1  # other numbers than those of boxes
        (node,) = self.tree.cut(root, proof.BOUNDS, 1)
        region = replace(region, context=Context(self.contexts, region, None, 1))
        for one, single in self.tree.each(node, region):
            closed, _ = self.closer.close([Leaf(single)])
            if closed.all():
                self.tree.close(one, proof.PLAIN)
            else:
                self._search(Open(one, single))

    def _search(self, first: Open) -> None:
        if not (self.closer.problem.parts[first.region.part].owner == first.region.open[0]).any():
            raise TooNear
        stack = [first]
        while stack:
            if self.deadline.passed:
                raise OutOfTime
            batch = [stack.pop() for _ in range(min(BATCH, len(stack)))]
            leaves = [Leaf(one.region) for one in batch]
            known = self.closer.bounded(leaves)
            network = self.closer.problem.goal(first.region.part, False)
            decided = ends_of(network, [one.region.decisions for one in batch])
            steps = STEPS if batch[0].region.decisions else STEPS_ROOT
            leaves, found = self.climber.climb(leaves, known, decided, steps, [one.start for one in batch])
            closed, _ = self.closer.close(leaves, known=known)
            for i in np.argsort(found.bound):
                if closed[i]:
                    self.tree.close(batch[i].node, leaf_bytes(leaves[i]))
                else:
                    stack += self._children(batch[i], found, known.part(np.array([i])), int(i))

    def _children(self, one: Open, found: Found, known: Known, i: int) -> list[Open]:
        """Decide the ReLU whose lines give away most."""
        best, place = 0.0, None
        network, start = self.closer.problem.goal(one.region.part, False), row_of(found.multipliers, i)
        for k, number in enumerate(network.relus):
            if number not in found.planes.met:
                continue
            source = network.nodes[number].sources[0]
            low, high = known.lower[source][0], known.upper[source][0]
            both = (low < 0) & (high > 0)
            c, y, a = found.planes.met[number][i, 0], found.values[source][i], start.low[number]
            top = np.where(both, -high * low / np.where(both, high - low, 1.0), 0.0)
            gap = np.maximum(c, 0.0) * (np.maximum(y, 0.0) - a * y) - np.minimum(c, 0.0) * top
            gap = np.where(both & np.isfinite(gap), gap, -1.0)
            j = int(gap.argmax())
            if gap[j] > best:
                best, place = float(gap[j]), (k, j)
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
