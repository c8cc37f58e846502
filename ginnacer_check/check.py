"""The argument. A proof is a tree for each box of the property, written parents first; its inner nodes cut regions in
two (or one disjunct from the other), its leaves are regions, and for each leaf we calculate that it has nothing unsafe.

Where to look: `_walk` decides which regions there are, and nothing else does: whatever the file says, the children of a
region cover it. `_close` decides whether a region holds no unsafe input, by `bounds.bounds` and `bounds.least` alone.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Any, BinaryIO

import numpy as np

from ginnacer_check import proof
from ginnacer_check.bounds import Known, bounds, least, rows_of
from ginnacer_check.formula import Formula, Part, read_formula
from ginnacer_check.maps import Array
from ginnacer_check.network import Network, Unreadable, exactly, read_network
from ginnacer_check.proof import Refused, Stream

BATCH = 128
"""So many leaves are bounded together."""
DEEPEST = 100_000

Decisions = tuple[tuple[int, int, int], ...]
"""(number of the ReLU node among ReLU nodes, index, +1 for the value that enters it >= 0 or -1 for <= 0)."""


@dataclass(frozen=True, eq=False)
class Context:
    """What was found out about a region above the leaves: by itself ("B"), by lemmas ("L"), or slopes to use ("S")."""

    number: int
    parent: "Context | None"
    kind: bytes
    lower: Array
    upper: Array
    decisions: Decisions
    payload: Any = None


@dataclass(frozen=True, eq=False)
class Region:
    """Inputs of a box for which the decisions hold; `open` are the disjuncts that have to be closed in it."""

    part: int
    lower: Array
    upper: Array
    open: tuple[int, ...]
    decisions: Decisions = ()
    context: Context | None = None
    depth: int = 0


@dataclass(frozen=True, eq=False)
class Leaf:
    """A region that is claimed to be closed: how, with which multipliers, and the byte at which that is said."""

    region: Region
    kind: bytes
    place: int
    tighten: bool = False
    shares: Array | None = None
    weights: Array = ()
    slopes: dict[int, Array] | None = None


@dataclass(frozen=True)
class Report:
    """What was checked: leaves, lemmas and contexts, how deep, and the smallest lower bound of a leaf."""

    status: str
    leaves: int = 0
    contexts: int = 0
    depth: int = 0
    margin: float = float("inf")
    exact: int = 0
    records: int = 0


class Problem:
    """The network and the property, read by ourselves."""

    def __init__(self, model: bytes, text: bytes) -> None:
        self.network: Network = read_network(model)
        self.formula: Formula = read_formula(text.decode())
        ends = self.network.nodes[0].size, self.network.nodes[-1].size
        if ends != (self.formula.inputs, self.formula.outputs):
            raise Unreadable(f"the network has {ends[0]} inputs and {ends[1]} outputs, the property has others")
        self.hashes = hashlib.sha256(model).hexdigest(), hashlib.sha256(text).hexdigest()
        self.parts: list[Part] = self.formula.parts()
        self.sizes = [self.network.nodes[number].size for number in self.network.relus]


def check(
    model: bytes,
    text: bytes,
    file: BinaryIO,
    *,
    exact: float = 0.0,
    jobs: int = 1,
    seed: int | None = None,
    progress: Any = None,
) -> Report:
    """Check a certificate for a network and a property, given as the bytes of their files; Refused if it is wrong.

    `exact` is the share of leaves that are calculated in fractions as well."""
    problem, stream = Problem(model, text), Stream(file)
    if (stream.header.network, stream.header.formula) != problem.hashes:
        raise Refused("the certificate belongs to another network or another property")
    if stream.header.status == "sat":
        return _check_witness(problem, stream)
    walk = Walk(problem, stream)
    dice = random.Random(seed)
    tasks = ((leaves, [dice.random() < exact for _ in leaves]) for leaves in _batches(walk.leaves()))
    report = Report("unsat")
    for margin, count, exactly_done in _results(problem, model, text, tasks, jobs):
        report = replace(
            report,
            leaves=report.leaves + count,
            margin=min(report.margin, margin),
            exact=report.exact + exactly_done,
        )
        if progress:
            progress(report)
    return replace(report, contexts=walk.contexts, depth=walk.depth, records=stream.read)


def _check_witness(problem: Problem, stream: Stream) -> Report:
    """A witness is an input of the property whose output, in real arithmetic, is unsafe."""
    x = np.array(stream.header.witness)
    if len(x) != problem.formula.inputs:
        raise Refused(f"the witness has {len(x)} values, the network {problem.formula.inputs} inputs")
    y = problem.network.exact.evaluate(exactly(x))
    values = [Fraction(int(value.numerator), int(value.denominator)) for value in y]
    if not problem.formula.satisfied(x, values):
        raise Refused("the witness is not unsafe in real arithmetic (a run in float32 may say otherwise)")
    return Report("sat")


def _batches(leaves: Iterator[Leaf]) -> Iterator[list[Leaf]]:
    """Leaves that follow each other and are closed alike."""
    batch: list[Leaf] = []
    for leaf in leaves:
        if batch and (len(batch) == BATCH or _alike(batch[0]) != _alike(leaf)):
            yield batch
            batch = []
        batch.append(leaf)
    if batch:
        yield batch


def _alike(leaf: Leaf) -> Any:
    region = leaf.region
    above = None if region.context is None else region.context.number
    return region.part, region.open, above, leaf.tighten, leaf.shares is None


class Walk:
    """Reads the trees, and knows what each region is."""

    def __init__(self, problem: Problem, stream: Stream) -> None:
        self.problem, self.stream = problem, stream
        self.contexts = self.depth = 0

    def leaves(self) -> Iterator[Leaf]:
        """All leaves of all trees: together they are all inputs of the property."""
        for number, part in enumerate(self.problem.parts):
            stack = [Region(number, part.lower, part.upper, part.disjuncts)]
            while stack:
                region = stack.pop()
                self.depth = max(self.depth, region.depth)
                if region.depth > DEEPEST:
                    raise Refused(f"the tree is deeper than {DEEPEST}")
                children = self._walk(region)
                if isinstance(children, Leaf):
                    yield children
                else:
                    stack.extend(reversed(children))
        if self.stream.take(1) != proof.END or not self.stream.over:
            raise Refused(f"something follows after the last tree, at byte {self.stream.read} of the records")

    def _walk(self, region: Region) -> Leaf | Sequence[Region]:
        """The next record: a leaf, or the regions that together are this one."""
        stream, place = self.stream, self.stream.read
        letter = stream.take(1)
        below = replace(region, depth=region.depth + 1)
        match letter:
            case proof.HALVE | proof.CUT:
                i = stream.whole(len(region.lower))
                low, high = float(region.lower[i]), float(region.upper[i])
                at = stream.float() if letter == proof.CUT else low + (0.5 * high - 0.5 * low)
                if not low <= at <= high:
                    raise Refused(f"input {i} is cut at {at}, which is outside of its region, at byte {place}")
                left, right = region.upper.copy(), region.lower.copy()
                left[i] = right[i] = at
                return replace(below, upper=left), replace(below, lower=right)
            case proof.PHASE:
                relu = stream.whole(len(self.problem.sizes))
                index = stream.whole(self.problem.sizes[relu])
                return [replace(below, decisions=(*region.decisions, (relu, index, sign))) for sign in (1, -1)]
            case proof.EACH:
                return [replace(below, open=(number,)) for number in region.open]
            case proof.BOUNDS | proof.LEMMA | proof.SLOPES:
                payload = None if letter == proof.BOUNDS else self._payload(letter)
                self.contexts += 1
                context = Context(
                    self.contexts,
                    region.context,
                    letter,
                    region.lower,
                    region.upper,
                    region.decisions,
                    payload,
                )
                return [replace(below, context=context)]
            case proof.TIGHT | proof.PLAIN:
                return Leaf(region, letter, place, tighten=letter == proof.TIGHT)
            case proof.MIXED:
                return self._mixed(region, place)
        raise Refused(f"there is no record {letter!r}, at byte {place}")

    def _slopes(self, relus: int) -> dict[int, Array]:
        return {relu: self.stream.slopes(self.problem.sizes[relu]) for relu in range(relus)}

    def _payload(self, letter: bytes) -> Any:
        """Slopes for all ReLUs; or a lemma: a ReLU node, and rows of (index, side, slopes of the ReLUs before)."""
        if letter == proof.SLOPES:
            return self._slopes(len(self.problem.sizes))
        relu = self.stream.whole(len(self.problem.sizes))
        count = self.stream.whole(2 * self.problem.sizes[relu] + 1)
        return relu, [
            (self.stream.whole(self.problem.sizes[relu]), 1 - 2 * self.stream.whole(2), self._slopes(relu))
            for _ in range(count)
        ]

    def _mixed(self, region: Region, place: int) -> Leaf:
        """A leaf with shares of its one disjunct's rows, multipliers of its decisions and perhaps slopes of its own."""
        if len(region.open) != 1:
            raise Refused(f"a leaf with multipliers has several open disjuncts, at byte {place}")
        flags = self.stream.whole(4)
        rows = int((self.problem.parts[region.part].owner == region.open[0]).sum())
        shares, weights = self.stream.floats(rows), self.stream.floats(len(region.decisions))
        slopes = self._slopes(len(self.problem.sizes)) if flags & 2 else None
        return Leaf(region, proof.MIXED, place, bool(flags & 1), shares, weights, slopes)


