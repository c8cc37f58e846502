"""Proofs by deciding ReLUs, for many varying inputs: the file holds the decisions and, for each leaf, multipliers."""

from dataclasses import dataclass, field, replace

import numpy as np

from ginnacer_check import proof
from ginnacer_check.check import Closer, Context, Leaf, Region
from ginnacer_verify.bounds.ascent import Found, Multipliers
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.certificate.boxes import OutOfTime, TooNear, halves_of, widest
from ginnacer_verify.certificate.climb import Climber, row_of
from ginnacer_verify.certificate.tree import Tree, cut_value, halve, leaf_bytes
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.regions import wanted

STEPS_ROOT, STEPS = 40, 12
BATCH = 32


@dataclass(frozen=True, eq=False)
class Open:
    """A region that is not closed yet: its node of the tree, and the multipliers of where it came from."""

    node: int
    region: Region
    start: Multipliers | None = field(default=None, repr=False)
    halved: bool = False
    """Then its values are bounded anew."""


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
                self.tree.close(one, leaf_bytes(Leaf(single)))
            else:
                self._search(Open(one, single))

    def _search(self, first: Open) -> None:
        if not (self.closer.problem.parts[first.region.part].owner == first.region.open[0]).any():
            raise TooNear
        stack = [first]
        while stack:
            if self.deadline.passed:
                raise OutOfTime
            batch = [stack.pop()]
            while stack and len(batch) < BATCH and stack[-1].halved == batch[0].halved:
                batch.append(stack.pop())
            leaves = [Leaf(one.region, tighten=one.halved) for one in batch]
            known = self.closer.bounded(leaves)
            steps = STEPS if batch[0].region.decisions else STEPS_ROOT
            leaves, found, ours = self.climber.climb(leaves, known, steps, [one.start for one in batch])
            closed, _ = self.closer.close(leaves, known=known)
            for i in np.argsort(found.bound):
                if closed[i]:
                    self.tree.close(batch[i].node, leaf_bytes(leaves[i]))
                else:
                    stack += self._children(batch[i], int(i), found, ours)

    def _children(self, one: Open, i: int, found: Found, known: Known) -> list[Open]:
        """Cut the value that enters the function whose lines give away most."""
        start, place = row_of(found.multipliers, i), wanted(self.climber.graph(one.region.part), i, found, known)
        if place is None:  # no line gives anything away: the multipliers are not good enough for a box of this size
            steep = np.abs(found.planes.slope[i, 0]) + 1e-12
            at = widest(one.region, steep, one.region.upper - one.region.lower + 1e-300)
            pairs = zip(self.tree.cut(one.node, halve(at)), halves_of(one.region, at), strict=True)
            return [Open(node, region, start, halved=True) for node, region in pairs]
        argument = self.closer.problem.network.arguments.index(place[0])
        nodes = self.tree.cut(one.node, cut_value(argument, *place[1:]))
        decisions = [(*one.region.decisions, (*place[:2], sign, place[2])) for sign in (1, -1)]
        return [
            Open(node, replace(one.region, decisions=some), start, one.halved)
            for node, some in zip(nodes, decisions, strict=True)
        ]
