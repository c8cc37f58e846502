"""Proofs by halving boxes, for few varying inputs: the checker bounds every leaf by itself, the file holds the cuts.

Boxes are taken in blocks. At the root of a block the checker is told to bound all neurons; what is stable there need
not be looked at again below, and what is zero is left out of the network. What stays open becomes the root of a block.
"""

from dataclasses import replace

import numpy as np

from ginnacer_check import proof
from ginnacer_check.check import Closer, Context, Leaf, Region
from ginnacer_verify.arrays import Array
from ginnacer_verify.certificate.tree import Tree, halve, mixed
from ginnacer_verify.deadline import Deadline

DEPTH = 7
"""A block halves its box so often at most."""
BATCH = 128
MIXES = 12
"""Steps in the search for a mixture of rows."""
EVEN = 1.0
"""How much an input's share of its first width counts beside how far the bound moves along it."""


class OutOfTime(Exception):
    """There is no time left for a certificate."""


class TooNear(Exception):
    """The checker's bounds do not close a region that cannot be cut any more."""


class Boxes:
    """Halves boxes of one part until the checker's own bounds close all of them."""

    def __init__(self, closer: Closer, tree: Tree, deadline: Deadline) -> None:
        self.closer, self.tree, self.deadline = closer, tree, deadline
        self.contexts = self.boxes = 0

    def prove(self, root: int, region: Region) -> None:
        self.root = np.maximum(region.upper - region.lower, 1e-300)
        blocks = [(root, region)]
        if len(region.open) > 1:
            nodes = self.tree.cut(root, proof.EACH, len(region.open))
            blocks = [(node, replace(region, open=(k,))) for node, k in zip(nodes, region.open, strict=True)]
        while blocks:
            node, region = blocks.pop()
            blocks += self._block(node, region)

    def _block(self, root: int, region: Region) -> list[tuple[int, Region]]:
        """One block; what stays open."""
        self.contexts += 1
        context = Context(self.contexts, region.context, proof.BOUNDS, region.lower, region.upper, ())
        (node,) = self.tree.cut(root, proof.BOUNDS, 1)
        level = [(node, replace(region, context=context))]
        for _ in range(DEPTH):
            level = self._level(level)
            if not level:
                break
        return level[::-1]

    def _level(self, level: list[tuple[int, Region]]) -> list[tuple[int, Region]]:
        """Close what can be closed; the halves of the rest."""
        halves: list[tuple[int, Region]] = []
        for first in range(0, len(level), BATCH):
            if self.deadline.passed:
                raise OutOfTime
            some = level[first : first + BATCH]
            met: dict[int, Array] = {}
            leaves = [Leaf(region, proof.TIGHT, 0, tighten=True) for _, region in some]
            closed, _ = self.closer.close(leaves, met=met)
            slope = np.abs(met[0]).mean(axis=1) if 0 in met else np.ones((1, len(some[0][1].lower)))
            slope = np.broadcast_to(np.nan_to_num(slope), (len(some), slope.shape[1]))
            self.boxes += len(some)
            records = [proof.TIGHT] * len(some)
            if 0 in met and met[-1].shape[1] > 1 and not closed.all():
                closed = self._mix(leaves, closed, met, records)
            for (node, region), done, steep, record in zip(some, closed, slope, records, strict=True):
                if done:
                    self.tree.close(node, record)
                    continue
                i = widest(region, steep, self.root)
                left, right = self.tree.cut(node, halve(i))
                below, above = halves_of(region, i)
                halves += [(left, below), (right, above)]
        return halves

    def _mix(self, leaves: list[Leaf], closed: Array, met: dict[int, Array], records: list[bytes]) -> Array:
        """Try mixtures of the rows where no single row is positive: several rows that cannot all hold at once."""
        again = np.flatnonzero(np.logical_not(closed))
        lower = np.array([leaves[i].region.lower for i in again])
        upper = np.array([leaves[i].region.upper for i in again])
        found = _mixtures(
            np.broadcast_to(met[0], (len(leaves), *met[0].shape[1:]))[again], met[-1][again], lower, upper
        )
        shares = found.astype(np.float32).astype(float)
        tried = [replace(leaves[i], kind=proof.MIXED, shares=shares[k]) for k, i in enumerate(again)]
        done, _ = self.closer.close(tried)
        for k, i in enumerate(again):
            records[i] = mixed(shares[k], np.zeros(0), None, tighten=True) if done[k] else records[i]
        closed = np.array(closed)
        closed[again] = done
        return closed


def _mixtures(slope: Array, bound: Array, lower: Array, upper: Array) -> Array:
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
