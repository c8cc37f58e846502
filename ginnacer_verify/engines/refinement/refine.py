"""Refinement: from a spurious solution of a query to finer subsets, or to two halves of the box.

Every strategy is a function of a Situation and gives the subsets to keep next, or a Bisection. It returns the subsets
unchanged when nothing is left to refine."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ginnacer_verify.abstraction.partitioning.strategies import first_fit
from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.query.query import Base, Shared, sensitivity


@dataclass(frozen=True, eq=False)
class Situation:
    """A spurious solution `z` of the query with `kept`; `count` is how many neurons to refine now."""

    relational: Relational
    kept: tuple[Shared, ...]
    z: Array
    count: int
    random: np.random.Generator
    deadline: Deadline = FOREVER

    @property
    def base(self) -> Base:
        return self.relational.base

    @property
    def inexact(self) -> list[int]:
        """The unstable ReLUs that no singleton makes exact."""
        exact = {shared.members[0] for shared in self.kept if shared.is_singleton}
        return [i for i in range(len(self.base.relus)) if i not in exact]


@dataclass(frozen=True, eq=False)
class Bisection:
    """The two halves of the box, to be verified one by one."""

    halves: tuple[Box, Box]


Refinement: TypeAlias = tuple[Shared, ...] | Bisection
Strategy: TypeAlias = Callable[[Situation], Refinement]


def make_exact(situation: Situation, chosen: Iterable[int]) -> tuple[Shared, ...]:
    """Take the chosen ReLUs out of their subsets and keep each as a singleton."""
    relational, leaving = situation.relational, set(chosen)
    kept = []
    for shared in situation.kept:
        rest = [i for i in shared.members if i not in leaving]
        if len(rest) == len(shared.members):
            kept.append(shared)
        elif rest:
            kept.append(relational.shared(rest, relational.trace(shared.centroid)))
    return (*kept, *(relational.singleton(i) for i in sorted(leaving)))


def _best(situation: Situation, score: Array) -> tuple[Shared, ...]:
    """Make the inexact ReLUs of highest score exact; ties go to the lower position."""
    ranked = sorted(situation.inexact, key=lambda i: (-score[i], i))
    return make_exact(situation, ranked[: situation.count])


def split(situation: Situation) -> Refinement:
    """The ReLUs whose deviation at the solution moves the property most."""
    weight = sensitivity(situation.base)[situation.base.free :]
    return _best(situation, situation.relational.query(situation.kept).deviation(situation.z) * (weight + 1e-12))


def random(situation: Situation) -> Refinement:
    """Baseline: any ReLUs."""
    return _best(situation, situation.random.random(len(situation.base.relus)))


def max_weight_loss(situation: Situation) -> Refinement:
    """Baseline: the ReLUs that could give away most, whatever the solution says.

    After CEGARETTE's rule (arXiv 2210.12871), which adds up the change of weights; here it is the triangle's height
    times the sensitivity."""
    relus = situation.base.relus
    height = -relus.lower * relus.upper / (relus.upper - relus.lower)
    return _best(situation, height * sensitivity(situation.base)[situation.base.free :])


def recentre(situation: Situation) -> Refinement:
    """Keep subsets of the deviating ReLUs that are valid at the witness's own trace.

    Up to the first layer that deviates the solution is the true trace of its input, so there the new subsets bound x'
    by relu(y): the solution is removed, with at most as many ReLUs as deviate (R4). Once more subsets are kept than
    there are unstable ReLUs, all of these are made exact instead: then the loop ends."""
    relational, base = situation.relational, situation.base
    deviation = relational.query(situation.kept).deviation(situation.z)
    deviating = [i for i in situation.inexact if deviation[i] > 2 * base.relus.slack[i]]
    if len(situation.kept) + len(deviating) > len(base.relus):
        return make_exact(situation, situation.inexact)
    return (*situation.kept, *valid_subsets(relational, deviating, base.input_of(situation.z), situation.deadline))


def valid_subsets(
    relational: Relational, members: Sequence[int], centroid: Array, deadline: Deadline = FOREVER
) -> tuple[Shared, ...]:
    """Unstable ReLUs in subsets that are valid at the trace of a centroid, layer by layer, as far as time allows.

    Paper: Algorithm "Valid Neuron Partition", on the unstable neurons and anchored at the box."""
    trace, owner, found = relational.trace(centroid), relational.base.relus.layer, list[Shared]()
    for number in sorted({int(owner[i]) for i in members}):
        here = [i for i in members if owner[i] == number]
        icf, _ = relational.icf(here, trace)
        for subset in first_fit(icf).subsets:
            if deadline.passed:
                break
            found.append(relational.shared([here[k] for k in subset], trace))
    return tuple(found)


def bisect(situation: Situation) -> Refinement:
    """Halve the box across the input with the largest share of the property's and the first layer's movement."""
    base, relus = situation.base, situation.base.relus
    if not base.free:
        return situation.kept
    width = base.box.upper - base.box.lower
    own = sensitivity(base)[: base.free] * width
    first = np.abs(relus.weight[relus.layer == 0][:, : base.free]).sum(axis=0) * width
    at = base.varying[int(np.argmax(_share(own) + _share(first)))]
    return halves(situation.relational.box, int(at))


def halves(box: Box, at: int) -> Refinement:
    """The box cut in the middle of one input."""
    middle = box.middle[at]
    upper, lower = box.upper.copy(), box.lower.copy()
    upper[at] = lower[at] = middle
    return Bisection((Box(box.lower, upper), Box(lower, box.upper)))


def _share(values: Array) -> Array:
    total = float(values.sum())
    return values / total if total > 0 else values


STRATEGIES: dict[str, Strategy] = {
    "split": split,
    "recentre": recentre,
    "bisect": bisect,
    "random": random,
    "max_weight_loss": max_weight_loss,
}

Initial: TypeAlias = Callable[[Relational, Deadline], tuple[Shared, ...]]


def relaxed(relational: Relational, deadline: Deadline = FOREVER) -> tuple[Shared, ...]:
    """Start with no ReLU at all."""
    return ()


def exact(relational: Relational, deadline: Deadline = FOREVER) -> tuple[Shared, ...]:
    """Start with the network itself."""
    return tuple(relational.singleton(int(i)) for i in np.flatnonzero(~relational.base.harmless))


def ginnacer(relational: Relational, deadline: Deadline = FOREVER) -> tuple[Shared, ...]:
    """Start with the paper's partition at the middle of the box: every unstable ReLU in a valid subset."""
    return valid_subsets(relational, range(len(relational.base.relus)), relational.box.middle, deadline)


INITIAL: dict[str, Initial] = {"relaxed": relaxed, "ginnacer": ginnacer, "exact": exact}
