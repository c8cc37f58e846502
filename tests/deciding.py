"""What every engine is held to: the verdicts of exhaustive enumeration, and on graphs those of dense sampling."""

from collections.abc import Callable, Iterable
from typing import cast

import numpy as np
from cases import box_of, one_disjunct, random_case
from random_graphs import random_box, random_graph

from ginnacer_verify.engines.run import Run
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Property
from ginnacer_verify.replay.judge import Counterexample, Judge

DECIDED = {"sat", "unsat"}


class Nobody:
    """A judge that confirms nothing: there is no model to replay on."""

    def __init__(self, graph: Graph, prop: Property) -> None:
        self.graph, self.prop, self.dtype = graph, prop, np.dtype("float32")

    def __call__(self, x: object) -> None:
        return None

    @classmethod
    def of(cls, graph: Graph, prop: Property) -> Judge:
        return cast(Judge, cls(graph, prop))


def word_of(run: Run) -> str:
    """The engine's word, or why it has none."""
    match run.run():
        case None:
            return "unsat"
        case Counterexample():
            return "sat"
        case reason:
            return reason


def as_by_enumeration(decide: Callable[[Network, Property], str], seeds: Iterable[int], most_undecided: int) -> None:
    """Random tiny networks, each next to its boundary: no word but the right one, and hardly any missing."""
    undecided = 0
    for seed in seeds:
        case = random_case(seed)
        word = decide(case.network, case.prop)
        undecided += word not in DECIDED
        assert word == case.expected or word not in DECIDED, f"seed {seed}"
    assert undecided <= most_undecided


def as_sampled(proved: Callable[[Graph, Property, float], bool], seeds: Iterable[int], *, smooth: bool = False) -> None:
    """Random graphs, thresholds next to what dense sampling finds: nothing that was seen is proved absent, and what
    lies well below everything seen is."""
    for seed in seeds:
        random = np.random.default_rng(seed)
        graph = random_graph(seed, smooth=smooth)
        lower, upper = random_box(random, graph.inputs)
        points = lower + random.random((4000, graph.inputs)) * (upper - lower)
        points[:64] = np.where(random.random((64, graph.inputs)) < 0.5, lower, upper)
        row = random.normal(size=(1, graph.outputs))
        least = float((graph.evaluate(points) @ row.T).min())
        box = box_of(lower, upper)
        assert not proved(graph, one_disjunct(box, row, [least + 1e-9 * (1 + abs(least))]), 0.1), f"seed {seed}"
        assert proved(graph, one_disjunct(box, row, [least - 0.5 - abs(least)]), 20.0), f"seed {seed}"
