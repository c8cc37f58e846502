"""The three requirements of the paper's definition of GINNACER, and what we add to them.

Soundness is checked against the network in rational arithmetic, without any tolerance."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from strategies import EXTREMES, SCALES, batch_around, exact, networks, points

from benchmarks import benchmark
from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.abstraction.layer import AbstractLayer
from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.abstraction.partitioning import strategies as chosen
from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError, NetworkError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.vnnlib import read_vnnlib

EXAMPLES = settings(max_examples=60)


@st.composite
def abstractions(draw: st.DrawFn, scales: tuple[float, ...] = SCALES, clip: bool | None = None) -> Abstraction:
    """Any network, centroid, strategy, input mode, set of layers, with and without the clip."""
    network = draw(networks(scales))
    centroid = draw(points(network.inputs))
    mode = draw(st.sampled_from(["nonnegative", "pre-layer", "centred", "shift", "nearest"]))
    if mode == "nonnegative":
        centroid = np.abs(centroid)
    hidden = range(1, len(network.layers))
    try:
        return abstract(
            network,
            centroid,
            strategy=draw(st.sampled_from([chosen.first_fit, chosen.random, chosen.best_fit, chosen.budget(3)])),
            layers=draw(st.one_of(st.none(), st.lists(st.sampled_from(hidden), min_size=1))),
            inputs=mode,  # type: ignore[arg-type]
            box=Box(centroid - np.resize([0.5, 2.0], len(centroid)), centroid + 1.0),
            clip=draw(st.booleans()) if clip is None else clip,
        )
    except AbstractionError as problem:
        if "overflows at the centroid" not in str(problem):
            raise
        reject()


def inside(abstraction: Abstraction, seed: int) -> Array:
    return abstraction.domain.clip(batch_around(abstraction.centroid, seed))


def assert_sound(abstraction: Abstraction, batch: Array) -> None:
    lower, upper = abstraction(batch)
    for x, low, high in zip(batch, lower, upper, strict=True):
        if (x != abstraction.centroid).any():
            for value, below, above in zip(exact(abstraction.network, x), low, high, strict=True):
                assert not np.isfinite(below) or Fraction(float(below)) <= value
                assert not np.isfinite(above) or value <= Fraction(float(above))
                assert below < np.inf  # nor a NaN
                assert above > -np.inf


@EXAMPLES
@given(abstractions(), st.integers(0, 2**32 - 1))
def test_global_soundness(abstraction: Abstraction, seed: int) -> None:
    assert_sound(abstraction, inside(abstraction, seed))


@EXAMPLES
@given(abstractions(scales=EXTREMES), st.integers(0, 2**32 - 1))
def test_global_soundness_with_huge_and_tiny_weights(abstraction: Abstraction, seed: int) -> None:
    assert_sound(abstraction, inside(abstraction, seed))


@EXAMPLES
@given(abstractions(), st.integers(0, 2**32 - 1))
def test_global_soundness_where_neurons_switch(abstraction: Abstraction, seed: int) -> None:
    """Adversarial points: on the hyperplanes of the first layer's neurons, next to the centroid."""
    first, c = abstraction.network.layers[0], abstraction.centroid
    weight = dense(first.weight)
    norms = (weight**2).sum(axis=1)
    steps = -(first(c) / np.where(norms > 0, norms, 1.0))[:, None] * weight
    batch = np.vstack([c + steps * scale for scale in (1.0, 1 - 1e-12, 1 + 1e-12, 2.0)])
    assert_sound(abstraction, abstraction.domain.clip(batch))


@EXAMPLES
@given(abstractions(scales=(*SCALES, *EXTREMES)), st.integers(0, 2**32 - 1))
def test_center_exact_reconstruction(abstraction: Abstraction, seed: int) -> None:
    """Bit for bit, alone and in batches of any size and at any place in them."""
    c = abstraction.centroid
    expected = abstraction.network(c)
    lower, upper = abstraction(c)
    assert lower.tolist() == upper.tolist() == expected.tolist()
    batch = inside(abstraction, seed)
    for size in (2, 5, len(batch)):
        lower, upper = abstraction(np.vstack([batch[:size], c]))
        for row in (0, size):
            assert lower[row].tolist() == upper[row].tolist() == expected.tolist()


@EXAMPLES
@given(networks(), st.data())
def test_reduced_non_linearity(network: Network, data: st.DataObject) -> None:
    strategy = data.draw(st.sampled_from([chosen.first_fit, chosen.best_fit, chosen.budget(2)]))
    abstraction = abstract(network, data.draw(points(network.inputs)), strategy=strategy)
    assert all(new <= old for new, old in zip(abstraction.relus_per_layer, network.relus_per_layer, strict=True))
    alone = abstract(network, abstraction.centroid, strategy=chosen.singletons)
    assert alone.relus_per_layer == network.relus_per_layer


