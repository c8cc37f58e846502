"""Partition strategies: plain functions from the ICF of a layer to a valid partition of its neurons.

The paper's appendix "Neuron Partition Strategy" takes the first fit in index order. Here:

    first_fit    the paper's Algorithm "Valid Neuron Partition", to the letter
    random       first fit in a random order
    cosine       first fit where each subset tries the rows most similar to its first one first
    best_fit     neurons nearest to turning active first, each to the subset where it adds the least margin
    budget(k)    best fit, spread over k subsets and improved by moving single neurons
    singletons   every neuron keeps its own ReLU
"""

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.abstraction.icf import ICF, scaled
from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.arrays import Array, Weight, dense
from ginnacer_verify.errors import AbstractionError

if TYPE_CHECKING:
    from ginnacer_verify.abstraction.partitioning.first_fit import Rows

Strategy = Callable[[ICF], Partition]
Integers = NDArray[np.int64]

SWEEPS = 20
"""How often `budget` goes over all neurons at most; most layers settle after 3 to 6 sweeps."""


def singletons(icf: ICF) -> Partition:
    """Every neuron alone."""
    return Partition.of(range(icf.neurons))


def first_fit(icf: ICF) -> Partition:
    """The first neuron that is left takes in every later one with which it stays valid, and so on.

    Paper: Algorithm "Valid Neuron Partition". Departs from it: sums only the columns where the centroid is not 0, and
    tests validity as `is_valid` does. Test: test_partition.py::test_algorithm_valid_neuron_partition."""
    from ginnacer_verify.abstraction.partitioning import first_fit as packing

    return Partition.of(packing.fit(_rows(icf, only_moving=True), np.arange(icf.neurons)))


def random(icf: ICF, seed: int = 0) -> Partition:
    """First fit in a random order."""
    from ginnacer_verify.abstraction.partitioning import first_fit as packing

    order = np.random.default_rng(seed).permutation(icf.neurons)
    return Partition.of(packing.fit(_rows(icf, only_moving=True), order))


def cosine(icf: ICF) -> Partition:
    """First fit where each subset tries the rows at the smallest angle to its first one first."""
    from ginnacer_verify.abstraction.partitioning import first_fit as packing

    rows, label = _rows(icf, only_moving=True), np.full(icf.neurons, -1)
    norms = np.sqrt(np.asarray((icf.rows * icf.rows).sum(axis=1)))
    units = scaled(icf.rows, 1 / np.where(norms > 0, norms, 1.0), np.ones(len(icf.distance)))
    for seed in range(icf.neurons):
        if label[seed] < 0:
            rest = np.flatnonzero(label < 0)
            similarity = np.asarray(units @ dense(units[[seed]])[0])[rest]
            similarity[rest == seed] = np.inf
            rest = rest[np.argsort(-similarity, kind="stable")]
            label[rest[1:][packing.grow(rows, seed, rest[1:])]] = seed
            label[seed] = seed
    return Partition.of(label)


def best_fit(icf: ICF) -> Partition:
    """Neurons in the order of their potentials, nearest to 0 first, each to the valid subset that grows least in cost.

    The hardest to place come first, as in bin packing; the cost is that of `moving.cost`."""
    from ginnacer_verify.abstraction.partitioning import local_search as moving

    return Partition.of(moving.place(_rows(icf), np.argsort(-icf.potential, kind="stable")))


def budget(subsets: int) -> Strategy:
    """At most `subsets` subsets, or as few as the other strategies find if these are more, with the least margin."""
    if subsets < 1:
        raise AbstractionError(f"a layer cannot have {subsets} subsets; ask for one or more")

    def best_margin(icf: ICF) -> Partition:
        start = min(best_fit(icf), first_fit(icf), key=len)
        rows = _rows(icf)
        return Partition.of(_moved(rows, _spread(rows, start.subset_of.astype(np.int64), subsets)))

    return best_margin


