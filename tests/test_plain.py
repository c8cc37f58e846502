"""The fast way through plain VNN-LIB reads what the general reader reads, bit by bit, and leaves it the rest."""

import gzip
import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sexpr import Form
from vnnlib_points import same_set
from vnnlib_texts import formulas, mutated, text1, text2

from benchmarks import benchmark
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.errors import InputError, OutOfTime, PropertyError
from ginnacer_verify.loading import unpack
from ginnacer_verify.properties.plain import parse_plain
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import parse_general, parse_vnnlib, read_vnnlib

NUMBERS = (
    "0",
    "-0.0",
    "0.1",
    "-0.1",
    "0.30000000000000004",
    "0.3",
    "1",
    "-2.5",
    "0.10000000000000000555",
    "1e-3",
    "7.",
)
PLAIN2 = ("0.0", "-0.0", "0.1", "-0.1", "0.30000000000000004", "0.3", "1.0", "-2.5", "0.10000000000000000555")


def same(fast: Property, slow: Property) -> bool:
    """Everything: disjuncts, boxes for witnesses, which boxes are shared, rounded and exact rows, names."""
    pairs = list(zip(fast.disjuncts, slow.disjuncts, strict=True))
    places = [[prop.boxes.index(d.box) for d in prop.disjuncts] for prop in (fast, slow)]
    return (
        same_set(fast, slow)
        and places[0] == places[1]
        and (fast.x, fast.y, fast.version, fast.network) == (slow.x, slow.y, slow.version, slow.network)
        and all(
            (a.inner is None) == (b.inner is None)
            and a.box.lower.tobytes() == b.box.lower.tobytes()
            and a.box.upper.tobytes() == b.box.upper.tobytes()
            and a.witnesses.lower.tobytes() == b.witnesses.lower.tobytes()
            and a.witnesses.upper.tobytes() == b.witnesses.upper.tobytes()
            and a.outputs.offset.tobytes() == b.outputs.offset.tobytes()
            and np.array_equal(a.outputs.matrix, b.outputs.matrix)
            and dict(a.outputs.exact) == dict(b.outputs.exact)
            and dict(a.inputs.exact) == dict(b.inputs.exact)
            for a, b in pairs
        )
    )


def agrees(text: str) -> bool:
    """Whether the text is plain; if so, both readers must agree about it, errors included."""
    fast = parse_plain(text)
    if fast is not None:
        assert same(fast, parse_general(text)), text
    return fast is not None


def plain_atoms(numbers: tuple[str, ...], equal: str) -> st.SearchStrategy[str]:
    relations = st.sampled_from(("<=", ">=", "<", ">", equal))
    sides = st.one_of(
        st.tuples(st.sampled_from(("X", "Y")), st.sampled_from("01"), st.sampled_from(numbers)).map(
            lambda drawn: (f"{drawn[0]}@{drawn[1]}", drawn[2])
        ),
        st.sampled_from([(f"{a}@{i}", f"{a}@{1 - i}") for a, i in product("XY", (0, 1))]),
    )
    return st.tuples(relations, sides).map(lambda drawn: f"({drawn[0]} {drawn[1][0]} {drawn[1][1]})")


@st.composite
def plain_texts(draw: st.DrawFn, version: str) -> str:
    numbers, equal = (NUMBERS, "=") if version == "1.0" else (PLAIN2, "==")
    atoms = plain_atoms(numbers, equal)
    bounds = [f"({r} X@{i} {draw(st.sampled_from(numbers))})" for i in (0, 1) for r in (">=", "<=")]
    conjunctions = st.lists(atoms, min_size=1, max_size=3).map(lambda parts: f"(and {' '.join(parts)})")
    choice = st.lists(st.one_of(atoms, conjunctions), min_size=1, max_size=3).map(lambda p: f"(or {' '.join(p)})")
    more = draw(st.lists(st.one_of(atoms, conjunctions, choice), max_size=3))
    body = "".join(f"(assert {part})\n" for part in draw(st.permutations([*bounds, *more])))
    if version == "1.0":
        declared = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "X_1", "Y_0", "Y_1"))
        return declared + body.replace("@", "_")
    header = "(vnnlib-version <2.0>)\n(declare-network f (declare-input X real [1,2]) (declare-output Y real [2,1]))\n"
    for i in "01":
        body = body.replace(f"X@{i}", f"X[0,{i}]").replace(f"Y@{i}", f"Y[{i},0]")
    return header + body


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_plain_texts_are_read_alike(version: str) -> None:
    plain = []

    @settings(max_examples=300)
    @given(plain_texts(version))
    def check(text: str) -> None:
        plain.append(agrees(text))

    check()
    assert sum(plain) > 0.25 * len(plain)


