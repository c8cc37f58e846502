"""The loop, played by a script and run for real: every end it can have, deadlines, determinism, known faults."""

import time
from dataclasses import replace

import numpy as np
import pytest
from cases import Case, box_of, one_disjunct, random_case, random_network
from scripted import Scripted

from benchmarks import benchmark
from ginnacer_verify.box import Box
from ginnacer_verify.engines.progress import Round
from ginnacer_verify.engines.refinement.loop import verify
from ginnacer_verify.engines.refinement.relational import INITIAL, REFINEMENTS
from ginnacer_verify.engines.verdict import Holds, Undecided, Violated
from ginnacer_verify.errors import InputError, NetworkError, PropertyError, UnsupportedProperty
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.query.backend import missing
from ginnacer_verify.query.query import Query, Sat, Unknown, Unsat

# y = relu(x1 + x2) + relu(x1 - x2) on [-1, 1]^2 has the least value 0, where CROWN only sees about -1.
VALLEY = Network.from_arrays(([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]), ([[1.0]], [0.0]))
BOX = box_of([-1.0, -1.0], [1.0, 1.0])


def twisted(offset: float) -> Case:
    """-max(|x1|, |x2|) from four ReLUs: its least value on the box is -1, on the border; the relaxed query sees -2."""
    first = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], np.zeros(4)
    network = Network.from_arrays(first, ([[-0.5, -0.5, -0.5, -0.5]], [0.0]))
    return Case("twisted", network, one_disjunct(BOX, [[1.0]], [offset]), "sat" if offset >= -1 else "unsat")


def middle_of(query: Query) -> Sat:
    """A solution of the relaxed query that is spurious: the middle of the box, with every x' as high as it can be."""
    base = query.base
    x = base.box.middle
    relus = base.relus
    y = relus.weight[:, : base.free] @ x + relus.bias
    high = relus.upper * (y - relus.lower) / (relus.upper - relus.lower)
    down = base.unsafe.matrix[0, base.free :] < 0
    return Sat(np.concatenate([x, np.where(down, high, np.maximum(y, 0.0))]))


def test_unsat_is_holds_and_says_what_was_kept() -> None:
    backend = Scripted([Unsat()])
    verdict = verify(*pair(twisted(-1.5)), backend=backend, initial="exact", restarts=0)
    assert isinstance(verdict, Holds)
    assert [len(proof.kept) for proof in verdict.proofs] == [4]
    assert verdict.statistics.rounds == 1
    assert verdict.statistics.kept == verdict.statistics.unstable == verdict.statistics.total == 4


def pair(case: Case) -> tuple[Network, Property]:
    return case.network, case.prop


def test_a_spurious_witness_is_refined_not_believed() -> None:
    backend = Scripted([middle_of, Unsat()])
    verdict = verify(*pair(twisted(-1.1)), backend=backend, per_round=1, restarts=0)
    assert isinstance(verdict, Holds)
    assert [len(query.kept) for query in backend.asked] == [0, 1]
    assert backend.asked[0].base is backend.asked[1].base


def test_a_true_witness_is_replayed_and_reported() -> None:
    backend = Scripted([lambda query: Sat(np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]))])
    verdict = verify(*pair(twisted(-0.9)), backend=backend, restarts=0)
    assert isinstance(verdict, Violated)
    assert verdict.counterexample.x.tolist() == [0.0, 1.0]
    assert verdict.counterexample.y.tolist() == [-1.0]


def test_unknown_is_passed_on_with_its_reason() -> None:
    verdict = verify(*pair(twisted(-1.1)), backend=Scripted([Unknown("out of luck")]), restarts=0)
    assert isinstance(verdict, Undecided)
    assert (verdict.word, verdict.reason) == ("unknown", "out of luck")