def lower_bound_on_subsets(icf: ICF, tries: int = 32) -> int:
    """A number of subsets that no valid partition can go below: the size of a clique of pairwise invalid neurons.

    Answers the paper's question whether its "compressibility limit" lies in the network or in the strategy."""
    from ginnacer_verify.abstraction.partitioning import first_fit as packing

    conflict = packing.conflicts(_rows(icf, only_moving=True))
    likely = np.argsort(-conflict.sum(axis=1), kind="stable")[:tries]
    return max(_clique(conflict, int(first)) for first in likely)


def _clique(conflict: NDArray[np.bool_], first: int) -> int:
    """The size of a clique around `first`, grown by the neuron that leaves most others to choose from."""
    size, left = 1, np.flatnonzero(conflict[first])
    while len(left):
        among = conflict[np.ix_(left, left)]
        left = left[among[np.argmax(among.sum(axis=1))]]
        size += 1
    return size


def _spread(rows: "Rows", label: Integers, subsets: int) -> Integers:
    """Neurons made singletons until `subsets` are used: in each round those that save most, one of a subset at most,
    for half of what is left, since every one changes what its subset saves by the next."""
    from ginnacer_verify.abstraction.partitioning import local_search as moving

    while (used := int(label.max()) + 1) < subsets:
        saved = moving.gains(rows, label, used)
        by_subset = np.lexsort((-saved, label))
        best = by_subset[np.r_[True, np.diff(label[by_subset]) != 0]]
        best = best[np.argsort(-saved[best], kind="stable")][: (subsets - used + 1) // 2]
        best = best[saved[best] > 0]
        if not len(best):
            break
        label = label.copy()
        label[best] = used + np.arange(len(best))
    return label


def _moved(rows: "Rows", label: Integers) -> Integers:
    from ginnacer_verify.abstraction.partitioning import local_search as moving

    for _ in range(SWEEPS):
        before, label = label, moving.move(rows, label, int(label.max()) + 1)
        if (before == label).all():
            break
    return label


def _rows(icf: ICF, *, only_moving: bool = False) -> "Rows":
    """The ICF for the compiled loops; `only_moving`: without the columns where the distance is 0."""
    from ginnacer_verify.abstraction.partitioning import first_fit as packing

    columns = np.flatnonzero(icf.distance) if only_moving else np.arange(len(icf.distance))
    start, column, value = compressed(icf.rows, columns)
    return packing.Rows(start, column, value, icf.bias, icf.distance[columns], icf.potential, icf.slack)


def compressed(weight: Weight, columns: NDArray[np.intp]) -> tuple[Integers, Integers, Array]:
    """Some columns of a matrix, row by row: where each row starts, the columns and the values that it stores."""
    rows = weight[:, columns]
    if isinstance(rows, np.ndarray):
        start = np.arange(len(rows) + 1, dtype=np.int64) * len(columns)
        return start, np.tile(np.arange(len(columns), dtype=np.int64), len(rows)), rows.ravel()
    rows.sort_indices()
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data


NAMED: dict[str, Strategy] = {
    "first-fit": first_fit,
    "best-fit": best_fit,
    "cosine": cosine,
    "random": random,
    "singletons": singletons,
}
"""The strategies that need no number, by the names that users give them."""

GROUP = "ginnacer_verify.strategies"
"""The entry points by which other packages announce strategies."""


@cache
def _announced() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def strategy_names() -> tuple[str, ...]:
    """Every strategy that can be named."""
    return (*NAMED, *(name for name in _announced() if name not in NAMED))


def named(text: str) -> Strategy:
    """The strategy of a name, with dashes or underscores."""
    for name in (text, text.replace("_", "-")):
        if name in NAMED:
            return NAMED[name]
        if name in _announced():
            found: Strategy = _announced()[name].load()
            return found
    raise AbstractionError(f"there is no strategy {text!r}; choose one of {', '.join(strategy_names())}, budget=K")