@settings(max_examples=200)
@given(formulas())
def test_random_formulas_are_read_alike(formula: Form) -> None:
    agrees(text1(formula))
    agrees(text2(formula))


def test_mutants_are_read_alike_or_left_to_the_general_reader() -> None:
    rng, plain = random.Random(0), 0
    declared = "".join(f"(declare-const {name} Real)\n" for name in ("X_0", "Y_0", "Y_1"))
    first = declared + "(assert (>= X_0 0.1))\n(assert (<= X_0 1)) ; c\n(assert (or (and (<= Y_0 Y_1)) (> Y_0 0.5)))\n"
    second = (
        "(vnnlib-version <2.0>)(declare-network f (declare-input X real [1,1])(declare-output Y real [1,2]))\n"
        "(assert (>= X[0,0] 0.1))\n(assert (<= X[0,0] 1.0))\n(assert (or (and (<= Y[0,0] Y[0,1])) (> Y[0,0] 0.5)))\n"
    )
    for text in [first] * 1000 + [second] * 1000:
        mutant = mutated(text, rng)
        try:
            plain += agrees(mutant.replace("\r\n", "\n").replace("\r", "\n"))
        except InputError as error:
            pytest.fail(f"plain, but refused by the general reader ({error}): {mutant!r}")
    assert plain > 100


@pytest.mark.parametrize(
    "form", ["(assert (<= Y_0 1) (<= Y_0 2))", "(assert)", "(assert (and))", "(assert (or))", "(assert (<= Y_0 1e999))"]
)
def test_what_is_wrong_is_not_plain(form: str) -> None:
    declared = "(declare-const X_0 Real)(declare-const Y_0 Real)(assert (>= X_0 0))(assert (<= X_0 1))"
    assert parse_plain(declared + "(assert (<= Y_0 1))") is not None
    assert parse_plain(declared + form) is None


@pytest.mark.parametrize("name", ["acasxu/prop_6.vnnlib", "acasxu/prop_8.vnnlib", "mnistfc/prop_9_0.03.vnnlib"])
def test_public_properties_are_plain(name: str) -> None:
    assert agrees(benchmark(*name.split("/")).read_text())


def test_more_than_a_hundred_thousand_disjuncts() -> None:
    parts = "".join(f"(and (>= X_0 {i}.25) (<= X_0 {i}.5) (<= Y_0 0.1))\n" for i in range(120_000))
    text = f"(declare-const X_0 Real)(declare-const Y_0 Real)(assert (or {parts}))"
    prop = parse_vnnlib(text)
    assert len(prop.disjuncts) == len(prop.boxes) == 120_000
    assert prop.disjuncts[77_777].box.lower.tolist() == [77_777.25]


@pytest.mark.parametrize("version", [0, 1])
def test_reading_ends_at_the_deadline(version: int, tmp_path: Path) -> None:
    part = "(<= (+ Y_0 1) 0.1)" if version else "(<= Y_0 0.1)"
    text = f"(declare-const X_0 Real)(declare-const Y_0 Real)(assert (or {part} {part}))"
    (tmp_path / "p.vnnlib").write_text(text)
    with pytest.raises(OutOfTime, match="the property was read"):
        read_vnnlib(tmp_path / "p.vnnlib", deadline=Deadline.after(0))


def test_unpacking_ends_at_a_size_and_at_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.vnnlib"
    file.write_bytes(gzip.compress(b" " * 3_000_000))
    with pytest.raises(OutOfTime, match="unpacked"):
        read_vnnlib(file, deadline=Deadline.after(0))
    assert len(unpack.unpacked(file.read_bytes())) == 3_000_000
    with pytest.raises(unpack.TooLarge):
        unpack.unpacked(file.read_bytes(), limit=2_000_000)
    monkeypatch.setattr(unpack.unpacked, "__defaults__", (*(unpack.unpacked.__defaults__ or ())[:1], 2_000_000))
    with pytest.raises(PropertyError, match="unpacks to more than"):
        read_vnnlib(file)