@pytest.mark.parametrize("garbage", [[9.0] * 6, [np.nan] * 6, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
def test_garbage_is_answered_by_highs(garbage: list[float]) -> None:
    """What is no solution of the query is neither a witness nor something to refine with."""
    for case in (twisted(-1.1), twisted(-0.9)):
        verdict = verify(*pair(case), backend=Scripted([Sat(np.array(garbage))]), restarts=0)
        assert verdict.word == case.expected


def test_something_else_than_an_answer_is_a_fault() -> None:
    with pytest.raises(TypeError, match="scripted answered"):
        verify(*pair(twisted(-1.1)), backend=Scripted([lambda query: "UNSAT"]), restarts=0)  # type: ignore[list-item,return-value]


def test_one_undecided_disjunct_leaves_the_property_undecided() -> None:
    """The last answer must not win: sat, unsat and unknown of three disjuncts in every order (neuralsat#20)."""
    network, box = twisted(0.0).network, BOX
    rows = [Disjunct(box, Polytope.everything(2), Polytope.of([[1.0]], [offset])) for offset in (-1.1, -1.2, -1.3)]
    for position in range(3):
        script = [Unsat(), Unsat(), Unsat()]
        script[position] = Unknown("hard")  # type: ignore[call-overload]
        verdict = verify(network, Property.of(*rows), backend=Scripted(script), restarts=0)
        assert isinstance(verdict, Undecided)
    assert isinstance(verify(network, Property.of(*rows), backend=Scripted([Unsat()]), restarts=0), Holds)


def test_disjuncts_on_one_box_share_its_bounds() -> None:
    backend = Scripted([Unsat()])
    rows = [Disjunct(BOX, Polytope.everything(2), Polytope.of([[1.0]], [offset])) for offset in (-1.1, -5.0, -1.2)]
    verdict = verify(twisted(0.0).network, Property.of(*rows), backend=backend, restarts=0)
    assert verdict.statistics.boxes == 1
    assert len(backend.asked) == 2, "the disjunct with -5 is proved by bounds and not asked about"


def test_several_boxes_need_all_of_them() -> None:
    near = box_of([-0.5, -0.5], [0.5, 0.5])
    disjuncts = [Disjunct(box, Polytope.everything(2), Polytope.of([[1.0]], [-0.9])) for box in (near, BOX, near)]
    assert verify(twisted(0.0).network, Property.of(*disjuncts)).word == "sat"
    assert verify(twisted(0.0).network, Property.of(*disjuncts[::2])).word == "unsat"


@pytest.mark.parametrize("refine", REFINEMENTS)
@pytest.mark.parametrize("initial", INITIAL)
@pytest.mark.parametrize("offset", [-1.05, -0.95])
def test_every_start_and_every_refinement(refine: str, initial: str, offset: float) -> None:
    case = twisted(offset)
    for restarts in (0, 4):
        verdict = verify(*pair(case), refine=refine, initial=initial, per_round=1, restarts=restarts)
        assert verdict.word == case.expected


def test_bisect_halves_until_it_is_proved() -> None:
    rounds: list[Round] = []
    verdict = verify(*pair(twisted(-1.1)), refine="bisect", restarts=0, observe=rounds.append)
    assert isinstance(verdict, Holds)
    assert verdict.statistics.boxes > 2
    assert verdict.statistics.kept == 0
    assert max(moment.open_boxes for moment in rounds) >= 1


def test_bisect_without_an_answer_goes_on() -> None:
    """An incomplete backend that never answers: bounds on ever smaller boxes have to do it all."""
    backend = Scripted([Unknown("no idea")], complete=False)
    assert verify(*pair(twisted(-1.2)), backend=backend, refine="bisect", restarts=0).word == "unsat"


@pytest.mark.parametrize("offsets", [(-1.2, -0.9), (-0.9, -1.2)])
def test_bisect_halves_for_every_open_disjunct(offsets: tuple[float, float]) -> None:
    """Both disjuncts are open on the whole box; only one of them holds, whichever comes first."""
    disjuncts = [Disjunct(BOX, Polytope.everything(2), Polytope.of([[1.0]], [offset])) for offset in offsets]
    backend = Scripted([Unknown("no idea")], complete=False)
    network = twisted(0.0).network
    verdict = verify(network, Property.of(*disjuncts), backend=backend, refine="bisect", restarts=0, timeout=1.0)
    assert verdict.word in {"timeout", "unknown"}


def test_a_solution_that_nothing_can_refine_is_no_proof() -> None:
    """The network is safe by 1e-9, less than the slack: all ReLUs are exact and still there is a solution."""
    solution = Sat(np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]))
    backend = Scripted([solution, Unsat(), Unsat()])
    verdict = verify(*pair(twisted(-1.0 - 1e-9)), backend=backend, initial="exact", restarts=0)
    assert isinstance(verdict, Undecided)
    assert "nearer" in verdict.reason
    assert len(backend.asked) == 3


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_a_deadline_of_zero_is_a_timeout(timeout: float) -> None:
    verdict = verify(*pair(twisted(-1.001)), timeout=timeout)
    assert isinstance(verdict, Undecided)
    assert verdict.word == "timeout"


def test_a_deadline_that_is_no_number_is_refused() -> None:
    with pytest.raises(InputError, match="timeout"):
        verify(*pair(twisted(-1.001)), timeout=float("nan"))