@EXAMPLES
@given(abstractions(clip=True), st.integers(0, 2**32 - 1), st.randoms(use_true_random=False))
def test_refinement_is_nested_with_the_clip(abstraction: Abstraction, seed: int, random: Any) -> None:
    """R5 of the paper's form: any split only tightens the bounds, up to rounding."""
    batch = inside(abstraction, seed)
    lower, upper = abstraction(batch)
    for number, partition in abstraction.partitions.items():
        large = [k for k, subset in enumerate(partition.subsets) if len(subset) > 1]
        if large:
            k = random.choice(large)
            finer = partition.split(k, partition.subsets[k][: random.randint(1, len(partition.subsets[k]) - 1)])
            low, high = abstraction.with_partition(number, finer)(batch)
            slack = 1e-9 * (np.abs(lower) + np.abs(upper)) + 1e-300
            assert (low >= lower - slack).all()
            assert (high <= upper + slack).all()


def test_refinement_is_not_nested_without_the_clip() -> None:
    """FIELD's example: with an unclipped negative lower bound the finer weight -5 times -1 exceeds the coarser -1."""
    network = Network.from_arrays(
        ([[1.0]], [1.0]), ([[1.0], [1.0]], [0.0, 0.0]), ([[-1.0, 0.0], [-5.0, 0.0]], [-1.0, -1.0]), (np.eye(2), [0, 0])
    )
    coarse, fine = (
        abstract(network, [0.0], strategy=[chosen.singletons, chosen.singletons, third], inputs="centred")
        for third in (lambda icf: Partition(((0, 1),)), chosen.singletons)
    )
    x = np.array([-3.0])
    assert fine(x)[1][1] > coarse(x)[1][1]


@EXAMPLES
@given(networks(), st.data(), st.integers(0, 2**32 - 1))
def test_algorithm_execute(network: Network, data: st.DataObject, seed: int) -> None:
    """Our centre and radius form gives what the paper's pseudocode gives with its + and - parts, line by line."""
    abstraction = abstract(network, np.abs(data.draw(points(network.inputs))), inputs="nonnegative")
    for x in inside(abstraction, seed):
        lower = upper = x  # line 4
        for layer in abstraction.layers:  # line 6
            assert isinstance(layer, AbstractLayer)
            V, u, A = dense(layer.bound.weight), layer.bound.bias, layer.icf.active[:, None]
            AW, Ab = dense(layer.layer.weight) * A, layer.layer.bias * layer.icf.active
            r = np.maximum(V, 0) @ upper + np.minimum(V, 0) @ lower + u  # line 7
            t_upper = np.maximum(AW, 0) @ upper + np.minimum(AW, 0) @ lower + Ab  # line 8
            t_lower = np.maximum(AW, 0) @ lower + np.minimum(AW, 0) @ upper + Ab  # line 9
            upper = np.maximum(r, 0)[layer.partition.subset_of] + t_upper  # line 10
            lower = t_lower  # line 11
        last, bias = dense(network.layers[-1].weight), network.layers[-1].bias
        high = np.maximum(last, 0) @ upper + np.minimum(last, 0) @ lower + bias
        low = np.maximum(last, 0) @ lower + np.minimum(last, 0) @ upper + bias
        scale = 1e-7 * (1 + np.abs(low) + np.abs(high) + np.abs(last) @ (np.abs(upper) + np.abs(lower)))
        found = abstraction(x)
        assert (np.abs(found[0] - low) <= scale).all()
        assert (np.abs(found[1] - high) <= scale).all()


def acas() -> tuple[Network, Array]:
    network = load_chain(benchmark("acasxu", "ACASXU_run2a_1_1_batch_2000.onnx"))
    (box,) = read_vnnlib(benchmark("acasxu", "prop_1.vnnlib")).boxes
    return network, box.middle


def mnist() -> tuple[Network, Array]:
    (box,) = read_vnnlib(benchmark("mnistfc", "prop_0_0.03.vnnlib")).boxes
    return load_chain(benchmark("mnistfc", "mnist-net_256x6.onnx")), box.middle


def test_acas_xu_counts() -> None:
    network, centroid = acas()
    assert abstract(network, centroid).relus_per_layer == (14, 38, 39, 40, 37, 27)
    assert abstract(network, centroid).entry.relus == 10
    assert abstract(network, centroid, inputs="centred").relus_per_layer == (1, 38, 39, 40, 37, 27)
    assert abstract(network, centroid, layers=[3, 4]).relus_per_layer == (50, 50, 39, 40, 100, 100)


def surface(centroid: Array, distance: float, least: float, count: int = 2000) -> Array:
    random = np.random.default_rng(7)
    steps = random.uniform(-distance, distance, (count, len(centroid)))
    steps[np.arange(count), random.integers(len(centroid), size=count)] = distance
    return np.maximum(centroid + steps, least)


