"""What an instance can be given to: our verifier, Marabou as it is installed, and command lines from a TOML file.

A verdict is a word that stands alone, compared as a whole ("unsat" contains "sat"). Text that we do not understand is
an `error`, never a timeout and never a guess.
"""

import json
import math
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from ginnacer_verify.bench.limits import Outcome
from ginnacer_verify.errors import InputError, plainly
from ginnacer_verify.query.backend import install_command

VERDICTS = ("unsat", "sat", "unknown", "timeout", "error")
WORDS = {word: word for word in VERDICTS} | {"holds": "unsat", "violated": "sat", "timed-out": "timeout"}
"""What tools write, and what it means: the words of the competition's scorer and of the VNN-LIB standard."""
OURS = "ginnacer"
PLACES = ("network", "property", "timeout", "category", "threads", "result", "since", "certificate")
LARGE = ("box", "sharing", "exploited", "split")
"""What is left out of traces in reports."""
RECORDS = 300
"""Records of a trace that are kept; a longer one is thinned evenly."""
Reading: TypeAlias = tuple[str, str, dict[str, Any], list[dict[str, Any]]]
"""Verdict, reason, details and trace."""


@dataclass(frozen=True)
class Tool:
    """A command line with places to fill in, and how its verdict is read.

    The verdict is the first line of the file `{result}` if the command has that place, the group of the last match of
    `pattern` if there is one, and otherwise a line of the output that is a word and nothing else."""

    name: str
    command: tuple[str, ...]
    words: Mapping[str, str] = field(default_factory=lambda: WORDS)
    pattern: str = ""

    def filled(self, places: Mapping[str, str]) -> list[str]:
        """The command for one instance."""
        known = re.compile(r"\{(" + "|".join(PLACES) + r")\}")
        return [known.sub(lambda match: places[match[1]], word) for word in self.command]

    @property
    def writes_result(self) -> bool:
        return any("{result}" in word for word in self.command)

    @property
    def is_ours(self) -> bool:
        return self.name == OURS

    def read(self, outcome: Outcome, result: str) -> Reading:
        """What the command said; `result` is what it wrote into the file `{result}`."""
        if self.is_ours:
            return _own(outcome)
        text = result.partition("\n")[0] if self.writes_result else outcome.stdout
        return *self._verdict(text, outcome), {}, []

    def _verdict(self, text: str, outcome: Outcome) -> tuple[str, str]:
        if self.pattern:
            candidates = [match[1] for match in re.finditer(self.pattern, text)][-1:]
        else:
            candidates = [line.strip() for line in text.splitlines() if line.strip() in self.words]
        meanings = {self.words.get(word, "error") for word in candidates}
        if len(meanings) == 1 and (verdict := meanings.pop()) != "error":
            return verdict, ""
        said = " and ".join(sorted(set(candidates))) or _last_line(outcome)
        return "error", f"no verdict in its output (exit code {outcome.exit_code}): {said}"[:500]


def ours(options: str = "", certificates: Path | None = None) -> Tool:
    """Our verifier in a fresh process; it sends its trace through stderr, so that no file is needed.

    With a folder for `certificates`, it writes one for each verdict."""
    try:
        more = shlex.split(options)
    except ValueError as problem:
        raise InputError(f"the options {options!r} cannot be split into words: {problem}") from problem
    words = (
        "verify",
        "{network}",
        "{property}",
        "--timeout",
        "{timeout}",
        "--since",
        "{since}",
        "--threads",
        "{threads}",
        *more,
    )
    flags = ["--json", "--quiet", "--trace", "/dev/stderr"]
    if certificates:
        flags += ["--certificate", str(certificates.resolve() / "{certificate}")]
    return Tool(OURS, (sys.executable, "-m", "ginnacer_verify", *words, *flags))


def marabou() -> Tool:
    """The command line program that comes with maraboupy, with its own readers of networks and properties."""
    if find_spec("maraboupy") is None:
        raise InputError(f"Marabou is not installed: {install_command('marabou')}")
    command = (
        sys.executable,
        "-m",
        "maraboupy",
        "{network}",
        "{property}",
        "--timeout",
        "{timeout}",
        "--verbosity",
        "0",
    )
    return Tool("marabou", command, WORDS | {"TIMEOUT": "timeout", "UNKNOWN": "unknown"})


