"""Rows of results, and the journal that keeps them: one JSON line each, on the disk before the next begins."""

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from ginnacer_verify.bench.instances import DECIDED
from ginnacer_verify.bench.tools import OURS
from ginnacer_verify.errors import InputError
from ginnacer_verify.robust.lines import Lines

JOURNAL = "results.jsonl"
RowKey: TypeAlias = tuple[str, str, str, str]
TEXTS = ("category", "network", "property", "tool", "verdict", "expected", "reason", "started", "host")
NUMBERS = ("seconds", "timeout", "load", "exit_code", "memory")
LARGEST = 1e18
"""No second, byte or exit code is counted this far."""
KINDS: dict[str, Any] = {
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(NUMBERS, (int, float)),
    "details": dict,
    "trace": list,
}
"""What the values of a row are."""


@dataclass(frozen=True)
class Row:
    """What one tool said about one instance, and everything that is known about that run."""

    category: str
    network: str
    property: str
    tool: str
    verdict: str
    seconds: float
    timeout: float
    expected: str = ""
    reason: str = ""
    exit_code: int = 0
    memory: int = 0
    load: float = 0.0
    started: str = ""
    host: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    trace: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Row":
        """The row of a record; names that we do not know are left out, as another version may have written them."""
        names = {item.name for item in fields(cls)}
        row = cls(**{name: value for name, value in record.items() if name in names})
        for name, kinds in KINDS.items():
            value = getattr(row, name)
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise ValueError(f"{name} is {value!r}")
            if name in NUMBERS and not abs(value) < LARGEST:
                raise ValueError(f"{name} is no sensible number")
        if not all(isinstance(record, dict) for record in row.trace):
            raise ValueError("the trace is none")
        _check_details(row.details)
        return row


def _check_details(details: dict[str, Any]) -> None:
    """Refuse what the report would stumble over."""
    relus, found = details.get("relus") or {}, details.get("counterexample") or {}
    if not isinstance(details.get("seconds", 0.0), int | float):
        raise ValueError("the seconds are no number")
    if not isinstance(relus, dict) or (relus and not {"total", "unstable", "kept"} <= set(relus)):
        raise ValueError("the ReLUs are not counted")
    if not (isinstance(found, dict) and all(isinstance(found.get(name, []), list) for name in ("x", "y"))):
        raise ValueError("the counterexample is none")


def row_key(row: Row) -> RowKey:
    return row.category, row.network, row.property, row.tool


def is_wrong(row: Row) -> bool:
    return row.expected in DECIDED and row.verdict in DECIDED and row.verdict != row.expected


def is_solved(row: Row) -> bool:
    return row.verdict in DECIDED and not is_wrong(row)


class Journal:
    """The rows of one folder. Only one process at a time can have it open."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / JOURNAL
        self._lines = Lines(self.path)
        self.rows, torn = read_rows(self.path)
        self.torn = torn + self._lines.torn
        self._keys = {row_key(row) for row in self.rows}

    def __contains__(self, key: RowKey) -> bool:
        return key in self._keys

    def append(self, row: Row) -> bool:
        """Write the row and wait for the disk; a row that is already there is not written again."""
        if row_key(row) in self._keys:
            return False
        self._lines.append(json.dumps(asdict(row)), "run the same with --resume")
        self.rows.append(row)
        self._keys.add(row_key(row))
        return True

    def close(self) -> None:
        self._lines.close()


def read_rows(path: Path) -> tuple[list[Row], int]:
    """The rows of a journal, each key once, and how many lines are none."""
    rows: dict[RowKey, Row] = {}
    torn = 0
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {problem.strerror}") from problem
    for line in lines:
        try:
            row = Row.of(json.loads(line, parse_constant=_no_number, parse_float=_number))
            if not line.endswith(b"\n"):
                raise ValueError("the end of the line is missing")
            rows.setdefault(row_key(row), row)
        except (ValueError, TypeError, AttributeError, RecursionError):
            torn += 1
    return list(rows.values()), torn


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is more than any number")
    return value


def write_file(path: Path, text: str) -> None:
    """Replace a file as a whole: there is the old one or the new one, never half of it."""
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as problem:
        with suppress(OSError):
            draft.unlink()
        raise InputError(f"{path} cannot be written: {problem.strerror}") from problem


def results_csv(rows: Iterable[Row]) -> str:
    """The competition's table: category, network, property, time to prepare, verdict, time to run; no header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow((row.category, row.network, row.property, "0.0", row.verdict, f"{row.seconds:.6f}"))
    return text.getvalue()


def write_tables(folder: Path, rows: Sequence[Row]) -> None:
    """`results.csv` with our verdicts, and `results-TOOL.csv` for each other tool."""
    for tool in dict.fromkeys(row.tool for row in rows):
        name = "results.csv" if tool == OURS else f"results-{tool}.csv"
        write_file(folder / name, results_csv(row for row in rows if row.tool == tool))
