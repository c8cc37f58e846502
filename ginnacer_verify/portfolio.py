"""verify(network, prop, ...) -> Verdict: which engine decides a property, and the one way to call either.

Rules, the first that fits: few varying inputs and no further input constraints go to the native engine; everything
else goes to the abstraction-refinement loop. The rule that fired is part of the verdict's statistics.
"""

import os
from dataclasses import dataclass, replace

import numpy as np

from ginnacer_verify import cegar
from ginnacer_verify.backend import Backend
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.errors import InputError
from ginnacer_verify.falsify import falsify
from ginnacer_verify.network import Network
from ginnacer_verify.progress import Observer
from ginnacer_verify.properties.property import Property
from ginnacer_verify.replay import Counterexample, Judge
from ginnacer_verify.verdict import Holds, Statistics, Undecided, Verdict, Violated

ENGINES = ("auto", "native", "cegar")
RESTARTS = 24
"""How often the falsifier starts per disjunct."""
FEW_INPUTS = 12
"""Halving boxes pays up to about so many varying inputs."""
MANY_RELUS = 2000
"""The native engine keeps two square matrices of this size per thread."""


@dataclass(frozen=True)
class Choice:
    """An engine and why it was chosen."""

    engine: str
    rule: str


def choose(network: Network, prop: Property, engine: str = "auto") -> Choice:
    """The engine for a property."""
    varying = max((len(disjunct.box.varying) for disjunct in prop.disjuncts), default=0)
    constrained = any(len(disjunct.inputs) for disjunct in prop.disjuncts)
    match engine:
        case "native" if constrained:
            raise InputError("the native engine does not know linear input constraints: use --engine cegar")
        case "native" | "cegar":
            return Choice(engine, "as asked for")
        case "auto" if varying <= FEW_INPUTS and not constrained and network.relus <= MANY_RELUS:
            return Choice("native", f"{varying} varying inputs, at most {FEW_INPUTS}")
        case "auto":
            return Choice("cegar", "linear input constraints" if constrained else f"{varying} varying inputs")
        case _:
            raise InputError(f"{engine!r} is none of {', '.join(ENGINES)}")


def verify(
    network: Network,
    prop: Property,
    *,
    timeout: float = 60.0,
    engine: str = "auto",
    backend: str | Backend = "highs",
    initial: str = "relaxed",
    refine: str = "split",
    per_round: int = 8,
    seed: int = 0,
    restarts: int = RESTARTS,
    threads: int | None = None,
    observe: Observer | None = None,
) -> Verdict:
    """Decide whether the network can reach the property's unsafe set.

    `Holds` is proved in real arithmetic on the network's weights; `Violated` carries an input that was replayed in
    the network's own precision; `Undecided` says why. The timeout is one deadline for everything. `restarts` is how
    often the falsifier starts per disjunct; 0 switches it off. `backend`, `initial`, `refine` and `per_round` are for
    the loop, `threads` (default: all cores) is for the native engine."""
    choice = choose(network, prop, engine)
    if choice.engine == "native":
        verdict = _native(network, prop, timeout, threads or os.cpu_count() or 1, seed, restarts, observe)
    else:
        verdict = cegar.verify(
            network,
            prop,
            timeout=timeout,
            backend=backend,
            initial=initial,
            refine=refine,
            per_round=per_round,
            seed=seed,
            restarts=restarts,
            observe=observe,
        )
    return replace(verdict, statistics=replace(verdict.statistics, rule=choice.rule))


def _native(
    network: Network,
    prop: Property,
    timeout: float,
    threads: int,
    seed: int,
    restarts: int,
    observe: Observer | None,
) -> Verdict:
    """Attack, then branch and bound."""
    deadline = Deadline.after(timeout)
    judge = Judge(network, prop)
    if restarts:
        random = np.random.default_rng(seed)
        if found := falsify(judge, prop.disjuncts, random, deadline.within(deadline.left / 4), restarts=restarts):
            return Violated(found, Statistics(seconds=deadline.spent, engine="native", total=network.relus))
    from ginnacer_verify.engine.native import NativeRun  # imports numba: not needed for what an attack decides

    run = NativeRun(judge, deadline, threads=threads, seed=seed, falsify=restarts > 0, observe=observe)
    outcome, progress = run.run(), run.progress()
    statistics = Statistics(
        seconds=deadline.spent,
        engine="native",
        boxes=progress.boxes,
        total=network.relus,
        unstable=progress.unstable,
    )
    match outcome:
        case None:
            return Holds((), statistics)
        case Counterexample():
            return Violated(outcome, statistics)
        case str():
            return Undecided(outcome, timeout=deadline.passed, statistics=statistics)
    raise TypeError(f"the native engine answered {outcome!r}")
