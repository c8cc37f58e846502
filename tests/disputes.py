"""Engines in pairs on the same question: what one proves no other may refute, nor a sample, nor a run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
from cases import SHAPES, one_disjunct, random_case, random_network
from deciding import word_of
from exhaustive import at, regions
from fooling import FAMILIES, THRESHOLDS, fooling
from random_models import random_model

from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.graph import GraphRun
from ginnacer_verify.engines.boxes.problem import is_plain
from ginnacer_verify.engines.boxes.run import NativeRun
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.graphs.run import GraphPhaseRun
from ginnacer_verify.engines.phases.run import PhaseRun
from ginnacer_verify.engines.refinement import loop as cegar
from ginnacer_verify.engines.refinement.methods import METHODS
from ginnacer_verify.engines.regions import RegionRun
from ginnacer_verify.engines.run import Run
from ginnacer_verify.engines.shallow.run import ShallowRun
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import UnsupportedOperator
from ginnacer_verify.graph.chain import chain_of, graph_of
from ginnacer_verify.graph.graph import Graph, Original
from ginnacer_verify.graph.joint import joined
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load
from ginnacer_verify.loading.oracle import Runtime
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.replay.judge import Judge

ON_GRAPHS: dict[str, type[Run]] = {"boxes, graph": GraphRun, "phases, graph": GraphPhaseRun, "regions": RegionRun}
ON_CHAINS: dict[str, type[Run]] = {"boxes": NativeRun, "phases": PhaseRun, "shallow": ShallowRun}
SURE = 1e-9
"""Sampled values count from this far inside of the unsafe set on, relatively: float64 computes them."""
MOST_RELUS = 40
"""Chains with more are not asked of the loop."""


@dataclass(frozen=True, eq=False)
class Dispute:
    """What was said about one question, by whom: words by the names of engines; and why some of them are wrong."""

    words: dict[str, str]
    wrong: tuple[str, ...]

    @property
    def decided(self) -> bool:
        return bool({"sat", "unsat"} & set(self.words.values()))


@dataclass(frozen=True, eq=False)
class Question:
    """A network and a property. `reached`: an input is known to be unsafe in real numbers; None: nothing is known.
    `run`: an execution is known to be unsafe."""

    graph: Graph
    prop: Property
    reached: bool | None
    run: bool


def on_graph(seed: int) -> Question:
    """A random model, and a box and rows next to what sampling finds; half of the properties are conjunctions."""
    random = np.random.default_rng([seed, 61])
    graph = load(random_model(seed)[0])
    middle, width = random.normal(size=graph.inputs), random.choice([1e-3, 0.1, 0.5, 1.0], size=graph.inputs)
    width = np.where(random.random(graph.inputs) < 0.7, width, 0.0) * (0.1 if graph.inputs > 6 else 1.0)
    lower, upper = (_single(middle - width), _single(middle + width))
    points = lower + random.random((2000, graph.inputs)) * (upper - lower)
    points[:128] = np.where(random.random((128, graph.inputs)) < 0.5, lower, upper)
    points = np.clip(_single(points), lower, upper)
    outputs = graph.evaluate(points)
    box = Box(lower, upper)
    disjuncts = [_disjunct(random, box, outputs) for _ in range(int(random.integers(1, 3)))]
    prop = Property.of(*disjuncts)
    runtime = Runtime(graph.model)
    runs = np.array([runtime(x) for x in points[:100]])
    return Question(graph, prop, _reached(prop, outputs) or None, _reached(prop, runs, 0.0))


def _single(values: Array) -> Array:
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def _disjunct(random: np.random.Generator, box: Box, outputs: Array) -> Disjunct:
    rows = random.normal(size=(1 if random.random() < 0.6 else 2, outputs.shape[1]))
    values = outputs @ rows.T
    spread = values.max(axis=0) - values.min(axis=0) + 1e-3 * np.abs(values).max(axis=0) + 1e-9
    away = random.choice([-0.3, -0.05, -0.005, -1e-4, -1e-6, 1e-6, 0.001, 0.02, 0.2], size=len(rows))
    nearest = values[int(random.integers(len(values)))] if len(rows) > 1 else values.min(axis=0)
    offset = np.minimum(nearest, np.quantile(values, 0.2, axis=0)) + away * spread
    return Disjunct(box, Polytope.everything(box.inputs), Polytope.of(rows, offset))


def _reached(prop: Property, outputs: Array, sure: float = SURE) -> bool:
    for disjunct in prop.disjuncts:
        rows = disjunct.outputs
        slack = rows.offset - outputs @ rows.matrix.T
        scale = sure * (1 + np.abs(rows.offset) + np.abs(outputs) @ np.abs(rows.matrix.T))
        if bool((slack > scale).all(axis=1).any()):
            return True
    return False


def by_enumeration(seed: int) -> Question:
    """A tiny network whose truth is enumerated in rationals."""
    case = random_case(seed)
    return Question(graph_of(case.network), case.prop, case.expected == "sat", False)


def of_two(seed: int) -> Question:
    """Two tiny networks, the second one a copy with other digits or another one: by how much the first is below it."""
    random = np.random.default_rng([seed, 2])
    shape = SHAPES[seed % len(SHAPES)]
    first = random_network(random, shape)
    moved = [
        (dense(one.weight) + random.choice([0, 0, 1, -1], one.weight.shape) / 64, one.bias) for one in first.layers
    ]
    second = Network.from_arrays(*moved) if seed % 4 else random_network(random, shape)
    inputs = tuple(range(shape[0]))
    joint = joined([Original(graph_of(one), inputs) for one in (first, second)], shape[0])
    lower, width = random.integers(-8, 5, shape[0]) / 4, random.integers(1, 9, shape[0]) / 8
    width[2:] = 0.0
    row = np.zeros((1, 2 * shape[-1]))
    row[0, 0], row[0, shape[-1]] = 1.0, -1.0
    free = one_disjunct(Box(lower, lower + width), row, [0.0])
    forms = list(regions(chain_of(joint), free.disjuncts[0]))
    lowest = min(at(one.outputs[0], x) - at(one.outputs[shape[-1]], x) for one in forms for x in one.corners)
    away = float(random.choice([-1.0, 1.0])) * float(random.choice([1e-3, 1e-2, 0.25]))
    return Question(joint, one_disjunct(Box(lower, lower + width), row, [float(lowest) + away]), away > 0, False)


def made_to_fool(seed: int) -> Question:
    """A network made to fool verifiers, with the threshold whose turn it is."""
    case = next(islice(fooling(seed), seed // len(FAMILIES) % THRESHOLDS, None))
    return Question(case.graph, case.prop, case.real or None, case.run)


def disputed(question: Question, arithmetic: str = "real", seconds: float = 1.0) -> Dispute:
    """Ask every engine that takes the question, without its attack; and `verify`, with it."""
    words, wrong = dict[str, str](), list[str]()
    for name, ask in _engines(question, arithmetic, seconds):
        words[name] = ask()
    unsafe = {name for name, word in words.items() if word == "sat"}
    safe = {name for name, word in words.items() if word == "unsat"}
    if arithmetic == "real":
        if question.reached and safe:
            wrong.append(f"reached, but {', '.join(sorted(safe))}: unsat")
        if question.reached is False and unsafe:
            wrong.append(f"not reached, but {', '.join(sorted(unsafe))}: sat")
    elif safe and (question.run or unsafe):
        wrong.append(f"a run is unsafe, but {', '.join(sorted(safe))}: unsat")
    return Dispute(words, tuple(wrong))


def _engines(question: Question, arithmetic: str, seconds: float) -> Iterator[tuple[str, Callable[[], str]]]:
    graph, prop = question.graph, question.prop
    given = graph if arithmetic == "real" else graph.executed()
    for name, kind in ON_GRAPHS.items():
        yield name, partial(_word, kind, given, prop, seconds)
    try:
        chain = chain_of(given)
    except UnsupportedOperator:
        chain = None
    if chain is not None:
        for name, kind in ON_CHAINS.items():
            if _takes(name, chain):
                yield name, partial(_word, kind, chain, prop, seconds)
        if chain.relus <= MOST_RELUS:
            for name, method in METHODS.items():
                if chain.arithmetic.is_real or method.executed:
                    yield f"loop, {name}", partial(_loop, chain, prop, name, seconds)
    yield "auto", lambda: verify(graph, prop, timeout=seconds, threads=1, arithmetic=arithmetic).word


def _takes(name: str, chain: Network) -> bool:
    if name == "shallow":
        return len(chain.layers) == 2 and chain.arithmetic.is_real
    return name != "boxes" or is_plain(chain)


def _word(kind: type[Run], network: Network | Graph, prop: Property, seconds: float) -> str:
    return word_of(kind(Judge(network, prop), Budget(Deadline.after(seconds), threads=1, restarts=0)))


def _loop(chain: Network, prop: Property, name: str, seconds: float) -> str:
    return cegar.verify(chain, prop, timeout=seconds, abstraction=name, restarts=0).word
