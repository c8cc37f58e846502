"""Bounds from front to back: they hold at exact rationals and at sampled points, whatever functions lie between."""

from fractions import Fraction

import numpy as np
import pytest
from executed import executed
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import random_box, random_graph
from strategies import exact, networks

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.clipping import clipped
from ginnacer_verify.bounds.forward import forward
from ginnacer_verify.bounds.intervals import Known, intervals
from ginnacer_verify.bounds.substitution import Planes, planes, tightened
from ginnacer_verify.graph import activations, elementary, piecewise
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.function import Function, Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.product import Product


def forwards(graph: Graph, lower: Array, upper: Array) -> Known:
    """Each box with its own varying inputs, padded."""
    rows = [np.flatnonzero(low < high) for low, high in zip(lower, upper, strict=True)]
    varying = np.full((len(rows), max(map(len, rows))), -1)
    for i, row in enumerate(rows):
        varying[i, : len(row)] = row
    return forward(graph, lower, upper, varying)[0]


def boxes(random: np.random.Generator, inputs: int) -> tuple[Array, Array]:
    lower, upper = zip(*(random_box(random, inputs) for _ in range(3)), strict=True)
    return np.array(lower), np.array(upper)


def assert_holds(graph: Graph, known: Known, random: np.random.Generator, what: str) -> None:
    for i in range(known.batch):
        low, high = known.box_lower[i], known.box_upper[i]
        points = low + random.random((40, graph.inputs)) * (high - low)
        points[:20] = np.where(random.random((20, graph.inputs)) < 0.5, low, high)
        for number, value in enumerate(graph.through(np.clip(points, low, high))):
            slack = 1e-12 * (1 + np.abs(value))  # the evaluation itself rounds
            assert (value >= known.lower[number][i] - slack).all(), f"{what}, node {number}"
            assert (value <= known.upper[number][i] + slack).all(), f"{what}, node {number}"


@pytest.mark.parametrize("block", range(5))
def test_every_value_lies_within_its_bounds(block: int) -> None:
    for seed in range(40 * block, 40 * block + 40):
        random = np.random.default_rng(seed)
        graph = random_graph(seed, scale=float(random.choice([1.0, 1e-3, 1e3])))
        lower, upper = boxes(random, graph.inputs)
        known, plain = forwards(graph, lower, upper), intervals(graph, lower, upper)
        assert_holds(graph, known, random, f"seed {seed}")
        for tight, loose in zip(known.upper, plain.upper, strict=True):
            assert (tight <= loose + 1e-9 * (1 + np.abs(loose))).all(), f"seed {seed}"


FUNCTIONS: tuple[Function, ...] = (
    elementary.Sigmoid(),
    elementary.Tanh(),
    elementary.Sin(),
    elementary.Square(),
    activations.Gelu(),
    piecewise.Absolute(),
    piecewise.LeakyRelu(0.1),
    piecewise.Clip(-0.5, 0.5),
    piecewise.Maximum(2),
    Product(),
)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: type(function).__name__)
def test_functions_of_every_kind(function: Function) -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        builder = Builder()
        x = builder.input(3)
        sources = [builder.affine((x, Dense(random.normal(size=(4, 3))))) for _ in range(function.arity)]
        last = builder.affine((builder.apply(function, *sources), Dense(random.normal(size=(2, 4)))), bias=[1.0, -1.0])
        graph = builder.graph(last, [Tensor("X", (1, 3))], [Tensor("Y", (1, 2))])
        lower, upper = boxes(random, 3)
        assert_holds(graph, forwards(graph, lower, upper), random, f"seed {seed}")


