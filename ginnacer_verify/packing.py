"""The compiled inner loops of the partition strategies. Importing this module imports numba.

All of them see a layer through `Rows`: its ICF with the rows in compressed form. Two facts make them fast.

A subset D that takes in neuron i changes only where row i is stored; elsewhere i has a 0, so V becomes max(V, 0). With
the sum over max(V, 0) kept per subset, the potential and the 1-norm of D with i cost one pass over row i (`joined`).

V only grows, so a neuron that once made D invalid always will: one pass over the candidates is enough (`grow`).

Every test leaves twice the slack, so that what is accepted here is valid in `is_valid` whatever the order of its sums.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ginnacer_verify.icf import Mask
from ginnacer_verify.network import Array

Integers = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., object])

BLOCK = 16
"""How many columns of a dense row are added up between two looks at the sum."""


def compiled(function: Function) -> Function:
    return cast(Function, njit(cache=True)(function))


class Rows(NamedTuple):
    """Row i is `value[start[i] : start[i + 1]]` in the columns `column[...]`; the rest as in ICF."""

    start: Integers
    column: Integers
    value: Array
    bias: Array
    distance: Array
    potential: Array
    slack: Array


@compiled
def fit(rows: Rows, order: Integers) -> Integers:
    """Each neuron of `order` that is left begins a subset, which tries those behind it: the number of each's subset."""
    label, rest, subsets = np.empty(len(order), dtype=np.int64), order, 0
    while len(rest):
        accepted = grow(rows, rest[0], rest[1:])
        label[rest[0]] = subsets
        label[rest[1:][accepted]] = subsets
        rest = rest[1:][~accepted]
        subsets += 1
    return label


@compiled
def grow(rows: Rows, seed: int, candidates: Integers) -> Mask:
    """Which candidates a subset takes in that begins with `seed` and tries them one after the other."""
    accepted = np.zeros(len(candidates), dtype=np.bool_)
    V = np.zeros(len(rows.distance))
    for p in range(rows.start[seed], rows.start[seed + 1]):
        V[rows.column[p]] = rows.value[p]
    bias, slack = rows.bias[seed], rows.slack[seed]
    total, above = np.sum(V * rows.distance), np.sum(np.maximum(V, 0.0) * rows.distance)
    for place in range(len(candidates)):
        i = candidates[place]
        limit = -2 * max(slack, rows.slack[i]) - max(bias, rows.bias[i])
        if not stays_below(rows, i, V, total, above, limit):
            continue
        accepted[place] = True
        bias, slack = max(bias, rows.bias[i]), max(slack, rows.slack[i])
        take(rows, i, V)
        total, above = np.sum(V * rows.distance), np.sum(np.maximum(V, 0.0) * rows.distance)
    return accepted


@compiled
def stays_below(rows: Rows, i: int, V: Array, total: float, above: float, limit: float) -> bool:
    """Whether the maximum of V and row i, times the distances, is at most `limit`."""
    row = rows.value[rows.start[i] : rows.start[i + 1]]
    if len(row) < len(V):
        for p in range(rows.start[i], rows.start[i + 1]):
            v = V[rows.column[p]]
            above += (max(v, rows.value[p]) - max(v, 0.0)) * rows.distance[rows.column[p]]
        return above <= limit
    for first in range(0, len(row), BLOCK):  # a full row only adds, so stop as soon as it is too much
        for j in range(first, min(first + BLOCK, len(row))):
            total += max(row[j] - V[j], 0.0) * rows.distance[j]
        if total > limit:
            return False
    return total <= limit


@compiled
def take(rows: Rows, i: int, V: Array) -> None:
    """V becomes the maximum of V and row i."""
    p, stop = rows.start[i], rows.start[i + 1]
    for j in range(len(V)):
        if p < stop and rows.column[p] == j:
            V[j] = max(V[j], rows.value[p])
            p += 1
        else:
            V[j] = max(V[j], 0.0)


@compiled
def joined(rows: Rows, i: int, V: Array, above: float, norm_above: float) -> tuple[float, float]:
    """V @ distance and the 1-norm of the maximum of V and row i; `above` and `norm_above` are those of max(V, 0)."""
    total, norm = above, norm_above
    for p in range(rows.start[i], rows.start[i + 1]):
        v = V[rows.column[p]]
        largest = max(v, rows.value[p])
        total += (largest - max(v, 0.0)) * rows.distance[rows.column[p]]
        norm += abs(largest) - max(v, 0.0)
    return total, norm


@compiled
def conflicts(rows: Rows) -> Mask:
    """Which pairs of neurons are invalid beyond any rounding error: no valid subset holds both."""
    n = len(rows.bias)
    found = np.zeros((n, n), dtype=np.bool_)
    for i in range(n):
        V = np.zeros(len(rows.distance))
        for p in range(rows.start[i], rows.start[i + 1]):
            V[rows.column[p]] = rows.value[p]
        above = np.sum(np.maximum(V, 0.0) * rows.distance)
        for j in range(i + 1, n):
            total, _ = joined(rows, j, V, above, 0.0)
            if total + max(rows.bias[i], rows.bias[j]) > 2 * max(rows.slack[i], rows.slack[j]):
                found[i, j] = found[j, i] = True
    return found
