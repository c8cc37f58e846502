"""The compiled loop of Elboher's greedy merging. Importing this module imports numba.

In every step the two rows of one kind that differ least, in the largest difference of their entries, are merged by the
larger of each two entries. Every row remembers which other one is nearest, so that a step looks again only at rows
whose nearest one has moved away from them. Two rows are compared first where either is largest: rows of a convolution
that look at different places then need no second look.
"""

import numpy as np

from ginnacer_verify.icf import Mask
from ginnacer_verify.network import Array
from ginnacer_verify.packing import BLOCK, Integers, compiled


@compiled
def merge(rows: Array, kind: Integers, count: int) -> Integers:
    """The number of each row's subset after merging down to `count` rows, or to one of each kind. Changes `rows`.

    Rows of one kind are next to each other."""
    n = len(rows)
    label, alive = np.arange(n), np.ones(n, dtype=np.bool_)
    nearest, distance = np.full(n, -1), np.full(n, np.inf)
    first, last = ranges(kind)
    peak = np.array([np.argmax(np.abs(rows[i])) for i in range(n)], dtype=np.int64)
    for i in range(n):
        nearest[i], distance[i] = find(rows, peak, alive, i, first[i], last[i])
    left = n
    while left > count:
        i = int(np.argmin(distance))
        j = nearest[i]
        if j < 0:
            break
        for k in range(rows.shape[1]):
            rows[i, k] = max(rows[i, k], rows[j, k])
        peak[i] = np.argmax(np.abs(rows[i]))
        alive[j], distance[j], left = False, np.inf, left - 1
        label[label == j] = i
        for k in range(first[i], last[i]):
            if not alive[k]:
                continue
            moved = k == i or nearest[k] == i or nearest[k] == j
            limit = np.nextafter(distance[k], np.inf) if moved else distance[k]
            new = np.inf if k == i else apart(rows, peak, k, i, limit)
            if new < distance[k] or (moved and new == distance[k]):
                nearest[k], distance[k] = i, new
            elif moved:
                nearest[k], distance[k] = find(rows, peak, alive, k, first[k], last[k])
    return label


@compiled
def ranges(kind: Integers) -> tuple[Integers, Integers]:
    """Where the rows of each row's kind begin and end."""
    first, last = np.empty(len(kind), dtype=np.int64), np.empty(len(kind), dtype=np.int64)
    for i in range(len(kind)):
        first[i] = first[i - 1] if i and kind[i] == kind[i - 1] else i
    for i in range(len(kind) - 1, -1, -1):
        last[i] = last[i + 1] if i + 1 < len(kind) and kind[i] == kind[i + 1] else i + 1
    return first, last


@compiled
def find(rows: Array, peak: Integers, alive: Mask, i: int, first: int, last: int) -> tuple[int, float]:
    """The row nearest to row i, and how far it is; -1 if there is no other."""
    nearest, distance = -1, np.inf
    for j in range(first, last):
        if alive[j] and j != i:
            new = apart(rows, peak, i, j, distance)
            if new < distance:
                nearest, distance = j, new
    return nearest, distance


@compiled
def apart(rows: Array, peak: Integers, i: int, j: int, limit: float) -> float:
    """The largest difference of two rows' entries, or some number from `limit` on if it is not below that."""
    largest: float = max(abs(rows[i, peak[i]] - rows[j, peak[i]]), abs(rows[i, peak[j]] - rows[j, peak[j]]))
    if largest >= limit:
        return largest
    for start in range(0, rows.shape[1], BLOCK):
        for k in range(start, min(start + BLOCK, rows.shape[1])):
            largest = max(largest, abs(rows[i, k] - rows[j, k]))
        if largest >= limit:
            return largest
    return largest
