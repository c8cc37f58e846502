"""No network that was made to fool a verifier fools ours, in either arithmetic."""

from collections import Counter

import pytest
from fooling import FAMILIES, Fooling, fooling, robust

from ginnacer_verify.engines.verify import verify

BLOCKS, SEEDS = 12, 15
"""15 seeds in each of 12 blocks, 3 thresholds each: 540 properties, twice."""
ENGINES = ("boxes", "phases", "regions", "cegar")


def _is_wrong(case: Fooling, engine: str, arithmetic: str) -> str:
    verdict = verify(case.network, case.prop, engine=engine, arithmetic=arithmetic, timeout=1, threads=1)
    unsafe = case.real if arithmetic == "real" else case.run
    assert not (verdict.holds and unsafe), (case.name, engine, arithmetic)
    return f"{arithmetic} {verdict.word}"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_unsafe_is_called_safe_in_either_arithmetic(block: int) -> None:
    found: Counter[str] = Counter()
    for seed in range(SEEDS * block, SEEDS * (block + 1)):
        for case in fooling(seed):
            for arithmetic in ("real", "float32"):
                found[_is_wrong(case, "auto", arithmetic)] += 1
    # neither arithmetic is a way of saying nothing
    assert found["real unsat"] > 12
    assert found["float32 unsat"] > 4


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_knows_both_arithmetics(engine: str) -> None:
    for seed in range(2 * len(FAMILIES)):
        for case in fooling(seed):
            for arithmetic in ("real", "float32"):
                _is_wrong(case, engine, arithmetic)


def test_the_arithmetics_differ_in_many_of_these_cases() -> None:
    cases = [case for seed in range(60) for case in fooling(seed)]
    assert sum(case.run and not case.real for case in cases) > 15
    assert any(case.real and not case.run for case in cases)
    assert not any(case.real or case.run for case in cases if case.name.endswith(" 2"))


@pytest.mark.parametrize("arithmetic", ["real", "float32"])
@pytest.mark.parametrize(("width", "depth"), [(2, 1), (3, 2), (5, 3), (12, 3), (20, 4)])
def test_networks_that_are_robust_by_construction(width: int, depth: int, arithmetic: str) -> None:
    for seed in range(3):
        verdict = verify(*robust(width, depth, seed), timeout=10, arithmetic=arithmetic)
        assert not verdict.violated
        assert verdict.holds or width > 12
