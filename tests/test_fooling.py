"""No network that was made to fool a verifier fools ours, in either arithmetic."""

from collections import Counter
from itertools import islice

import pytest
from disputes import Question, disputed
from fooling import FAMILIES, THRESHOLDS, Fooling, fooling, robust

from ginnacer_verify.engines.verify import verify

BLOCKS, SEEDS = 12, 45
"""540 networks, each with one of its thresholds; `benchmarks/disputes.py fooling` asks all engines about as many as one
likes."""


def one_of(seed: int) -> Fooling:
    """The threshold whose turn it is."""
    return next(islice(fooling(seed), seed // len(FAMILIES) % THRESHOLDS, None))


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_unsafe_is_called_safe_in_either_arithmetic(block: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(SEEDS * block, SEEDS * (block + 1)):
        case = one_of(seed)
        for arithmetic, unsafe in (("real", case.real), ("float32", case.run)):
            verdict = verify(case.graph, case.prop, arithmetic=arithmetic, timeout=1, threads=1)
            assert not (verdict.holds and unsafe), (case.name, arithmetic)
            found[f"{arithmetic} {verdict.word}"] += 1
    # neither arithmetic is a way of saying nothing
    assert found["real unsat"] > 12
    assert found["float32 unsat"] > 4


@pytest.mark.parametrize("arithmetic", ["real", "float32"])
@pytest.mark.parametrize("family", range(len(FAMILIES)))
def test_no_engine_is_fooled(family: int, arithmetic: str) -> None:
    for seed in range(family, 3 * len(FAMILIES), len(FAMILIES)):
        for case in fooling(seed):
            question = Question(case.graph, case.prop, case.real or None, case.run)
            assert not disputed(question, arithmetic, 0.5).wrong, case.name


def test_the_arithmetics_differ_in_many_of_these_cases() -> None:
    cases = [case for seed in range(60) for case in fooling(seed)]
    assert sum(case.run and not case.real for case in cases) > 60
    assert any(case.real and not case.run for case in cases)
    assert not any(case.real or case.run for case in cases if case.name.endswith(" 2"))


@pytest.mark.parametrize("arithmetic", ["real", "float32"])
@pytest.mark.parametrize(("width", "depth"), [(2, 1), (3, 2), (5, 3), (12, 3), (20, 4)])
def test_networks_that_are_robust_by_construction(width: int, depth: int, arithmetic: str) -> None:
    for seed in range(3):
        verdict = verify(*robust(width, depth, seed), timeout=10, arithmetic=arithmetic)
        assert not verdict.violated
        assert verdict.holds or width > 12
