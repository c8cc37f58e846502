"""The argument. A proof is a tree for each box of the property, written parents first; its inner nodes cut regions in
two (or one disjunct from the other), its leaves are regions, and for each leaf we calculate that it has nothing unsafe.
A lemma is a bound of a neuron on a region, proved by a tree of its own, and used in what follows.

Where to look: `Walk._walk` decides which regions there are, and nothing else does: whatever the file says, the children
of a region cover it. `Closer.close` decides whether a region holds nothing unsafe, by `bounds` and `least` alone.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any, BinaryIO

import numpy as np

from ginnacer_check import proof
from ginnacer_check.bounds import Decided, Known, bounds, least
from ginnacer_check.formula import below, read_formula
from ginnacer_check.maps import Array, Dense
from ginnacer_check.network import Network, Node, Unreadable, exactly, read_network
from ginnacer_check.proof import Refused, Stream

BATCH, KINDS = 32, 16
"""So many leaves are bounded together, and so many kinds of them wait for each other at most."""
DEEPEST, MOST_CONTEXTS, KEPT = 100_000, 300, 64
"""How deep a tree may be, how many contexts may lie inside of each other, and of how many what is known is kept."""
Decisions = tuple[tuple[int, int, int], ...]
"""(number of the ReLU node among ReLU nodes, index, +1 for the value that enters it >= 0 or -1 for <= 0)."""


@dataclass(frozen=True)
class Claim:
    """What a lemma says of the value that enters a ReLU: `sign * value >= sign * at`."""

    relu: int
    index: int
    sign: int
    at: float


@dataclass(frozen=True, eq=False)
class Region:
    """Inputs of a box for which the decisions hold. `open` are the disjuncts that have to be closed in it, or `claim`
    has to be shown; `context` is the region around it for which bounds were found last."""

    part: int
    lower: Array
    upper: Array
    open: tuple[int, ...]
    decisions: Decisions = ()
    context: "Context | None" = None
    claim: Claim | None = None
    depth: int = 0


@dataclass(frozen=True, eq=False)
class Context:
    """A region whose neurons are bounded: by intervals and claims, or (None) by back-substitution."""

    number: int
    region: Region
    claims: tuple[Claim, ...] | None
    inside: int


@dataclass(frozen=True, eq=False)
class Leaf:
    """A region that is said to be closed: with which multipliers, and the byte at which that is said."""

    region: Region
    place: int = 0
    tighten: bool = False
    shares: Array | None = None
    weights: Array = ()
    slopes: tuple[Array, ...] = ()

    @property
    def kind(self) -> Any:
        """Leaves of one kind are bounded together."""
        one = self.region
        about = one.open if one.claim is None else one.claim.relu
        return one.part, about, one.context is None, self.tighten, self.shares is None, not self.slopes


@dataclass(frozen=True)
class Report:
    """What was checked: leaves, lemmas, how deep, the smallest lower bound of a leaf, how many leaves exactly."""

    status: str
    leaves: int = 0
    lemmas: int = 0
    depth: int = 0
    margin: float = float("inf")
    exact: int = 0


class Problem:
    """The network and the property, read by ourselves."""

    def __init__(self, model: bytes, text: bytes) -> None:
        try:
            words = text.decode()
        except UnicodeDecodeError as problem:
            raise Unreadable("the property is not a text file") from problem
        self.network, self.formula = read_network(model), read_formula(words)
        sizes = self.network.nodes[0].size, self.network.nodes[-1].size
        if sizes != self.formula.sizes:
            raise Unreadable(f"the network has {sizes[0]} inputs and {sizes[1]} outputs, the property has others")
        self.hashes = hashlib.sha256(model).hexdigest(), hashlib.sha256(text).hexdigest()
        self.parts = self.formula.parts()
        self.sizes = [self.network.nodes[number].size for number in self.network.relus]
        self.goal = cache(self._goal)

    def _goal(self, number: int, exact: bool) -> Network:
        """The network with the rows of a part as its last node: unsafe where those of some disjunct are at most 0."""
        network, part = self.network.exact if exact else self.network, self.parts[number]
        matrices = [exactly(one) if exact else one.astype(float) for one in (part.outputs, part.inputs)]
        bias = exactly(-part.offset) if exact else np.array([below(-offset) for offset in part.offset])
        used = [k for k, one in enumerate(matrices) if k == 0 or one.any()]
        sources, maps = [(len(network.nodes) - 1, 0)[k] for k in used], [Dense(matrices[k]) for k in used]
        return Network((*network.nodes, Node(tuple(sources), tuple(maps), bias)), network.unit)


def check(
    model: bytes,
    text: bytes,
    file: BinaryIO,
    *,
    exact: float = 0.0,
    jobs: int = 1,
    seed: Any = None,
    progress: Any = None,
) -> Report:
    """Check a certificate for a network and a property, given as the bytes of their files; Refused if it is wrong.

    `exact` is the share of leaves that are calculated in fractions as well."""
    problem, stream = Problem(model, text), Stream(file)
    if (stream.header.network, stream.header.formula) != problem.hashes:
        raise Refused("the certificate belongs to another network or another property")
    if stream.header.status == "sat":
        return _check_witness(problem, stream.header.witness)
    walk, dice, report = Walk(problem, stream), random.Random(seed), Report("unsat")
    tasks = ((leaves, [dice.random() < exact for _ in leaves]) for leaves in _batches(walk.leaves()))
    for margin, count, again in _results(problem, model, text, tasks, jobs):
        report = replace(
            report, leaves=report.leaves + count, margin=min(report.margin, margin), exact=report.exact + again
        )
        if progress:
            progress(report)
    return replace(report, lemmas=walk.lemmas, depth=walk.depth)


def _check_witness(problem: Problem, witness: tuple[float, ...]) -> Report:
    """A witness is an input of the property whose output, in real arithmetic, is unsafe."""
    x = np.array(witness)
    if len(x) != problem.formula.inputs:
        raise Refused(f"the witness has {len(x)} values, the network {problem.formula.inputs} inputs")
    y = problem.network.exact.values(exactly(x))[-1]
    if not problem.formula.satisfied(x, [Fraction(int(value.numerator), int(value.denominator)) for value in y]):
        raise Refused("the witness is not unsafe in real arithmetic (a run in float32 may say otherwise)")
    return Report("sat")


def _batches(leaves: Iterator[Leaf]) -> Iterator[list[Leaf]]:
    """Leaves of one kind, as soon as there are enough of them; a few kinds wait at the same time."""
    waiting: dict[Any, list[Leaf]] = {}
    for leaf in leaves:
        waiting.setdefault(leaf.kind, []).append(leaf)
        if len(waiting[leaf.kind]) == BATCH or len(waiting) > KINDS:
            yield waiting.pop(max(waiting, key=lambda kind: len(waiting[kind])))
    yield from waiting.values()


class Walk:
    """Reads the trees, and knows what each region is."""

    def __init__(self, problem: Problem, stream: Stream) -> None:
        self.problem, self.stream = problem, stream
        self.contexts = self.lemmas = self.depth = 0

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
                relu, index = self._relu()
                return [replace(below, decisions=(*region.decisions, (relu, index, sign))) for sign in (1, -1)]
            case proof.ONE:  # of the open disjuncts, and all others
                chosen = region.open[stream.whole(len(region.open))]
                others = tuple(number for number in region.open if number != chosen)
                return replace(below, open=(chosen,)), replace(below, open=others)
            case proof.BOUNDS:
                return [replace(below, context=self._context(region))]
            case proof.LEMMA:  # each claim has to be shown, and then all of them are known
                count = stream.whole(2 * sum(self.problem.sizes) + 1)
                claims = tuple(Claim(*self._relu(), 1 - 2 * stream.whole(2), stream.float()) for _ in range(count))
                self.lemmas += count
                shown = [replace(below, claim=claim, open=(0,)) for claim in claims]
                return [*shown, replace(below, context=self._context(region, claims))]
            case proof.TIGHT | proof.PLAIN:
                return Leaf(region, place, letter == proof.TIGHT)
            case proof.MIXED:
                return self._mixed(region, place)
        raise Refused(f"there is no record {letter!r}, at byte {place}")

    def _relu(self) -> tuple[int, int]:
        relu = self.stream.whole(len(self.problem.sizes))
        return relu, self.stream.whole(self.problem.sizes[relu])

    def _context(self, region: Region, claims: tuple[Claim, ...] | None = None) -> Context:
        self.contexts += 1
        inside = 1 + (region.context.inside if region.context else 0)
        if inside > MOST_CONTEXTS:
            raise Refused(f"more than {MOST_CONTEXTS} bounds of neurons lie inside of each other")
        return Context(self.contexts, region, claims, inside)

    def _mixed(self, region: Region, place: int) -> Leaf:
        """A leaf with shares of its one disjunct's rows, multipliers of its decisions, and perhaps slopes."""
        if len(region.open) != 1:
            raise Refused(f"a leaf with multipliers has several open disjuncts, at byte {place}")
        flags = self.stream.whole(4)
        rows = 1 if region.claim else int((self.problem.parts[region.part].owner == region.open[0]).sum())
        shares, weights = self.stream.multipliers(rows), self.stream.multipliers(len(region.decisions))
        sizes = self.problem.sizes[: region.claim.relu if region.claim else None] if flags & 2 else []
        return Leaf(region, place, bool(flags & 1), shares, weights, tuple(self.stream.slopes(size) for size in sizes))


