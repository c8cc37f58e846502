"""Which ReLUs a layer of the tight form keeps, and how they bound the excess of every neuron.

A kept ReLU `s = relu(potential + weight @ v)` bounds the excess e = relu(r) of a neuron with r <= p + a v, p <= 0, for
every v >= 0:

    own        e <= s                              potential = p, weight = a
    shared     e <= alpha s                        p <= alpha potential and a <= alpha weight
    similar    e <= beta s + (a - beta weight)+ v  p <= beta potential, since relu(x + y) <= relu(x) + relu(y)
    linear     e <= a+ v

From below it is 0, and for a ReLU of its own with r >= p - b v also `s - (a + b) v`, since a ReLU never enlarges a
difference. So layers that keep all of their ReLUs lose nothing, where the paper's lower bound drops them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ginnacer_verify.abstraction.icf import Mask
from ginnacer_verify.abstraction.tight.forms import Forms, chunks
from ginnacer_verify.arrays import Array, Weight, compact
from ginnacer_verify.rounding import UNIT

Integers = NDArray[np.intp]
SHARES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""The betas that are tried, times the quotient of both rows' lengths."""
SMALL = 10_000_000
"""A layer whose forms have more coefficients than this gets no lower bounds but 0: they would have as many again."""
EXACT = 1e-9
"""Own ReLUs are also lower bounds in a `far` layer if they are off by no more than this share of their values."""


@dataclass(frozen=True, eq=False)
class Unit:
    """What a layer's ReLUs are chosen from: `p - forms.below v <= r <= p + forms.above v`.

    `samples` of v, one per row, and `influence`, how much an excess of each neuron counts for the output, decide what
    is tight, never what is sound. At most `relus` may be kept; the own ReLUs of `given` neurons are there already."""

    potential: Array
    forms: Forms
    samples: Array
    influence: Array
    relus: int
    given: Mask

    @property
    def neurons(self) -> int:
        return len(self.potential)

    @property
    def columns(self) -> int:
        return int(self.forms.above.shape[1])

    def values(self, neurons: Integers) -> Array:
        """The excesses on the samples, at most."""
        return np.maximum(self.potential[neurons] + self.samples @ self.forms.above[neurons].T, 0.0)


@dataclass(frozen=True, eq=False)
class Kept:
    """The neurons with ReLUs of their own, in order, and the ReLU that others share, if any, behind these.

    With s for all of them, `lower @ v + lower_relus @ s <= e <= upper @ v + upper_relus @ s`."""

    own: Integers
    weight: Array
    potential: Array
    upper: Weight
    upper_relus: Array
    lower: Weight
    lower_relus: Array


Choice = Callable[[Unit], Kept]


def every(unit: Unit) -> Kept:
    """An own ReLU for every neuron: nothing is lost."""
    own = np.arange(unit.neurons)
    return Kept(own, unit.forms.above, unit.potential, _nothing(unit), np.eye(len(own)), *_lower(unit, own, len(own)))


def near(unit: Unit) -> Kept:
    """Own ReLUs for the neurons that turn first, and one for all others: nothing is lost until that one turns.

    Of the ReLUs that are allowed it takes as few as keep that one off at all samples."""
    order = _turning(unit)
    least, most = 1, min(unit.relus, unit.neurons)
    while least < most:
        count = (least + most) // 2
        if _off(unit, order[count - 1 :]):
            most = count
        else:
            least = count + 1
    own, others = np.split(order, [most if most == unit.neurons else most - 1])
    own = np.sort(own)
    weight, potential = unit.forms.above[own], unit.potential[own]
    upper = np.zeros((unit.neurons, len(own) + (len(others) > 0)))
    upper[own, np.arange(len(own))] = 1.0
    if len(others):
        shared, at_centroid, alpha = _shared(unit, others)
        weight, potential = np.vstack([weight, shared]), np.append(potential, at_centroid)
        upper[others, -1] = alpha
    return Kept(own, weight, potential, _nothing(unit), upper, *_lower(unit, own, upper.shape[1], 1.0))


