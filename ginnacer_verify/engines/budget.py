"""Budget: what a run may use, and who is told about it; one value that is passed down."""

import os
from dataclasses import dataclass, field, replace

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.progress import Observer
from ginnacer_verify.engines.record import Record

RESTARTS = 24
"""How often the falsifier starts per disjunct."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, eq=False)
class Budget:
    """One deadline for everything, threads, the seed of all that is random, and how often the falsifier starts per
    disjunct: 0 switches it off. `record`, if there is one, is told what a certificate needs by the engines that know
    how."""

    deadline: Deadline
    threads: int = field(default_factory=cores)
    seed: int = 0
    restarts: int = RESTARTS
    observe: Observer | None = None
    record: Record | None = None

    @property
    def falsify(self) -> bool:
        """Whether engines may attack from what they find."""
        return self.restarts > 0

    def within(self, seconds: float) -> "Budget":
        """The same, but for a deadline that is at most so many seconds from now."""
        return replace(self, deadline=self.deadline.within(seconds))
