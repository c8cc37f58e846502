"""The paper's abstraction in the loop: sound at every stage, exact at its end, and shared until it is split."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import BY_HAND, Case, random_case, random_network
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import batch_around, exact, networks, points
from test_emit_abstraction import in_rationals

from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.abstraction.fold import rows_below
from ginnacer_verify.abstraction.inputs import Mode
from ginnacer_verify.abstraction.npz import load_abstraction, save
from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.adapters.highs import HighsBackend
from ginnacer_verify.arrays import Array
from ginnacer_verify.bench.tool_backend import ToolBackend
from ginnacer_verify.bench.tools import marabou
from ginnacer_verify.box import Box
from ginnacer_verify.cli import main
from ginnacer_verify.emit.abstraction import abstraction_graph, abstraction_model
from ginnacer_verify.engines.progress import read_trace
from ginnacer_verify.engines.refinement.abstracted import Options, Situation
from ginnacer_verify.engines.refinement.loop import verify
from ginnacer_verify.engines.refinement.paper import REFINEMENTS, Paper
from ginnacer_verify.errors import AbstractionError, InputError
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.loading import load, load_chain
from ginnacer_verify.properties.property import Disjunct, Polytope
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.query.backend import get_backend
from ginnacer_verify.query.query import Answer, Query

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


@dataclass
class Counting:
    """HiGHS, and how many neurons share each ReLU of what it was asked."""

    name: str = "counting"
    requires: tuple[str, ...] = ()
    install: str = "nothing"
    complete: bool = True
    solver: HighsBackend = field(default_factory=HighsBackend)
    shared: list[list[tuple[int, ...]]] = field(default_factory=list)

    def solve(self, query: Query, *, timeout: float) -> Answer:
        self.shared.append([neurons for _, neurons in query.serving if len(neurons) > 1])
        return self.solver.solve(query, timeout=timeout)


@st.composite
def refined(draw: st.DrawFn) -> Abstraction:
    """An abstraction with some subsets split and some neurons concrete, perhaps all of a layer."""
    network = draw(networks())
    centroid = draw(points(network.inputs))
    found = abstract(
        network,
        centroid,
        inputs=draw(st.sampled_from(["pre-layer", "centred", "shift", "nearest"])),
        box=Box(centroid - np.resize([1.5, 0.75], len(centroid)), centroid + 1.0),
        clip=draw(st.booleans()),
    )
    for number, partition in found.partitions.items():
        share = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
        random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        concrete = set(np.flatnonzero(random.random(partition.neurons) < share).tolist())
        rest = [tuple(i for i in subset if i not in concrete) for subset in partition.subsets]
        finer = Partition((*(subset for subset in rest if subset), *((i,) for i in concrete)))
        found = found.with_partition(number, finer, concrete)
    return found


@settings(max_examples=80)
@given(refined(), st.integers(0, 2**32 - 1), st.sampled_from([FLOAT32, FLOAT64]))
def test_concrete_neurons_are_sound(abstraction: Abstraction, seed: int, dtype: np.dtype[Any]) -> None:
    """Evaluated and emitted, in rationals without tolerance; at the centroid both bounds are the network."""
    model, outputs = abstraction_model(abstraction, dtype), abstraction.network.outputs
    batch = abstraction.domain.clip(batch_around(abstraction.centroid, seed, 5))
    lower, upper = abstraction(batch)
    for x, low, high in zip(batch, lower, upper, strict=True):
        true, bounds = exact(abstraction.network, x), in_rationals(model, x)
        if (x == abstraction.centroid).all():
            np.testing.assert_array_equal([low, high], [abstraction.network(x)] * 2)
        else:
            assert all(Fraction(float(a)) <= y <= Fraction(float(b)) for a, y, b in zip(low, true, high, strict=True))
        assert all(a <= y <= b for a, y, b in zip(bounds[:outputs], true, bounds[outputs:], strict=True))


@settings(max_examples=30)
@given(abstraction=refined(), seed=st.integers(0, 2**32 - 1))
def test_concrete_neurons_are_saved(
    tmp_path_factory: pytest.TempPathFactory, abstraction: Abstraction, seed: int
) -> None:
    path = tmp_path_factory.mktemp("npz") / "abstract.npz"
    save(abstraction, path)
    again = load_abstraction(path)
    assert (again.partitions, again.concrete) == (abstraction.partitions, abstraction.concrete)
    assert again.relus_per_layer == abstraction.relus_per_layer
    batch = abstraction.domain.clip(batch_around(abstraction.centroid, seed))
    for saved, loaded in zip(abstraction(batch), again(batch), strict=True):
        np.testing.assert_array_equal(saved, loaded)


@settings(max_examples=30)
@given(abstraction=refined())
def test_reading_back_gives_as_many_relus(tmp_path_factory: pytest.TempPathFactory, abstraction: Abstraction) -> None:
    """Skips are skips: what was emitted is what is read. The graph has what the abstraction says it has."""
    path = tmp_path_factory.mktemp("onnx") / "abstract.onnx"
    path.write_bytes(abstraction_model(abstraction, FLOAT64))
    emitted = abstraction_graph(abstraction, FLOAT64)
    own = sum(len(served) for node, served in emitted.served.items() if served[0][0] >= 0)
    assert load(path).relus == emitted.graph.relus == sum(len(served) for served in emitted.served.values())
    assert own == sum(abstraction.relus_per_layer) + sum(abstraction.clips_per_layer)


def test_only_singletons_can_be_concrete() -> None:
    abstraction = abstract(random_network(np.random.default_rng(1), (2, 4, 1)), [0.5, 0.5])
    with pytest.raises(AbstractionError, match="split it off"):
        abstraction.with_partition(1, Partition(((0, 1), (2,), (3,))), [0])


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_rows_below(seed: int) -> None:
    """In rationals, for outputs of ReLUs of any size."""
    random = np.random.default_rng(seed)
    last = Layer(random.normal(size=(4, 5)) * 10.0 ** random.integers(-9, 9, (4, 5)), random.normal(size=4))
    outputs = Polytope.of(np.round(random.normal(size=(3, 4)), 2), random.normal(size=3))
    rows = rows_below(last, outputs)
    network, below = Network((Layer(np.eye(5), np.zeros(5)), last)), Network((Layer(np.eye(5), np.zeros(5)), rows))
    for x in np.abs(random.normal(size=(5, 5))) * 10.0 ** random.integers(-6, 6, (5, 1)):
        true = outputs.slacks(np.zeros(4))
        y = exact(network, x)
        for k, value in enumerate(exact(below, x)):
            row = sum(Fraction(float(w)) * v for w, v in zip(outputs.matrix[k], y, strict=True)) - true[k]
            assert value <= row


def started(case: Case, **options: Any) -> list[Paper]:
    found = []
    for disjunct in case.prop.disjuncts:
        if not disjunct.box.is_empty:
            mode: Mode = "nonnegative" if (disjunct.box.lower >= 0).all() else "pre-layer"
            abstraction = abstract(case.network, disjunct.box.middle, inputs=mode, **options)
            found.append(Paper.of(abstraction, disjunct, disjunct.box))
    return found


def lowest(query: Query, x: Array) -> Array:
    """The unsafe rows of the query at the run of its own ReLUs from an input."""
    base = query.base
    z = np.concatenate([x[base.varying], np.zeros(len(base.relus))])
    for i in range(len(base.relus)):
        z[base.free + i] = max(0.0, float(base.relus.weight[i] @ z) + base.relus.bias[i])
    return np.asarray(base.unsafe.matrix @ z - base.unsafe.offset)


@pytest.mark.parametrize("name", [name for name in REFINEMENTS if name != "bisect"])
@pytest.mark.parametrize("clip", [False, True])
def test_every_stage_contains_the_network_and_the_last_one_is_it(name: str, clip: bool) -> None:
    for seed in (0, 1, 5):
        case = random_case(seed)
        random = np.random.default_rng(seed)
        for now in started(case, clip=clip):
            rows = disjunct_of(case, now).outputs
            for _ in range(60):
                points = now.box.sample(random, 10)
                for x in points:
                    assert (lowest(now.query, x) <= rows.matrix @ case.network(x) - rows.offset + 1e-6).all()
                z = np.concatenate([points[0][now.query.base.varying], np.zeros(len(now.query.base.relus))])
                finer = REFINEMENTS[name](Situation(now, z, 3, random))
                assert isinstance(finer, Paper)
                if finer is now:
                    break
                now = finer
            assert all(not here.shared for here in now.sharing)
            assert len(now.query.kept) <= case.network.relus
            for x in now.box.sample(random, 10):
                np.testing.assert_allclose(
                    lowest(now.query, x), rows.matrix @ case.network(x) - rows.offset, atol=1e-6 * 100
                )


def disjunct_of(case: Case, now: Paper) -> Disjunct:
    return next(each for each in case.prop.disjuncts if each.box is now.box)


def test_a_counting_backend_sees_shared_relus_until_they_are_split() -> None:
    """On a network whose ReLUs all change sign on the box, as many as the partition has."""
    network = load_chain("vnnlib/advisory/advisory_15x3.onnx")
    prop = read_vnnlib("vnnlib/advisory/prop_03.vnnlib")
    backend, rounds = Counting(), list[Any]()
    verdict = verify(network, prop, abstraction="paper", backend=backend, restarts=0, observe=rounds.append)
    assert verdict.word == "unsat"
    assert len(backend.shared) == verdict.statistics.rounds > 2
    assert len(backend.shared[0]) > 1
    sizes = [sum(map(len, shared)) for shared in backend.shared]
    assert sizes == sorted(sizes, reverse=True), "what is split is never merged again"


@pytest.mark.parametrize("kind", ["highs", "milp", "marabou", "program"])
def test_every_kind_of_solver_proves_with_shared_relus(kind: str) -> None:
    """In this process, in children, and through files that Marabou's own program reads; subsets split on the way."""
    if kind in {"marabou", "program"}:
        pytest.importorskip("maraboupy")
    network = load_chain("vnnlib/advisory/advisory_15x3.onnx")
    prop = read_vnnlib("vnnlib/advisory/prop_03.vnnlib")
    backend, rounds = ToolBackend(marabou()) if kind == "program" else get_backend(kind), list[Any]()
    verdict = verify(
        network, prop, abstraction="paper", backend=backend, restarts=0, timeout=120, observe=rounds.append
    )
    assert verdict.word == "unsat"
    assert [moment.answer for moment in rounds] == ["sat"] * (len(rounds) - 1) + ["unsat"]
    assert any(len(one.neurons) > 1 for moment in rounds for one in moment.split)
    assert any(len(subset) > 1 for layer in rounds[-1].sharing for subset in layer.shared), "some share to the end"


