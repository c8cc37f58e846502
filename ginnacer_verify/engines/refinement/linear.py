"""FastLin in the loop: no ReLU at all, one plane below each row of the property, and boxes that are halved."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ginnacer_verify.abstraction.fold import MARGIN, fold_rows
from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.engines.refinement.abstracted import (
    Bisection,
    Method,
    Options,
    Region,
    Situation,
    bisected,
)
from ginnacer_verify.engines.refinement.merged import one_output
from ginnacer_verify.engines.refinement.sharing import Exploited, Sharing
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Polytope
from ginnacer_verify.query.query import Base, Query, Relus
from ginnacer_verify.rivals.fastlin import LinearAbstraction, fastlin
from ginnacer_verify.rounding import gamma


@dataclass(frozen=True, eq=False)
class Linear:
    """Planes below the rows of a disjunct on a box; the rows themselves are off by up to `error`."""

    planes: LinearAbstraction
    disjunct: Disjunct
    error: Array

    @property
    def box(self) -> Box:
        return self.planes.domain

    @cached_property
    @np.errstate(over="ignore", invalid="ignore")
    def query(self) -> Query:
        box, below = self.box, self.planes.below
        varying = np.asarray(box.varying, dtype=np.intp)
        largest = np.maximum(np.abs(box.lower), np.abs(box.upper))
        fixed = box.lower.copy()
        fixed[varying] = 0.0
        size = np.abs(below.coefficients) @ largest + np.abs(below.constant)
        off = 2 * below.error + gamma(2 * box.inputs + 16) * size + self.error + MARGIN * (1 + size)
        unsafe = Polytope.of(below.coefficients[:, varying], off - below.constant - below.coefficients @ fixed)
        own = self.disjunct.inputs
        reach = np.abs(own.matrix) @ largest + np.abs(own.offset)
        inputs = Polytope.of(own.matrix[:, varying], own.offset - own.matrix @ fixed + MARGIN * (1 + reach))
        nothing, places = read_only([]), np.zeros(0, dtype=np.intp)
        relus = Relus(read_only(np.zeros((0, len(varying)))), nothing, nothing, nothing, nothing, places, ())
        return Query(Base(Box(box.lower[varying], box.upper[varying]), box.lower, varying, relus, unsafe, inputs))

    @property
    def sharing(self) -> tuple[Sharing, ...]:
        return tuple(Sharing(relaxed=tuple(range(layer.outputs))) for layer in self.planes.network.layers[:-1])

    def exploited(self, z: Array) -> list[Exploited]:
        """Nothing can be refined but the box."""
        return []


def bisect(situation: Situation[Linear]) -> Linear | Bisection:
    """Halve the box across the input that moves the planes most."""
    now = situation.abstracted
    if not now.box.varying:
        return now
    return bisected(now.box, np.abs(now.planes.below.coefficients).sum(axis=0))


def start(region: Region, options: Options) -> Linear:
    network = Network(fold_rows(region.network, [region.disjunct]))
    _, error = one_output(region.network, region.disjunct, region.box)
    return Linear(fastlin(network, region.box), region.disjunct, error.max() * np.ones(network.outputs))


METHOD = Method("linear", start, {"bisect": bisect})
