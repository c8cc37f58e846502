"""Subsets of neurons that share one ReLU: what a partition is, its upper bound, and when it is valid."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ginnacer_verify.abstraction.icf import ICF, Mask
from ginnacer_verify.arrays import Array, Weight, compact, read_only
from ginnacer_verify.errors import AbstractionError


@dataclass(frozen=True)
class Partition:
    """The neurons 0 .. n-1 of a layer in disjoint subsets, each sorted, in the order of their first members.

    Paper: Valid Neuron Partition, without the validity: that depends on the centroid (`is_valid`)."""

    subsets: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        subsets = tuple(sorted(tuple(sorted(subset)) for subset in self.subsets))
        neurons = sorted(neuron for subset in subsets for neuron in subset)
        if neurons != list(range(len(neurons))) or () in subsets:
            raise AbstractionError("a partition needs every neuron of the layer in exactly one subset, none empty")
        object.__setattr__(self, "subsets", subsets)

    @classmethod
    def of(cls, labels: Iterable[int]) -> "Partition":
        """The neurons with the same label together."""
        subsets: dict[int, list[int]] = {}
        for neuron, label in enumerate(labels):
            subsets.setdefault(int(label), []).append(neuron)
        return cls(tuple(tuple(subset) for subset in subsets.values()))

    def __len__(self) -> int:
        return len(self.subsets)

    @property
    def neurons(self) -> int:
        return len(self.subset_of)

    @cached_property
    def subset_of(self) -> NDArray[np.intp]:
        """The number of each neuron's subset: the paper's reconstruction matrix P, one index per row."""
        numbers = np.empty(sum(map(len, self.subsets)), dtype=np.intp)
        for number, subset in enumerate(self.subsets):
            numbers[list(subset)] = number
        numbers.setflags(write=False)
        return numbers

    def split(self, number: int, members: Sequence[int]) -> "Partition":
        """A finer partition: `members` leave subset `number` and form one of their own."""
        rest = set(self.subsets[number]) - set(members)
        if not rest or not members or not set(members) <= set(self.subsets[number]):
            raise AbstractionError(f"a split takes some but not all of the members of subset {number} out of it")
        others = self.subsets[:number] + self.subsets[number + 1 :]
        return Partition((*others, tuple(rest), tuple(members)))


@dataclass(frozen=True, eq=False)
class UpperBound:
    """`r_i <= bias_D + weight_D @ |x - anchor|` for all i of subset D; `potential` is a bound of it at the centroid.

    Paper: Upper Bound, Layer-Wise Upper Bound; weight = V, bias = u, potential = rhat at the centroid."""

    weight: Weight
    bias: Array
    potential: Array


def upper_bound(icf: ICF, partition: Partition) -> UpperBound:
    """The largest weight and bias of each subset.

    Paper: Layer-Wise Upper Bound. Departs from it: `potential` is rounded upwards, and for a singleton it is the
    neuron's own. Test: test_partition.py::test_layer_wise_upper_bound."""
    if partition.neurons != icf.neurons:
        raise AbstractionError(f"a partition of {partition.neurons} neurons does not fit a layer of {icf.neurons}")
    order = np.argsort(partition.subset_of, kind="stable")
    starts = np.cumsum([0] + [len(subset) for subset in partition.subsets[:-1]])
    largest = dense_maximum if isinstance(icf.rows, np.ndarray) else sparse_maximum
    weight = largest(icf.rows, order, starts)
    bias = np.maximum.reduceat(icf.bias[order], starts)
    shared = np.asarray(weight @ icf.distance) + bias + np.maximum.reduceat(icf.slack[order], starts)
    alone = np.diff([*starts, icf.neurons]) == 1
    return UpperBound(weight, read_only(bias), read_only(np.where(alone, icf.potential[order[starts]], shared)))


def valid_subsets(icf: ICF, partition: Partition) -> Mask:
    """Which subsets have a potential of at most 0 at the centroid, whatever way the sum is rounded.

    Paper: Valid Neuron Subset. Departs from it: a subset whose potential is 0 up to rounding errors counts as invalid
    unless it is a singleton. Test: test_partition.py::test_valid_neuron_subset."""
    return np.asarray(upper_bound(icf, partition).potential <= 0)


def is_valid(icf: ICF, partition: Partition) -> bool:
    """Paper: Valid Neuron Partition. Test: test_partition.py::test_valid_neuron_partition."""
    return bool(valid_subsets(icf, partition).all())


def dense_maximum(rows: Array, order: NDArray[np.intp], starts: NDArray[np.intp]) -> Weight:
    return compact(np.maximum.reduceat(rows[order], starts, axis=0))


def sparse_maximum(rows: csr_array, order: NDArray[np.intp], starts: NDArray[np.intp]) -> Weight:
    """As `dense_maximum`; a column that some member does not store counts as 0 there."""
    sizes = np.diff([*starts, rows.shape[0]])
    sorted_rows = rows[order].tocoo()
    subset = np.repeat(np.arange(len(starts)), sizes)[sorted_rows.coords[0]]
    column = sorted_rows.coords[1]
    by_place = np.lexsort((column, subset))
    subset, column, values = subset[by_place], column[by_place], sorted_rows.data[by_place]
    if not len(values):
        return compact(csr_array((len(starts), rows.shape[1])))
    first = np.flatnonzero(np.r_[True, (np.diff(subset) != 0) | (np.diff(column) != 0)])
    largest = np.maximum.reduceat(values, first)
    stored = np.diff([*first, len(values)])
    subset, column = subset[first], column[first]
    largest = np.where(stored < sizes[subset], np.maximum(largest, 0.0), largest)
    return compact(csr_array((largest, (subset, column)), shape=(len(starts), rows.shape[1])))