@pytest.mark.parametrize("name", REFINEMENTS)
@pytest.mark.parametrize("first", range(0, 40, 20))
def test_decided_as_by_enumeration(name: str, first: int) -> None:
    """Halving boxes takes as many as the distance to the unsafe set asks for, so it is not asked for the smallest."""
    distances = (0.05, 0.25) if name == "bisect" else (1e-3, 1e-2, 0.25)
    for case in [
        *(BY_HAND if first == 0 else ()),
        *(random_case(seed, distances) for seed in range(first, first + 20)),
    ]:
        verdict = verify(
            case.network, case.prop, abstraction="paper", refine=name, restarts=0, per_round=2, timeout=120
        )
        assert verdict.word == case.expected, case.name


@pytest.mark.parametrize("inputs", ["pre-layer", "centred", "shift", "nearest"])
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("strategy", ["first-fit", "best-fit", "singletons"])
def test_every_way_to_begin(inputs: Any, clip: bool, strategy: str) -> None:
    options = Options(inputs=inputs, clip=clip, strategy=strategy)
    for case in map(random_case, range(4)):
        verdict = verify(case.network, case.prop, abstraction="paper", options=options, restarts=0, timeout=120)
        assert verdict.word == case.expected, case.name
    for case in map(random_case, (0, 5)):  # three layers
        verdict = verify(
            case.network, case.prop, abstraction="paper", options=replace(options, layers=[2]), restarts=0, timeout=120
        )
        assert verdict.word == case.expected, case.name


