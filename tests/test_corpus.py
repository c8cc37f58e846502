"""What the fuzzers found stays found."""

from pathlib import Path

import pytest
from fuzz_targets import TARGETS, found, seeds

CASES = [(target, path) for target in TARGETS for path in found(target)]


@pytest.mark.parametrize(("target", "path"), CASES, ids=lambda value: getattr(value, "name", value))
def test_cases_that_were_found(target: str, path: Path) -> None:
    TARGETS[target](path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_what_fuzzers_begin_with(target: str) -> None:
    for data in (b"", b"\0", *list(seeds(target))[:2]):
        TARGETS[target](data)
