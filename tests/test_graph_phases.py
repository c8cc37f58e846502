"""Phases on graphs: guessed multipliers give sound bounds whatever they are, and verdicts are those of enumeration."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import BY_HAND, Case
from deciding import Nobody, as_by_enumeration, as_sampled, word_of
from numpy.typing import NDArray
from random_graphs import random_box, random_graph

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import intervals
from ginnacer_verify.bounds.substitution import tightened
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.graphs.relaxed import Place, Relaxed, Singles
from ginnacer_verify.engines.graphs.run import GraphPhaseRun
from ginnacer_verify.engines.graphs.tighten import Effort, Region, Tightening
from ginnacer_verify.engines.phases.ascent import ACTIVE, INACTIVE
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense, Select
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.product import Product
from ginnacer_verify.properties.property import Property
from ginnacer_verify.replay.judge import Judge


def decide(network: Network | Graph, prop: Property, *, falsify: bool = False, timeout: float = 5.0) -> str:
    return word_of(
        GraphPhaseRun(Judge(network, prop), Budget(Deadline.after(timeout), threads=1, restarts=24 * falsify))
    )


def proved(graph: Graph, prop: Property, timeout: float) -> bool:
    return GraphPhaseRun(Nobody.of(graph, prop), Budget(Deadline.after(timeout), threads=1, restarts=0)).run() is None


@pytest.mark.parametrize("block", range(3))
def test_verdicts_are_those_of_exhaustive_enumeration(block: int) -> None:
    """30 random tiny networks a block, the falsifier off."""
    as_by_enumeration(decide, range(block * 30, block * 30 + 30), most_undecided=2)


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.name)
def test_cases_by_hand(case: Case) -> None:
    if not any(len(disjunct.inputs) for disjunct in case.prop.disjuncts):
        assert decide(case.network, case.prop, falsify=True) == case.expected


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_graphs_of_every_shape(block: int, smooth: bool) -> None:
    as_sampled(proved, range(block * 10, block * 10 + 10), smooth=smooth)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("block", range(3))
def test_bounds_hold_wherever_the_decisions_do(block: int, smooth: bool) -> None:
    """20 graphs a block; every multiplier is random, then climbed; some ReLUs are decided as they are at a point."""
    for seed in range(20 * block, 20 * block + 20):
        random = np.random.default_rng(seed)
        graph = random_graph(seed, smooth=smooth)
        lower, upper = random_box(random, graph.inputs)
        known = tightened(graph, lower[None], upper[None])
        points = lower + random.random((300, graph.inputs)) * (upper - lower)
        points[:100] = np.where(random.random((100, graph.inputs)) < 0.5, lower, upper)
        values = list(graph.through(points))
        free = Relaxed(Singles(graph), len(graph.nodes) - 1, known, {})
        decided: dict[Place, int] = {}
        for number, bent in free.bent.items():
            for element in bent.index[random.random(len(bent.index)) < 0.4] if bent.decides else ():
                positive = values[bent.node.sources[0]][0, element] > 0
                decided[number, int(element)] = ACTIVE if positive else INACTIVE
        holds = np.ones(len(points), bool)
        for (number, element), phase in decided.items():
            holds &= phase * values[graph.nodes[number].sources[0]][:, element] >= 0
        relaxed = Relaxed(Singles(graph), len(graph.nodes) - 1, known, decided)
        weight = random.normal(size=(6, graph.outputs))
        bias = random.normal(size=6)
        phases = np.tile(relaxed.phase, (6, 1))
        start = random.random((6, relaxed.neurons)).astype(np.float32)
        climbed = relaxed.ascend(weight.astype(np.float32), bias.astype(np.float32), phases, start, 8, np.full(6, -1))
        y = values[-1][holds] @ weight.T + bias
        first = relaxed.rigorous(weight, bias, phases, start)
        better = relaxed.rigorous(weight, bias, phases, climbed.multipliers)
        for bound in (first, better):
            assert (bound <= y + 1e-9 * (1 + np.abs(y))).all(), f"seed {seed}"
        finite = np.isfinite(first) & ~climbed.flat
        size = (0.05 if smooth else 1e-3) * (1 + np.abs(first[finite]))  # tangents in between are guessed
        assert (better[finite] >= first[finite] - size).all(), f"seed {seed}: climbing must not lose"
        guessed = np.abs(climbed.bound - better)[np.isfinite(better) & np.isfinite(climbed.bound)]
        assert (guessed <= 0.1 * (1 + np.abs(better).max())).all(), f"seed {seed}: the guess is what is proved"


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("rounds", [0, 4])
def test_tightened_nodes_hold_every_value(rounds: int, smooth: bool) -> None:
    """Of the whole box, and of the part where some ReLU of it is decided."""
    for seed in range(15):
        random = np.random.default_rng(seed)
        graph = random_graph(seed, smooth=smooth)
        lower, upper = random_box(random, graph.inputs)
        region = Region(Singles(graph), intervals(graph, lower[None], upper[None]))
        points = lower + random.random((300, graph.inputs)) * (upper - lower)
        values = list(graph.through(points))
        with ThreadPoolExecutor(1) as pool:
            tight = Tightening(region, Effort(4, rounds), pool, FOREVER).run()
            _contains(tight, values, np.ones(len(points), bool), f"seed {seed}")
            for number, bent in tight.relaxed(len(graph.nodes) - 1).bent.items():
                if bent.decides and len(bent.index):
                    source, element = bent.node.sources[0], int(bent.index[0])
                    for half, sign in zip(tight.halves((number, element)), (1, -1), strict=True):
                        inside = sign * values[source][:, element] >= 0
                        part = Tightening(half, Effort(2, rounds), pool, FOREVER).run()
                        _contains(part, values, inside, f"seed {seed}, half {sign}")
                    break


def _contains(region: Region, values: list[Array], which: NDArray[np.bool_], of: str) -> None:
    for number, value in enumerate(values):
        slack = 1e-9 * (1 + np.abs(value[which]))
        assert (value[which] >= region.known.lower[number] - slack).all(), of
        assert (value[which] <= region.known.upper[number] + slack).all(), of


def test_decisions_have_multipliers_where_they_leave_exact_lines() -> None:
    """`relu(x)` is at least 1 where `relu(x - 1)` is active, which only that decision says."""
    builder = Builder()
    x = builder.input(1)
    y = builder.apply(Relu(), builder.affine((x, Dense([[1.0], [1.0]])), bias=[0.0, -1.0]))
    graph = builder.graph(builder.affine((y, Dense([[1.0, 0.0]]))), [Tensor("X", (1, 1))], [Tensor("Y", (1, 1))])
    region = Region(Singles(graph), intervals(graph, np.array([[-2.0]]), np.array([[3.0]])))
    with ThreadPoolExecutor(1) as pool:
        active = Tightening(region.halves((2, 1))[0], Effort(4, 0), pool, FOREVER).run()
    relaxed = active.relaxed(len(graph.nodes) - 1)
    row, none = np.ones((1, 1), np.float32), np.zeros(1, np.float32)
    start = np.where(relaxed.phase == 0, relaxed.steep, np.float32(0))[None]
    found = relaxed.ascend(row, none, relaxed.phase[None], start, 40)
    bound = relaxed.rigorous(row.astype(float), none.astype(float), relaxed.phase[None], found.multipliers)
    assert 0.01 < bound[0] <= 1.0  # 0 without the decision


def test_factors_that_are_moved_are_tightened_where_they_come_from() -> None:
    """`(x - x) * 2 x`, its factors picked out of one node: no more than rounding is left of it."""
    builder = Builder()
    x = builder.input(2)
    y = builder.affine((x, Dense([[1.0, 1.0], [1.0, 1.0]])))
    z = builder.affine((y, Dense([[1.0, -1.0], [1.0, 1.0]])))
    factors = [builder.affine((z, Select([k], 2))) for k in (0, 1)]
    product = builder.apply(Product(), *factors)
    graph = builder.graph(builder.affine((product, Dense([[1.0]]))), [Tensor("X", (1, 2))], [Tensor("Y", (1, 1))])
    box = np.array([[-1.0, -1.0]]), np.array([[1.0, 1.0]])
    region = Region(Singles(graph), intervals(graph, *box))
    with ThreadPoolExecutor(1) as pool:
        found = Tightening(region, Effort(4, 0), pool, FOREVER).run().known
    for known in (found, tightened(graph, *box)):
        assert -1e-12 <= known.lower[-1][0, 0] <= 0.0 <= known.upper[-1][0, 0] <= 1e-12
