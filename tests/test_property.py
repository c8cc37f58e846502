"""Boxes, polytopes and properties as sets."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ginnacer_verify.box import Box
from ginnacer_verify.errors import PropertyError
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable
from ginnacer_verify.properties.rounding import at_most_float, interval, nearest_float

UNIT = Box(np.zeros(2), np.ones(2))


def test_boxes_are_closed_and_without_tolerance() -> None:
    assert [0.0, 1.0] in UNIT
    for outside in ([-1e-300, 0.5], [0.5, math.nextafter(1, 2)], [0.5, -9.0], [9.0, 0.5], [0.5, math.nan]):
        assert outside not in UNIT
    assert not UNIT.is_empty
    assert not Box(np.ones(2), np.ones(2)).is_empty
    assert Box(np.array([0.0, 0.5]), np.array([1.0, 0.25])).is_empty
    assert Box(np.array([0.0, 0.5]), np.array([1.0, 0.5])).varying == [0]


@pytest.mark.parametrize("largest", [1.0, 1e308])
def test_points_of_a_box_are_inside(largest: float) -> None:
    box = Box(np.array([largest / 4, -largest / 2, 0.1]), np.array([largest / 3, largest / 4, 0.1]))
    assert box.middle in box
    assert box.middle[0] - box.lower[0] == pytest.approx(box.upper[0] - box.middle[0])
    points = box.sample(np.random.default_rng(0), 100)
    assert all(point in box for point in points)
    assert all((side[:, :2]).any(axis=0).all() for side in (points < box.middle, points > box.middle))
    assert all(point in box for point in box.clip([[math.inf] * 3, [-math.inf] * 3, [0.1] * 3]))


def test_the_middle_of_all_numbers_is_a_number() -> None:
    largest = np.full(2, np.finfo(np.float64).max)
    assert Box(-largest, largest).middle.tolist() == [0.0, 0.0]
    box = Box(-largest, largest)
    assert box.width.tolist() == largest.tolist()
    assert all(point in box for point in box.sample(np.random.default_rng(0), 100))
    assert Box(np.array([5e-324]), np.array([5e-324])).middle.tolist() == [5e-324]


@pytest.mark.parametrize(
    ("lower", "upper"),
    [([0.0, math.nan], [1.0, 1.0]), ([0.0, 0.0], [1.0, math.nan]), ([0.0], [1.0, 1.0]), ([[0.0]], [[1.0]])],
)
def test_boxes_that_are_not_well_formed(lower: list[float], upper: list[float]) -> None:
    with pytest.raises(PropertyError):
        Box(np.array(lower), np.array(upper))


def test_polytope_membership_is_exact() -> None:
    tight = Polytope.of([[0.1, 0.2]], [0.3])
    assert [0.0, 1.0] in tight
    assert [1.0, 1.0] not in tight  # in floats 0.1 + 0.2 > 0.3, and so it is for the exact values of these floats
    assert tight.slacks([1, 1]) == [Fraction(0.3) - Fraction(0.1) - Fraction(0.2)]
    assert Polytope.of([[0.1]], [0.1 * 0.1]).slacks([0.1]) == [Fraction(0.1 * 0.1) - Fraction(0.1) ** 2]
    edge = [[1, -1]], [0.5]
    assert [1.0, 0.5] in Polytope.of(*edge)
    assert [1.0, 0.5] not in Polytope.of(*edge, strict=True)
    assert [math.nextafter(1, 0), 0.5] in Polytope.of(*edge, strict=True)
    assert [9.0, 9.0] in Polytope.everything(2)


@pytest.mark.parametrize(
    "arguments",
    [
        ([[1.0, 2.0]], [1.0, 2.0], [False]),
        ([[1.0, 2.0]], [1.0], [False, True]),
        ([1.0, 2.0], [1.0, 2.0], [False, True]),
        ([[math.nan, 2.0]], [1.0], [False]),
        ([[1.0, 2.0]], [math.inf], [False]),
    ],
)
def test_polytopes_that_are_not_well_formed(arguments: tuple[list[float], ...]) -> None:
    matrix, offset, strict = (np.array(part) for part in arguments)
    with pytest.raises(PropertyError):
        Polytope(matrix, offset, strict)


def test_a_property_is_the_union_of_its_disjuncts() -> None:
    halves = (Polytope.of([[1, 0]], [-1]), Polytope.of([[-1, 0]], [-1], strict=True))
    far = Box(np.full(2, 5.0), np.full(2, 6.0))
    disjuncts = [Disjunct(box, Polytope.everything(2), half) for box, half in zip((UNIT, far), halves, strict=True)]
    for order in (disjuncts, disjuncts[::-1]):
        prop = Property.of(*order)
        assert prop.is_unsafe_at([0, 1], [-1, 0])
        assert prop.is_unsafe_at([5, 6], [2, 0])
        assert not prop.is_unsafe_at([5, 6], [1, 0])
        assert not prop.is_unsafe_at([0, 1], [2, 0])
        assert not prop.is_unsafe_at([3, 3], [2, 0])
        assert len(prop.boxes) == 2


def test_rows_on_inputs_count() -> None:
    disjunct = Disjunct(UNIT, Polytope.of([[1, 1]], [1]), Polytope.everything(1))
    assert disjunct.contains_input([0.5, 0.5])
    assert not disjunct.contains_input([0.75, 0.5])
    assert not disjunct.contains_input([-0.25, 0.5])


def test_disjuncts_fit_their_property() -> None:
    with pytest.raises(PropertyError):
        Disjunct(UNIT, Polytope.everything(3), Polytope.everything(2))
    fits = Disjunct(UNIT, Polytope.everything(2), Polytope.everything(2))
    with pytest.raises(PropertyError):
        Property((fits,), Variable("X", (3,)), Variable("Y", (2,)))
    with pytest.raises(PropertyError):
        Property((fits,), Variable("X", (2,)), Variable("Y", (3,)))
    with pytest.raises(PropertyError):
        Property.of()
    assert Property((), Variable("X", (3,)), Variable("Y", (2,))).boxes == ()


def test_sizes_of_shapes() -> None:
    assert Variable("X", (2, 3, 4)).size == 24
    assert Variable("X", ()).size == 1
    assert Variable("X", (2**32, 2**32)).size == 2**64  # int64 would say 0


@settings(max_examples=500)
@given(st.fractions() | st.floats(allow_nan=False, allow_infinity=False).map(Fraction), st.booleans())
def test_the_largest_float_below_a_bound(value: Fraction, closed: bool) -> None:
    end = at_most_float((value, closed))
    assert end < math.inf
    after = math.nextafter(end, math.inf)
    assert math.isinf(end) or (Fraction(end) <= value if closed else Fraction(end) < value)
    assert math.isinf(after) or (Fraction(after) > value if closed else Fraction(after) >= value)


def test_bounds_beyond_float64() -> None:
    huge, largest = Fraction(10) ** 400, math.nextafter(math.inf, 0)
    assert (at_most_float((huge, True)), at_most_float((-huge, True))) == (largest, -math.inf)
    assert (nearest_float(huge), nearest_float(-huge)) == (math.inf, -math.inf)
    assert interval((huge, True), (huge, True)) == ((-math.inf, math.inf), (-largest, largest))
    outer, (low, high) = interval((-huge, True), (huge, True))  # a pin at 10**400, which no float is near
    assert outer == (largest, math.inf)
    assert low > high


def test_only_closed_pins_are_kept() -> None:
    tenth = Fraction(1, 10)
    assert interval((-tenth, True), (tenth, True)) == ((0.1, 0.1),) * 2
    for closed in ((True, False), (False, True)):
        outer, inner = interval((-tenth, closed[0]), (tenth, closed[1]))
        assert outer == inner
        assert outer[0] > outer[1]


fractions = st.fractions(-2, 2) | st.floats(-2, 2).map(Fraction)


@settings(max_examples=500)
@given(
    fractions, fractions | st.fractions(0, 10).map(lambda v: v / 10**17), st.booleans(), st.booleans(), st.booleans()
)
def test_no_real_number_is_lost(low: Fraction, other: Fraction, near: bool, first: bool, last: bool) -> None:
    high = low + abs(other) if near else other
    outer, inner = interval((-low, first), (high, last))
    if low > high or (low == high and not (first and last)):
        assert outer[0] > outer[1]
        assert inner[0] > inner[1]
        return
    if low == high:
        assert outer == inner == (float(low), float(low))
        return
    assert Fraction(outer[0]) <= low < Fraction(math.nextafter(outer[0], 9))
    assert Fraction(math.nextafter(outer[1], -9)) < high <= Fraction(outer[1])
    for x in (*outer, *inner, *(math.nextafter(end, side) for end in inner for side in (-9, 9))):
        above = Fraction(x) >= low if first else Fraction(x) > low
        below = Fraction(x) <= high if last else Fraction(x) < high
        assert (inner[0] <= x <= inner[1]) == (above and below)


def test_an_inner_box_has_the_same_inputs() -> None:
    everything = Polytope.everything(2)
    inner = Box(np.full(2, 0.25), np.ones(2))
    disjunct = Disjunct(UNIT, everything, everything, inner)
    assert disjunct.witnesses is inner
    assert Disjunct(UNIT, everything, everything).witnesses is UNIT
    assert disjunct.contains_input([0.25, 1.0])
    assert not disjunct.contains_input([0.0, 1.0])
    with pytest.raises(PropertyError):
        Disjunct(UNIT, everything, everything, Box(np.zeros(1), np.ones(1)))
