"""Exact folds: fewer ReLUs, the same function; nothing is left out that is needed."""

from fractions import Fraction

import numpy as np
import pytest
from cases import box_of, one_disjunct
from random_graphs import random_graph

from ginnacer_verify.arrays import Array
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.graph.chain import as_chain, graph_of
from ginnacer_verify.graph.folds import folded
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Affine, Apply, Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense, Select
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.pruning import pruned

IDENTITY = np.eye(3)


def chain(*layers: tuple[Array, Array]) -> Graph:
    return graph_of(Network.from_arrays(*layers))


def with_copies(random: np.random.Generator, layers: int = 2, width: int = 5) -> Graph:
    """Every layer has copies of its neurons and their negatives in any order."""
    made, inputs = [], 3
    for _ in range(layers):
        weight, bias = random.normal(size=(width, inputs)), random.normal(size=width)
        at, sign = random.integers(width, size=3 * width), random.choice([1.0, 1.0, -1.0], size=3 * width)
        made.append((weight[at] * sign[:, None], bias[at] * sign))
        inputs = 3 * width
    made.append((random.normal(size=(2, inputs)), random.normal(size=2)))
    return chain(*made)


@pytest.mark.parametrize("seed", range(40))
def test_copies_and_negatives_take_one_relu(seed: int) -> None:
    graph = with_copies(np.random.default_rng(seed))
    less = folded(graph)
    x = np.random.default_rng(1).normal(size=(200, 3))
    assert less.relus <= 10 < graph.relus
    assert np.allclose(less.evaluate(x), graph.evaluate(x), rtol=0, atol=1e-11)


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_compute_the_same(seed: int) -> None:
    graph = random_graph(seed, smooth=True)
    less = folded(graph)
    x = np.random.default_rng(seed).normal(size=(100, graph.inputs))
    assert np.allclose(less.evaluate(x), graph.evaluate(x), rtol=1e-12, atol=1e-12)


def test_relu_less_relu_of_the_negative_is_no_relu() -> None:
    """`relu(y) - relu(-y) = y`, and a value that is split so and added to others is a sum again."""
    split = chain(
        (np.vstack([IDENTITY, -IDENTITY]), np.array([1.0, 2.0, 3.0, -1.0, -2.0, -3.0])),
        (np.hstack([IDENTITY, -IDENTITY]), np.array([-1.0, -2.0, -3.0])),
        (np.ones((1, 3)), np.zeros(1)),
    )
    less = folded(split)
    assert (split.relus, less.relus) == (9, 3)
    assert as_chain(less).relus_per_layer == (3,)


def test_what_is_never_negative_is_its_own_relu() -> None:
    weight = np.random.default_rng(0).random((3, 3))
    graph = chain((IDENTITY, np.zeros(3)), (weight, np.array([0.0, 1.0, -1.0])), (np.ones((1, 3)), np.zeros(1)))
    assert folded(graph).relus == 4  # all of the first layer, and one with a negative constant


def test_an_absolute_value_takes_one_relu() -> None:
    builder = Builder()
    x = builder.input(2)
    one = builder.affine((x, Dense([[1.0, -1.0], [-1.0, 1.0]])))
    bent = builder.apply(Relu(), one)
    total = builder.affine((bent, Dense([[1.0, 1.0]])))  # |x - y|
    graph = builder.graph(total, [Tensor("X", (1, 2))], [Tensor("Y", (1, 1))])
    less = folded(graph)
    assert less.relus == 1
    assert less.evaluate(np.array([[1.0, 3.0], [3.0, 1.0]])).ravel().tolist() == [2.0, 2.0]


@pytest.mark.parametrize("seed", range(20))
def test_merged_weights_are_rounded_at_most_as_they_say(seed: int) -> None:
    """Sums of coefficients of any size: what a map says of its roundings covers what was lost."""
    random = np.random.default_rng(seed)
    coefficients = random.normal(size=6) * 10.0 ** random.integers(-12, 12, size=6)
    copies = int(random.integers(1, 7))
    weight = np.tile([[1.0, 2.0]], (6, 1))
    weight[copies:] = random.normal(size=(6 - copies, 2))
    graph = chain((weight, np.zeros(6)), (coefficients[None], np.zeros(1)))
    (last,) = [node for node in folded(graph).nodes[3:] if isinstance(node, Affine)][-1].maps
    exact = sum(map(Fraction, coefficients[:copies].tolist()), Fraction(0))
    off = abs(Fraction(float(last.matrix().toarray()[0, 0])) - exact)
    assert off <= abs(exact) * getattr(last, "roundings", 0) * Fraction(1, 2**53) * (1 + Fraction(1, 2**50))


def test_a_graph_without_copies_stays_what_it_is() -> None:
    graph = chain((np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros(2)), (np.ones((1, 2)), np.zeros(1)))
    assert folded(graph) is graph
    assert folded(graph.executed()).relus == 2


def test_executed_graphs_are_not_folded() -> None:
    graph = with_copies(np.random.default_rng(0)).executed()
    assert folded(graph) is graph


def test_what_nothing_uses_is_pruned() -> None:
    builder = Builder()
    x = builder.input(2)
    y = builder.apply(Relu(), builder.affine((x, Dense(np.ones((4, 2))))))
    z = builder.affine((y, Select([2], 4)))
    less = pruned(builder.graph(z, [Tensor("X", (1, 2))], [Tensor("Y", (1, 1))]))
    assert [node.size for node in less.nodes if isinstance(node, Apply)] == [1]
    assert less.evaluate(np.array([[1.0, 2.0]])).tolist() == [[3.0]]


@pytest.mark.parametrize("engine", ["auto", "boxes", "phases", "regions"])
def test_verdicts_of_what_is_folded_are_those_of_the_network(engine: str) -> None:
    """Counterexamples are replayed on the network as it was given."""
    for seed in range(10):
        graph = with_copies(np.random.default_rng(seed))
        box = box_of([-1.0] * 3, [1.0] * 3)
        values = graph.evaluate(box.sample(np.random.default_rng(0), 4000))[:, 0]
        spread = values.max() - values.min()
        safe = one_disjunct(box, [[1.0, 0.0]], [values.min() - 0.5 * spread])
        unsafe = one_disjunct(box, [[1.0, 0.0]], [values.min() + 0.05 * spread])
        assert verify(graph, safe, engine=engine).word == "unsat"
        assert verify(graph, unsafe, engine=engine).word == "sat"
