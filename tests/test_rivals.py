"""The rivals: sound everywhere on their domains, exact when nothing is merged, and what their papers say they are.

Soundness is checked against the network in rational arithmetic, without any tolerance; only auto_LiRPA, which does not
account for its own rounding, gets 1e-9 of the bounds' magnitude."""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import EXTREMES, SCALES, batch_around, exact, networks

from benchmarks import benchmark
from ginnacer_verify.abstraction.abstraction import abstract
from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError, InputError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.rivals.elboher import NetworkAbstraction, Order, Sides, _built, network_abstraction
from ginnacer_verify.rivals.fastlin import LinearAbstraction, crown, fastlin, fastlin_with_intervals
from ginnacer_verify.rivals.layerwise import layerwise_lines
from ginnacer_verify.rivals.lirpa import lirpa
from ginnacer_verify.rivals.prabhakar import IntervalNetwork, interval_network
from ginnacer_verify.rivals.rival import Rival

SHAPE = (3, 16, 16, 16, 2)
EXAMPLES = settings(max_examples=40)
Merging = IntervalNetwork | NetworkAbstraction


@st.composite
def merged(draw: st.DrawFn, scales: tuple[float, ...] = SCALES) -> Merging:
    """Any network, with any number of merged neurons per layer, refined or not."""
    network = draw(networks(scales))
    counts = [draw(st.integers(1, layer.outputs)) for layer in network.layers[:-1]]
    if draw(st.booleans()):
        found: Merging = interval_network(network, counts, seed=draw(st.integers(0, 99)))
    else:
        sides: Sides = draw(st.sampled_from(["both", "lower"]))
        order: Order = draw(st.sampled_from(["sum-first", "max-first"]))
        found = network_abstraction(network, counts, sides=sides, order=order)
    return found.refined(np.ones(network.inputs), draw(st.integers(0, 3)))


@st.composite
def linear(draw: st.DrawFn, scales: tuple[float, ...] = SCALES) -> LinearAbstraction:
    network = draw(networks(scales))
    lower = np.resize([-1.0, 0.5, 0.0], network.inputs)
    box = Box(lower, lower + np.resize([0.25, 2.0, 0.0], network.inputs))
    return draw(st.sampled_from([fastlin, crown, fastlin_with_intervals]))(network, box)


def assert_sound(rival: Rival, batch: Array) -> None:
    lower, upper = rival(batch)
    for x, low, high in zip(batch, lower, upper, strict=True):
        for value, below, above in zip(exact(rival.network, x), low, high, strict=True):
            assert not np.isfinite(below) or Fraction(float(below)) <= value
            assert not np.isfinite(above) or value <= Fraction(float(above))
            assert below < np.inf  # nor a NaN
            assert above > -np.inf


@EXAMPLES
@given(merged(), st.integers(0, 2**32 - 1))
def test_global_soundness(rival: Merging, seed: int) -> None:
    assert_sound(rival, batch_around(np.resize([1.0, -2.0, 0.0], rival.network.inputs), seed))


@EXAMPLES
@given(merged(EXTREMES), st.integers(0, 2**32 - 1))
def test_global_soundness_with_huge_and_tiny_weights(rival: Merging, seed: int) -> None:
    assert_sound(rival, batch_around(np.resize([1.0, -2.0, 1e200], rival.network.inputs), seed))


@EXAMPLES
@given(linear(), st.integers(0, 2**32 - 1))
def test_soundness_on_the_box(rival: LinearAbstraction, seed: int) -> None:
    batch = np.vstack([rival.domain.sample(np.random.default_rng(seed), 8), rival.domain.lower, rival.domain.upper])
    assert_sound(rival, batch)
    lower, upper = rival(batch)
    least, most = rival.ranges()
    assert (least <= lower + 1e-9 * (1 + np.abs(lower))).all()
    assert (upper <= most + 1e-9 * (1 + np.abs(most))).all()


@EXAMPLES
@given(linear(EXTREMES), st.integers(0, 2**32 - 1))
def test_soundness_on_the_box_with_huge_and_tiny_weights(rival: LinearAbstraction, seed: int) -> None:
    batch = rival.domain.sample(np.random.default_rng(seed), 8)
    assert_sound(rival, batch)
    assert_sound(layerwise_lines(rival.network, rival.domain), batch)