def far(unit: Unit) -> Kept:
    """Own ReLUs for the neurons whose linear bound costs most on the samples; the others are similar or linear."""
    linear, mean = np.maximum(unit.forms.above, 0.0), unit.samples.mean(axis=0)
    values = unit.values(np.arange(unit.neurons)).mean(axis=0)
    saved = np.where(unit.given, np.inf, (linear @ mean - values) * unit.influence)
    own = np.sort(np.argsort(-saved, kind="stable")[: unit.relus + int(unit.given.sum())])
    upper, relus = linear, np.zeros((unit.neurons, len(own)))
    for neuron in np.setdiff1d(np.arange(unit.neurons), own):
        upper[neuron], relus[neuron] = _similar(unit, int(neuron), own, values[own], mean)
    upper[own], relus[own] = 0.0, np.eye(len(own))
    lower = _lower(unit, own, len(own), EXACT)
    return Kept(own, unit.forms.above[own], unit.potential[own], compact(upper), relus, *lower)


def _turning(unit: Unit) -> Integers:
    """The neurons in the order in which they turn when the distance from the centroid grows."""
    slope = np.empty(unit.neurons)
    for some in chunks(unit.neurons):
        slope[some] = np.maximum(unit.forms.above[some], 0.0).sum(axis=1)
    distance = np.where(slope > 0, -unit.potential / slope, np.inf)
    return np.argsort(distance, kind="stable")


def _shared(unit: Unit, members: Integers) -> tuple[Array, float, Array]:
    """The weight and the potential of one ReLU for several neurons, and their alphas.

    Rows are scaled to the potential -1 where that is possible, so that it turns as late as it can."""
    potential, alpha = unit.potential[members], np.empty(len(members))
    weight = np.full(unit.columns, -np.inf)
    for some in chunks(len(members)):
        rows = unit.forms.above[members[some]]
        alpha[some] = np.maximum(-potential[some], 1e-6 * np.maximum(rows, 0.0).max(axis=1, initial=0.0) + 1e-30)
        weight = np.maximum(weight, _up(rows / alpha[some, None]).max(axis=0))
    return weight, min(0.0, float(_up(potential / alpha).max())), alpha


def _off(unit: Unit, members: Integers) -> bool:
    """Whether the ReLU that these neurons share is off at all samples."""
    weight, potential, _ = _shared(unit, members)
    return bool((potential + unit.samples @ weight <= 0).all())


def _similar(unit: Unit, neuron: int, own: Integers, cost: Array, mean: Array) -> tuple[Array, Array]:
    """The coefficients of v and of the kept ReLUs in the tightest bound of a neuron on the samples."""
    row, rows = unit.forms.above[neuron], unit.forms.above[own]
    quotient = np.abs(row).sum() / np.abs(rows).sum(axis=1)
    bound, relus = np.maximum(row, 0.0), np.zeros(len(own))
    best = float(bound @ mean)
    for share in SHARES:
        beta = share * quotient
        allowed = np.isfinite(beta) & (unit.potential[neuron] <= beta * unit.potential[own] * (1 + 4 * UNIT))
        for number in np.flatnonzero(allowed & (beta * cost < best)):
            rest = _rest(row, rows[number], beta[number])
            if (total := float(beta[number] * cost[number] + rest @ mean)) < best:
                best, bound, relus = total, rest, beta[number] * (np.arange(len(own)) == number)
    return bound, relus


def _rest(row: Array, other: Array, beta: float) -> Array:
    """(row - beta other)+, rounded upwards."""
    return np.maximum(row - beta * other + 4 * UNIT * (np.abs(row) + beta * np.abs(other)), 0.0)


def _lower(unit: Unit, own: Integers, relus: int, share: float | None = None) -> tuple[Weight, Array]:
    """`s - gap v` for the own ReLUs whose gap is less than a share of their value on the samples, if one is given."""
    picked = np.zeros((unit.neurons, relus))
    if unit.forms.above.size > SMALL:
        return _nothing(unit), picked
    gap = np.maximum(_up(unit.forms.above[own] + unit.forms.below[own]), 0.0)
    if share is None:
        gains = np.arange(len(own))
    else:
        gains = np.flatnonzero(gap @ unit.samples.mean(axis=0) < share * unit.values(own).mean(axis=0))
    lower = np.zeros((unit.neurons, unit.columns))
    lower[own[gains]] = -gap[gains]
    picked[own[gains], gains] = 1.0
    return compact(lower), picked


def _nothing(unit: Unit) -> Weight:
    return csr_array((unit.neurons, unit.columns))


def _up(values: Array) -> Array:
    """Not below the real result of the one operation that gave these values."""
    return values + 4 * UNIT * np.abs(values)
