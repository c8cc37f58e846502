"""Runs experiments: cells, then CSV files, figures and one page with everything."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ginnacer_verify.lab.cells import Outcome, Row, explained, run_cells
from ginnacer_verify.lab.experiment import Experiment, Table, experiment
from ginnacer_verify.lab.setting import Setting

Done = Callable[[int, int], None]


@dataclass(frozen=True)
class Report:
    """What an experiment found, and the files that it wrote. `figures` are PNG images by name."""

    experiment: Experiment
    rows: tuple[Row, ...]
    figures: dict[str, bytes]
    tables: tuple[Table, ...]
    problems: tuple[str, ...]
    seconds: float
    files: tuple[Path, ...]


def run(names: Sequence[str], setting: Setting, folder: Path, workers: int, done: Done) -> list[Report]:
    """The reports in the order of the names. Timed cells come last, one at a time."""
    chosen = [experiment(name) for name in names]
    folder.mkdir(parents=True, exist_ok=True)
    work = {each.name: each.cells(setting) for each in chosen}
    together = [cell for each in chosen if not each.alone for cell in work[each.name]]
    alone = [cell for each in chosen if each.alone for cell in work[each.name]]
    total = len(together) + len(alone)
    outcomes = run_cells(together, setting, folder, workers, lambda n, _: done(n, total))
    outcomes |= run_cells(alone, setting, folder, 1, lambda n, _: done(len(together) + n, total))
    return [_report(each, [outcomes[cell] for cell in work[each.name]], setting, folder) for each in chosen]


def _report(each: Experiment, outcomes: Sequence[Outcome], setting: Setting, folder: Path) -> Report:
    """What cannot be drawn or written is a problem of this experiment alone."""
    from ginnacer_verify.lab.plots import save

    rows = tuple(row for outcome in outcomes for row in outcome.rows)
    problems = tuple(f"{outcome.cell.name}: {outcome.problem}" for outcome in outcomes if outcome.problem)
    seconds = sum(outcome.seconds for outcome in outcomes)
    tables: tuple[Table, ...] = ()
    figures: dict[str, bytes] = {}
    files: list[Path] = []
    try:
        tables = tuple(each.tables(rows)) if rows else ()
        file = folder / f"{each.name}.csv"
        file.write_text(as_csv(each.name, rows, setting), encoding="utf-8")
        files.append(file)
        for stem, figure in each.figures(rows).items() if rows else ():
            figures[stem] = save(figure, folder, stem)
            files += [folder / f"{stem}.{kind}" for kind in ("png", "pdf")]
    except Exception as problem:
        problems = (*problems, f"{each.name}: {explained(problem)}")
    return Report(each, rows, figures, tables, problems, seconds, tuple(files))


def as_csv(name: str, rows: Sequence[Row], setting: Setting) -> str:
    """The rows under a first line that says how they were made (`#`: pandas reads it with comment="#")."""
    text = io.StringIO()
    text.write(f"# ginnacer lab {name} {json.dumps(setting.as_json())}\n")
    columns = list(dict.fromkeys(column for row in rows for column in row))
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
