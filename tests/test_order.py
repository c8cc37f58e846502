"""A last function that keeps the order of outputs is left out where a property compares outputs only."""

from typing import Any

import numpy as np
import pytest
from models import Graph as Model

from ginnacer_verify.engines.order import compares_only, without_last
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.loading import load
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import parse_vnnlib

LAST: dict[str, dict[str, Any]] = {
    "Softmax": {"axis": 1},
    "LogSoftmax": {"axis": -1},
    "Sigmoid": {},
    "Tanh": {},
}


def network(last: str, seed: int = 0, outputs: int = 3) -> Graph:
    model = Model([1, 2], seed=seed)
    model.add("Gemm", model.weight(2, 4), model.weight(4))
    model.add("Relu")
    model.add("Gemm", model.weight(4, outputs), model.weight(outputs))
    model.add(last, **LAST[last])
    return load(model.model())


def stated(unsafe: str, outputs: int = 3) -> Property:
    names = "".join(f"(declare-const Y_{i} Real)" for i in range(outputs))
    box = "".join(f"(assert (>= X_{i} -1))(assert (<= X_{i} 1))" for i in range(2))
    return parse_vnnlib(f"(declare-const X_0 Real)(declare-const X_1 Real){names}{box}(assert {unsafe})")


@pytest.mark.parametrize("last", LAST)
def test_what_orders_is_left_out(last: str) -> None:
    graph = network(last)
    scores = without_last(graph, stated("(or (>= Y_0 Y_1) (and (>= Y_2 Y_1) (< Y_0 Y_2)))"))
    assert len(scores.nodes) < len(graph.nodes)
    assert scores.model == graph.model
    x = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    assert (np.argsort(scores.evaluate(x), axis=1) == np.argsort(graph.evaluate(x), axis=1)).all()


@pytest.mark.parametrize("unsafe", ["(>= Y_0 0.5)", "(or (>= Y_0 Y_1) (<= Y_2 0.1))", "(>= Y_0 (+ Y_1 0.25))"])
@pytest.mark.parametrize("last", LAST)
def test_what_asks_for_values_keeps_it(last: str, unsafe: str) -> None:
    prop = stated(unsafe)
    assert not compares_only(prop)
    graph = network(last)
    assert without_last(graph, prop) is graph


def test_softmax_of_parts_is_no_order_of_all() -> None:
    """Two rows with a softmax each: outputs of different rows are not ordered as their scores are."""
    model = Model([1, 2])
    model.add("Gemm", model.weight(2, 4), model.weight(4))
    model.add("Reshape", np.array([2, 2]))
    model.add("Softmax", axis=1)
    graph = load(model.model())
    assert without_last(graph, stated("(>= Y_0 Y_3)", 4)) is graph


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("last", ["Softmax", "Sigmoid"])
def test_verdicts_stay_the_same(last: str, seed: int) -> None:
    """What sampling finds is sat, and what is proved is nowhere seen."""
    graph, prop = network(last, seed), stated("(>= Y_0 Y_1)")
    y = graph.evaluate(np.random.default_rng(seed).uniform(-1, 1, (2000, 2)))
    seen = bool((y[:, 0] >= y[:, 1] + 1e-4).any())
    word = verify(graph, prop, timeout=20).word
    assert word == "sat" if seen else word in {"unsat", "sat"}
