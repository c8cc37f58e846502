"""R1 to R5 of the relational abstraction, on random networks and with every kind of subset."""

from dataclasses import replace

import numpy as np
import pytest
from cases import box_of, one_disjunct, random_network

from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.adapters.highs import HighsBackend
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.engines.parts import Bounded, Part
from ginnacer_verify.engines.refinement.relational import exact, ginnacer, valid_subsets
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.query.query import Query, Sat, Shared, Unsat

SHAPES = ((2, 5, 1), (2, 4, 4, 1), (3, 6, 6, 1), (2, 3, 3, 3, 2))


def drawn(seed: int) -> Relational:
    """A network on a box with a property that nothing is outside of, so that every run is a solution."""
    random = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    network = random_network(random, shape)
    lower = random.normal(size=shape[0])
    box = Box(lower, lower + random.random(shape[0]) * 3)
    prop = one_disjunct(box, np.eye(shape[-1]), np.full(shape[-1], 1e4))
    return Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)


def solution_at(relational: Relational, x: Array) -> Array:
    """The z of a concrete run."""
    relus, trace = relational.base.relus, relational.trace(x)
    after = [trace[layer + 1][neuron] for layer, (neuron,) in zip(relus.layer, relus.neurons, strict=True)]
    return np.concatenate([x[relational.base.varying], after])


def some_subsets(relational: Relational, random: np.random.Generator) -> tuple[Shared, ...]:
    """Subsets of one layer each, valid or not, at a random centroid, and some singletons."""
    relus = relational.base.relus
    found, trace = [], relational.trace(relational.box.sample(random, 1)[0])
    for layer in np.unique(relus.layer):
        here = random.permutation(np.flatnonzero(relus.layer == layer)).tolist()
        while here:
            size = int(random.integers(1, 4))
            found.append(relational.shared(here[:size], trace))
            here = here[size:]
    return tuple(found)


def at_input(query: Query, x: Array) -> Query:
    """The query with its inputs fixed to one point."""
    base, point = query.base, x[query.base.varying]
    return Query(replace(base, box=Box(point, point)), query.kept)


@pytest.mark.parametrize("seed", range(40))
def test_r1_every_run_is_a_solution(seed: int) -> None:
    relational, random = drawn(seed), np.random.default_rng(seed)
    kinds = [(), exact(relational), ginnacer(relational), some_subsets(relational, random)]
    for x in relational.box.sample(random, 50):
        z = solution_at(relational, x)
        for kept in kinds:
            assert relational.query(kept).violation(z) <= 0
        assert relational.query().deviation(z).max(initial=0.0) <= 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_r1_unsafe_rows_are_those_of_the_network(seed: int) -> None:
    relational, random = drawn(seed), np.random.default_rng(seed)
    for x in relational.box.sample(random, 20):
        rows = relational.base.unsafe.matrix @ solution_at(relational, x) - relational.base.unsafe.offset
        y = relational.layers[-1](relational.trace(x)[-1])
        assert rows == pytest.approx(y, abs=1e-3)
        assert (rows <= y).all()


@pytest.mark.parametrize("seed", range(12))
def test_r2_as_many_relus_as_kept_subsets(seed: int) -> None:
    relational = drawn(seed)
    kept = some_subsets(relational, np.random.default_rng(seed))
    query = relational.query(kept)
    assert query.binaries <= len(kept)
    assert query.binaries == sum(1 for shared in kept if shared.lower < 0 < shared.upper)
    assert relational.query().binaries == 0
    assert relational.query(exact(relational)).binaries == len(relational.base.relus)


@pytest.mark.parametrize("seed", range(12))
def test_r3_all_singletons_is_the_network(seed: int) -> None:
    """A point that differs from the run at any ReLU by more than the slack is no solution."""
    relational, random = drawn(seed), np.random.default_rng(seed)
    query = relational.query(exact(relational))
    for x in relational.box.sample(random, 20):
        z = solution_at(relational, x)
        for i in range(len(relational.base.relus)):
            for amount in (0.01, -0.01):
                moved = z.copy()
                moved[relational.base.free + i] += amount
                assert query.violation(moved) > 0


@pytest.mark.parametrize("seed", range(16))
def test_r4_recentred_subsets_leave_only_the_true_trace(seed: int) -> None:
    """With the input fixed to x*, the LP over the subsets valid there has no other solution than the run of x*."""
    relational, random = drawn(seed), np.random.default_rng(seed)
    x = relational.box.sample(random, 1)[0]
    kept = valid_subsets(relational, range(len(relational.base.relus)), x)
    answer = HighsBackend().solve(at_input(relational.query(kept), x), timeout=10)
    assert isinstance(answer, Sat)
    assert answer.z == pytest.approx(solution_at(relational, x), abs=1e-5)


def test_r4_needs_validity() -> None:
    """The relaxed query does have other solutions at x*: the test above can fail."""
    found = []
    for seed in range(16):
        relational, random = drawn(seed), np.random.default_rng(seed)
        x = relational.box.sample(random, 1)[0]
        answer = HighsBackend().solve(at_input(relational.query(), x), timeout=10)
        assert isinstance(answer, Sat)
        found.append(float(np.abs(answer.z - solution_at(relational, x)).max()))
    assert max(found) > 0.01


