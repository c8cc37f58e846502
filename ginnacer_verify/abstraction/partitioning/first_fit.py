"""The inner loops of the partition strategies: in C where that is built (`native/partition.c`), else in numpy.

All of them see a layer through `Rows`: its ICF with the rows in compressed form. A subset D that takes in neuron i
changes only where row i is stored; elsewhere i has a 0, so V becomes max(V, 0). V only grows, so a neuron that once
made D invalid always will: one pass over the candidates is enough (`grow`).

Every test leaves twice the slack, so that what is accepted here is valid in `is_valid` whatever the order of its sums.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify import native
from ginnacer_verify.abstraction.icf import Mask
from ginnacer_verify.arrays import Array

Integers = NDArray[np.int64]


class Rows(NamedTuple):
    """Row i is `value[start[i] : start[i + 1]]` in the columns `column[...]`; the rest as in ICF."""

    start: Integers
    column: Integers
    value: Array
    bias: Array
    distance: Array
    potential: Array
    slack: Array

    @property
    def record(self) -> native.Record:
        return native.Rows(neurons=len(self.bias), columns=len(self.distance), **self._asdict())

    def stored(self, i: int) -> tuple[Integers, Array]:
        """The columns and the values that row i stores."""
        at = slice(self.start[i], self.start[i + 1])
        return self.column[at], self.value[at]

    def full(self, i: int) -> Array:
        """Row i with its zeros."""
        row = np.zeros(len(self.distance))
        column, value = self.stored(i)
        row[column] = value
        return row


def fit(rows: Rows, order: Integers) -> Integers:
    """Each neuron of `order` that is left begins a subset, which tries those behind it: the number of each's subset."""
    label, rest, subset = np.empty(len(order), dtype=np.int64), np.array(order, dtype=np.int64), 0
    if native.available():
        accepted, V = np.empty(len(order), dtype=np.int8), np.empty(len(rows.distance))
        native.call("fit", rows.record, rest, len(rest), label, accepted, V)
        return label
    while len(rest):
        taken = np.r_[True, grow(rows, int(rest[0]), rest[1:])]
        label[rest[taken]] = subset
        rest, subset = rest[~taken], subset + 1
    return label


def grow(rows: Rows, seed: int, candidates: Integers) -> Mask:
    """Which candidates a subset takes in that begins with `seed` and tries them one after the other."""
    accepted = np.zeros(len(candidates), dtype=np.bool_)
    if native.available():
        V, order = np.empty(len(rows.distance)), np.array(candidates, dtype=np.int64)
        native.call("grow", rows.record, seed, order, len(order), accepted.view(np.int8), V)
        return accepted
    V, bias, slack = rows.full(seed), rows.bias[seed], rows.slack[seed]
    above = np.maximum(V, 0.0) @ rows.distance
    for place, i in enumerate(candidates):
        limit = -2 * max(slack, rows.slack[i]) - max(bias, rows.bias[i])
        if joined(rows, i, V, above, 0.0)[0] <= limit:
            accepted[place] = True
            bias, slack = max(bias, rows.bias[i]), max(slack, rows.slack[i])
            V = np.maximum(V, rows.full(i))
            above = np.maximum(V, 0.0) @ rows.distance
    return accepted


def joined(rows: Rows, i: int, V: Array, above: Array | float, norm_above: Array | float) -> tuple[Array, Array]:
    """V @ distance and the 1-norm of the maximum of V and row i; `above` and `norm_above` are those of max(V, 0).

    For one V, or for each row of several."""
    column, value = rows.stored(i)
    v = V[..., column]
    largest, positive = np.maximum(v, value), np.maximum(v, 0.0)
    norm = norm_above + (np.abs(largest) - positive).sum(axis=-1)
    return above + (largest - positive) @ rows.distance[column], norm


def conflicts(rows: Rows) -> Mask:
    """Which pairs of neurons are invalid beyond any rounding error: no valid subset holds both."""
    n = len(rows.bias)
    found = np.zeros((n, n), dtype=np.bool_)
    if native.available():
        native.call("conflicts", rows.record, found.view(np.int8), np.empty(len(rows.distance)))
        return found
    full = np.stack([rows.full(i) for i in range(n)])
    above = np.maximum(full, 0.0) @ rows.distance
    for i in range(n):
        potential = joined(rows, i, full, above, 0.0)[0] + np.maximum(rows.bias, rows.bias[i])
        found[i] = potential > 2 * np.maximum(rows.slack, rows.slack[i])
        found[i, i] = False
    return found
