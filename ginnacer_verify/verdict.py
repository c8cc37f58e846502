"""Verdict = Holds | Violated | Undecided, and how the verdicts of disjuncts and boxes combine."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ginnacer_verify.query import Shared
from ginnacer_verify.replay import Counterexample


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


@dataclass(frozen=True, eq=False)
class Proof:
    """The subsets that were kept to prove one disjunct on one box: all other unstable ReLUs stayed relaxed."""

    disjunct: int
    kept: tuple[Shared, ...]


@dataclass(frozen=True, eq=False)
class Holds:
    """`unsat`: no input of the property is unsafe."""

    proofs: tuple[Proof, ...] = ()
    statistics: Statistics = field(default_factory=Statistics)
    word = "unsat"


@dataclass(frozen=True, eq=False)
class Violated:
    """`sat`: a counterexample, confirmed by replay."""

    counterexample: Counterexample
    statistics: Statistics = field(default_factory=Statistics)
    word = "sat"


@dataclass(frozen=True, eq=False)
class Undecided:
    """`unknown`, or `timeout` where more time may help; `reason` says why and what to try."""

    reason: str
    timeout: bool = False
    statistics: Statistics = field(default_factory=Statistics)

    @property
    def word(self) -> str:
        return "timeout" if self.timeout else "unknown"


Verdict: TypeAlias = Holds | Violated | Undecided


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a union from those of its parts: unsafe if any part is, safe only if all are.

    No parts: nothing is unsafe. One undecided part leaves the union undecided, whatever the order."""
    for verdict in verdicts:
        if isinstance(verdict, Violated):
            return verdict
    undecided = [verdict for verdict in verdicts if isinstance(verdict, Undecided)]
    if not undecided:
        return Holds(tuple(part for verdict in verdicts if isinstance(verdict, Holds) for part in verdict.proofs))
    reasons = dict.fromkeys(verdict.reason for verdict in undecided)
    return Undecided("; ".join(reasons), timeout=any(verdict.timeout for verdict in undecided))
