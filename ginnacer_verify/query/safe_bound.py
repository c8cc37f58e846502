"""Lower bounds of linear programs that hold whatever the solver's tolerances are.

For any multipliers m of the rows of  min c v,  low <= A v <= high,  lower <= v <= upper:

    c v = m A v + (c - m A) v >= sum over rows of min(m low, m high) + sum over columns of min(d lower, d upper)

with d = c - m A. The solver's dual values are only a good guess of m; the bound is computed from them with the rounding
accounted for (Neumaier and Shcherbina, Safe bounds in linear and mixed-integer linear programming, 2004)."""

import numpy as np
from scipy.sparse import csr_array

from ginnacer_verify.arrays import Array
from ginnacer_verify.rounding import gamma


def safe_bound(
    cost: Array, rows: csr_array, row_ends: tuple[Array, Array], ends: tuple[Array, Array], multipliers: Array
) -> float:
    """A rigorous lower bound of the program's value; -inf if the multipliers are of no use, never NaN."""
    low, high = row_ends
    lower, upper = ends
    m = np.where(np.isfinite(np.where(multipliers > 0, low, high)), multipliers, 0.0)
    if not (np.isfinite(m).all() and np.isfinite(lower).all() and np.isfinite(upper).all()):
        return -np.inf
    used = np.where(m > 0, low, np.where(m < 0, high, 0.0))
    d = cost - rows.T @ m
    value = float(m @ used + np.minimum(d * lower, d * upper).sum())
    largest = np.maximum(np.abs(lower), np.abs(upper))
    size = float(np.abs(m) @ (abs(rows) @ largest + np.abs(used)) + np.abs(cost) @ largest)
    error = 4 * gamma(len(low) + len(lower) + 8) * size
    bound = value - error
    return bound if np.isfinite(bound) else -np.inf
