"""The tight form: sound in rational arithmetic without tolerance, exact at the centroid, and as small as it says."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from strategies import EXTREMES, SCALES, batch_around, exact, networks, points
from test_emit_abstraction import in_rationals

from benchmarks import benchmark
from ginnacer_verify.abstraction.abstraction import abstract
from ginnacer_verify.abstraction.margins import surface
from ginnacer_verify.abstraction.tight.tight import TightAbstraction, tight_abstraction
from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.emit.tight import tight_model
from ginnacer_verify.emit.vnnlib import abstract_property
from ginnacer_verify.engines.verdict import Holds
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain, parse_onnx
from ginnacer_verify.properties.vnnlib import parse_vnnlib, read_vnnlib
from ginnacer_verify.properties.write import to_vnnlib

EXAMPLES = settings(max_examples=60)


@st.composite
def abstractions(draw: st.DrawFn, scales: tuple[float, ...] = SCALES) -> TightAbstraction:
    """Any network and centroid, with the paper's number of ReLUs or any other."""
    network = draw(networks(scales))
    centroid = draw(points(network.inputs))
    relus = draw(st.one_of(st.none(), st.tuples(*(st.integers(1, n + 1) for n in network.relus_per_layer))))
    try:
        return tight_abstraction(network, centroid, relus)
    except AbstractionError as problem:
        if "overflow" not in str(problem):
            raise
        reject()


def assert_sound(abstraction: TightAbstraction, batch: Array) -> None:
    lower, upper = abstraction(batch)
    for x, low, high in zip(batch, lower, upper, strict=True):
        if (x != abstraction.centroid).any():
            for value, below, above in zip(exact(abstraction.network, x), low, high, strict=True):
                assert not np.isfinite(below) or Fraction(float(below)) <= value
                assert not np.isfinite(above) or value <= Fraction(float(above))
                assert below < np.inf
                assert above > -np.inf


@EXAMPLES
@given(abstractions(), st.integers(0, 2**32 - 1))
def test_global_soundness(abstraction: TightAbstraction, seed: int) -> None:
    assert_sound(abstraction, batch_around(abstraction.centroid, seed))


@EXAMPLES
@given(abstractions(EXTREMES), st.integers(0, 2**32 - 1))
def test_global_soundness_with_huge_and_tiny_weights(abstraction: TightAbstraction, seed: int) -> None:
    assert_sound(abstraction, batch_around(abstraction.centroid, seed))


@EXAMPLES
@given(abstractions(), st.integers(0, 2**32 - 1))
def test_global_soundness_where_neurons_switch(abstraction: TightAbstraction, seed: int) -> None:
    """Points on the hyperplanes of the first layer's neurons, next to the centroid."""
    first, c = abstraction.network.layers[0], abstraction.centroid
    weight = dense(first.weight)
    norms = (weight**2).sum(axis=1)
    steps = -(first(c) / np.where(norms > 0, norms, 1.0))[:, None] * weight
    assert_sound(abstraction, np.vstack([c + steps * scale for scale in (1.0, 1 - 1e-12, 1 + 1e-12, 2.0)]))


@EXAMPLES
@given(abstractions((*SCALES, *EXTREMES)), st.integers(0, 2**32 - 1))
def test_center_exact_reconstruction(abstraction: TightAbstraction, seed: int) -> None:
    """Bit for bit, alone and in batches of any size and at any place in them."""
    c, expected = abstraction.centroid, abstraction.network(abstraction.centroid)
    lower, upper = abstraction(c)
    assert lower.tolist() == upper.tolist() == expected.tolist()
    batch = batch_around(c, seed)
    for size in (2, len(batch)):
        lower, upper = abstraction(np.vstack([batch[:size], c]))
        for row in (0, size):
            assert lower[row].tolist() == upper[row].tolist() == expected.tolist()


@EXAMPLES
@given(abstractions())
def test_reduced_non_linearity(abstraction: TightAbstraction) -> None:
    paper = abstract(abstraction.network, abstraction.centroid).relus_per_layer
    again = tight_abstraction(abstraction.network, abstraction.centroid).relus_per_layer
    assert all(new <= old for new, old in zip(again, paper, strict=True))


