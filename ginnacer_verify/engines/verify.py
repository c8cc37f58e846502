"""verify(network, prop, ...) -> Verdict: the one way to have a property decided.

Read the networks and the property, choose an engine, attack, search, and write down the proof where one is asked for.
The rule by which the engine was chosen is part of the verdict's statistics.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.choice import ENGINES, Choice, choose, form_for, has_kernel
from ginnacer_verify.engines.order import without_last
from ginnacer_verify.engines.parts import Part, parts
from ginnacer_verify.engines.progress import Moment, Observer, Progress
from ginnacer_verify.engines.record import Record
from ginnacer_verify.engines.refinement import loop as cegar
from ginnacer_verify.engines.refinement.abstracted import Options, Refine
from ginnacer_verify.engines.refinement.methods import method_named, refinement_named
from ginnacer_verify.engines.refinement.relational import INITIAL
from ginnacer_verify.engines.search import attacked, searched
from ginnacer_verify.engines.slopes import decide, question_of
from ginnacer_verify.engines.verdict import Statistics, Undecided, Verdict
from ginnacer_verify.errors import InputError, OutOfTime
from ginnacer_verify.graph.chain import as_chain, graph_of
from ginnacer_verify.graph.folds import folded
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading.model import Model, as_network, shapes_for
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.query.backend import Backend, backend_class
from ginnacer_verify.replay.joint import subject
from ginnacer_verify.replay.judge import Judge

ARITHMETICS = ("real", "float32")
"""What a proof is about: real numbers, or the network as it is executed in its own precision."""
RESTARTS = 24
"""How often the falsifier starts per disjunct."""


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
    asked = {"backend": backend, "abstraction": abstraction, "options": options, "initial": initial}
    engine = _engine(engine, {**asked, "refine": refine, "per_round": per_round})
    _check_names(backend, abstraction, initial, refine)
    deadline = Deadline.after(timeout)
    if arithmetic not in ARITHMETICS:
        raise InputError(f"arithmetic={arithmetic!r} is unknown; choose one of {', '.join(ARITHMETICS)}")
    if certificate is not None and arithmetic != "real":
        raise InputError("certificates are proofs in real arithmetic: leave out certificate or arithmetic")
    source = prop
    try:
        prop = prop if isinstance(prop, Property) else read_vnnlib(prop, deadline=deadline)
        whole = subject(_networks(model, prop, deadline), prop)
    except OutOfTime as problem:
        return Undecided(str(problem), timeout=True, statistics=Statistics(seconds=deadline.spent))
    if certificate is not None and record is None:
        record = Record(prop)
    if arithmetic != "real":
        if whole.originals:
            raise InputError("properties with several networks or with products are decided in real arithmetic only")
        if any(disjunct.ball is not None for disjunct in prop.disjuncts):
            raise InputError("balls are decided in real arithmetic only")
        whole, prop = whole.executed(), prop.as_seen_in(whole.dtype)
    elif isinstance(whole, Graph) and not whole.originals:
        whole = without_last(whole, prop)
    try:
        given = folded(whole) if isinstance(whole, Graph) and record is None and engine != "cegar" else whole
        network = form_for(given, prop, engine, deadline)
    except OutOfTime as problem:
        return Undecided(str(problem), timeout=True, statistics=Statistics(seconds=deadline.spent))
    question = question_of(prop) if engine == "auto" and whole.originals else None
    if question and all(name == "Relu" for name, _ in graph_of(whole).functions):
        choice = Choice("slopes", "one network twice, monotone in one input?")
    else:
        choice = choose(network, prop, engine)
    parts(prop)  # refuses boxes without ends
    threads = threads or os.cpu_count() or 1
    seen: list[Moment] = []

    def told(moment: Moment) -> None:
        assert observe is not None
        seen[:] = [moment]
        observe(replace(moment, rule=choice.rule))

    tell = told if observe else None

    def loop(
        remaining: Sequence[Part] | None = None,
        restarts: int = restarts,
        until: Deadline = deadline,
        refine: str | Refine | None = refine,
    ) -> Verdict:
        return cegar.verify(
            as_chain(network),
            prop,
            timeout=until.left,
            backend=choice.backend if backend is None else backend,
            abstraction=_method(abstraction),
            options=_options(options, abstraction, initial or choice.initial),
            refine=refine,
            per_round=8 if per_round is None else per_round,
            seed=seed,
            restarts=restarts,
            observe=tell,
            remaining=remaining,
        )

    if choice.engine == "cegar":
        verdict = loop()
    elif choice.engine == "slopes" and question:
        verdict = decide(whole.originals[0].network, question, prop, deadline, seed=seed)
    else:
        on_graph = choice.engine == "regions" or (choice.engine == "boxes" and not has_kernel(network, prop))
        on_graph = on_graph or (choice.engine == "phases" and isinstance(network, Graph))
        judge = Judge(given if on_graph else network, prop)
        if on_graph and judge.graph.arithmetic != network.arithmetic:
            raise InputError(
                "layers that were multiplied out are not what is executed: give the network as it was read"
            )
        found = attacked(choice.engine, judge, deadline, seed, restarts)
        settings = {"threads": threads, "seed": seed, "falsify": restarts > 0, "observe": tell, "record": record}
        verdict = searched(choice.engine, judge, deadline, loop, settings, on_graph) if found is None else found
    if tell and not seen:  # decided before the engine's first step
        numbers, still = verdict.statistics, len(prop.disjuncts) if isinstance(verdict, Undecided) else 0
        tell(Progress(numbers.engine, numbers.boxes, still, numbers.unstable, still, deadline.left))
    verdict = replace(verdict, statistics=replace(verdict.statistics, rule=choice.rule))
    verdict = _with_share(verdict) if isinstance(verdict, Undecided) else verdict
    if certificate is None:
        return verdict
    from ginnacer_verify.certificate.certify import certify_of

    return replace(verdict, certificate=certify_of(whole, source, verdict, Path(certificate), deadline, record))


def _with_share(verdict: Undecided) -> Undecided:
    """What ran out of time, with how much of it was proved until then."""
    numbers = verdict.statistics
    if not verdict.timeout or numbers.parts < 2:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}; {numbers.proved} of {numbers.parts} parts proved")


def _networks(
    model: Model | Mapping[str, Model], prop: Property, deadline: Deadline
) -> Network | Graph | Mapping[str, Network | Graph]:
    shapes = shapes_for(prop.x.shape)
    if isinstance(model, Mapping):
        return {name: as_network(one, shapes, deadline) for name, one in model.items()}
    return as_network(model, shapes, deadline)


def _check_numbers(timeout: float, per_round: int | None, seed: int, restarts: int, threads: int | None) -> None:
    """Refuse what the command line refuses."""
    if not (isinstance(timeout, int | float | np.number) and math.isfinite(timeout) and timeout >= 0):
        raise InputError(f"timeout must be a number of seconds, 0 or more, not {timeout!r}")
    least = {"threads": (threads, 1), "per_round": (per_round, 1), "seed": (seed, 0), "restarts": (restarts, 0)}
    for name, (value, smallest) in least.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is not None and not (whole and value >= smallest):
            raise InputError(f"{name} must be a whole number, {smallest} or more, not {value!r}")


def _method(abstraction: str | Abstraction | None) -> str:
    """The name of the abstraction; one that is given as a value is the paper's."""
    if abstraction is None:
        return "relational"
    return "paper" if isinstance(abstraction, Abstraction) else abstraction


