"""Bounds and verdicts on random graphs with every function; `benchmarks/random_graphs.py` has thousands of them."""

import numpy as np
import pytest
from all_functions import any_graph, faults
from function_cases import CASES

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.function import Arrays, Lines, Relu


@pytest.mark.parametrize("block", range(4))
def test_nothing_is_wrong(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        assert not list(faults(seed)), f"seed {seed}"


def test_a_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_high(self: Relu, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        return np.maximum(lower[0], 1e-3), np.maximum(upper[0], 0.0)

    def too_steep(self: Relu, lower: Arrays, upper: Arrays, *choices: object) -> Lines:
        lines = right(self, lower, upper)
        return Lines(lines.lower_slope, lines.lower_intercept + 0.01, lines.upper_slope, lines.upper_intercept)

    right, few = Relu.lines, [seed for seed in range(200) if "Relu" in dict(any_graph(seed).functions)][:5]
    assert not any(list(faults(seed)) for seed in few)
    with monkeypatch.context() as patch:
        patch.setattr(Relu, "range", too_high)
        assert any("intervals" in fault for seed in few for fault in faults(seed))
    monkeypatch.setattr(Relu, "lines", too_steep)
    assert any("crown" in fault or "proved absent" in fault for seed in few for fault in faults(seed))


def test_every_function_occurs() -> None:
    graphs = [any_graph(seed) for seed in range(80)]
    seen = {name for graph in graphs for name, _ in graph.functions}
    assert {type(case.function).__name__ for case in CASES} <= seen
    assert {"ArgMax"} <= seen
