"""verify(network, prop, ...) -> Verdict: abstract, ask, replay, refine, and round again; the loop and nothing else."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import REACHED, Deadline
from ginnacer_verify.engines.parts import Bounded, Part, parts
from ginnacer_verify.engines.progress import Round
from ginnacer_verify.engines.refinement.refine import (
    INITIAL,
    STRATEGIES,
    Bisection,
    Initial,
    Refinement,
    Situation,
    Strategy,
    bisect,
)
from ginnacer_verify.engines.verdict import Holds, Proof, Statistics, Undecided, Verdict, Violated, combine
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Property
from ginnacer_verify.query.backend import Backend, get_backend
from ginnacer_verify.query.query import Answer, Query, Sat, Shared, Unknown, Unsat
from ginnacer_verify.replay.attack import around, attack, falsify
from ginnacer_verify.replay.judge import Counterexample, Judge, settle

GARBAGE = 1e-5
"""A solution that breaks its own query by more than this is no solution, whatever the backend says."""

INWARDS = (1e-4, 1e-6)
"""How far inside of the unsafe set a counterexample is looked for, relatively, when all ReLUs are exact."""
LARGEST = 8 * 10**9
"""Bytes: a query that takes more is not made."""
OUT_OF_TIME = Undecided(REACHED, timeout=True)


T = TypeVar("T")


class Abstracted(Protocol):
    """What the loop needs of an abstraction on a box; `kept` is whatever its own refinement understands."""

    @property
    def box(self) -> Box: ...
    def query(self, kept: tuple[Any, ...]) -> Query: ...
    def witness(self, z: Array) -> Array: ...


A = TypeVar("A", bound=Abstracted)


def verify(
    network: Network,
    prop: Property,
    *,
    timeout: float = 60.0,
    backend: str | Backend = "highs",
    initial: str = "relaxed",
    refine: str | Strategy = "split",
    per_round: int = 8,
    seed: int = 0,
    restarts: int = 24,
    observe: Callable[[Round], None] | None = None,
    remaining: Sequence[Part] | None = None,
) -> Verdict:
    """Decide whether the network can reach the property's unsafe set.

    `Holds` is proved in real arithmetic on the network's weights; `Violated` carries an input that was replayed in
    the network's own precision; `Undecided` says why. The timeout is one deadline for everything. `restarts` is how
    often the falsifier starts per disjunct; 0 switches it off, and counterexamples come from the backend alone.
    `remaining` are the parts that are still to be decided, if others are proved already."""
    if np.isnan(timeout):
        raise InputError("the timeout is not a number")
    if per_round < 1:
        raise InputError(f"{per_round} ReLUs per round refine nothing: give at least 1")
    deadline = Deadline.after(timeout)
    solver = get_backend(backend) if isinstance(backend, str) else backend
    strategy = _choice(STRATEGIES, refine) if isinstance(refine, str) else refine
    settings = Settings(_choice(INITIAL, initial), strategy, per_round, restarts, deadline, observe)
    judge = Judge(network, prop)
    todo = parts(prop) if remaining is None else remaining
    run = _Run(judge, todo, solver, settings, np.random.default_rng(seed))
    verdict = run.verdict()
    if isinstance(verdict, Undecided):
        verdict = replace(verdict, reason=judge.why_undecided(verdict.reason))
    return replace(verdict, statistics=run.statistics())


def _choice(table: dict[str, T], name: str) -> T:
    if name not in table:
        raise InputError(f"{name!r} is none of {', '.join(table)}")
    return table[name]


@dataclass(frozen=True, eq=False)
class Settings:
    """What stays the same during a run."""

    initial: Initial
    strategy: Strategy
    per_round: int
    restarts: int
    deadline: Deadline
    observe: Callable[[Round], None] | None


class Loop(ABC, Generic[A]):
    """One call of `verify`: the parts that are open, and counters. Subclasses say how to abstract and to refine."""

    def __init__(
        self, judge: Judge, todo: Sequence[Part], backend: Backend, settings: Settings, random: np.random.Generator
    ) -> None:
        self.judge, self.backend, self.settings, self.random = judge, backend, settings, random
        self.network, self.prop, self.deadline = judge.network, judge.prop, settings.deadline
        self.open = list(todo)
        self.given_up: set[int] = set()
        self.rounds = self.boxes = self.unstable = self.kept = 0

    @abstractmethod
    def part(self, part: Part) -> Verdict:
        """The verdict of one box and its disjuncts, as far as it is not put back among the open ones."""

    def start(self, abstracted: A) -> tuple[Any, ...]:
        """What is kept in the first round: nothing, unless a subclass knows better."""
        return ()

    def refine(self, abstracted: A, kept: tuple[Any, ...], answer: Sat) -> tuple[Any, ...] | Bisection:
        """What to keep after a spurious solution; the same if nothing is left to refine."""
        return kept

    def without(self, abstracted: A, kept: tuple[Any, ...], reason: str) -> Verdict | Bisection:
        """What to do when there is no answer and so no witness."""
        return Undecided(reason)

    def statistics(self) -> Statistics:
        return Statistics(
            seconds=self.deadline.spent,
            engine=self.backend.name,
            rounds=self.rounds,
            boxes=self.boxes,
            total=self.network.relus,
            unstable=self.unstable,
            kept=self.kept,
            parts=len(self.prop.disjuncts),
            proved=len(self.prop.disjuncts) - len(self.waiting | self.given_up),
        )

    @property
    def waiting(self) -> set[int]:
        """The disjuncts of the parts that are still to be looked at."""
        return {number for part in self.open for number in part.disjuncts}

    def verdict(self) -> Verdict:
        """Attack first; then part by part, the halves of a bisection next. Stops at the first violation."""
        if found := self._falsify():
            return Violated(found)
        verdicts: list[Verdict] = []
        while self.open:
            if self.deadline.passed:
                verdicts.append(OUT_OF_TIME)
                break
            part = self.open.pop()
            verdicts.append(self.part(part))
            if isinstance(verdicts[-1], Violated):
                break
            if isinstance(verdicts[-1], Undecided):
                proved = {proof.disjunct for proof in verdicts[-1].proofs}
                self.given_up |= set(part.disjuncts) - proved - self.waiting
        return combine(verdicts)

    def _falsify(self) -> Counterexample | None:
        if not self.settings.restarts:
            return None
        start = self.deadline.within(self.deadline.left / 4)
        return falsify(self.judge, self.prop.disjuncts, self.random, start, restarts=self.settings.restarts)

    def loop(self, number: int, abstracted: A) -> Verdict | Bisection:
        """Abstract, ask, replay, refine: until there is an answer for one disjunct on one box."""
        kept = self.start(abstracted)
        while True:
            query = abstracted.query(kept)
            answer = self._ask(number, query)
            match answer:
                case Unsat():
                    return Holds((Proof(number, query.kept),))
                case Unknown(reason, timeout):
                    return Undecided(reason, timeout) if timeout else self.without(abstracted, kept, reason)
                case Sat():
                    if found := self._replay(number, abstracted, answer):
                        return Violated(found)
                case _:
                    raise TypeError(f"{self.backend.name} answered {answer!r}")
            finer = self.refine(abstracted, kept, answer)
            if isinstance(finer, Bisection):
                return finer
            if finer == kept:
                return self._at_the_boundary(number, abstracted, query)
            kept = finer

    def _at_the_boundary(self, number: int, abstracted: A, query: Query) -> Verdict:
        """The network itself has a solution that is safe by a hair: look for one that is unsafe by more than that."""
        for amount in INWARDS:
            answer = self._ask(number, Query(query.base.tightened(amount), query.kept))
            if isinstance(answer, Sat) and (found := self._replay(number, abstracted, answer)):
                return Violated(found)
            if isinstance(answer, Unknown) and answer.timeout:
                return Undecided(answer.reason, timeout=True)
        return Undecided("the network comes nearer to the unsafe set than solvers can tell apart")

    def _ask(self, number: int, query: Query) -> Answer:
        start = time.monotonic()
        answer = self.backend.solve(query, timeout=self.deadline.left)
        if isinstance(answer, Sat) and query.violation(answer.z) > GARBAGE:
            answer = self._second_opinion(query)
        self.rounds += 1
        self.kept = max(self.kept, query.binaries)
        if self.settings.observe:
            self.settings.observe(self._round(number, query, answer, time.monotonic() - start))
        return answer

    def _second_opinion(self, query: Query) -> Answer:
        """HiGHS's answer where the backend's solution violates its own query, as Marabou's sometimes does."""
        answer = get_backend("highs").solve(query, timeout=self.deadline.left)
        if isinstance(answer, Sat) and query.violation(answer.z) > GARBAGE:
            return Unknown(f"the solution of {self.backend.name} violates its own query; try another backend")
        return answer

    def _round(self, number: int, query: Query, answer: Answer, seconds: float) -> Round:
        layers = range(len(self.network.layers) - 1)
        owner = query.base.relus.layer
        kept = [int(owner[shared.members[0]]) for shared in query.kept]
        deviation = query.deviation(answer.z).max(initial=0.0) if isinstance(answer, Sat) else 0.0
        return Round(
            number=self.rounds,
            disjunct=number,
            kept=tuple(kept.count(layer) for layer in layers),
            unstable=tuple(int((owner == layer).sum()) for layer in layers),
            answer=type(answer).__name__.lower(),
            seconds=seconds,
            deviation=float(deviation),
            bound=answer.bound if isinstance(answer, Sat) else float("nan"),
            box=query.base.box,
            open_boxes=len(self.open),
            left=self.deadline.left,
        )

    def _replay(self, number: int, abstracted: A, answer: Sat) -> Counterexample | None:
        """Judge the witness, and attack around it."""
        witness = abstracted.witness(answer.z)
        disjunct = self.prop.disjuncts[number]
        if not self.settings.restarts:
            judgement = self.judge(settle(witness, disjunct.witnesses, self.network.dtype))
            return judgement if isinstance(judgement, Counterexample) else None
        points = around(witness, abstracted.box, self.random)
        return attack(self.judge, disjunct, abstracted.box, points, self.deadline)


