"""What a set of rows adds up to: PAR-2, medians, the competition's points, conflicts between tools."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ginnacer_verify.bench.instances import DECIDED, Key
from ginnacer_verify.bench.results import Row, is_solved, is_wrong
from ginnacer_verify.bench.tools import VERDICTS

RIGHT, WRONG = 10, -150
"""Points of the VNN-COMP 2026 scorer for a verdict; anything else gives none."""


@dataclass(frozen=True)
class Score:
    """One tool on a set of instances. `par2` is the sum of seconds, twice the limit where it did not solve."""

    tool: str
    verdicts: Mapping[str, int]
    solved: int
    wrong: int
    par2: float
    median: float | None
    solving: float
    points: int


def score(tool: str, rows: Sequence[Row]) -> Score:
    """`median` is over what was solved, with start-up; `solving` sums the seconds that the tool itself reports."""
    times = [row.seconds for row in rows if is_solved(row)]
    wrong = sum(map(is_wrong, rows))
    return Score(
        tool=tool,
        verdicts={word: sum(row.verdict == word for row in rows) for word in VERDICTS},
        solved=len(times),
        wrong=wrong,
        par2=sum(par2(row) for row in rows),
        median=median(times) if times else None,
        solving=sum(float(row.details.get("seconds", 0.0)) for row in rows),
        points=RIGHT * len(times) + WRONG * wrong,
    )


def competition(rows: Sequence[Row]) -> dict[str, float]:
    """The competition's total: in each category 100 for the most points, the others in proportion, never below 0."""
    tools = by_tool(rows)
    totals = dict.fromkeys(tools, 0.0)
    for category in {row.category for row in rows}:
        points = {t: score(t, [row for row in found if row.category == category]).points for t, found in tools.items()}
        best = max(points.values())
        for tool, count in points.items():
            totals[tool] += max(0.0, 100.0 * count / best) if best > 0 else 0.0
    return totals


def par2(row: Row) -> float:
    return row.seconds if is_solved(row) else 2.0 * row.timeout


def by_tool(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each tool, in the order in which the tools first appear."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.tool].append(row)
    return dict(found)


def in_common(rows: Sequence[Row]) -> list[Row]:
    """The rows of instances that every tool has run: what can be compared."""
    tools = {row.tool for row in rows}
    seen: dict[Key, set[str]] = defaultdict(set)
    for row in rows:
        seen[_instance(row)].add(row.tool)
    return [row for row in rows if seen[_instance(row)] == tools]


def conflicts(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each instance on which two tools contradict each other."""
    found: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        if row.verdict in DECIDED:
            found[_instance(row)].append(row)
    return [said for said in found.values() if len({row.verdict for row in said}) > 1]


def _instance(row: Row) -> Key:
    return row.category, row.network, row.property
