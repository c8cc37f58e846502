"""The engine for one hidden layer: verdicts by enumeration; propagation and planes lose no unsafe input."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cases import CORNERS, SIGNS, SQUARE, box_of, one_disjunct, random_network
from deciding import DECIDED, word_of
from exhaustive import is_sat, least

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.choice import choose
from ginnacer_verify.engines.shallow.bound import ascended, planes
from ginnacer_verify.engines.shallow.problem import Regions, Shallow
from ginnacer_verify.engines.shallow.propagate import clipped, propagated
from ginnacer_verify.engines.shallow.run import ShallowRun
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Property
from ginnacer_verify.replay.judge import Judge


def decide(network: Network, prop: Property, threads: int = 1) -> str:
    run = ShallowRun(Judge(network, prop), Budget(Deadline.after(5.0), threads=threads))
    word = word_of(run)
    assert word in DECIDED or run.remaining
    return word


def problem_of(random: np.random.Generator, inputs: int, hidden: int, rows: int) -> tuple[Network, Property]:
    network = random_network(random, (inputs, hidden, rows))
    lower = random.integers(-8, 5, inputs) / 4
    box = Box(lower, lower + random.integers(1, 9, inputs) / 4)
    outputs = network(box.sample(random, 50))
    return network, one_disjunct(box, np.eye(rows), np.quantile(outputs, 0.6, axis=0))


@pytest.mark.parametrize("block", range(4))
def test_verdicts_are_those_of_exhaustive_enumeration(block: int) -> None:
    """60 random networks a block, thresholds next to the exact least output."""
    undecided = 0
    for seed in range(block * 60, block * 60 + 60):
        random = np.random.default_rng(seed)
        network = random_network(random, (2, int(random.integers(1, 9)), 1))
        lower = random.integers(-8, 5, 2) / 4
        box = Box(lower, lower + random.integers(1, 9, 2) / 4)
        lowest = float(least(network, one_disjunct(box, [[1.0]], [0.0]).disjuncts[0]))
        prop = one_disjunct(box, [[1.0]], [lowest + float(random.choice([-0.25, -0.01, -1e-4, 1e-4, 0.01, 0.25]))])
        word = decide(network, prop)
        undecided += word not in DECIDED
        assert word not in DECIDED or word == ("sat" if is_sat(network, prop) else "unsat"), f"seed {seed}"
    assert undecided <= 2


@pytest.mark.parametrize("seed", range(60))
def test_conjunctions_are_as_by_enumeration(seed: int) -> None:
    random = np.random.default_rng(seed)
    network, prop = problem_of(random, 2, 5, 2)
    offset = prop.disjuncts[0].outputs.offset - random.integers(0, 9, 2) / 8
    prop = one_disjunct(prop.disjuncts[0].box, np.eye(2), offset)
    word, truth = decide(network, prop, threads=2), "sat" if is_sat(network, prop) else "unsat"
    assert word == truth or word not in DECIDED
    assert verify(network, prop, engine="shallow", restarts=0, timeout=20).word in {truth, "unknown"}


def inside(regions: Regions, problem: Shallow, x: Array) -> bool:
    """Whether an input and its neurons lie in the one region, in exact arithmetic."""
    exact = [Fraction(float(value)) for value in x]
    for row, bias, low, high in zip(problem.weight, problem.bias, regions.low[0], regions.high[0], strict=True):
        y = sum((Fraction(float(w)) * v for w, v in zip(row, exact, strict=True)), Fraction(float(bias)))
        if not Fraction(float(low)) <= y <= Fraction(float(high)):
            return False
    return bool((regions.lower[0] <= x).all() and (x <= regions.upper[0]).all())


def unsafe(problem: Shallow, x: Array) -> bool:
    """Whether every row is at most 0 at an input, in exact arithmetic."""
    exact = [Fraction(float(value)) for value in x]
    hidden = [
        max(Fraction(0), sum((Fraction(float(w)) * v for w, v in zip(row, exact, strict=True)), Fraction(float(bias))))
        for row, bias in zip(problem.weight, problem.bias, strict=True)
    ]
    return all(
        sum((Fraction(float(a)) * h for a, h in zip(row, hidden, strict=True)), Fraction(float(constant))) <= 0
        for row, constant in zip(problem.rows, problem.constant, strict=True)
    )


@pytest.mark.parametrize("seed", range(40))
def test_propagation_and_decisions_lose_no_unsafe_input(seed: int) -> None:
    """Along a random path of decisions, each unsafe sample stays in the region of the phases that it has."""
    random = np.random.default_rng(seed)
    network, prop = problem_of(random, 4, 7, int(random.integers(1, 3)))
    problem = Shallow.of(network, prop.disjuncts[0])
    samples = [x for x in problem.box.sample(random, 80) if unsafe(problem, x)]
    regions, empty = propagated(problem, problem.root)
    for neuron in random.permutation(7)[:4]:
        assert not (samples and empty.any())
        assert all(inside(regions, problem, x) for x in samples)
        regions = ascended(problem, regions, 10).regions
        assert all(inside(regions, problem, x) for x in samples)
        side = float(random.choice([-1.0, 1.0]))
        ends = (regions.low if side > 0 else regions.high).copy()
        ends[0, neuron] = np.maximum(ends[0, neuron], 0.0) if side > 0 else np.minimum(ends[0, neuron], 0.0)
        regions = replace(regions, low=ends) if side > 0 else replace(regions, high=ends)
        samples = [x for x in samples if inside(regions, problem, x)]
        regions = clipped(problem, regions, np.array([neuron]), np.array([side]))
        assert all(inside(regions, problem, x) for x in samples)
        regions, empty = propagated(problem, regions)


@pytest.mark.parametrize("seed", range(40))
def test_planes_are_below_the_rows_for_any_multipliers(seed: int) -> None:
    random = np.random.default_rng(seed)
    network, prop = problem_of(random, 3, 6, 2)
    problem = Shallow.of(network, prop.disjuncts[0])
    regions, _ = propagated(problem, problem.root)
    regions = replace(
        problem.root,
        low=np.fmin(regions.low, -0.1 * random.random(6)) if seed % 2 else regions.low,
        high=regions.high,
        slope=random.random((1, 6)),
        force=random.normal(size=(1, 6)) * (random.random((1, 6)) < 0.5),
        share=random.random((1, 2)),
    )
    below = planes(problem, regions)
    for x in problem.box.sample(random, 60):
        if inside(regions, problem, x):
            value = np.maximum(problem.weight @ x + problem.bias, 0.0) @ problem.rows.T + problem.constant
            assert float(regions.share[0] @ value) >= below.least[0]


def test_cases_by_hand() -> None:
    assert decide(CORNERS, one_disjunct(SQUARE, [[1.0]], [-1.001])) == "unsat"
    assert decide(CORNERS, one_disjunct(SQUARE, [[1.0]], [-0.999])) == "sat"
    assert decide(SIGNS, one_disjunct(box_of([-1.0], [1.0]), np.eye(2), [-0.001, -0.001])) == "unsat"
    assert decide(SIGNS, one_disjunct(box_of([-1.0], [1.0]), np.eye(2), [0.001, 0.001])) == "sat"


def satisfiability(clauses: list[list[int]], variables: int) -> tuple[Network, Property]:
    """A formula as a network: a ReLU per clause that is broken, and rows that allow whole numbers only."""
    weight, bias = np.zeros((len(clauses) + 2 * variables, variables)), np.zeros(len(clauses) + 2 * variables)
    last = np.zeros((2, len(bias)))
    for number, clause in enumerate(clauses):
        for literal in clause:
            weight[number, abs(literal) - 1] = -np.sign(literal)
        bias[number] = 1.0 - sum(literal < 0 for literal in clause)
        last[0, number] = 1.0
    for variable in range(variables):
        at = len(clauses) + 2 * variable
        weight[at, variable], weight[at + 1, variable], bias[at + 1] = 1.0, 2.0, -1.0
        last[1, at], last[1, at + 1] = 1.0, -1.0
    network = Network.from_arrays((weight, bias), (last, np.zeros(2)))
    return network, one_disjunct(box_of(np.zeros(variables), np.ones(variables)), np.eye(2), [0.0, 0.0])


@pytest.mark.parametrize("seed", range(6))
def test_formulas_in_disguise(seed: int) -> None:
    """Random formulas with three literals a clause, decided by trying all assignments."""
    random = np.random.default_rng(seed)
    clauses = [[int(v + 1) * int(random.choice([-1, 1])) for v in random.permutation(8)[:3]] for _ in range(36)]
    table = (np.arange(2**8)[:, None] >> np.arange(8)) & 1
    holds = [any(bool(row[abs(one) - 1]) == (one > 0) for one in clause) for row in table for clause in clauses]
    truth = bool(np.array(holds).reshape(2**8, -1).all(axis=1).any())
    network, prop = satisfiability(clauses, 8)
    assert decide(network, prop) == ("sat" if truth else "unsat")


def test_one_hidden_layer_is_what_chooses_it() -> None:
    random = np.random.default_rng(0)
    network, prop = problem_of(random, 20, 30, 1)
    assert choose(network, prop).engine == "shallow"
    with pytest.raises(InputError, match="one hidden layer"):
        choose(random_network(random, (20, 5, 5, 1)), prop, "shallow")


def test_what_stays_open_is_finished_by_an_exact_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ginnacer_verify.engines.shallow.run.SHARE", 0.0)
    network, prop = CORNERS, one_disjunct(SQUARE, [[1.0], [1.0]], [-1.1, -1.2])
    verdict = verify(network, prop, engine="shallow", restarts=0)
    assert verdict.word == "unsat"
    assert verdict.statistics.engine == "shallow, milp"
