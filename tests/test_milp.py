"""The query as an LP and as a MILP: blocks, MPS text, safe bounds, and both HiGHS backends on hard corners."""

from fractions import Fraction

import numpy as np
import pytest
from cases import box_of, one_disjunct, random_case
from scipy.sparse import csr_array

from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.adapters.highs import HighsBackend, _Program
from ginnacer_verify.adapters.milp import ANSWERS, MilpBackend
from ginnacer_verify.arrays import Array
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.emit.milp import excess_column, milp_blocks, to_mps, without_small
from ginnacer_verify.engines.parts import Bounded, Part, parts
from ginnacer_verify.engines.refinement.relational import exact, ginnacer
from ginnacer_verify.graph.network import Network
from ginnacer_verify.query.query import Sat, Unknown, Unsat
from ginnacer_verify.query.safe_bound import safe_bound


def relationals(seed: int) -> list[Relational]:
    case = random_case(seed)
    bounded = [Bounded.of(case.network, case.prop, part) for part in parts(case.prop)]
    return [b.relational(case.prop, number) for b in bounded for number in b.open_disjuncts]


OPEN = [seed for seed in range(60) if relationals(seed)][:16]


@pytest.mark.parametrize("seed", OPEN)
def test_mps_is_read_by_a_solver_and_says_the_same(seed: int, tmp_path: object) -> None:
    import highspy

    for relational in relationals(seed):
        for kept in (exact(relational), ginnacer(relational)):
            query = relational.query(kept)
            file = f"{tmp_path}/query.mps"
            with open(file, "w") as out:
                out.write(to_mps(query))
            model = highspy.Highs()
            model.setOptionValue("output_flag", False)
            assert model.readModel(file) == highspy.HighsStatus.kOk
            model.run()
            answer = MilpBackend().solve(query, timeout=10)
            assert (model.getModelStatus().name == "kInfeasible") == isinstance(answer, Unsat)
            integers = sum(bool(block.integer.any()) for block in milp_blocks(query))
            assert integers <= len(kept)


@pytest.mark.parametrize("seed", OPEN)
def test_solutions_are_solutions_and_both_ways_agree(seed: int) -> None:
    for relational in relationals(seed):
        for kept in ((), exact(relational), ginnacer(relational)):
            query = relational.query(kept)
            answers = [HighsBackend().solve(query, timeout=10), MilpBackend().solve(query, timeout=10)]
            assert len({type(answer) for answer in answers}) == 1
            assert not isinstance(answers[0], Unknown)
            for answer in answers:
                if isinstance(answer, Sat):
                    assert query.violation(answer.z) <= 1e-6


@pytest.mark.parametrize("seed", OPEN)
def test_a_living_model_answers_as_a_fresh_one(seed: int) -> None:
    """Subsets are added one by one to one backend; each answer is that of a new backend."""
    for relational in relationals(seed):
        living, kept = HighsBackend(), (*ginnacer(relational), *exact(relational))
        for count in range(len(kept) + 1):
            query = relational.query(kept[:count])
            assert type(living.solve(query, timeout=10)) is type(HighsBackend().solve(query, timeout=10))


def test_a_query_that_is_no_extension_starts_again() -> None:
    relational = relationals(OPEN[0])[0]
    backend = HighsBackend()
    whole = backend.solve(relational.query(exact(relational)), timeout=10)
    backend.solve(relational.query(), timeout=10)
    assert type(backend.solve(relational.query(exact(relational)), timeout=10)) is type(whole)


@pytest.mark.parametrize("seed", range(30))
def test_safe_bound_is_below_the_optimum_for_any_multipliers(seed: int) -> None:
    """min c v over a box and rows: a bound from random multipliers must not exceed the value of any feasible point."""
    random = np.random.default_rng(seed)
    rows = csr_array(random.integers(-3, 4, (4, 3)).astype(float))
    lower, upper = -random.random(3), random.random(3)
    point = lower + random.random(3) * (upper - lower)
    values = rows @ point
    low, high = values - random.random(4), np.where(random.random(4) < 0.3, np.inf, values + random.random(4))
    cost = random.normal(size=3)
    for _ in range(50):
        multipliers = random.normal(size=4)
        assert safe_bound(cost, rows, (low, high), (lower, upper), multipliers) <= cost @ point


def test_safe_bound_reaches_the_optimum() -> None:
    """min v1 + v2 with v1 + 2 v2 >= 2 on [0, 1]^2 is 1, and the multiplier 1/2 proves it."""
    rows = csr_array(np.array([[1.0, 2.0]]))
    ends = np.zeros(2), np.ones(2)
    found = safe_bound(np.ones(2), rows, (np.array([2.0]), np.array([np.inf])), ends, np.array([0.5]))
    assert found == pytest.approx(1.0, abs=1e-12)
    assert found <= 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_safe_bound_of_nonsense_proves_nothing(bad: float) -> None:
    rows = csr_array(np.array([[1.0]]))
    found = safe_bound(np.ones(1), rows, (np.array([0.0]), np.array([1.0])), (np.zeros(1), np.ones(1)), np.array([bad]))
    assert found == -np.inf