@pytest.mark.parametrize("seed", range(20))
def test_r5_keeping_more_only_removes_solutions(seed: int) -> None:
    relational, random = drawn(seed), np.random.default_rng(seed)
    first, second = some_subsets(relational, random), some_subsets(relational, random)
    for _ in range(100):
        x = relational.box.sample(random, 1)[0]
        z = solution_at(relational, x) + np.append(np.zeros(len(x)), random.random(len(relational.base.relus)) * 0.2)
        if relational.query(first).violation(z) > 0:
            assert relational.query((*first, *second)).violation(z) > 0


def has_two_in_a_layer(seed: int) -> bool:
    return bool(np.bincount(drawn(seed).base.relus.layer).max(initial=0) > 1)


@pytest.mark.parametrize("seed", [seed for seed in range(24) if has_two_in_a_layer(seed)])
def test_r5_splitting_a_subset_only_removes_solutions(seed: int) -> None:
    relational, random = drawn(seed), np.random.default_rng(seed)
    centroid = relational.box.sample(random, 1)[0]
    trace, owner = relational.trace(centroid), relational.base.relus.layer
    members = max((np.flatnonzero(owner == layer).tolist() for layer in np.unique(owner)), key=len)
    whole = relational.shared(members, trace)
    parts = relational.shared(members[:1], trace), relational.shared(members[1:], trace)
    for _ in range(100):
        z = solution_at(relational, relational.box.sample(random, 1)[0])
        z[relational.base.free :] += random.random(len(owner)) * 0.3
        if relational.query([whole]).violation(z) > 1e-9:
            assert relational.query(parts).violation(z) > 0


@pytest.mark.parametrize("seed", range(20))
def test_layer_wise_upper_bound(seed: int) -> None:
    """rhat_D(x) >= r_i(x) on the whole box, for every member, with r in the form of the centroid."""
    relational, random = drawn(seed), np.random.default_rng(seed)
    base = relational.base
    for shared in some_subsets(relational, random):
        if shared.is_singleton:
            continue
        for x in relational.box.sample(random, 50):
            z = solution_at(relational, x)
            y = base.pre_activations(z)[list(shared.members)]
            r = np.where(shared.active, -y, y)
            rhat = float(shared.weight @ z) + shared.bias
            assert (rhat >= r - 1e-12).all()
            assert shared.lower - 1e-12 <= rhat <= shared.upper + 1e-12


@pytest.mark.parametrize("seed", range(12))
def test_valid_neuron_subset(seed: int) -> None:
    """Where the loop calls subsets valid, the shared ReLU is off at the centroid and the members cover all ReLUs."""
    relational, random = drawn(seed), np.random.default_rng(seed)
    x = relational.box.sample(random, 1)[0]
    kept = valid_subsets(relational, range(len(relational.base.relus)), x)
    assert sorted(i for shared in kept for i in shared.members) == list(range(len(relational.base.relus)))
    for shared in kept:
        if not shared.is_singleton:
            assert float(shared.weight @ solution_at(relational, x)) + shared.bias <= 1e-12


def test_fixed_inputs_are_no_variables() -> None:
    network = random_network(np.random.default_rng(3), (3, 5, 1))
    box = box_of([0.5, -1.0, 0.25], [0.5, 1.0, 0.25])
    prop = one_disjunct(box, [[1.0]], [1e4])
    relational = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)
    assert relational.base.free == 1
    x = relational.base.input_of(np.append([0.3], np.zeros(len(relational.base.relus))))
    assert x.tolist() == [0.5, 0.3, 0.25]
    assert relational.query().violation(solution_at(relational, x)) <= 0


def test_linear_input_constraints_reach_the_query() -> None:

    network = random_network(np.random.default_rng(1), (2, 4, 1))
    box = box_of([0.0, 0.0], [1.0, 1.0])
    disjunct = Disjunct(box, Polytope.of([[1.0, 1.0]], [-0.5]), Polytope.of([[1.0]], [1e4]))
    prop = Property.of(disjunct)
    relational = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)
    assert HighsBackend().solve(relational.query(), timeout=5) == Unsat()


def test_linear_input_constraints_know_the_fixed_inputs() -> None:
    """x0 + 2 x1 <= 1.25 with x1 = 0.75 is x0 <= -0.25."""
    network = Network.from_arrays(([[1.0, 1.0]], [0.0]), ([[1.0]], [0.0]))
    box = Box(np.array([-1.0, 0.75]), np.array([1.0, 0.75]))
    disjunct = Disjunct(box, Polytope.of([[1.0, 2.0]], [1.25]), Polytope.of([[1.0]], [9.0]))
    relational = Bounded.of(network, Property.of(disjunct), Part(box, (0,))).relational(Property.of(disjunct), 0)
    rows = relational.base.inputs
    assert rows.matrix[0, 0] == 1.0
    assert not rows.matrix[0, 1:].any()
    assert rows.offset[0] == pytest.approx(-0.25, abs=1e-6)
    assert rows.offset[0] >= -0.25
