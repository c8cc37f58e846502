"""Run: what all engines for one property on one network have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.parts import Part
from ginnacer_verify.engines.progress import Observer, Progress
from ginnacer_verify.engines.record import Record
from ginnacer_verify.replay.judge import Counterexample, Judge


class Run(ABC):
    """One property on one network. Call `run`; `progress` can be asked at any time.

    `falsify` lets the engine attack from what it finds; `record`, if there is one, is told what a certificate needs by
    the engines that know how."""

    def __init__(
        self,
        judge: Judge,
        deadline: Deadline,
        *,
        threads: int = 2,
        seed: int = 0,
        falsify: bool = True,
        observe: Observer | None = None,
        record: Record | None = None,
    ) -> None:
        self.judge, self.deadline, self.threads = judge, deadline, threads
        self.falsify, self.observe, self.record = falsify, observe, record
        self.seed, self.random = seed, np.random.default_rng(seed)
        self.begin()

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