def test_a_trace_shows_subsets_that_split(tmp_path: Path) -> None:
    """Round by round: who shares with whom, what the witness exploited, and what was split because of that."""
    trace, words = tmp_path / "t.jsonl", ["--abstraction", "paper", "--no-attack", "--quiet"]
    files = ["vnnlib/advisory/advisory_15x3.onnx", "vnnlib/advisory/prop_03.vnnlib"]
    assert main(["verify", *files, *words, "--trace", str(trace)]) == 0
    rounds = read_trace(trace)
    assert [record["answer"] for record in rounds] == ["sat"] * (len(rounds) - 1) + ["unsat"]
    for before, after in pairwise(rounds):
        assert before["refine"] == "split"
        assert before["split"]
        assert before["exploited"][0]["amount"] > 0
        for layer, (old, new) in enumerate(zip(before["sharing"], after["sharing"], strict=True), start=1):
            cut = {tuple(one["neurons"]): one for one in before["split"] if one["layer"] == layer}
            for subset in map(tuple, old["shared"]):
                if subset in cut:
                    assert sorted(i for part in cut[subset]["into"] for i in part) == sorted(subset)
                    assert set(cut[subset]["exact"]) <= set(new["exact"])
                else:
                    assert list(subset) in new["shared"]
    assert main(["plot-trace", str(trace), "-o", str(tmp_path / "t.svg"), "--quiet"]) == 0


