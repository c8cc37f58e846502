"""Compiled boxes on graphs: verdicts by enumeration and by sampling, lines next to what functions really are."""

from functools import partial

import numpy as np
import pytest
from cases import BY_HAND, Case, box_of, one_disjunct
from deciding import Nobody, as_by_enumeration, as_sampled, word_of
from random_graphs import random_box, random_graph

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.cells import tasks
from ginnacer_verify.engines.boxes.graph import GraphRun
from ginnacer_verify.engines.boxes.tape import flat_of, takes
from ginnacer_verify.engines.boxes.taped import TapeRun, graph_run
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.parts import parts
from ginnacer_verify.graph import elementary, piecewise
from ginnacer_verify.graph.activations import Gelu
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.function import Function, Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense, Select
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.product import Product
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.replay.judge import Judge

ONE: dict[str, Function] = {
    "relu": Relu(),
    "leaky": piecewise.LeakyRelu(0.1),
    "falling": piecewise.LeakyRelu(-0.5),
    "absolute": piecewise.Absolute(),
    "sigmoid": elementary.Sigmoid(),
    "tanh": elementary.Tanh(),
    "square": elementary.Square(),
    "reciprocal": elementary.Reciprocal(),
    "exponential": elementary.Exp(),
}
TWO: dict[str, Function] = {
    "product": Product(),
    "maximum": piecewise.Maximum(2),
    "minimum": piecewise.Minimum(2),
}


def budget(seconds: float, *, threads: int = 2, restarts: int = 0) -> Budget:
    return Budget(Deadline.after(seconds), threads=threads, restarts=restarts)


def decide(network: Network, prop: Property, *, falsify: bool = False, timeout: float = 10.0) -> str:
    judge = Judge(network, prop)
    return word_of(graph_run(judge)(judge, budget(timeout, restarts=24 if falsify else 0)))


def proved(graph: Graph, prop: Property, timeout: float) -> bool:
    judge = Nobody.of(graph, prop)
    return graph_run(judge)(judge, budget(timeout, threads=1)).run() is None


def graph_with(function: Function, weight: float = 1.0, bias: float = 0.0) -> Graph:
    """`f(weight * x + bias)`, or the same of two inputs."""
    builder = Builder()
    x = builder.input(function.arity)
    sides = [
        builder.affine((x, Dense(weight * np.eye(function.arity)[k : k + 1])), bias=bias) for k in range(function.arity)
    ]
    y = builder.apply(function, *sides)
    return builder.graph(y, [Tensor("X", (1, function.arity))], [Tensor("Y", (1, 1))])


@pytest.mark.parametrize("block", range(4))
def test_verdicts_are_those_of_exhaustive_enumeration(block: int) -> None:
    """100 random tiny networks a block, the falsifier off."""
    as_by_enumeration(partial(decide, timeout=2.0), range(block * 100, block * 100 + 100), most_undecided=5)


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.name)
def test_cases_by_hand(case: Case) -> None:
    assert decide(case.network, case.prop, falsify=True) == case.expected


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("block", range(3))
def test_random_graphs(block: int, smooth: bool) -> None:
    as_sampled(proved, range(block * 50, block * 50 + 50), smooth=smooth)


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_nothing_that_a_function_attains_is_out_of_reach(name: str) -> None:
    """Thresholds a hair inside of what is attained, on intervals of all sizes and places; and a proof where they are
    well outside, which takes halving."""
    function = {**ONE, **TWO}[name]
    random = np.random.default_rng(len(name))
    for trial in range(25):
        graph = graph_with(function, float(random.choice([0.5, 1.0, -2.0, 30.0])), float(random.normal()))
        lower = random.normal(size=function.arity) * random.choice([0.1, 1.0, 5.0])
        upper = lower + random.choice([1e-6, 0.1, 1.0, 4.0], size=function.arity) * random.random(function.arity)
        if name == "reciprocal":
            lower = np.abs(lower) + 3.0
            upper = np.maximum(lower + 0.1, upper)
        points = np.concatenate([lower + random.random((2000, function.arity)) * (upper - lower), [lower], [upper]])
        values = graph.evaluate(points)[:, 0]
        if name == "reciprocal" and not np.isfinite(values).all():
            continue
        box, scale = box_of(lower, upper), np.abs(values).max()
        for sign in (1.0, -1.0):
            least = float((sign * values).min())
            inside = one_disjunct(box, [[sign]], [least + 1e-12 * scale])
            assert not proved(graph, inside, 0.05), f"trial {trial}"
            if name != "reciprocal":
                outside = one_disjunct(
                    box, [[sign]], [least - 0.05 * (values.max() - values.min()) - 1e-6 * scale - 1e-12]
                )
                assert proved(graph, outside, 20.0), f"trial {trial}"


def test_all_functions_are_taken_and_others_are_not() -> None:
    for function in (*ONE.values(), *TWO.values(), piecewise.Maximum(4)):
        assert takes(graph_with(function))
    for other in (Gelu(), elementary.Sin(), elementary.Log(), piecewise.LeakyRelu(2.0)):
        graph = graph_with(other)
        assert not takes(graph)
        prop = one_disjunct(box_of([-1.0], [1.0]), [[1.0]], [-9.0])
        assert graph_run(Nobody.of(graph, prop)) is GraphRun
    assert not takes(graph_with(Relu()).executed())