class _Run(Loop[Relational]):
    """The relational abstraction in the loop."""

    def part(self, part: Part) -> Verdict:
        """One box: bounds for all its disjuncts at once, then the loop for each that is still open.

        A part that is halved holds as far as it goes: its halves are put back among the open ones."""
        bounded = Bounded.of(self.network, self.prop, part, self.deadline)
        self.boxes += 1
        self.unstable = max(self.unstable, bounded.bounds.unstable)
        verdicts: list[Verdict] = [Holds(tuple(Proof(number, ()) for number in bounded.proved))]
        halved: list[tuple[int, Bisection]] = []
        if bounded.open_disjuncts and not bounded.bounds.is_finite:
            return Undecided("the network's values overflow on this box: scale its weights or its inputs")
        if bounded.open_disjuncts and bounded.query_bytes > LARGEST:
            return Undecided(
                f"a query would take {bounded.query_bytes / 1e9:.0f} GB: fix some inputs, or shrink the box"
            )
        for number in bounded.open_disjuncts:
            if self.deadline.passed:
                return combine([*verdicts, OUT_OF_TIME])
            match self.loop(number, bounded.relational(self.prop, number)):
                case Bisection() as bisection:
                    halved.append((number, bisection))
                case Violated() as verdict:
                    return verdict
                case verdict:
                    verdicts.append(verdict)
        if halved:
            self.open += bounded.sub_parts(halved[0][1].halves, [number for number, _ in halved])
        return combine(verdicts)

    def start(self, abstracted: Relational) -> tuple[Shared, ...]:
        return self.settings.initial(abstracted, self.deadline)

    def without(self, abstracted: Relational, kept: tuple[Shared, ...], reason: str) -> Verdict | Bisection:
        """No answer and so no witness: halve the box if that is the strategy, else give up."""
        if self.settings.strategy is not bisect:
            return Undecided(reason)
        base = abstracted.base
        nowhere = np.concatenate([base.box.middle, np.zeros(len(base.relus))])
        finer = self.settings.strategy(Situation(abstracted, kept, nowhere, 0, self.random))
        return finer if isinstance(finer, Bisection) else Undecided(reason)

    def refine(self, abstracted: Relational, kept: tuple[Shared, ...], answer: Sat) -> Refinement:
        count = max(self.settings.per_round, len(kept) // 2)
        return self.settings.strategy(Situation(abstracted, kept, answer.z, count, self.random, self.deadline))
