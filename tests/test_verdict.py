"""How verdicts combine: a union is unsafe if any part is and safe only if all are, in every order."""

from itertools import permutations, product

import numpy as np
import pytest

from ginnacer_verify.engines.verdict import Holds, Proof, Undecided, Verdict, Violated, combine
from ginnacer_verify.replay.judge import Counterexample

FOUND = Violated(Counterexample(np.zeros(1), np.zeros(1), 0, np.zeros(1)))
PARTS: dict[str, Verdict] = {
    "unsat": Holds(),
    "sat": FOUND,
    "unknown": Undecided("hard"),
    "timeout": Undecided("late", timeout=True),
}


@pytest.mark.parametrize("words", [w for n in range(1, 5) for w in product(PARTS, repeat=n)], ids="-".join)
def test_every_order_gives_the_same_word(words: tuple[str, ...]) -> None:
    expected = next(word for word in ("sat", "timeout", "unknown", "unsat") if word in words)
    assert {combine([PARTS[word] for word in order]).word for order in permutations(words)} == {expected}


def test_nothing_unsafe_holds() -> None:
    assert combine([]).word == "unsat"


def test_reasons_and_proofs_are_collected() -> None:
    verdict = combine([Undecided("a"), Holds(), Undecided("b"), Undecided("a")])
    assert isinstance(verdict, Undecided)
    assert verdict.reason == "a; b"
    holds = combine([Holds((Proof(0, ()),)), Holds((Proof(2, ()),))])
    assert isinstance(holds, Holds)
    assert [proof.disjunct for proof in holds.proofs] == [0, 2]
