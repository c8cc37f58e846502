"""Branch and bound on any graph: regions are boxes with decisions about neurons, bounded in batches, cut while open.

Few varying inputs: boxes are halved, and each gets bounds of its own. Many: a neuron is cut where its lines give away
most, its bounds are those of the whole box as far as no cut has changed them, and lines, decisions and rows get
multipliers of their own. What has no cut left that helps is halved in its inputs, so the search ends for every property
that is decided with some slack.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.ascent import Cuts, Found, Multipliers, ascend
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.bounds.substitution import Choices, lines_of, tightened
from ginnacer_verify.box import Ball
from ginnacer_verify.deadline import REACHED
from ginnacer_verify.engines.parts import parts
from ginnacer_verify.engines.progress import Progress
from ginnacer_verify.engines.run import Run
from ginnacer_verify.graph.graph import Apply, Graph, Original
from ginnacer_verify.graph.joint import joined
from ginnacer_verify.graph.twin import Twin, twinned
from ginnacer_verify.properties.property import Polytope, Property, beside
from ginnacer_verify.replay.attack import attack
from ginnacer_verify.replay.judge import Counterexample, settle
from ginnacer_verify.rounding import up

FEW_INPUTS = 12
"""Up to so many varying inputs boxes are halved; beyond, neurons are cut."""
STEPS_BOX, STEPS_ROOT, STEPS = 2, 24, 8
"""How often multipliers are improved: for a halved box, for a property's whole box, for a region with cuts."""
NARROW = 64
"""An input is not halved while another, measured by the property's box, is so much wider: each is halved in the end."""
MOST_BOXES = 256
MOST_VALUES = 12_000_000
"""Regions that are bounded together, and numbers that are held for them."""
WORK = 3e10
"""Multiplications that the bounds of one node may take, all regions of a batch together."""
Indices = NDArray[np.intp]
TOO_NEAR = "the network comes nearer to the unsafe set than regions can be cut"


@dataclass(frozen=True, eq=False)
class Region:
    """A box with decided neurons, `(node, index, at, side)`: there `side * (value - at) >= 0`. One disjunct is open."""

    disjunct: int
    lower: Array
    upper: Array
    cuts: tuple[tuple[int, int, float, int], ...] = ()
    bound: float = -np.inf
    start: Multipliers | None = field(default=None, repr=False)


