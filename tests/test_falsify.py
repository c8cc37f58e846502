"""The falsifier: finds what gradients can find, proposes only points of the box, and believes nothing itself."""

from dataclasses import replace

import numpy as np
import pytest
from cases import box_of, one_disjunct, random_case, random_network

from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.replay.attack import Goal, around, attack, falsify, gradient, inside, starts
from ginnacer_verify.replay.judge import Counterexample, Judge


def random_source() -> np.random.Generator:
    return np.random.default_rng(0)


def test_gradient_is_that_of_finite_differences() -> None:
    network = random_network(np.random.default_rng(5), (3, 6, 6, 2))
    disjunct = one_disjunct(Box(-np.ones(3), np.ones(3)), [[1.0, -2.0], [0.5, 1.0]], [0.25, -0.5]).disjuncts[0]
    goal = Goal.of(disjunct)
    points = np.random.default_rng(1).normal(size=(20, 3))
    exact = np.arange(len(points)) // 2 % 2 == 0  # in the other rows inactive ReLUs let something through
    excess, slope = gradient(graph_of(network), points, goal)
    for j in range(3):
        moved = points.copy()
        moved[:, j] += 1e-7
        change = (gradient(graph_of(network), moved, goal)[0] - excess) / 1e-7
        assert change[exact] == pytest.approx(slope[exact, j], abs=1e-4)


def test_excess_by_hand() -> None:
    """Rows are scaled to length one; the largest counts."""
    goal = Goal.of(one_disjunct(box_of([0.0], [1.0]), [[3.0, 4.0], [0.0, 2.0]], [5.0, 2.0]).disjuncts[0])
    assert goal.excess(np.array([[1.0, 1.0], [1.0, 0.5]])) == pytest.approx([0.4, 0.0])


def test_most_of_the_sat_cases_fall() -> None:
    cases = [case for case in map(random_case, range(80)) if case.expected == "sat"]
    found = 0
    for case in cases:
        judge = Judge(case.network, case.prop)
        counterexample = falsify(judge, case.prop.disjuncts, random_source(), Deadline.after(10))
        if counterexample is not None:
            found += 1
            assert case.prop.is_unsafe_at(counterexample.x, counterexample.y)
    assert found >= 0.8 * len(cases)


def test_nothing_is_found_where_nothing_is() -> None:
    for case in map(random_case, range(60)):
        if case.expected == "unsat":
            judge = Judge(case.network, case.prop)
            assert falsify(judge, case.prop.disjuncts, random_source(), Deadline.after(10)) is None


def test_a_flat_network_is_won_at_a_corner() -> None:
    """relu(x1 + x2 - 1.9) is flat almost everywhere: only starts near the corner (1, 1) see a slope."""
    network = Network.from_arrays(([[1.0, 1.0]], [-1.9]), ([[-1.0]], [0.0]))
    prop = one_disjunct(box_of([-1.0, -1.0], [1.0, 1.0]), [[1.0]], [-0.09])
    assert isinstance(falsify(Judge(network, prop), prop.disjuncts, random_source(), Deadline.after(5)), Counterexample)


def test_a_conjunction_needs_all_its_rows() -> None:
    """y = (x, -x) with y1 <= -0.5 and y2 <= -0.5 is empty; each row alone is reachable."""
    network = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), (np.array([[1.0, -1.0], [-1.0, 1.0]]), [0.0, 0.0]))
    prop = one_disjunct(box_of([-1.0], [1.0]), np.eye(2), [-0.5, -0.5])
    assert falsify(Judge(network, prop), prop.disjuncts, random_source(), Deadline.after(5)) is None