@pytest.mark.parametrize("backend", ["highs", "milp", "marabou"])
def test_the_deadline_is_kept(backend: str) -> None:
    pytest.importorskip("maraboupy" if backend == "marabou" else "highspy")
    network = load_chain(benchmark("mnistfc", "mnist-net_256x4.onnx"))
    prop = read_vnnlib(benchmark("mnistfc", "prop_1_0.05.vnnlib"))
    start = time.monotonic()
    verdict = verify(network, prop, backend=backend, timeout=2.0, restarts=0)
    assert time.monotonic() - start <= 3.5, "a second of grace, and half of one for a busy machine"
    assert verdict.word == "timeout"


@pytest.mark.parametrize(("backend", "initial"), [("milp", "exact"), ("auto_lirpa", "relaxed"), ("highs", "ginnacer")])
def test_the_deadline_is_kept_on_large_queries(backend: str, initial: str) -> None:
    """1400 unstable ReLUs: HiGHS's presolve, auto_LiRPA's bounds and the paper's partition each take far longer."""
    if absent := missing(backend):
        pytest.skip(f"{backend} needs {', '.join(absent)}")
    network = load_chain(benchmark("mnistfc", "mnist-net_256x6.onnx"))
    prop = read_vnnlib(benchmark("mnistfc", "prop_1_0.05.vnnlib"))
    start = time.monotonic()
    verdict = verify(network, prop, backend=backend, initial=initial, timeout=2.0, restarts=0)
    assert time.monotonic() - start <= 5.0, "a second of grace, and two for a busy machine"
    assert verdict.word == "timeout"


def test_a_query_that_is_too_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ginnacer_verify.engines.refinement.loop.LARGEST", 100)
    verdict = verify(*pair(twisted(-1.1)), restarts=0)
    assert isinstance(verdict, Undecided)
    assert "GB" in verdict.reason
    assert verify(*pair(twisted(-2.5)), restarts=0).word == "unsat", "bounds alone prove this one"


def test_the_same_seed_gives_the_same_trace() -> None:
    def run(seed: int) -> list[tuple[object, ...]]:
        rounds: list[Round] = []
        verify(*pair(random_case(2)), refine="random", per_round=1, seed=seed, restarts=0, observe=rounds.append)
        return [(r.number, r.kept, r.answer, str(r.bound), r.deviation) for r in rounds]

    assert run(1) == run(1)


def test_a_nan_weight_is_refused() -> None:
    with pytest.raises(NetworkError):
        Network.from_arrays(([[float("nan")]], [0.0]), ([[1.0]], [0.0]))


def test_overflow_is_unknown_and_no_proof() -> None:
    network = Network.from_arrays(([[1e300], [-1e300]], [0.0, 0.0]), ([[1e300, -1e300]], [0.0]))
    network = replace(network, dtype=np.dtype(np.float64))
    verdict = verify(network, one_disjunct(box_of([-1.0], [1.0]), [[1.0]], [-1.0]), restarts=0)
    assert isinstance(verdict, Undecided)
    assert "overflow" in verdict.reason


def test_an_empty_box_holds() -> None:
    assert verify(VALLEY, one_disjunct(box_of([1.0, 0.0], [0.0, 1.0]), [[1.0]], [1e9])).word == "unsat"


def test_no_disjuncts_hold() -> None:
    assert verify(VALLEY, Property((), Variable("X", (2,)), Variable("Y", (1,)))).word == "unsat"


def test_an_unbounded_box_is_refused() -> None:
    with pytest.raises(UnsupportedProperty, match="finite"):
        verify(VALLEY, one_disjunct(box_of([-np.inf, 0.0], [0.0, 1.0]), [[1.0]], [0.0]))


def test_a_property_of_another_network_is_refused() -> None:
    with pytest.raises(PropertyError):
        verify(VALLEY, one_disjunct(box_of([0.0], [1.0]), [[1.0]], [0.0]))


@pytest.mark.parametrize(("offset", "word"), [(1.0, "sat"), (0.875, "unsat")])
@pytest.mark.parametrize("backend", ["highs", "milp", "marabou"])
def test_all_inputs_fixed(backend: str, offset: float, word: str) -> None:
    """x = (0.25, 0.75): y = relu(1) + relu(-0.5) = 1. Constant inputs fooled Marabou (Marabou#669, #670)."""
    pytest.importorskip("maraboupy" if backend == "marabou" else "highspy")
    prop = one_disjunct(box_of([0.25, 0.75], [0.25, 0.75]), [[1.0]], [offset])
    assert verify(VALLEY, prop, backend=backend).word == word


