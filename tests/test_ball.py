"""Balls: exact membership, sound bounds by the dual norm, projections, and the engine on them."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cases import random_network
from exhaustive import is_sat
from hypothesis import given, settings
from hypothesis import strategies as st

import ginnacer_verify as gv
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.bounds.substitution import Planes, below, tightened
from ginnacer_verify.box import Ball, Box
from ginnacer_verify.errors import PropertyError, UnsupportedProperty
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.properties.build import robustness
from ginnacer_verify.properties.property import Polytope, Property
from ginnacer_verify.properties.write import to_vnnlib

NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=True)
TINY_ONES = st.one_of(NUMBERS, st.floats(-1e-150, 1e-150), st.floats(1e150, 1e155))


def inside(ball: Ball, random: np.random.Generator, count: int) -> Array:
    """Points of the ball, half of them as far out as possible."""
    points = ball.centre + random.standard_normal((count, len(ball.centre))) * ball.radius * 3
    points = ball.project(points)
    points[::2] = ball.centre + (points[::2] - ball.centre) * random.random((len(points[::2]), 1))
    return points


@settings(max_examples=200)
@given(st.lists(TINY_ONES, min_size=3, max_size=3), st.lists(NUMBERS, min_size=3, max_size=3), st.sampled_from([1, 2]))
def test_the_bound_is_below_the_exact_minimum(slope: list[float], centre: list[float], norm: int) -> None:
    """In rationals: no point of the ball gives less, the exact minimum is slope @ centre - radius * dual norm."""
    ball = Ball(np.array(centre), 0.7, norm)
    bound = float(ball.least(np.array([slope]), np.array([0.25]), np.array([0.0]))[0])
    exact = [Fraction(value) for value in slope]
    middle = sum((s * Fraction(c) for s, c in zip(exact, centre, strict=True)), Fraction(1, 4))
    if bound == -np.inf:
        return
    gap = middle - Fraction(bound)  # at least radius * dual norm
    assert gap >= 0
    if norm == 1:
        assert gap >= Fraction(0.7) * max(abs(s) for s in exact)
    else:
        assert gap**2 >= Fraction(0.7) ** 2 * sum(s * s for s in exact)


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.sampled_from([1, 2]))
def test_the_bound_on_a_box_and_a_ball_is_below_and_near_the_least_value(seed: int, norm: int) -> None:
    """Boxes that hold the centre, that cut the ball, and that miss it."""
    random = np.random.default_rng(seed)
    ball = Ball(random.standard_normal(3), 0.5, norm)
    corner = ball.centre + random.standard_normal((1, 3)) * random.choice([0.1, 0.5])
    lower, upper = corner - random.random((1, 3)) * 0.4, corner + random.random((1, 3)) * 0.4
    slope = random.standard_normal((1, 1, 3))
    bound = Planes(slope, np.zeros((1, 1)), np.zeros((1, 1))).within(Known(lower, upper, ball=ball))[0, 0]
    grid = np.stack(np.meshgrid(*(np.linspace(a, b, 25) for a, b in zip(lower[0], upper[0], strict=True))), -1)
    points = [x for x in grid.reshape(-1, 3) if np.linalg.norm(x - ball.centre, norm) <= 0.5]
    if ball.misses(lower, upper)[0]:
        assert not points
    if points:
        least = min(float(x @ slope[0, 0]) for x in points)
        assert bound <= least
        if ball.centre in Box(lower[0], upper[0]):
            assert bound >= least - 2 * np.abs(slope[0, 0]) @ (upper - lower)[0] / 24


@pytest.mark.parametrize("norm", [1, 2])
def test_membership_is_exact(norm: int) -> None:
    ball = Ball(np.array([0.1, 0.2]), 0.5, norm)
    assert [0.1 + 0.5, 0.2] in ball or Fraction(0.1 + 0.5) - Fraction(0.1) > Fraction(0.5)
    assert [np.nextafter(0.6000000000000001, 1), 0.2] not in ball
    assert ball.centre in ball
    assert [0.1, 0.2 + 0.500001] not in ball


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.sampled_from([1, 2]))
def test_projections_are_inside_and_nearest(seed: int, norm: int) -> None:
    random = np.random.default_rng(seed)
    ball = Ball(random.standard_normal(5), 0.5, norm)
    far = ball.centre + random.standard_normal((8, 5)) * random.choice([0.01, 1, 10])
    near = ball.project(far)
    assert all(point in ball for point in near)
    assert all(point in ball.box for point in near)
    others = inside(ball, random, 200)
    for point, shadow in zip(far, near, strict=True):
        distance = np.linalg.norm(point - shadow)
        assert (np.linalg.norm(others - point, axis=1) >= distance - 1e-5).all()
    assert ((near - ball.centre) * (far - ball.centre) >= 0).all()


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([1, 2]))
def test_bounds_of_networks_hold_on_the_ball_and_are_no_worse_than_on_its_box(seed: int, norm: int) -> None:
    random = np.random.default_rng(seed)
    network = random_network(random, (4, 5, 5, 2))
    graph, ball = graph_of(network), Ball(random.standard_normal(4), 0.4, norm)
    rows, box = np.vstack([np.eye(2), -np.eye(2)]), ball.box
    found = {}
    for name, one in (("ball", ball), ("box", None)):
        known = tightened(graph, box.lower[None], box.upper[None], ball=one)
        found[name] = below(graph, len(graph.nodes) - 1, rows, known)[0]
    values = graph.evaluate(inside(ball, random, 500)) @ rows.T
    assert (values.min(axis=0) >= found["ball"] - 1e-9).all()
    assert (found["ball"] >= found["box"] - 1e-9).all()


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([1, 2]))
def test_verdicts_on_balls(seed: int, norm: int) -> None:
    """What holds has no unsafe sample; what is violated has a counterexample in the ball; a few inputs are decided."""
    random = np.random.default_rng(seed)
    network = random_network(random, (3, 4, 3))
    centre = random.random(3)
    label = int(network(centre).argmax())
    prop = robustness(centre, float(random.choice([0.05, 0.2, 0.5])), label, 3, norm=norm)  # type: ignore[arg-type]
    verdict = gv.verify(network, prop, timeout=20)
    assert verdict.statistics.engine == "regions"
    ball = prop.disjuncts[0].ball
    assert ball is not None
    if verdict.holds:
        points = np.clip(inside(ball, random, 4000), 0.0, 1.0)
        assert (network(points).argmax(axis=1) == label).all()
    elif verdict.counterexample is not None:
        assert verdict.counterexample.x in ball
        assert prop.is_unsafe_at(verdict.counterexample.x, verdict.counterexample.y)


@pytest.mark.parametrize("seed", range(30))
def test_taxicab_verdicts_are_those_of_enumeration(seed: int) -> None:
    """The taxicab ball of two inputs is four linear constraints, and enumeration decides those exactly."""
    random = np.random.default_rng(seed)
    network = random_network(random, (2, 4, 3))
    centre, radius = np.round(random.random(2) * 16) / 16, float(random.choice([0.125, 0.25, 0.5]))
    label = int(network(centre).argmax())
    prop = robustness(centre, radius, label, 3, norm=1, within=(-4.0, 4.0))
    signs = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    polytope = Polytope.of(signs, signs @ centre + radius)
    same = Property.of(*(replace(one, inputs=polytope, ball=None) for one in prop.disjuncts))
    expected = "sat" if is_sat(network, same) else "unsat"
    assert gv.verify(network, prop, timeout=20).word in {expected, "timeout"}


def test_the_ball_is_smaller_than_its_box() -> None:
    """|x1| + |x2| <= 1 on the taxicab ball; on the box around it the sum reaches 2."""
    from ginnacer_verify.graph.network import Network

    first = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], np.zeros(4)
    network = Network.from_arrays(first, ([[0.0] * 4, [1.0] * 4], [1.25, 0.0]))
    within = (-2.0, 2.0)
    for norm, limit in ((1, 1.25), (2, 1.25 / np.sqrt(2))):
        for radius, word in ((limit * 0.97, "unsat"), (limit * 1.03, "sat")):
            prop = robustness([0.0, 0.0], radius, 0, 2, within=within, norm=norm)  # type: ignore[arg-type]
            assert gv.verify(network, prop).word == word
    assert gv.verify(network, robustness([0.0, 0.0], 1.2, 0, 2, within=within)).word == "sat"


def test_weights_of_the_maximum_norm() -> None:
    prop = robustness([0.5, 0.5], [0.1, 0.2], 0, 2)
    assert np.allclose(prop.boxes[0].upper, [0.6, 0.7])
    for radius, norm in (([0.1, 0.2, 0.3], "inf"), ([0.1, 0.2], 2), (-1.0, 2), (np.inf, 1), (0.1, 3)):
        with pytest.raises(PropertyError):
            robustness([0.5, 0.5], radius, 0, 2, norm=norm)  # type: ignore[arg-type]


def test_what_has_no_balls() -> None:
    prop = robustness([0.5, 0.5], 0.1, 0, 2, norm=2)
    with pytest.raises(UnsupportedProperty, match="no balls"):
        to_vnnlib(prop)
