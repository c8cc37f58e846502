"""What can be seen of a benchmark run: a live table with a bar on a terminal, a line per result elsewhere."""

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ginnacer_verify.bench.results import Row, is_wrong
from ginnacer_verify.bench.scores import par2
from ginnacer_verify.bench.tools import VERDICTS

if TYPE_CHECKING:
    from rich.console import RenderableType

LAST = 8
"""Results that stay in sight."""
COLOURS = {"unsat": "green", "sat": "cyan", "timeout": "yellow", "unknown": "yellow", "error": "red"}


@contextmanager
def board(total: int, before: Sequence[Row], *, quiet: bool) -> Iterator[Callable[[Row], None]]:
    """An observer of rows; `total` are to come, `before` are there already."""
    if quiet or not total:
        yield lambda row: None
    elif sys.stderr.isatty():
        with _live(total, before) as observe:
            yield observe
    else:
        yield _lines(total)


def _lines(total: int) -> Callable[[Row], None]:
    start, done = time.monotonic(), 0

    def observe(row: Row) -> None:
        nonlocal done
        done += 1
        print(f"{done}/{total}  {end_at(start, done, total)}  {line(row)}", file=sys.stderr, flush=True)

    return observe


def line(row: Row) -> str:
    """A result in one line."""
    mark = f"  WRONG, {row.expected} is known" if is_wrong(row) else ""
    reason = f"  ({row.reason})" if row.verdict == "error" else ""
    return f"{row.tool}  {row.verdict}  {row.seconds:.2f} s  {row.network} {row.property}{mark}{reason}"


def end_at(start: float, done: int, total: int) -> str:
    """When the run will end if it goes on as it went so far."""
    left = (time.monotonic() - start) / done * (total - done) if done else 0.0
    moment = time.localtime(time.time() + left)
    return "ends " + time.strftime("%H:%M:%S" if left < 86400 else "%d %b %H:%M", moment)


@contextmanager
def _live(total: int, before: Sequence[Row]) -> Iterator[Callable[[Row], None]]:
    from rich.console import Console
    from rich.live import Live

    view = _View(total, before)
    with Live(view.render(), console=Console(stderr=True), refresh_per_second=4) as live:

        def observe(row: Row) -> None:
            view.add(row)
            view.done += 1
            live.update(view.render())

        yield observe


class _View:
    def __init__(self, total: int, before: Sequence[Row]) -> None:
        self.total, self.done, self.start = total, 0, time.monotonic()
        self.counts: dict[str, Counter[str]] = {}
        self.par2: Counter[str] = Counter()
        self.last: deque[Row] = deque(maxlen=LAST)
        for row in before:
            self.add(row)

    def add(self, row: Row) -> None:
        counts = self.counts.setdefault(row.tool, Counter())
        counts[row.verdict] += 1
        counts["wrong"] += is_wrong(row)
        self.par2[row.tool] += par2(row)  # type: ignore[assignment]  # a Counter adds up floats as well
        self.last.append(row)

    def render(self) -> "RenderableType":
        from rich.console import Group

        return Group(self._tools(), self._rows(), self._bar())

    def _tools(self) -> "RenderableType":
        from rich.table import Table

        table = Table("tool", *VERDICTS, "wrong", "PAR-2", box=None, header_style="bold")
        for tool, counts in self.counts.items():
            cells = [f"[{COLOURS[word]}]{counts[word]}" for word in VERDICTS]
            wrong = f"[bold white on red]{counts['wrong']}" if counts["wrong"] else "0"
            table.add_row(tool, *cells, wrong, f"{self.par2[tool]:.1f}")
        return table

    def _rows(self) -> "RenderableType":
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, padding=(0, 1))
        for row in self.last:
            style = "bold white on red" if is_wrong(row) else COLOURS[row.verdict]
            names = Text(row.network), Text(row.property)  # a list of networks looks like markup
            table.add_row(row.tool, f"[{style}]{row.verdict}", f"{row.seconds:.2f} s", *names)
        return table

    def _bar(self) -> "RenderableType":
        from rich.columns import Columns
        from rich.progress_bar import ProgressBar

        ends = end_at(self.start, self.done, self.total) if self.done else "begins"
        return Columns([ProgressBar(self.total, self.done, width=40), f"{self.done}/{self.total}  {ends}"])
