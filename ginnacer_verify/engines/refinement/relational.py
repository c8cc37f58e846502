"""The relational abstraction in the loop: which subsets are kept, and how spurious solutions change that."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from ginnacer_verify.abstraction.partitioning.strategies import first_fit
from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.engines.refinement.abstracted import (
    Abstracted,
    Bisection,
    Method,
    Options,
    Refine,
    Region,
    Situation,
    bisected,
)
from ginnacer_verify.engines.refinement.sharing import Exploited, Sharing
from ginnacer_verify.errors import InputError
from ginnacer_verify.query.query import Query, Shared, sensitivity


@dataclass(frozen=True, eq=False)
class Kept:
    """The relational abstraction with some subsets kept; every other unstable ReLU is relaxed."""

    relational: Relational
    kept: tuple[Shared, ...] = ()

    @property
    def box(self) -> Box:
        return self.relational.box

    @cached_property
    def query(self) -> Query:
        return self.relational.query(self.kept)

    def keeping(self, kept: tuple[Shared, ...]) -> "Kept":
        """The same with other subsets kept."""
        return self if kept == self.kept else replace(self, kept=kept)

    @cached_property
    def inexact(self) -> list[int]:
        """The unstable ReLUs that no singleton makes exact."""
        exact = {shared.members[0] for shared in self.kept if shared.is_singleton}
        return [i for i in range(len(self.relational.base.relus)) if i not in exact]

    @property
    def sharing(self) -> tuple[Sharing, ...]:
        relus, layers = self.relational.base.relus, len(self.relational.layers) - 1
        several = [shared.members for shared in self.kept if not shared.is_singleton]
        together = {i for members in several for i in members}

        def named(layer: int, members: Iterable[int]) -> tuple[int, ...]:
            return tuple(relus.neurons[i][0] for i in members if relus.layer[i] == layer)

        alone = [i for i in range(len(relus)) if i not in self.inexact]
        return tuple(
            Sharing(
                tuple(found for members in several if (found := named(layer, members))),
                named(layer, alone),
                named(layer, (i for i in self.inexact if i not in together)),
            )
            for layer in range(layers)
        )

    def exploited(self, z: Array) -> list[Exploited]:
        """The deviation of each inexact ReLU at the solution, times how it moves the property."""
        relus = self.relational.base.relus
        amount = self.moved(z)
        ranked = sorted(self.inexact, key=lambda i: (-amount[i], i))
        return [Exploited(int(relus.layer[i]), relus.neurons[i], float(amount[i])) for i in ranked]

    def moved(self, z: Array) -> Array:
        """The deviation of every unstable ReLU times the property's sensitivity to it."""
        base = self.relational.base
        return self.query.deviation(z) * (sensitivity(base)[base.free :] + 1e-12)


def make_exact(abstracted: Kept, chosen: Iterable[int]) -> Kept:
    """Take the chosen ReLUs out of their subsets and keep each as a singleton."""
    relational, leaving = abstracted.relational, set(chosen)
    kept = []
    for shared in abstracted.kept:
        rest = [i for i in shared.members if i not in leaving]
        if len(rest) == len(shared.members):
            kept.append(shared)
        elif rest:
            kept.append(relational.shared(rest, relational.trace(shared.centroid)))
    return abstracted.keeping((*kept, *(relational.singleton(i) for i in sorted(leaving))))


def _best(situation: Situation[Kept], score: Array) -> Kept:
    """Make the inexact ReLUs of highest score exact; ties go to the lower position."""
    ranked = sorted(situation.abstracted.inexact, key=lambda i: (-score[i], i))
    return make_exact(situation.abstracted, ranked[: situation.count])


def split(situation: Situation[Kept]) -> Kept:
    """The ReLUs whose deviation at the solution moves the property most."""
    return _best(situation, situation.abstracted.moved(situation.z))


def random(situation: Situation[Kept]) -> Kept:
    """Baseline: any ReLUs."""
    return _best(situation, situation.random.random(len(situation.abstracted.relational.base.relus)))


