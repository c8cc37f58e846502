"""Attacks on the checker: tampered and forged certificates, and provers that are wrong. More of the same, and longer:
`python benchmarks/certificates.py attack`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from forging import (
    below,
    blank,
    forged,
    lowest,
    mutated,
    network,
    proved,
    records_of,
    refused,
    repacked,
    spans,
    wrong_files,
)

from ginnacer_check.check import Problem
from ginnacer_verify import load
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import Lines
from ginnacer_verify.certificate.certify import retold
from ginnacer_verify.engines.phases.reduced import Phases, Reduced, Single
from ginnacer_verify.engines.record import Record
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.properties.vnnlib import parse_vnnlib


@pytest.mark.parametrize("engine", [None, "boxes", "phases"])
def test_tampered_certificates(engine: str | None, tmp_path: Path) -> None:
    """A mutated certificate never proves what is false; where it still proves what is true, so it does exactly."""
    random, accepted = np.random.default_rng(0), 0
    for seed in range(3):
        model = network(seed, layers=3)
        level = lowest(model)
        true, false = below(level - 0.05), below(level + 1e-9)
        content = proved(model, true, tmp_path / "proof.gcert", engine)
        assert content is not None
        records, where = records_of(content), spans(model, true, content)
        for _ in range(25):
            changed = mutated(records, where, random)
            assert refused(model, false, repacked(content, changed, false))
            if not refused(model, true, repacked(content, changed)):
                assert not refused(model, true, repacked(content, changed), exact=1.0)
                accepted += 1
        assert all(refused(*wrong) for wrong in wrong_files(model, true, content))
    assert accepted < 70


def test_forged_certificates() -> None:
    random = np.random.default_rng(1)
    for seed in range(10):
        model = network(seed)
        false = below(lowest(model) + 0.01)
        problem = Problem(model, false)
        for _ in range(10):
            assert refused(model, false, repacked(blank(problem), forged(problem, random)))


def no_top(lines: Lines) -> Lines:
    """A wrong line: the chord without its intercept."""
    return replace(lines, intercept=0 * lines.intercept)


def flat(lines: Lines) -> Lines:
    """Another one: not the chord but half of its slope."""
    return replace(lines, upper_slope=0.5 * lines.upper_slope)


@pytest.mark.parametrize("wrong", [no_top, flat])
def test_wrong_lines_are_found_out(
    wrong: Callable[[Lines], Lines], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right = Reduced._lines
    monkeypatch.setattr(Reduced, "_lines", lambda *given: wrong(right(*given)))
    _believed_and_refused(tmp_path / "proof.gcert")


@pytest.mark.parametrize(("sign", "bias"), [(1.0, 5.0), (-1.0, 2.0)])
def test_wrong_rows_are_found_out(sign: float, bias: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A dropped bias, and a wrong sign."""
    right = Reduced.rigorous

    def rigorous(self: Reduced, weight: Array, b: Array, phase: Phases, multipliers: Single) -> Array:
        return right(self, sign * weight, 0 * b + bias, phase, multipliers)

    monkeypatch.setattr(Reduced, "rigorous", rigorous)
    _believed_and_refused(tmp_path / "proof.gcert")


def _believed_and_refused(path: Path) -> None:
    """The engine, made wrong, believes something false; the checker never does."""
    believed = 0
    for seed in range(6):
        model = network(seed, layers=3)
        false = below(lowest(model) + 0.01)
        prop = parse_vnnlib(false.decode())
        record = Record(prop)
        verdict = verify(load(model), prop, engine="phases", restarts=0, record=record, timeout=2.0)
        if verdict.holds and retold(Problem(model, false), record, path, {}):
            believed += 1
            assert refused(model, false, path.read_bytes())
    assert believed
