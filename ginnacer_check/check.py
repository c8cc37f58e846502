"""The argument. A proof is a tree for each box of the property, written parents first; its inner nodes cut regions in
two (or one disjunct from the other), its leaves are regions, and for each leaf we calculate that it has nothing unsafe.
A lemma is something that holds for all unsafe inputs of a region: bounds of values, or one value beside another. It is
proved by a tree of its own, and used in what follows.

Where to look: `Walk._walk` decides which regions there are, and nothing else does: whatever the file says, the children
of a region cover it. `Closer.close` decides whether a region holds nothing unsafe, by `bounds` and `least` alone.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any, BinaryIO

import numpy as np

from ginnacer_check import proof
from ginnacer_check.bounds import Compared, Decided, Known, bounds, least
from ginnacer_check.formula import read_formula
from ginnacer_check.functions import RELU
from ginnacer_check.maps import Array, Dense, below, exactly
from ginnacer_check.network import Network, Node, Unreadable, read_networks, twinned
from ginnacer_check.proof import Refused, Stream

BATCH, KINDS = 32, 16
"""So many leaves are bounded together, and so many kinds of them wait for each other at most."""
DEEPEST, MOST_CONTEXTS, KEPT = 100_000, 300, 64
"""How deep a tree may be, how many contexts may lie inside of each other, and of how many what is known is kept."""

Models = bytes | Mapping[str, bytes]
"""The content of the one network, or of each by the name that the property gives it."""


@dataclass(frozen=True)
class Claim:
    """The sum of `coefficient * value` over (node, index, coefficient) is at least `level`."""

    terms: tuple[tuple[int, int, int], ...]
    level: float = 0.0


@dataclass(frozen=True, eq=False)
class Region:
    """Inputs of a box for which the decisions hold, (node, index, sign, at) for `sign * value >= sign * at`. `open` are
    the disjuncts that have to be closed in it; or `claim` has to be shown of all inputs that are unsafe by one of them.
    `context` is the region around it for which bounds were found last."""

    part: int
    lower: Array
    upper: Array
    open: tuple[int, ...]
    decisions: tuple[tuple[int, int, int, float], ...] = ()
    context: "Context | None" = None
    claim: Claim | None = None
    depth: int = 0


@dataclass(frozen=True, eq=False)
class Context:
    """A region whose values are bounded: by intervals and claims, or (None) by back-substitution."""

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
    slopes: tuple[Any, ...] = ()

    @property
    def kind(self) -> Any:
        """Leaves of one kind are bounded together."""
        one, about = self.region, None
        if one.claim is not None:
            about = tuple(node for node, *_ in one.claim.terms)
        shared = None if self.shares is None else len(self.shares)
        return one.part, one.open, about, one.context is None, self.tighten, shared, not self.slopes


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
    """The networks and the property, read by ourselves."""

    def __init__(self, given: Models, text: bytes, twins: Sequence[tuple[int, int]] = ()) -> None:
        try:
            words = text.decode()
        except UnicodeDecodeError as problem:
            raise Unreadable("the property is not a text file") from problem
        self.formula = read_formula(words)
        names = [one.name for one in self.formula.networks]
        named = {names[0]: given} if isinstance(given, bytes) else given
        if sorted(named) != sorted(names):
            raise Unreadable(f"the property is about the networks {names}, given are {sorted(named)}")
        if any(one.equal_to and named[one.name] != named.get(one.equal_to) for one in self.formula.networks):
            raise Unreadable("two networks that the property says are equal are not the same file")
        models = [named[name] for name in names]
        network = read_networks(models, self.formula.networks, self.formula.inputs, self.formula.products)
        functions = network.functions
        self.network = twinned(network, {functions[one]: functions[other] for one, other in twins})
        self.hashes = [hashlib.sha256(model).hexdigest() for model in models], hashlib.sha256(text).hexdigest()
        self.parts = self.formula.parts()
        self.goal = cache(self._goal)

    def _goal(self, number: int, exact: bool) -> Network:
        """The network with the rows of a part as its last node: unsafe where those of some disjunct are at most 0."""
        network, part = self.network.exact if exact else self.network, self.parts[number]
        pairs = zip(network.ends, part.matrices, strict=False)
        used = [(end, one) for end, one in pairs if one.any()] or [(0, part.matrices[0])]
        maps = tuple(Dense(exactly(one) if exact else one.astype(float)) for _, one in used)
        bias = exactly(-part.offset) if exact else np.array([below(-offset) for offset in part.offset])
        last = Node(tuple(end for end, _ in used), maps, bias)
        return replace(network, nodes=(*network.nodes, last))


def check(
    models: Models,
    text: bytes,
    file: BinaryIO,
    *,
    exact: float = 0.0,
    jobs: int = 1,
    seed: Any = None,
    progress: Any = None,
) -> Report:
    """Check a certificate for networks and a property, given as the bytes of their files; Refused if it is wrong.

    `exact` is the share of leaves that are calculated in fractions as well."""
    stream = Stream(file)
    header = stream.header
    try:
        problem = Problem(models, text, header.twins)
    except (IndexError, KeyError) as wrong:
        raise Refused("the certificate names twins that there are not") from wrong
    if (list(header.networks), header.formula) != problem.hashes:
        raise Refused("the certificate belongs to another network or another property")
    if header.status == "sat":
        return _check_witness(problem, header.witness)
    walk, dice, report = Walk(problem, stream), random.Random(seed), Report("unsat")
    share = 1.0 if header.exact else exact
    tasks = ((leaves, [dice.random() < share for _ in leaves]) for leaves in _batches(walk.leaves()))
    for margin, count, again in _results(problem, (models, text, header.twins, header.exact), tasks, jobs):
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
        raise Refused(f"the witness has {len(x)} values, the property {problem.formula.inputs} inputs")
    if not all(problem.network.nodes[number].function.rational for number in problem.network.functions):  # type: ignore[union-attr]
        raise Unreadable("a witness is calculated exactly, which functions like sigmoids do not allow")
    y = problem.network.exact.values(exactly(x))[problem.network.ends[1]]
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
        self.problem, self.stream, self.network = problem, stream, problem.network
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
                at = stream.number() if letter == proof.CUT else low + (0.5 * high - 0.5 * low)
                if not low <= at <= high:
                    raise Refused(f"input {i} is cut at {at}, which is outside of its region, at byte {place}")
                left, right = region.upper.copy(), region.lower.copy()
                left[i] = right[i] = at
                return replace(below, upper=left), replace(below, lower=right)
            case proof.PHASE | proof.VALUE:
                node, index = self._argument()
                at = stream.number() if letter == proof.VALUE else 0.0
                if not np.isfinite(at):
                    raise Refused(f"a value is cut at {at}, at byte {place}")
                return [replace(below, decisions=(*region.decisions, (node, index, sign, at))) for sign in (1, -1)]
            case proof.SOME:  # of the open disjuncts, and all others
                chosen = {stream.whole(len(region.open)) for _ in range(stream.whole(len(region.open) + 1))}
                sides = [
                    tuple(n for k, n in enumerate(region.open) if (k in chosen) is there) for there in (True, False)
                ]
                return [replace(below, open=side) for side in sides]
            case proof.BOUNDS:
                return [replace(below, context=self._context(region))]
            case proof.LEMMA | proof.COMPARED:  # each claim has to be shown, and then all of them are known
                claims = tuple(self._claim(letter) for _ in range(stream.whole(1 << 30)))
                self.lemmas += len(claims)
                shown = [replace(below, claim=claim) for claim in claims]
                return [*shown, replace(below, context=self._context(region, claims))]
            case proof.LEAF:
                return self._leaf(region, place)
        raise Refused(f"there is no record {letter!r}, at byte {place}")

    def _argument(self) -> tuple[int, int]:
        """A value that enters a function."""
        node = self.network.arguments[self.stream.whole(len(self.network.arguments))]
        return node, self.stream.whole(self.network.nodes[node].size)

    def _claim(self, letter: bytes) -> Claim:
        if letter == proof.LEMMA:
            (node, index), sign = self._argument(), 1 - 2 * self.stream.whole(2)
            return Claim(((node, index, sign),), sign * self.stream.number())
        sides = []
        for sign in (1, -1):
            name = self.stream.header.tensors[self.stream.whole(len(self.stream.header.tensors))]
            if name not in self.network.named:
                raise Refused(f"there is no tensor {name[:60]!r} that the property needs")
            node = self.network.named[name]
            sides.append((node, self.stream.whole(self.network.nodes[node].size), sign))
        return Claim(tuple(sides))

    def _context(self, region: Region, claims: tuple[Claim, ...] | None = None) -> Context:
        self.contexts += 1
        inside = 1 + (region.context.inside if region.context else 0)
        if inside > MOST_CONTEXTS:
            raise Refused(f"more than {MOST_CONTEXTS} bounds of values lie inside of each other")
        return Context(self.contexts, region, claims, inside)

    def _leaf(self, region: Region, place: int) -> Leaf:
        """With a mixture: shares of the rows of the one open disjunct, multipliers of decisions; and with slopes."""
        stream, (part, open_) = self.stream, (self.problem.parts[region.part], region.open)
        flags, shares, weights = stream.whole(8), None, np.zeros(0)
        if flags & proof.MIXED:
            if len(open_) != 1 and not region.claim:
                raise Refused(f"a leaf with multipliers has several open disjuncts, at byte {place}")
            rows = int((part.owner == open_[0]).sum()) if len(open_) == 1 else 0
            shares, weights = stream.singles(rows, 0.0), stream.singles(len(region.decisions), 0.0)
        slopes: list[Any] = []
        bare = region.claim if shares is None or not len(shares) else None
        last = max(node for node, *_ in bare.terms) if bare else len(self.network.nodes)
        for number in self.network.functions if flags & proof.SLOPES else ():
            node = self.network.nodes[number]
            if number > last:
                break
            if node.function is RELU:
                slopes.append(stream.shares(node.size))
            else:  # of lower lines for each argument, then of upper lines
                found = stream.singles(2 * len(node.sources) * node.size, -np.inf)
                slopes.append(found.reshape(2, len(node.sources), node.size))
        return Leaf(region, place, bool(flags & proof.TIGHTEN), shares, weights, tuple(slopes))


def _results(problem: Problem, given: Any, tasks: Iterator[Any], jobs: int) -> Iterator[Any]:
    """(smallest margin, leaves, how many of them exactly) of each batch; in several processes if asked for."""
    if jobs <= 1:
        yield from map(Closer(problem, given[-1]), tasks)
        return
    with ProcessPoolExecutor(jobs, initializer=_start, initargs=given) as pool:
        while some := list(islice(tasks, 8 * jobs)):  # a few at a time: memory does not grow with the proof
            yield from pool.map(_work, some)


_CLOSER: list["Closer"] = []


def _start(models: Models, text: bytes, twins: Any, strict: bool) -> None:
    _CLOSER[:] = [Closer(Problem(models, text, twins), strict)]


def _work(task: Any) -> Any:
    return _CLOSER[0](task)


class Closer:
    """Shows of batches of leaves that they hold nothing unsafe; with `strict` in exact arithmetic only."""

    def __init__(self, problem: Problem, strict: bool = False) -> None:
        self.problem, self.strict = problem, strict
        self.kept: dict[tuple[int, bool], Known] = {}

    def __call__(self, task: tuple[list[Leaf], list[bool]]) -> tuple[float, int, int]:
        leaves, chosen = task
        again = [([leaf], True) for leaf, choice in zip(leaves, chosen, strict=True) if choice]
        margin = np.inf
        for some, exact in again if self.strict else [(leaves, False), *again]:
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
        """What is known of all values in a context, from what is known in the one around it."""
        if context is None:
            return None
        key, region, claims = (context.number, exact), context.region, context.claims or ()
        if key not in self.kept:
            network, around = self.problem.goal(region.part, exact), self.known(region.context, exact)
            decided = ends_of(network, [region.decisions], [one for one in claims if len(one.terms) == 1])
            box, tighten = (region.lower[None], region.upper[None]), context.claims is None
            while len(self.kept) >= KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[key] = found = bounds(network, *box, around, decided, tighten)
            found.compared = compared_of(found.compared, claims)
        return self.kept[key]

    def close(
        self, leaves: Sequence[Leaf], exact: bool = False, known: Known | None = None, met: Any = None
    ) -> tuple[Array, Array]:
        """Which leaves, all of one kind, hold nothing unsafe, and by how much their lower bounds say so."""
        first, known = leaves[0], known or self.bounded(leaves, exact)
        network, part = self.problem.goal(first.region.part, exact), self.problem.parts[first.region.part]
        last, mine = len(network.nodes) - 1, np.flatnonzero(np.isin(part.owner, first.region.open))
        rows: dict[int, Array] = {}
        if first.region.claim is None and first.shares is None:
            rows[last] = np.eye(len(part.owner))[None, mine]
        elif first.shares is not None and len(first.shares):
            rows[last] = np.zeros((len(leaves), 1, len(part.owner)))
            rows[last][:, 0, mine] = [leaf.shares for leaf in leaves]
        level = np.zeros((len(leaves), 1))
        for i, claim in enumerate(leaf.region.claim for leaf in leaves):
            if claim is None:
                break
            level[i] = claim.level
            for node, index, coefficient in claim.terms:
                rows.setdefault(node, np.zeros((len(leaves), 1, network.nodes[node].size)))[i, 0, index] = coefficient
        found = least(network, rows, known, _slopes(network, leaves), _weights(network, leaves), met)
        if met is not None:
            met[-1] = found
        empty, gap = known.empty, found - level
        if first.region.claim is not None:
            closed, best = found[:, 0] >= level[:, 0], gap[:, 0]
        else:
            strict, owner = part.strict[mine], part.owner[mine]
            if first.shares is not None:
                shares = np.array([leaf.shares for leaf in leaves])
                strict = ((shares > 0) & strict).any(axis=1)[:, None]
                owner = np.array(first.region.open)
            fine = (found > 0) | ((found == 0) & strict)
            closed = np.logical_and.reduce([fine[:, owner == n].any(axis=1) for n in first.region.open])
            each = [np.max(gap[:, owner == n], axis=1, initial=-np.inf) for n in first.region.open]
            best = np.min(each, axis=0, initial=np.inf)
        return closed | empty, np.where(empty, np.inf, best)

    def _around(self, leaves: Sequence[Leaf], exact: bool) -> Known | None:
        """What is known in the context of each leaf; once if they share it."""
        contexts = {leaf.region.context for leaf in leaves}
        if len(contexts) == 1:
            return self.known(contexts.pop(), exact)
        each: dict[Any, Any] = {context: self.known(context, exact) for context in contexts}
        return Known.joined([each[leaf.region.context] for leaf in leaves])

    def bounded(self, leaves: Sequence[Leaf], exact: bool = False) -> Known:
        """Bounds of the values on leaves: of their own, or those of their context with their decisions."""
        network, around = self.problem.goal(leaves[0].region.part, exact), self._around(leaves, exact)
        decided = ends_of(network, [leaf.region.decisions for leaf in leaves])
        lower, upper = (np.array([getattr(leaf.region, end) for leaf in leaves]) for end in ("lower", "upper"))
        if around is None or leaves[0].tighten:
            return bounds(network, lower, upper, around, decided, leaves[0].tighten)
        return around.narrowed({0: (lower, upper), **decided})


def ends_of(network: Network, decisions: Sequence[Any], claims: Sequence[Claim] = ()) -> Decided:
    """The ends that decisions and claims about single values give."""
    found: dict[int, tuple[Array, Array]] = {}
    given = [(i, *one) for i, some in enumerate(decisions) for one in some]
    given += [(0, *one.terms[0], one.terms[0][2] * one.level) for one in claims]
    for i, node, index, sign, at in given:
        if node not in found:
            shape = len(decisions), network.nodes[node].size
            found[node] = np.full(shape, -np.inf), np.full(shape, np.inf)
        ends = found[node][0 if sign > 0 else 1]
        ends[i, index] = max(ends[i, index], at) if sign > 0 else min(ends[i, index], at)
    return found


def compared_of(before: Compared, claims: Sequence[Claim]) -> Compared:
    """What claims say of values beside those of earlier nodes, and what is known already."""
    groups: dict[tuple[int, int, int], dict[int, int]] = {}
    for (other, theirs, _), (node, mine, sign) in (sorted(one.terms) for one in claims if len(one.terms) == 2):
        if other < node:
            groups.setdefault((node, sign, other), {})[mine] = theirs
    found = dict(before)
    for (node, sign, other), pairs in groups.items():
        indices, others = (np.array(list(some), int) for some in (pairs, pairs.values()))
        found[node] = [(sign, other, indices, others), *found.get(node, ())]
    return found


def _slopes(network: Network, leaves: Sequence[Leaf]) -> dict[int, Any]:
    """The slopes that leaves choose, by function node."""
    found: dict[int, Any] = {}
    for number, some in zip(network.functions, zip(*(leaf.slopes for leaf in leaves), strict=True), strict=False):
        chosen = np.array(some)
        found[number] = chosen if chosen.ndim == 2 else [tuple(chosen[:, k].swapaxes(0, 1)) for k in (0, 1)]
    return found


def _weights(network: Network, leaves: Sequence[Leaf]) -> dict[int, tuple[Array, Array]]:
    """Signed multipliers of decisions: `weight @ value >= number` in each region."""
    found: dict[int, tuple[Array, Array]] = {}
    for i, leaf in enumerate(leaves):
        numbers: dict[int, Fraction] = {}
        for (node, index, sign, at), weight in zip(leaf.region.decisions, leaf.weights, strict=False):
            empty = np.zeros((len(leaves), network.nodes[node].size)), np.zeros(len(leaves))
            some, number = found.setdefault(node, empty)
            total = some[i, index] + sign * weight
            if some[i, index] and Fraction(some[i, index]) + Fraction(sign * weight) != Fraction(total):
                raise Refused(f"multipliers of one value differ too much in size, at byte {leaf.place}")
            some[i, index] = total
            if at and weight:
                numbers[node] = numbers.get(node, Fraction(0)) + sign * Fraction(weight) * Fraction(at)
                number[i] = below(numbers[node])
    return found