@EXAMPLES
@given(linear(), st.integers(0, 2**32 - 1))
def test_lines_layer_by_layer_are_sound_and_no_tighter_than_substituted(rival: LinearAbstraction, seed: int) -> None:
    batch = np.vstack([rival.domain.sample(np.random.default_rng(seed), 8), rival.domain.lower, rival.domain.upper])
    layerwise = layerwise_lines(rival.network, rival.domain)
    assert_sound(layerwise, batch)
    substituted = fastlin_with_intervals(rival.network, rival.domain).margin(batch)
    assert (substituted <= layerwise.margin(batch) * (1 + 1e-9) + 1e-9 * _magnitude(rival.network, batch)).all()


@EXAMPLES
@given(networks(), st.integers(0, 2**32 - 1))
def test_nothing_merged_is_the_network(network: Network, seed: int) -> None:
    """Up to rounding, since the weights are rounded outwards: 1e-9 of the largest bound a plain sum could have."""
    batch = batch_around(np.ones(network.inputs), seed)
    y = network(batch)
    size = 1e-9 * _magnitude(network, batch)
    for rival in (interval_network(network, network.relus_per_layer), _unmerged(network)):
        lower, upper = rival(batch)
        assert (np.abs(lower - y) <= size).all()
        assert (np.abs(upper - y) <= size).all()


def _unmerged(network: Network) -> NetworkAbstraction:
    return network_abstraction(network, [4 * count for count in network.relus_per_layer])


def _magnitude(network: Network, batch: Array) -> Array:
    """Of the sums that an output is made of; never quite 0, because of underflow."""
    values = np.abs(batch)
    for layer in network.layers:
        values = values @ np.abs(dense(layer.weight)).T + np.abs(layer.bias)
    return values + 1e-270


def test_interval_weights_are_hulls() -> None:
    """Prabhakar and Afzal's definition on a network by hand: |s| times the hull over both subsets."""
    network = Network.from_arrays(([[1.0], [3.0], [-1.0]], [0.0, 1.0, 2.0]), ([[1.0, -2.0, 4.0]], [5.0]))
    merged_two = IntervalNetwork.of(network, [Partition(((0, 1), (2,)))])
    first, last = merged_two.layers
    assert first.lower == pytest.approx(np.array([[1.0], [-1.0]]))
    assert first.upper == pytest.approx(np.array([[3.0], [-1.0]]))
    assert first.bias_upper == pytest.approx([1.0, 2.0])
    assert last.lower == pytest.approx(np.array([[-4.0, 4.0]]))
    assert last.upper == pytest.approx(np.array([[2.0, 4.0]]))
    lower, upper = merged_two([1.0])  # values in [1, 4] and 1: -4 * 4 + 4 + 5 and 2 * 4 + 4 + 5
    assert (lower[0], upper[0]) == pytest.approx((-7.0, 17.0))


@EXAMPLES
@given(merged(), st.integers(0, 2**32 - 1))
def test_prabhakar_needs_no_pre_layer(rival: Merging, seed: int) -> None:
    """The pre-layer relu(x), relu(-x) with the same subsets gives the same bounds."""
    if not isinstance(rival, IntervalNetwork):
        return
    network, n = rival.network, rival.network.inputs
    first = dense(network.layers[0].weight)
    wide = Network.from_arrays(
        (np.hstack([first, -first]), network.layers[0].bias), *((dense(e.weight), e.bias) for e in network.layers[1:])
    )
    batch = batch_around(np.resize([1.0, -2.0], n), seed)
    behind = IntervalNetwork.of(wide, rival.partitions)(np.hstack([np.maximum(batch, 0), np.maximum(-batch, 0)]))
    for ours, theirs in zip(rival(batch), behind, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9 * (1 + np.abs(theirs).max()))


def test_copies_are_merged_by_max_and_min() -> None:
    """Elboher et al. by hand: two neurons that push the output up, read by the upper bound as pos-inc."""
    network = Network.from_arrays(([[1.0], [3.0]], [0.0, -1.0]), ([[2.0, 1.0]], [0.0]))
    rival = network_abstraction(network, [2])
    assert rival.relus_per_layer == (2,)  # one pos-inc, one pos-dec: no outgoing weight is negative
    lower, upper = rival([2.0])  # 3 * (relu(1 x - 1)) and 3 * relu(3 x + 0)
    assert (lower[0], upper[0]) == pytest.approx((3.0, 18.0))
    assert network([2.0])[0] == 2 * 2 + 5


