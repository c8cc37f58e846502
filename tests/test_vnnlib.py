"""VNN-LIB 1.0, and what both versions share: files, errors, disjunctive normal form."""

import gzip
import math
import random
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from sexpr import Form, formula_of_text
from vnnlib_points import compare
from vnnlib_texts import formulas, mutated, text1

from benchmarks import benchmark
from ginnacer_verify.errors import InputError, PropertyError, UnsupportedProperty, VnnlibSyntaxError
from ginnacer_verify.properties.vnnlib import parse_vnnlib, read_vnnlib

DECLARED = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "X_1", "Y_0", "Y_1"))
UNIT_BOX = "(assert (and (>= X_0 0) (<= X_0 1) (>= X_1 0) (<= X_1 1)))\n"
SMALL = (
    DECLARED + UNIT_BOX + "(assert (or (and (<= Y_0 Y_1) (>= Y_0 0.5)) (< (+ Y_0 (* 2 Y_1)) -1)))\n",
    DECLARED + UNIT_BOX + "(assert (or (and (>= X_0 0.25) (> Y_0 1)) (and (<= X_1 0.75) (<= (- Y_1) Y_0 ))))\n",
    DECLARED + "(assert (or (and (= X_0 0.5) (>= X_1 0) (<= X_1 1)) (and (>= X_0 2) (<= X_0 3) (= X_1 0.125))))\n"
    "; a comment (with a parenthesis\n(assert (<= (- Y_0 Y_1 1) 0.25))\n(assert (<= (+ X_0 X_1) 1))\n",
)


def parsed(assertions: str, box: str = UNIT_BOX) -> list[tuple[int, ...]]:
    """The numbers of input and output rows of each disjunct."""
    return [(len(d.inputs), len(d.outputs)) for d in parse_vnnlib(DECLARED + box + assertions).disjuncts]


