"""verify(network, prop, ...) -> Verdict: which engine decides a property, and the one way to call any of them.

Rules, the first that fits: linear input constraints on chains go to the abstraction-refinement loop; few varying inputs
to halving boxes, compiled for chains of moderate size and on the graph for everything else; few ReLUs to the loop with
all of them kept, which is one exact program; one hidden layer to an engine of its own, with one exact program as the
finisher; networks whose matrices fit into memory to the native engine that decides phases, with the loop as the
finisher; every graph that is no chain, or whose convolutions are better left as they are, to the same on graphs; linear
input constraints on those, and everything where the native engines were not built, to branch and bound on the graph.
The rule that fired is part of the verdict's statistics.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ginnacer_verify import native
from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.bounds.substitution import cost_of
from ginnacer_verify.deadline import REACHED, Deadline
from ginnacer_verify.engines.boxes.problem import is_plain
from ginnacer_verify.engines.order import without_last
from ginnacer_verify.engines.parts import Part, parts
from ginnacer_verify.engines.progress import Moment, Observer, Progress
from ginnacer_verify.engines.record import Record
from ginnacer_verify.engines.refinement import loop as cegar
from ginnacer_verify.engines.refinement.abstracted import Options, Refine
from ginnacer_verify.engines.refinement.methods import method_named, refinement_named
from ginnacer_verify.engines.refinement.relational import INITIAL
from ginnacer_verify.engines.slopes import decide, question_of
from ginnacer_verify.engines.verdict import Holds, Statistics, Undecided, Verdict, Violated
from ginnacer_verify.errors import InputError, NativeUnavailable, OutOfTime, UnsupportedOperator
from ginnacer_verify.graph.chain import as_chain, graph_of
from ginnacer_verify.graph.graph import Affine, Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading.model import Model, as_network, shapes_for
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.query.backend import Backend, backend_class
from ginnacer_verify.replay.attack import falsify
from ginnacer_verify.replay.joint import subject
from ginnacer_verify.replay.judge import Counterexample, Judge

if TYPE_CHECKING:
    from ginnacer_verify.engines.boxes.graph import GraphRun
    from ginnacer_verify.engines.boxes.run import NativeRun
    from ginnacer_verify.engines.graphs.run import GraphPhaseRun
    from ginnacer_verify.engines.phases.run import PhaseRun
    from ginnacer_verify.engines.regions import RegionRun
    from ginnacer_verify.engines.shallow.run import ShallowRun

    Run: TypeAlias = NativeRun | GraphRun | PhaseRun | GraphPhaseRun | ShallowRun | RegionRun

ARITHMETICS = ("real", "float32")
"""What a proof is about: real numbers, or the network as it is executed in its own precision."""
ENGINES = ("auto", "native", "boxes", "phases", "shallow", "regions", "cegar")
"""`native` is boxes or phases, whichever fits; `auto` may choose any."""
RESTARTS = 24
"""How often the falsifier starts per disjunct."""
FEW_INPUTS = 12
"""Halving boxes pays up to about so many varying inputs."""
MANY_RELUS = 2000
"""The compiled engine for boxes has room for square matrices of this size, and touches what is unstable of them."""
FEW_DISJUNCTS = 16
"""The attack before halving boxes has a quarter of the time for so many disjuncts, and less for more: most of many are
proved at once, and the others are attacked where they come nearest to being unsafe."""
TURN = 0.25
"""Boxes that are not done after this share of the time are handed over to the loop, and back after as much of the rest:
where the network comes very near to the unsafe set halving goes on and on, and a few exact programs may do."""
FEW_BOXES = 64
"""So many boxes are handed over one by one; with more the loop starts with the property's own."""
FEW_RELUS = 24
"""A tree over so few phases is one exact program for an LP solver."""
MANY_WEIGHTS = 10_000_000
"""The engine for phases keeps all matrices dense, several times."""

MANY_MAPPED = 40_000_000
"""Graphs whose maps, multiplied out, would have more entries than this are not looked at as chains."""
MANY_TIMES = 3
"""So many times as many entries as multiplications are not worth being multiplied out."""


@dataclass(frozen=True)
class Choice:
    """An engine, why it was chosen, and which ReLUs the loop starts with, with which solver, if it is the loop or if
    the loop is its finisher."""

    engine: str
    rule: str
    initial: str = "relaxed"
    backend: str = "highs"


