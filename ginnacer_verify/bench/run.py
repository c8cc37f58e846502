"""A run: what is still to do, the rows as they come, and the files of its folder.

results.jsonl     one row per instance and tool; everything else is made from it
results.csv       ours in the competition's format; results-TOOL.csv the others
meta.json         settings, and for each start of the run its machine, load and versions
"""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ginnacer_verify.bench.instances import DECIDED, Instance
from ginnacer_verify.bench.local import Work
from ginnacer_verify.bench.machine import machine, now
from ginnacer_verify.bench.results import Journal, Row, is_wrong, read_rows, write_file, write_tables
from ginnacer_verify.bench.tools import Tool
from ginnacer_verify.errors import GinnacerError, InputError

META = "meta.json"


class WrongVerdict(GinnacerError):
    """A verdict that contradicts what is known, or what another tool said: the run stops so that somebody looks."""


@dataclass(frozen=True)
class Plan:
    """What to run, and the settings that must stay the same when it is resumed."""

    instances: Sequence[Instance]
    tools: Sequence[Tool]
    settings: dict[str, Any]
    resume: bool = False
    keep_going: bool = False

    def missing(self, journal: Journal) -> list[Work]:
        """What the journal does not have yet, each instance with its tools one after the other."""
        work = []
        for instance in self.instances:
            tools = tuple(tool for tool in self.tools if (*instance.key, tool.name) not in journal)
            if tools:
                work.append(Work(instance, tools))
        return work


def open_folder(folder: Path, plan: Plan) -> Journal:
    """The folder's journal, with the run's start noted; refuses to mix it with another run."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(folder)
    try:
        meta = _read_meta(folder / META) if journal.rows else {}
        _check_settings(folder, plan, journal, meta)
        runs = [*meta.get("runs", []), {"started": now(), **machine()}]
        write_file(folder / META, json.dumps({"settings": plan.settings, "runs": runs}, indent=1))
    except BaseException:
        journal.close()
        raise
    return journal


def _check_settings(folder: Path, plan: Plan, journal: Journal, meta: dict[str, Any]) -> None:
    if journal.rows and not plan.resume:
        raise InputError(f"{folder} has results: add --resume to go on with them, or choose another folder")
    for name, value in plan.settings.items():
        before = meta.get("settings", {}).get(name, value)
        if before != value:
            raise InputError(f"{folder} was begun with {name} {before}, not {value}: choose another folder")
    if not plan.keep_going:
        for row in filter(is_wrong, journal.rows):
            _check(row, ())


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} cannot be read ({problem}): delete it and resume") from problem


def record(
    plan: Plan,
    journal: Journal,
    folder: Path,
    rows: Generator[Row, None, None],
    observe: Callable[[Row], None] = lambda row: None,
) -> None:
    """Write each row as it comes, and stop at a wrong one unless told to keep going."""
    try:
        for row in rows:
            if journal.append(row):
                observe(row)
                if not plan.keep_going:
                    _check(row, journal.rows)
    except BaseException:
        rows.close()  # ends the processes that are under way
        with suppress(InputError):  # the first problem is the one to tell
            write_tables(folder, read_rows(journal.path)[0])  # it may have come between the disk and the memory
        raise
    write_tables(folder, journal.rows)


def _check(row: Row, rows: Sequence[Row]) -> None:
    place = f"{row.tool} says {row.verdict} on {row.network} with {row.property}"
    advice = "look into it, or go on with --resume --keep-going"
    if is_wrong(row):
        raise WrongVerdict(f"WRONG VERDICT: {place}, but {row.expected} is known; {advice}")
    for other in rows:
        same = (other.category, other.network, other.property) == (row.category, row.network, row.property)
        if same and row.verdict in DECIDED and other.verdict in DECIDED and other.verdict != row.verdict:
            raise WrongVerdict(f"CONFLICT: {place}, but {other.tool} says {other.verdict}; {advice}")
