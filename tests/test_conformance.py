"""What every backend and every strategy must do: never contradict the truth, and, if complete, always find it.

The truth is known by hand (`cases.BY_HAND`) or by exhaustive enumeration of activation patterns in exact rationals
(`cases.random_case`). The falsifier is switched off where verdicts are to come from the backends alone."""

import pytest
from cases import BY_HAND, Case, random_case

from ginnacer_verify.engines.parts import Bounded, parts
from ginnacer_verify.engines.refinement.loop import verify
from ginnacer_verify.engines.refinement.methods import METHODS
from ginnacer_verify.engines.refinement.relational import INITIAL, REFINEMENTS, exact, ginnacer
from ginnacer_verify.engines.verdict import Undecided, Violated
from ginnacer_verify.query.backend import Backend, backend_class, backend_names, get_backend, missing
from ginnacer_verify.query.query import Query, Sat, Unknown, Unsat

NETWORKS, CHUNK = 1000, 100
TOLERANCE = 1e-5
"""How far a witness may break its query: Marabou promises no more."""
NAMES = backend_names()
COMPLETE = [name for name in NAMES if backend_class(name).complete]  # type: ignore[attr-defined]


@pytest.fixture(scope="module", params=NAMES)
def backend(request: pytest.FixtureRequest) -> Backend:
    return available(request.param)


def available(name: str) -> Backend:
    if absent := missing(name):
        pytest.skip(f"{name} needs {', '.join(absent)}")
    return get_backend(name)


def queries(case: Case) -> list[Query]:
    """The queries that the loop may ask about a case: relaxed, with the paper's partition, and exact."""
    found = []
    for part in parts(case.prop):
        bounded = Bounded.of(case.network, case.prop, part)
        for number in bounded.open_disjuncts:
            relational = bounded.relational(case.prop, number)
            found += [relational.query(kept) for kept in ((), ginnacer(relational), exact(relational))]
    return found


def check(case: Case, backend: Backend, *, refine: str = "split", initial: str = "relaxed") -> None:
    verdict = verify(
        case.network,
        case.prop,
        backend=backend,
        timeout=60,
        restarts=0,
        per_round=2,
        refine=refine,
        initial=initial,
    )
    said = f"{case.name} by {backend.name}, {refine}, {initial}: {verdict.word} {getattr(verdict, 'reason', '')}"
    assert verdict.word == case.expected or (not backend.complete and isinstance(verdict, Undecided)), said
    if isinstance(verdict, Violated):
        assert case.prop.is_unsafe_at(verdict.counterexample.x, verdict.counterexample.y), said
    if isinstance(verdict, Undecided):
        assert verdict.reason


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.name)
def test_no_verdict_contradicts_the_truth(backend: Backend, case: Case) -> None:
    for initial in INITIAL:
        check(case, backend, initial=initial)


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.name)
def test_witnesses_satisfy_the_query_when_we_evaluate_it(backend: Backend, case: Case) -> None:
    for query in queries(case):
        answer = backend.solve(query, timeout=60)
        assert isinstance(answer, Sat | Unsat | Unknown)
        assert not backend.complete or not isinstance(answer, Unknown)
        if isinstance(answer, Sat):
            assert query.violation(answer.z) <= TOLERANCE


def test_a_timeout_of_zero_gives_unknown(backend: Backend) -> None:
    for query in queries(BY_HAND[1]):
        answer = backend.solve(query, timeout=0.0)
        assert isinstance(answer, Unknown)
        assert answer.timeout
        assert answer.reason


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_backends_that_decide_agree(first: int) -> None:
    """On the queries themselves, abstract or not: where the truth about the network does not say who is right."""
    backends = [get_backend(name) for name in NAMES if not missing(name) and name != "auto_lirpa"]
    for seed in range(first, first + 25):
        for query in queries(random_case(seed)):
            answers = {type(backend.solve(query, timeout=60)) for backend in backends}
            assert len(answers - {Unknown}) <= 1, f"random case {seed}, {len(query.kept)} kept"


@pytest.mark.parametrize("name", COMPLETE)
@pytest.mark.parametrize("first", range(0, NETWORKS, CHUNK))
def test_random_networks_are_decided_as_by_enumeration(first: int, name: str) -> None:
    """Each network by every complete backend with every strategy, from each start in turn."""
    backend, starts = available(name), list(INITIAL)
    for seed in range(first, first + CHUNK):
        case = random_case(seed)
        for number, refine in enumerate(REFINEMENTS):
            check(case, backend, refine=refine, initial=starts[(seed + number) % len(starts)])


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_at_the_boundary_nothing_is_wrong(first: int) -> None:
    """The unsafe set begins at the exact least output or a rounding error beside it.

    Unknown is allowed, and so is a counterexample that exists in the network's float32 only; a wrong unsat is not."""
    for seed in range(first, first + 50):
        case = random_case(seed, distances=(0.0, 1e-9, 1e-7))
        verdict = verify(case.network, case.prop, backend=available("highs"), timeout=60, restarts=0)
        assert case.expected == "unsat" or verdict.word != "unsat", case.name
        if isinstance(verdict, Violated):
            assert case.prop.is_unsafe_at(verdict.counterexample.x, verdict.counterexample.y), case.name


@pytest.mark.parametrize("name", COMPLETE)
@pytest.mark.parametrize("abstraction", [name for name in METHODS if name != "relational"])
def test_every_abstraction_is_decided_as_by_enumeration(abstraction: str, name: str) -> None:
    """With each of its refinements. `benchmarks/abstractions.py` does the same on any number of networks."""
    backend, method = available(name), METHODS[abstraction]
    for number, refine in enumerate(method.refinements):
        for seed in range(4 * number, 4 * number + 8):
            case = random_case(seed, (0.25,) if refine == "bisect" else (1e-3, 1e-2, 0.25))
            verdict = verify(
                case.network,
                case.prop,
                abstraction=abstraction,
                refine=refine,
                backend=backend,
                restarts=0,
                per_round=2,
                timeout=120,
            )
            doubted = name == "marabou" and "HiGHS has a solution" in getattr(verdict, "reason", "")
            assert verdict.word == case.expected or doubted, f"{case.name} by {name}, {refine}"