def both_ends(bounds: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """The interval of X_0 that these assertions give it, for proofs and for witnesses."""
    (disjunct,) = parse_vnnlib(DECLARED + "(assert (and (>= X_1 0) (<= X_1 1)))" + bounds).disjuncts
    outer, inner = ((float(box.lower[0]), float(box.upper[0])) for box in (disjunct.box, disjunct.witnesses))
    return outer, inner


def ends(bounds: str) -> tuple[float, float]:
    """The interval for witnesses."""
    return both_ends(bounds)[1]


# --- public benchmarks ---


@pytest.mark.parametrize(
    ("number", "boxes", "rows"),
    [
        (1, 1, [1]),
        (2, 1, [4]),
        (3, 1, [4]),
        (4, 1, [4]),
        (5, 1, [1] * 4),
        (6, 2, [1] * 8),
        (7, 1, [3, 3]),
        (8, 1, [2, 2, 2]),
        (9, 1, [1] * 4),
        (10, 1, [1] * 4),
    ],
)
def test_acasxu(number: int, boxes: int, rows: list[int]) -> None:
    prop = read_vnnlib(benchmark("acasxu", f"prop_{number}.vnnlib"))
    assert (prop.inputs, prop.outputs, prop.version) == (5, 5, "1.0")
    assert len(prop.boxes) == boxes
    assert [len(d.outputs) for d in prop.disjuncts] == rows
    assert not any(len(d.inputs) or d.box.is_empty for d in prop.disjuncts)


def test_acasxu_6_is_every_box_with_every_rival() -> None:
    prop = read_vnnlib(benchmark("acasxu", "prop_6.vnnlib"))
    first, second = prop.boxes
    assert [d.box is first for d in prop.disjuncts] == [True] * 4 + [False] * 4
    assert second.upper[1] < 0 < first.lower[1]
    for k, disjunct in enumerate(prop.disjuncts):
        expected = np.zeros(5)
        expected[[1 + k % 4, 0]] = 1, -1
        assert (disjunct.outputs.matrix == expected).all()


def test_acasxu_4_fixes_an_input() -> None:
    (box,) = read_vnnlib(benchmark("acasxu", "prop_4.vnnlib")).boxes
    assert box.varying == [0, 1, 3, 4]
    assert box.lower[2] == box.upper[2] == 0.0


def test_mnistfc() -> None:
    files = sorted(benchmark("mnistfc").glob("*.vnnlib"))
    assert len(files) == 30
    for file in files:
        prop = read_vnnlib(file)
        label = int(file.read_text().split("label: ")[1][0])
        (box,) = prop.boxes
        assert (prop.inputs, prop.outputs, len(prop.disjuncts)) == (784, 10, 9)
        assert box.lower.min() >= 0
        assert box.upper.max() <= 1
        assert all(d.outputs.matrix[0, label] == 1 and d.outputs.matrix[0].sum() == 0 for d in prop.disjuncts)


def test_mnistfc_is_read_fast() -> None:
    file = benchmark("mnistfc", "prop_0_0.03.vnnlib")
    best = min(_seconds(file) for _ in range(10))
    assert best < 0.1  # 0.022 on an idle core; the rest is for a busy one


def _seconds(file: Path) -> float:
    start = time.process_time()
    read_vnnlib(file)
    return time.process_time() - start


# --- meaning ---


@settings(max_examples=150)
@given(formulas())
def test_random_formula_means_what_it_says(formula: Form) -> None:
    text = text1(formula)
    assert formula_of_text(text) == formula
    compare(parse_vnnlib(text), formula, random.Random(0))


def test_a_constraint_after_an_or_is_no_further_disjunct() -> None:
    """verivital/nnv#315."""
    choice = "(assert (or (<= Y_0 0) (<= Y_1 0)))"
    assert parsed(choice + "(assert (<= Y_0 Y_1))") == [(0, 2), (0, 2)]
    assert parsed("(assert (<= Y_0 Y_1))" + choice) == [(0, 2), (0, 2)]
    assert parsed("(assert (and (or (<= Y_0 0) (<= Y_1 0)) (<= Y_0 Y_1)))") == [(0, 2), (0, 2)]


def test_disjuncts_come_in_the_order_of_the_text() -> None:
    text = "(assert (or (<= Y_0 1) (or (<= Y_0 2) (<= Y_0 3))))(assert (or (<= Y_1 4) (<= Y_1 5)))"
    prop = parse_vnnlib(DECLARED + UNIT_BOX + text)
    assert [tuple(d.outputs.offset) for d in prop.disjuncts] == [(a, b) for a in (1, 2, 3) for b in (4, 5)]


def test_equal_boxes_are_one_object() -> None:
    box = "(>= X_0 0) (<= X_0 1) (>= X_1 -0.0) (<= X_1 1)"
    same = "(<= X_1 1) (>= X_1 0.0) (<= X_0 1.0) (>= X_0 0) (<= X_0 7)"
    prop = parse_vnnlib(DECLARED + f"(assert (or (and {box} (<= Y_0 0)) (and {same} (<= Y_1 0))))")
    assert len(prop.disjuncts) == 2
    assert len(prop.boxes) == 1
    assert not np.signbit(prop.boxes[0].lower).any()  # and no -0.0 tells equal boxes apart


def test_bounds_are_rounded_inwards_for_witnesses() -> None:
    tenth = 0.1  # above the decimal 0.1
    assert ends("(assert (>= X_0 0.1))(assert (<= X_0 1))")[0] == tenth
    assert ends("(assert (<= X_0 0.1))(assert (>= X_0 0))")[1] == math.nextafter(tenth, 0)
    assert ends("(assert (>= X_0 -0.1))(assert (<= X_0 1))")[0] == math.nextafter(-tenth, 0)
    assert ends("(assert (> X_0 0.5))(assert (< X_0 1))") == (math.nextafter(0.5, 1), math.nextafter(1, 0))
    assert ends("(assert (> X_0 0.1))(assert (< X_0 0.3))") == (tenth, 0.3)  # neither decimal is a float64
    assert ends("(assert (> X_0 0))(assert (< X_0 1))")[0] == 5e-324


def test_bounds_are_rounded_outwards_for_proofs() -> None:
    tenth = 0.1  # above the decimal 0.1
    for bounds, outer in (
        ("(>= X_0 0.1) (<= X_0 1)", (math.nextafter(tenth, 0), 1)),
        ("(<= X_0 0.1) (>= X_0 0)", (0, tenth)),
        ("(>= X_0 -0.1) (<= X_0 1)", (-tenth, 1)),
        ("(> X_0 0.5) (< X_0 1)", (0.5, 1)),
        ("(> X_0 0) (< X_0 1)", (0, 1)),
        ("(>= X_0 0.3) (<= X_0 0.30000000000000001)", (0.3, math.nextafter(0.3, 1))),
        ("(>= X_0 0.1) (<= X_0 0.1000000000000000001)", (math.nextafter(tenth, 0), tenth)),
    ):
        assert both_ends(f"(assert (and {bounds}))")[0] == outer


def test_equal_boxes_for_proofs_are_one_object_even_if_witnesses_differ() -> None:
    rows = [f"(and (>= X_0 0) ({less} X_0 0.5) (<= Y_0 0))" for less in ("<=", "<", "<")]
    prop = parse_vnnlib(DECLARED + f"(assert (and (>= X_1 0) (<= X_1 1)))(assert (or {' '.join(rows)}))")
    assert len(prop.boxes) == 1
    assert prop.disjuncts[0].inner is None
    assert prop.disjuncts[1].inner is prop.disjuncts[2].inner is not None


@pytest.mark.parametrize("decimal", ["0.1", "-0.7", "0.5", "0.0", "1e-400", "123.456"])
def test_a_pin_is_the_nearest_float(decimal: str) -> None:
    for bounds in (f"(assert (= X_0 {decimal}))", f"(assert (<= X_0 {decimal}))(assert (>= X_0 {decimal}))"):
        assert both_ends(bounds) == ((float(decimal),) * 2,) * 2


@pytest.mark.parametrize(
    "bounds",
    [
        "(assert (<= X_0 0.1))(assert (> X_0 0.1))",
        "(assert (<= X_0 1))(assert (>= X_0 2))",
        "(assert (> X_0 0.5))(assert (< X_0 0.5))",
        "(assert (>= X_0 (* 10 1e308)))(assert (<= X_0 1))",
    ],
)
def test_empty_boxes_stay_as_disjuncts(bounds: str) -> None:
    prop = parse_vnnlib(DECLARED + "(assert (and (>= X_1 0) (<= X_1 1)))" + bounds)
    assert [d.box.is_empty for d in prop.disjuncts] == [True]


def test_repeated_and_scaled_bounds_intersect() -> None:
    assert ends("(assert (and (<= X_0 3) (<= X_0 2) (<= X_0 5) (>= X_0 -1) (>= X_0 0)))") == (0, 2)
    for bounds in ("(<= X_0 1) (< X_0 1)", "(< X_0 1) (<= X_0 1)"):
        assert ends(f"(assert (and {bounds} (>= X_0 0)))") == (0, math.nextafter(1, 0))
    assert ends("(assert (and (<= (* 3 X_0) 1) (<= (* -4 X_0) (+ 1 1))))") == (-0.5, 1 / 3)  # 1/3 is rounded down
    assert ends("(assert (and (<= (- X_0 1) 0.5) (<= -1 (+ X_0 X_0))))") == (-0.5, 1.5)
    assert both_ends("(assert (and (<= X_0 (* 10 1e308)) (>= X_0 0)))") == (
        (0, math.inf),
        (0, np.finfo(np.float64).max),
    )


def test_comparisons_without_variables_are_evaluated() -> None:
    assert parsed("(assert (<= 1 2))(assert (<= Y_0 0))") == [(0, 1)]
    assert parsed("(assert (< 0.1 0.10000000000000000000000001))") == [(0, 0)]
    assert parsed("(assert (< 1 1))(assert (<= Y_0 0))") == []
    assert parsed("(assert (or (< 2 1) (<= Y_0 0)))") == [(0, 1)]
    assert parsed("(assert (<= (- Y_0 Y_0) -1))") == []
    assert parsed("(assert (<= (* 0 X_0) Y_0))") == [(0, 1)]


def test_rows_over_several_inputs_are_kept() -> None:
    prop = parse_vnnlib(DECLARED + UNIT_BOX + "(assert (< (+ X_0 (* 2 X_1)) (- 1.5 X_0)))")
    (disjunct,) = prop.disjuncts
    assert disjunct.inputs.matrix.tolist() == [[2, 2]]
    assert disjunct.inputs.offset.tolist() == [1.5]
    assert disjunct.inputs.strict.tolist() == [True]


def test_rows_have_the_nearest_constants() -> None:
    (disjunct,) = parse_vnnlib(DECLARED + UNIT_BOX + "(assert (> (* 0.1 Y_0) (+ 0.1 0.2)))").disjuncts
    assert disjunct.outputs.matrix.tolist() == [[-0.1, 0]]
    assert disjunct.outputs.offset.tolist() == [-0.3]  # exactly 3/10 first, rounded once
    assert disjunct.outputs.strict.tolist() == [True]


def test_rows_that_float64_cannot_hold_are_exact() -> None:
    text = "(assert (>= Y_0 0.50000000000000000001))(assert (<= (+ (* 0.1 Y_0) Y_1) 0.1))(assert (<= Y_1 0.25))"
    (disjunct,) = parse_vnnlib(DECLARED + UNIT_BOX + text).disjuncts
    rows = disjunct.outputs
    assert sorted(rows.exact) == [0, 1]
    assert rows.offset.tolist() == [-0.5, 0.1, 0.25]  # never below the exact ones
    assert [0.5, 0.0] not in rows
    assert [math.nextafter(0.5, 1), 0.0] in rows
    assert [1.0, 0.0] in rows
    assert [1.0, 5e-324] not in rows
    assert (rows.slop > 0).tolist() == [[False, False], [True, False], [False, False]]
    assert rows.slop[1, 0] >= abs(Fraction(0.1) - Fraction(1, 10))


def test_declare_fun_comments_and_line_ends() -> None:
    text = SMALL[0].replace("declare-const X_0", "declare-fun X_0 ()").replace("\n", " ; (comment\r")
    assert [len(d.outputs) for d in parse_vnnlib(text).disjuncts] == [2, 1]


# --- files ---


def test_read_plain_and_compressed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.vnnlib", tmp_path / "b.vnnlib.gz"
    plain.write_bytes(b"\xef\xbb\xbf" + SMALL[0].encode())
    packed.write_bytes(gzip.compress(SMALL[0].encode()))
    assert len(read_vnnlib(plain).disjuncts) == len(read_vnnlib(str(packed)).disjuncts) == 2
    assert len(read_vnnlib(packed.rename(plain)).disjuncts) == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PropertyError, match=r"absent\.vnnlib"):
        read_vnnlib(tmp_path / "absent.vnnlib")
    with pytest.raises(PropertyError, match="cannot be read"):
        read_vnnlib(tmp_path)
    broken = tmp_path / "broken.vnnlib"
    for data in (
        gzip.compress(SMALL[0].encode())[:-20],
        b"\x1f\x8b\x08",
        b"\x7fELF\x00\xff\xfe",
        SMALL[0].encode("utf-16"),
    ):
        broken.write_bytes(data)
        with pytest.raises(VnnlibSyntaxError, match=r"broken\.vnnlib"):
            read_vnnlib(broken)
    broken.write_bytes(SMALL[0].encode().replace(b"Y_1", b"Y\xff1", 1))
    with pytest.raises(VnnlibSyntaxError) as caught:
        read_vnnlib(broken)
    assert caught.value.line == 4


