"""Witness files are what the competition's scorer reads, and are read back exactly."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ginnacer_verify.box import Box
from ginnacer_verify.errors import WitnessError
from ginnacer_verify.network import read_only
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable
from ginnacer_verify.witness import decimal, parse_witness, read_witness, witness_json, witness_text

DISJUNCT = Disjunct(Box(read_only([0, 0]), read_only([1, 1])), Polytope.everything(2), Polytope.everything(1))
ONE = Property.of(DISJUNCT)
TWO = Property((DISJUNCT,), Variable("in", (1, 2), "float32"), Variable("out", (1, 1), "float32"), "2.0")
X, Y = read_only([0.25, 1e-9]), read_only([-3.5])


def test_version_one_text() -> None:
    assert witness_text(ONE, X, Y) == "((X_0 0.25)\n(X_1 0.000000001)\n(Y_0 -3.5))\n"


def test_version_two_text() -> None:
    assert witness_text(TWO, X, Y) == "in float32 [1,2]\n0.25\n0.000000001\nout float32 [1,1]\n-3.5\n"


@settings(derandomize=True)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2))
def test_round_trips_are_exact(values: list[float]) -> None:
    x = read_only(values)
    for prop in (ONE, TWO):
        for text in (witness_text(prop, x, Y), "sat\n" + witness_text(prop, x, Y), witness_json(x, Y)):
            np.testing.assert_array_equal(parse_witness(text, prop), x)
    assert "e" not in decimal(values[0])


def test_files_may_be_compressed(tmp_path: Path) -> None:
    file = tmp_path / "w.counterexample.gz"
    file.write_bytes(gzip.compress(witness_text(ONE, X, Y).encode()))
    np.testing.assert_array_equal(read_witness(file, ONE), X)
    with pytest.raises(WitnessError, match="cannot be read"):
        read_witness(tmp_path / "absent", ONE)
    whole = gzip.compress(witness_text(ONE, X, Y).encode())
    for damaged in (whole[:-9], whole[:12] + bytes(len(whole) - 12), whole[:3]):
        file.write_bytes(damaged)
        with pytest.raises(WitnessError, match="cannot be read"):
            read_witness(file, ONE)


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
        "((X_0 0.1) (X_1 0.2) nonsense)",
        "{",
        '{"y": [1]}',
        '{"x": [1]}',
        '{"x": 1}',
        '{"x": ["a", 2]}',
        "other float32 [1,2]\n1\n2\n",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(WitnessError):
        parse_witness(text, ONE)
    with pytest.raises(WitnessError):
        parse_witness("in float32 [1,2]\n0.1\n" if text.startswith("other") else text, TWO)