def test_what_is_constant_is_no_value_of_the_tape() -> None:
    """A mask of fixed inputs, the values that it keeps, and copies."""
    builder = Builder()
    x = builder.input(6)
    values = builder.apply(Relu(), builder.affine((x, Select([0, 1, 2], 6))))
    masked = builder.apply(Product(), values, builder.affine((x, Select([3, 4, 5], 6))))
    total = builder.affine((masked, Dense([[1.0, 1.0, 1.0]])), bias=1.0)
    graph = builder.graph(total, [Tensor("X", (1, 6))], [Tensor("Y", (1, 1))])
    flat = flat_of(graph, [1])
    assert flat.length == 5  # the input, its ReLU, its mask, their product, the sum
    lower, upper = [2.0, -1.0, 3.0, 1.0, 0.5, 0.0], [2.0, 1.0, 3.0, 1.0, 0.5, 0.0]
    least = one_disjunct(box_of(lower, upper), [[1.0]], [3.0 - 1e-6])
    most = one_disjunct(box_of(lower, upper), [[-1.0]], [-3.5 - 1e-6])
    reached = one_disjunct(box_of(lower, upper), [[1.0]], [3.0 + 1e-6])
    assert proved(graph, least, 10.0)
    assert proved(graph, most, 10.0)
    assert not proved(graph, reached, 0.1)


def test_parts_with_constants_of_their_own_share_a_tape() -> None:
    """Each box has other fixed inputs, and a threshold next to what is attained on it."""
    random = np.random.default_rng(0)
    network = graph_of(
        Network.from_arrays((random.normal(size=(8, 4)), random.normal(size=8)), (random.normal(size=(1, 8)), [0.1]))
    )
    tight: list[Disjunct] = []
    for k in range(40):
        lower = random.normal(size=4)
        upper = lower + np.where(np.arange(4) == 2, 1.0, 0.0)
        points = lower + random.random((2000, 4)) * (upper - lower)
        least = float(network.evaluate(points).min())
        offset = least - (0.01 if k < 39 else -0.001)
        tight.append(Disjunct(box_of(lower, upper), Polytope.everything(4), Polytope.of([[1.0]], [offset])))
    safe = Property.of(*tight[:39])
    (task,) = tasks(network, [one.outputs for one in safe.disjuncts], parts(safe))
    assert len(task.parts) == 39
    assert proved(network, safe, 20.0)
    assert not proved(network, Property.of(*tight), 0.2)


def test_more_disjuncts_than_bits() -> None:
    network = graph_of(Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0])))
    box = box_of([-1.0], [1.0])
    many = [Disjunct(box, Polytope.everything(1), Polytope.of([[1.0]], [-0.01 - k / 100])) for k in range(200)]
    assert proved(network, Property.of(*many), 20.0)
    reached = Disjunct(box, Polytope.everything(1), Polytope.of([[-1.0]], [-0.999]))
    assert not proved(network, Property.of(*many, reached), 0.1)


def test_conjunctions_are_out_of_reach_together() -> None:
    """`x >= 0.1` and `-x >= 0.1` are each attained, but not both: a mixture of rows proves that on the whole box."""
    network = graph_of(Network.from_arrays(([[1.0]], [0.0])))
    both = Polytope.of([[-1.0], [1.0]], [-0.1, -0.1])
    prop = Property.of(Disjunct(box_of([-1.0], [1.0]), Polytope.everything(1), both))
    judge = Nobody.of(network, prop)
    run = TapeRun(judge, budget(10.0))
    assert run.run() is None
    assert run.boxes == 1


def test_what_is_left_covers_every_unsafe_input() -> None:
    """Stopped early, the boxes that remain hold every point that was seen to be unsafe."""
    for seed in range(30):
        random = np.random.default_rng(seed)
        graph = random_graph(seed, smooth=True)
        lower, upper = random_box(random, graph.inputs)
        if not takes(graph) or (lower == upper).all():
            continue
        points = np.clip(lower + random.random((1000, graph.inputs)) * (upper - lower), lower, upper)
        row = random.normal(size=(1, graph.outputs))
        values = graph.evaluate(points) @ row.T
        prop = one_disjunct(box_of(lower, upper), row, [float(np.quantile(values, 0.2))])
        run = TapeRun(Nobody.of(graph, prop), budget(0.1))
        assert run.run() is not None
        left = list(run.remaining)
        assert all(part.disjuncts == (0,) for part in left)
        low, high = (np.array([getattr(part.box, end) for part in left]) for end in ("lower", "upper"))
        for x in points[values[:, 0] <= prop.disjuncts[0].outputs.offset[0]]:
            assert ((low <= x) & (x <= high)).all(axis=1).any(), f"seed {seed}"


def test_an_expired_deadline_leaves_everything() -> None:
    case = BY_HAND[1]
    run = TapeRun(Judge(case.network, case.prop), budget(0.0))
    assert "time" in str(run.run()).lower()
    assert [part.disjuncts for part in run.remaining] == [(0,)]


def test_a_value_that_is_no_number_proves_nothing() -> None:
    """Weights that overflow on the box."""
    graph = graph_of(Network.from_arrays(([[1e200]], [0.0]), ([[1e200]], [0.0]), ([[1.0]], [0.0])))
    assert not proved(graph, one_disjunct(box_of([-1.0], [1.0]), [[1.0]], [-1.0]), 0.1)
    assert not proved(graph, one_disjunct(box_of([1.0], [2.0]), [[-1.0]], [-1.0]), 0.1)