def choose(network: Network | Graph, prop: Property, engine: str = "auto") -> Choice:
    """The engine for a property."""
    if engine not in ENGINES:
        raise InputError(f"{engine!r} is none of {', '.join(ENGINES)}")
    varying = max((len(disjunct.box.varying) for disjunct in prop.disjuncts), default=0)
    if any(disjunct.ball is not None for disjunct in prop.disjuncts):
        if engine not in {"auto", "regions"}:
            raise InputError(f"the engine {engine} takes boxes only, not balls: use --engine regions")
        return Choice("regions", "inputs in a ball")
    if isinstance(network, Graph):
        if engine not in {"auto", "boxes", "phases", "regions"}:
            raise InputError(f"the engine {engine} takes chains of ReLU layers only: use --engine phases or regions")
        if engine == "boxes" or (engine == "auto" and varying <= FEW_INPUTS):
            return Choice("boxes", f"a graph, {varying} varying inputs")
        if any(len(disjunct.inputs) for disjunct in prop.disjuncts):
            if engine == "phases":
                raise InputError("the native engines do not know linear input constraints: use --engine regions")
            return Choice("regions", "linear input constraints")
        return Choice("regions" if engine == "regions" else "phases", f"a graph, {varying} varying inputs")
    weights = sum(layer.inputs * layer.outputs for layer in network.layers)
    if any(len(disjunct.inputs) for disjunct in prop.disjuncts):
        if engine in {"native", "phases", "shallow"}:
            raise InputError("the native engines do not know linear input constraints: use --engine regions or cegar")
        return Choice("cegar", "linear input constraints") if engine == "auto" else Choice(engine, "as asked for")
    if engine == "shallow" and not network.arithmetic.is_real:
        raise InputError(f"the engine {engine} knows real arithmetic only: use --engine phases, regions or cegar")
    if engine in {"boxes", "phases", "native"} and not native.available():
        raise NativeUnavailable(native.MISSING)
    if engine == "shallow":
        if len(network.layers) != 2:
            raise InputError("the engine shallow is for one hidden layer: use --engine phases")
        return Choice("shallow", "as asked for", "needed", "milp")
    if engine in {"boxes", "phases", "regions", "cegar"}:
        return Choice(engine, "as asked for")
    if varying <= FEW_INPUTS and native.available():
        return Choice("boxes", f"{varying} varying inputs, at most {FEW_INPUTS}")
    if engine == "auto" and network.relus <= FEW_RELUS:
        return Choice("cegar", f"{network.relus} ReLUs, at most {FEW_RELUS}: one exact program", "exact")
    if engine == "auto" and network.arithmetic.is_real and len(network.layers) == 2 and weights <= MANY_WEIGHTS:
        return Choice("shallow", f"one hidden layer, {varying} varying inputs", "needed", "milp")
    if not native.available():
        return Choice("regions", "the native engines are not installed")
    if engine == "native" or weights <= MANY_WEIGHTS:
        return Choice("phases", f"{varying} varying inputs")
    return Choice("regions", f"{weights} weights, more than {MANY_WEIGHTS}")


def _form(network: Network | Graph, prop: Property, engine: str, deadline: Deadline) -> Network | Graph:
    """A chain where an engine for chains was asked for, or where the graph is one of moderate size, or nearly so.

    With many varying inputs convolutions stay what they are where their matrices would be much larger."""
    if isinstance(network, Network) or engine == "regions":
        return network
    if engine not in {"auto", "boxes", "phases"}:
        return as_chain(network, deadline)
    few = engine == "boxes" or all(len(disjunct.box.varying) <= FEW_INPUTS for disjunct in prop.disjuncts)
    if few and network.neurons > MANY_RELUS:
        return network
    maps = [one for node in network.nodes if isinstance(node, Affine) for one in node.maps]
    most = MANY_WEIGHTS if few else min(MANY_MAPPED, MANY_TIMES * sum(map(cost_of, maps)))
    if sum(float(one.inputs) * one.outputs for one in maps) > most:
        return network
    try:
        chain = as_chain(network, deadline)
    except UnsupportedOperator:
        return network
    return chain if chain.relus <= 2 * network.neurons else network