class RegionRun(Run):
    """One property on one graph. The threads are those of BLAS. Regions are cut to the end, so nothing remains."""

    def begin(self) -> None:
        self.graph, self.unsafe = constrained(twinned(self.judge.graph), self.judge.prop)
        self.disjuncts = self.judge.prop.disjuncts
        self.open: list[Region] = []
        self.wanted = frozenset(range(len(self.disjuncts)))
        self.roots: dict[int, Known] = {}
        self.regions = self.unstable = 0
        self.reasons: list[str] = []
        self.given_up: set[int] = set()

    def only(self, wanted: Sequence[int], known: Known) -> Self:
        """The same for some disjuncts with a common box, and what is known there of the nodes of the judge's graph.

        A graph with other nodes, such as that of twins, is bounded anew."""
        self.wanted = frozenset(wanted)
        if self.graph is self.judge.graph:
            self.roots = dict.fromkeys(wanted, known)
        return self

    def run(self) -> Counterexample | str | None:
        """A counterexample, or why there is no verdict, or None: all is proved."""
        for part in parts(self.judge.prop):
            wanted = [number for number in reversed(part.disjuncts) if number in self.wanted]
            self.open += [Region(number, part.box.lower, part.box.upper) for number in wanted]
        self.open.reverse()
        while self.open:
            if self.deadline.passed:
                return REACHED
            if found := self._step():
                return found
            self.tell()
        return "; ".join(dict.fromkeys(self.reasons)) or None

    def progress(self) -> Progress:
        open_disjuncts = len({region.disjunct for region in self.open} | self.given_up)
        return Progress("regions", self.regions, len(self.open), self.unstable, open_disjuncts, self.deadline.left)

    def _step(self) -> Counterexample | None:
        """Bound the regions on top of the stack and cut what stays open."""
        halving = self._halves(self.open[-1])
        batch = self._take(halving)
        rows, offset = self._rows(batch)
        cuts: dict[int, Cuts] = {}
        if halving:
            lower, upper = np.array([r.lower for r in batch]), np.array([r.upper for r in batch])
            known = self._tightened(lower, upper, self.disjuncts[batch[0].disjunct].ball)
            steps = STEPS_BOX if rows.shape[1] == 1 else STEPS
        else:
            known, cuts = self._known(batch)
            steps = STEPS if batch[0].cuts else STEPS_ROOT
        offset = self._charged(batch, offset, known)
        start = self._start(batch, known, cuts, offset)
        found = ascend(self.graph, rows, offset, known, cuts, start, steps, self.deadline)
        self.regions += len(batch)
        closed = (found.bound > 0) | known.empty
        still = np.flatnonzero(~closed)
        if counterexample := self._confirm(batch, found, still):
            return counterexample
        for i in still[np.argsort(found.bound[still], kind="stable")[::-1]]:
            children = self._children(batch[i], int(i), found, known, halving=halving)
            if not children:
                self.reasons.append(TOO_NEAR)
                self.given_up.add(batch[i].disjunct)
            self.open += children
        return None

    def _tightened(self, lower: Array, upper: Array, ball: Ball | None = None) -> Known:
        return tightened(self.graph, lower, upper, deadline=self.deadline, work=WORK, ball=ball)

    def _halves(self, region: Region) -> bool:
        return bool(np.count_nonzero(region.lower < region.upper) <= FEW_INPUTS)

    def _take(self, halving: bool) -> list[Region]:
        """The last regions of one kind: of one disjunct where they share the bounds of its box."""
        total = sum(node.size for node in self.graph.nodes)
        most = int(np.clip(MOST_VALUES // max(1, total), 1, MOST_BOXES))
        first = self.open[-1]
        batch = [self.open.pop()]
        while self.open and len(batch) < most:
            other = self.open[-1]
            alike = len(self.unsafe[other.disjunct]) == len(self.unsafe[first.disjunct])
            alike &= self.disjuncts[other.disjunct].ball is self.disjuncts[first.disjunct].ball
            if halving != self._halves(other) or not alike:
                break
            if not halving and (other.disjunct != first.disjunct or bool(other.cuts) != bool(first.cuts)):
                break
            batch.append(self.open.pop())
        return batch

    def _rows(self, batch: Sequence[Region]) -> tuple[Array, Array]:
        """The unsafe rows of each region's disjunct, and their offsets: unsafe where all rows are at most these."""
        polytopes = [self.unsafe[region.disjunct] for region in batch]
        count = max(1, *(len(polytope) for polytope in polytopes)) if polytopes else 1
        rows = np.zeros((len(batch), count, self.graph.outputs))
        offset = np.full((len(batch), count), -np.inf)
        for i, polytope in enumerate(polytopes):
            rows[i, : len(polytope)], offset[i, : len(polytope)] = polytope.matrix, polytope.offset
        return rows, offset

    def _charged(self, batch: Sequence[Region], offset: Array, known: Known) -> Array:
        """Offsets raised by what the exact coefficients of rows, which float64 cannot hold, may differ by."""
        largest = np.broadcast_to(known.largest(len(self.graph.nodes) - 1), (len(batch), self.graph.outputs))
        raised = offset.copy()
        for i, region in enumerate(batch):
            polytope = self.unsafe[region.disjunct]
            raised[i, : len(polytope)] = charged(polytope, largest[i])
        return raised

    def _known(self, batch: Sequence[Region]) -> tuple[Known, dict[int, Cuts]]:
        """Bounds of regions of one disjunct: those of its whole box, with the cuts, carried forwards as intervals."""
        first = batch[0]
        if first.disjunct not in self.roots:
            box = self.disjuncts[first.disjunct].box
            ball = self.disjuncts[first.disjunct].ball
            alike = [n for n in self.roots if self.disjuncts[n].box is box and self.disjuncts[n].ball is ball]
            self.roots[first.disjunct] = (
                self.roots[alike[0]] if alike else self._tightened(box.lower[None], box.upper[None], ball)
            )
        root = self.roots[first.disjunct]
        lower, upper = np.array([r.lower for r in batch]), np.array([r.upper for r in batch])
        cuts = _cuts(self.graph, batch)
        if not cuts and all(region.lower is batch[0].lower for region in batch) and len(batch) == 1:
            return root, cuts
        many = len(batch)
        within = Known(
            lower,
            upper,
            [np.broadcast_to(v, (many, v.shape[1])) for v in root.lower],
            [np.broadcast_to(v, (many, v.shape[1])) for v in root.upper],
        )
        for number, cut in cuts.items():
            within.tighten(number, cut.lower, cut.upper)
        return tightened(self.graph, lower, upper, within=within, work=0.0, ball=root.ball), cuts

    def _start(self, batch: Sequence[Region], known: Known, cuts: dict[int, Cuts], offset: Array) -> Multipliers:
        """Where the multipliers begin: at those of the region that each came from, else at what is best on its own."""
        chosen = Multipliers(rows=np.isfinite(offset) / np.maximum(1, np.isfinite(offset).sum(axis=1, keepdims=True)))
        loose = 0
        for number in self.graph.applied:
            node = self.graph.nodes[number]
            assert isinstance(node, Apply)
            shape = (len(batch), node.size)
            lower, upper = known.ends(node.sources)
            loose += int((~np.isnan(node.function.cut(lower, upper)[1])).sum(axis=1).max(initial=0))
            below, above = node.function.choices
            if below:
                best = (upper[0] > -lower[0]).astype(float) if node.function.arity == 1 else np.full(shape, 0.5)
                chosen.low[number] = best
            if above:
                chosen.high[number] = np.full(shape, 0.5)
            if isinstance(node.function, Twin):
                chosen.low[number], chosen.high[number] = node.function.preferred(lower, upper)
            for i, region in enumerate(batch):
                if region.start is not None:
                    if below:
                        chosen.low[number][i] = region.start.low[number]
                    if above:
                        chosen.high[number][i] = region.start.high[number]
        for place in [(number, sign) for number in cuts for sign in (1, -1)]:
            chosen.decided[place] = np.zeros(cuts[place[0]].lower.shape)
            for i, region in enumerate(batch):
                if region.start is not None and place in region.start.decided:
                    chosen.decided[place][i] = region.start.decided[place]
        for i, region in enumerate(batch):
            if region.start is not None:
                chosen.rows[i] = region.start.rows
        self.unstable = max(self.unstable, loose)
        return chosen

    def _confirm(self, batch: Sequence[Region], found: Found, still: Indices) -> Counterexample | None:
        """Run the graph at the corners of the worst open regions, replay what is unsafe, and attack from there."""
        worst = still[np.argsort(found.bound[still], kind="stable")[:16]]
        if not len(worst):
            return None
        middles = np.array([batch[i].lower + (batch[i].upper / 2 - batch[i].lower / 2) for i in worst])
        points = np.concatenate([found.corner[worst], middles])
        outputs = self.graph.evaluate(points)
        for point, y, i in zip(points, outputs, [*worst, *worst], strict=True):
            disjunct, unsafe = self.disjuncts[batch[i].disjunct], self.unsafe[batch[i].disjunct]
            if bool((unsafe.matrix @ y <= unsafe.offset).all()):
                judgement = self.judge(settle(point, disjunct.witnesses, self.judge.dtype))
                if isinstance(judgement, Counterexample):
                    return judgement
        if not self.falsify or self.random.random() > 0.25:
            return None
        i = int(worst[0])
        disjunct = self.disjuncts[batch[i].disjunct]
        return attack(self.judge, disjunct, disjunct.box, points[[0, len(worst)]], self.deadline)

    def _children(self, region: Region, i: int, found: Found, known: Known, *, halving: bool) -> list[Region]:
        """The two halves of an open region; none where no number is left in between."""
        bound = float(found.bound[i])
        start = _row(found.multipliers, i)
        if not halving and (place := wanted(self.graph, i, found, known)) is not None:
            node, index, at = place
            return [
                Region(
                    region.disjunct, region.lower, region.upper, (*region.cuts, (node, index, at, side)), bound, start
                )
                for side in (1, -1)
            ]
        score = (np.abs(found.planes.slope[i, 0]) + 1e-12) * (region.upper - region.lower)
        score = np.where(np.nextafter(region.lower, np.inf) < region.upper, score, -1.0)
        if halving:  # a plane that hardly moves along a wide input says little about what lies behind it
            width = region.upper - region.lower
            score = np.where(score >= 0, score + 0.1 * np.abs(score).max() * width / max(width.max(), 1e-300), -1.0)
            whole = self.disjuncts[region.disjunct].box.width
            share = np.divide(width, whole, out=np.zeros_like(width), where=(whole > 0) & (score >= 0))
            score = np.where((share * NARROW >= share.max()) | (score < 0), score, 0.0)
        j = int(score.argmax())
        if not score[j] > 0:
            return []
        middle = region.lower[j] + (region.upper[j] / 2 - region.lower[j] / 2)
        left, right = region.upper.copy(), region.lower.copy()
        left[j] = right[j] = middle
        keep = start if not halving else None
        return [
            Region(region.disjunct, region.lower, left, region.cuts, bound, keep),
            Region(region.disjunct, right, region.upper, region.cuts, bound, keep),
        ]


def wanted(graph: Graph, i: int, found: Found, known: Known) -> tuple[int, int, float] | None:
    """What to cut in region i, and where: the argument of the function whose lines give away most."""
    best, place = 0.0, None
    one = Known(
        known.box_lower[i : i + 1],
        known.box_upper[i : i + 1],
        [v[i : i + 1] for v in known.lower],
        [v[i : i + 1] for v in known.upper],
    )
    own = found.multipliers
    low = {number: values[i : i + 1, None] for number, values in own.low.items()}
    high = {number: values[i : i + 1, None] for number, values in own.high.items()}
    chosen = Choices(low, high)
    for number in graph.applied:
        if number not in found.planes.met:
            continue
        node = graph.nodes[number]
        assert isinstance(node, Apply)
        met = found.planes.met[number][i, 0]
        lines = lines_of(graph, number, one, chosen)
        which, at = node.function.cut(*one.ends(node.sources))
        y = [found.values[source][i : i + 1] for source in node.sources]
        p = [np.where(which == k, at, v) for k, v in enumerate(y)] if len(y) == 1 else y
        below = lines.lower_intercept[:, 0] + sum(s[:, 0] * v for s, v in zip(lines.lower_slope, y, strict=True))
        above = lines.upper_intercept[:, 0] + sum(s[:, 0] * v for s, v in zip(lines.upper_slope, p, strict=True))
        gap = np.maximum(met, 0.0) * (node.function.apply(*y) - below) - np.minimum(met, 0.0) * (
            above - node.function.apply(*p)
        )
        gap = np.where(np.isnan(at) | ~np.isfinite(gap), -1.0, gap)[0]
        j = int(gap.argmax())
        if gap[j] > best:
            best, place = float(gap[j]), (node.sources[int(which[0, j])], j, float(at[0, j]))
    return place


@np.errstate(over="ignore", invalid="ignore")
def charged(polytope: Polytope, largest: Array) -> Array:
    """Its offsets, raised by what exact coefficients that float64 cannot hold may differ by on such values."""
    if not polytope.exact or not (slop := polytope.slop).any():
        return polytope.offset
    raised = up(polytope.offset + up(slop @ largest, 2 + len(largest)))
    return np.where(np.isnan(raised), np.inf, raised)


def constrained(graph: Graph, prop: Property) -> tuple[Graph, list[Polytope]]:
    """The graph and the unsafe set of each disjunct; with linear input constraints the inputs are outputs as well, and
    the constraints are rows like others."""
    if not any(len(disjunct.inputs) for disjunct in prop.disjuncts):
        return graph, [disjunct.outputs for disjunct in prop.disjuncts]
    everything = joined(
        [Original(graph, tuple(range(graph.inputs)))], graph.inputs, [(i,) for i in range(graph.inputs)]
    )
    return everything, [beside(disjunct.outputs, disjunct.inputs) for disjunct in prop.disjuncts]


def _row(chosen: Multipliers, i: int) -> Multipliers:
    """What one region chose, without the axis of the batch."""
    return Multipliers(
        {number: values[i] for number, values in chosen.low.items()},
        {number: values[i] for number, values in chosen.high.items()},
        {number: values[i] for number, values in chosen.decided.items()},
        chosen.rows[i],
    )


def _cuts(graph: Graph, batch: Sequence[Region]) -> dict[int, Cuts]:
    """The decisions of all regions of a batch, node by node; of several about one value the tightest count."""
    found: dict[int, Cuts] = {}
    for i, region in enumerate(batch):
        for node, index, at, side in region.cuts:
            if node not in found:
                shape = (len(batch), graph.nodes[node].size)
                found[node] = Cuts(np.full(shape, -np.inf), np.full(shape, np.inf))
            ends = found[node].lower if side > 0 else found[node].upper
            ends[i, index] = max(ends[i, index], at) if side > 0 else min(ends[i, index], at)
    return found