@pytest.mark.parametrize("abstraction", ["relational", "paper"])
def test_a_disjunct_starts_where_the_one_before_it_ended(abstraction: str) -> None:
    """The same disjunct twice: what was split for the first proves the second at once."""
    network = load_chain("vnnlib/advisory/advisory_15x3.onnx")
    prop = read_vnnlib("vnnlib/advisory/prop_03.vnnlib")
    twice, rounds = replace(prop, disjuncts=prop.disjuncts * 2), []
    for learn in (False, True):
        seen: list[Any] = []
        verdict = verify(
            network, twice, abstraction=abstraction, learn=learn, per_round=1, restarts=0, observe=seen.append
        )
        assert verdict.word == "unsat"
        rounds.append([moment.disjunct for moment in seen])
    first = rounds[0].count(rounds[0][0])
    assert first > 1
    assert (len(rounds[0]), len(rounds[1])) == (2 * first, first + 1)


def test_a_saved_abstraction_is_a_start() -> None:
    case, other = random_case(0), random_case(8)
    saved = abstract(case.network, case.prop.boxes[0].middle, inputs="pre-layer", strategy="singletons")
    verdict = verify(case.network, case.prop, abstraction="paper", options=Options(saved=saved), restarts=0)
    assert verdict.word == case.expected
    with pytest.raises(AbstractionError, match="another network"):
        verify(other.network, other.prop, abstraction="paper", options=Options(saved=saved), restarts=0)


def test_what_does_not_fit_is_refused() -> None:
    case = BY_HAND[0]
    with pytest.raises(InputError, match="relational, leaning, paper"):
        verify(case.network, case.prop, abstraction="papers")
    with pytest.raises(InputError, match="linear abstraction; choose one of bisect"):
        verify(case.network, case.prop, abstraction="linear", refine="split")