def test_a_solver_that_claims_too_much_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS says infeasible where there is a solution: without a certificate of our own that is no Unsat."""
    box = box_of([-1.0], [1.0])
    prop = one_disjunct(box, [[1.0]], [0.5])
    network = Network.from_arrays(([[1.0]], [0.0]), ([[1.0]], [0.0]))
    relational = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)
    backend = HighsBackend()
    monkeypatch.setattr("ginnacer_verify.adapters.highs._Program.run", lambda *_: "kInfeasible")
    monkeypatch.setattr(backend, "_open", [{}])
    assert isinstance(backend.solve(relational.query(), timeout=5), Unknown)


@pytest.mark.parametrize("seed", OPEN[:5])
def test_a_leaf_without_an_answer_is_solved_from_scratch(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS answers kNotset now and then when it starts from the basis of another leaf."""
    solve, calls = _Program._solve, list[str]()

    def sometimes(program: _Program, deadline: Deadline) -> str:
        calls.append(solve(program, deadline))
        return "kNotset" if len(calls) % 2 else calls[-1]

    for relational in relationals(seed):
        query = relational.query(exact(relational))
        expected = HighsBackend().solve(query, timeout=20)
        with monkeypatch.context() as patched:
            patched.setattr(_Program, "_solve", sometimes)
            assert type(HighsBackend().solve(query, timeout=20)) is type(expected)
    assert calls


def test_the_excess_is_the_objective() -> None:
    relational = relationals(OPEN[0])[0]
    first = next(iter(milp_blocks(relational.query())))
    assert first.upper[excess_column(relational.base)] == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_safe_bound_without_rounding(seed: int) -> None:
    """Numbers of all sizes: the bound never exceeds what the same multipliers give in rationals."""
    random = np.random.default_rng(seed)

    def drawn(*shape: int) -> Array:
        return np.asarray(random.normal(size=shape) * 10.0 ** random.integers(-6, 7, shape))

    rows, cost, m = drawn(4, 6), drawn(6), drawn(4)
    lower, low = -np.abs(drawn(6)), -np.abs(drawn(4))
    upper, high = lower + np.abs(drawn(6)), low + np.abs(drawn(4))
    d = [
        Fraction(cost[j]) - sum((Fraction(rows[i, j]) * Fraction(m[i]) for i in range(4)), Fraction(0))
        for j in range(6)
    ]
    parts = [min(Fraction(m[i]) * Fraction(low[i]), Fraction(m[i]) * Fraction(high[i])) for i in range(4)]
    parts += [min(d[j] * Fraction(lower[j]), d[j] * Fraction(upper[j])) for j in range(6)]
    real = sum(parts, Fraction(0))
    found = safe_bound(cost, csr_array(rows), (low, high), (lower, upper), m)
    assert Fraction(found) <= real
    assert found == pytest.approx(float(real), rel=1e-6)


def test_safe_bound_that_overflows_proves_nothing() -> None:
    """Ends of 0 make the overflowing products no numbers, other ends make them infinite."""
    rows = csr_array(np.array([[1e200, -1e200]]))
    for least in (0.0, -1e200):
        ends = np.full(2, least), np.full(2, 1e200)
        with np.errstate(over="ignore", invalid="ignore"):
            found = safe_bound(np.ones(2), rows, (np.array([-1.0]), np.array([1.0])), ends, np.array([1e300]))
        assert found == -np.inf


def test_an_objective_above_zero_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where HiGHS claims more than its multipliers prove, there is no Unsat."""
    open_ones = (r for seed in OPEN for r in relationals(seed))
    relational = next(r for r in open_ones if isinstance(HighsBackend().solve(r.query(), timeout=5), Sat))
    monkeypatch.setattr("ginnacer_verify.adapters.highs._Program._value", lambda *_: 1.0)
    assert isinstance(HighsBackend().solve(relational.query(), timeout=5), Unknown)


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("x", [-1.0, -0.25, 0.0, 0.5, 1.0])
def test_both_phases_hold_what_lies_between_them(active: bool, x: float) -> None:
    """The leaf of a phase contains every run of that phase, and a run with y = 0 is one of both."""
    box, network = box_of([-1.0], [1.0]), Network.from_arrays(([[1.0]], [0.0]), ([[1.0]], [0.0]))
    prop = one_disjunct(box, [[1.0]], [0.5])
    relational = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)
    program = _Program(relational.base)
    program.keep(exact(relational)[0])
    program.run({0: active}, Deadline.after(5))
    columns = np.array([x, max(x, 0.0), x, max(x, 0.0) - 0.5])
    rows = program.rows @ columns
    inside = (program.lower <= columns) & (columns <= program.upper)
    held = (program.row_lower <= rows) & (rows <= program.row_upper)
    assert (inside.all() and held.all()) == (x >= 0 if active else x <= 0)


def test_no_solution_is_lost_with_small_coefficients() -> None:
    """Whatever satisfies the blocks satisfies them without their small coefficients, of which nothing is left."""
    random, entries = np.random.default_rng(0), [0, 0]
    for relational in (r for seed in OPEN for r in relationals(seed)):
        blocks = list(milp_blocks(relational.query(exact(relational))))
        fewer = list(without_small(blocks, 0.7))
        columns = np.concatenate([random.uniform(block.lower, block.upper) for block in blocks])
        for block, other in zip(blocks, fewer, strict=True):
            assert not (np.abs(other.rows.data) <= 0.7).any()
            change = (block.rows - other.rows) @ columns[: block.rows.shape[1]]
            with np.errstate(invalid="ignore"):  # an end that is infinite stays so
                moved = np.fmax(other.row_upper - block.row_upper, block.row_lower - other.row_lower)
            assert not (np.abs(change) > moved + 1e-12).any()
            entries = [entries[0] + block.rows.nnz, entries[1] + other.rows.nnz]
    assert 0 < entries[1] < entries[0]


def test_only_infeasible_is_unsat() -> None:
    assert [word for word, answer in ANSWERS.items() if isinstance(answer, Unsat)] == ["kInfeasible"]
