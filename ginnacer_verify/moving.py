"""Partitions of little margin: the compiled loops that place and move single neurons. Importing this imports numba."""

from typing import NamedTuple

import numpy as np

from ginnacer_verify.network import Array
from ginnacer_verify.packing import Integers, Rows, compiled, joined, take

EARLIEST = 1e-9
"""Distances below this count as this one: keeps costs finite for neurons that are on the point of turning active."""


@compiled
def cost(size: float, norm: float, potential: float) -> float:
    """How much a subset adds to the margin: its size, times its slope, over the distance at which it turns active.

    Up to the distance -potential / norm its ReLU is off; beyond, it lifts all its members with slope `norm`."""
    if norm == 0.0:
        return 0.0
    return size * norm / (max(-potential, 0.0) / norm + EARLIEST)


class Packing(NamedTuple):
    """A partition in the making: per subset its size, V, bias, slack, cost, and the sums of max(V, 0) for `joined`."""

    label: Integers
    size: Integers
    V: Array
    bias: Array
    slack: Array
    cost: Array
    above: Array
    norm_above: Array


@compiled
def empty(neurons: int, subsets: int, columns: int) -> Packing:
    return Packing(
        np.full(neurons, -1, dtype=np.int64),
        np.zeros(subsets, dtype=np.int64),
        np.zeros((subsets, columns)),
        np.full(subsets, -np.inf),
        np.zeros(subsets),
        np.zeros(subsets),
        np.zeros(subsets),
        np.zeros(subsets),
    )


@compiled
def put(rows: Rows, packing: Packing, i: int, subset: int) -> None:
    """Neuron i joins a subset, which may be empty."""
    V = packing.V[subset]
    if packing.size[subset] == 0:
        V[:] = 0.0
        for p in range(rows.start[i], rows.start[i + 1]):
            V[rows.column[p]] = rows.value[p]
    else:
        take(rows, i, V)
    packing.label[i] = subset
    packing.size[subset] += 1
    packing.bias[subset] = max(packing.bias[subset], rows.bias[i])
    packing.slack[subset] = max(packing.slack[subset], rows.slack[i])
    weigh(rows, packing, subset, i)


@compiled
def weigh(rows: Rows, packing: Packing, subset: int, member: int) -> None:
    """The sums and the cost of a subset, after its V has changed; `member` is one of it."""
    V = packing.V[subset]
    total, above, norm, norm_above = 0.0, 0.0, 0.0, 0.0
    for k in range(len(V)):
        total += V[k] * rows.distance[k]
        norm += abs(V[k])
        if V[k] > 0:
            above += V[k] * rows.distance[k]
            norm_above += V[k]
    packing.above[subset], packing.norm_above[subset] = above, norm_above
    potential = rows.potential[member] if packing.size[subset] == 1 else total + packing.bias[subset]
    packing.cost[subset] = cost(packing.size[subset], norm, potential)


@compiled
def without(rows: Rows, packing: Packing, i: int, V: Array, missing: Integers) -> tuple[int, float]:
    """V becomes that of i's subset without i; how many members and what cost are left. `missing` is scratch space.

    Only the columns that a member stores are looked at, so V must be 0 elsewhere; see `forget`."""
    subset, size, bias, last = packing.label[i], 0, -np.inf, -1
    for j in range(len(packing.label)):
        if packing.label[j] == subset and j != i:
            for p in range(rows.start[j], rows.start[j + 1]):
                k = rows.column[p]
                V[k] = rows.value[p] if missing[k] == 0 else max(V[k], rows.value[p])
                missing[k] += 1
            size, bias, last = size + 1, max(bias, rows.bias[j]), j
    total, norm = bias, 0.0
    for j in range(len(packing.label)):
        if packing.label[j] == subset and j != i:
            for p in range(rows.start[j], rows.start[j + 1]):
                k = rows.column[p]
                if missing[k] > 0:  # the first time that we come by
                    if missing[k] < size:
                        V[k] = max(V[k], 0.0)
                    missing[k] = 0
                    total, norm = total + V[k] * rows.distance[k], norm + abs(V[k])
    return size, cost(size, norm, rows.potential[last] if size == 1 else total)


