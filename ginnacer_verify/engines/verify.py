"""verify(network, prop, ...) -> Verdict: the one way to have a property decided.

Read the networks and the property, choose an engine, attack, search, and write down the proof where one is asked for.
The rule by which the engine was chosen is part of the verdict's statistics.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.asked import Asked
from ginnacer_verify.engines.budget import RESTARTS, Budget, cores
from ginnacer_verify.engines.choice import Choice, choose
from ginnacer_verify.engines.parts import Part, parts
from ginnacer_verify.engines.problem import ARITHMETICS, Problem
from ginnacer_verify.engines.progress import Moment, Observer, Progress
from ginnacer_verify.engines.record import Record
from ginnacer_verify.engines.refinement.abstracted import Options, Refine
from ginnacer_verify.engines.search import attacked, searched
from ginnacer_verify.engines.slopes import decide, question_of
from ginnacer_verify.engines.verdict import Statistics, Undecided, Verdict
from ginnacer_verify.errors import InputError, OutOfTime
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.loading.model import Model
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.query.backend import Backend


def verify(
    model: Model | Mapping[str, Model],
    prop: "Property | str | Path | bytes",
    *,
    timeout: float = 60.0,
    engine: str = "auto",
    backend: str | Backend | None = None,
    abstraction: str | Abstraction | None = None,
    options: Options | None = None,
    initial: str | None = None,
    refine: str | Refine | None = None,
    per_round: int | None = None,
    seed: int = 0,
    restarts: int = RESTARTS,
    threads: int | None = None,
    observe: Observer | None = None,
    arithmetic: str = "real",
    certificate: str | Path | None = None,
    record: Record | None = None,
) -> Verdict:
    """Decide whether a network can reach what a property calls unsafe.

    `Holds` is a proof for all real inputs; `Violated` carries an input that was replayed in the network's own
    precision; `Undecided` says why, and how far it came.

    Args:
        model: A file, an ONNX model, its bytes, a torch module or a network that was read. A property about several
            networks takes them by name, `{"f": f, "g": g}`.
        prop: A property, or a VNN-LIB file.
        timeout: Seconds for everything, reading included.
        engine: Who decides; "auto" chooses by the size of the network and of the property.
        backend: The solver of the loop, by name or as an object. This and the next five choose the engine "cegar".
        abstraction: What the solver is asked about: "relational" (default), "paper", "linear", "elboher", "prabhakar",
            or an abstraction of the network to start from.
        options: How an abstraction begins: centroid, strategy, layers, inputs, clip.
        initial: Which ReLUs the first query keeps: "relaxed" (none, default), "ginnacer", "exact" or "needed".
        refine: How a spurious counterexample refines the abstraction: "split" (default), ..., or a function.
        per_round: How many ReLUs to refine at once (8).
        seed: Of everything random.
        restarts: How often the search for counterexamples starts per part of the property; 0 switches it off.
        threads: Threads to use (default: all cores).
        observe: Called with each step of the run, at least once.
        arithmetic: What a proof is about: "real" numbers, or "float32" for the network as it is executed in its own
            precision, with sums in any order.
        certificate: A file for a proof that ginnacer-check accepts; the verdict's `certificate` says whether there is
            one. A property that did not come from a file is written beside it.
        record: Is told what a certificate needs.
    """
    _check_numbers(timeout, per_round, seed, restarts, threads)
    asked = Asked(backend, abstraction, options, initial, refine, per_round)
    engine = asked.engine(engine)
    if arithmetic not in ARITHMETICS:
        raise InputError(f"arithmetic={arithmetic!r} is unknown; choose one of {', '.join(ARITHMETICS)}")
    if certificate is not None and arithmetic != "real":
        raise InputError("certificates are proofs in real arithmetic: leave out certificate or arithmetic")
    deadline, source = Deadline.after(timeout), prop
    try:
        prop = prop if isinstance(prop, Property) else read_vnnlib(prop, deadline=deadline)
        record = Record(prop) if certificate is not None and record is None else record
        foldable = record is None and engine != "cegar"
        problem = Problem.of(model, prop, deadline, engine=engine, arithmetic=arithmetic, foldable=foldable)
    except OutOfTime as late:
        known = len(prop.disjuncts) if isinstance(prop, Property) else 0
        return _with_share(
            Undecided(str(late), timeout=True, statistics=Statistics(seconds=deadline.spent, parts=known))
        )
    choice = _choice(problem, engine)
    parts(problem.prop)  # refuses boxes without ends
    told = _Told(observe, choice.rule)
    budget = Budget(deadline, threads or cores(), seed, restarts, told if observe else None, record)
    verdict = _decided(problem, choice, asked, budget)
    told.last(verdict, deadline)
    verdict = replace(verdict, statistics=replace(verdict.statistics, rule=choice.rule))
    verdict = _with_share(verdict) if isinstance(verdict, Undecided) else verdict
    if certificate is None:
        return verdict
    from ginnacer_verify.certificate.certify import certify_of

    proof = certify_of(problem.whole, source, verdict, Path(certificate), deadline, record)
    return replace(verdict, certificate=proof)


def _choice(problem: Problem, engine: str) -> Choice:
    """The engine, and the rule that chose it."""
    several = problem.whole.originals and problem.whole.arithmetic.is_real
    question = question_of(problem.prop) if engine == "auto" and several else None
    if question and all(name == "Relu" for name, _ in graph_of(problem.whole).functions):
        return Choice("slopes", "one network twice, monotone in one input?")
    return choose(problem.network, problem.prop, engine)


def _decided(problem: Problem, choice: Choice, asked: Asked, budget: Budget) -> Verdict:
    """Attack, search, and hand over to the loop what the search cannot decide."""

    def loop(remaining: Sequence[Part] | None, budget: Budget, refine: str | None = None) -> Verdict:
        return asked.run(problem.chain, problem.prop, choice, budget, remaining, refine)

    if choice.engine == "cegar":
        return loop(None, budget)
    if choice.engine == "slopes":
        question = question_of(problem.prop)
        assert question is not None
        return decide(problem.whole.originals[0].network, question, problem.prop, budget.deadline, seed=budget.seed)
    judge = problem.judge(choice.engine)
    found = attacked(choice.engine, judge, budget)
    return searched(problem, choice.engine, judge, budget, loop) if found is None else found


class _Told:
    """Tells an observer every moment with the rule that chose the engine, and at least one of every run."""

    def __init__(self, observe: Observer | None, rule: str) -> None:
        self.observe, self.rule, self.anything = observe, rule, False

    def __call__(self, moment: Moment) -> None:
        assert self.observe is not None
        self.anything = True
        self.observe(replace(moment, rule=self.rule))

    def last(self, verdict: Verdict, deadline: Deadline) -> None:
        """What was decided before the engine's first step."""
        if self.observe and not self.anything:
            numbers = verdict.statistics
            still = numbers.parts - numbers.proved if isinstance(verdict, Undecided) else 0
            self(Progress(numbers.engine, numbers.boxes, still, numbers.unstable, still, deadline.left))


def _with_share(verdict: Undecided) -> Undecided:
    """What ran out of time, with how much of it was proved until then."""
    numbers = verdict.statistics
    if not verdict.timeout or numbers.parts < 2:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}; {numbers.proved} of {numbers.parts} parts proved")


def _check_numbers(timeout: float, per_round: int | None, seed: int, restarts: int, threads: int | None) -> None:
    """Refuse what the command line refuses."""
    if not (isinstance(timeout, int | float | np.number) and math.isfinite(timeout) and timeout >= 0):
        raise InputError(f"timeout must be a number of seconds, 0 or more, not {timeout!r}")
    least = {"threads": (threads, 1), "per_round": (per_round, 1), "seed": (seed, 0), "restarts": (restarts, 0)}
    for name, (value, smallest) in least.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is not None and not (whole and value >= smallest):
            raise InputError(f"{name} must be a whole number, {smallest} or more, not {value!r}")
