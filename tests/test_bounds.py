"""Interval, FastLin and CROWN bounds: sound for every input, nested as they should be, and never proved by a NaN."""

from fractions import Fraction

import numpy as np
import pytest
from cases import box_of, random_network
from exhaustive import at, regions

from ginnacer_verify.bounds.chain import Bounds, interval_bounds, linear_bounds, relu_lines
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Polytope

SHAPES = ((2, 5, 1), (2, 4, 4, 2), (3, 8, 8, 8, 3), (1, 6, 6, 1))


def drawn(seed: int, shape: tuple[int, ...] | None = None) -> tuple[Network, Box]:
    random = np.random.default_rng(seed)
    shape = shape or SHAPES[seed % len(SHAPES)]
    lower = random.normal(size=shape[0])
    return random_network(random, shape), Box(lower, lower + random.random(shape[0]) * 2)


def all_bounds(network: Network, box: Box) -> dict[str, Bounds]:
    return {
        "interval": interval_bounds(network.layers, box),
        "FastLin": linear_bounds(network.layers, box, parallel=True),
        "CROWN": linear_bounds(network.layers, box),
    }


@pytest.mark.parametrize("seed", range(40))
def test_every_run_is_inside(seed: int) -> None:
    network, box = drawn(seed)
    points = np.vstack([box.sample(np.random.default_rng(seed), 500), box.lower, box.upper, box.middle])
    for name, bounds in all_bounds(network, box).items():
        for lower, upper, y in zip(bounds.lower, bounds.upper, network.pre_activations(points), strict=True):
            assert (lower <= y).all(), name
            assert (y <= upper).all(), name


@pytest.mark.parametrize("seed", range(24))
def test_exact_extrema_are_inside_and_not_far(seed: int) -> None:
    """Against enumeration in rationals, without any tolerance; and a single affine layer is bounded exactly."""
    network, box = drawn(seed, (2, 4, 3, 1))
    everything = Disjunct(box, Polytope.everything(2), Polytope.everything(1))
    values = [at(region.outputs[0], corner) for region in regions(network, everything) for corner in region.corners]
    for bounds in all_bounds(network, box).values():
        assert bounds.lower[-1][0] <= min(values)
        assert max(values) <= bounds.upper[-1][0]
    first = Network(network.layers[:1])
    exact = np.maximum(first.layers[0].weight * box.lower, first.layers[0].weight * box.upper).sum(axis=1)
    assert linear_bounds(first.layers, box).upper[0] == pytest.approx(exact + first.layers[0].bias, abs=1e-12)


def test_crown_by_hand() -> None:
    """y = relu(x) - relu(-x) = x on [-1, 1]: intervals lose the relation of the two, linear bounds keep part of it.

    FastLin: both ReLUs between x/2 and x/2 + 1/2 (mirrored), so y is within x +- 1/2; CROWN takes slope 0."""
    network = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, -1.0]], [0.0]))
    box = box_of([-1.0], [1.0])
    found = all_bounds(network, box)
    assert found["interval"].upper[-1] == pytest.approx([1.0], abs=1e-12)
    wide = linear_bounds(network.layers, box_of([-1.0], [3.0]), parallel=True)
    assert wide.upper[-1] == pytest.approx([3.0], abs=1e-12)
    # On [-1, 3]: relu(x) <= 3/4 (x + 1) and relu(-x) >= -x/4 with FastLin: y <= x + 3/4 = 3.75, worse than 3.
    only_linear = linear_bounds(network.layers, box_of([-1.0], [3.0]), parallel=True).lower[-1]
    # relu(x) >= 3/4 x and relu(-x) <= 1/4 (3 - x): y >= x - 3/4 >= -1.75, and intervals give -1.
    assert only_linear == pytest.approx([-1.0], abs=1e-12)