BUILT_IN = {"marabou": marabou}


def read_tools(path: Path) -> list[Tool]:
    """The tools of a TOML file: one table each, with `command` and perhaps `verdict` and `words`."""
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as problem:
        raise InputError(f"{path} cannot be read: {plainly(problem)}") from problem
    tools = [_tool(name, table, f"{path}, [{name}]") for name, table in tables.items()]
    if not tools:
        raise InputError(f'{path} has no tools: write [name] and command = "..." for each')
    return tools


def _tool(name: str, table: Any, place: str) -> Tool:
    if not isinstance(table, dict) or not re.fullmatch(r"[\w.+-]+", name) or name == OURS:
        raise InputError(f"{place}: a tool is a table with another name than {OURS}, of letters, digits, '.', '+', '-'")
    unknown = set(table) - {"command", "verdict", "words"}
    if unknown:
        raise InputError(f"{place}: {', '.join(sorted(unknown))} is not known; write command, verdict, words")
    command = table.get("command")
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as problem:
        raise InputError(f"{place}: command cannot be split into words: {problem}") from problem
    if not words or not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError(f"{place}: write command as a text or a list of texts")
    for needed in ("{network}", "{property}"):
        if not any(needed in word for word in words):
            raise InputError(f"{place}: the command needs {needed}")
    return Tool(name, tuple(words), WORDS | _words(table.get("words", {}), place), _pattern(table, place))


def _words(table: Any, place: str) -> dict[str, str]:
    if not isinstance(table, dict) or not all(word in VERDICTS for word in table.values()):
        raise InputError(f"{place}: words maps what the tool says to {', '.join(VERDICTS)}")
    return dict(table)


def _pattern(table: dict[str, Any], place: str) -> str:
    pattern = table.get("verdict", "")
    try:
        groups = re.compile(pattern).groups if pattern else 1
    except (re.error, TypeError, OverflowError, RecursionError) as problem:
        raise InputError(f"{place}: verdict is not a regular expression: {problem}") from problem
    if groups != 1:
        raise InputError(f"{place}: verdict needs one group in parentheses, the verdict's word")
    return str(pattern)


def seconds_for(tool: Tool, limit: float) -> str:
    """The timeout that a tool is told. Ours keeps some for its ending; others are told whole seconds."""
    return f"{limit - min(1.0, 0.1 * limit):g}" if tool.is_ours else str(math.ceil(limit))


def _own(outcome: Outcome) -> Reading:
    """The JSON document of `verify`, and the trace among the lines of stderr."""
    try:
        details = json.loads(outcome.stdout)
        verdict, reason = details.pop("verdict", "error"), details.pop("reason", "") or details.pop("error", "")
    except (ValueError, AttributeError, TypeError):
        details, verdict = {}, "error"
        reason = f"it ended with exit code {outcome.exit_code}: {_last_line(outcome)}"[:500]
    return verdict if verdict in VERDICTS else "error", reason, details, trace_of(outcome.stderr.splitlines())


def trace_of(lines: Sequence[str]) -> list[dict[str, Any]]:
    """The records of a trace, without their boxes and not more than can be looked at."""
    records = []
    for number in _evenly(len(lines)):
        try:
            record = json.loads(lines[number])
        except ValueError:
            continue  # a message, or the piece that was written when the process was killed
        if isinstance(record, dict):
            records.append({name: value for name, value in record.items() if name not in LARGE})
    return records


def _evenly(count: int) -> list[int]:
    if count <= RECORDS:
        return list(range(count))
    return sorted({round(i * (count - 1) / (RECORDS - 1)) for i in range(RECORDS)})


def _last_line(outcome: Outcome) -> str:
    lines = (outcome.stderr.strip() or outcome.stdout.strip()).splitlines()
    return lines[-1].strip() if lines else "it said nothing"
