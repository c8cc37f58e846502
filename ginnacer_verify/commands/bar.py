"""A progress bar on stderr for work that takes longer than two seconds."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 2.0
"""Seconds without a bar."""


class Bar:
    """Shown on a terminal only, unless `quiet`; call `update` with how much of how much is done."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self.title, self.start = title, time.monotonic()
        self.hidden = quiet or not sys.stderr.isatty()
        self.shown: tuple[Progress, TaskID] | None = None

    def update(self, done: int, total: int) -> None:
        if self.hidden or (self.shown is None and time.monotonic() - self.start < PATIENCE):
            return
        if self.shown is None:
            from rich.console import Console
            from rich.progress import Progress

            progress = Progress(console=Console(stderr=True), transient=True)
            progress.start()
            self.shown = progress, progress.add_task(self.title, total=total)
        progress, task = self.shown
        progress.update(task, completed=done, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.shown is not None:
            self.shown[0].stop()
