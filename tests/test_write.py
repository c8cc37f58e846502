"""What is written is read back as the same set, by our readers and by the official parser."""

import math
import random
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sexpr import Form, formula_of_query, formula_of_text, truth
from vnnlib_points import compare, includes, same_set
from vnnlib_texts import formulas, text1

import vnnlib
from benchmarks import benchmark
from ginnacer_verify.box import Box
from ginnacer_verify.errors import PropertyError, UnsupportedProperty
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable
from ginnacer_verify.properties.vnnlib import parse_vnnlib, read_vnnlib
from ginnacer_verify.properties.write import to_vnnlib

VERSIONS = ("1.0", "2.0")
EVERYWHERE = Polytope.everything(2)


def one(lower: list[float], upper: list[float], outputs: Polytope, inputs: Polytope = EVERYWHERE) -> Property:
    return Property.of(Disjunct(Box(np.array(lower), np.array(upper)), inputs, outputs))


def assertions(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("(assert", "    ("))]


@settings(max_examples=120)
@given(formulas(), st.sampled_from(VERSIONS))
def test_random_properties_come_back(formula: Form, version: str) -> None:
    prop = parse_vnnlib(text1(formula))
    text = to_vnnlib(prop, version)
    again = parse_vnnlib(text)
    live = tuple(d for d in prop.disjuncts if not d.box.is_empty)
    if live and all(len(d.inputs) + len(d.outputs) for d in live):
        assert same_set(Property(live, prop.x, prop.y), again)
    includes(again, formula, random.Random(0))
    written = formula_of_text(text) if version == "1.0" else formula_of_query(vnnlib.parse_query_string(text))
    compare(again, written, random.Random(1))


floats = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=300)
@given(st.lists(floats, min_size=2, max_size=2), floats, floats.filter(bool), st.sampled_from(VERSIONS), st.booleans())
def test_any_float_comes_back(ends: list[float], offset: float, coefficient: float, version: str, strict: bool) -> None:
    low, high = sorted(ends)
    prop = one([low, 0], [high, 0], Polytope.of([[coefficient, 1]], [offset], strict))
    try:
        text = to_vnnlib(prop, version)
    except UnsupportedProperty:
        numbers = (low, high, offset, coefficient)
        assert version == "2.0"
        assert any(0 < abs(v) < 2.3e-308 for v in numbers)
        return
    assert not re.search(r"[0-9][eE]", text)
    ends_of_others = [float(end) for end in re.findall(r"[<>]= X(?:_0|\[0\]) ([^\s)]+)", text)]
    assert set(ends_of_others) <= {low, high}  # readers that take the nearest float64 get the same box
    again = parse_vnnlib(text)
    assert same_set(prop, again)
    (box,) = again.boxes
    assert box.lower[0] == low
    assert box.upper[0] == high


@pytest.mark.parametrize("version", VERSIONS)
def test_benchmarks_come_back(version: str) -> None:
    files = [*benchmark("acasxu").glob("*.vnnlib"), benchmark("mnistfc", "prop_0_0.03.vnnlib")]
    assert len(files) == 11
    for file in files:
        prop = read_vnnlib(file)
        again = parse_vnnlib(to_vnnlib(prop, version))
        assert same_set(prop, again)
        assert len(prop.boxes) == len(again.boxes)
        assert again.version == version


def test_simple_comparisons_are_written_simply() -> None:
    matrix = [[1, -1], [-1, 1], [0, 1], [-1, 0], [2, 0], [1, -3]]
    rows = Polytope.of(matrix, [0, 0, 0.5, 0.25, 1, 7], [True, False, False, True, False, True])
    assert assertions(to_vnnlib(one([0, -1], [1, 0.5], rows))) == [
        "(assert (>= X_0 0.0))",
        "(assert (<= X_0 1.0))",
        "(assert (>= X_1 -1.0))",
        "(assert (<= X_1 0.5))",
        "(assert (< Y_0 Y_1))",
        "(assert (<= Y_1 Y_0))",
        "(assert (<= Y_1 0.5))",
        "(assert (> Y_0 -0.25))",
        "(assert (<= (* 2.0 Y_0) 1.0))",
        "(assert (< (+ Y_0 (* -3.0 Y_1)) 7.0))",
    ]


def test_a_shared_box_is_written_once() -> None:
    boxes = [Box(np.zeros(2), np.ones(2)) for _ in range(2)]  # equal, but two objects
    disjuncts = [Disjunct(box, EVERYWHERE, Polytope.of([[1, -1]], [k])) for k, box in enumerate(boxes)]
    text = to_vnnlib(Property.of(*disjuncts))
    assert text.count("X_0 1.0") == 1
    assert len(assertions(text)) == 4 + 3
    assert len(parse_vnnlib(text).boxes) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_boxes_that_differ_in_one_end_are_kept_apart(version: str) -> None:
    for lower, upper in (([0.0, 0.5], [1.0, 1.0]), ([0.0, 0.0], [1.0, 0.5])):
        boxes = (Box(np.zeros(2), np.ones(2)), Box(np.array(lower), np.array(upper)))
        rows = (Polytope.of([[1, 0]], [0]), Polytope.of([[0, 1]], [0]))
        prop = Property.of(*(Disjunct(box, EVERYWHERE, row) for box, row in zip(boxes, rows, strict=True)))
        assert same_set(prop, parse_vnnlib(to_vnnlib(prop, version)))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_disjunct_without_rows_makes_the_whole_box_unsafe(version: str) -> None:
    box = Box(np.zeros(2), np.ones(2))
    outputs = (Polytope.of([[1, 0]], [-9]), Polytope.everything(2))
    again = parse_vnnlib(to_vnnlib(Property.of(*(Disjunct(box, EVERYWHERE, y) for y in outputs)), version))
    assert again.is_unsafe_at([0, 1], [5, 5])
    assert not again.is_unsafe_at([0, 2], [5, 5])


