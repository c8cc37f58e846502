"""Refinement strategies: what they choose, that they only refine, and that they end."""

from dataclasses import replace

import numpy as np
import pytest
from cases import one_disjunct, random_network
from test_relational import solution_at

from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.adapters.highs import HighsBackend
from ginnacer_verify.box import Box
from ginnacer_verify.engines.parts import Bounded, Part
from ginnacer_verify.engines.refinement.abstracted import Bisection, Situation
from ginnacer_verify.engines.refinement.relational import (
    INITIAL,
    REFINEMENTS,
    Kept,
    bisect,
    exact,
    ginnacer,
    make_exact,
    max_weight_loss,
    random,
    recentre,
    relaxed,
    split,
)
from ginnacer_verify.properties.property import Polytope
from ginnacer_verify.query.query import Query, Sat, sensitivity


def spurious(seed: int) -> Situation[Kept]:
    """A solution of a relaxed query that deviates: the unsafe set begins just below what samples reach."""
    generator = np.random.default_rng(seed)
    network = random_network(generator, (3, 8, 8, 1))
    box = Box(-generator.random(3), generator.random(3))
    least = float(network(box.sample(generator, 2000)).min())
    prop = one_disjunct(box, [[1.0]], [least - 0.01])
    relational = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)
    answer = HighsBackend().solve(relational.query(), timeout=10)
    assert isinstance(answer, Sat)
    return Situation(Kept(relational), answer.z, 2, generator)


SITUATIONS = [spurious(seed) for seed in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)]


def test_there_is_something_to_refine() -> None:
    deviating = [int((s.abstracted.query.deviation(s.z) > 1e-3).sum()) for s in SITUATIONS]
    assert min(deviating) >= 1
    assert sum(deviating) >= 30


@pytest.mark.parametrize("situation", SITUATIONS)
def test_split_takes_the_largest_deviation_times_sensitivity(situation: Situation[Kept]) -> None:
    base = situation.abstracted.relational.base
    score = situation.abstracted.query.deviation(situation.z) * sensitivity(base)[base.free :]
    chosen = {shared.members[0] for shared in split(situation).kept}
    assert len(chosen) == 2
    assert min(score[list(chosen)]) >= max(np.delete(score, list(chosen)), default=0.0) - 1e-9


@pytest.mark.parametrize("situation", SITUATIONS)
def test_sensitivity_is_the_derivative_through_the_triangles(situation: Situation[Kept]) -> None:
    """Move one z, let the later x' follow along their upper lines, and see how far the first unsafe row moves."""
    base, relus = situation.abstracted.relational.base, situation.abstracted.relational.base.relus
    slope = relus.upper / (relus.upper - relus.lower)
    for j in range(base.size):
        moved = np.zeros(base.size)
        moved[j] = 1.0
        for i in range(len(relus)):
            if base.free + i != j:
                moved[base.free + i] = slope[i] * float(relus.weight[i] @ moved)
        expected = np.abs(base.unsafe.matrix @ moved).max()
        assert sensitivity(base)[j] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", [name for name in REFINEMENTS if name != "bisect"])
def test_every_strategy_ends_at_the_network(name: str, situation: Situation[Kept]) -> None:
    """Refined against its own witness again and again, a query becomes exact or has no deviating solution."""
    now, backend = situation.abstracted, HighsBackend()
    for _ in range(200):
        answer = backend.solve(now.query, timeout=10)
        if not isinstance(answer, Sat) or now.query.deviation(answer.z).max() <= 1e-6:
            return
        finer = REFINEMENTS[name](Situation(now, answer.z, 1, situation.random))
        assert isinstance(finer, Kept)
        assert finer is not now
        now = finer
    pytest.fail("200 rounds were not enough")


@pytest.mark.parametrize("situation", SITUATIONS)
def test_recentre_removes_the_solution(situation: Situation[Kept]) -> None:
    """R4, as the loop uses it: what was a solution is none any more."""
    assert situation.abstracted.query.violation(situation.z) <= 1e-7
    assert recentre(situation).query.violation(situation.z) > 1e-7


@pytest.mark.parametrize("situation", SITUATIONS)
def test_recentre_takes_no_more_relus_than_deviate(situation: Situation[Kept]) -> None:
    deviating = int((situation.abstracted.query.deviation(situation.z) > 1e-6).sum())
    assert len(recentre(situation).kept) <= deviating


@pytest.mark.parametrize("situation", SITUATIONS)
def test_making_exact_takes_members_out_of_their_subsets(situation: Situation[Kept]) -> None:
    relational = situation.abstracted.relational
    before = Kept(relational, ginnacer(relational))
    chosen = before.inexact[:1]
    after = make_exact(before, chosen).kept
    members = sorted(i for shared in after for i in shared.members)
    assert members == list(range(len(relational.base.relus))), "every ReLU is still in exactly one subset"
    assert any(shared.members == tuple(chosen) for shared in after)
    anything = replace(relational.base, unsafe=Polytope.everything(relational.base.size))
    for x in relational.box.sample(np.random.default_rng(0), 20):
        assert Query(anything, after).violation(solution_at(relational, x)) <= 0


@pytest.mark.parametrize("situation", SITUATIONS)
def test_bisect_covers_the_box(situation: Situation[Kept]) -> None:
    found = bisect(situation)
    assert isinstance(found, Bisection)
    left, right = found.halves
    box = situation.abstracted.box
    cut = np.flatnonzero(left.upper != box.upper)
    assert len(cut) == 1
    assert (left.lower == box.lower).all()
    assert (right.upper == box.upper).all()
    assert left.upper[cut[0]] == right.lower[cut[0]] == box.middle[cut[0]]


def test_baselines_choose_by_their_own_rule() -> None:
    situation = SITUATIONS[0]
    base, relus = situation.abstracted.relational.base, situation.abstracted.relational.base.relus
    height = -relus.lower * relus.upper / (relus.upper - relus.lower)
    best = int(np.argmax(height * sensitivity(base)[base.free :]))
    assert best in {shared.members[0] for shared in max_weight_loss(situation).kept}
    draws = {
        tuple(
            shared.members[0]
            for shared in random(Situation(situation.abstracted, situation.z, 1, np.random.default_rng(seed))).kept
        )
        for seed in range(30)
    }
    assert len(draws) > 1


def test_initial_partitions() -> None:
    relational: Relational = SITUATIONS[0].abstracted.relational
    count = len(relational.base.relus)
    assert set(INITIAL) == {"relaxed", "ginnacer", "exact", "needed"}
    assert relaxed(relational) == ()
    assert len(exact(relational)) == count
    assert sorted(i for shared in ginnacer(relational) for i in shared.members) == list(range(count))


def test_nothing_left_to_refine_changes_nothing() -> None:
    situation = SITUATIONS[0]
    relational = situation.abstracted.relational
    done = Situation(Kept(relational, exact(relational)), situation.z, 3, situation.random)
    for name in ("split", "random", "max_weight_loss"):
        assert REFINEMENTS[name](done) is done.abstracted
