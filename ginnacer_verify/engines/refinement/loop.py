"""verify(network, prop, ...) -> Verdict: abstract, ask, replay, refine, and round again; the loop and nothing else.

abstraction on a region -> query -> backend -> Unsat: proved
                                           -> Sat: replay -> counterexample, or spurious -> refine -> query
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.deadline import REACHED, Deadline
from ginnacer_verify.engines.parts import Bounded, Part, parts
from ginnacer_verify.engines.progress import Round
from ginnacer_verify.engines.refinement.abstracted import (
    Abstracted,
    Bisection,
    Method,
    Options,
    Refine,
    Region,
    Situation,
)
from ginnacer_verify.engines.refinement.methods import method_named, refinement_named
from ginnacer_verify.engines.refinement.relational import start as relational_start
from ginnacer_verify.engines.refinement.sharing import splits
from ginnacer_verify.engines.verdict import Holds, Proof, Statistics, Undecided, Verdict, Violated, combine
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Property
from ginnacer_verify.query.backend import Backend, get_backend
from ginnacer_verify.query.query import Answer, Query, Sat, Unknown, Unsat
from ginnacer_verify.replay.attack import around, attack, falsify
from ginnacer_verify.replay.judge import Counterexample, Judge, settle

GARBAGE = 1e-5
"""A solution that breaks its own query by more than this is no solution, whatever the backend says."""

MOST = 20
"""So many of the things that a witness exploited are told, the largest first."""
INWARDS = (1e-4, 1e-6)
"""How far inside of the unsafe set a counterexample is looked for, relatively, when all ReLUs are exact."""
LARGEST = 8 * 10**9
"""Bytes: a query that takes more is not made."""
OUT_OF_TIME = Undecided(REACHED, timeout=True)
OVERFLOW = Undecided("the network's values overflow on this box: scale its weights or its inputs")


def verify(
    network: Network,
    prop: Property,
    *,
    timeout: float = 60.0,
    backend: str | Backend = "highs",
    abstraction: str | Method = "relational",
    options: Options | None = None,
    initial: str = "relaxed",
    refine: str | Refine | None = None,
    per_round: int = 8,
    bounds: bool | None = None,
    learn: bool = True,
    seed: int = 0,
    restarts: int = 24,
    observe: Callable[[Round], None] | None = None,
    remaining: Sequence[Part] | None = None,
) -> Verdict:
    """Decide whether the network can reach the property's unsafe set.

    `Holds` is proved in real arithmetic on the network's weights; `Violated` carries an input that was replayed in
    the network's own precision; `Undecided` says why. The timeout is one deadline for everything. `restarts` is how
    often the falsifier starts per disjunct; 0 switches it off, and counterexamples come from the backend alone.
    `bounds` says whether disjuncts that linear bounds prove are not asked about; `learn`, whether a disjunct starts
    where the one before it on the same box ended. `remaining` are the parts that are still to be decided, if others
    are proved already."""
    if np.isnan(timeout):
        raise InputError("the timeout is not a number")
    if per_round < 1:
        raise InputError(f"{per_round} ReLUs per round refine nothing: give at least 1")
    deadline = Deadline.after(timeout)
    method = method_named(abstraction) if isinstance(abstraction, str) else abstraction
    if not (network.arithmetic.is_real or method.executed):
        raise InputError(f"the {method.name} abstraction knows real arithmetic only: use --abstraction relational")
    solver = get_backend(backend) if isinstance(backend, str) else backend
    settings = Settings(
        method,
        options or Options(initial=initial),
        refinement_named(method, refine),
        method.bounds if bounds is None else bounds,
        learn,
        per_round,
        restarts,
        deadline,
        observe,
    )
    judge = Judge(network, prop)
    run = _Run(judge, parts(prop) if remaining is None else remaining, solver, settings, np.random.default_rng(seed))
    verdict = run.verdict()
    if isinstance(verdict, Undecided):
        verdict = replace(verdict, reason=judge.why_undecided(verdict.reason))
    return replace(verdict, statistics=run.statistics())


@dataclass(frozen=True, eq=False)
class Settings:
    """What stays the same during a run."""

    method: Method
    options: Options
    refine: Refine
    bounds: bool
    learn: bool
    per_round: int
    restarts: int
    deadline: Deadline
    observe: Callable[[Round], None] | None


class _Run:
    """One call of `verify`: the parts that are open, and counters."""

    def __init__(
        self, judge: Judge, todo: Sequence[Part], backend: Backend, settings: Settings, random: np.random.Generator
    ) -> None:
        self.judge, self.backend, self.settings, self.random = judge, backend, settings, random
        self.network, self.prop, self.deadline = judge.network, judge.prop, settings.deadline
        self.open = list(todo)
        self.given_up: set[int] = set()
        self.rounds = self.boxes = self.unstable = self.kept = 0

    def statistics(self) -> Statistics:
        method = self.settings.method.name
        return Statistics(
            seconds=self.deadline.spent,
            engine=self.backend.name if method == "relational" else f"{method}, {self.backend.name}",
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
            verdicts.append(self._part(part))
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

    def _part(self, part: Part) -> Verdict:
        """One box: the loop for each of its disjuncts that bounds do not prove.

        A part that is halved holds as far as it goes: its halves are put back among the open ones."""
        self.boxes += 1
        bounded = self._bounded(part)
        verdicts: list[Verdict] = []
        numbers: Sequence[int] = part.disjuncts
        if bounded is not None:
            if (problem := self._problem(bounded)) is not None:
                return problem
            numbers = bounded.open_disjuncts
            verdicts.append(Holds(tuple(Proof(number, ()) for number in bounded.proved)))
        halved: list[tuple[int, Bisection]] = []
        self.learned: Abstracted | None = None
        for number in numbers:
            if self.deadline.passed:
                return combine([*verdicts, OUT_OF_TIME])
            region = Region(self.network, self.prop, number, part, bounded, self.random, self.deadline)
            match self._loop(region, self._start(region)):
                case Bisection() as bisection:
                    halved.append((number, bisection))
                case Violated() as verdict:
                    return verdict
                case verdict:
                    verdicts.append(verdict)
        if halved:
            boxes, left = halved[0][1].halves, tuple(number for number, _ in halved)
            self.open += bounded.sub_parts(boxes, left) if bounded else [Part(box, left) for box in boxes]
        return combine(verdicts)

    def _bounded(self, part: Part) -> Bounded | None:
        """Bounds for all the disjuncts of a box at once."""
        if not self.settings.bounds:
            return None
        bounded = Bounded.of(self.network, self.prop, part, self.deadline)
        self.unstable = max(self.unstable, bounded.bounds.unstable)
        return bounded

    def _problem(self, bounded: Bounded) -> Undecided | None:
        """Why there cannot be a query."""
        if bounded.open_disjuncts and not bounded.bounds.is_finite:
            return OVERFLOW
        if bounded.open_disjuncts and bounded.query_bytes > LARGEST:
            gigabytes = bounded.query_bytes / 1e9
            return Undecided(f"a query would take {gigabytes:.0f} GB: fix some inputs, or shrink the box")
        return None

    def _start(self, region: Region) -> Abstracted:
        """The abstraction to begin with; after another disjunct on the same box, what that one ended with."""
        fresh = self.settings.method.start(region, self.settings.options)
        resume = self.settings.method.resume
        if self.settings.learn and resume and self.learned is not None:
            return resume(self.learned, fresh)
        return fresh

    def _loop(self, region: Region, abstracted: Abstracted) -> Verdict | Bisection:
        """Ask, replay, refine: until there is an answer for one disjunct on one box."""
        number = region.number
        while True:
            query = abstracted.query
            if not query.base.is_finite:
                return OVERFLOW
            answer, seconds = self._ask(query)
            finer: Abstracted | Bisection | None = None
            found = self._replay(number, abstracted, answer) if isinstance(answer, Sat) else None
            if isinstance(answer, Sat) and found is None:
                finer = self._refined(abstracted, answer.z)
            self._tell(number, abstracted, query, answer, seconds, finer)
            match answer:
                case Unsat():
                    self.learned = abstracted
                    return Holds((Proof(number, query.kept),))
                case Unknown(reason, timeout):
                    return Undecided(reason, timeout) if timeout else self._without_witness(abstracted, reason)
                case Sat() if found is not None:
                    return Violated(found)
            if isinstance(finer, Bisection):
                return self._halved(abstracted, finer)
            if finer is None or finer is abstracted:
                return self._at_the_boundary(region)
            abstracted = finer

    def _refined(self, abstracted: Abstracted, z: Array) -> Abstracted | Bisection:
        count = max(self.settings.per_round, len(abstracted.query.kept) // 2)
        return self.settings.refine(Situation(abstracted, z, count, self.random, self.deadline))

    def _halved(self, abstracted: Abstracted, bisection: Bisection) -> Bisection | Undecided:
        """The halves, unless the box is too narrow to have any."""
        whole = abstracted.box
        if any((half.lower == whole.lower).all() and (half.upper == whole.upper).all() for half in bisection.halves):
            return Undecided("the abstraction cannot tell the network from the unsafe set on a box without halves")
        return bisection

    def _without_witness(self, abstracted: Abstracted, reason: str) -> Verdict | Bisection:
        """No answer and so no witness: halve the box if that is the way to refine, else give up."""
        if self.settings.refine is not self.settings.method.refinements.get("bisect"):
            return Undecided(reason)
        base = abstracted.query.base
        finer = self._refined(abstracted, np.concatenate([base.box.middle, np.zeros(len(base.relus))]))
        return self._halved(abstracted, finer) if isinstance(finer, Bisection) else Undecided(reason)

    def _at_the_boundary(self, region: Region) -> Verdict:
        """The network itself has a solution that is safe by a hair: look for one that is unsafe by more than that."""
        own = relational_start(region, Options(initial="exact"))
        for amount in INWARDS:
            query = Query(own.query.base.tightened(amount), own.query.kept)
            answer, seconds = self._ask(query)
            self._tell(region.number, own, query, answer, seconds)
            if isinstance(answer, Sat) and (found := self._replay(region.number, own, answer)):
                return Violated(found)
            if isinstance(answer, Unknown) and answer.timeout:
                return Undecided(answer.reason, timeout=True)
        return Undecided("the network comes nearer to the unsafe set than solvers can tell apart")

    def _ask(self, query: Query) -> tuple[Answer, float]:
        """The backend's answer, and the seconds that it took."""
        start = time.monotonic()
        answer = self.backend.solve(query, timeout=self.deadline.left)
        if isinstance(answer, Sat) and query.violation(answer.z) > GARBAGE + answer.room:
            answer = self._second_opinion(query)
        if not isinstance(answer, Sat | Unsat | Unknown):
            raise TypeError(f"{self.backend.name} answered {answer!r}")
        self.rounds += 1
        self.kept, self.unstable = max(self.kept, query.binaries), max(self.unstable, len(query.base.relus))
        return answer, time.monotonic() - start

    def _second_opinion(self, query: Query) -> Answer:
        """HiGHS's answer where the backend's solution violates its own query, as Marabou's sometimes does."""
        answer = get_backend("highs").solve(query, timeout=self.deadline.left)
        if isinstance(answer, Sat) and query.violation(answer.z) > GARBAGE:
            return Unknown(f"the solution of {self.backend.name} violates its own query; try another backend")
        return answer

    def _tell(
        self,
        number: int,
        abstracted: Abstracted,
        query: Query,
        answer: Answer,
        seconds: float,
        finer: Abstracted | Bisection | None = None,
    ) -> None:
        """Show the round to whoever observes."""
        if self.settings.observe is None:
            return
        layers, owner = range(len(self.network.layers) - 1), query.base.relus.layer
        kept = [int(owner[shared.members[0]]) for shared in query.kept]
        exploited = abstracted.exploited(answer.z)[:MOST] if isinstance(answer, Sat) and finer else []
        split = splits(abstracted.sharing, finer.sharing) if finer and not isinstance(finer, Bisection) else ()
        self.settings.observe(
            Round(
                number=self.rounds,
                disjunct=number,
                kept=tuple(kept.count(layer) for layer in layers),
                unstable=tuple(int((owner == layer).sum()) for layer in layers),
                answer=type(answer).__name__.lower(),
                seconds=seconds,
                deviation=float(query.deviation(answer.z).max(initial=0.0)) if isinstance(answer, Sat) else 0.0,
                bound=answer.bound if isinstance(answer, Sat) else float("nan"),
                box=query.base.box,
                open_boxes=len(self.open),
                left=self.deadline.left,
                sharing=abstracted.sharing,
                exploited=tuple(one for one in exploited if one.amount > 0),
                split=split,
                refine="" if finer is None else getattr(self.settings.refine, "__name__", "a function"),
            )
        )

    def _replay(self, number: int, abstracted: Abstracted, answer: Sat) -> Counterexample | None:
        """Judge the witness, and attack around it."""
        witness = abstracted.query.base.input_of(answer.z)[: self.network.inputs]  # some have further ones behind
        disjunct = self.prop.disjuncts[number]
        if not self.settings.restarts:
            judgement = self.judge(settle(witness, disjunct.witnesses, self.network.dtype))
            return judgement if isinstance(judgement, Counterexample) else None
        points = around(witness, abstracted.box, self.random)
        return attack(self.judge, disjunct, abstracted.box, points, self.deadline)