# --- errors ---


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("(assert (<= Y_0 1)", 6, "never closed"),
        ("\n(assert (<= Y_0 1)))", 7, r"'\)' outside"),
        ("(assert (<= Y_0 1)\n(assert (<= Y_0 1)))", 7, "'assert' inside of another form"),
        ("(assert\n(<= Y_2 1))", 7, "'Y_2' is not declared"),
        ("(assert (<= Y_0 nan))", 6, "'nan' is not declared"),
        ("(assert (<= Y_0 inf))", 6, "'inf' is not declared"),
        ("(assert (<= Y_0 1e999))", 6, "out of range"),
        ("(assert (<= Y_0 -1.8e308))", 6, "out of range"),
        ("(assert (<= Y_0 1e-999999999999))", 6, "out of range"),
        ("(assert (<= Y_0 1.2.3))", 6, "not a number"),
        (f"(assert (<= Y_0 {'1' * 100_000}))", 6, "not a number"),
        ("(assert (not (<= Y_0 1)))", 6, "unknown operator 'not'"),
        ("(assert (== Y_0 1))", 6, "unknown operator '=='"),
        ("(assert (!= Y_0 1))", 6, "unknown operator '!='"),
        ("(assert (<= 0 Y_0 1))", 6, "compares 3 terms"),
        ("(assert (and))", 6, "'and' is applied to nothing"),
        ("(assert (<= Y_0 (<= Y_1 1)))", 6, "applied to a comparison"),
        ("(assert (and Y_0 Y_1))", 6, "'and' is applied to a number"),
        ("(assert (<= () 1))", 6, "empty form"),
        ("(assert Y_0)", 6, "'assert' takes one"),
        ("(assert (<= Y_0 1) (<= Y_1 1))", 6, "'assert' takes one"),
        ("(assert ((<= Y_0 1)))", 6, "unknown operator"),
        ("(check-sat)", 6, "unknown command 'check-sat'"),
        ("()", 6, "without a command"),
        ("Y_0", 6, "outside of any form"),
        ("(declare-const Y_0 Real)", 6, "declared twice"),
        ("(declare-const Z Real)", 6, "not the name of a variable"),
        ("(declare-const X_02 Real)", 6, "not the name of a variable"),
        ("(declare-const X_2)", 6, "not a declaration"),
        ("(declare-const X_3 Real)", 0, "X_2 is not declared but X_3 is"),
        ("\u00a0(assert (<= Y_0 1))", 6, "outside of any form"),
    ],
)
def test_syntax_errors_name_the_place(text: str, line: int, problem: str) -> None:
    with pytest.raises(VnnlibSyntaxError, match=problem) as caught:
        parse_vnnlib(DECLARED + UNIT_BOX + text, source="some.vnnlib")
    assert (caught.value.source, caught.value.line) == ("some.vnnlib", line)