@compiled
def forget(rows: Rows, packing: Packing, subset: int, V: Array) -> None:
    """V becomes 0 again."""
    for j in range(len(packing.label)):
        if packing.label[j] == subset:
            for p in range(rows.start[j], rows.start[j + 1]):
                V[rows.column[p]] = 0.0


@compiled
def remove(rows: Rows, packing: Packing, i: int, V: Array) -> None:
    """Neuron i leaves its subset, whose maximum without it is V."""
    subset = packing.label[i]
    packing.V[subset] = V
    packing.label[i] = -1
    packing.size[subset] -= 1
    packing.bias[subset], packing.slack[subset], last = -np.inf, 0.0, -1
    for j in range(len(packing.label)):
        if packing.label[j] == subset:
            packing.bias[subset] = max(packing.bias[subset], rows.bias[j])
            packing.slack[subset] = max(packing.slack[subset], rows.slack[j])
            last = j
    weigh(rows, packing, subset, last)


@compiled
def cheapest(rows: Rows, packing: Packing, i: int, subsets: int, but: int) -> tuple[int, float]:
    """The valid subset that neuron i can join at the smallest growth of cost, and that growth; -1 if there is none."""
    best, smallest = -1, np.inf
    for subset in range(subsets):
        if subset == but or packing.size[subset] == 0:
            continue
        total, norm = joined(rows, i, packing.V[subset], packing.above[subset], packing.norm_above[subset])
        potential = total + max(packing.bias[subset], rows.bias[i])
        if potential <= -2 * max(packing.slack[subset], rows.slack[i]):
            growth = cost(packing.size[subset] + 1, norm, potential) - packing.cost[subset]
            if growth < smallest:
                best, smallest = subset, growth
    return best, smallest


@compiled
def place(rows: Rows, order: Integers) -> Integers:
    """Each neuron in turn joins the cheapest valid subset, or opens one where none is valid."""
    packing = empty(len(order), len(order), len(rows.distance))
    subsets = 0
    for i in order:
        subset, _ = cheapest(rows, packing, i, subsets, -1)
        if subset < 0:
            subset = subsets
            subsets += 1
        put(rows, packing, i, subset)
    return packing.label


@compiled
def pack(rows: Rows, label: Integers, subsets: int) -> Packing:
    """The packing of a given partition."""
    packing = empty(len(label), subsets, len(rows.distance))
    for i in range(len(label)):
        put(rows, packing, i, label[i])
    return packing


@compiled
def own_cost(rows: Rows, i: int) -> float:
    """The cost of neuron i as a singleton."""
    return cost(1.0, np.sum(np.abs(rows.value[rows.start[i] : rows.start[i + 1]])), rows.potential[i])


@compiled
def gains(rows: Rows, label: Integers, subsets: int) -> Array:
    """How much cost is saved when each neuron alone becomes a singleton."""
    packing = pack(rows, label, subsets)
    saved, V, missing = np.zeros(len(label)), np.zeros(len(rows.distance)), np.zeros(len(rows.distance), dtype=np.int64)
    for i in range(len(label)):
        if packing.size[label[i]] > 1:
            _, rest = without(rows, packing, i, V, missing)
            saved[i] = packing.cost[label[i]] - rest - own_cost(rows, i)
            forget(rows, packing, label[i], V)
    return saved


@compiled
def move(rows: Rows, label: Integers, subsets: int) -> Integers:
    """One sweep: each neuron that is not alone goes to the subset where the sum of costs falls most."""
    packing = pack(rows, label, subsets)
    V, missing = np.zeros(len(rows.distance)), np.zeros(len(rows.distance), dtype=np.int64)
    for i in range(len(label)):
        old = packing.label[i]
        if packing.size[old] == 1:
            continue
        new, growth = cheapest(rows, packing, i, subsets, old)
        if new < 0 or growth >= packing.cost[old]:
            continue
        _, rest = without(rows, packing, i, V, missing)
        if growth < (1 - EARLIEST) * (packing.cost[old] - rest):
            remove(rows, packing, i, V)
            put(rows, packing, i, new)
        forget(rows, packing, old, V)
    return packing.label