def max_weight_loss(situation: Situation[Kept]) -> Kept:
    """Baseline: the ReLUs that could give away most, whatever the solution says.

    After CEGARETTE's rule (arXiv 2210.12871), which adds up the change of weights; here it is the triangle's height
    times the sensitivity."""
    base = situation.abstracted.relational.base
    relus = base.relus
    height = -relus.lower * relus.upper / (relus.upper - relus.lower)
    return _best(situation, height * sensitivity(base)[base.free :])


def recentre(situation: Situation[Kept]) -> Kept:
    """Keep subsets of the deviating ReLUs that are valid at the witness's own trace.

    Up to the first layer that deviates the solution is the true trace of its input, so there the new subsets bound x'
    by relu(y): the solution is removed, with at most as many ReLUs as deviate (R4). Once more subsets are kept than
    there are unstable ReLUs, all of these are made exact instead: then the loop ends."""
    now = situation.abstracted
    base = now.relational.base
    deviation = now.query.deviation(situation.z)
    deviating = [i for i in now.inexact if deviation[i] > 2 * base.relus.slack[i]]
    if len(now.kept) + len(deviating) > len(base.relus):
        return make_exact(now, now.inexact)
    subsets = valid_subsets(now.relational, deviating, base.input_of(situation.z), situation.deadline)
    return now.keeping((*now.kept, *subsets))


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


def bisect(situation: Situation[Kept]) -> Kept | Bisection:
    """Halve the box across the input with the largest shares of the property's and the first layer's movement."""
    relational = situation.abstracted.relational
    base, relus = relational.base, relational.base.relus
    if not base.free:
        return situation.abstracted
    moves = np.zeros((2, relational.box.inputs))
    moves[0, base.varying] = sensitivity(base)[: base.free]
    moves[1, base.varying] = np.abs(relus.weight[relus.layer == 0][:, : base.free]).sum(axis=0)
    return bisected(relational.box, *moves)


REFINEMENTS: dict[str, Refine] = {
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
    return tuple(relational.singleton(i) for i in range(len(relational.base.relus)))


def needed(relational: Relational, deadline: Deadline = FOREVER) -> tuple[Shared, ...]:
    """Start with the network itself, but for ReLUs whose upper bounds cannot matter (`Base.harmless`)."""
    return tuple(relational.singleton(int(i)) for i in np.flatnonzero(~relational.base.harmless))


def ginnacer(relational: Relational, deadline: Deadline = FOREVER) -> tuple[Shared, ...]:
    """Start with the paper's partition at the middle of the box: every unstable ReLU in a valid subset."""
    return valid_subsets(relational, range(len(relational.base.relus)), relational.box.middle, deadline)


INITIAL: dict[str, Initial] = {"relaxed": relaxed, "ginnacer": ginnacer, "exact": exact, "needed": needed}


def start(region: Region, options: Options) -> Kept:
    """The relational abstraction of a region, with the subsets that `initial` keeps."""
    if options.initial not in INITIAL:
        raise InputError(f"initial={options.initial!r} is unknown; choose one of {', '.join(INITIAL)}")
    relational = region.bounds().relational(region.prop, region.number)
    return Kept(relational, INITIAL[options.initial](relational, region.deadline))


def resume(before: Abstracted, fresh: Abstracted) -> Abstracted:
    """The subsets that proved another disjunct on the same box: the unstable ReLUs are the same ones."""
    if not (isinstance(before, Kept) and isinstance(fresh, Kept) and len(before.kept) > len(fresh.kept)):
        return fresh
    old, new = before.relational.base.relus, fresh.relational.base.relus
    same = all(np.array_equal(a, b) for a, b in zip((old.weight, old.bias), (new.weight, new.bias), strict=True))
    return fresh.keeping(before.kept) if same else fresh


METHOD = Method("relational", start, REFINEMENTS, resume, bounds=True, executed=True)