def test_the_order_of_merging_decides_whether_maxima_are_summed() -> None:
    """Two neurons that read one neuron each of a layer whose two neurons are merged: max(1, 1) against 1 + 1."""
    network = Network.from_arrays(
        ([[1.0], [1.0]], [0.0, 0.0]), ([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0])
    )
    lower, upper = network_abstraction(network, [2, 2])([1.0])
    assert (lower[0], upper[0]) == pytest.approx((2.0, 2.0))
    lower, upper = network_abstraction(network, [2, 2], order="max-first")([1.0])
    assert (lower[0], upper[0]) == pytest.approx((0.0, 4.0))


@EXAMPLES
@given(merged(), st.integers(0, 2**32 - 1))
def test_summing_first_is_never_wider_for_the_same_subsets(rival: Merging, seed: int) -> None:
    if isinstance(rival, IntervalNetwork):
        return
    batch = batch_around(np.resize([1.0, -2.0], rival.network.inputs), seed)
    orders: tuple[Order, ...] = ("sum-first", "max-first")
    ends = [_built(rival.network, rival.sides, order, rival.copies)(batch) for order in orders]
    room = 1e-9 * _magnitude(rival.network, batch) + 1e-9 * np.abs(ends[1][0])
    assert (ends[0][0] >= ends[1][0] - room).all()
    if rival.sides == "both":
        assert (ends[0][1] <= ends[1][1] + 1e-9 * (np.abs(ends[1][1]) + room)).all()


def test_greedy_merges_the_nearest_pair_first() -> None:
    network = Network.from_arrays(([[1.0], [5.0], [1.5]], [0.0, 0.0, 0.0]), ([[1.0, 1.0, 1.0]], [0.0]))
    rival = network_abstraction(network, [2], sides="lower")
    assert rival.copies[0].subset.tolist() == [0, 1, 0]


def test_greedy_agrees_with_a_plain_transcription() -> None:
    for seed in range(8):
        random = np.random.default_rng(seed)
        rows = random.normal(size=(14, 20)) * (random.random((14, 20)) < (0.1 if seed % 2 else 1.0))
        network = Network.from_arrays((rows, np.zeros(14)), (np.ones((1, 14)), [0.0]))
        rival = network_abstraction(network, [5], sides="lower")
        table = {k: -np.concatenate([row, -row, [0.0]]) for k, row in enumerate(rows)}
        label = {k: k for k in table}
        while len(table) > 5:
            a, b = min(
                ((i, j) for i in table for j in table if i < j),
                key=lambda pair: np.abs(table[pair[0]] - table[pair[1]]).max(),
            )
            table[a] = np.maximum(table[a], table.pop(b))
            label = {k: a if subset == b else subset for k, subset in label.items()}
        expected = Partition.of([label[k] for k in range(14)])
        assert Partition.of(rival.copies[0].subset) == expected


@EXAMPLES
@given(merged(), st.integers(1, 4))
def test_refinement_ends_at_the_network(rival: Merging, count: int) -> None:
    x = np.resize([1.0, -2.0], rival.network.inputs)
    relus = sum(rival.relus_per_layer)
    while (finer := rival.refined(x, count)) is not rival:
        assert relus < sum(finer.relus_per_layer) <= relus + count
        rival, relus = finer, sum(finer.relus_per_layer)
    assert_sound(rival, x[None])
    lower, _ = rival(x)
    assert (np.abs(lower - rival.network(x)) <= 1e-9 * _magnitude(rival.network, x[None])[0]).all()


@EXAMPLES
@given(merged(), st.integers(0, 2**32 - 1))
def test_the_lower_network_is_the_lower_bound(rival: Merging, seed: int) -> None:
    if isinstance(rival, NetworkAbstraction) and min(rival.relus_per_layer) > 0:
        batch = batch_around(np.ones(rival.network.inputs), seed)
        lower, _ = rival(batch)
        size = 1e-9 * (1 + np.abs(lower))
        assert (np.abs(rival.lower_network()(batch) - lower) <= size).all()
        positive = np.abs(batch)
        alone = rival.lower_network(nonnegative=True)(positive)
        assert alone == pytest.approx(rival.lower_network()(positive), rel=1e-9, abs=1e-9 * (1 + np.abs(alone).max()))


def test_fastlin_lines_are_parallel_and_crown_is_never_called_by_that_name() -> None:
    """FastLin's margin is the same at every input of the box; CROWN's is not."""
    network = _acas()
    box = _acas_box(0.05)
    batch = box.sample(np.random.default_rng(0), 50)
    constant, varying = fastlin(network, box).margin(batch), crown(network, box).margin(batch)
    assert np.ptp(constant, axis=0).max() < 1e-9 * constant.max()
    assert np.ptp(varying, axis=0).max() > 0.01 * varying.max()