def test_an_unreachable_output_constraint_holds() -> None:
    assert verify(VALLEY, one_disjunct(BOX, [[0.0]], [-1.0])).word == "unsat"
    assert verify(VALLEY, one_disjunct(BOX, [[0.0]], [0.0])).word == "sat"


def test_strict_rows_at_the_boundary() -> None:
    """A dead network answers exactly 0: y < 0 is unsat, y <= 0 is sat."""
    dead = Network.from_arrays(([[1.0, 1.0]], [-5.0]), ([[1.0]], [0.0]))
    assert verify(dead, one_disjunct(BOX, [[1.0]], [0.0], strict=True)).word != "sat"
    assert verify(dead, one_disjunct(BOX, [[1.0]], [0.0])).word == "sat"


@pytest.mark.parametrize("backend", ["highs", "milp", "marabou"])
def test_conjunction_with_empty_intersection(backend: str) -> None:
    """Each half-space is reachable, their intersection is not (vibecheck sat_relu)."""
    pytest.importorskip("maraboupy" if backend == "marabou" else "highspy")
    network = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), (np.array([[1.0, -1.0], [-1.0, 1.0]]), [0.0, 0.0]))
    both = one_disjunct(box_of([-1.0], [1.0]), np.eye(2), [-0.1, -0.1])
    assert verify(network, both, backend=backend, restarts=0).word == "unsat"
    for row in np.eye(2):
        assert verify(network, one_disjunct(box_of([-1.0], [1.0]), row[None], [-0.1]), backend=backend).word == "sat"


@pytest.mark.parametrize("distance", [1e-9, 1e-12, 0.0])
def test_a_witness_at_the_boundary_is_never_unsat(distance: float) -> None:
    """The true least value is -1: unsafe sets that begin there or a hair above must not be called unreachable."""
    for refine in REFINEMENTS:
        for initial in INITIAL:
            verdict = verify(*pair(twisted(-1.0 + distance)), refine=refine, initial=initial, restarts=0, timeout=5)
            assert verdict.word != "unsat"


def test_huge_cancelling_weights_are_not_proved_wrongly() -> None:
    """y = 1e8 relu(x) - 1e8 relu(x) + relu(x) in exact arithmetic is relu(x): y <= 1e-4 is reachable at x = 0."""
    first = [[1.0], [1.0], [1.0]], [0.0, 0.0, 0.0]
    network = replace(Network.from_arrays(first, ([[1e8, -1e8, 1.0]], [0.0])), dtype=np.dtype(np.float64))
    prop = one_disjunct(box_of([-1.0], [1.0]), [[1.0]], [1e-4])
    assert verify(network, prop, restarts=0).word != "unsat"


def test_nearly_all_inputs_fixed() -> None:
    """99 of 100 inputs are fixed (collins_rul): near-constant neurons must not be cut off by rounded bounds."""
    random = np.random.default_rng(0)
    network = random_network(random, (100, 20, 20, 1))
    x = random.integers(-8, 9, 100) / 8
    lower, upper = x.copy(), x.copy()
    upper[7] += 0.5
    grid = np.tile(x, (501, 1))
    grid[:, 7] = np.linspace(lower[7], upper[7], 501)
    least = float(network(grid).min())
    box = Box(lower, upper)
    assert verify(network, one_disjunct(box, [[1.0]], [least + 0.5]), restarts=0).word == "sat"
    assert verify(network, one_disjunct(box, [[1.0]], [least - 500.0]), restarts=0).word == "unsat"


def test_a_round_tells_what_happened() -> None:
    rounds: list[Round] = []
    verify(*pair(twisted(-1.001)), per_round=1, restarts=0, observe=rounds.append)
    assert [moment.number for moment in rounds] == list(range(1, len(rounds) + 1))
    assert rounds[0].answer == "sat"
    assert rounds[-1].answer == "unsat"
    assert rounds[0].unstable == (4,)
    assert rounds[0].kept == (0,)
    assert rounds[0].deviation > 0
    assert [sum(moment.kept) for moment in rounds] == sorted(sum(moment.kept) for moment in rounds)


def test_nothing_per_round_is_refused() -> None:
    """Otherwise the first spurious witness would be taken for the network's own."""
    with pytest.raises(InputError, match="at least 1"):
        verify(*pair(twisted(-1.1)), per_round=0)


def test_unknown_names_are_refused() -> None:
    for options in ({"refine": "prayer"}, {"initial": "prayer"}, {"backend": "prayer"}):
        with pytest.raises(InputError, match="prayer"):
            verify(*pair(twisted(0.0)), restarts=0, **options)  # type: ignore[arg-type]
