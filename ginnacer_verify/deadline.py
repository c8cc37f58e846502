"""Deadline: one point in time that every step of a run is given and asks how much is left."""

import time
from dataclasses import dataclass

from ginnacer_verify.errors import OutOfTime

REACHED = "time limit reached"
"""Why there is no verdict, in the words of every engine; `verify` adds what was proved until then."""


@dataclass(frozen=True)
class Deadline:
    """A moment on the monotonic clock; `start` is when it was set."""

    start: float
    end: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        now = time.monotonic()
        return cls(now, now + seconds)

    @property
    def left(self) -> float:
        """Seconds that remain; never negative."""
        return max(0.0, self.end - time.monotonic())

    @property
    def spent(self) -> float:
        """Seconds since the deadline was set."""
        return time.monotonic() - self.start

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.end

    def check(self, before: str) -> None:
        """Raise OutOfTime if it has passed; the message says before what, as in "the network was read"."""
        if self.passed:
            raise OutOfTime(f"{REACHED} before {before}")

    def within(self, seconds: float) -> "Deadline":
        """The earlier of this deadline and `seconds` from now."""
        return Deadline(self.start, min(self.end, time.monotonic() + seconds))


FOREVER = Deadline(0.0, float("inf"))
"""Never comes."""