def test_relu_lines_enclose() -> None:
    lower, upper = np.array([-2.0, -1.0, 0.5, -3.0, -1e-9]), np.array([1.0, 4.0, 2.0, -1.0, 1e9])
    for parallel in (False, True):
        lines = relu_lines(lower, upper, parallel=parallel)
        for share in np.linspace(0, 1, 11):
            y = lower + share * (upper - lower)
            assert (lines.lower_slope * y <= np.maximum(y, 0) + 1e-12).all()
            assert (lines.upper_slope * y + lines.intercept >= np.maximum(y, 0)).all()
    assert relu_lines(lower, upper).lower_slope.tolist() == [0, 1, 1, 0, 1]
    assert relu_lines(lower, upper, parallel=True).lower_slope[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize("seed", range(20))
def test_tighter_than_intervals_and_nested(seed: int) -> None:
    network, box = drawn(seed)
    found = all_bounds(network, box)
    half = Box(box.lower, box.middle)
    inherited = linear_bounds(network.layers, half, within=found["CROWN"])
    for number in range(len(network.layers)):
        assert (found["CROWN"].lower[number] >= found["interval"].lower[number] - 1e-12).all()
        assert (found["CROWN"].upper[number] <= found["interval"].upper[number] + 1e-12).all()
        assert (inherited.lower[number] >= found["CROWN"].lower[number]).all()
        assert (inherited.upper[number] <= found["CROWN"].upper[number]).all()


def test_linear_bounds_use_the_relation_between_neurons() -> None:
    """(x1 + x2) and (x1 + x2) cancel: intervals cannot see that, back-substitution must."""
    network = Network.from_arrays(([[1.0, 1.0], [1.0, 1.0]], [5.0, 5.0]), ([[1.0, -1.0]], [0.0]))
    box = box_of([-1.0, -1.0], [1.0, 1.0])
    assert interval_bounds(network.layers, box).upper[-1][0] > 3.9
    assert linear_bounds(network.layers, box).upper[-1][0] == pytest.approx(0.0, abs=1e-12)


def test_huge_cancelling_weights_are_widened_by_their_rounding() -> None:
    """1e16 x - 1e16 x + x: floats lose the last summand; the true output 1 must be inside."""
    network = Network.from_arrays(([[1e16], [1e16], [1.0]], [0.0, 0.0, 0.0]), ([[1.0, -1.0, 1.0]], [0.0]))
    box = box_of([1.0], [1.0])
    for bounds in all_bounds(network, box).values():
        assert bounds.lower[-1][0] <= 1.0 <= bounds.upper[-1][0]
        assert bounds.upper[-1][0] - bounds.lower[-1][0] >= 1.0


def test_overflow_gives_infinite_bounds_not_proofs() -> None:
    network = Network.from_arrays(([[1e200], [-1e200]], [0.0, 0.0]), ([[1e200, 1e200]], [0.0]), ([[1.0]], [0.0]))
    box = box_of([-1e200], [1e200])
    for bounds in all_bounds(network, box).values():
        for lower, upper in zip(bounds.lower, bounds.upper, strict=True):
            assert not np.isnan(lower).any()
            assert not np.isnan(upper).any()
        assert bounds.upper[-1][0] == np.inf


def test_unstable_counts_only_what_is_not_negligible() -> None:
    bounds = Bounds(
        (np.array([-1.0, -1e-13, 0.5, -2.0, -1.0]), np.zeros(1)), (np.array([1.0, 3.0, 1.0, -1.0, 1e-13]), np.zeros(1))
    )
    assert bounds.unstable == 1
    assert bounds.active(0).tolist() == [False, True, True, False, False]


def test_intersection_ignores_nan() -> None:
    left = Bounds((np.array([np.nan, 1.0]),), (np.array([5.0, np.nan]),))
    right = Bounds((np.array([0.0, 2.0]),), (np.array([4.0, 3.0]),))
    both = left.intersect(right)
    assert both.lower[0].tolist() == [0.0, 2.0]
    assert both.upper[0].tolist() == [4.0, 3.0]


@pytest.mark.parametrize("seed", range(6))
def test_without_time_intervals_have_to_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with rows in chunks the bounds are those of all rows at once."""
    network, box = drawn(seed)
    hurried = linear_bounds(network.layers, box, deadline=Deadline.after(0.0))
    plain, full = interval_bounds(network.layers, box), linear_bounds(network.layers, box)
    monkeypatch.setattr("ginnacer_verify.bounds.chain.CHUNK", 3)
    chunks = linear_bounds(network.layers, box)
    for number in range(len(full)):
        np.testing.assert_array_equal(hurried.lower[number], plain.lower[number])
        np.testing.assert_array_equal(hurried.upper[number], plain.upper[number])
        np.testing.assert_allclose(chunks.lower[number], full.lower[number], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(chunks.upper[number], full.upper[number], rtol=1e-12, atol=1e-12)


def test_lines_hold_without_rounding() -> None:
    """Both ends of the upper line, in rationals: relu is convex, so nothing between them is above it."""
    random = np.random.default_rng(0)
    lower, upper = -(10.0 ** random.uniform(-9, 9, 2000)), 10.0 ** random.uniform(-9, 9, 2000)
    lines = relu_lines(lower, upper)
    for low, high, slope, add in zip(lower, upper, lines.upper_slope, lines.intercept, strict=True):
        assert Fraction(slope) * Fraction(low) + Fraction(add) >= 0
        assert Fraction(slope) * Fraction(high) + Fraction(add) >= Fraction(high)
