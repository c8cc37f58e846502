"""Which engine decides, and that the verdicts on our own instances are the expected ones, whichever it is."""

import csv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cases import BY_HAND, Case, box_of, one_disjunct, random_case
from scipy.sparse import csr_array

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.run import NativeRun
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.choice import choose
from ginnacer_verify.engines.refinement import loop as cegar
from ginnacer_verify.engines.verdict import Undecided, Violated
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError, UnsupportedProperty
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.properties.vnnlib import parse_vnnlib, read_vnnlib
from ginnacer_verify.replay.judge import Counterexample, Judge, Spurious

SETS = Path(__file__).resolve().parent.parent / "vnnlib"
SLOW = {"digits_48x4.onnx"}
"""The loop takes longer on these than a test should."""


def listed(*names: str) -> list[tuple[str, str, str, str]]:
    found = []
    for name in names:
        with (SETS / name / "expected.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        found += [(name, row["onnx"], row["vnnlib"], row["expected"]) for row in rows if row["onnx"] not in SLOW]
    return found


@pytest.mark.parametrize("engine", ["boxes", "phases", "cegar"])
def test_a_box_without_ends_is_refused(engine: str) -> None:
    network = Network.from_arrays(([[1.0]], [0.0]), ([[1.0]], [0.0]))
    with pytest.raises(UnsupportedProperty, match="finite bounds"):
        verify(network, one_disjunct(box_of([-np.inf], [np.inf]), [[1.0]], [-1.0]), engine=engine)


@pytest.mark.parametrize(("folder", "onnx", "vnnlib", "expected"), listed("pade", "advisory", "digits"))
def test_verdicts_on_our_own_instances(folder: str, onnx: str, vnnlib: str, expected: str) -> None:
    network, prop = load_chain(SETS / folder / onnx), read_vnnlib(SETS / folder / vnnlib)
    verdict = verify(network, prop, timeout=120)
    assert verdict.word == expected
    if isinstance(verdict, Violated):
        assert isinstance(Judge(network, prop)(verdict.counterexample.x), Counterexample)


@pytest.mark.parametrize(("folder", "onnx", "vnnlib", "expected"), listed("pade", "advisory"))
def test_without_the_falsifier_nothing_unsafe_is_proved(folder: str, onnx: str, vnnlib: str, expected: str) -> None:
    if expected == "sat":
        network, prop = load_chain(SETS / folder / onnx), read_vnnlib(SETS / folder / vnnlib)
        assert verify(network, prop, timeout=20, restarts=0).word != "unsat"


@pytest.mark.parametrize("engine", ["auto", "native", "phases", "cegar"])
@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.name)
def test_every_engine_decides_the_cases_by_hand(engine: str, case: Case) -> None:
    constrained = any(len(disjunct.inputs) for disjunct in case.prop.disjuncts)
    if engine in {"native", "phases"} and constrained:
        with pytest.raises(InputError, match="cegar"):
            verify(case.network, case.prop, engine=engine)
    else:
        assert verify(case.network, case.prop, engine=engine).word == case.expected


def network_with(inputs: int) -> Network:
    return Network.from_arrays((np.eye(inputs), np.zeros(inputs)), (np.ones((1, inputs)), [0.0]))


@pytest.mark.parametrize(
    ("inputs", "engine"), [(1, "boxes"), (12, "boxes"), (13, "cegar"), (24, "cegar"), (25, "shallow")]
)
def test_the_rule_goes_by_varying_inputs_and_relus(inputs: int, engine: str) -> None:
    prop = one_disjunct(box_of(np.zeros(inputs), np.ones(inputs)), [[1.0]], [-1.0])
    choice = choose(network_with(inputs), prop)
    assert choice.engine == engine
    assert str(inputs) in choice.rule
    statistics = verify(network_with(inputs), prop).statistics
    assert statistics.rule == choice.rule


def test_fixed_inputs_do_not_count() -> None:
    upper = np.zeros(64)
    upper[:3] = 1.0
    assert choose(network_with(64), one_disjunct(box_of(np.zeros(64), upper), [[1.0]], [-1.0])).engine == "boxes"


