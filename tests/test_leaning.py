"""Lazy sharing: neurons that lean on others, with remainders that hold, on random networks with near-copies."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import BY_HAND, Case, random_case
from hypothesis import given, settings
from hypothesis import strategies as st

from ginnacer_verify.abstraction.lean import leans_of, remainder
from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.adapters.highs import HighsBackend
from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.engines.parts import Bounded, Part
from ginnacer_verify.engines.refinement.abstracted import Options, Situation
from ginnacer_verify.engines.refinement.leaning import REFINEMENTS, Leaning
from ginnacer_verify.engines.refinement.loop import verify
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.query.query import Query


def widened(network: Network, noise: float, scales: Sequence[float] = (1.0, -2.0, 1 / 3)) -> Network:
    """Each hidden neuron several times, scaled and off by some noise, read with equal parts of its weights.

    The same network as before if there is no noise and no scale is negative."""
    random, layers = np.random.default_rng(0), list[Layer]()
    for number, layer in enumerate(network.layers):
        weight, bias = dense(layer.weight), layer.bias
        if number:
            weight = np.hstack([weight / (len(scales) * abs(scale)) for scale in scales])
        if number < len(network.layers) - 1:
            bias = np.concatenate([scale * bias for scale in scales])
            weight = np.vstack([scale * weight * (1 + noise * random.normal(size=weight.shape)) for scale in scales])
        layers.append(Layer(weight, bias))
    return Network(tuple(layers))


def copies(case: Case, noise: float) -> Case:
    """The property of another network: its truth is not known, but it has near-copies."""
    return replace(case, network=widened(case.network, noise))


def started(case: Case) -> list[Leaning]:
    found = []
    for number, disjunct in enumerate(case.prop.disjuncts):
        if not disjunct.box.is_empty:
            bounded = Bounded.of(case.network, case.prop, Part(disjunct.box, (number,)))
            found.append(Leaning(bounded, case.prop, number, bounded.leans))
    return found


def solution_at(relational: Relational, leaning: Leaning, x: Array) -> Array:
    """The z of a concrete run."""
    trace, relus = relational.trace(x), relational.base.relus
    ys = [layer(value) for layer, value in zip(relational.layers, trace, strict=True)]
    remainders = []
    for lean in leaning.leans:
        if not lean.negligible:
            own, pivot = ys[lean.layer][lean.neuron], lean.scale * ys[lean.layer][lean.pivot]
            remainders.append(max(own, 0.0) - max(pivot, 0.0) - lean.share * (own - pivot))
    after = [trace[layer + 1][neurons[0]] for layer, neurons in zip(relus.layer, relus.neurons, strict=True)]
    return np.concatenate([x[list(leaning.box.varying)], remainders, after])


@pytest.mark.parametrize("noise", [0.0, 1e-9, 0.01, 0.1])
def test_every_run_is_a_solution(noise: float) -> None:
    """At every stage of the refinement, but for the property; the rows are those of the network."""
    leaned = 0
    for case in (copies(random_case(seed), noise) for seed in range(12)):
        random = np.random.default_rng(1)
        for now in started(case):
            leaned += len(now.leans)
            rows = case.prop.disjuncts[now.number].outputs
            for _ in range(4):
                query = now.query
                free = replace(query.base, unsafe=replace(query.base.unsafe, offset=query.base.unsafe.offset + 1e6))
                for x in now.box.sample(random, 20):
                    z = solution_at(now.relational, now, x)
                    assert Query(free, query.kept).violation(z) <= 0
                    low = query.base.unsafe.matrix @ z - query.base.unsafe.offset
                    true = rows.matrix @ case.network(x) - rows.offset
                    assert (low <= true + 1e-9).all()
                    assert low == pytest.approx(true, abs=1e-2)
                z = solution_at(now.relational, now, now.box.sample(random, 1)[0])
                finer = REFINEMENTS["random"](Situation(now, z, 3, random))
                assert isinstance(finer, Leaning)
                now = finer
    assert leaned > 20


@settings(max_examples=300)
@given(*[st.floats(-4, 4) for _ in range(4)], st.floats(0, 2), st.floats(0, 2), st.integers(0, 2**32 - 1))
def test_remainder(a: float, b: float, c: float, d: float, below: float, above: float, seed: int) -> None:
    """It holds wherever y, v and their difference are inside of their intervals, and is exact where it says so."""
    own, pivot, apart = (min(a, b), max(a, b)), (min(c, d), max(c, d)), (-below, above)
    share, lower, upper = remainder(own, pivot, apart)
    random = np.random.default_rng(seed)
    y, v = random.uniform(*own, 500), random.uniform(*pivot, 500)
    y, v = np.append(y, np.clip(v, *own)), np.append(v, v)
    inside = (y - v >= apart[0]) & (y - v <= apart[1])
    e = np.maximum(y, 0.0) - np.maximum(v, 0.0) - share * (y - v)
    assert (e[inside] >= lower - 1e-12).all()
    assert (e[inside] <= upper + 1e-12).all()
    assert upper - lower <= above + below + 1e-12


def test_parallel_rows_have_no_remainder() -> None:
    """Whatever their scales and signs: one ReLU for three neurons, and the query is as exact as with all of them."""
    for case in (copies(random_case(seed), 0.0) for seed in range(8)):
        for now in started(case):
            assert all(lean.negligible for lean in now.leans)
            unstable = now.bounded.bounds.unstable
            assert len(now.names) <= unstable / 3 + 1e-9 or unstable < 3
            assert len(now.names) + len(now.leans) == unstable
            both = [one.making_exact(one.names).query for one in (now, replace(now, leans=()))]
            answers = [type(HighsBackend().solve(query, timeout=60)) for query in both]
            assert answers[0] is answers[1], case.name


@pytest.mark.parametrize("initial", ["relaxed", "exact", "needed"])
def test_decided_as_by_enumeration(initial: str) -> None:
    for case in [*BY_HAND, *(random_case(seed) for seed in range(16))]:
        verdict = verify(
            case.network,
            case.prop,
            abstraction="leaning",
            options=Options(initial=initial),
            restarts=0,
            per_round=2,
            timeout=120,
        )
        assert verdict.word == case.expected, case.name


@pytest.mark.parametrize("noise", [0.0, 1e-4, 0.03])
def test_near_copies_are_decided_as_without_sharing(noise: float) -> None:
    for case in (copies(random_case(seed), noise) for seed in range(8)):
        plain = verify(case.network, case.prop, options=Options(initial="exact"), restarts=0, timeout=120)
        shared = verify(case.network, case.prop, abstraction="leaning", restarts=0, per_round=2, timeout=120)
        assert shared.word == plain.word, case.name
        assert not shared.undecided


@pytest.mark.parametrize("refine", list(REFINEMENTS))
def test_every_refinement_ends(refine: str) -> None:
    for case in [*BY_HAND[:9], *(random_case(seed, (0.05, 0.25)) for seed in range(12))]:
        verdict = verify(case.network, case.prop, abstraction="leaning", refine=refine, restarts=0, timeout=120)
        assert verdict.word == case.expected, case.name


def test_a_doubled_network_costs_as_many_relus_as_the_original() -> None:
    network = load_chain("vnnlib/advisory/advisory_15x3.onnx")
    prop = read_vnnlib("vnnlib/advisory/prop_03.vnnlib")
    seen: list[Any] = []
    kept = []
    for one in (network, widened(network, 0.0, (1.0, 3.0))):
        verdict = verify(
            one, prop, abstraction="leaning", restarts=0, observe=lambda moment: seen.append(moment.sharing)
        )
        assert verdict.word == "unsat"
        kept.append(verdict.statistics.kept)
    assert kept[1] <= kept[0]
    assert any(len(subset) == 2 for layer in seen[-1] for subset in layer.shared), "two neurons, one ReLU"


def test_a_disjunct_starts_where_the_one_before_it_ended() -> None:
    network = widened(load_chain("vnnlib/advisory/advisory_15x3.onnx"), 0.001, (1.0, 3.0))
    prop = read_vnnlib("vnnlib/advisory/prop_03.vnnlib")
    twice, rounds = replace(prop, disjuncts=prop.disjuncts * 2), []
    for learn in (False, True):
        verdict = verify(network, twice, abstraction="leaning", learn=learn, per_round=1, restarts=0)
        assert verdict.word == "unsat"
        rounds.append(verdict.statistics.rounds)
    assert rounds[1] < rounds[0]


def test_what_does_not_fit_is_refused() -> None:
    case = BY_HAND[0]
    with pytest.raises(InputError, match="not for leaning"):
        verify(case.network, case.prop, abstraction="leaning", options=Options(initial="ginnacer"), restarts=0)


def test_nothing_leans_where_nothing_is_alike() -> None:
    network = load_chain("vnnlib/digits/digits_32x2.onnx")
    prop = read_vnnlib("vnnlib/digits/image_003_0.02.vnnlib")
    bounded = Bounded.of(network, prop, Part(prop.boxes[0], (0,)))
    assert leans_of(bounded.layers, prop.boxes[0], bounded.bounds) == ()