def _results(problem: Problem, model: bytes, text: bytes, tasks: Iterator[Any], jobs: int) -> Iterator[Any]:
    """(smallest margin, leaves, how many of them exactly) of each batch; in several processes if asked for."""
    if jobs <= 1:
        yield from map(Closer(problem), tasks)
        return
    with ProcessPoolExecutor(jobs, initializer=_start, initargs=(model, text)) as pool:
        while some := list(islice(tasks, 8 * jobs)):  # a few at a time: memory does not grow with the proof
            yield from pool.map(_work, some)


_CLOSER: list["Closer"] = []


def _start(model: bytes, text: bytes) -> None:
    _CLOSER[:] = [Closer(Problem(model, text))]


def _work(task: Any) -> Any:
    return _CLOSER[0](task)


class Closer:
    """Shows of batches of leaves that they hold nothing unsafe."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.kept: dict[tuple[int, bool], Known] = {}

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
        return margin if leaves[0].region.claim is None else np.inf, len(leaves), len(again)

    def known(self, context: Context | None, exact: bool = False) -> Known | None:
        """What is known of all neurons in a context, from what is known in the one around it."""
        if context is None:
            return None
        key, region = (context.number, exact), context.region
        if key not in self.kept:
            network, around = self.problem.goal(region.part, exact), self.known(region.context, exact)
            decided = ends_of(network, [region.decisions], context.claims or ())
            box, tighten = (region.lower[None], region.upper[None]), context.claims is None
            while len(self.kept) >= KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[key] = bounds(network, *box, around, decided, tighten)
        return self.kept[key]

    def close(
        self, leaves: Sequence[Leaf], exact: bool = False, known: Known | None = None, met: Any = None
    ) -> tuple[Array, Array]:
        """Which leaves, all of one kind, hold nothing unsafe, and by how much their lower bounds say so."""
        first, claim, known = leaves[0], leaves[0].region.claim, known or self.bounded(leaves, exact)
        network, part = self.problem.goal(first.region.part, exact), self.problem.parts[first.region.part]
        start = _source(network, claim.relu) if claim else len(network.nodes) - 1
        if claim:
            mine, strict, owner = np.array([0]), np.array([True]), np.array([0])
            rows = np.zeros((len(leaves), 1, network.nodes[start].size))
            for row, leaf in zip(rows, leaves, strict=True):
                row[0, leaf.region.claim.index] = leaf.region.claim.sign  # type: ignore[union-attr]
            level = np.array([[leaf.region.claim.sign * leaf.region.claim.at] for leaf in leaves])  # type: ignore[union-attr]
        else:
            mine, level = np.flatnonzero(np.isin(part.owner, first.region.open)), np.zeros(1)
            owner, strict, rows = part.owner[mine], part.strict[mine], np.eye(len(part.owner))[None, mine]
        if first.shares is not None and not claim:
            shares = np.array([leaf.shares for leaf in leaves])
            rows, strict = (shares @ rows[0])[:, None], ((shares > 0) & strict).any(axis=1)[:, None]
            owner = np.array(first.region.open)
        given = zip(*(leaf.slopes for leaf in leaves), strict=True)
        slopes = {network.relus[k]: np.array(some) for k, some in enumerate(given)}
        found = least(network, start, rows, known, slopes, _weights(network, leaves), met)
        if met is not None:
            met[-1] = found
        fine, empty = (found > level) | ((found == level) & strict), known.empty
        closed = np.logical_and.reduce([fine[:, owner == n].any(axis=1) for n in first.region.open])
        best = [np.max((found - level)[:, owner == n], axis=1, initial=-np.inf) for n in first.region.open]
        return closed | empty, np.where(empty, np.inf, np.min(best, axis=0, initial=np.inf))

    def _around(self, leaves: Sequence[Leaf], exact: bool) -> Known | None:
        """What is known in the context of each leaf; once if they share it."""
        contexts = {leaf.region.context for leaf in leaves}
        if len(contexts) == 1:
            return self.known(contexts.pop(), exact)
        each: dict[Any, Any] = {context: self.known(context, exact) for context in contexts}
        return Known.joined([each[leaf.region.context] for leaf in leaves])

    def bounded(self, leaves: Sequence[Leaf], exact: bool = False) -> Known:
        """Bounds of the neurons on leaves: of their own, or those of their context with their decisions."""
        network, around = self.problem.goal(leaves[0].region.part, exact), self._around(leaves, exact)
        decided = ends_of(network, [leaf.region.decisions for leaf in leaves])
        lower, upper = (np.array([getattr(leaf.region, end) for leaf in leaves]) for end in ("lower", "upper"))
        if around is None or leaves[0].tighten:
            return bounds(network, lower, upper, around, decided, leaves[0].tighten)
        return around.narrowed({0: (lower, upper), **decided})


def _source(network: Network, relu: int) -> int:
    return network.nodes[network.relus[relu]].sources[0]


def ends_of(network: Network, decisions: Sequence[Decisions], claims: Sequence[Claim] = ()) -> Decided:
    """The ends that decisions and claims give to values that enter ReLUs."""
    found: dict[int, tuple[Array, Array]] = {}
    given = [(i, *one, 0.0) for i, some in enumerate(decisions) for one in some]
    for i, relu, index, sign, at in [*given, *((0, one.relu, one.index, one.sign, one.at) for one in claims)]:
        source = _source(network, relu)
        if source not in found:
            shape = len(decisions), network.nodes[source].size
            found[source] = np.full(shape, -np.inf), np.full(shape, np.inf)
        ends = found[source][0 if sign > 0 else 1]
        ends[i, index] = max(ends[i, index], at) if sign > 0 else min(ends[i, index], at)
    return found


def _weights(network: Network, leaves: Sequence[Leaf]) -> dict[int, Array]:
    """Signed multipliers of the decisions: `weight * value >= 0` in each region."""
    found: dict[int, Array] = {}
    for i, leaf in enumerate(leaves):
        for (relu, index, sign), weight in zip(leaf.region.decisions, leaf.weights, strict=False):
            source = _source(network, relu)
            found.setdefault(source, np.zeros((len(leaves), network.nodes[source].size)))
            found[source][i, index] += sign * weight
    return found
