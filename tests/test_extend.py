"""What the pages about extending the verifier show works as it is printed."""

import re
from pathlib import Path
from typing import Any

import pytest
from cases import BY_HAND, CORNERS, SQUARE, one_disjunct
from function_cases import Case, intervals
from test_functions import CHOICES, flat, violations

from ginnacer_verify.engines.refinement import loop
from ginnacer_verify.query.backend import Backend

PAGES = Path(__file__).resolve().parent.parent / "docs" / "extend"
PAGE = PAGES / "function.md"


def run(page: Path) -> dict[str, Any]:
    """The names that a page's Python defines."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(block, names)
    return names


@pytest.mark.parametrize("choice", CHOICES)
def test_softsign(choice: float | None) -> None:
    case = Case(run(PAGE)["Softsign"](), lambda y: y / (1 + abs(y)), rational=True)
    lower, upper = intervals(case, 200)
    assert not violations(case, flat(case, lower, upper, choice), lower, upper)


def test_a_backend() -> None:
    backend = run(PAGES / "backend.md")["CornerBackend"]()
    assert isinstance(backend, Backend)
    for case in BY_HAND:
        found = loop.verify(case.network, case.prop, backend=backend, abstraction="linear", restarts=0, timeout=10)
        assert found.undecided or found.word == case.expected, case.name
    decided = one_disjunct(SQUARE, [[1.0]], [-1.05])
    assert loop.verify(CORNERS, decided, backend=backend, abstraction="linear", restarts=0).holds


def test_a_refinement_and_a_strategy() -> None:
    names = run(PAGES / "refinement.md")
    assert names["verdict"].holds
    assert names["by_pairs"].holds
    assert max(len(subset) for subset in names["abstraction"].partitions[1].subsets) <= 2
