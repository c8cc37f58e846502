"""The native engine: its bounds by sampling, its cuts by what they keep, its verdicts by exhaustive enumeration."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import BY_HAND, Case, box_of, one_disjunct, random_case, random_network
from deciding import as_by_enumeration, word_of

from benchmarks import benchmark
from ginnacer_verify.arrays import Array
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes import run as engine
from ginnacer_verify.engines.boxes.problem import Folding, Problem, problem
from ginnacer_verify.engines.boxes.run import NativeRun
from ginnacer_verify.engines.boxes.search import Boxes, Memory, Search, _times, record_of
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.native import OPEN, PROVED, Record, call
from ginnacer_verify.properties.property import Disjunct, Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.replay.judge import Judge


def native(network: Network, prop: Property, *, threads: int = 1, falsify: bool = False, timeout: float = 60) -> str:
    """The engine's word for an instance."""
    return word_of(
        NativeRun(Judge(network, prop), Budget(Deadline.after(timeout), threads=threads, restarts=24 * falsify))
    )


def worst_row(task: Problem, x: Array) -> float:
    return float(call("worst_row", task.net, 0, np.ascontiguousarray(x), Memory().of(task.net)[0]))


def small_instance(seed: int) -> tuple[Network, Problem, Disjunct]:
    """A random network with several rows to be kept above 0, on a box with one fixed input."""
    random = np.random.default_rng(seed)
    network = random_network(random, (4, 7, 6, 5, 3))
    middle, radius = random.normal(size=4), random.uniform(0.01, 1.5, size=4)
    radius[random.integers(4)] = 0.0
    prop = one_disjunct(
        box_of(middle - radius, middle + radius), random.normal(size=(3, 3)), random.normal(scale=3, size=3)
    )
    return network, problem(network, prop.disjuncts[0]), prop.disjuncts[0]


def bounded(task: Problem, steps: int = 4, memory: Memory | None = None) -> Record:
    """The root of each disjunct, bounded."""
    owner = np.arange(len(task.disjuncts))
    arrays = (task.low, task.high, -task.largest, task.largest)
    record = record_of(Boxes(owner, *(values.copy() for values in arrays)))
    net = type(task.net)(**{**task.net.values, "steps": steps})
    call("bound_boxes", net, record, 0, len(owner), (memory or Memory()).of(net)[0])
    return record


def samples(task: Problem, count: int = 300) -> Array:
    random = np.random.default_rng(99)
    points = task.low + random.random((count, len(task.low))) * (task.high - task.low)
    corners = np.where(random.random(points.shape) < 0.5, task.low, task.high)
    return np.concatenate([points, corners])


@pytest.mark.parametrize("level", [1, 3, 4])
@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold_and_cuts_lose_nothing_unsafe(seed: int, level: int) -> None:
    """For every kind of processor that this one can play."""
    network, task, _ = small_instance(seed)
    call("choose", level)
    found = bounded(task).values
    call("choose", 4)
    for x in samples(task):
        *hidden, _ = network.pre_activations(task.whole(x))
        values = np.concatenate(hidden)
        assert (values >= found["lower"][0]).all()
        assert (values <= found["upper"][0]).all()
        if worst_row(task, x) <= 0:
            assert found["states"][0] == OPEN
            assert (x >= found["low"][0]).all()
            assert (x <= found["high"][0]).all()


def test_both_states_occur_in_that_test() -> None:
    states = [int(bounded(small_instance(seed)[1]).values["states"][0]) for seed in range(60)]
    assert 5 < states.count(PROVED) < 55


@pytest.mark.parametrize("seed", range(10))
def test_the_worst_row_is_that_of_the_property(seed: int) -> None:
    network, task, disjunct = small_instance(seed)
    for x in samples(task, 5):
        rows = disjunct.outputs.matrix @ network(task.whole(x)) - disjunct.outputs.offset
        assert worst_row(task, x) == pytest.approx(rows.max())


@pytest.mark.parametrize("seed", range(20))
def test_more_steps_never_loosen_a_bound(seed: int) -> None:
    """The best of all steps is kept: with more of them the root's largest bound can only grow."""
    _, task, _ = small_instance(seed)
    found = [bounded(task, steps).values["bounds"][0] for steps in (0, 2, 8)]
    if found[0] <= task.errors[0, -1]:
        assert found[1] >= found[0]