def _has_kernel(network: Network | Graph, prop: Property) -> bool:
    """Whether the compiled engine for boxes takes it: a chain of moderate size, without linear input constraints."""
    if isinstance(network, Graph) or network.relus > MANY_RELUS or not is_plain(network):
        return False
    return not any(len(disjunct.inputs) for disjunct in prop.disjuncts)


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
    """Decide whether the network can reach the property's unsafe set.

    The model is a network, a file, an ONNX model or its bytes, or a torch module; the property is one, or a file.
    A property about several networks takes them by name, `{"f": f, "g": g}`. `Holds` is proved in real arithmetic on
    the network's weights; with the arithmetic "float32" for the network as it is executed in its own precision, in
    whatever order sums are taken. `Violated` carries an input that was replayed in the network's own precision;
    `Undecided` says why. The timeout is one deadline for everything. `restarts` is how often the falsifier starts per
    disjunct; 0 switches it off. `backend` ("highs"), `abstraction` ("relational", or one of the network to start from),
    `options` (how it begins: centroid, strategy, ...), `initial` ("relaxed"), `refine` ("split", or a function) and
    `per_round` (8) are for the loop, and any of them chooses it unless an engine is named; `threads` (default: all
    cores) is for the native engine. `observe` sees at least one moment of every run.

    `certificate` is a file for a proof that ginnacer-check accepts; the verdict's `certificate` says whether there is
    one. A property that did not come from a file is written beside it. `record` is told what a certificate needs."""
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
        given, network = whole, _form(whole, prop, engine, deadline)
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
        on_graph = choice.engine == "regions" or (choice.engine == "boxes" and not _has_kernel(network, prop))
        on_graph = on_graph or (choice.engine == "phases" and isinstance(network, Graph))
        judge = Judge(given if on_graph else network, prop)
        if on_graph and judge.graph.arithmetic != network.arithmetic:
            raise InputError(
                "layers that were multiplied out are not what is executed: give the network as it was read"
            )
        found = _attacked(choice.engine, judge, deadline, seed, restarts)
        settings = {"threads": threads, "seed": seed, "falsify": restarts > 0, "observe": tell, "record": record}
        verdict = _searched(choice.engine, judge, deadline, loop, settings, on_graph) if found is None else found
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


def _attacked(engine: str, judge: Judge, deadline: Deadline, seed: int, restarts: int) -> Violated | None:
    """A search for a counterexample, before anything is proved; none without restarts."""
    random, disjuncts = np.random.default_rng(seed), judge.prop.disjuncts
    share = min(1.0, FEW_DISJUNCTS / max(1, len(disjuncts))) / 4 if engine == "boxes" else 0.25
    start = deadline.within(deadline.left * share)
    found = falsify(judge, disjuncts, random, start, restarts=restarts) if restarts else None
    numbers = Statistics(seconds=deadline.spent, engine=engine, total=judge.graph.relus)
    return Violated(found, numbers) if found else None


def _decided(engine: str, judge: Judge, run: "Run", deadline: Deadline) -> Verdict:
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


def _searched(
    engine: str,
    judge: Judge,
    deadline: Deadline,
    loop: Callable[..., Verdict],
    settings: Mapping[str, Any],
    on_graph: bool,
) -> Verdict:
    """Branch and bound; what it cannot decide goes to the loop, as far as the loop takes it."""
    turns = engine == "boxes" and not on_graph
    run = _run_of(engine, on_graph)(judge, deadline.within(TURN * deadline.left) if turns else deadline, **settings)
    verdict = _decided(engine, judge, run, deadline)
    if not isinstance(verdict, Undecided) or verdict.timeout:
        return verdict
    if turns and judge.no_number not in verdict.reason:
        return _in_turns(judge, run, deadline, loop, over=verdict.reason == judge.why_undecided(REACHED))
    if engine in {"phases", "shallow"} and not on_graph:
        return _finished(engine, deadline, loop(list(run.remaining or ()), restarts=0))
    return verdict


def _in_turns(judge: Judge, run: "Run", deadline: Deadline, loop: Callable[..., Verdict], *, over: bool) -> Verdict:
    """The boxes that are left go to the loop: for good, or where only their turn is over, for a turn and then back."""
    left = list(islice(iter(run.remaining or ()), FEW_BOXES + 1))
    until = deadline.within(TURN * deadline.left) if over else deadline
    verdict = loop(left if len(left) <= FEW_BOXES else None, restarts=0, until=until, refine="bisect")
    if not (over and isinstance(verdict, Undecided)):
        return _finished("boxes", deadline, verdict)
    run.deadline = deadline
    return _decided("boxes", judge, run, deadline)


def _finished(engine: str, deadline: Deadline, verdict: Verdict) -> Verdict:
    """What the loop made of that which an engine left open, with both of their names."""
    names = f"{engine}, {verdict.statistics.engine}"
    return replace(verdict, statistics=replace(verdict.statistics, seconds=deadline.spent, engine=names))


def _run_of(engine: str, on_graph: bool) -> "type[Run]":
    """Imported late: not needed for what an attack decides."""
    match engine:
        case "boxes" if on_graph:
            from ginnacer_verify.engines.boxes.graph import GraphRun

            return GraphRun
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
