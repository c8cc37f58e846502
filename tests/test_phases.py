"""The engine that decides phases: its bounds in exact arithmetic, its slopes by an LP, its verdicts by enumeration."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from cases import BY_HAND, Case, box_of, one_disjunct, random_case, random_network
from deciding import word_of
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import exact, networks

from benchmarks import benchmark
from ginnacer_verify.abstraction.fold import fold_rows
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import Bounds, interval_bounds, linear_bounds
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.emit.milp import base_block, excess_column
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.parts import Bounded, parts
from ginnacer_verify.engines.phases.ascent import ACTIVE, INACTIVE, UNDECIDED, Phases
from ginnacer_verify.engines.phases.reduced import Reduced
from ginnacer_verify.engines.phases.run import PhaseRun
from ginnacer_verify.engines.phases.tighten import Region, tighten
from ginnacer_verify.engines.phases.trees import Trees, Wanted
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.replay.judge import Judge

POOL = ThreadPoolExecutor(2)
LONG = Deadline.after(3600)


def phases(network: Network, prop: Property, *, falsify: bool = False, timeout: float = 60) -> str:
    """The engine's word for an instance."""
    return word_of(PhaseRun(Judge(network, prop), Budget(Deadline.after(timeout), restarts=24 * falsify)))


def found_bounds(network: Network, box: Box) -> Bounds:
    return linear_bounds(network.layers, box)


def reduced_network(network: Network, box: Box) -> Reduced:
    bounds = found_bounds(network, box)
    hidden = len(network.layers) - 1
    return Reduced.of(network.layers[:-1], box, list(zip(bounds.lower[:hidden], bounds.upper[:hidden], strict=True)))


def decisions_at(network: Network, reduced: Reduced, x: Array, random: np.random.Generator) -> Phases:
    """Some undecided ReLUs decided the way they are at an input, so that the region is not empty."""
    phase = reduced.phase.copy()
    values = [np.asarray(y) for y in network.pre_activations(x)]
    for position in np.flatnonzero(phase == UNDECIDED):
        number, neuron = reduced.place(int(position))
        if random.random() < 0.5 and values[number][neuron] != 0:
            phase[position] = ACTIVE if values[number][neuron] > 0 else INACTIVE
    return phase


@settings(max_examples=150)
@given(networks(), st.integers(0, 2**32 - 1))
def test_bounds_hold_in_exact_arithmetic_whatever_the_multipliers(network: Network, seed: int) -> None:
    """At the input whose phases were decided, in rationals and with no tolerance."""
    random = np.random.default_rng(seed)
    middle = random.normal(size=network.inputs)
    box = Box(middle - random.random(network.inputs), middle + random.random(network.inputs))
    reduced, x = reduced_network(network, box), box.sample(random, 1)[0]
    phase = np.tile(decisions_at(network, reduced, x, random), (network.outputs, 1))
    multipliers = random.normal(size=phase.shape).astype(np.float32) * 2
    last = network.layers[-1]
    bound = reduced.rigorous(reduced.rows_of(last), last.bias, phase, multipliers)
    for lower, value in zip(bound, exact(network, x), strict=True):
        assert np.isnan(lower) or lower == -np.inf or Fraction(float(lower)) <= value


@pytest.mark.parametrize("seed", range(40))
def test_the_ascent_agrees_with_the_rigorous_bound_and_never_loses(seed: int) -> None:
    random = np.random.default_rng(seed)
    network, box = random_network(random, (3, 8, 7, 6, 2)), box_of([-1.0] * 3, [1.0] * 3)
    reduced = reduced_network(network, box)
    phase = np.tile(decisions_at(network, reduced, box.sample(random, 1)[0], random), (2, 1))
    last = network.layers[-1]
    weight, start = reduced.rows_of(last), np.where(phase == UNDECIDED, reduced.steep, np.float32(0))
    before = np.full(2, -np.inf, np.float32)
    for steps in (0, 3, 30):
        found = reduced.ascend(weight.astype(np.float32), last.bias.astype(np.float32), phase, start, steps)
        rigorous = reduced.rigorous(weight, last.bias, phase, found.multipliers)
        np.testing.assert_allclose(found.bound[~found.flat], rigorous[~found.flat], rtol=1e-4, atol=1e-4)
        assert (rigorous <= found.bound + 1e-4).all()
        assert (found.bound[found.flat] <= 0).all()
        assert (found.bound >= before - 1e-4).all()
        before = found.bound