@pytest.mark.parametrize("seed", range(20))
def test_disjuncts_that_share_a_batch_are_bounded_as_they_are_alone(seed: int) -> None:
    """With boxes, fixed inputs, coefficients and offsets of their own or shared."""
    random = np.random.default_rng(seed)
    network = random_network(random, (4, 7, 6, 3) if seed % 4 else (4, 3))
    lower = random.normal(size=(3, 4)) * [1, 1, 0.1, 1]
    boxes = [box_of(low, low + np.array([0.5, 0.0, 0.7, 0.2])) for low in lower]
    matrices, offsets = random.normal(size=(2, 2, 3)), random.normal(scale=3, size=(6, 2))
    disjuncts = [one_disjunct(boxes[i // 2], matrices[i % 2], offsets[i]).disjuncts[0] for i in range(6)]
    together = problem(network, *disjuncts)
    found = bounded(together).values
    for number, disjunct in enumerate(disjuncts):
        alone = problem(network, disjunct)
        np.testing.assert_allclose(alone.errors[0], together.errors[number], rtol=1e-9)
        for name, values in bounded(alone).values.items():
            if name != "owner":
                np.testing.assert_allclose(found[name][number], values[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("block", range(10))
def test_verdicts_are_those_of_exhaustive_enumeration(block: int) -> None:
    """200 random tiny networks a block, the falsifier off: none wrong, none undecided unless it is a hair's breadth."""
    as_by_enumeration(native, range(block * 200, block * 200 + 200), most_undecided=0)


def test_non_finite_numbers_prove_nothing() -> None:
    network = Network.from_arrays((np.full((3, 2), 1e200), np.zeros(3)), (np.full((1, 3), 1e200), np.zeros(1)))
    prop = one_disjunct(box_of([-1e3, -1e3], [1e3, 1e3]), [[1.0]], [-1.0])
    with np.errstate(over="ignore", invalid="ignore"):
        assert bounded(problem(network, prop.disjuncts[0])).values["states"][0] == OPEN


def test_hopeless_boxes_are_halved_several_times_and_nothing_is_lost() -> None:
    """Each box as often as its bound misses, into parts that lie side by side and make up all of it."""
    _, task, _ = small_instance(3)
    search, inputs = Search(task, Memory()), task.low.shape[1]
    boxes, times = search.frontier.take(1).part(np.zeros(4, dtype=np.intp)), np.array([1, 3, 2, 5])
    whole = np.prod(boxes.high - boxes.low, axis=1)
    search._halve(boxes, np.array([[1.0] + [1e-3] * (inputs - 1)] * 4), times)
    found, owners = search.frontier.take(1000), np.repeat(np.arange(4), 2**times)
    volume = np.prod(found.high - found.low, axis=1)
    assert np.allclose(np.bincount(owners, volume), whole)
    for i in range(4):
        low, high = found.low[owners == i], found.high[owners == i]
        middles, inside = (low + high) / 2, 0
        for point in middles:
            inside += int(((point >= low) & (point <= high)).all(axis=1).sum())
        assert inside == len(middles)
    bounds, slacks = np.array([-5.0, -7.0, -40.0, -np.inf, np.nan, -9.0]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    assert _times(bounds, slacks).tolist() == [1, 2, 3, 5, 1, 1]
    assert _times(np.full(400, -1e9), np.ones(400)).tolist() == [1] * 400  # there is room for few more boxes


def test_halves_are_cut_where_there_is_a_number_in_between() -> None:
    """The widest input may be the one that is only two numbers wide."""
    low, high = np.array([[1e30, 0.0]]), np.array([[np.nextafter(1e30, np.inf), 1.0]])
    none = np.zeros((1, 0))
    halves = Boxes(np.array([7]), low, high, none, none).halved(np.array([0]), np.array([0]))
    assert halves.low.tolist() == [[1e30, 0.0], [1e30, 0.5]]
    assert halves.high.tolist() == [[high[0, 0], 0.5], [high[0, 0], 1.0]]
    assert halves.owner.tolist() == [7, 7]


def test_boxes_without_time_stay_open() -> None:
    search = Search(small_instance(0)[1], Memory())
    with ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            search.step(pool, Deadline.after(0))
    assert len(search.frontier) == 8


def test_a_disjunct_without_rows_is_unsafe_everywhere() -> None:
    network = Network.from_arrays(([[1.0]], [0.0]), ([[1.0]], [0.0]))
    assert native(network, one_disjunct(box_of([0.0], [1.0]), np.zeros((0, 1)), [])) == "sat"


def test_nothing_is_left_over_from_the_box_before() -> None:
    """Bounds that are no numbers must not cut a box by the planes of an earlier one in the same memory."""
    ordinary = Network.from_arrays(([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0]), ([[1.0, 1.0], [-1.0, 1.0]], [0.0, 0.5]))
    huge = Network.from_arrays((np.full((2, 2), 1e160), [0.0, 0.0]), (np.full((2, 2), 1e160), [0.0, 0.0]))
    box = box_of([-1.0, -1.0], [1.0, 1.0])
    with np.errstate(over="ignore", invalid="ignore"):
        first, second = (problem(n, one_disjunct(box, np.eye(2), [0.25, 0.25]).disjuncts[0]) for n in (ordinary, huge))
    memory = Memory()
    bounded(first, memory=memory)
    found = bounded(second, memory=memory).values
    assert found["states"][0] == OPEN
    assert found["low"].tolist() == [[-1.0, -1.0]]
    assert found["high"].tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.name)
def test_cases_by_hand(case: Case) -> None:
    """Input constraints are not the engine's business: it may leave such a case open, but never decide it wrongly."""
    word = native(case.network, case.prop)
    constrained = any(len(disjunct.inputs) for disjunct in case.prop.disjuncts)
    assert word == case.expected or (constrained and word not in {"sat", "unsat"})


def test_all_disjuncts_count() -> None:
    """The unsafe disjunct may be any of several, and a proof needs all of them."""
    network = Network.from_arrays(([[1.0, 0.5], [-1.0, 0.25]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    box = box_of([-1, -1], [1, 1])
    safe = [one_disjunct(box, [[-1.0]], [-offset]).disjuncts[0] for offset in (2.5, 3.0, 3.5)]
    unsafe = one_disjunct(box, [[-1.0]], [-1.0]).disjuncts[0]
    assert native(network, Property.of(*safe)) == "unsat"
    for place in range(4):
        assert native(network, Property.of(*safe[:place], unsafe, *safe[place:])) == "sat"


@pytest.mark.parametrize("few", [0, 2, 16])
def test_disjuncts_in_batches_of_their_own_or_shared(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FEW", few or 1)
    for seed in range(200):
        case = random_case(seed)
        assert native(case.network, case.prop) == case.expected, f"seed {seed}"


def test_problems_are_made_when_they_are_asked_for() -> None:
    """Neighbours with other varying inputs, or another number of rows, do not share one."""
    network = Network.from_arrays((np.eye(2), [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    wide, narrow = box_of([0.0, 0.0], [1.0, 1.0]), box_of([0.0, 0.5], [1.0, 0.5])
    boxes = [wide, wide, wide, narrow, narrow, wide]
    disjuncts = [one_disjunct(box, [[1.0]], [-1.0]).disjuncts[0] for box in boxes]
    asked = iter(disjuncts)
    problems = Folding(network).problems(asked, 2)
    assert len(next(problems).disjuncts) == 2
    assert len(list(asked)) == 4
    assert [len(task.disjuncts) for task in Folding(network).problems(disjuncts, 2)] == [2, 1, 2, 1]


def test_very_many_disjuncts_meet_the_deadline_with_little_memory() -> None:
    network = random_network(np.random.default_rng(0), (5, 300, 300, 5))
    box = box_of([-1.0] * 5, [1.0] * 5)
    disjunct = one_disjunct(box, np.eye(5), np.zeros(5)).disjuncts[0]
    run = NativeRun(
        Judge(network, Property.of(*[disjunct] * 20000)), Budget(Deadline.after(0.5), threads=1, restarts=0)
    )
    started = time.monotonic()
    assert isinstance(run.run(), str)
    assert time.monotonic() - started < 5
    assert run.progress().open_disjuncts > 10000


def test_progress_counts_the_most_unstable_box() -> None:
    network, _, disjunct = small_instance(3)
    search = Search(problem(network, disjunct), Memory())
    roots = bounded(search.problem).values["unstable"]
    with ThreadPoolExecutor(1) as pool:
        search.step(pool)
    assert search.unstable == roots.max()


def test_threads_do_not_change_the_verdict_or_the_boxes() -> None:
    network = load_chain(benchmark("acasxu", "ACASXU_run2a_1_1_batch_2000.onnx"))
    prop = read_vnnlib(benchmark("acasxu", "prop_4.vnnlib"))
    counts = []
    for threads in (1, 2):
        run = NativeRun(Judge(network, prop), Budget(Deadline.after(60), threads=threads))
        assert run.run() is None
        counts.append(run.progress().boxes)
    assert counts[0] == counts[1] > 1


def test_an_expired_deadline_is_a_reason() -> None:
    case = random_case(0)
    assert "time limit reached" in native(case.network, case.prop, timeout=0)


@pytest.mark.parametrize(
    ("network", "prop", "expected"),
    [("1_1", 3, "unsat"), ("3_3", 4, "unsat"), ("2_2", 2, "sat"), ("1_7", 3, "sat"), ("1_9", 2, "unsat")],
)
def test_acas_samples(network: str, prop: int, expected: str) -> None:
    file = benchmark("acasxu", f"ACASXU_run2a_{network}_batch_2000.onnx")
    assert native(load_chain(file), read_vnnlib(benchmark("acasxu", f"prop_{prop}.vnnlib")), threads=2) == expected
