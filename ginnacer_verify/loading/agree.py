"""The last word about what was read: onnxruntime on random points must agree with our evaluation."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.errors import NetworkError
from ginnacer_verify.network import Array, Network
from ginnacer_verify.runtime import Runtime

POINTS = 1000
TOLERANCE = 1e-4
"""Float32 rounding stays well below this; a dropped bias or a transposed matrix does not."""

BATCH_VALUES = 1_000_000
"""So many values of the widest layer are held at once."""


def check_agreement(network: Network) -> None:
    """Refuse a network that differs from its own ONNX model by more than TOLERANCE, relative to the outputs' size."""
    runtime = Runtime(network.model)
    width = max(layer.outputs for layer in network.layers)
    parts = np.array_split(_points(network), min(max(1, POINTS * width // BATCH_VALUES), POINTS))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        both = list(
            pool.map(lambda part: (np.array([runtime(point) for point in part]), _outputs(network, part)), parts)
        )
    theirs, ours = (np.concatenate(found) for found in zip(*both, strict=True))
    if theirs.shape != ours.shape:
        raise NetworkError(f"onnxruntime gives {theirs.shape[1]} outputs where we read {network.outputs}")
    if not (np.isfinite(theirs).all() and np.isfinite(ours).all()):
        raise NetworkError("an output is not a finite number at a random input: the weights are too large to verify")
    error = relative_error(ours, theirs)
    if not error <= TOLERANCE:
        raise NetworkError(
            f"what we read differs from onnxruntime by {error:.1e} (relative); please report this network"
        )


def relative_error(ours: Array, theirs: Array) -> float:
    """The largest difference of an output, relative to how large that output gets (or a hundredth of the largest)."""
    sizes = np.abs(theirs).max(axis=0)
    scale = np.maximum(sizes, 0.01 * sizes.max())
    difference = np.abs(ours - theirs).max(axis=0)
    return float(np.max(np.divide(difference, scale, out=np.where(difference > 0, np.inf, 0.0), where=scale > 0)))


def _outputs(network: Network, points: NDArray[Any]) -> Array:
    """One row of outputs per row of points, also for a single row, which could be taken for an input as it stands."""
    return network(points).reshape(len(points), network.outputs)


def _points(network: Network) -> NDArray[Any]:
    """Half uniform in the unit cube, half normal with deviations from 0.1 to 10, as the network's element type."""
    random = np.random.default_rng(0)
    points = random.random((POINTS, network.inputs), dtype=np.float32)
    normal = points[POINTS // 2 :]
    random.standard_normal(out=normal, dtype=np.float32)
    normal *= np.float32(10) ** random.uniform(-1, 1, (len(normal), 1)).astype(np.float32)
    return points.astype(network.dtype, copy=False)
