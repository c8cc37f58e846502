"""Branch and bound on graphs: verdicts by exhaustive enumeration and by dense sampling, whatever is cut."""

from fractions import Fraction

import numpy as np
import pytest
from cases import BY_HAND, Case, box_of, one_disjunct
from deciding import Nobody, as_by_enumeration, as_sampled, word_of

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines import regions
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.regions import RegionRun
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.properties.vnnlib import parse_vnnlib
from ginnacer_verify.replay.judge import Judge


def decide(network: Network, prop: Property, *, falsify: bool = False, timeout: float = 2.0) -> str:
    return word_of(RegionRun(Judge(network, prop), Budget(Deadline.after(timeout), restarts=24 * falsify)))


def proved(graph: Graph, prop: Property, timeout: float) -> bool:
    return RegionRun(Nobody.of(graph, prop), Budget(Deadline.after(timeout), restarts=0)).run() is None


@pytest.mark.parametrize("few", [12, 0])
@pytest.mark.parametrize("block", range(3))
def test_verdicts_are_those_of_exhaustive_enumeration(block: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 random tiny networks a block, the falsifier off; boxes are halved, or neurons are cut."""
    monkeypatch.setattr(regions, "FEW_INPUTS", few)
    as_by_enumeration(decide, range(block * 100, block * 100 + 100), most_undecided=5)


@pytest.mark.parametrize("few", [12, 0])
@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.name)
def test_cases_by_hand(case: Case, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "FEW_INPUTS", few)
    if not any(len(disjunct.inputs) for disjunct in case.prop.disjuncts):
        assert decide(case.network, case.prop, falsify=True) == case.expected


@pytest.mark.parametrize("few", [12, 0])
@pytest.mark.parametrize("block", range(4))
def test_graphs_with_skips_and_convolutions(block: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "FEW_INPUTS", few)
    as_sampled(proved, range(block * 50, block * 50 + 50))


def test_all_disjuncts_count() -> None:
    network = Network.from_arrays(([[1.0, 0.5], [-1.0, 0.25]], [0.0, 0.0]), ([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0]))
    box = box_of([-1, -1], [1, 1])
    safe = [one_disjunct(box, [[-1.0, 0.0], [0.0, 1.0]], [-offset, 9.0]).disjuncts[0] for offset in (2.5, 3.0)]
    unsafe = one_disjunct(box, [[-1.0, 0.0], [0.0, 1.0]], [-1.0, 9.0]).disjuncts[0]
    assert decide(network, Property.of(*safe)) == "unsat"
    for at in range(3):
        assert decide(network, Property.of(*safe[:at], unsafe, *safe[at:]), falsify=True) == "sat"


def test_disjuncts_of_different_sizes_and_boxes_in_one_batch() -> None:
    network = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    outputs = [Polytope.of([[1.0]], [-0.1]), Polytope.of([[1.0], [-1.0]], [5.0, -6.0])]
    disjuncts = [Disjunct(box_of([i - 0.5], [i + 0.5]), Polytope.everything(1), outputs[i % 2]) for i in range(-4, 5)]
    assert decide(network, Property.of(*disjuncts)) == "unsat"


def test_a_disjunct_without_rows_is_never_out_of_reach() -> None:
    network = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    prop = one_disjunct(box_of([-1.0], [1.0]), np.zeros((0, 1)), np.zeros(0))
    assert decide(network, prop) == "sat"


def test_an_expired_deadline_is_a_reason() -> None:
    case = BY_HAND[1]
    assert "time" in decide(case.network, case.prop, timeout=0.0)


def test_rows_that_float64_cannot_hold_are_charged() -> None:
    """A coefficient above 0.5 by 1e-20 is 0.5 in float64: on outputs up to 1e10 it is worth up to 1e-10 more."""
    text = (
        "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 0))(assert (<= X_0 1))"
        "(assert (<= (* 0.50000000000000000001 Y_0) 1))"
    )
    prop = parse_vnnlib(text)
    network = Network.from_arrays(([[1e10]], [0.0]))
    run = RegionRun(Judge(network, prop), Budget(Deadline.after(1)))
    region = regions.Region(0, np.zeros(1), np.ones(1))
    rows, offset = run._rows([region])
    known = run._tightened(np.zeros((1, 1)), np.ones((1, 1)))
    charge = run._charged([region], offset, known) - offset
    exact = abs(Fraction("0.50000000000000000001") - Fraction(float(rows[0, 0, 0]))) * 10**10
    assert 0 < exact <= Fraction(float(charge[0, 0])) <= 1e-9
