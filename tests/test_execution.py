"""The arithmetic of execution: bounds hold for float32 runs in any order of sums, and proofs for what runs give."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from deployed import DEPLOYED, Deployed
from executed import Single, executed
from models import Graph as Model
from random_graphs import random_box, random_graph

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import deviation, linear_bounds
from ginnacer_verify.bounds.deviation import deviation as difference
from ginnacer_verify.bounds.intervals import Known, intervals
from ginnacer_verify.bounds.substitution import below, tightened
from ginnacer_verify.box import Ball, Box
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError, NetworkError, UnsupportedProperty
from ginnacer_verify.graph.chain import chain_of, graph_of
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load
from ginnacer_verify.loading.onnx import parse_model, read_graph
from ginnacer_verify.loading.oracle import Runtime
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.rounding import FLOATS, REAL

FUNCTIONS = [
    ("Sigmoid", {}), ("Tanh", {}), ("Exp", {}), ("Sin", {}), ("Cos", {}), ("Softplus", {}), ("Erf", {}),
    ("Elu", {"alpha": 3.0}), ("LeakyRelu", {"alpha": 0.3}), ("HardSwish", {}), ("HardSigmoid", {}), ("Gelu", {}),
    ("Gelu", {"approximate": "tanh"}), ("Softmax", {"axis": 1}), ("LogSoftmax", {"axis": 1}), ("Log", {}), ("Sqrt", {}),
    ("Reciprocal", {}),
]  # fmt: skip
SEEDS = range(150)


def _held(known: Known, values: list[Single]) -> bool:
    ends = zip(known.lower, known.upper, values, strict=True)
    return all(bool(((low[0] <= y) & (y <= high[0])).all()) for low, high, y in ends)


def _point(graph: Graph, random: np.random.Generator) -> Array:
    return (random.normal(size=graph.inputs) * 10.0 ** random.integers(-2, 3)).astype(np.float32).astype(np.float64)


def test_bounds_hold_for_every_execution() -> None:
    outside = 0
    for seed in SEEDS:
        graph, random = random_graph(seed, 10.0 ** (seed % 3)), np.random.default_rng(seed)
        x = _point(graph, random)
        values = executed(graph, x, random)
        assert _held(intervals(graph.executed(), x[None], x[None]), values), seed
        assert _held(tightened(graph.executed(), x[None], x[None]), values), seed
        outside += not _held(intervals(graph, x[None], x[None]), values)
    assert outside > 100  # in real arithmetic the same bounds do not: they would be wrong


def test_rows_hold_for_every_execution() -> None:
    for seed in SEEDS:
        graph, random = random_graph(seed).executed(), np.random.default_rng(seed)
        lower, upper = random_box(random, graph.inputs)
        known, last = tightened(graph, lower[None], upper[None]), len(graph.nodes) - 1
        rows = random.normal(size=(3, graph.outputs))
        bounds = below(graph, last, rows, known)[0]
        for _ in range(5):
            x = np.clip(random.uniform(lower, upper).astype(np.float32).astype(np.float64), lower, upper)
            if (x.astype(np.float32) == x).all():
                y = executed(graph, x, random)[-1].astype(np.float64)
                assert (rows @ y >= bounds).all(), seed


def test_chains_that_were_multiplied_out_hold_for_the_execution_of_what_they_come_from() -> None:
    outside = 0
    for seed in SEEDS:
        graph, random = random_graph(seed, 10.0 ** (seed % 3)), np.random.default_rng(seed)
        x = _point(graph, random)
        y = executed(graph, x, random)[-1]
        for network, wrong in ((chain_of(graph.executed()), True), (chain_of(graph), False)):
            bounds = linear_bounds(network.layers, Box(x, x))
            inside = bool(((bounds.lower[-1] <= y) & (y <= bounds.upper[-1])).all())
            assert inside or not wrong, seed
            outside += not inside
    assert outside > 100


def test_deviation_bounds_the_difference_of_both_arithmetics() -> None:
    for seed in SEEDS:
        graph, random = random_graph(seed), np.random.default_rng(seed)
        lower, upper = random_box(random, graph.inputs)
        network = chain_of(graph.executed())
        bounds = linear_bounds(network.layers, Box(lower, upper))
        most = deviation(network.layers, Box(lower, upper), bounds)
        for _ in range(5):
            x = np.clip(random.uniform(lower, upper).astype(np.float32).astype(np.float64), lower, upper)
            if (x.astype(np.float32) == x).all():
                difference = np.abs(executed(graph, x, random)[-1] - graph(x))
                assert (difference <= most + 1e-14 * np.abs(graph(x))).all(), seed


def test_deviation_bounds_the_difference_on_any_graph() -> None:
    finite = 0
    for seed in SEEDS:
        graph, random = random_graph(seed, smooth=True), np.random.default_rng(seed)
        lower, upper = random_box(random, graph.inputs)
        most = difference(graph.executed(), Box(lower, upper))
        finite += bool(np.isfinite(most).all())
        for _ in range(5):
            x = np.clip(random.uniform(lower, upper).astype(np.float32).astype(np.float64), lower, upper)
            if (x.astype(np.float32) == x).all():
                apart = np.abs(executed(graph, x, random)[-1] - graph(x))
                assert (apart <= most + 1e-14 * np.abs(graph(x))).all(), seed
    assert finite == len(SEEDS)


@pytest.mark.parametrize(("operator", "attributes"), FUNCTIONS, ids=str)
def test_deviation_knows_every_function(operator: str, attributes: dict[str, Any]) -> None:
    random = np.random.default_rng(1)
    model = Model([1, 6])
    model.add("MatMul", model.weight(6, 6))
    model.add("Abs")
    model.add("Add", np.full(6, 0.25, "f4"))
    model.add(operator, **attributes)
    model.add("MatMul", model.weight(6, 2))
    graph, runtime = load(model.model(20)), Runtime(model.model(20))
    x = random.normal(size=6).astype(np.float32).astype(np.float64)
    box = Box(x - 0.01, x + 0.01)
    most = difference(graph.executed(), box)
    assert (most < 1e-2).all()
    for point in box.sample(random, 50).astype(np.float32).astype(np.float64):
        assert (np.abs(runtime(point) - graph(point)) <= most).all()


def test_in_real_arithmetic_nothing_is_charged() -> None:
    network = Network.from_arrays((np.eye(2), np.zeros(2)), (np.ones((1, 2)), np.ones(1)))
    box = Box(np.zeros(2), np.ones(2))
    assert not deviation(network.layers, box, linear_bounds(network.layers, box)).any()
    assert network.arithmetic == REAL
    assert network.executed().arithmetic == FLOATS["float32"]


def test_what_overflows_proves_nothing() -> None:
    network = Network.from_arrays((np.array([[2e38], [2e38]]), np.zeros(2)), (np.array([[-1.0, 1.0]]), np.ones(1)))
    box = Box(np.ones(1), 2 * np.ones(1))
    assert linear_bounds(network.layers, box).lower[-1] > -1e39
    assert linear_bounds(network.executed().layers, box).lower[-1] == -np.inf


@pytest.mark.parametrize(("operator", "attributes"), FUNCTIONS, ids=str)
def test_functions_of_onnxruntime_are_as_near_as_is_stated(operator: str, attributes: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    model = Model([1, 40])
    model.add(operator, **attributes)
    graph, runtime = load(model.model(20)), Runtime(model.model(20))
    for scale in (1e-4, 1e-2, 0.3, 1.0, 3.0, 10.0, 30.0, 85.0):
        for shift in (0.0, 1.0, 1e3):
            x = (scale * random.normal(size=40) + shift * random.random()).astype(np.float32).astype(np.float64)
            x = np.abs(x) + np.float32(1e-3) if operator in {"Log", "Sqrt", "Reciprocal"} else x
            x = (np.minimum(x, 80) if operator == "Exp" else x).astype(np.float32).astype(np.float64)
            known, y = intervals(graph.executed(), x[None], x[None]), runtime(x)
            assert ((known.lower[-1][0] <= y) & (y <= known.upper[-1][0])).all(), (scale, shift)


def _at_most(output: float, lower: float, upper: float) -> Property:
    """Unsafe: an output of at most that much for an input between the ends."""
    box = Box(np.array([lower]), np.array([upper]))
    return Property.of(Disjunct(box, Polytope.everything(1), Polytope.of([[1.0]], [output])))


def _absorbing() -> Network:
    """`(x + 2^25) - 2^25` is x in real numbers; as float32 it is a multiple of 4, or of 2."""
    return Network.from_arrays(([[1.0]], [2.0**25]), ([[1.0]], [-(2.0**25)]))


@pytest.mark.parametrize("engine", ["boxes", "phases", "regions", "cegar"])
def test_real_numbers_are_safe_where_a_run_is_not(engine: str) -> None:
    """At least 0.5 for every real input, but 0 where the float32 sum absorbs it."""
    network = _absorbing()
    unsafe = _at_most(0.4, 0.5, 1.0)
    assert verify(network, unsafe, engine=engine, restarts=0).word == "unsat"
    assert not verify(network, unsafe, engine=engine, restarts=0, arithmetic="float32").holds
    assert verify(network, unsafe, engine="cegar", arithmetic="float32").word == "sat"


@pytest.mark.parametrize("engine", ["auto", "boxes", "phases", "regions", "cegar"])
def test_a_margin_above_the_rounding_is_proved(engine: str) -> None:
    unsafe = _at_most(-70.0, 0.5, 1.0)
    assert verify(_absorbing(), unsafe, engine=engine, arithmetic="float32").word == "unsat"


def test_a_pinned_input_is_the_number_that_the_network_sees() -> None:
    """0.1 is not a float32; the next one is above it, where the network is unsafe."""
    network = Network.from_arrays(([[-(2.0**30)]], [2.0**30 * 0.1]))
    unsafe = _at_most(-1.0, 0.1, 0.1)
    assert verify(network, unsafe, engine="cegar", restarts=0).word == "unsat"
    assert not verify(network, unsafe, engine="cegar", restarts=0, arithmetic="float32").holds


@pytest.mark.parametrize("engine", ["auto", "boxes", "phases", "regions", "cegar"])
@pytest.mark.parametrize("case", DEPLOYED, ids=lambda case: case.name)
def test_what_onnxruntime_does_is_not_called_impossible(case: Deployed, engine: str) -> None:
    x = np.full(case.prop.inputs, case.x)
    assert case.prop.is_unsafe_at(x.astype(np.float32), Runtime(case.model)(x))
    graph = read_graph(parse_model(case.model), content=case.model)
    assert not case.prop.is_unsafe_at(x, graph(x))
    with suppress(NetworkError, UnsupportedProperty):  # refused
        assert not verify(graph, case.prop, engine=engine, restarts=0, arithmetic="float32", timeout=2).holds


def test_layers_that_were_multiplied_out_are_read_again() -> None:
    """`(x + 2^25) - 2^25` is x as one layer, and a multiple of 2 as two."""
    model = Model([1, 1])
    model.add("Add", np.full(1, 2.0**25, "f4"))
    model.add("Sub", np.full(1, 2.0**25, "f4"))
    model.add("Relu")
    model.add("MatMul", np.ones((1, 1), "f4"))
    content = model.model()
    chain = chain_of(read_graph(parse_model(content), content=content))
    assert chain.model == content
    unsafe = _at_most(0.4, 0.75, 1.0)
    assert verify(chain, unsafe, restarts=0, engine="cegar").word == "unsat"
    for engine in ("auto", "boxes", "phases", "regions", "cegar"):
        assert not verify(chain, unsafe, restarts=0, engine=engine, arithmetic="float32", timeout=2).holds


def test_inputs_that_may_overflow_are_refused() -> None:
    with pytest.raises(UnsupportedProperty, match="overflow"):
        verify(_absorbing(), _at_most(-70.0, 0.5, 2.0**40), arithmetic="float32")


@pytest.mark.parametrize(("operator", "opset"), [("HardSwish", 18), ("Gelu", 20)])
def test_constants_of_float32_in_double_networks_are_charged(operator: str, opset: int) -> None:
    model, random = Model([1, 50], "f8"), np.random.default_rng(0)
    attributes: dict[str, Any] = {"approximate": "tanh"} if operator == "Gelu" else {}
    model.add(operator, **attributes)
    graph, runtime = load(model.model(opset)), Runtime(model.model(opset))
    x = 2 * random.normal(size=50)
    known, y = intervals(graph.executed(), x[None], x[None]), runtime(x)
    assert ((known.lower[-1][0] <= y) & (y <= known.upper[-1][0])).all()


def _two(first: Network, second: Network) -> dict[str, Graph]:
    return {"f": graph_of(replace(first, model=b"")), "g": graph_of(replace(second, model=b""))}


def _apart(lower: float, upper: float, at_least: float) -> bytes:
    """Unsafe: outputs of f and g on the same input that differ by at least so much."""
    return (
        "(vnnlib-version <2.0>)\n(declare-network f (declare-input X real [1]) (declare-output Y real [1]))\n"
        "(declare-network g (declare-input Z real [1]) (declare-output W real [1]))\n"
        f"(assert (and (>= X[0] {lower}) (<= X[0] {upper}) (== Z[0] X[0]) (>= (- Y[0] W[0]) {at_least})))"
    ).encode()


@pytest.mark.parametrize("engine", ["auto", "boxes", "phases", "regions", "cegar"])
def test_two_networks_that_are_equal_in_real_numbers_only(engine: str) -> None:
    """x, and `(x + 2^25) - 2^25`: a multiple of 2."""
    straight = Network.from_arrays(([[1.0]], [0.0]), ([[1.0]], [0.0]))
    networks = _two(straight, _absorbing())
    given: dict[str, Any] = {"restarts": 0, "engine": engine, "timeout": 3}
    assert verify(networks, _apart(0.5, 1.0, 0.25), **given).word == "unsat"
    assert not verify(networks, _apart(0.5, 1.0, 0.25), arithmetic="float32", **given).holds
    assert verify(networks, _apart(0.5, 1.0, 1e3), arithmetic="float32", **given).word == "unsat"


def test_products_and_balls_are_decided_as_executed() -> None:
    text = (
        "(vnnlib-version <2.0>)\n(declare-network f (declare-input X real [1]) (declare-output Y real [1]))\n"
        "(assert (and (>= X[0] 0.5) (<= X[0] 1.0) (<= (* X[0] Y[0]) {})))"
    )
    for at_most, word in ((0.2, "unsat"), (-1e3, "unsat")):
        assert verify(_absorbing(), text.format(at_most).encode(), restarts=0).word == word
    assert not verify(_absorbing(), text.format(0.2).encode(), restarts=0, arithmetic="float32", timeout=3).holds
    assert verify(_absorbing(), text.format(-1e3).encode(), restarts=0, arithmetic="float32").word == "unsat"
    plain = _at_most(0.4, 0.5, 1.0)
    (one,) = plain.disjuncts
    ball = replace(plain, disjuncts=(replace(one, ball=Ball(np.array([0.75]), 0.25, 2)),))
    assert verify(_absorbing(), ball, restarts=0).word == "unsat"
    assert not verify(_absorbing(), ball, restarts=0, arithmetic="float32", timeout=3).holds


def test_weights_that_are_computed_are_refused() -> None:
    model = Model([1, 2])
    half = model.add("Add", np.ones((2, 2), "f4"), np.eye(2, dtype="f4"), first=False)
    model.last = "input"
    model.add("MatMul", half)
    with pytest.raises(NetworkError, match="its own weights"):
        load(model.model()).executed()


def test_an_arithmetic_that_there_is_not_is_refused() -> None:
    unsafe = _at_most(0.4, 0.5, 1.0)
    with pytest.raises(InputError, match="real, float32"):
        verify(_absorbing(), unsafe, arithmetic="float16")
