"""The compiled loop of Elboher's greedy merging. Importing this module imports numba.

In every step the two rows of one kind that differ least, in the largest difference of their entries, are merged by the
larger of each two entries. Every row remembers which other one is nearest, so that a step looks again only at rows
whose nearest one has moved away from them. Two rows are compared first where either is largest: rows of a convolution
that look at different places then need no second look. Rows that are mostly 0 are compared only where they are not.
"""

from typing import NamedTuple

import numpy as np

from ginnacer_verify.icf import Mask
from ginnacer_verify.network import Array
from ginnacer_verify.packing import BLOCK, Integers, compiled

FULL = 8
"""A row with more than one non-zero in so many entries is read from end to end."""


class Table(NamedTuple):
    """The rows; where each is largest; and for row i its `stored[i]` non-zeros, `column[start[i] : ...]`.

    `stored[i] < 0`: too many to be worth a list."""

    rows: Array
    peak: Integers
    start: Integers
    stored: Integers
    column: Integers


@compiled
def merge(rows: Array, kind: Integers, count: int) -> Integers:
    """The number of each row's subset after merging down to `count` rows, or to one of each kind. Changes `rows`.

    Rows of one kind are next to each other."""
    n = len(rows)
    label, alive = np.arange(n), np.ones(n, dtype=np.bool_)
    nearest, distance = np.full(n, -1), np.full(n, np.inf)
    first, last = ranges(kind)
    table = listed(rows)
    for i in range(n):
        nearest[i], distance[i] = find(table, alive, i, first[i], last[i])
    left = n
    while left > count:
        i = int(np.argmin(distance))
        j = nearest[i]
        if j < 0:
            break
        join(table, i, j)
        alive[j], distance[j], left = False, np.inf, left - 1
        label[label == j] = i
        for k in range(first[i], last[i]):
            if not alive[k]:
                continue
            moved = k == i or nearest[k] == i or nearest[k] == j
            limit = np.nextafter(distance[k], np.inf) if moved else distance[k]
            new = np.inf if k == i else apart(table, k, i, limit)
            if new < distance[k] or (moved and new == distance[k]):
                nearest[k], distance[k] = i, new
            elif moved:
                nearest[k], distance[k] = find(table, alive, k, first[k], last[k])
    return label


@compiled
def listed(rows: Array) -> Table:
    """The table of some rows; each has room for as many non-zeros as it can have before it is read from end to end."""
    n, room = len(rows), rows.shape[1] // FULL
    table = Table(rows, np.zeros(n, np.int64), np.arange(n) * room, np.zeros(n, np.int64), np.zeros(n * room, np.int64))
    for i in range(n):
        note(table, i)
    return table


@compiled
def note(table: Table, i: int) -> None:
    """Write down where row i is largest, and where it is not 0."""
    row, room, found = table.rows[i], table.rows.shape[1] // FULL, 0
    table.peak[i] = np.argmax(np.abs(row))
    for k in range(len(row)):
        if row[k] != 0:
            if found == room:
                table.stored[i] = -1
                return
            table.column[table.start[i] + found] = k
            found += 1
    table.stored[i] = found


@compiled
def join(table: Table, i: int, j: int) -> None:
    """Row i becomes the larger of rows i and j, entry by entry."""
    for k in range(table.rows.shape[1]):
        table.rows[i, k] = max(table.rows[i, k], table.rows[j, k])
    note(table, i)


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
def find(table: Table, alive: Mask, i: int, first: int, last: int) -> tuple[int, float]:
    """The row nearest to row i, and how far it is; -1 if there is no other."""
    nearest, distance = -1, np.inf
    for j in range(first, last):
        if alive[j] and j != i:
            new = apart(table, i, j, distance)
            if new < distance:
                nearest, distance = j, new
    return nearest, distance


@compiled
def apart(table: Table, i: int, j: int, limit: float) -> float:
    """The largest difference of two rows' entries, or some number from `limit` on if it is not below that."""
    rows, peak = table.rows, table.peak
    largest: float = max(abs(rows[i, peak[i]] - rows[j, peak[i]]), abs(rows[i, peak[j]] - rows[j, peak[j]]))
    if largest >= limit:
        return largest
    if table.stored[i] >= 0 and table.stored[j] >= 0:
        for row in (i, j):
            for p in range(table.start[row], table.start[row] + table.stored[row]):
                k = table.column[p]
                largest = max(largest, abs(rows[i, k] - rows[j, k]))
                if largest >= limit:
                    return largest
        return largest
    for start in range(0, rows.shape[1], BLOCK):
        for k in range(start, min(start + BLOCK, rows.shape[1])):
            largest = max(largest, abs(rows[i, k] - rows[j, k]))
        if largest >= limit:
            return largest
    return largest
