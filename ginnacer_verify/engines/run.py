"""Run: what all engines for one property on one network have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.parts import Part
from ginnacer_verify.engines.progress import Progress
from ginnacer_verify.engines.record import Record
from ginnacer_verify.replay.judge import Counterexample, Judge


class Run(ABC):
    """One property on one network. Call `run`, and again with another `budget` to go on; `progress` any time."""

    def __init__(self, judge: Judge, budget: Budget) -> None:
        self.judge, self.budget = judge, budget
        self.random = np.random.default_rng(budget.seed)
        self.begin()

    @property
    def deadline(self) -> Deadline:
        return self.budget.deadline

    @property
    def threads(self) -> int:
        return self.budget.threads

    @property
    def falsify(self) -> bool:
        return self.budget.falsify

    @property
    def record(self) -> Record | None:
        return self.budget.record

    def tell(self) -> None:
        """Show how far it has come to whoever observes."""
        if self.budget.observe:
            self.budget.observe(self.progress())

    @property
    def remaining(self) -> Iterable[Part]:
        """What a finisher is to decide, with what is known of it; nothing, unless an engine leaves anything to one."""
        return ()

    @abstractmethod
    def begin(self) -> None:
        """Everything that the search starts from."""

    @abstractmethod
    def run(self) -> Counterexample | str | None:
        """A counterexample, or why there is no verdict, or None: all is proved."""

    @abstractmethod
    def progress(self) -> Progress:
        """How far the search has come."""
