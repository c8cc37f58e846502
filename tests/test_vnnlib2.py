"""VNN-LIB 2.0, read through the official parser and compared with its own tree."""

import random
import time

import pytest
from hypothesis import given, settings
from sexpr import Form, formula_of_query
from vnnlib_points import compare, same_set
from vnnlib_texts import formulas, mutated, text1, text2

import vnnlib
from ginnacer_verify.errors import InputError, UnsupportedProperty, VnnlibSyntaxError
from ginnacer_verify.properties.vnnlib import parse_vnnlib

HEADER = "(vnnlib-version <2.0>)\n(declare-network f (declare-input X real [2,2]) (declare-output Y real [1,2]))\n"
UNIT_BOX = "".join(f"(assert (and (>= X[{i},{j}] 0.0) (<= X[{i},{j}] 1.0)))" for i in (0, 1) for j in (0, 1)) + "\n"
SMALL = (
    HEADER + UNIT_BOX + "(assert (or (and (<= Y[0,0] Y[0,1]) (>= Y[0,0] 0.5)) (< (+ Y[0,0] (* 2.0 Y[0,1])) -1.0)))\n",
    HEADER + UNIT_BOX + "; text\n(assert (!= Y[0,0] 0.25))\n(assert (or (> X[1,0] 0.5) (== X[0,1] 0.5)))\n",
    HEADER + UNIT_BOX + "(assert (<= (- (+ X[0,0] X[0,1]) X[1,1]) 1.0))\n(assert (<= (- Y[0,1] Y[0,0] 0.5) 0.25))\n",
)


@settings(max_examples=100)
@given(formulas(("<=", ">=", "<", ">", "=", "!=")))
def test_random_formula_means_what_the_official_tree_says(formula: Form) -> None:
    text = text2(formula)
    compare(parse_vnnlib(text), formula_of_query(vnnlib.parse_query_string(text)), random.Random(0))


@settings(max_examples=100)
@given(formulas())
def test_both_versions_give_the_same_set(formula: Form) -> None:
    one, two = parse_vnnlib(text1(formula)), parse_vnnlib(text2(formula))
    assert (one.version, two.version) == ("1.0", "2.0")
    assert same_set(one, two)


def test_names_shapes_and_types() -> None:
    text = (
        "; a comment\n\n (vnnlib-version <2.0>) (declare-network f (declare-input image float32 [2,2])"
        "(declare-output score float64 []))(assert (and (<= image[0,0] 1.0) (<= image[0,1] 2.0) (<= image[1,0] 3.0)"
        "(<= image[1,1] 4.0) (>= image[0,0] 0.0) (>= image[0,1] 0.0) (>= image[1,0] 0.0) (>= image[1,1] 0.0)"
        "(> score 0.5)))"
    )
    prop = parse_vnnlib(text)
    assert (prop.x.name, prop.x.shape, prop.x.dtype) == ("image", (2, 2), "float32")
    assert (prop.y.name, prop.y.shape, prop.y.dtype) == ("score", (), "float64")
    assert prop.network == "f"
    assert prop.boxes[0].upper.tolist() == [1, 2, 3, 4]  # row-major
    assert prop.disjuncts[0].outputs.strict.tolist() == [True]


def test_the_version_is_what_the_text_says() -> None:
    pins: list[Form] = [["=", f"X_{i}", "0.5"] for i in range(3)]
    text = text1(["and", *pins, ["<=", "Y_0", "1"]])
    assert parse_vnnlib("; (vnnlib-version <2.0>)\n" + text).version == "1.0"
    assert parse_vnnlib(";\r\r; c\r\n" + SMALL[0]).version == "2.0"


def test_unequal_splits() -> None:
    prop = parse_vnnlib(HEADER + UNIT_BOX + "(assert (!= Y[0,0] 0.25))")
    assert [d.outputs.strict.tolist() for d in prop.disjuncts] == [[True], [True]]
    assert [prop.is_unsafe_at([0.5] * 4, [y, 0]) for y in (0.0, 0.25, 0.5)] == [True, False, True]


def test_equal_is_two_closed_rows() -> None:
    prop = parse_vnnlib(HEADER + UNIT_BOX + "(assert (== Y[0,0] 0.25))")
    (disjunct,) = prop.disjuncts
    assert disjunct.outputs.strict.tolist() == [False, False]
    assert [prop.is_unsafe_at([0.5] * 4, [y, 0]) for y in (0.0, 0.25, 0.5)] == [False, True, False]


@pytest.mark.parametrize(("relation", "unsafe"), [("<", {0.0}), ("<=", {0.0, 0.25}), (">", {0.5}), (">=", {0.25, 0.5})])
def test_strict_is_strict(relation: str, unsafe: set[float]) -> None:
    prop = parse_vnnlib(HEADER + UNIT_BOX + f"(assert ({relation} Y[0,0] 0.25))")
    assert {y for y in (0.0, 0.25, 0.5) if prop.is_unsafe_at([0.5] * 4, [y, 0])} == unsafe
    inputs = parse_vnnlib(HEADER + UNIT_BOX + f"(assert ({relation} X[0,0] 0.25))(assert (<= Y[0,0] 9.0))")
    assert {x for x in (0.0, 0.25, 0.5) if inputs.is_unsafe_at([x, 0.5, 0.5, 0.5], [0, 0])} == unsafe