def _options(options: Options | None, abstraction: str | Abstraction | None, initial: str) -> Options:
    found = replace(options or Options(), initial=initial)
    return replace(found, saved=abstraction) if isinstance(abstraction, Abstraction) else found


def _check_names(
    backend: str | Backend | None,
    abstraction: str | Abstraction | None,
    initial: str | None,
    refine: str | Refine | None,
) -> None:
    if isinstance(backend, str):
        backend_class(backend)  # refuses names that there are not
    elif backend is not None and not isinstance(backend, Backend):
        raise InputError(f"backend must be a name or a Backend, not {type(backend).__name__}")
    if initial is not None and initial not in INITIAL:
        raise InputError(f"initial={initial!r} is unknown; choose one of {', '.join(INITIAL)}")
    refinement_named(method_named(_method(abstraction)), refine)  # refuses what does not fit
    if initial is not None and _method(abstraction) != "relational":
        raise InputError(f"initial={initial!r} is for the relational abstraction, not for {_method(abstraction)}")


def _engine(engine: str, loop: dict[str, object]) -> str:
    """The engine, which is the loop where only options of the loop say so; phases have the loop as their finisher."""
    given = [name for name, value in loop.items() if value is not None]
    if not given or engine not in ENGINES or engine in {"cegar", "phases", "shallow"}:
        return engine
    if engine == "auto":
        return "cegar"
    raise InputError(f"{given[0]} is for the loop, which the engine {engine} does not use: choose the engine cegar")