@pytest.mark.parametrize("version", VERSIONS)
def test_properties_that_nothing_violates(version: str) -> None:
    never = Polytope.of([[0, 0]], [0], strict=True)
    inside = ([0.0, 0.0], [1.0, 1.0])
    for prop in (
        Property((), Variable("X", (2,)), Variable("Y", (2,))),
        one([0, 1], [1, 0], Polytope.everything(2)),
        one([math.inf, 0], [1, 0], Polytope.everything(2)),
        one(*inside, never),
        one(*inside, Polytope.everything(2), inputs=never),
        one(*inside, Polytope.everything(2), inputs=Polytope.of([[3, 0], [-3, 0]], [0.1, -0.2])),
        one(*inside, Polytope.everything(2), inputs=Polytope.of([[3, 0], [-3, 0]], [0.5, -0.5], strict=[True, False])),
    ):
        again = parse_vnnlib(to_vnnlib(prop, version))
        assert (again.inputs, again.outputs) == (2, 2)
        assert all(d.box.is_empty for d in again.disjuncts)


@settings(max_examples=150)
@given(st.floats(-5, 5).filter(bool), st.floats(-2, 2), st.booleans(), st.sampled_from(VERSIONS))
def test_rows_of_one_input_become_bounds(coefficient: float, offset: float, strict: bool, version: str) -> None:
    prop = one([-1, 0], [1, 0], Polytope.everything(2), inputs=Polytope.of([[coefficient, 0]], [offset], strict))
    try:
        again = parse_vnnlib(to_vnnlib(prop, version))
    except UnsupportedProperty:
        assert version == "2.0"
        assert min(abs(offset), abs(offset / coefficient)) < 2.3e-308
        return
    end = min(max(offset / coefficient, -1.0), 1.0)
    points = [-1.0, 1.0, end, *(math.nextafter(end, side) for side in (-2, 2)), 0.0, 0.3]
    for x in points:
        written, given = (each.is_unsafe_at([x, 0], [0, 0]) for each in (again, prop))
        assert written >= given
        assert written == given or abs(x - end) <= 2 * math.ulp(end)


def test_boxes_are_written_as_they_are_for_proofs() -> None:
    declared = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0"))
    bounds = "(> X_0 0.1) (< X_0 0.5) (>= X_1 0.1) (<= X_1 0.1) (<= Y_0 0)"
    prop = parse_vnnlib(f"{declared}(assert (and {bounds}))")
    for version in VERSIONS:
        text = to_vnnlib(prop, version)
        (box,) = parse_vnnlib(text).boxes
        assert (box.lower[0], box.upper[0]) == (math.nextafter(0.1, 0), 0.5)
        assert (box.lower[1], box.upper[1]) == (0.1, 0.1)
        assert text.count(" 0.1)") == 2


def test_the_smallest_float_is_written_out() -> None:
    prop = one([5e-324, -1], [1, -5e-324], Polytope.everything(2))
    assert same_set(prop, parse_vnnlib(to_vnnlib(prop)))
    with pytest.raises(UnsupportedProperty, match="below the numbers"):
        to_vnnlib(prop, "2.0")


def test_names_shapes_and_types_are_kept() -> None:
    x, y = Variable("image", (1, 2), "float32"), Variable("N", (2, 1), "float64")
    (disjunct,) = one([0, 0], [1, 1], Polytope.of([[1, -1]], [0])).disjuncts
    text = to_vnnlib(Property((disjunct,), x, y, "2.0"), "2.0")
    again = parse_vnnlib(text)
    assert (again.x, again.y) == (x, y)
    assert "(<= N[0,0] N[1,0])" in text
    assert "(<= Y_0 Y_1)" in to_vnnlib(again, "1.0")


def test_what_cannot_be_written() -> None:
    with pytest.raises(PropertyError, match=r"3\.0"):
        to_vnnlib(one([0, 0], [1, 1], Polytope.everything(2)), "3.0")
    with pytest.raises(PropertyError, match="X_1 is unbounded"):
        to_vnnlib(one([0, 0], [1, math.inf], Polytope.everything(2)))
    with pytest.raises(UnsupportedProperty, match="1e-310"):
        to_vnnlib(one([0, 0], [1, 1], Polytope.of([[1, 0]], [1e-310])), "2.0")


def test_the_text_itself_means_the_property() -> None:
    """Not only to our readers: the decimals of the text, taken as real numbers, hold at exactly the same floats."""
    prop = one([0.1, -0.3], [0.7, 0.2], Polytope.everything(2))
    formula = formula_of_text(to_vnnlib(prop))
    for i, (low, high) in enumerate(zip(prop.boxes[0].lower, prop.boxes[0].upper, strict=True)):
        for end, outside in ((low, -math.inf), (high, math.inf)):
            for value, inside in ((end, True), (math.nextafter(end, outside), False)):
                x = prop.boxes[0].middle.tolist()
                x[i] = float(value)
                point = {f"X_{k}": Fraction(v) for k, v in enumerate(x)}
                assert truth(formula, point) == inside