@pytest.mark.parametrize("text", ["", "; nothing", "(declare-const X_0 Real)", "(declare-const Y_0 Real)"])
def test_texts_without_variables(text: str) -> None:
    with pytest.raises(VnnlibSyntaxError, match="is declared"):
        parse_vnnlib(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"(assert (<= (* {'X_0 ' * 20}) 1))", "some.vnnlib:6: a product of more than 16 variables"),
        (f"(assert (<= (* {'(+ X_0 X_1 Y_0 Y_1 1) ' * 12}) 1))", "some.vnnlib:6: a product of sums with more than"),
        ("(declare-const X_2 Int)", "some.vnnlib:6: X_2 has the type Int"),
        ("(declare-const X_2 Real)(assert (<= X_2 1))", r"input X_2 is not bounded .* \(>= X_2 \.\.\.\)\) .* smallest"),
        ("(declare-const X_2 Real)(assert (>= X_2 1))", r"input X_2 is not bounded .* \(<= X_2 \.\.\.\)\) .* largest"),
        ("(assert (or (<= Y_0 0) (<= Y_1 0)))" * 20, "more than 1000000 disjuncts"),
        ("(assert (<= (* 1e-200 (* 1e-200 Y_0)) 1))", "too small for float64"),
        ("(assert (<= (* 1e200 (* 1e200 Y_0)) 1))", "out of the range of float64"),
        ("(assert (<= Y_0 (* 1e200 1e200)))", "out of the range of float64"),
    ],
)
def test_unsupported_properties_say_why(text: str, problem: str) -> None:
    with pytest.raises(UnsupportedProperty, match=problem):
        parse_vnnlib(DECLARED + UNIT_BOX + text, source="some.vnnlib")


