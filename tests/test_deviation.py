"""Each step of the propagation on its own, against rational arithmetic: no rounding error goes uncovered."""

from fractions import Fraction

import numpy as np
import pytest

from ginnacer_verify.abstraction.deviation import Deviation, ExactRelu, Map, Output, SharedRelu
from ginnacer_verify.arrays import Array

ROWS, COLUMNS, BATCH = 6, 40, 8


def numbers(seed: int, *shape: int) -> Array:
    """Numbers of very different size, so that sums lose digits."""
    random = np.random.default_rng(seed)
    return random.normal(size=shape) * 10.0 ** random.integers(-6, 7, size=shape)


def product(weight: Array, x: Array) -> list[list[Fraction]]:
    rows = [[Fraction(float(w)) for w in row] for row in weight]
    columns = [[Fraction(float(v)) for v in column] for column in x.T]
    return [[sum((w * v for w, v in zip(row, column, strict=True)), Fraction(0)) for column in columns] for row in rows]


def assert_inside(exact: list[list[Fraction]], lower: Array, upper: Array) -> None:
    for i, row in enumerate(exact):
        for j, value in enumerate(row):
            assert Fraction(float(lower[i, j])) <= value <= Fraction(float(upper[i, j]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("known", [True, False])
def test_products_cover_their_rounding(seed: int, known: bool) -> None:
    weight, x = numbers(seed, ROWS, COLUMNS), numbers(seed + 100, COLUMNS, BATCH)
    middle, radius = Map(weight)(Deviation(x, None if known else np.zeros_like(x), np.ones(BATCH)))
    assert_inside(product(weight, x), middle - radius, middle + radius)
    assert (radius <= 1e-11 * (np.abs(weight).max() * np.abs(x).sum(axis=0))).all()


@pytest.mark.parametrize("seed", range(5))
def test_products_cover_the_ends_of_the_interval(seed: int) -> None:
    weight, x, r = (
        numbers(seed, ROWS, COLUMNS),
        numbers(seed + 100, COLUMNS, BATCH),
        np.abs(numbers(seed + 7, COLUMNS, BATCH)),
    )
    middle, radius = Map(weight)(Deviation(x, r, np.ones(BATCH)))
    for i in range(ROWS):
        side = np.sign(weight[i])[:, None]
        for end in (x + side * r, x - side * r):  # rounded to a float that is still near the end
            value = product(weight[i : i + 1], end)
            assert_inside(value, (middle - radius)[i : i + 1], (middle + radius)[i : i + 1])


@pytest.mark.parametrize("seed", range(5))
def test_the_output_is_rounded_outwards_and_exact_at_the_centroid(seed: int) -> None:
    weight, x, y = numbers(seed, ROWS, COLUMNS), numbers(seed + 100, COLUMNS, BATCH), numbers(seed + 200, ROWS)
    x[:, 3] = 0.0
    moved = np.ones(BATCH)
    moved[3] = 0.0
    exact = np.nextafter(y, np.inf)
    lower, upper = Output(Map(weight), y, np.zeros(ROWS), exact)(Deviation(x, np.zeros_like(x), moved))
    assert (lower[:, 3] == exact).all()
    assert (upper[:, 3] == exact).all()
    true = [[v + Fraction(float(y[i])) for v in row] for i, row in enumerate(product(weight, x))]
    away = [j for j in range(BATCH) if j != 3]
    assert_inside([[row[j] for j in away] for row in true], lower[:, away], upper[:, away])


def test_the_output_covers_its_own_sum() -> None:
    """A product without any rounding error whose sum with y has one: 1 + 2**-60 is no float64."""
    output = Output(Map(np.eye(1)), np.ones(1), np.zeros(1), np.ones(1))
    lower, upper = output(Deviation(np.array([[2.0**-60, -(2.0**-60)]]), None, np.ones(2)))
    assert_inside([[1 + Fraction(2) ** -60, 1 - Fraction(2) ** -60]], lower, upper)


@pytest.mark.parametrize("clip", [False, True])
def test_shared_relu_by_hand(clip: bool) -> None:
    """Neurons: active singleton (y = 2), active shared (y = 1), inactive singleton (y = -3), inactive shared."""
    own, shared = Map(np.array([[1.0], [1.0], [1.0]])), Map(np.array([[-2.0]]))
    floor = np.array([-2.0, -1.0]) if clip else None
    stage = SharedRelu(own, shared, np.array([-2.0, -3.0, -0.5]), np.array([0, 2, 1, 2]), 1, 2, floor)
    x = Deviation(np.array([[4.0, -4.0]]), None, np.ones(2))
    result = stage(x, x)
    assert result.radius is not None
    lower, upper = result.middle - result.radius, result.middle + result.radius
    # relu(rhat) at 4 and -4: the singletons' own 0, 2 and 1, 0; the shared one's relu(-8 - 0.5), relu(8 - 0.5)
    np.testing.assert_allclose(upper, [[4.0, -4.0 + 2.0], [4.0, -4.0 + 7.5], [1.0, 0.0], [0.0, 7.5]], atol=1e-9)
    low = [-2.0, -1.0] if clip else [-4.0, -4.0]
    np.testing.assert_allclose(lower, [[4.0, low[0]], [4.0, low[1]], [0.0, 0.0], [0.0, 0.0]], atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_the_clip_never_rises_above_the_floor(seed: int) -> None:
    weight, x = numbers(seed, 1, COLUMNS), numbers(seed + 50, COLUMNS, BATCH)
    floor = -np.abs(numbers(seed + 90, 1))
    stage = SharedRelu(
        Map(weight), Map(np.zeros((0, COLUMNS))), np.full(1, -np.inf), np.zeros(1, dtype=np.intp), 1, 1, floor
    )
    radius = np.abs(numbers(seed + 30, COLUMNS, BATCH))
    result = stage(Deviation(x, radius, np.ones(BATCH)), Deviation(x, radius, np.ones(BATCH)))
    assert result.radius is not None
    for m, r in zip(result.middle[0], result.radius[0], strict=True):
        claim = Fraction(float(r)) + 8 * Fraction(2) ** -53 * (abs(Fraction(float(m))) + Fraction(float(r)))
        assert Fraction(float(m)) - claim <= Fraction(float(floor[0])) or m - r > floor[0] * (1 - 1e-9)


def test_exact_relu_by_hand() -> None:
    stage = ExactRelu(Map(np.array([[1.0], [1.0]])), np.array([2.0, -3.0]))
    x = Deviation(np.array([[5.0, -5.0, 0.0]]), np.array([[1.0, 1.0, 0.0]]), np.array([1.0, 1.0, 0.0]))
    result = stage(x, x)
    assert result.radius is not None
    np.testing.assert_allclose(result.middle - result.radius, [[4.0, -2.0, 0.0], [1.0, 0.0, 0.0]], atol=1e-9)
    np.testing.assert_allclose(result.middle + result.radius, [[6.0, -2.0, 0.0], [3.0, 0.0, 0.0]], atol=1e-9)