def test_ways_that_part_and_meet_again() -> None:
    """Symbols of one way are not those of another, however alike their places are: here they would cancel."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        builder = Builder()
        x = builder.input(2)
        ways = []
        for _ in range(3):
            way = builder.apply(Relu(), builder.affine((x, Dense(random.normal(size=(4, 2))))))
            ways.append(builder.apply(Relu(), builder.affine((way, Dense(random.normal(size=(4, 4)))))))
        met = builder.affine(*((way, Dense(random.choice([-1.0, 1.0], size=(3, 4)))) for way in ways))
        last = builder.affine((builder.apply(Relu(), met), Dense(random.normal(size=(2, 3)))))
        graph = builder.graph(last, [Tensor("X", (1, 2))], [Tensor("Y", (1, 2))])
        lower = random.normal(size=(3, 2)) - 1
        assert_holds(graph, forwards(graph, lower, lower + 2 * random.random((3, 2))), random, f"seed {seed}")


@given(networks(), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_bounds_hold_in_exact_arithmetic(network: Network, seed: int) -> None:
    random = np.random.default_rng(seed)
    lower, upper = random_box(random, network.inputs)
    known = forwards(graph_of(network), lower[None], upper[None])
    for _ in range(6):
        x = np.clip(lower + random.random(len(lower)) * (upper - lower), lower, upper)
        for k, y in enumerate(exact(network, x)):
            low, high = float(known.lower[-1][0, k]), float(known.upper[-1][0, k])
            assert low == -np.inf or Fraction(low) <= y
            assert high == np.inf or y <= Fraction(high)


def test_bounds_hold_for_every_execution() -> None:
    for seed in range(100):
        graph, random = random_graph(seed, 10.0 ** (seed % 3)), np.random.default_rng(seed)
        x = (random.normal(size=graph.inputs)).astype(np.float32).astype(np.float64)
        known = forwards(graph.executed(), x[None], x[None])
        for low, high, y in zip(known.lower, known.upper, executed(graph, x, random), strict=True):
            assert ((low[0] <= y) & (y <= high[0])).all(), f"seed {seed}"


def test_few_inputs_lose_little_against_back_substitution() -> None:
    """On small boxes most neurons are stable, and what is left is the same."""
    for seed in range(30):
        random = np.random.default_rng(seed)
        graph = random_graph(seed)
        middle = random.normal(size=(1, graph.inputs))
        lower, upper = middle - 1e-3, middle + 1e-3
        found, best = forwards(graph, lower, upper), tightened(graph, lower, upper)
        for number in (graph.nodes[k].sources[0] for k in graph.applied):
            width, least = (known.upper[number] - known.lower[number] for known in (found, best))
            assert (width <= 1.5 * least + 1e-6).all(), f"seed {seed}, node {number}"


def test_clipping_keeps_every_point_that_may_be_unsafe() -> None:
    cut = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        graph = random_graph(seed)
        lower, upper = random_box(random, graph.inputs)
        rows = random.normal(size=(2, graph.outputs))
        points = np.clip(lower + random.random((500, graph.inputs)) * (upper - lower), lower, upper)
        values = graph.evaluate(points) @ rows.T
        offset = values[random.integers(500)] + 1e-9
        known = tightened(graph, lower[None], upper[None])
        found = planes(graph, len(graph.nodes) - 1, rows[None], known)
        low, high, none = clipped(found, offset[None], lower[None], upper[None])
        unsafe = points[(values <= offset).all(axis=1)]
        assert not none[0], f"seed {seed}"
        assert ((unsafe >= low[0]) & (unsafe <= high[0])).all(), f"seed {seed}"
        cut += bool((low[0] > lower).any() or (high[0] < upper).any())
    assert cut > 50


def test_clipping_by_planes_that_are_no_numbers_cuts_nothing() -> None:
    nothing = Planes(np.full((1, 1, 2), np.nan), np.full((1, 1), np.nan), np.zeros((1, 1)))
    low, high, none = clipped(nothing, np.zeros((1, 1)), -np.ones((1, 2)), np.ones((1, 2)))
    assert not none[0]
    assert (low == -1).all()
    assert (high == 1).all()