def test_a_false_branch_does_not_count() -> None:
    choices = "(or (<= Y_0 0) (<= Y_1 0))" * 60
    assert parsed(f"(assert (or (and {choices} (<= 1 0)) (<= Y_0 3)))") == [(0, 1)]


# --- abuse ---


@pytest.mark.parametrize(
    ("text", "disjuncts"),
    [
        (f"(assert {'(and ' * 30_000}(<= Y_0 1){')' * 30_000})", 1),
        (f"(assert {'(and (<= X_0 1) ' * 30_000}(<= Y_0 1){')' * 30_000})", 1),
        (f"(assert {'(or (<= Y_1 1) ' * 9_999}(<= Y_0 1){')' * 9_999})", 10_000),
        (f"(assert {'(and (<= Y_1 1) (or (<= Y_1 1) ' * 300}(<= Y_0 1){'))' * 300})", 301),
        (f"(assert (<= {'(- ' * 30_000}Y_0{')' * 30_000} 1))", 1),
        (f"(assert (<= {'(+ Y_1 ' * 30_000}Y_0{')' * 30_000} 1))", 1),
        (f"(assert (<= (+ {'Y_0 ' * 60_000}) 1))", 1),
        (";" * 1_000_000, 1),
        (";\n" * 300_000, 1),
    ],
)
def test_deep_and_long_texts_are_read_in_good_time(text: str, disjuncts: int) -> None:
    start = time.process_time()
    prop = parse_vnnlib(DECLARED + UNIT_BOX + text)
    assert len(prop.disjuncts) == disjuncts
    del prop
    assert time.process_time() - start < 8


