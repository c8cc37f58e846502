"""A backend that plays a script: the loop is tested with no solver."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ginnacer_verify.query.query import Answer, Query

Line = Answer | Callable[[Query], Answer]


@dataclass
class Scripted:
    """Answers with one line after the other, and notes what it was asked; the last line repeats."""

    script: Sequence[Line]
    name: str = "scripted"
    requires: tuple[str, ...] = ()
    install: str = "nothing"
    complete: bool = True
    asked: list[Query] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)

    def solve(self, query: Query, *, timeout: float) -> Answer:
        line = self.script[min(len(self.asked), len(self.script) - 1)]
        self.asked.append(query)
        self.timeouts.append(timeout)
        return line(query) if callable(line) else line
