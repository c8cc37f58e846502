"""A quick search for counterexamples by random points, corners and gradients; what it does not find proves nothing."""

import numpy as np
from reading import Array, Case

SAMPLES, CLIMBERS, STEPS = 2000, 40, 40
Layers = list[tuple[Array, Array]]


def forward(layers: Layers, x: Array) -> Array:
    """The outputs for a batch of flat inputs, in float64."""
    for matrix, bias in layers[:-1]:
        x = np.maximum(x @ matrix.T + bias, 0)
    return np.asarray(x @ layers[-1][0].T + layers[-1][1])


def gradients(layers: Layers, x: Array, rows: Array) -> Array:
    """The gradient of `rows[i] @ output` at `x[i]`, by backpropagation."""
    active = []
    for matrix, bias in layers[:-1]:
        x = np.maximum(x @ matrix.T + bias, 0)
        active.append(x > 0)
    rows = rows @ layers[-1][0]
    for (matrix, _), mask in zip(reversed(layers[:-1]), reversed(active), strict=True):
        rows = (rows * mask) @ matrix
    return rows


def largest_slack(layers: Layers, case: Case) -> float:
    """The largest slack seen at random points and corners, and on the way up from the best of them."""
    lower, upper = (np.array(ends, dtype=np.float64) for ends in (case.lower, case.upper))
    rows = np.array([[factors.get(i, 0) for i in range(len(layers[-1][1]))] for factors, _ in case.rows])
    offsets = np.array([offset for _, offset in case.rows], dtype=np.float64)
    x, best = _starts(lower, upper), -np.inf
    for step in np.geomspace(0.25, 0.001, STEPS):
        slacks = offsets - forward(layers, x) @ rows.T
        order = np.argsort(-slacks.min(axis=1))[:CLIMBERS]
        best = max(best, float(slacks[order[0]].min()))
        uphill = -np.sign(gradients(layers, x[order], rows[slacks[order].argmin(axis=1)]))
        x = np.clip(x[order] + step * (upper - lower) * uphill, lower, upper)
    return best


def _starts(lower: Array, upper: Array) -> Array:
    random = np.random.default_rng(0)
    inner = lower + (upper - lower) * random.random((SAMPLES, len(lower)))
    corners = np.where(random.random(inner.shape) < 0.5, lower, upper)
    return np.concatenate([inner, corners])
