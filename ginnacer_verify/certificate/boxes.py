"""Proofs by halving boxes, for few varying inputs: the checker bounds every leaf by itself, the file holds the cuts.

Where an engine has recorded how it halved a box, the proof does the same. A box that it closed is closed by the bounds
of the checker, by multipliers if those do not suffice, or else it is halved further.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ginnacer_check import proof
from ginnacer_check.bounds import Known
from ginnacer_check.check import Closer, Context, Leaf, Region
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.ascent import Multipliers
from ginnacer_verify.certificate.climb import Climber
from ginnacer_verify.certificate.tree import Tree, halve, leaf_bytes
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.record import Record

DEPTH, FEW = 7, 8
"""A block halves its box so often at most; blocks of so few leaves get no bounds of their own."""
BATCH = 128
MIXES, STEPS = 20, 10
"""How often shares of rows, and then all multipliers, are improved."""
EVEN = 1.0
"""How much an input's share of its first width counts beside how far the bound moves along it."""


@dataclass(frozen=True, eq=False)
class Open:
    """A region that is not closed yet: its node of the tree, and how often it was cut since its context."""

    node: int
    region: Region
    cuts: int = 0


class OutOfTime(Exception):
    """There is no time left for a certificate."""


class TooNear(Exception):
    """The checker's bounds do not close a region that cannot be cut any more."""


