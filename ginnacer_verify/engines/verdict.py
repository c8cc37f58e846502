"""Verdict = Holds | Violated | Undecided, and how the verdicts of disjuncts and boxes combine."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NoReturn, TypeAlias

from ginnacer_verify.query.query import Shared
from ginnacer_verify.replay.judge import Counterexample
from ginnacer_verify.shown import Shown


@dataclass(frozen=True)
class Statistics:
    """What a run took. ReLU counts are those of the hardest query: the one that kept most."""

    seconds: float = 0.0
    engine: str = ""
    rule: str = ""
    rounds: int = 0
    boxes: int = 0
    total: int = 0
    unstable: int = 0
    kept: int = 0
    parts: int = 0
    """The disjuncts of the property, and of an undecided one how many are `proved` nevertheless."""
    proved: int = 0


@dataclass(frozen=True)
class Certified:
    """Where a verdict's certificate is, or why there is none."""

    path: Path | None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Proof:
    """The subsets that were kept to prove one disjunct on one box: all other unstable ReLUs stayed relaxed."""

    disjunct: int
    kept: tuple[Shared, ...]


class Outcome(Shown):
    """What all verdicts have. They have no truth value: an undecided one is neither true nor false."""

    word: str
    statistics: Statistics
    certificate: Certified | None
    """If one was asked for."""

    @property
    def holds(self) -> bool:
        """Proved: no input of the property is unsafe."""
        return self.word == "unsat"

    @property
    def violated(self) -> bool:
        """Refuted: there is a `counterexample`."""
        return self.word == "sat"

    @property
    def undecided(self) -> bool:
        """Neither proved nor refuted; `reason` says why."""
        return not (self.holds or self.violated)

    def __bool__(self) -> NoReturn:
        raise TypeError("a verdict is neither true nor false: ask for .holds, .violated or .undecided")

    def facts(self) -> dict[str, object]:
        reason = {"reason": getattr(self, "reason", "")} if self.undecided else {}
        return {
            "verdict": self.word,
            **reason,
            "engine": self.statistics.engine,
            "seconds": f"{self.statistics.seconds:.2f}",
        }


@dataclass(frozen=True, eq=False, repr=False)
class Holds(Outcome):
    """`unsat`: no input of the property is unsafe."""

    proofs: tuple[Proof, ...] = ()
    statistics: Statistics = field(default_factory=Statistics)
    certificate: Certified | None = None
    word = "unsat"
    counterexample: ClassVar[None] = None


@dataclass(frozen=True, eq=False, repr=False)
class Violated(Outcome):
    """`sat`: a counterexample, confirmed by replay."""

    counterexample: Counterexample
    statistics: Statistics = field(default_factory=Statistics)
    certificate: Certified | None = None
    word = "sat"


@dataclass(frozen=True, eq=False, repr=False)
class Undecided(Outcome):
    """`unknown`, or `timeout` where more time may help; `reason` says why and what to try."""

    reason: str
    timeout: bool = False
    statistics: Statistics = field(default_factory=Statistics)
    proofs: tuple[Proof, ...] = ()
    """Of the disjuncts that are proved nevertheless, as far as the engine tells."""
    certificate: Certified | None = None

    counterexample: ClassVar[None] = None

    @property
    def word(self) -> str:  # type: ignore[override]
        return "timeout" if self.timeout else "unknown"


Verdict: TypeAlias = Holds | Violated | Undecided


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a union from those of its parts: unsafe if any part is, safe only if all are.

    No parts: nothing is unsafe. One undecided part leaves the union undecided, whatever the order."""
    for verdict in verdicts:
        if isinstance(verdict, Violated):
            return verdict
    undecided = [verdict for verdict in verdicts if isinstance(verdict, Undecided)]
    proofs = tuple(proof for verdict in verdicts if not isinstance(verdict, Violated) for proof in verdict.proofs)
    if not undecided:
        return Holds(proofs)
    reasons = dict.fromkeys(verdict.reason for verdict in undecided)
    return Undecided("; ".join(reasons), timeout=any(verdict.timeout for verdict in undecided), proofs=proofs)
