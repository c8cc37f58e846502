"""Halving boxes on graphs: verdicts by exhaustive enumeration and by dense sampling, with many disjuncts and boxes."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from cases import BY_HAND, Case, box_of, one_disjunct
from deciding import Nobody, as_by_enumeration, as_sampled, word_of
from random_graphs import random_box, random_graph

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.graph import GraphRun
from ginnacer_verify.engines.boxes.rows import Rows
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.choice import choose
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.graph import elementary
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.product import Product
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.properties.vnnlib import parse_vnnlib
from ginnacer_verify.replay.judge import Judge


def decide(network: Network, prop: Property, *, falsify: bool = False, timeout: float = 10.0) -> str:
    return word_of(GraphRun(Judge(network, prop), Budget(Deadline.after(timeout), restarts=24 * falsify)))


def proved(graph: Graph, prop: Property, timeout: float) -> bool:
    return GraphRun(Nobody.of(graph, prop), Budget(Deadline.after(timeout), restarts=0, threads=1)).run() is None


@pytest.mark.parametrize("block", range(3))
def test_verdicts_are_those_of_exhaustive_enumeration(block: int) -> None:
    """100 random tiny networks a block, the falsifier off."""
    as_by_enumeration(partial(decide, timeout=2.0), range(block * 100, block * 100 + 100), most_undecided=5)


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.name)
def test_cases_by_hand(case: Case) -> None:
    """Those with linear input constraints too."""
    assert decide(case.network, case.prop, falsify=True) == case.expected


@pytest.mark.parametrize("block", range(4))
def test_graphs_with_skips_and_convolutions(block: int) -> None:
    as_sampled(proved, range(block * 50, block * 50 + 50))


def test_smooth_functions_and_products_are_halved_to_the_end() -> None:
    """`sin(3x) * tanh(y)` between its true extremes, give or take 0.02."""
    builder = Builder()
    x = builder.input(2)
    left = builder.apply(elementary.Sin(), builder.affine((x, Dense([[3.0, 0.0]]))))
    right = builder.apply(elementary.Tanh(), builder.affine((x, Dense([[0.0, 1.0]]))))
    graph = builder.graph(builder.apply(Product(), left, right), [Tensor("X", (1, 2))], [Tensor("Y", (1, 1))])
    box, largest = box_of([-1.0, -1.0], [1.0, 1.0]), float(np.tanh(1.0))
    for row in ([[1.0]], [[-1.0]]):
        assert proved(graph, one_disjunct(box, row, [-largest - 0.02]), 20.0)
        assert not proved(graph, one_disjunct(box, row, [-largest + 0.02]), 1.0)


def test_disjuncts_that_share_a_box_and_a_row() -> None:
    """Each row is there once; a disjunct counts whatever its place is."""
    case = BY_HAND[0]
    box = case.prop.disjuncts[0].box
    unsafe = [Polytope.of([[1.0], [-1.0]], [offset, 5.0]) for offset in (-1.5, -0.5, -3.0)]
    assert len(Rows.of(unsafe)) == 4
    disjuncts = [Disjunct(box, Polytope.everything(2), one) for one in unsafe]
    assert decide(case.network, Property.of(*disjuncts), falsify=True) == "sat"
    assert decide(case.network, Property.of(disjuncts[0], disjuncts[2])) == "unsat"


def test_boxes_that_vary_different_inputs_share_a_batch() -> None:
    network = Network.from_arrays(([[1.0, 2.0], [-1.0, 0.5]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    ends = [([0.0, 0.5], [0.0, 1.0]), ([0.25, -1.0], [1.0, -1.0]), ([-1.0, -1.0], [1.0, 1.0]), ([0.5, 0.5], [0.5, 0.5])]
    disjuncts = [Disjunct(box_of(*end), Polytope.everything(2), Polytope.of([[1.0]], [-0.1])) for end in ends * 5]
    assert decide(network, Property.of(*disjuncts)) == "unsat"
    reached = Disjunct(box_of([-1.0, -1.0], [1.0, 1.0]), Polytope.everything(2), Polytope.of([[1.0]], [0.05]))
    assert decide(network, Property.of(*disjuncts, reached), falsify=True) == "sat"


def test_a_disjunct_without_rows_is_never_out_of_reach() -> None:
    network = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    assert decide(network, one_disjunct(box_of([-1.0], [1.0]), np.zeros((0, 1)), np.zeros(0))) == "sat"


def test_what_is_left_covers_every_unsafe_input() -> None:
    """Stopped early, the boxes that remain hold every point that was seen to be unsafe."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        graph = random_graph(seed)
        lower, upper = random_box(random, graph.inputs)
        points = np.clip(lower + random.random((1000, graph.inputs)) * (upper - lower), lower, upper)
        row = random.normal(size=(1, graph.outputs))
        values = graph.evaluate(points) @ row.T
        prop = one_disjunct(box_of(lower, upper), row, [float(np.quantile(values, 0.2))])
        run = GraphRun(Nobody.of(graph, prop), Budget(Deadline.after(0.1), restarts=0))
        assert run.run() is not None
        unsafe = points[values[:, 0] <= prop.disjuncts[0].outputs.offset[0]]
        for x in unsafe:
            assert any(x in part.box and part.disjuncts == (0,) for part in run.remaining), f"seed {seed}"


def test_an_expired_deadline_leaves_everything() -> None:
    case = BY_HAND[1]
    run = GraphRun(Judge(case.network, case.prop), Budget(Deadline.after(0.0)))
    assert "time" in str(run.run()).lower()
    assert [part.disjuncts for part in run.remaining] == [(0,)]


def test_rows_that_float64_cannot_hold_are_charged() -> None:
    """A coefficient above 0.5 by 1e-20 is 0.5 in float64: on outputs up to 1e10 it is worth up to 1e-10 more."""
    prop = parse_vnnlib(
        "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 0))(assert (<= X_0 1))"
        "(assert (<= (* 0.50000000000000000001 Y_0) 1))"
    )
    rows = Rows.of([prop.disjuncts[0].outputs])
    charge = rows.charged(np.array([1e10])) - rows.offset
    exact = abs(Fraction("0.50000000000000000001") - Fraction(float(rows.matrix[0, 0]))) * 10**10
    assert 0 < exact <= Fraction(float(charge[0])) <= 1e-9


def test_few_varying_inputs_go_to_boxes_whatever_the_network_is() -> None:
    builder = Builder()
    x = builder.input(3)
    y = builder.apply(elementary.Sigmoid(), builder.affine((x, Dense([[1.0, -1.0, 0.5]]))))
    graph = builder.graph(y, [Tensor("X", (1, 3))], [Tensor("Y", (1, 1))])
    prop = one_disjunct(box_of(np.zeros(3), np.ones(3)), [[1.0]], [0.1])
    assert choose(graph, prop).engine == "boxes"
    wide = Network.from_arrays((np.ones((2100, 1)), np.arange(2100) / 100), (np.ones((1, 2100)) / 2100, [0.0]))
    prop = one_disjunct(box_of([-3.0], [3.0]), [[1.0]], [-0.1])
    verdict = verify(wide, prop, restarts=0)
    assert (verdict.word, verdict.statistics.engine) == ("unsat", "boxes")
    assert verify(graph_of(wide), prop, restarts=0, arithmetic="float32").word == "unsat"