def test_input_constraints_are_respected() -> None:
    """y = x1 + x2 must reach 1 while x1 - x2 <= -0.5."""
    network = Network.from_arrays(([[1.0, 1.0]], [5.0]), ([[-1.0]], [5.0]))
    box = box_of([0.0, 0.0], [1.0, 1.0])
    prop = Property.of(Disjunct(box, Polytope.of([[1.0, -1.0]], [-0.5]), Polytope.of([[1.0]], [-1.4])))
    found = falsify(Judge(network, prop), prop.disjuncts, random_source(), Deadline.after(5))
    assert isinstance(found, Counterexample)
    assert found.x[0] - found.x[1] <= -0.5


def test_inside_moves_points_to_the_constraints() -> None:
    box = box_of([0.0, 0.0], [1.0, 1.0])
    disjunct = Disjunct(box, Polytope.of([[1.0, 1.0]], [0.5]), Polytope.everything(1))
    moved = inside(box.sample(random_source(), 50), disjunct, box)
    assert (moved.sum(axis=1) <= 0.5).all()
    assert all(point in box for point in moved)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_starts_are_in_the_box_and_begin_with_its_middle(count: int) -> None:
    box = box_of([-1.0, 2.0], [1.0, 2.0])
    points = starts(box, random_source(), count)
    assert points.shape == (count, 2)
    assert points[0].tolist() == [0.0, 2.0]
    assert all(point in box for point in points)


def test_around_keeps_the_witness_first() -> None:
    box = box_of([0.0, 0.0], [1.0, 1.0])
    points = around(np.array([0.25, 1.0]), box, random_source())
    assert points[0].tolist() == [0.25, 1.0]
    assert all(point in box for point in points)
    assert len(np.unique(points, axis=0)) > 1


def test_a_passed_deadline_stops_it() -> None:
    case = random_case(0)
    judge = Judge(case.network, case.prop)
    assert falsify(judge, case.prop.disjuncts, random_source(), Deadline.after(0)) is None


def test_empty_boxes_are_left_alone() -> None:
    network = random_network(random_source(), (1, 2, 1))
    prop = one_disjunct(box_of([1.0], [0.0]), [[1.0]], [1e9])
    assert falsify(Judge(network, prop), prop.disjuncts, random_source(), Deadline.after(5)) is None


def test_no_rows_at_all_is_unsafe_everywhere() -> None:
    network = random_network(random_source(), (1, 2, 1))
    prop = one_disjunct(box_of([0.0], [1.0]), np.zeros((0, 1)), np.zeros(0))
    found = attack(Judge(network, prop), prop.disjuncts[0], prop.boxes[0], np.array([[0.5]]), Deadline.after(5))
    assert isinstance(found, Counterexample)


def test_every_other_pair_of_starts_sees_beyond_a_plateau() -> None:
    """relu(x - 1) is flat below 1: the gradient is 0 there, the direction of the leaking rows is not."""
    network = Network.from_arrays(([[1.0]], [-1.0]), ([[-1.0]], [0.0]))
    goal = Goal.of(one_disjunct(box_of([0.0], [2.0]), [[1.0]], [-0.5]).disjuncts[0])
    _, slope = gradient(graph_of(network), np.full((4, 1), 0.5), goal)
    assert slope[:2].tolist() == [[0.0], [0.0]]
    assert (slope[2:] < 0).all()


@pytest.mark.parametrize("offset", [-1.0, 3.0])
def test_a_single_point_is_attacked_also_if_it_has_the_shape_of_an_input(offset: float) -> None:
    """As of most ONNX networks: the input is a tensor of shape [1, n]."""
    plain = Network.from_arrays(([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    network, box = replace(plain, input_shape=(1, 2)), box_of([1.0, 1.0], [1.0, 1.0])
    prop = one_disjunct(box, [[1.0]], [offset])
    judge, forever = Judge(network, prop), Deadline.after(60)
    for found in (
        falsify(judge, prop.disjuncts, random_source(), forever),
        attack(judge, prop.disjuncts[0], box, np.ones((1, 2)), forever),
    ):
        assert isinstance(found, Counterexample) == (offset > 2)