def test_refining_a_linear_abstraction_halves_its_domain() -> None:
    network, box = _acas(), _acas_box(0.05)
    whole = fastlin(network, box)
    first, second = whole.halves()
    widths = [np.prod(each.domain.upper - each.domain.lower) for each in (whole, first, second)]
    assert widths[1] + widths[2] == pytest.approx(widths[0])
    finer = whole.refined(box.middle, 3)
    assert box.middle in finer.domain
    assert finer.margin(box.middle).max() < whole.margin(box.middle).max()


@pytest.mark.parametrize("method", ["FastLin", "CROWN"])
def test_native_and_auto_lirpa_agree(method: str) -> None:
    """To 1e-9 of the bounds' magnitude: of the planes at samples, and of their ranges."""
    pytest.importorskip("torch")
    native = {"FastLin": fastlin, "CROWN": crown}[method]
    cases = [(_acas(), _acas_box(radius)) for radius in (0.01, 0.1, 1.0)]
    random = np.random.default_rng(1)
    for shape in ((3, 8, 8, 2), (2, 20, 4, 4, 1)):
        arrays = [(random.normal(size=(b, a)), random.normal(size=b)) for a, b in pairwise(shape)]
        cases.append((Network.from_arrays(*arrays), Box.around(np.ones(shape[0]), 0.5)))
    for network, box in cases:
        ours, theirs = native(network, box), lirpa(network, box, method)
        batch = box.sample(random, 100)
        for a, b in (*zip(ours(batch), theirs(batch), strict=True), *zip(ours.ranges(), theirs.ranges(), strict=True)):
            assert np.abs(a - b).max() <= 1e-9 * (1 + np.abs(b).max())


@pytest.mark.parametrize("method", ["FastLin", "CROWN", "alpha-CROWN"])
def test_auto_lirpa_holds_at_samples(method: str) -> None:
    pytest.importorskip("torch")
    random = np.random.default_rng(3)  # small: the library's optimiser is slow where many threads meet a busy machine
    network = Network.from_arrays(*((random.normal(size=(b, a)), random.normal(size=b)) for a, b in pairwise(SHAPE)))
    rival = lirpa(network, Box.around(np.ones(SHAPE[0]), 0.5), method)
    batch = rival.domain.sample(np.random.default_rng(0), 1000)
    lower, upper = rival(batch)
    y = network(batch)
    tolerance = 1e-9 * (1 + np.abs(np.stack([lower, upper])).max())
    assert (lower <= y + tolerance).all()
    assert (y <= upper + tolerance).all()
    assert rival.refined(rival.domain.middle).domain.varying == rival.domain.varying


def test_ginnacer_is_orders_of_magnitude_tighter_than_global_rivals_near_the_centroid() -> None:
    network, box = _acas(), _acas_box(0.001)
    ours = abstract(network, box.middle)
    batch = box.sample(np.random.default_rng(0), 200)
    for rival in (interval_network(network, ours.relus_per_layer), network_abstraction(network, ours.relus_per_layer)):
        assert rival.relus_per_layer == ours.relus_per_layer
        assert ours.margin(batch).max() * 1e4 < rival.margin(batch).max()


def wrong_calls() -> Iterator[tuple[str, Callable[[], object]]]:
    network = Network.from_arrays((np.ones((3, 2)), [1, -5, 2]), (np.ones((1, 3)), [0]))
    yield "as many counts", lambda: interval_network(network, [])
    yield "at least 1", lambda: network_abstraction(network, [0])
    yield "finite box", lambda: layerwise_lines(network, Box(np.zeros(2), np.full(2, np.inf)))
    yield "domain", lambda: fastlin(network, Box(np.zeros(2), np.ones(2)))([2.0, 2.0])
    yield "domain", lambda: interval_network(network, [2])([np.nan, 1.0])
    yield "finite box", lambda: fastlin(network, Box(np.zeros(2), np.full(2, np.inf)))
    yield "no planes", lambda: lirpa(network, Box(np.zeros(2), np.ones(2)), "interval")


@pytest.mark.parametrize("number", range(len(list(wrong_calls()))))
def test_bad_input_is_explained(number: int) -> None:
    message, call = list(wrong_calls())[number]
    with pytest.raises((AbstractionError, InputError), match=message):
        call()


def _acas() -> Network:
    return load_chain(benchmark("acasxu", "ACASXU_run2a_1_1_batch_2000.onnx"))


def _acas_box(radius: float) -> Box:
    return Box.around(read_vnnlib(benchmark("acasxu", "prop_1.vnnlib")).boxes[0].middle, radius)