@EXAMPLES
@given(networks(), st.data())
def test_with_all_relus_nothing_is_lost(network: Network, data: st.DataObject) -> None:
    """Where the paper's form with singletons is still wide, since it drops the ReLUs of its lower bounds."""
    abstraction = tight_abstraction(network, data.draw(points(network.inputs)), network.relus_per_layer)
    assert abstraction.relus_per_layer == network.relus_per_layer
    batch = batch_around(abstraction.centroid, data.draw(st.integers(0, 2**32 - 1)))
    scale = np.abs(batch).max() + np.abs(abstraction.centroid).max() + 1
    for layer in network.layers:
        scale = scale * np.abs(dense(layer.weight)).sum() + np.abs(layer.bias).max() + 1
    assert (abstraction.margin(batch) <= 1e-10 * scale).all()


def test_numbers_of_relus_that_do_not_fit_are_refused() -> None:
    network = Network.from_arrays(([[1.0]], [0]), ([[1.0]], [0]))
    for relus in ((), (0,), (1, 1)):
        with pytest.raises(AbstractionError, match="at least one ReLU"):
            tight_abstraction(network, [0.0], relus)


@pytest.mark.parametrize(("distance", "times"), [(0.01, 100), (0.1, 100), (1.0, 30)])
def test_acas_xu_margins_against_the_paper(distance: float, times: float) -> None:
    network = load_chain(benchmark("acasxu/ACASXU_run2a_1_1_batch_2000.onnx"))
    centroid = read_vnnlib(benchmark("acasxu/prop_1.vnnlib")).boxes[0].middle
    paper, tight = abstract(network, centroid), tight_abstraction(network, centroid)
    assert tight.relus_per_layer == paper.relus_per_layer
    batch = surface(centroid, distance, 500, np.random.default_rng(5))
    assert times * tight.margin(batch).max() <= paper.margin(batch).max()


@settings(max_examples=40)
@given(abstractions(), st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
def test_the_emitted_model_is_sound(abstraction: TightAbstraction, seed: int, dtype: type) -> None:
    """In rationals, without tolerance: every tier by itself."""
    model, outputs = tight_model(abstraction, np.dtype(dtype)), abstraction.network.outputs
    for x in batch_around(abstraction.centroid, seed, 6):
        bounds, true = in_rationals(model, x), exact(abstraction.network, x)
        assert len(bounds) % (2 * outputs) == 0
        for first in range(0, len(bounds), 2 * outputs):
            lower, upper = bounds[first : first + outputs], bounds[first + outputs : first + 2 * outputs]
            assert all(low <= y <= high for low, y, high in zip(lower, true, upper, strict=True))


def test_the_emitted_pair_reads_back_with_as_many_relus_and_proves() -> None:
    """A property that holds within 0.05 of the centroid, decided on the abstraction alone."""
    random = np.random.default_rng(3)
    sizes = [(6, 3), (6, 6), (1, 6)]
    network = Network.from_arrays(*((random.normal(size=size), random.normal(size=size[0])) for size in sizes))
    abstraction = tight_abstraction(network, np.zeros(3), (4, 4))
    margin = float(network(np.zeros(3))[0]) - 1.0
    text = "".join(f"(declare-const X_{i} Real)(assert (and (>= X_{i} -0.05) (<= X_{i} 0.05)))" for i in range(3))
    prop = parse_vnnlib(f"{text}(declare-const Y_0 Real)(assert (<= Y_0 {margin}))")
    pair = parse_vnnlib(to_vnnlib(abstract_property(prop, abstraction)))
    read = parse_onnx(tight_model(abstraction))
    assert read.relus == abstraction.pre_layer + sum(abstraction.relus_per_layer)
    assert pair.outputs == 2 * len(abstraction.tiers)
    assert isinstance(verify(read, pair, timeout=60), Holds)