def test_input_constraints_are_for_the_loop() -> None:
    box = box_of(np.zeros(2), np.ones(2))
    constrained = Property.of(Disjunct(box, Polytope.of([[1.0, 1.0]], [1.0]), Polytope.of([[1.0]], [-1.0])))
    assert choose(network_with(2), constrained).engine == "cegar"


def test_large_networks_stay_graphs() -> None:
    hidden = csr_array((np.ones(4000), (np.arange(4000), np.arange(4000))))
    network = Network((Layer(hidden, np.zeros(4000)),) * 2 + (Layer(np.ones((1, 4000)), np.zeros(1)),))
    prop = one_disjunct(box_of(np.zeros(4000), np.ones(4000)), [[1.0]], [-1.0])
    assert choose(network, prop).engine == "regions"
    assert choose(network, prop, "native").engine == "phases"


def test_the_loop_finishes_what_phases_leave_open() -> None:
    """A conjunction whose rows are reached one by one but never together: no row's tree proves it."""
    network = Network.from_arrays((np.vstack([np.eye(30), -np.eye(30)]), np.zeros(60)), (np.ones((1, 60)), [0.0]))
    box = box_of(-np.ones(30), np.ones(30))
    prop = one_disjunct(box, [[1.0], [-1.0]], [1.0, -1.5])
    verdict = verify(network, prop, engine="phases", timeout=60)
    assert verdict.word == "unsat"
    assert verdict.statistics.engine == "phases, highs"


def test_unknown_engines_are_refused() -> None:
    with pytest.raises(InputError, match="none of auto, native, boxes, phases, shallow, regions, cegar"):
        verify(network_with(2), one_disjunct(box_of([0, 0], [1, 1]), [[1.0]], [-1.0]), engine="magic")


IDENTITY = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, -1.0]], [0.0]))


def stated(*conditions: str) -> Property:
    """A property over one input and one output, as a text states it."""
    asserted = "".join(f"(assert {condition})" for condition in conditions)
    return parse_vnnlib(f"(declare-const X_0 Real)(declare-const Y_0 Real){asserted}")


@pytest.mark.parametrize("engine", ["auto", "boxes", "phases", "cegar"])
def test_a_box_with_real_numbers_is_not_empty(engine: str) -> None:
    """No float64 lies in the box, but real numbers do."""
    box = "(>= X_0 0.3)", "(<= X_0 0.30000000000000001)"
    assert verify(IDENTITY, stated(*box, "(>= Y_0 0.2)"), engine=engine, timeout=120).word == "unknown"
    assert verify(IDENTITY, stated(*box, "(>= Y_0 0.5)"), engine=engine, timeout=120).word == "unsat"


@pytest.mark.parametrize("restarts", [0, 24])
@pytest.mark.parametrize("engine", ["auto", "boxes", "phases", "cegar"])
@pytest.mark.parametrize(
    ("box", "witness"),
    [
        (("(>= X_0 1e-46)", "(<= X_0 2e-46)"), 1e-46),
        (("(> X_0 0.1)", "(< X_0 0.100000000001)"), 0.1000000000005),
        (("(>= X_0 0.3)", "(<= X_0 0.30000000000000001)"), 0.3),
    ],
)
def test_a_box_without_a_number_of_the_type(box: tuple[str, str], witness: float, engine: str, restarts: int) -> None:
    """It is safe if that is proved for all real inputs, but nothing in it is a counterexample."""
    reached, missed = stated(*box, "(>= Y_0 0)"), stated(*box, "(>= Y_0 0.5)")
    verdict = verify(IDENTITY, reached, engine=engine, timeout=120, restarts=restarts)
    assert isinstance(verdict, Undecided)
    assert (verdict.word, verdict.reason) == ("unknown", "the box holds no float32")
    assert verify(IDENTITY, missed, engine=engine, timeout=120, restarts=restarts).word == "unsat"
    judgement = Judge(IDENTITY, reached)([witness])
    assert isinstance(judgement, Spurious)
    assert judgement.reason == "the box holds no float32"


