"""Lazy sharing in the loop: neurons that are nearly copies of each other share one ReLU, from the start.

The relational abstraction, but a neuron that leans on a pivot (`abstraction.lean`) has neither a triangle nor a ReLU:
it is the pivot's, and a remainder. A spurious witness that exploits the pivot's triangle brings one ReLU back for all
of them; one that exploits a remainder splits that neuron off, with a ReLU of its own. In the end every neuron has one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ginnacer_verify.abstraction.lean import Lean
from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.engines.parts import Bounded
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
from ginnacer_verify.properties.property import Property
from ginnacer_verify.query.query import Query, sensitivity

STARTS = ("relaxed", "exact", "needed")
Neuron = tuple[int, int]
"""A layer and a neuron of it, from 0."""


@dataclass(frozen=True, eq=False)
class Leaning:
    """Neurons that lean on others, and those of the rest whose ReLUs are exact."""

    bounded: Bounded
    prop: Property
    number: int
    leans: tuple[Lean, ...]
    exact: frozenset[Neuron] = frozenset()

    @property
    def box(self) -> Box:
        return self.bounded.part.box

    @cached_property
    def relational(self) -> Relational:
        """With the neurons that share each ReLU as its names, the pivot first."""
        relational = self.bounded.relational(self.prop, self.number, self.leans)
        relus, behind = relational.base.relus, self._behind
        names = [(i, *behind.get((int(layer), i), ())) for layer, (i,) in zip(relus.layer, relus.neurons, strict=True)]
        base = replace(relational.base, relus=replace(relus, neurons=tuple(names)))
        return replace(relational, base=base)

    @cached_property
    def _behind(self) -> dict[Neuron, list[int]]:
        """The neurons that lean on each pivot."""
        found: dict[Neuron, list[int]] = {}
        for lean in self.leans:
            found.setdefault((lean.layer, lean.pivot), []).append(lean.neuron)
        return found

    @cached_property
    def names(self) -> list[Neuron]:
        """The neurons with variables of their own, in their order."""
        relus = self.relational.base.relus
        return [(int(layer), neurons[0]) for layer, neurons in zip(relus.layer, relus.neurons, strict=True)]

    @cached_property
    def query(self) -> Query:
        relational = self.relational
        return relational.query(relational.singleton(i) for i, name in enumerate(self.names) if name in self.exact)

    @property
    def sharing(self) -> tuple[Sharing, ...]:
        """A ReLU that several share counts as shared from when it is exact."""
        found = []
        for layer in range(len(self.relational.layers) - 1):
            here = [name for name in self.names if name[0] == layer]
            units = {i: tuple(sorted((i, *self._behind.get((layer, i), ())))) for _, i in here}
            exact = [unit for i, unit in units.items() if (layer, i) in self.exact]
            found.append(
                Sharing(
                    tuple(unit for unit in exact if len(unit) > 1),
                    tuple(unit[0] for unit in exact if len(unit) == 1),
                    tuple(sorted(n for i, unit in units.items() if (layer, i) not in self.exact for n in unit)),
                )
            )
        return tuple(found)

    def exploited(self, z: Array) -> list[Exploited]:
        """Relaxed ReLUs with their deviations, and neurons that lean with those of their remainders."""
        base = self.relational.base
        moves = sensitivity(base) + 1e-12
        deviation = self.query.deviation(z) * moves[base.free :]
        found = [
            Exploited(layer, base.relus.neurons[k], float(deviation[k]))
            for k, (layer, i) in enumerate(self.names)
            if (layer, i) not in self.exact
        ]
        found += self._remainders(z, moves)
        return sorted(found, key=lambda one: (-one.amount, one.layer, one.neurons))

    def _remainders(self, z: Array, moves: Array) -> list[Exploited]:
        """How far the remainder of each neuron that leans is from what it is where both have the solution's y."""
        leaving, found = self.relational.expressions.leaving, []
        varying = [lean for lean in self.leans if not lean.negligible]
        for column, lean in enumerate(varying, start=len(self.box.varying)):
            y = leaving[lean.layer]
            own, pivot = (float(y.matrix[i] @ z) + y.offset[i] for i in (lean.neuron, lean.pivot))
            remainder = max(own, 0.0) - max(lean.scale * pivot, 0.0) - lean.share * (own - lean.scale * pivot)
            amount = abs(float(z[column]) - remainder) * float(moves[column])
            found.append(Exploited(lean.layer, (lean.neuron,), amount))
        return found

    def refined(self, chosen: Sequence[Exploited]) -> "Leaning":
        """ReLUs become exact, for all who share them; neurons that leaned get one of their own."""
        asked = {(one.layer, one.neurons[0]) for one in chosen}
        leans = tuple(lean for lean in self.leans if (lean.layer, lean.neuron) not in asked)
        split = self if len(leans) == len(self.leans) else replace(self, leans=leans)
        return split.making_exact(asked)

    def making_exact(self, neurons: Iterable[Neuron]) -> "Leaning":
        """The same ReLUs, more of them exact: solvers go on where they were."""
        finer = replace(self, exact=self.exact | frozenset(neurons))
        finer.__dict__["relational"] = self.relational  # what is cached of it stays the same
        return finer


def _chosen(situation: Situation[Leaning], ranked: Sequence[Exploited]) -> Leaning:
    some = [one for one in ranked if one.amount > 0] or ranked
    return situation.abstracted.refined(some[: situation.count]) if some else situation.abstracted


def split(situation: Situation[Leaning]) -> Leaning:
    """What the witness exploited most."""
    return _chosen(situation, situation.abstracted.exploited(situation.z))


def random(situation: Situation[Leaning]) -> Leaning:
    """Baseline: any of them."""
    ranked = situation.abstracted.exploited(situation.z)
    order = situation.random.permutation(len(ranked))
    return _chosen(situation, [replace(ranked[i], amount=1.0) for i in order])


def bisect(situation: Situation[Leaning]) -> Leaning | Bisection:
    """Halve the box across the input with the largest shares of the property's and the first layer's movement."""
    now = situation.abstracted
    base, count = now.relational.base, len(now.box.varying)
    if not count:
        return now
    moves = np.zeros((2, now.box.inputs))
    moves[0, base.varying[:count]] = sensitivity(base)[:count]
    moves[1, base.varying[:count]] = np.abs(base.relus.weight[base.relus.layer == 0][:, :count]).sum(axis=0)
    return bisected(now.box, *moves)


REFINEMENTS: dict[str, Refine] = {"split": split, "bisect": bisect, "random": random}


def start(region: Region, options: Options) -> Leaning:
    """Every neuron that can lean does; `initial` says which of the others' ReLUs are exact."""
    if options.initial not in STARTS:
        raise InputError(f"initial={options.initial!r} is not for leaning; choose one of {', '.join(STARTS)}")
    bounded = region.bounds()
    fresh = Leaning(bounded, region.prop, region.number, bounded.leans)
    if options.initial == "relaxed":
        return fresh
    harmless = fresh.relational.base.harmless & (options.initial == "needed")
    return fresh.making_exact(name for name, left_out in zip(fresh.names, harmless, strict=True) if not left_out)


def resume(before: Abstracted, fresh: Abstracted) -> Abstracted:
    """What proved another disjunct on the same box."""
    if not (isinstance(before, Leaning) and isinstance(fresh, Leaning) and before.bounded is fresh.bounded):
        return fresh
    return replace(fresh, leans=before.leans, exact=before.exact)


METHOD = Method("leaning", start, REFINEMENTS, resume, bounds=True, executed=True)
