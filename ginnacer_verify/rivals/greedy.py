"""Elboher's greedy merging, in C (`native/partition.c`) or numpy.

In every step the two rows of one kind that differ least, in the largest difference of their entries, are merged by the
larger of each two entries. Every row remembers which other one is nearest, so that a step looks again only at rows
whose nearest one has moved away from them. In C two rows are compared first where either is largest: rows of a
convolution that look at different places then need no second look. Rows that are mostly 0 are compared only where they
are not.
"""

import numpy as np

from ginnacer_verify import native
from ginnacer_verify.abstraction.partitioning.first_fit import Integers
from ginnacer_verify.arrays import Array

FULL = 8
"""A row with more than one non-zero in so many entries is read from end to end."""


def merge(rows: Array, kind: Integers, count: int) -> Integers:
    """The number of each row's subset after merging down to `count` rows, or to one of each kind. Changes `rows`.

    Rows of one kind are next to each other."""
    n, columns = rows.shape
    first, last = (np.searchsorted(kind, kind, side) for side in ("left", "right"))
    if not native.available():
        return _merge(rows, first, last, count)
    room, numbers = columns // FULL, np.zeros((3, n), dtype=np.int64)
    table = native.Table(
        count=n,
        columns=columns,
        room=room,
        rows=rows,
        distance=np.zeros(n),
        first=first,
        last=last,
        peak=numbers[0],
        stored=numbers[1],
        column=np.zeros(n * room, dtype=np.int64),
        nearest=numbers[2],
        label=(label := np.arange(n)),
        alive=np.ones(n, dtype=np.int8),
    )
    native.call("merge", table, count)
    return label


def _merge(rows: Array, first: Integers, last: Integers, count: int) -> Integers:
    n = len(rows)
    label, alive = np.arange(n), np.ones(n, dtype=np.bool_)
    nearest, distance = np.full(n, -1), np.full(n, np.inf)

    def look(i: int) -> Array:
        """How far row i is from the others of its kind; infinitely far from itself and from those that are gone."""
        among = slice(first[i], last[i])
        apart = np.where(alive[among], np.abs(rows[among] - rows[i]).max(axis=1, initial=0.0), np.inf)
        apart[i - first[i]] = np.inf
        if apart.min() < np.inf:
            nearest[i], distance[i] = first[i] + apart.argmin(), apart.min()
        else:
            nearest[i], distance[i] = -1, np.inf
        return apart

    for i in range(n):
        look(i)
    for _ in range(n - count):
        i = int(distance.argmin())
        j = nearest[i]
        if j < 0:
            break
        rows[i] = np.maximum(rows[i], rows[j])
        alive[j], nearest[j], distance[j] = False, -1, np.inf
        label[label == j] = i
        for k, apart in enumerate(look(i), start=first[i]):
            moved = nearest[k] in (i, j)
            if alive[k] and k != i and (apart < distance[k] or (moved and apart == distance[k])):
                nearest[k], distance[k] = i, apart
            elif alive[k] and k != i and moved:
                look(k)
    return label
