"""Queries: what counts as a solution, by hand."""

import numpy as np
import pytest
from cases import box_of, one_disjunct

from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.engines.parts import Bounded, Part
from ginnacer_verify.graph.network import Network

BOX = box_of([-1.0], [3.0])


@pytest.fixture
def hinge() -> Relational:
    """y = relu(x) on [-1, 3], unsafe where y >= 2: one unstable ReLU with its triangle y <= 3/4 (x + 1)."""
    network = Network.from_arrays(([[1.0]], [0.0]), ([[1.0]], [0.0]))
    prop = one_disjunct(BOX, [[-1.0]], [-2.0])
    return Bounded.of(network, prop, Part(BOX, (0,))).relational(prop, 0)


@pytest.mark.parametrize(
    ("z", "relaxed", "exact"),
    [
        ([2.0, 2.0], True, True),
        ([2.0, 2.2], True, False),
        ([2.0, 2.2501], False, False),
        ([2.0, 1.99], False, False),
        ([1.7, 2.0], True, False),
        ([3.1, 3.1], False, False),
        ([0.5, 0.5], False, False),
        ([np.nan, 2.0], False, False),
    ],
)
def test_solutions_by_hand(hinge: Relational, z: list[float], relaxed: bool, exact: bool) -> None:
    point = np.array(z)
    assert (hinge.query().violation(point) <= 0) is relaxed
    assert (hinge.query([hinge.singleton(0)]).violation(point) <= 0) is exact


def test_violation_is_the_distance(hinge: Relational) -> None:
    assert hinge.query().violation(np.array([2.0, 1.5])) == pytest.approx(0.5, abs=1e-6)
    assert hinge.query().violation(np.array([np.nan, 1.5])) == np.inf


def test_deviation(hinge: Relational) -> None:
    assert hinge.query().deviation(np.array([2.0, 2.25])) == pytest.approx([0.25])
    assert hinge.query().deviation(np.array([-0.5, 0.25])) == pytest.approx([0.25])


def test_slacks_move_rows_outwards(hinge: Relational) -> None:
    """A solution that misses by less than a solver can see is one; the property's row is relaxed, not tightened."""
    assert hinge.query().violation(np.array([2.0, 2.0 - 1e-9])) <= 0
    assert hinge.base.unsafe.offset[0] > -2.0


def test_tightened_moves_unsafe_rows_inwards(hinge: Relational) -> None:
    tight = hinge.base.tightened(1e-4)
    assert tight.unsafe.offset[0] < -2.0
    assert tight.relus is hinge.base.relus


def test_values_outside_of_the_box_are_clipped(hinge: Relational) -> None:
    assert hinge.base.input_of(np.array([3.0 + 1e-9, 0.0])).tolist() == [3.0]
