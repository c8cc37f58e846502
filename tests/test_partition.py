"""Partitions: what is valid, the shared upper bound, and what every strategy must give."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import EXTREMES, SCALES, layers, points

from benchmarks import benchmark
from ginnacer_verify.abstraction.abstraction import abstract
from ginnacer_verify.abstraction.icf import ICF, Anchor, canonical_form
from ginnacer_verify.abstraction.partition import Partition, is_valid, upper_bound, valid_subsets
from ginnacer_verify.abstraction.partitioning import strategies as chosen
from ginnacer_verify.arrays import dense
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.loading import load_chain

STRATEGIES = {
    "first_fit": chosen.first_fit,
    "random": chosen.random,
    "cosine": chosen.cosine,
    "best_fit": chosen.best_fit,
    "budget(1)": chosen.budget(1),
    "budget(4)": chosen.budget(4),
    "singletons": chosen.singletons,
}


@st.composite
def forms(draw: st.DrawFn, scales: tuple[float, ...] = SCALES, inputs: int = 6, outputs: int = 12) -> ICF:
    layer = draw(layers(inputs, outputs, scales))
    x = np.maximum(draw(points(inputs)), 0.0)
    return canonical_form(layer, x, layer(x), Anchor.zero(inputs))


def algorithm_valid_neuron_partition(rows: np.ndarray, bias: np.ndarray, x: np.ndarray) -> Partition:
    """The paper's pseudocode, line by line, in exact arithmetic."""
    n = len(bias)
    subsets: dict[int, set[int]] = {i: {i} for i in range(n)}  # lines 1, 2
    numbers = [[Fraction(float(w)) for w in row] for row in rows]
    offsets, point = [Fraction(float(b)) for b in bias], [Fraction(float(v)) for v in x]
    for i in range(n - 1):  # line 3
        for j in range(i + 1, n):  # line 4
            if i in subsets and j in subsets:  # line 5
                union = subsets[i] | subsets[j]  # line 6
                V = [max(numbers[r][s] for r in union) for s in range(len(point))]  # line 7
                u = max(offsets[r] for r in union)  # line 8
                if sum((v * p for v, p in zip(V, point, strict=True)), u) <= 0:  # lines 9, 10
                    subsets[i] = union  # line 11
                    del subsets[j]  # line 12
    return Partition(tuple(tuple(subset) for subset in subsets.values()))


def random_form(seed: int, inputs: int = 8, outputs: int = 24) -> ICF:
    random = np.random.default_rng(seed)
    layer = Layer(random.normal(size=(outputs, inputs)), random.normal(size=outputs))
    x = np.maximum(random.normal(size=inputs), 0.0)
    return canonical_form(layer, x, layer(x), Anchor.zero(inputs))


@pytest.mark.parametrize("seed", range(20))
def test_algorithm_valid_neuron_partition(seed: int) -> None:
    icf = random_form(seed)
    expected = algorithm_valid_neuron_partition(dense(icf.rows), icf.bias, icf.distance)
    assert chosen.first_fit(icf) == expected
    assert 1 < len(expected) < icf.neurons


@settings(max_examples=60)
@given(forms())
def test_layer_wise_upper_bound(icf: ICF) -> None:
    partition = Partition.of(np.arange(icf.neurons) % 5)
    bound = upper_bound(icf, partition)
    for number, subset in enumerate(partition.subsets):
        np.testing.assert_array_equal(dense(bound.weight)[number], dense(icf.rows)[list(subset)].max(axis=0))
        assert bound.bias[number] == icf.bias[list(subset)].max()


@settings(max_examples=60)
@given(forms(scales=(*SCALES, *EXTREMES)))
def test_valid_neuron_subset(icf: ICF) -> None:
    """What counts as valid is so in exact arithmetic, and `potential` bounds it from above."""
    partition = chosen.random(icf)
    bound = upper_bound(icf, partition)
    assert valid_subsets(icf, partition).all()
    x = [Fraction(float(v)) for v in icf.distance]
    for number, subset in enumerate(partition.subsets):
        if len(subset) > 1:
            V = [Fraction(float(v)) for v in dense(bound.weight)[number]]
            true = sum((v * p for v, p in zip(V, x, strict=True)), Fraction(float(bound.bias[number])))
            assert true <= Fraction(float(bound.potential[number])) <= 0


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=40)
@given(icf=forms(scales=(*SCALES, *EXTREMES)))
def test_valid_neuron_partition(name: str, icf: ICF) -> None:
    partition = STRATEGIES[name](icf)
    assert sorted(i for subset in partition.subsets for i in subset) == list(range(icf.neurons))
    assert is_valid(icf, partition)
    assert len(partition) >= chosen.lower_bound_on_subsets(icf)


