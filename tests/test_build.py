"""Properties built without a file, judged at outputs whose verdict is known by hand."""

import math

import numpy as np
import pytest

from ginnacer_verify.box import Box
from ginnacer_verify.errors import PropertyError
from ginnacer_verify.properties.build import ordered, output_range, robustness

BOX = Box(np.zeros(2), np.ones(2))
X = (0.5, 0.5)


def test_robustness_against_every_other_class() -> None:
    prop = robustness([[0.5, 0.05], [0.95, 0.5]], 0.1, label=1, outputs=3)
    (box,) = prop.boxes
    assert box.lower.tolist() == [0.4, 0.0, 0.95 - 0.1, 0.4]
    assert box.upper.tolist() == [0.6, 0.05 + 0.1, 1.0, 0.6]
    x = [0.5, 0.05, 0.95, 0.5]
    assert not prop.is_unsafe_at(x, [0, 1, 0.5])
    assert prop.is_unsafe_at(x, [1, 1, 0])  # a tie
    assert prop.is_unsafe_at(x, [0, 1, 2])
    assert len(prop.disjuncts) == 2


def test_robustness_against_targets() -> None:
    prop = robustness(X, 0.1, label=0, outputs=4, targets=(2, 3, 2))
    assert len(prop.disjuncts) == 2
    assert not prop.is_unsafe_at(X, [1, 5, 0, 0])
    assert prop.is_unsafe_at(X, [1, 0, 0, 5])


def test_robustness_of_inputs_beyond_images() -> None:
    (box,) = robustness([-3.0, 7.0], 1.0, label=0, outputs=2, within=(-math.inf, math.inf)).boxes
    assert (box.lower.tolist(), box.upper.tolist()) == ([-4, 6], [-2, 8])
    assert robustness(X, 0.0, label=0, outputs=2).boxes[0].varying == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"radius": -0.1},
        {"radius": math.nan},
        {"radius": math.inf},
        {"centroid": [0.5, math.nan]},
        {"centroid": [0.5, 1.5]},
        {"label": 3},
        {"label": -1},
        {"targets": [0]},
        {"targets": [1, 3]},
        {"targets": []},
        {"outputs": 1},
    ],
)
def test_robustness_that_makes_no_sense(arguments: dict[str, object]) -> None:
    good: dict[str, object] = {"centroid": X, "radius": 0.1, "label": 0, "outputs": 3}
    robustness(**good)  # type: ignore[arg-type]
    with pytest.raises(PropertyError):
        robustness(**(good | arguments))  # type: ignore[arg-type]


def test_output_range() -> None:
    prop = output_range(BOX, 1, 2, lower=-1.0, upper=2.0)
    for value, unsafe in ((-1.0, False), (2.0, False), (math.nextafter(-1, -2), True), (math.nextafter(2, 3), True)):
        assert prop.is_unsafe_at(X, [9, value]) == unsafe
    assert not prop.is_unsafe_at((2, 2), [0, 9])
    assert [len(output_range(BOX, 0, 2, lower=0.0).disjuncts), len(output_range(BOX, 0, 2, upper=0.0).disjuncts)] == [
        1,
        1,
    ]
    assert output_range(BOX, 0, 2, lower=0.0).is_unsafe_at(X, [-1, 0])
    assert output_range(BOX, 0, 2, upper=0.0).is_unsafe_at(X, [1, 0])


@pytest.mark.parametrize(
    ("output", "lower", "upper"),
    [
        (0, 2.0, 1.0),
        (0, math.nan, 1.0),
        (0, -math.inf, math.inf),
        (0, math.inf, math.inf),
        (2, 0.0, 1.0),
        (-1, 0.0, 1.0),
    ],
)
def test_ranges_that_make_no_sense(output: int, lower: float, upper: float) -> None:
    with pytest.raises(PropertyError):
        output_range(BOX, output, 2, lower, upper)


def test_ordered_outputs() -> None:
    prop = ordered(BOX, (2, 0, 1), outputs=3)
    assert not prop.is_unsafe_at(X, [1, 0, 2])
    assert not prop.is_unsafe_at(X, [1, 1, 1])
    assert prop.is_unsafe_at(X, [1, 0, 0.5])
    assert prop.is_unsafe_at(X, [1, 1.5, 2])
    assert not prop.is_unsafe_at((3, 3), [1, 1.5, 2])


@pytest.mark.parametrize("chain", [(), (1,), (1, 1), (0, 3), (0, -1)])
def test_orders_that_make_no_sense(chain: tuple[int, ...]) -> None:
    with pytest.raises(PropertyError):
        ordered(BOX, chain, outputs=3)
