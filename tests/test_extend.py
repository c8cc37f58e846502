"""What the pages about extending the verifier show works as it is printed."""

import re
from pathlib import Path
from typing import Any

import pytest
from function_cases import Case, intervals
from test_functions import CHOICES, flat, violations

PAGE = Path(__file__).resolve().parent.parent / "docs" / "extend" / "function.md"


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
