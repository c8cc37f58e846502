"""auto_LiRPA: its bounds against ours and against the truth, and the chain that it is given."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cases import box_of, one_disjunct, random_case
from test_milp import relationals
from test_relational import solution_at

from ginnacer_verify.adapters.auto_lirpa import METHODS, AutoLirpaBackend, lirpa_bounds, run
from ginnacer_verify.bounds.chain import interval_bounds, linear_bounds
from ginnacer_verify.box import Box
from ginnacer_verify.emit.chain import chain
from ginnacer_verify.emit.marabou import outwards
from ginnacer_verify.engines.parts import Bounded, Part
from ginnacer_verify.engines.refinement.relational import exact
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.query.query import Query, Unknown, Unsat

OPEN = [seed for seed in range(60) if relationals(seed)][:10]


@pytest.fixture(autouse=True)
def _library() -> None:
    pytest.importorskip("torch")


@pytest.mark.parametrize("seed", OPEN)
def test_a_chain_says_what_the_query_says(seed: int) -> None:
    """At a run of the network, with each e as far below the line as the run lies, the chain gives the unsafe rows."""
    for relational in relationals(seed):
        for kept in ((), exact(relational)[::2], exact(relational)):
            query = relational.query(kept)
            emitted, base, relus = chain(query), relational.base, relational.base.relus
            relaxed = [i for i in range(len(relus)) if i not in {shared.members[0] for shared in kept}]
            for x in relational.box.sample(np.random.default_rng(seed), 20):
                z = solution_at(relational, x)
                y = base.pre_activations(z)
                line = relus.upper * (y - relus.lower) / (relus.upper - relus.lower) + relus.slack
                below = (line - z[base.free :])[relaxed]
                point = np.concatenate([z[: base.free] - base.box.lower, below]) + emitted.box.lower
                assert (point >= emitted.box.lower - 1e-9).all()
                assert (point <= emitted.box.upper + 1e-9).all()
                rows = base.unsafe.matrix @ z - base.unsafe.offset
                assert Network(emitted.layers)(point) == pytest.approx(rows, abs=1e-6)


@pytest.mark.parametrize("seed", range(0, 32, 4))
def test_crown_and_fastlin_are_what_we_compute(seed: int) -> None:
    """Where one hidden layer is unstable the two agree; the library does not intersect with intervals, we do."""
    case = random_case(seed)
    network, box = Network(case.network.layers[:2]), case.prop.boxes[0]
    intervals = interval_bounds(network.layers, box)
    for method, parallel in (("CROWN", False), ("FastLin", True)):
        lower, upper = lirpa_bounds(network.layers, box, method)
        ours = linear_bounds(network.layers, box, parallel=parallel)
        assert ours.lower[-1] == pytest.approx(np.maximum(lower, intervals.lower[-1]), abs=1e-9)
        assert ours.upper[-1] == pytest.approx(np.minimum(upper, intervals.upper[-1]), abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_bounds_hold_at_samples(method: str) -> None:
    for seed in range(6):
        case = random_case(seed)
        box = case.prop.boxes[0]
        lower, upper = lirpa_bounds(case.network.layers, box, method)
        y = case.network(box.sample(np.random.default_rng(seed), 300))
        assert (y >= lower - 1e-9).all()
        assert (y <= upper + 1e-9).all()


def test_alpha_crown_is_tighter() -> None:
    gains = []
    for seed in OPEN[:4]:
        case = random_case(seed)
        plain, _ = lirpa_bounds(case.network.layers, case.prop.boxes[0], "CROWN")
        better, _ = lirpa_bounds(case.network.layers, case.prop.boxes[0], "alpha-CROWN")
        gains.append(float((better - plain).max()))
    assert max(gains) > 0.01


def test_it_proves_some_never_wrongly_and_else_says_so() -> None:
    backend, proved = AutoLirpaBackend(), 0
    for seed in range(14):
        case = random_case(seed)
        for relational in relationals(seed):
            answer = backend.solve(relational.query(exact(relational)), timeout=30)
            if isinstance(answer, Unsat):
                proved += 1
                assert case.expected == "unsat"
            else:
                assert isinstance(answer, Unknown)
                assert answer.reason
    assert proved > 0


def test_a_timeout_of_zero_is_unknown() -> None:
    answer = AutoLirpaBackend().solve(relationals(OPEN[0])[0].query(), timeout=0)
    assert isinstance(answer, Unknown)
    assert answer.timeout


def test_an_unknown_method_is_refused() -> None:
    case = random_case(0)
    with pytest.raises(InputError, match="alpha-CROWN"):
        lirpa_bounds(case.network.layers, case.prop.boxes[0], "magic")


def test_a_relaxed_relu_reaches_its_upper_line_and_slack() -> None:
    """relu(x) on [-1, 1] with a slack of 1/2: at x = 1/2 the line is at 3/4, so x' goes up to 5/4."""
    network, box = Network.from_arrays(([[1.0]], [0.0]), ([[1.0]], [0.0])), box_of([-1.0], [1.0])
    prop = one_disjunct(box, [[1.0]], [0.25])
    base = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0).base
    loose = replace(base, relus=replace(base.relus, slack=np.array([0.5])))
    found = chain(Query(loose))
    x = np.array([0.5 - box.lower[0], 0.0]) + found.box.lower
    assert Network(found.layers)(x)[0] + outwards(loose)[0] == pytest.approx(1.25 - 0.25, abs=1e-6)


