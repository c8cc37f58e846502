"""Branch and bound by the chosen engine, which hands over to the loop what it cannot decide."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

import numpy as np

from ginnacer_verify.deadline import REACHED, Deadline
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.parts import Part
from ginnacer_verify.engines.problem import Problem
from ginnacer_verify.engines.run import Run
from ginnacer_verify.engines.verdict import Holds, Statistics, Undecided, Verdict, Violated
from ginnacer_verify.errors import InputError
from ginnacer_verify.replay.attack import falsify
from ginnacer_verify.replay.judge import Counterexample, Judge

FEW_DISJUNCTS = 16
"""The attack before halving boxes has a quarter of the time for so many disjuncts, and less for more: most of many are
proved at once, and the others are attacked where they come nearest to being unsafe."""
TURN = 0.25
"""Boxes that are not done after this share of the time are handed over to the loop, and back after as much of the rest:
where the network comes very near to the unsafe set halving goes on and on, and a few exact programs may do."""
FEW_BOXES = 64
"""So many boxes are handed over one by one; with more the loop starts with the property's own."""


class Finisher(Protocol):
    """The loop, for the parts that an engine left open; None stands for all."""

    def __call__(self, remaining: Sequence[Part] | None, budget: Budget, refine: str | None = None) -> Verdict: ...


def attacked(engine: str, judge: Judge, budget: Budget) -> Violated | None:
    """A search for a counterexample, before anything is proved; none without restarts."""
    if not budget.falsify:
        return None
    random, disjuncts, deadline = np.random.default_rng(budget.seed), judge.prop.disjuncts, budget.deadline
    share = min(1.0, FEW_DISJUNCTS / max(1, len(disjuncts))) / 4 if engine == "boxes" else 0.25
    start = deadline.within(deadline.left * share)
    found = falsify(judge, disjuncts, random, start, restarts=budget.restarts)
    return (
        Violated(found, Statistics(seconds=deadline.spent, engine=engine, total=judge.graph.relus)) if found else None
    )


def _decided(engine: str, judge: Judge, run: Run, deadline: Deadline) -> Verdict:
    """What branch and bound says when it is over, or its time is."""
    outcome, progress, disjuncts = run.run(), run.progress(), len(judge.prop.disjuncts)
    statistics = Statistics(
        seconds=deadline.spent,
        engine=engine,
        boxes=progress.boxes,
        total=judge.graph.relus,
        unstable=progress.unstable,
        parts=disjuncts,
        proved=disjuncts - (0 if outcome is None else progress.open_disjuncts),
    )
    match outcome:
        case None:
            return Holds((), statistics)
        case Counterexample():
            return Violated(outcome, statistics)
        case str():
            return Undecided(judge.why_undecided(outcome), timeout=deadline.passed, statistics=statistics)
    raise TypeError(f"the native engine answered {outcome!r}")


def searched(problem: Problem, engine: str, judge: Judge, budget: Budget, loop: Finisher) -> Verdict:
    """Branch and bound; what it cannot decide goes to the loop, as far as the loop takes it."""
    on_graph, deadline = problem.on_graph(engine), budget.deadline
    turns = engine == "boxes" and not on_graph
    run = run_of(engine, judge, on_graph)(judge, budget.within(TURN * deadline.left) if turns else budget)
    verdict = _decided(engine, judge, run, deadline)
    if not isinstance(verdict, Undecided) or verdict.timeout:
        return verdict
    if turns and judge.no_number not in verdict.reason:
        return _in_turns(judge, run, budget, loop, over=verdict.reason == judge.why_undecided(REACHED))
    if engine in {"phases", "shallow"} and not on_graph:
        return _finished(engine, deadline, loop(list(run.remaining), _quiet(budget)))
    return verdict


def _in_turns(judge: Judge, run: Run, budget: Budget, loop: Finisher, *, over: bool) -> Verdict:
    """The boxes that are left go to the loop: for good, or where only their turn is over, for a turn and then back."""
    left, deadline = list(islice(iter(run.remaining), FEW_BOXES + 1)), budget.deadline
    turn = budget.within(TURN * deadline.left) if over else budget
    verdict = loop(left if len(left) <= FEW_BOXES else None, _quiet(turn), refine="bisect")
    if not (over and isinstance(verdict, Undecided)):
        return _finished("boxes", deadline, verdict)
    run.budget = budget
    return _decided("boxes", judge, run, deadline)


def _quiet(budget: Budget) -> Budget:
    """Without the attack, which has been made."""
    return replace(budget, restarts=0)


def _finished(engine: str, deadline: Deadline, verdict: Verdict) -> Verdict:
    """What the loop made of that which an engine left open, with both of their names."""
    names = f"{engine}, {verdict.statistics.engine}"
    return replace(verdict, statistics=replace(verdict.statistics, seconds=deadline.spent, engine=names))


def run_of(engine: str, judge: Judge, on_graph: bool) -> type[Run]:
    """Imported late: not needed for what an attack decides."""
    match engine:
        case "boxes" if on_graph:
            from ginnacer_verify.engines.boxes.taped import graph_run

            return graph_run(judge)
        case "boxes":
            from ginnacer_verify.engines.boxes.run import NativeRun

            return NativeRun
        case "phases" if on_graph:
            from ginnacer_verify.engines.graphs.run import GraphPhaseRun

            return GraphPhaseRun
        case "phases":
            from ginnacer_verify.engines.phases.run import PhaseRun

            return PhaseRun
        case "shallow":
            from ginnacer_verify.engines.shallow.run import ShallowRun

            return ShallowRun
        case "regions":
            from ginnacer_verify.engines.regions import RegionRun

            return RegionRun
    raise InputError(f"there is no native engine {engine!r}")
