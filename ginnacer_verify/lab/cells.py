"""Cells: the smallest pieces of an experiment, computed in parallel, each kept on disk as soon as it is done.

A cell that was computed before, with the same setting and the same code of this package, is read and not computed
again. A cell that fails leaves a sentence; the others go on."""

import hashlib
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ginnacer_verify.errors import GinnacerError
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.loading.workers import workers

Row = dict[str, Any]
DRAWING = {"plots.py", "page.py", "claims.py", "lab.py"}


@dataclass(frozen=True)
class Cell:
    """A call of `measure(setting, **parameters)` in the module of an experiment."""

    experiment: str
    parameters: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, experiment: str, **parameters: Any) -> "Cell":
        return cls(experiment, tuple(parameters.items()))

    @property
    def name(self) -> str:
        return " ".join([self.experiment, *(str(value) for _, value in self.parameters)])

    def file(self, folder: Path, setting: Setting) -> Path:
        """Where its rows are kept: a name that says what it is, and a digest of all that they depend on."""
        known = {"code": code_digest(), "parameters": self.parameters, "setting": setting.as_json()}
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:12]
        plain = "".join(c if c.isalnum() or c in "-." else "_" for c in self.name)
        return folder / "cells" / self.experiment / f"{plain}-{digest}.json"


@dataclass(frozen=True)
class Outcome:
    """The rows of a cell, or the problem that it had."""

    cell: Cell
    rows: tuple[Row, ...]
    seconds: float
    problem: str = ""


def source_files(folder: Path = Path(__file__).parents[1]) -> Iterator[Path]:
    """All Python files of the package, those behind links as well, which `glob` passes by."""
    for place, _, names in os.walk(folder, followlinks=True):
        yield from (Path(place, name) for name in names if name.endswith(".py"))


@cache
def code_digest() -> str:
    """Of the source of this package, but for what only draws."""
    files = sorted(path for path in source_files() if path.name not in DRAWING)
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def module_of(experiment: str) -> Any:
    return import_module(f"ginnacer_verify.lab.{experiment.replace('-', '_')}")


def run_cells(
    cells: Sequence[Cell], setting: Setting, folder: Path, jobs: int, done: Callable[[int, int], None]
) -> dict[Cell, Outcome]:
    """The outcome of every cell; `done` is told how many of how many are."""
    found = {cell: outcome for cell in cells if (outcome := _kept(cell, setting, folder))}
    done(len(found), len(cells))
    for outcome in _computed([cell for cell in cells if cell not in found], setting, jobs):
        found[outcome.cell] = outcome if outcome.problem else _keep(outcome, setting, folder)
        done(len(found), len(cells))
    return {cell: found[cell] for cell in cells}


def _kept(cell: Cell, setting: Setting, folder: Path) -> Outcome | None:
    try:
        stored = json.loads(cell.file(folder, setting).read_text(encoding="utf-8"))
        return Outcome(cell, tuple(dict(row) for row in stored["rows"]), float(stored["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):  # not there, or broken: compute it again
        return None


def _keep(outcome: Outcome, setting: Setting, folder: Path) -> Outcome:
    """The outcome, written to its file; where that cannot be, with a word about it."""
    file = outcome.cell.file(folder, setting)
    part = file.with_suffix(f".{os.getpid()}")
    document = {"cell": outcome.cell.name, "seconds": outcome.seconds, "rows": outcome.rows}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(document), encoding="utf-8")
        part.replace(file)
    except OSError as problem:
        return replace(outcome, problem=f"measured, but not kept for another run: {explained(problem)}")
    return outcome


def _computed(cells: Sequence[Cell], setting: Setting, jobs: int) -> Iterator[Outcome]:
    if jobs <= 1 or len(cells) <= 1:
        yield from (compute(cell, setting) for cell in cells)
        return
    with workers(min(jobs, len(cells))) as pool:
        futures = {pool.submit(compute, cell, setting): cell for cell in cells}
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:
                text = "its process ended, perhaps because memory ran out: run again with -j 1"
                yield Outcome(futures[future], (), 0.0, text)


def compute(cell: Cell, setting: Setting) -> Outcome:
    """Run a cell; whatever goes wrong is one sentence of the outcome."""
    start = time.monotonic()
    try:
        rows = module_of(cell.experiment).measure(setting, **dict(cell.parameters))
        return Outcome(cell, tuple(rows), time.monotonic() - start)
    except Exception as problem:
        return Outcome(cell, (), time.monotonic() - start, explained(problem))


def explained(problem: Exception) -> str:
    match problem:
        case GinnacerError():
            return str(problem)
        case ModuleNotFoundError():
            return f"the package {problem.name!r} is missing; `ginnacer doctor` tells how to install it"
        case OSError(strerror=str(reason)):
            return f"{problem.filename}: {reason}" if problem.filename else reason
        case MemoryError():
            return "out of memory; try -j 1 or a machine with more memory"
        case _:
            where = traceback.extract_tb(problem.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            return f"this is a fault of ours or of a library ({type(problem).__name__} at {place}: {problem})"