@pytest.mark.parametrize(("seed", "narrow"), [(11, 1e-13), (12, 1e-14), (38, 1e-13)])
def test_the_shift_of_a_narrow_input_does_not_drown_it(seed: int, narrow: float) -> None:
    """Reachable by 1e-6: the row is least at a corner. Shifted by 0.001, the inputs would lose all but two digits."""
    weight = np.random.default_rng(seed).normal(size=(1, 3)) / narrow
    network, box = Network.from_arrays((weight, [0.3])), box_of(np.zeros(3), np.full(3, narrow))
    lowest = Fraction(0.3) + sum(Fraction(float(w)) * Fraction(narrow) for w in weight[0] if w < 0)
    prop = one_disjunct(box, [[1.0]], [float(lowest) + 1e-6])
    relational = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)
    assert run((relational.query(), ["CROWN"]), 60.0) == {"proved": False}


@pytest.mark.parametrize(("bound", "proved"), [(np.nan, False), (-np.inf, False), (0.0, False), (1e-9, True)])
def test_only_a_bound_above_zero_is_a_proof(monkeypatch: pytest.MonkeyPatch, bound: float, proved: bool) -> None:
    monkeypatch.setattr("ginnacer_verify.adapters.auto_lirpa.lirpa_bounds", lambda *_: (np.array([bound]), None))
    relational = relationals(next(seed for seed in range(60) if relationals(seed)))[0]
    assert run((relational.query(), ["CROWN"]), 1.0) == {"proved": proved}


def test_what_the_library_raises_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("ginnacer_verify.adapters.auto_lirpa.lirpa_bounds", fail)
    relational = relationals(next(seed for seed in range(60) if relationals(seed)))[0]
    assert run((relational.query(), ["CROWN"]), 1.0) == {"problem": "AssertionError"}


def test_the_default_type_of_torch_stays_the_callers() -> None:
    """Modules that were made after a call of the library once had float64 weights, which onnxruntime refuses in
    convolutions."""
    torch = pytest.importorskip("torch")
    network = Network.from_arrays((np.eye(2), np.zeros(2)), (np.eye(2), np.zeros(2)))
    lirpa_bounds(network.layers, Box(np.zeros(2), np.ones(2)))
    assert torch.get_default_dtype() == torch.float32
