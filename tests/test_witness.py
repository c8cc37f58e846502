"""Witness files are what the competition's scorer reads, and are read back exactly."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ginnacer_verify.arrays import read_only
from ginnacer_verify.box import Box
from ginnacer_verify.errors import WitnessError
from ginnacer_verify.loading import unpack
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable
from ginnacer_verify.replay.witness import decimal, parse_witness, read_witness, witness_json, witness_text

DISJUNCT = Disjunct(Box(read_only([0, 0]), read_only([1, 1])), Polytope.everything(2), Polytope.everything(1))
ONE = Property.of(DISJUNCT)
TWO = Property((DISJUNCT,), Variable("in", (1, 2), "float32"), Variable("out", (1, 1), "float32"), "2.0")
X, Y = read_only([0.25, 1e-9]), read_only([-3.5])


def test_version_one_text() -> None:
    assert witness_text(ONE, X, Y) == "((X_0 0.25)\n(X_1 0.000000001)\n(Y_0 -3.5))\n"


def test_version_two_text() -> None:
    assert witness_text(TWO, X, Y) == "in float32 [1,2]\n0.25\n0.000000001\nout float32 [1,1]\n-3.5\n"


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2))
def test_round_trips_are_exact(values: list[float]) -> None:
    x = read_only(values)
    for prop in (ONE, TWO):
        for text in (witness_text(prop, x, Y), "sat\n" + witness_text(prop, x, Y), witness_json(x, Y)):
            np.testing.assert_array_equal(parse_witness(text, prop), x)
    assert "e" not in decimal(values[0])


def test_more_than_ten_inputs_keep_their_order() -> None:
    x = read_only(range(12))
    box = Disjunct(Box(0 * x, x), Polytope.everything(12), Polytope.everything(1))
    np.testing.assert_array_equal(parse_witness(witness_text(Property.of(box), x, Y), Property.of(box)), x)


def test_a_variable_may_be_called_sat() -> None:
    for name in ("sat", "saturation"):
        prop = Property((DISJUNCT,), Variable(name, (2,), "float32"), Variable("out", (1,), "float32"), "2.0")
        np.testing.assert_array_equal(parse_witness(witness_text(prop, X, Y), prop), X)


def test_files_may_be_compressed(tmp_path: Path) -> None:
    file = tmp_path / "w.counterexample.gz"
    file.write_bytes(gzip.compress(witness_text(ONE, X, Y).encode()))
    np.testing.assert_array_equal(read_witness(file, ONE), X)
    with pytest.raises(WitnessError, match=r"absent cannot be read: No such file or directory$"):
        read_witness(tmp_path / "absent", ONE)
    whole = gzip.compress(witness_text(ONE, X, Y).encode())
    for damaged in (whole[:-9], whole[:12] + bytes(len(whole) - 12), whole[:3]):
        file.write_bytes(damaged)
        with pytest.raises(WitnessError, match="cannot be read"):
            read_witness(file, ONE)


def test_a_witness_without_end_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack.unpacked, "__defaults__", (*(unpack.unpacked.__defaults__ or ())[:1], 1000))
    (tmp_path / "w.gz").write_bytes(gzip.compress(b" " * 1_000_000))
    with pytest.raises(WitnessError, match="unpacks to more than"):
        read_witness(tmp_path / "w.gz", ONE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unsat",
        "timeout",
        "((X_0 0.1))",
        "((X_0 0.1) (X_2 0.1))",
        "((X_1 0.1) (X_0 0.1))",
        "((X_0 0.1) (X_1 word))",
        "((X_0 0.1) (X_01 0.2))",
        f"((X_{'0' * 5000} 0.1) (X_1 0.2))",
        "((X_0 0.1) (X_1 0.2) (X_2 0.3))",
        "((X_0 0.1) (X_1 0.2) nonsense)",
        "{",
        '{"y": [1]}',
        '{"x": [1]}',
        '{"x": 1}',
        '{"x": ["a", 2]}',
        '{"x": "12"}',
        '{"x": {"0": 0.1, "1": 0.2}}',
        '{"x": [0.1, 0.2, 0.3]}',
        '{"x": ' + "[" * 100_000,
        "other float32 [1,2]\n1\n2\n",
        "in float32 [1,2]\n0.1\n",
        "in float32 [1,2]\n0.1\nout float32 [1,1]\n0.2\n",
        "in float32 [1,3]\n0.1\n0.2\n0.3\n",
        "in float32 [1,3]\n0.1\n0.2\n0.3\nout float32 [1,1]\n0.2\n",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    for prop in (ONE, TWO):
        with pytest.raises(WitnessError):
            parse_witness(text, prop)


def test_numbers_beyond_every_float_are_read_as_infinite() -> None:
    """And so refused by the judge, whatever Python thinks of converting so many digits."""
    assert parse_witness('{"x": [' + "9" * 5000 + ", 1]}", ONE).tolist() == [np.inf, 1.0]
