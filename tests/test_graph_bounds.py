"""Bounds of graphs: they hold at exact rationals, they agree with the chain's, better choices are never unsound."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import random_box, random_graph
from strategies import exact, networks

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.ascent import Cuts, Multipliers, ascend
from ginnacer_verify.bounds.chain import linear_bounds
from ginnacer_verify.bounds.intervals import intervals
from ginnacer_verify.bounds.substitution import Choices, below, planes, tightened
from ginnacer_verify.box import Box
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.network import Network


def corner_points(lower: Array, upper: Array, random: np.random.Generator, count: int) -> Array:
    """Random points, the first half of them corners."""
    points = lower + random.random((count, len(lower))) * (upper - lower)
    points[: count // 2] = np.where(random.random((count // 2, len(lower))) < 0.5, lower, upper)
    return np.asarray(np.clip(points, lower, upper))


@pytest.mark.parametrize("block", range(10))
def test_every_value_lies_within_its_bounds(block: int) -> None:
    """40 graphs a block, boxes in batches of three, each node at sampled points of each box."""
    for seed in range(40 * block, 40 * block + 40):
        random = np.random.default_rng(seed)
        graph = random_graph(seed, scale=float(random.choice([1.0, 1e-3, 1e3])))
        lower, upper = (
            np.array(ends) for ends in zip(*(random_box(random, graph.inputs) for _ in range(3)), strict=True)
        )
        plain, tight = intervals(graph, lower, upper), tightened(graph, lower, upper)
        for i in range(3):
            values = list(graph.through(corner_points(lower[i], upper[i], random, 40)))
            for number, value in enumerate(values):
                slack = 1e-12 * (1 + np.abs(value))  # the evaluation itself rounds
                for known in (plain, tight):
                    assert (value >= known.lower[number][i] - slack).all(), f"seed {seed}, node {number}"
                    assert (value <= known.upper[number][i] + slack).all(), f"seed {seed}, node {number}"
                size = 1 + np.abs(plain.lower[number])
                assert (tight.lower[number] >= plain.lower[number] - 1e-4 * size).all()


@given(networks(), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_bounds_hold_in_exact_arithmetic_whatever_the_choices(network: Network, seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = graph_of(network)
    lower, upper = random_box(random, network.inputs)
    known = tightened(graph, lower[None], upper[None])
    choice = {number: random.random((1, 1, graph.nodes[number].size)) for number in graph.applied}
    rows = np.vstack([np.eye(network.outputs), -np.eye(network.outputs)])
    for bound in (
        below(graph, len(graph.nodes) - 1, rows, known)[0],
        below(graph, len(graph.nodes) - 1, rows, known, Choices(low=choice))[0],
    ):
        for x in corner_points(lower, upper, random, 6):
            y = exact(network, x)
            for k in range(network.outputs):
                assert bound[k] == -np.inf or Fraction(float(bound[k])) <= y[k]
                assert bound[network.outputs + k] == -np.inf or Fraction(float(bound[network.outputs + k])) <= -y[k]


@given(networks(), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_decisions_may_be_exploited_only_where_they_hold(network: Network, seed: int) -> None:
    """With cuts and random multipliers the bound holds at every point that satisfies the cuts."""
    random = np.random.default_rng(seed)
    graph = graph_of(network)
    lower, upper = random_box(random, network.inputs)
    known = tightened(graph, lower[None], upper[None])
    if not graph.applied:
        return
    source = graph.nodes[int(random.choice(graph.applied))].sources[0]
    points = corner_points(lower, upper, random, 30)
    values = list(graph.through(points))[source]
    at = values[0] + 0.0
    side = random.choice([-1.0, 1.0], size=len(at))
    weight = random.exponential(size=len(at))
    inside = (side * (values - at) >= 0).all(axis=1)
    force = {source: [((weight * side)[None, None], at[None])]}
    row = np.eye(network.outputs)[:1]
    bound = planes(graph, len(graph.nodes) - 1, row[None], known, Choices(force=force)).least(lower[None], upper[None])
    for x in points[inside][:5]:
        y = exact(network, x)
        slack = Fraction(1, 10**6) * (1 + abs(y[0]))  # a point may satisfy a cut only up to its own rounding
        assert bound[0, 0] == -np.inf or Fraction(float(bound[0, 0])) <= y[0] + slack * Fraction(
            float(1 + weight.sum())
        )


@pytest.mark.parametrize("seed", range(30))
def test_back_substitution_is_that_of_the_chain(seed: int) -> None:
    from cases import random_network

    random = np.random.default_rng(seed)
    network = random_network(random, (3, 5, 4, 2))
    lower, upper = random_box(random, 3)
    known = tightened(graph_of(network), lower[None], upper[None])
    rows = np.vstack([np.eye(2), -np.eye(2)])
    found = below(graph_of(network), 5, rows, known)[0]
    chain = linear_bounds(network.layers, Box(lower, upper))
    both = np.fmax(found, np.concatenate([known.lower[5][0], -known.upper[5][0]]))
    np.testing.assert_allclose(both, [*chain.lower[-1], *-chain.upper[-1]], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_the_ascent_only_improves_and_stays_below(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = random_graph(seed)
    lower, upper = random_box(random, graph.inputs)
    known = tightened(graph, lower[None], upper[None])
    rows, offset = random.normal(size=(1, 2, graph.outputs)), random.normal(size=(1, 2))
    low = {n: np.full((1, graph.nodes[n].size), 0.5) for n in graph.applied}
    start = Multipliers(low=low, rows=np.full((1, 2), 0.5))
    cuts: dict[int, Cuts] = {}
    first, better = (ascend(graph, rows, offset, known, cuts, start, steps) for steps in (0, 20))
    assert better.bound[0] >= first.bound[0]
    weights = better.multipliers.rows[0]
    y = graph.evaluate(corner_points(lower, upper, random, 200))
    assert (better.bound[0] <= (y @ rows[0].T - offset[0]) @ weights + 1e-9).all()


def test_overflow_proves_nothing() -> None:
    network = Network.from_arrays((np.full((3, 2), 1e200), np.zeros(3)), (np.full((1, 3), 1e200), np.zeros(1)))
    graph = graph_of(network)
    known = tightened(graph, np.full((1, 2), -1e3), np.full((1, 2), 1e3))
    assert below(graph, 3, np.array([[1.0], [-1.0]]), known).tolist() == [[-np.inf, -np.inf]]