@pytest.mark.parametrize(
    ("case", "least", "mode", "counts"),
    [
        (acas, -np.inf, "centred", (14, 38, 39, 40, 37, 27)),
        (mnist, 0.0, "nonnegative", (234, 136, 102, 105, 83, 6)),
    ],
)
def test_budget_is_ten_times_tighter_than_first_fit(
    case: Callable[[], tuple[Network, Array]], least: float, mode: Any, counts: tuple[int, ...]
) -> None:
    """At no more ReLUs, at distances 0.01 and 0.1."""
    network, centroid = case()
    paper = abstract(network, centroid)
    ours = abstract(network, centroid, strategy=[chosen.budget(count) for count in counts], inputs=mode)
    assert sum(ours.relus_per_layer) <= sum(paper.relus_per_layer)
    for distance in (0.01, 0.1):
        batch = surface(centroid, distance, least)
        assert ours.margin(batch).max() * 10 <= paper.margin(batch).max()


def test_the_margin_is_zero_in_a_pocket_around_the_centroid() -> None:
    network, centroid = acas()
    assert abstract(network, centroid).margin(surface(centroid, 1e-6, -np.inf)).max() < 1e-14


def test_batches_agree_with_single_inputs_and_with_their_shape() -> None:
    network, centroid = acas()
    abstraction, batch = abstract(network, centroid), surface(centroid, 0.1, -np.inf, 300)
    lower, upper = abstraction(batch)
    assert lower.shape == upper.shape == (300, 5)
    low, high = abstraction(batch[17].reshape(network.input_shape))
    np.testing.assert_allclose(low, lower[17], rtol=1e-9)
    np.testing.assert_allclose(high, upper[17], rtol=1e-9)
    assert [part.shape for part in abstraction(batch[:0])] == [(0, 5), (0, 5)]


def test_far_inputs_get_infinite_bounds_instead_of_wrong_ones() -> None:
    network, centroid = acas()
    abstraction = abstract(network, centroid)
    for far in (1e200, 1e308, np.inf, np.nan):
        if np.isnan(far):
            with pytest.raises(AbstractionError):
                abstraction(np.full(5, far))
            continue
        lower, upper = abstraction(np.full(5, far))
        assert (lower == -np.inf).all()
        assert (upper == np.inf).all()


def test_describe() -> None:
    network = Network.from_arrays((np.eye(3), [-1, -1, 1]), (np.ones((1, 3)), [0]))
    text = abstract(network, [-1.0, 0.0, 0.0], clip=True).describe()
    assert [line.split() for line in text.splitlines()][1:3] == [["1", "3", "1", "33.3%"], ["all", "3", "1", "33.3%"]]
    assert "6 ReLUs of the pre-layer" in text
    assert "1 ReLUs of the clip" in text


def network_2_3_1() -> Network:
    return Network.from_arrays((np.ones((3, 2)), [1, -5, 2]), (np.ones((1, 3)), [0]))


def wrong_calls() -> Iterator[tuple[str, Callable[[], object]]]:
    network = network_2_3_1()
    yield "does not fit", lambda: abstract(network, [1.0])
    yield "finite", lambda: abstract(network, [1.0, np.nan])
    yield "finite", lambda: abstract(network, [1.0, np.inf])
    yield "pre-layer", lambda: abstract(network, [1.0, -1.0], inputs="nonnegative")
    yield "pre-layer", lambda: abstract(network, [1.0, 1.0], inputs="nonnegative")([1.0, -1e-9])
    yield "needs a box", lambda: abstract(network, [1.0, 1.0], inputs="shift")
    yield "domain", lambda: abstract(network, [3.0, 1.0], inputs="nearest", box=Box(np.zeros(2), np.ones(2)))
    yield "no input mode", lambda: abstract(network, [1.0, 1.0], inputs="magic")  # type: ignore[arg-type]
    yield "some of 1 to 1", lambda: abstract(network, [1.0, 1.0], layers=[])
    yield "some of 1 to 1", lambda: abstract(network, [1.0, 1.0], layers=[2])
    yield "no ReLU layer", lambda: abstract(Network(network.layers[:1]), [1.0, 1.0])
    yield "2 strategies for 1", lambda: abstract(network, [1.0, 1.0], strategy=[chosen.first_fit, chosen.first_fit])
    yield "not valid", lambda: abstract(network, [3.0, 1.0], strategy=lambda icf: Partition(((0, 1, 2),)))
    yield "not valid", lambda: abstract(network, [3.0, 1.0]).with_partition(1, Partition(((0, 1, 2),)))
    yield "does not fit a layer", lambda: abstract(network, [3.0, 1.0], strategy=lambda icf: Partition(((0, 1),)))
    yield "overflows", lambda: abstract(network, [1.7e308, 1.7e308])


@pytest.mark.parametrize("number", range(len(list(wrong_calls()))))
def test_bad_input_is_explained(number: int) -> None:
    message, call = list(wrong_calls())[number]
    with pytest.raises(AbstractionError, match=message):
        call()


def test_an_input_of_another_shape_is_refused() -> None:
    with pytest.raises(NetworkError, match="does not fit"):
        abstract(network_2_3_1(), [1.0, 1.0])([1.0, 2.0, 3.0])