def test_a_pair_that_turns_active_is_not_valid() -> None:
    """r_1 = x_1 - 1 and r_2 = x_2 - 1 are both -0.5 at (0.5, 0.5), their shared bound x_1 + x_2 - 1 is 0: refused."""
    layer, x = Layer(np.eye(2), -np.ones(2)), np.array([0.5, 0.5])
    icf = canonical_form(layer, x, layer(x), Anchor.zero(2))
    together = Partition(((0, 1),))
    assert not is_valid(icf, together)
    assert upper_bound(icf, together).potential[0] >= 0
    nearer = canonical_form(layer, np.array([0.4, 0.5]), layer(np.array([0.4, 0.5])), Anchor.zero(2))
    assert is_valid(nearer, together)


def test_neurons_that_are_constantly_zero_share_one_relu() -> None:
    layer = Layer(np.zeros((5, 3)), np.zeros(5))
    icf = canonical_form(layer, np.ones(3), np.zeros(5), Anchor.zero(3))
    assert len(chosen.first_fit(icf)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_dense_and_sparse_layers_give_the_same_partitions(seed: int) -> None:
    from scipy.sparse import csr_array

    random = np.random.default_rng(seed)
    weight = random.normal(size=(60, 80)) * (random.random((60, 80)) < 0.1)
    x = np.maximum(random.normal(size=80), 0.0)
    forms = []
    for form in (weight, csr_array(weight)):
        layer = Layer(form, np.linspace(-1, 1, 60))
        forms.append(canonical_form(layer, x, layer(x), Anchor.zero(80)))
    packed = ICF(dense(forms[1].rows), *(getattr(forms[1], name) for name in list(ICF.__dataclass_fields__)[1:]))
    for name in ("first_fit", "best_fit", "budget(4)", "cosine"):
        assert STRATEGIES[name](packed) == STRATEGIES[name](forms[1]), name
    np.testing.assert_array_equal(
        dense(upper_bound(packed, Partition.of(np.arange(60) % 7)).weight),
        dense(upper_bound(forms[1], Partition.of(np.arange(60) % 7)).weight),
    )


@pytest.mark.parametrize("seed", range(5))
def test_budget_keeps_to_the_number_and_lowers_the_cost(seed: int) -> None:
    icf = random_form(seed, outputs=40)
    fewest = min(len(chosen.first_fit(icf)), len(chosen.best_fit(icf)))
    for subsets in (1, fewest, fewest + 3, 40, 99):
        partition = chosen.budget(subsets)(icf)
        assert len(partition) <= max(subsets, fewest)
        assert is_valid(icf, partition)
    assert cost(icf, chosen.budget(fewest + 3)(icf)) < cost(icf, chosen.budget(fewest)(icf))
    if len(chosen.first_fit(icf)) >= fewest:
        assert cost(icf, chosen.budget(len(chosen.first_fit(icf)))(icf)) < cost(icf, chosen.first_fit(icf))


def cost(icf: ICF, partition: Partition) -> float:
    """Size times slope over the distance at which it turns active, as `moving.cost` says, without its code."""
    bound = upper_bound(icf, partition)
    norms = np.abs(dense(bound.weight)).sum(axis=1)
    sizes = np.array([len(subset) for subset in partition.subsets])
    return float((sizes * norms / (-bound.potential / norms + 1e-9)).sum())


def test_the_clique_bound_is_tight_on_conflicting_neurons() -> None:
    """Neuron i is x_i - 1 at the centroid 0.9: any two together exceed 0, so each needs its own ReLU."""
    layer, x = Layer(np.eye(7), -np.ones(7)), np.full(7, 0.9)
    icf = canonical_form(layer, x, layer(x), Anchor.zero(7))
    assert chosen.lower_bound_on_subsets(icf) == 7 == len(chosen.best_fit(icf))


def test_partitions_are_well_formed() -> None:
    assert Partition(((2, 0), (1,))) == Partition(((1,), (0, 2)))
    assert Partition.of([5, 7, 5]).subset_of.tolist() == [0, 1, 0]
    assert Partition(((0, 1, 2),)).split(0, [1]) == Partition(((0, 2), (1,)))
    for wrong in (((0,), (0, 1)), ((0,), (2,)), ((0,), ())):
        with pytest.raises(AbstractionError, match="exactly one subset"):
            Partition(wrong)
    for members in ([], [0, 1, 2], [5]):
        with pytest.raises(AbstractionError, match="some but not all"):
            Partition(((0, 1, 2),)).split(0, members)
    with pytest.raises(AbstractionError, match="one or more"):
        chosen.budget(0)


def test_lower_bounds_on_acas_xu() -> None:
    """The paper's open question: in layers 1 and 6 of ACAS Xu 1_1 the limit is the network's, not the strategy's."""
    network = load_chain(benchmark("acasxu", "ACASXU_run2a_1_1_batch_2000.onnx"))
    abstraction = abstract(network, np.array([0.639928885, 0.0, 0.0, 0.475, -0.475]), strategy=chosen.best_fit)
    limits = [chosen.lower_bound_on_subsets(layer.icf) for layer in abstraction.layers if hasattr(layer, "icf")]
    found = abstraction.relus_per_layer
    assert all(low <= count <= low + 2 for low, count in zip(limits, found, strict=True))
    assert (limits[0], limits[5]) == (found[0], found[5]) == (13, 25)
