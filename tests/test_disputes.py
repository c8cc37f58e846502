"""Engines in pairs on random questions; `benchmarks/disputes.py` asks as many as one likes."""

import pytest
from disputes import Question, by_enumeration, disputed, of_two, on_graph
from random_models import random_model

from ginnacer_verify.loading import operators

GRAPHS, TINY, PAIRS, BLOCKS = 16, 32, 12, 4


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("arithmetic", ["real", "float32"])
def test_no_engine_proves_what_another_one_or_a_run_refutes(arithmetic: str, block: int) -> None:
    questions: list[Question] = [on_graph(seed) for seed in range(block, GRAPHS, BLOCKS)]
    questions += [by_enumeration(seed) for seed in range(block, TINY, BLOCKS)]
    questions += [of_two(seed) for seed in range(block, PAIRS, BLOCKS)]
    disputes = [disputed(question, arithmetic) for question in questions]
    assert not [one for one in disputes if one.wrong]
    assert sum(one.decided for one in disputes) > len(disputes) / 2


def test_a_wrong_proof_is_a_dispute(monkeypatch: pytest.MonkeyPatch) -> None:
    question = next(one for seed in range(20) if (one := on_graph(seed)).reached and one.run)
    monkeypatch.setattr("disputes.word_of", lambda run: "unsat")
    for arithmetic in ("real", "float32"):
        assert disputed(question, arithmetic, 0.1).wrong


ELSEWHERE = {
    *("ArgMax", "Cast", "DepthToSpace", "Dropout", "Equal", "Expand", "GatherElements", "GatherND", "Gelu"),
    *("GlobalAveragePool", "GlobalMaxPool", "Identity", "Neg", "ReduceMax", "ReduceSum", "ReduceSumSquare", "Resize"),
    *("SpaceToDepth", "Squeeze", "Sum", "Tile", "Unsqueeze", "Upsample", "Where"),
}
"""Operators that are read as others are: `operator_cases` has them."""


def test_random_models_are_made_of_all_other_operators() -> None:
    assert set(operators.OPERATORS) - {name for seed in range(300) for name in random_model(seed)[1]} <= ELSEWHERE