@pytest.mark.parametrize("rigorous", [-1e-12, 0.0, np.nan])
def test_a_leaf_is_closed_by_its_rigorous_bound_alone(rigorous: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever float32 says: here every row is far above 0."""
    reduced = reduced_network(random_network(np.random.default_rng(0), (3, 8, 7, 2)), box_of([-1.0] * 3, [1.0] * 3))
    wanted = Wanted(np.zeros((1, len(reduced.kept[-1]))), np.array([5.0]), np.zeros(1, dtype=np.intp), 1)
    assert Trees(reduced, wanted, reduced.phase, POOL, LONG, steps=3).reached.all()
    monkeypatch.setattr(Reduced, "rigorous", lambda reduced, weight, bias, *rest: np.full(len(bias), rigorous))
    trees = Trees(reduced, wanted, reduced.phase, POOL, LONG, steps=3)
    assert not trees.reached.any()


@pytest.mark.parametrize("seed", [6, 80, 114, 120, 139])
def test_a_region_whose_decisions_contradict_each_other_is_closed_behind_a_dead_output(seed: int) -> None:
    """A neuron that is never inactive is decided to be so: what depends on it alone is a constant below 0 there."""
    random = np.random.default_rng(seed)
    network, box = random_network(random, (3, 8, 7, 2)), box_of([-1.0] * 3, [1.0] * 3)
    reduced = reduced_network(network, box)
    inputs = box.sample(random, 300)
    values = np.array([list(network.pre_activations(x))[1] for x in inputs])[:, reduced.kept[1]]
    never_inactive = (reduced.phase[reduced.ends[1] :] == UNDECIDED) & (values.min(axis=0) > 0.05)
    phase = reduced.phase.copy()
    phase[reduced.ends[1] :][never_inactive] = INACTIVE
    trees = Trees(
        reduced,
        Wanted(never_inactive[None].astype(np.float64), np.array([-0.1]), np.zeros(1, dtype=np.intp), 1),
        phase,
        POOL,
        LONG,
        steps=20,
    )
    for _ in range(60):
        trees.grow(4, 5, 64)
    assert trees.reached.all()


@pytest.mark.parametrize("seed", range(12))
def test_many_steps_reach_the_linear_program(seed: int) -> None:
    """With nothing decided the best multipliers give the optimum of the triangle relaxation: gradients are right."""
    import highspy

    random = np.random.default_rng(seed)
    network, box = random_network(random, (3, 6, 6, 1)), box_of([-1.0] * 3, [1.0] * 3)
    prop = one_disjunct(box, [[1.0]], [0.0])
    (part,) = parts(prop)
    bounded = Bounded.of(network, prop, part)
    base = bounded.relational(prop, 0).base
    block, model = base_block(base), highspy.Highs()
    model.setOptionValue("output_flag", False)
    count, nothing = len(block.lower), np.zeros(0, dtype=np.int32)
    model.addCols(count, np.zeros(count), block.lower, block.upper, 0, nothing, nothing, np.zeros(0))
    rows = block.rows
    model.addRows(
        len(block.row_lower),
        block.row_lower,
        block.row_upper,
        rows.nnz,
        rows.indptr[:-1].astype(np.int32),
        rows.indices.astype(np.int32),
        rows.data,
    )
    model.changeColCost(excess_column(base), 1.0)
    model.run()
    optimum = model.getInfo().objective_function_value
    reduced, last = reduced_network(network, box), network.layers[-1]
    weight, bias = reduced.rows_of(last).astype(np.float32), last.bias.astype(np.float32)
    start = reduced.steep[None]
    for _ in range(8):  # steps grow shorter: start again from where they ended
        found = reduced.ascend(weight, bias, reduced.phase[None], start, 60)
        start = found.multipliers
    assert found.bound[0] <= optimum + 1e-3
    assert found.bound[0] >= optimum - 0.02 * (1 + abs(optimum))


def samples(box: Box, random: np.random.Generator, count: int = 400) -> Array:
    inner = box.sample(random, count)
    corners = np.where(random.random(inner.shape) < 0.5, box.lower, box.upper)
    return np.concatenate([inner, corners])


@pytest.mark.parametrize("seed", range(30))
def test_trees_bound_every_row_and_reach_only_what_is_true(seed: int) -> None:
    random = np.random.default_rng(seed)
    network, box = random_network(random, (3, 8, 8, 4)), box_of([-1.0] * 3, [1.0] * 3)
    reduced, last = reduced_network(network, box), network.layers[-1]
    points = network(samples(box, random))
    bias = last.bias - points.min(axis=0) + random.choice([-0.5, 0.05, 0.5], 4)
    goal = np.array([0, 0, 1, 2])
    trees = Trees(reduced, Wanted(reduced.rows_of(last), bias, goal, 3), reduced.phase, POOL, LONG, steps=5)
    first = trees.lower.copy()
    for _ in range(40):
        if trees.done:
            break
        trees.grow(4, 5, 64)
    lower, truth = trees.settle(), points.min(axis=0) - last.bias + bias
    assert (lower >= first).all()
    assert (lower <= truth + 1e-9).all()
    for number in range(3):
        if trees.reached[number]:
            assert truth[goal == number].max() > 0


def test_trees_reach_what_one_relaxation_does_not() -> None:
    """-max(|x1|, |x2|) on the square is at least -1; relaxed it is -2."""
    network = Network.from_arrays(
        ([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], np.zeros(4)), ([[-0.5] * 4], [0.0])
    )
    reduced, last = reduced_network(network, box_of([-1.0, -1.0], [1.0, 1.0])), network.layers[-1]
    wanted = Wanted(reduced.rows_of(last), np.array([1.05]), np.array([0]), 1)
    trees = Trees(reduced, wanted, reduced.phase, POOL, LONG, steps=20)
    assert trees.lower[0] < 0
    for _ in range(10):
        if trees.done:
            break
        trees.grow(4, 20, 64)
    assert trees.reached.all()


@pytest.mark.parametrize("seed", range(30))
def test_tightened_bounds_hold_where_the_decisions_do(seed: int) -> None:
    random = np.random.default_rng(seed)
    network, box = random_network(random, (3, 8, 8, 6, 2)), box_of([-1.0] * 3, [1.0] * 3)
    x = samples(box, random)
    values = [np.asarray(y) for y in network.pre_activations(x)]
    region = Region(network.layers, box, interval_bounds(network.layers, box))
    for number in range(2):
        if len(neurons := region.unstable(number)):
            place = (number, int(random.choice(neurons)))
            half = region.halves(place)[0 if values[number][0, place[1]] >= 0 else 1]
            inside = (
                values[number][:, place[1]] >= 0 if half.decided[place] == ACTIVE else values[number][:, place[1]] <= 0
            )
            values, region = [y[inside] for y in values], half
    tightened = tighten(region, 6, POOL, LONG).region
    loose = interval_bounds(network.layers, box)
    assert len(values[0])
    for number in range(3):
        assert (values[number] >= tightened.bounds.lower[number] - 1e-9).all()
        assert (values[number] <= tightened.bounds.upper[number] + 1e-9).all()
        assert (tightened.bounds.lower[number] >= loose.lower[number]).all()


@pytest.mark.parametrize("block", range(8))
def test_verdicts_are_those_of_exhaustive_enumeration(block: int) -> None:
    """100 random tiny networks a block, the falsifier off: never wrong, and the loop finishes what is left."""
    for seed in range(block * 100, block * 100 + 100):
        case = random_case(seed)
        word = phases(case.network, case.prop, timeout=5)
        assert word == case.expected or word not in {"sat", "unsat"}, f"seed {seed}"
        if seed % 4 == 0:
            assert verify(case.network, case.prop, engine="phases", restarts=0).word == case.expected, f"seed {seed}"


def test_most_tiny_networks_are_proved_without_the_loop() -> None:
    cases = [case for case in map(random_case, range(120)) if case.expected == "unsat"]
    proved = sum(phases(case.network, case.prop) == "unsat" for case in cases)
    assert proved > 0.8 * len(cases)


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.name)
def test_cases_by_hand(case: Case) -> None:
    """Input constraints are not the engine's business: it may leave such a case open, but never decide it wrongly."""
    word = phases(case.network, case.prop, falsify=True)
    constrained = any(len(disjunct.inputs) for disjunct in case.prop.disjuncts)
    if not constrained:
        assert word == case.expected or word not in {"sat", "unsat"}
        assert verify(case.network, case.prop, engine="phases").word == case.expected


@pytest.mark.parametrize("last", [0, 1, 2])
def test_all_disjuncts_count(last: int) -> None:
    """A disjunct that is reached may be any of several; a conjunction is out of reach when one of its rows is."""
    network = Network.from_arrays(([[1.0, 0.5], [-1.0, 0.25]], [0.0, 0.0]), ([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0]))
    box = box_of([-1, -1], [1, 1])
    safe = [one_disjunct(box, [[-1.0, 0.0], [0.0, 1.0]], [-offset, 9.0]).disjuncts[0] for offset in (2.5, 3.0)]
    unsafe = one_disjunct(box, [[-1.0, 0.0], [0.0, 1.0]], [-1.0, 9.0]).disjuncts[0]
    assert phases(network, Property.of(*safe)) == "unsat"
    assert phases(network, Property.of(*safe[:last], unsafe, *safe[last:]), falsify=True) == "sat"
    assert phases(network, Property.of(*safe[:last], unsafe, *safe[last:])) != "unsat"


def test_a_disjunct_without_rows_is_never_out_of_reach() -> None:
    network = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    prop = one_disjunct(box_of([-1.0], [1.0]), np.zeros((0, 1)), np.zeros(0))
    assert phases(network, prop) != "unsat"
    assert verify(network, prop, engine="phases").word == "sat"


def test_a_network_without_relus() -> None:
    network = Network.from_arrays(([[1.0, 2.0]], [0.5]))
    box = box_of([0.0, 0.0], [1.0, 1.0])
    assert phases(network, one_disjunct(box, [[1.0]], [0.4])) == "unsat"
    assert verify(network, one_disjunct(box, [[1.0]], [0.6]), engine="phases").word == "sat"


def test_non_finite_numbers_prove_nothing() -> None:
    network = Network.from_arrays((np.full((3, 2), 1e200), np.zeros(3)), (np.full((1, 3), 1e200), np.zeros(1)))
    prop = one_disjunct(box_of([-1e3, -1e3], [1e3, 1e3]), [[1.0]], [-1.0])
    with np.errstate(over="ignore", invalid="ignore"):
        assert phases(network, prop) != "unsat"
    large = Network.from_arrays((np.full((3, 2), 1e30), np.ones(3)), (np.full((1, 3), 1e30), np.zeros(1)))
    with np.errstate(all="ignore"):  # fits float64 but not float32, in which multipliers are looked for
        assert phases(large, one_disjunct(box_of([-1, -1], [1, 1]), [[1.0]], [1.0]), timeout=5) != "unsat"


def test_an_expired_deadline_is_a_reason() -> None:
    case = random_case(0)
    assert "time limit reached" in phases(case.network, case.prop, timeout=0)


def test_fixed_inputs_and_sparse_layers() -> None:
    random = np.random.default_rng(3)
    weight = random.normal(size=(80, 60)) * (random.random((80, 60)) < 0.1)
    network = Network((Layer(weight, random.normal(size=80)), Layer(random.normal(size=(1, 80)), np.zeros(1))))
    lower = random.normal(size=60)
    box = Box(lower, lower + np.where(np.arange(60) % 3, 0.0, 0.2))
    least = network(samples(box, random)).min()
    assert phases(network, one_disjunct(box, [[1.0]], [least - 2.0])) == "unsat"
    assert phases(network, one_disjunct(box, [[1.0]], [least + 1e-3])) != "unsat"


@pytest.mark.parametrize(
    ("network", "prop", "expected"),
    [
        ("256x2", "3_0.03", "unsat"),
        ("256x4", "0_0.03", "unsat"),
        ("256x6", "5_0.03", "unsat"),
        ("256x4", "1_0.05", "sat"),
    ],
)
def test_mnist_samples(network: str, prop: str, expected: str) -> None:
    """Within a second or two each where one relaxation of the whole network is hopeless."""
    file = benchmark("mnistfc", f"mnist-net_{network}.onnx")
    verdict = verify(load_chain(file), read_vnnlib(benchmark("mnistfc", f"prop_{prop}.vnnlib")), timeout=120)
    assert verdict.word == expected
    assert verdict.statistics.engine == "phases"


@pytest.mark.parametrize("prop", ["7_0.03", "14_0.03", "9_0.05"])
def test_nothing_unsafe_is_proved_without_the_falsifier(prop: str) -> None:
    network = load_chain(benchmark("mnistfc", "mnist-net_256x2.onnx"))
    assert phases(network, read_vnnlib(benchmark("mnistfc", f"prop_{prop}.vnnlib")), timeout=3) != "unsat"


def test_folded_rows_stay_in_the_order_of_their_disjuncts() -> None:
    """Three disjuncts on one box of which the second needs two rows: each row's goal is its own disjunct."""
    network = Network.from_arrays(([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), (np.eye(2), [0.0, 0.0]))
    box = box_of([0.25, 0.25], [1.0, 1.0])
    out = one_disjunct(box, [[1.0, 0.0]], [0.2]).disjuncts[0]
    pair = one_disjunct(box, [[-1.0, 0.0], [0.0, 1.0]], [0.0, 0.2]).disjuncts[0]
    reached = one_disjunct(box, [[0.0, 1.0]], [0.5]).disjuncts[0]
    assert len(fold_rows(network, [out, pair, reached])[-1].bias) == 4
    assert phases(network, Property.of(out, pair)) == "unsat"
    assert phases(network, Property.of(out, pair, reached)) != "unsat"
    assert phases(network, Property.of(reached, pair, out)) != "unsat"