def _results(problem: Problem, model: bytes, text: bytes, tasks: Iterator[Any], jobs: int) -> Iterator[Any]:
    """(smallest margin, leaves, how many of them exactly) of each batch; in several processes if asked for."""
    if jobs <= 1:
        closer = Closer(problem)
        yield from (closer(task) for task in tasks)
        return
    with ProcessPoolExecutor(jobs, initializer=_start, initargs=(model, text)) as pool:
        while some := list(islice(tasks, 8 * jobs)):  # a few at a time: memory does not grow with the proof
            yield from pool.map(_work, some)


_CLOSER: list["Closer"] = []


def _start(model: bytes, text: bytes) -> None:
    _CLOSER[:] = [Closer(Problem(model, text))]


def _work(task: Any) -> Any:
    return _CLOSER[0](task)


@dataclass(frozen=True, eq=False)
class Learned:
    """What a context gives to the leaves below it: bounds, slopes, and the network without what is zero there."""

    known: Known | None
    slopes: dict[int, Array]
    network: Network
    slim: Network
    slim_known: Known | None


class Closer:
    """Shows of batches of leaves that they hold no unsafe input."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.learned: dict[tuple[int, bool], Learned] = {}

    def __call__(self, task: tuple[list[Leaf], list[bool]]) -> tuple[float, int, int]:
        leaves, chosen = task
        again = [[leaf] for leaf, choice in zip(leaves, chosen, strict=True) if choice]
        margin = np.inf
        for some, exact in [(leaves, False), *((one, True) for one in again)]:
            closed, margins = self.close(some, exact)
            margin = min(margin, float(np.min(margins)))
            if not closed.all():
                worst = int(np.flatnonzero(~closed)[0])
                raise Refused(
                    f"the leaf at byte {some[worst].place} of the records is not closed: its lower bound "
                    f"{'in exact arithmetic' if exact else 'with rounding charged'} is {margins[worst]:.6g}"
                )
        return margin, len(leaves), len(again)

    def _network(self, exact: bool) -> Network:
        return self.problem.network.exact if exact else self.problem.network

    def _learn(self, context: Context | None, exact: bool) -> Learned:
        """What is known in a context, from that above it."""
        if context is None:
            network = self._network(exact)
            return Learned(None, {}, network, network, None)
        key = context.number, exact
        if key not in self.learned:
            above = self._learn(context.parent, exact)
            if len(self.learned) > 64:
                self.learned.clear()
            self.learned[key] = self._learned(context, above)
        return self.learned[key]

    def _learned(self, context: Context, above: Learned) -> Learned:
        network = above.network
        if context.kind == proof.SLOPES:
            return replace(above, slopes={network.relus[k]: slopes for k, slopes in context.payload.items()})
        box = context.lower[None], context.upper[None]
        decided = decided_ends(network, [context.decisions])
        if context.kind == proof.LEMMA and above.known is not None:
            known = _lemma(network, context.payload, bounds(network, *box, above.known, decided, tighten=False))
            known = bounds(network, *box, known, decided, tighten=False)
        else:
            known = bounds(network, *box, above.known, decided)
        dead = {number: known.upper[network.nodes[number].sources[0]][0] <= 0 for number in network.relus}
        slim, kept = network.without(dead)
        return Learned(known, above.slopes, network, slim, known.kept(kept))

    def close(
        self, leaves: list[Leaf], exact: bool = False, met: dict[int, Array] | None = None
    ) -> tuple[Array, Array]:
        """Which leaves, all of one kind, hold no unsafe input, and the lower bounds that say so."""
        first, part = leaves[0], self.problem.parts[leaves[0].region.part]
        context = self._learn(first.region.context, exact)
        lower, upper = (np.array([getattr(leaf.region, end) for leaf in leaves]) for end in ("lower", "upper"))
        simple = not any(leaf.region.decisions or leaf.slopes for leaf in leaves) and not context.slopes
        network = context.slim if simple else context.network
        within = context.slim_known if simple else context.known
        decided = decided_ends(network, [leaf.region.decisions for leaf in leaves])
        known = bounds(network, lower, upper, within, decided, tighten=first.tighten)
        mine = np.isin(part.owner, first.region.open)
        owner, strict = part.owner[mine], part.strict[mine]
        mixed = first.shares is not None
        shares = np.array([leaf.shares for leaf in leaves])[:, None] if mixed else np.eye(len(owner))[None]
        weights = _weights(network, leaves) if mixed else {}
        rows, offset, slack = rows_of(network, part.matrix[mine], part.offset[mine], shares, known)
        slopes = _slopes(network, leaves, context.slopes)
        found = least(network, len(network.nodes) - 1, rows, known, slopes, weights, offset, slack, met)
        if met is not None:
            met[-1] = found
        fine = (found > 0) | ((found == 0) & ((shares > 0) & strict).any(axis=-1))
        closed, margins = np.ones(len(leaves), dtype=bool), np.full(len(leaves), np.inf)
        for number in first.region.open:  # one of the disjunct's rows, or their mixture, is positive everywhere
            own = np.flatnonzero(owner == number) if not mixed else [0]
            closed &= fine[:, own].any(axis=1)
            margins = np.minimum(margins, np.max(found[:, own], axis=1, initial=-np.inf))
        return closed | known.empty, np.where(known.empty, np.inf, margins)


def decided_ends(network: Network, decisions: Sequence[Decisions]) -> dict[int, tuple[Array, Array]]:
    """The ends that decisions give to values that enter ReLUs."""
    found: dict[int, tuple[Array, Array]] = {}
    for i, some in enumerate(decisions):
        for relu, index, sign in some:
            source = network.nodes[network.relus[relu]].sources[0]
            if source not in found:
                shape = len(decisions), network.nodes[source].size
                found[source] = np.full(shape, -np.inf), np.full(shape, np.inf)
            found[source][0 if sign > 0 else 1][i, index] = 0.0
    return found


def _weights(network: Network, leaves: Sequence[Leaf]) -> dict[int, Array]:
    """Signed multipliers of the decisions: `weight * value >= 0` in each region."""
    found: dict[int, Array] = {}
    for i, leaf in enumerate(leaves):
        for (relu, index, sign), weight in zip(leaf.region.decisions, leaf.weights, strict=True):
            source = network.nodes[network.relus[relu]].sources[0]
            found.setdefault(source, np.zeros((len(leaves), network.nodes[source].size)))
            found[source][i, index] += sign * weight
    return found


def _slopes(network: Network, leaves: Sequence[Leaf], inherited: dict[int, Array]) -> dict[int, Array]:
    """Slopes of lower lines by ReLU node, if any leaf has some: (batch, size)."""
    if not any(leaf.slopes for leaf in leaves):
        return {number: slopes[None] for number, slopes in inherited.items()}
    found = {}
    for k, number in enumerate(network.relus):
        default = inherited.get(number, np.full(network.nodes[number].size, 0.5))
        found[number] = np.array([leaf.slopes[k] if leaf.slopes else default for leaf in leaves])
    return found


def _lemma(network: Network, payload: Any, known: Known) -> Known:
    """Bounds of some values that enter one ReLU node, by back-substitution with slopes of their own."""
    relu, claims = payload
    source = network.nodes[network.relus[relu]].sources[0]
    for index, side, slopes in claims:
        row = np.zeros((1, 1, network.nodes[source].size))
        row[0, 0, index] = side
        chosen = {network.relus[k]: values[None] for k, values in slopes.items()}
        found = float(least(network, source, row, known, chosen)[0, 0])
        if side > 0:
            known.lower[source][0, index] = max(known.lower[source][0, index], found)
        else:
            known.upper[source][0, index] = min(known.upper[source][0, index], -found)
    return known