@pytest.mark.parametrize("text", ["(" * 300_000, ")" * 300_000, f"(assert (<= Y_0 {'(* 0.3 ' * 30_000} 1"])
def test_deep_and_long_nonsense_is_refused_in_good_time(text: str) -> None:
    start = time.process_time()
    with pytest.raises(VnnlibSyntaxError):
        parse_vnnlib(DECLARED + UNIT_BOX + text)
    assert time.process_time() - start < 8


def test_constants_cannot_grow_without_end() -> None:
    for text in (f"{'(* 0.3 ' * 30_000}1{')' * 30_000}", f"{'(* 2 ' * 30_000}Y_1{')' * 30_000}"):
        with pytest.raises(UnsupportedProperty, match="thousands of digits"):
            parse_vnnlib(DECLARED + UNIT_BOX + f"(assert (<= Y_0 {text}))")


def _check_mutants(texts: list[str], count: int, seed: int, points: int = 12) -> tuple[int, int]:
    """Every mutant is refused by one of our errors or means what its text says; (accepted, unsafe points)."""
    rng = random.Random(seed)
    accepted = unsafe = 0
    for _ in range(count):
        text = mutated(rng.choice(texts), rng)
        start = time.process_time()
        try:
            prop = parse_vnnlib(text)
        except (VnnlibSyntaxError, UnsupportedProperty):
            continue
        finally:
            assert time.process_time() - start < 5
        accepted += 1
        unsafe += compare(prop, formula_of_text(text), rng, points)
    return accepted, unsafe


def test_mutants_of_small_texts() -> None:
    accepted, unsafe = _check_mutants(list(SMALL), 2000, seed=1)
    assert accepted > 400
    assert unsafe > 400


def test_mutants_of_acasxu() -> None:
    texts = [benchmark("acasxu", f"prop_{i}.vnnlib").read_text() for i in range(1, 11)]
    accepted, unsafe = _check_mutants(texts, 800, seed=2)
    assert accepted > 150
    assert unsafe > 150


def test_mutants_of_mnistfc() -> None:
    text = benchmark("mnistfc", "prop_0_0.03.vnnlib").read_text()
    accepted, unsafe = _check_mutants([text], 20, seed=3, points=4)
    assert accepted > 2
    assert unsafe > 1


def test_mutants_of_bytes(tmp_path: Path) -> None:
    rng = random.Random(4)
    file = tmp_path / "mutant"
    for data in (SMALL[0].encode(), gzip.compress(SMALL[0].encode())) * 200:
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        file.write_bytes(bytes(damaged))
        try:
            prop = read_vnnlib(file)
        except InputError:
            continue
        text = gzip.decompress(damaged) if damaged.startswith(b"\x1f\x8b") else bytes(damaged)
        compare(prop, formula_of_text(text.decode("utf-8-sig")), rng, count=6)
