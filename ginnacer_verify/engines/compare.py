"""compare(a, b, domain): how far the outputs of two networks are apart, or whether they choose the same class.

Every step is a property about both networks that `verify` decides: it holds, and the networks are proved to stay
closer; or it is violated at an input that was replayed on both, and they are seen to be that far apart.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.substitution import below, tightened
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.verdict import Holds, Undecided, Verdict, Violated
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.graph import Graph, Original
from ginnacer_verify.graph.joint import joined
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.twin import twinned
from ginnacer_verify.loading.model import Model, as_network, box_of, shapes_for
from ginnacer_verify.properties.property import Declared, Disjunct, Polytope, Property, Variable
from ginnacer_verify.replay.joint import subject
from ginnacer_verify.replay.judge import Judge, Judgement, settle
from ginnacer_verify.shown import Shown

NORMS = ("output", "class")
SAMPLES = 2000
CLOSE = 1.05
"""An epsilon that is proved and a difference that is seen within this factor of each other are close enough."""
FIRST = 1.0
"""Seconds for the first question about an epsilon; half as many more whenever it was not enough."""
LAST = 0.1
"""With less time than this left nothing more is asked."""
RESTARTS = 8


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """No input of the domain makes the networks differ by more than `proved`; at `x` they differ by `seen`.

    `proved` is infinite as long as nothing is. With the norm "class" the same of the margin with which the first
    network chooses another class than the second one does."""

    norm: str
    seen: float
    proved: float
    x: Array | None
    verdict: Verdict | None = None

    def facts(self) -> dict[str, object]:
        return {"norm": self.norm, "seen": f"{self.seen:.6g}", "proved": f"{self.proved:.6g}"}


Watcher: TypeAlias = Callable[[Comparison], None]
Ask: TypeAlias = Callable[[float, float, str], Verdict]
Pair: TypeAlias = tuple[Network | Graph, Network | Graph]


def compare(
    a: Model,
    b: Model,
    domain: Box | tuple[ArrayLike, ArrayLike],
    epsilon: float | None = None,
    *,
    norm: str = "output",
    timeout: float = 60.0,
    seed: int = 0,
    observe: Watcher | None = None,
) -> Comparison:
    """How far two networks are apart on a box of inputs.

    Args:
        a: The original: a file, an ONNX model, its bytes, a torch module or a network that was read.
        b: Its quantised, pruned or retrained version.
        domain: The box of inputs, as a `Box` or as (lower, upper).
        epsilon: Decide whether they ever differ by more. Without it, an interval for the largest difference is narrowed
            until its ends are close or the time is over.
        norm: "output" for the largest difference of any output, "class" for the margin by which `a` prefers a class
            that `b` does not choose.
        timeout: Seconds for everything.
        seed: Of the inputs that are tried.
        observe: Called with what is known after each step.
    """
    domain = box_of(domain)
    a, b = (as_network(model, shapes_for((domain.inputs,))) for model in (a, b))
    _check(a, b, domain, epsilon, norm)
    deadline = Deadline.after(timeout)
    pair = a, b

    def ask(level: float, seconds: float, what: str = norm) -> Verdict:
        prop = difference(a, b, domain, level, what)
        return verify({"f": a, "g": b}, prop, timeout=seconds, seed=seed, restarts=RESTARTS)

    if epsilon is not None:
        return _decided(Comparison(norm, 0.0, np.inf, None), epsilon, ask, deadline)
    found = _sampled(pair, domain, norm, seed)
    for step in _narrowed(replace(found, proved=_root(pair, domain, norm, deadline)), ask, deadline):
        found = step
        if observe:
            observe(found)
    return found


def _decided(now: Comparison, epsilon: float, ask: Ask, deadline: Deadline) -> Comparison:
    """One question. Outputs that differ by at most half of a margin cannot change who is ahead by that margin: this is
    asked first, because it is simpler."""
    if now.norm == "class" and isinstance(verdict := ask(epsilon / 2, deadline.left / 2, "output"), Holds):
        return replace(now, proved=epsilon, verdict=verdict)
    verdict = ask(epsilon, deadline.left, now.norm)
    if isinstance(verdict, Violated):
        return replace(_seen(now, verdict.counterexample), verdict=verdict)
    return replace(now, proved=epsilon if isinstance(verdict, Holds) else np.inf, verdict=verdict)


def _narrowed(now: Comparison, ask: Ask, deadline: Deadline) -> Iterator[Comparison]:
    """Questions about epsilons between the two ends: from below until one is proved, then in the middle."""
    yield now
    seconds, proved = FIRST, False
    level = max(2 * now.seen, 1e-6 * now.proved if np.isfinite(now.proved) else 1e-6)
    while deadline.left > LAST and now.proved > CLOSE * now.seen:
        if level >= now.proved:  # nothing below what bounds alone prove was proved: nearer to that
            level, proved = now.proved / CLOSE, True
        now = _after(now, level, ask(level, min(seconds, deadline.left), now.norm))
        yield now
        decided = isinstance(now.verdict, Holds | Violated)
        proved = proved or isinstance(now.verdict, Holds)
        seconds = seconds if decided else 1.5 * seconds
        if proved:
            share = 0.5 if decided else 0.2
            level = now.proved ** (1 - share) * max(now.seen, 1e-3 * now.proved) ** share
        else:
            level = 2 * max(level, now.seen)


def _after(now: Comparison, level: float, verdict: Verdict) -> Comparison:
    match verdict:
        case Holds():
            return replace(now, proved=min(now.proved, level), verdict=verdict)
        case Violated():
            return replace(_seen(now, verdict.counterexample), verdict=verdict)
        case Undecided():
            return replace(now, verdict=verdict)
    raise TypeError(f"{verdict!r} is no verdict")


def _root(pair: Pair, domain: Box, norm: str, deadline: Deadline) -> float:
    """What bounds on the whole domain prove, with neurons that lean on their twins or without: neither always wins.

    Outputs that differ by at most half of a margin do not change a class."""
    free = tuple(range(domain.inputs))
    plain = joined([Original(graph_of(one), free) for one in pair], domain.inputs)
    unit = np.eye(pair[0].outputs)
    rows = np.vstack([np.hstack([unit, -unit]), np.hstack([-unit, unit])])
    least = np.full((1, len(rows)), -np.inf)
    for graph in (twinned(plain), plain):
        known = tightened(graph, domain.lower[None], domain.upper[None], deadline=deadline)
        least = np.maximum(least, below(graph, len(graph.nodes) - 1, rows, known))
    return max(0.0, -float(least.min())) * (1.0 if norm == "output" else 2.0)


def _seen(now: Comparison, found: Judgement) -> Comparison:
    size = len(found.y) // 2
    seen = apart(found.y[None, :size], found.y[None, size:], now.norm)[0]
    return replace(now, seen=float(seen), x=found.x) if now.x is None or seen > now.seen else now


def apart(f: Array, g: Array, norm: str) -> Array:
    """How far batches of outputs are apart: the largest difference, or the margin of a class that g does not choose."""
    if norm == "output":
        return np.asarray(np.abs(f - g).max(axis=1))
    top = np.sort(f, axis=1)
    return np.where(f.argmax(axis=1) == g.argmax(axis=1), 0.0, top[:, -1] - top[:, -2])


def _sampled(pair: Pair, domain: Box, norm: str, seed: int) -> Comparison:
    """The worst of some random inputs and corners, replayed on both original networks."""
    random = np.random.default_rng(seed)
    points = domain.sample(random, SAMPLES)
    points[::2] = np.where(random.random(points[::2].shape) < 0.5, domain.lower, domain.upper)
    f, g = (graph_of(network).evaluate(points) for network in pair)
    prop = difference(*pair, domain, 0.0, norm)
    judge = Judge(subject(dict(zip("fg", pair, strict=True)), prop), prop)
    worst = judge(settle(points[int(apart(f, g, norm).argmax())], domain, judge.dtype))
    return _seen(Comparison(norm, 0.0, np.inf, None), worst)


def difference(a: Network | Graph, b: Network | Graph, domain: Box, epsilon: float, norm: str = "output") -> Property:
    """Unsafe: an output of the second network differs by more than epsilon from that of the first; or the first network
    chooses a class by a margin of at least epsilon, and another one is at least as good in the second."""
    size, rows = a.outputs, list[tuple[Array, Array]]()
    for i in range(size):
        others = [j for j in range(size) if j != i]
        if norm == "output":
            for sign in (1.0, -1.0):
                rows.append((_row(2 * size, {i: -sign, size + i: sign}), np.array([-epsilon])))
        else:
            margin = [_row(2 * size, {j: 1.0, i: -1.0}) for j in others]
            for j in others:
                beaten = _row(2 * size, {size + i: 1.0, size + j: -1.0})
                rows.append((np.vstack([*margin, beaten]), np.array([-epsilon] * len(others) + [0.0])))
    free, everything = tuple(range(a.inputs)), Polytope.everything(a.inputs)
    declared = tuple(
        Declared(name, Variable(f"X_{name}", (a.inputs,)), Variable(f"Y_{name}", (size,)), free) for name in "fg"
    )
    disjuncts = tuple(
        Disjunct(domain, everything, Polytope.of(matrix, offset, strict=norm == "output")) for matrix, offset in rows
    )
    return Property(disjuncts, Variable("X", (a.inputs,)), Variable("Y", (2 * size,)), "2.0", networks=declared)


def _row(size: int, entries: dict[int, float]) -> Array:
    row = np.zeros((1, size))
    for i, value in entries.items():
        row[0, i] = value
    return row


def _check(a: Network | Graph, b: Network | Graph, domain: Box, epsilon: float | None, norm: str) -> None:
    if norm not in NORMS:
        raise InputError(f"norm={norm!r} is unknown; choose one of {', '.join(NORMS)}")
    if (a.inputs, a.outputs) != (b.inputs, b.outputs):
        raise InputError(
            f"the first network has {a.inputs} inputs and {a.outputs} outputs, the second {b.inputs} and {b.outputs}"
        )
    if domain.inputs != a.inputs:
        raise InputError(f"the domain has {domain.inputs} inputs, the networks have {a.inputs}")
    if epsilon is not None and not (np.isfinite(epsilon) and epsilon >= 0):
        raise InputError(f"epsilon must be a number, 0 or more, not {epsilon!r}")
    if norm == "class" and a.outputs < 2:
        raise InputError("a network with one output chooses no class: compare outputs")