def test_other_disjuncts_keep_their_counterexamples() -> None:
    lacking, whole = "(and (>= X_0 1e-46) (<= X_0 2e-46) (>= Y_0 0))", "(and (>= X_0 1) (<= X_0 2) (>= Y_0 1.5))"
    assert verify(IDENTITY, stated(f"(or {lacking} {whole})"), timeout=120).word == "sat"


@pytest.mark.parametrize("restarts", [0, 24])
@pytest.mark.parametrize("engine", ["auto", "boxes", "phases", "cegar"])
def test_boxes_up_to_the_end_of_float64(engine: str, restarts: int) -> None:
    box = "(>= X_0 -1e308)", "(<= X_0 1e308)"
    word = verify(IDENTITY, stated(*box, "(>= Y_0 0.5)"), engine=engine, timeout=30, restarts=restarts).word
    assert word == "sat" if restarts else word != "unsat"
    word = verify(IDENTITY, stated(*box, "(>= Y_0 1.5e308)"), engine=engine, timeout=5, restarts=restarts).word
    assert word != "sat"


@pytest.mark.parametrize("engine", ["auto", "boxes", "phases", "cegar"])
def test_constants_that_float64_cannot_hold(engine: str) -> None:
    half = "(>= X_0 0)", "(<= X_0 0.5)"
    above = verify(IDENTITY, stated(*half, "(>= Y_0 0.50000000000000000001)"), engine=engine, timeout=120)
    assert above.word != "sat"
    assert verify(IDENTITY, stated(*half, "(>= Y_0 0.49999999999999999999)"), engine=engine, timeout=120).word == "sat"
    scaled = stated(*half, "(<= (* -0.1 Y_0) -0.05)")  # reached at 0.5 alone
    assert verify(IDENTITY, scaled, engine=engine, timeout=120).word != "unsat"


def test_boxes_and_the_loop_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """With turns of no time at all everything is handed over and comes back; with all of it nothing is."""
    for share, seeds in ((0.0, range(60)), (1.0, range(20))):
        monkeypatch.setattr("ginnacer_verify.engines.search.TURN", share)
        for seed in seeds:
            case = random_case(seed)
            assert verify(case.network, case.prop, engine="boxes", restarts=0).word == case.expected, f"seed {seed}"


def test_what_boxes_leave_open_is_decided_by_the_loop() -> None:
    """Boxes that have had no time at all hand over everything, and exact programs decide it."""
    undecided = 0
    for seed in range(60):
        case = random_case(seed, distances=(1e-3,))
        run = NativeRun(Judge(case.network, case.prop), Budget(Deadline.after(0.0), restarts=0))
        assert isinstance(run.run(), str)
        left = list(run.remaining)
        assert [part.disjuncts for part in left] == [(0,)]
        verdict = cegar.verify(case.network, case.prop, refine="bisect", restarts=0, remaining=left, timeout=20)
        undecided += verdict.word not in {"sat", "unsat"}
        assert verdict.word in {case.expected, "unknown"}, f"seed {seed}"
    assert undecided <= 3


def test_open_boxes_hold_every_unsafe_input() -> None:
    """Wherever halving is stopped, what is left covers all inputs that were seen to be unsafe, disjunct by disjunct."""
    for seed in range(40):
        random, case = np.random.default_rng(seed), random_case(seed)
        box, row = case.prop.disjuncts[0].box, random.normal(size=(1, case.network.outputs))
        points = box.sample(random, 400)
        values = case.network(points) @ row.T
        offsets = [float(np.quantile(values, share)) for share in (0.3, 0.6)]
        disjuncts = [one_disjunct(box, row, [offset]).disjuncts[0] for offset in offsets]
        run = NativeRun(Judge(case.network, Property.of(*disjuncts)), Budget(Deadline.after(60.0), restarts=0))
        with ThreadPoolExecutor(1) as pool:
            for new in run._new:
                run.searches.append(new)
            for search in run.searches:
                for _ in range(4):
                    if not search.done:
                        search.step(pool)
        left = list(run.remaining)
        for number, offset in enumerate(offsets):
            for x in points[values[:, 0] < offset]:
                assert any(x in part.box and number in part.disjuncts for part in left), f"seed {seed}"