class Boxes:
    """Halves boxes of one part until the checker's own bounds close all of them."""

    def __init__(self, closer: Closer, tree: Tree, deadline: Deadline, record: Record) -> None:
        self.closer, self.tree, self.deadline, self.record = closer, tree, deadline, record
        self.climber = Climber(closer.problem, deadline)
        self.contexts = 0

    def prove(self, root: int, region: Region) -> None:
        self.root = np.maximum(region.upper - region.lower, 1e-300)
        level = [Open(*one) for one in self.tree.apart(root, region, self._groups(region.open))]
        level = [leaf for one in level for leaf in self._recorded(one)]
        while level:
            level = [half for some in batches(level) for half in self._tried(some)]

    def _groups(self, open_: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The disjuncts that were halved together."""
        while open_:
            yield (mine := tuple(n for n in open_ if n in self.record.together.get(open_[0], open_[:1])))
            open_ = tuple(n for n in open_ if n not in mine)

    def _recorded(self, first: Open) -> Iterator[Open]:
        """The boxes that were not recorded as halved. Bounds of all neurons are found on the way every DEPTH cuts."""
        stack = [first]
        while stack:
            one = stack.pop()
            index = self._cut(one.region)
            if index is None:
                yield one
            else:
                if one.cuts % DEPTH == 0 and self._many(one.region):
                    one = self._bounded(one)
                stack += self._halved(one, index)[::-1]

    def _cut(self, region: Region) -> int | None:
        return self.record.cut_of(region.open[0], region.lower, region.upper)

    def _many(self, region: Region) -> bool:
        """Whether the box was recorded as halved into more than a few."""
        level = [region]
        for _ in range(DEPTH):
            halves = [(one, self._cut(one)) for one in level]
            level = [half for one, index in halves for half in ([one] if index is None else halves_of(one, index))]
            if len(level) > FEW:
                return True
        return False

    def _bounded(self, one: Open) -> Open:
        """The region with all of its neurons bounded, for what follows."""
        self.contexts += 1
        inside = 1 + (one.region.context.inside if one.region.context else 0)
        (child,) = self.tree.cut(one.node, proof.BOUNDS, 1)
        return Open(child, replace(one.region, context=Context(self.contexts, one.region, None, inside)))

    def _halved(self, one: Open, index: int) -> list[Open]:
        pairs = zip(self.tree.cut(one.node, halve(index)), halves_of(one.region, index), strict=True)
        return [Open(node, region, one.cuts + 1) for node, region in pairs]

    def _tried(self, some: list[Open]) -> list[Open]:
        """Close what can be closed; the halves of the rest."""
        if self.deadline.passed:
            raise OutOfTime
        leaves = [Leaf(one.region, tighten=True) for one in some]
        known, met = self.closer.bounded(leaves), dict[int, Array]()
        closed, _ = self.closer.close(leaves, known=known, met=met)
        closed, leaves = self._climbed(leaves, closed, known, met)
        steep = np.broadcast_to(np.nan_to_num(np.abs(met[0]).mean(axis=1)), (len(some), len(self.root)))
        halves: list[Open] = []
        for i, one in enumerate(some):
            if closed[i]:
                self.tree.close(one.node, leaf_bytes(leaves[i]))
            elif len(one.region.open) > 1:
                apart = self.tree.apart(one.node, one.region, self._still_open(one.region, met[-1][i]))
                halves += [replace(one, node=node, region=region) for node, region in apart]
            else:
                one = self._bounded(one) if one.cuts >= DEPTH else one
                halves += self._halved(one, widest(one.region, steep[i], self.root))
        return halves

    def _still_open(self, region: Region, found: Array) -> list[tuple[int, ...]]:
        """The disjuncts that are closed by bounds of their rows, and each of the others."""
        owner = self.closer.problem.parts[region.part].owner
        owner = owner[np.isin(owner, region.open)]
        closed = tuple(n for n in region.open if (found[owner == n] > 0).any())
        return [some for some in (closed, *((n,) for n in region.open if n not in closed)) if some]

    def _climbed(
        self, leaves: list[Leaf], closed: Array, known: Known, met: dict[int, Array]
    ) -> tuple[Array, list[Leaf]]:
        """Look for multipliers where single rows with the checker's own lines do not suffice."""
        again = np.flatnonzero(np.logical_not(closed))
        if not len(again) or len(leaves[0].region.open) > 1:
            return closed, leaves
        own = known.part(again)
        shares = mixtures(met[0][again], met[-1][again], own.lower[0], own.upper[0])
        better, *_ = self.climber.climb([leaves[i] for i in again], own, STEPS, [Multipliers(rows=r) for r in shares])
        done, _ = self.closer.close(better, known=own)
        closed, leaves = np.array(closed), list(leaves)
        for i, leaf, fine in zip(again, better, done, strict=True):
            closed[i], leaves[i] = fine, leaf if fine else leaves[i]
        return closed, leaves


def mixtures(slope: Array, bound: Array, lower: Array, upper: Array) -> Array:
    """Shares of planes, (batch, rows), whose mixture is as high as a few steps get it on its box."""
    level = bound - np.where(slope > 0, slope * lower[:, None], slope * upper[:, None]).sum(axis=-1)
    shares = best = np.full(bound.shape, 1 / bound.shape[1])
    highest = np.full(len(bound), -np.inf)
    for step in range(MIXES):
        mixture = (shares[..., None] * slope).sum(axis=1)
        corner = np.where(mixture > 0, lower, upper)
        values = (slope * corner[:, None]).sum(axis=-1) + level
        height = (shares * values).sum(axis=1)
        best = np.where((height > highest)[:, None], shares, best)
        highest = np.fmax(highest, height)
        scale = np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-300)
        shares = shares * np.exp(values / scale / (1 + 0.3 * step))
        shares = shares / shares.sum(axis=1, keepdims=True)
    return np.asarray(np.nan_to_num(best))


def batches(level: list[Open]) -> Iterator[list[Open]]:
    """Regions that can be bounded together."""
    kinds: dict[object, list[Open]] = {}
    for one in level:
        kinds.setdefault((one.region.open, one.region.context is None), []).append(one)
    for some in kinds.values():
        yield from (some[first : first + BATCH] for first in range(0, len(some), BATCH))


def halves_of(region: Region, i: int) -> tuple[Region, Region]:
    """The two regions that a cut of an input in its middle gives: as the checker cuts, to the last bit."""
    low, high = float(region.lower[i]), float(region.upper[i])
    below, above = region.upper.copy(), region.lower.copy()
    below[i] = above[i] = low + (0.5 * high - 0.5 * low)
    return replace(region, upper=below), replace(region, lower=above)


def widest(region: Region, steep: Array, root: Array) -> int:
    """The input along which the bound moves most; a plane that hardly moves says little about what lies behind it."""
    width = np.where(np.nextafter(region.lower, np.inf) < region.upper, region.upper - region.lower, 0.0)
    if not width.any():
        raise TooNear
    score = steep * width
    share = width / root
    score = score / max(float(score.max()), 1e-300) + EVEN * share / max(float(share.max()), 1e-300)
    return int(np.where(width > 0, score, -1.0).argmax())
