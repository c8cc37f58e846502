"""Partitions of little margin: the loops that place and move single neurons, in C (`native/partition.c`) or numpy."""

from dataclasses import dataclass, fields

import numpy as np

from ginnacer_verify import native
from ginnacer_verify.abstraction.icf import Mask
from ginnacer_verify.abstraction.partitioning.first_fit import Integers, Rows, joined
from ginnacer_verify.arrays import Array

EARLIEST = 1e-9
"""Distances below this count as this one: keeps costs finite for neurons that are on the point of turning active."""


def cost(size: Array | float, norm: Array, potential: Array | float) -> Array:
    """How much a subset adds to the margin: its size, times its slope, over the distance at which it turns active.

    Up to the distance -potential / norm its ReLU is off; beyond, it lifts all its members with slope `norm`."""
    slope = np.where(norm == 0.0, 1.0, norm)
    return np.where(norm == 0.0, 0.0, size * slope / (np.maximum(-np.asarray(potential), 0.0) / slope + EARLIEST))


@dataclass(frozen=True, eq=False)
class Packing:
    """A partition in the making: per subset its size, V, bias, slack, cost, and the sums of max(V, 0) for `joined`."""

    label: Integers
    size: Integers
    V: Array
    bias: Array
    slack: Array
    cost: Array
    above: Array
    norm_above: Array

    @classmethod
    def empty(cls, neurons: int, subsets: int, columns: int) -> "Packing":
        label, size = np.full(neurons, -1, dtype=np.int64), np.zeros(subsets, dtype=np.int64)
        rest = [np.zeros(subsets) for _ in range(4)]
        return cls(label, size, np.zeros((subsets, columns)), np.full(subsets, -np.inf), *rest)

    @property
    def record(self) -> native.Record:
        return native.Packing(**{field.name: getattr(self, field.name) for field in fields(self)})

    def members(self, subset: int) -> Mask:
        return np.asarray(self.label == subset)

    def set(self, rows: Rows, subset: int, V: Array) -> None:
        """Everything about a subset whose members are known, and whose maximum is V."""
        members = np.flatnonzero(self.members(subset))
        positive = np.maximum(V, 0.0)
        self.V[subset], self.size[subset] = V, len(members)
        self.bias[subset], self.slack[subset] = rows.bias[members].max(), rows.slack[members].max()
        self.above[subset], self.norm_above[subset] = positive @ rows.distance, positive.sum()
        self.cost[subset] = cost_of(rows, members, V)

    def put(self, rows: Rows, i: int, subset: int) -> None:
        """Neuron i joins a subset, which may be empty."""
        V = rows.full(i) if self.size[subset] == 0 else np.maximum(self.V[subset], rows.full(i))
        self.label[i] = subset
        self.set(rows, subset, V)

    def without(self, rows: Rows, i: int) -> tuple[Array, Array]:
        """The maximum of i's subset without i, and the cost of what is left."""
        members = np.flatnonzero(self.members(int(self.label[i])))
        members = members[members != i]
        V = np.max([rows.full(j) for j in members], axis=0)
        return V, cost_of(rows, members, V)

    def cheapest(self, rows: Rows, i: int, subsets: int, but: int) -> tuple[int, float]:
        """The valid subset that neuron i can join at the least growth of cost, and that growth; -1 if there is none."""
        at = np.flatnonzero((self.size[:subsets] > 0) & (np.arange(subsets) != but))
        total, norm = joined(rows, i, self.V[at], self.above[at], self.norm_above[at])
        potential = total + np.maximum(self.bias[at], rows.bias[i])
        valid = potential <= -2 * np.maximum(self.slack[at], rows.slack[i])
        if not valid.any():
            return -1, np.inf
        growth = np.where(valid, cost(self.size[at].astype(np.float64) + 1.0, norm, potential) - self.cost[at], np.inf)
        return int(at[growth.argmin()]), float(growth.min())


def cost_of(rows: Rows, members: Integers, V: Array) -> Array:
    potential = rows.potential[members[0]] if len(members) == 1 else V @ rows.distance + rows.bias[members].max()
    return cost(float(len(members)), np.abs(V).sum(), potential)


def place(rows: Rows, order: Integers) -> Integers:
    """Each neuron in turn joins the cheapest valid subset, or opens one where none is valid."""
    packing, subsets = Packing.empty(len(order), len(order), len(rows.distance)), 0
    if native.available():
        native.call("place", rows.record, np.array(order, dtype=np.int64), packing.record)
        return packing.label
    for i in map(int, order):
        subset, _ = packing.cheapest(rows, i, subsets, -1)
        packing.put(rows, i, subsets if subset < 0 else subset)
        subsets += subset < 0
    return packing.label


def pack(rows: Rows, label: Integers, subsets: int) -> Packing:
    """The packing of a given partition."""
    packing = Packing.empty(len(label), subsets, len(rows.distance))
    for i, subset in enumerate(label):
        packing.put(rows, i, int(subset))
    return packing


def gains(rows: Rows, label: Integers, subsets: int) -> Array:
    """How much cost is saved when each neuron alone becomes a singleton."""
    saved, columns = np.zeros(len(label)), len(rows.distance)
    if native.available():
        packing, scratch = Packing.empty(len(label), subsets, columns), (np.zeros(columns), np.zeros(columns, np.int64))
        native.call("gains", rows.record, label, packing.record, saved, *scratch)
        return saved
    packing = pack(rows, label, subsets)
    for i in map(int, np.flatnonzero(packing.size[label] > 1)):
        alone = cost_of(rows, np.array([i]), rows.stored(i)[1])
        saved[i] = packing.cost[label[i]] - packing.without(rows, i)[1] - alone
    return saved


def move(rows: Rows, label: Integers, subsets: int) -> Integers:
    """One sweep: each neuron that is not alone goes to the subset where the sum of costs falls most."""
    columns = len(rows.distance)
    if native.available():
        packing, scratch = Packing.empty(len(label), subsets, columns), (np.zeros(columns), np.zeros(columns, np.int64))
        native.call("move", rows.record, label, subsets, packing.record, *scratch)
        return packing.label
    packing = pack(rows, label, subsets)
    for i in range(len(label)):
        old = int(packing.label[i])
        new, growth = packing.cheapest(rows, i, subsets, old) if packing.size[old] > 1 else (-1, np.inf)
        if new < 0 or growth >= packing.cost[old]:
            continue
        V, rest = packing.without(rows, i)
        if growth < (1 - EARLIEST) * (packing.cost[old] - rest):
            packing.label[i] = -1
            packing.set(rows, old, V)
            packing.put(rows, i, new)
    return packing.label