def test_literals_are_read_exactly() -> None:
    text = "(assert (<= X[0,0] 0.300000000000000000000000000001))(assert (>= X[0,0] 0.3))"
    (disjunct,) = parse_vnnlib(HEADER + UNIT_BOX + text).disjuncts
    assert disjunct.witnesses.is_empty  # no float64 lies between the two
    assert not disjunct.box.is_empty


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("[1,2]", "[1,2.7]", 2, "neither a shape nor an index"),
        ("<= Y[0,0]", "<= Y[0.9,0]", 4, "neither a shape nor an index"),
        ("<= Y[0,0]", "<= Y[-0,0]", 4, "neither a shape nor an index"),
        ("<= Y[0,0]", "<= Y[0,", 4, "neither a shape nor an index"),
        ("<= Y[0,0]", "<= Y[0,7]", 4, r"Index out of bounds for variable Y\[0,7\]"),
        ("<= Y[0,0]", "<= Y[0]", 4, "Not enough indices"),
        ("<= Y[0,0]", "<= Z[0,0]", 4, "Undeclared variable Z"),
        ("(<= Y[0,0] Y[0,1])", "(Y[0,0] < Y[0,1])", 4, r"unexpected 'Y' \(write \(< Y\[0,0\] Y\[0,1\]\)\)"),
        ("0.5", "1", 4, r"Type mismatch .*\(write 1\.0\)"),
        ("0.5", "5e-1", 4, "unexpected 'e'"),
        ("(and (<= Y", "(and (= Y", 4, "unexpected '='"),
        ("0.5", "\0", 4, "NUL"),
        ("0.5", "0.\u0665", 4, "outside of a comment"),
        ("0.5", "9" * 400 + ".0", 0, "out of range"),
        ("0.5", "0." + "0" * 400 + "1", 0, "out of range"),
        ("0.5", "0." + "1" * 3000, 4, "not a number"),
        ("-1.0)))", "-1.0))", 4, "ends too early"),
        ("<2.0>", "<3.0>", 1, "Incompatible VNNLib version"),
        ("(vnnlib-version", "( vnnlib-version", 1, "unexpected"),
        ("(assert (or", "(assert " + "(or" * 2000, 4, "nested more than 1000 deep"),
    ],
)
def test_syntax_errors_name_the_place(old: str, new: str, line: int, problem: str) -> None:
    with pytest.raises(VnnlibSyntaxError, match=problem) as caught:
        parse_vnnlib(SMALL[0].replace(old, new, 1), source="some.vnnlib")
    assert (caught.value.source, caught.value.line) == ("some.vnnlib", line)


SECOND = "(declare-network g (equal-to f) (declare-input A real [2,2]) (declare-output B real [1,2]))\n"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("(declare-output", "(declare-input Z real [1]) (declare-output", "2 inputs"),
        ("[1,2]))", "[1,2]) (declare-output Z real [1]))", "2 outputs"),
        ("(declare-output", '(declare-hidden H real [1] "h") (declare-output', "hidden node H"),
        ("X real", "X float16", r"declare-input X float16 .* only real, float32, float64"),
        ("X real", "X nonsense", "element type"),
        ("(assert", SECOND + "(assert", r"input A\[0,0\] is not bounded"),
        ("(assert (and (>= X[1,0] 0.0)", "(assert (and (>= X[1,1] 0.0)", r"input X\[1,0\] is not bounded"),
        ("X real [2,2]", "X real [2,2000000000000]", r"input X\[0,2\] is not bounded"),
        ("Y real [1,2]", "Y real [100000,100000]", "more than 50000000 numbers"),
    ],
)
def test_unsupported_properties_say_why(old: str, new: str, problem: str) -> None:
    with pytest.raises(UnsupportedProperty, match=problem):
        parse_vnnlib(SMALL[0].replace(old, new, 1), source="some.vnnlib")


def test_nesting_up_to_the_limit() -> None:
    depth = 990
    text = f"(assert {'(and ' * depth}(<= Y[0,0] {'(- ' * 8}1.0{')' * 8}){')' * depth})"
    assert len(parse_vnnlib(HEADER + UNIT_BOX + text).disjuncts) == 1


def test_mutants() -> None:
    rng = random.Random(5)
    accepted = unsafe = 0
    for _ in range(1000):
        text = mutated(rng.choice(SMALL), rng)
        start = time.process_time()
        try:
            prop = parse_vnnlib(text)
        except InputError:
            continue
        finally:
            assert time.process_time() - start < 5
        accepted += 1
        query = vnnlib.parse_query_string(text.replace("\r", "\n"))
        unsafe += compare(prop, formula_of_query(query), rng, count=12)
    assert accepted > 200
    assert unsafe > 200
