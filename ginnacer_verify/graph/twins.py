"""Twins: neurons of a joint chain that are much like another one of their layer, as those of two similar networks are.

`relu(g) - relu(f)` lies between `min(g - f, 0)` and `max(g - f, 0)`, whatever the two are: so any pairing is sound, and
a good one pays. Neurons are paired by their values at sampled inputs.
"""

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Network

SAMPLES = 256
ALIKE = 0.5
"""Twins differ by less than this share of how much each of them varies, on average."""


def twins(network: Network, box: Box) -> NDArray[np.int64]:
    """For every ReLU, counted through all layers, the number of the one before it in its layer that it leans on, or -1.

    Only chains that join several networks have any."""
    starts = [0, *accumulate(network.relus_per_layer)]
    found = np.full(network.relus, -1, dtype=np.int64)
    if len(network.originals) > 1:
        points = box.sample(np.random.default_rng(0), SAMPLES)
        for start, values in zip(starts, list(network.through(points))[:-1], strict=False):
            pairs = _pairs(values)
            found[start : start + len(pairs)] = np.where(pairs < 0, -1, pairs + start)
    return found


def _pairs(values: Array) -> NDArray[np.int64]:
    """Each column's twin among the columns before it; nearest pairs first, nobody in two of them."""
    centred = values - values.mean(axis=0)
    spread = np.sqrt((centred**2).mean(axis=0))
    square = (values**2).mean(axis=0)
    distance = np.sqrt(np.maximum(square[:, None] + square - 2 * values.T @ values / len(values), 0.0))
    limit = ALIKE * np.minimum(spread[:, None], spread)
    later, earlier = np.nonzero(np.tril(distance < limit, -1))
    twin = np.full(values.shape[1], -1, dtype=np.int64)
    taken = np.zeros(values.shape[1], dtype=np.bool_)
    for k in np.argsort(distance[later, earlier], kind="stable"):
        i, j = later[k], earlier[k]
        if not (taken[i] or taken[j]):
            twin[i], taken[i], taken[j] = j, True, True
    return twin
