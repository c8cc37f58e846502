"""The last word about what was read: onnxruntime on random points must agree with our evaluation."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.convolution import Convolution
from ginnacer_verify.graph.graph import Affine, Graph
from ginnacer_verify.graph.linear import Adjoint, Dense, LinearMap, Repeated, Sparse
from ginnacer_verify.graph.table import Table, stepped
from ginnacer_verify.loading.oracle import Runtime, runtime_of

POINTS = 1000
FEWEST = 8
"""At most and at least so many points are tried."""
WORK = 1_000_000_000
"""About so many products may be computed on either side: a second or two."""
TOLERANCE = 1e-4
"""Float32 rounding stays well below this; a dropped bias or a transposed matrix does not."""
BATCH_VALUES = 1_000_000
"""So many values of the widest node are held at once."""
PIECES = 8
"""At least so many times the clock is looked at."""
PARTIAL = {"Exp", "Log", "Sqrt", "Reciprocal", "SoftmaxReciprocal", "SoftmaxLog", "Power", "Square", "Product", "Table"}
"""Functions that are not defined everywhere, or soon overflow float32."""
JUMPS = {"Sign", "Floor", "Truncate", "Equal", "ArgMax", "Table"}
"""Functions that make much of a rounding error."""


def check_agreement(graph: Graph, deadline: Deadline = FOREVER) -> None:
    """Refuse a graph that differs from its own ONNX model by more than TOLERANCE, relative to the outputs' size."""
    theirs, ours = both(graph, _points(graph, max(FEWEST, min(POINTS, WORK // work_of(graph)))), deadline)
    names = {type(graph.nodes[number].function).__name__ for number in graph.applied}  # type: ignore[union-attr]
    finite = np.isfinite(theirs).all(axis=1) & np.isfinite(ours).all(axis=1)
    if not (finite.all() or (names & PARTIAL and finite.any())):
        raise NetworkError("an output is not a finite number at a random input: the weights are too large to verify")
    error = relative_error(ours[finite], theirs[finite], 0.5 if names & JUMPS else 1.0)
    if not error <= TOLERANCE:
        raise differs(error)


def differs(error: float) -> NetworkError:
    return NetworkError(f"what we read differs from onnxruntime by {error:.1e} (relative); please report this network")


def both(graph: Graph, points: NDArray[Any], deadline: Deadline) -> tuple[Array, Array]:
    """The outputs at some points: onnxruntime's, and ours."""
    runtime = runtime_of(graph.model)
    parts = np.array_split(points, min(max(PIECES, len(points) * graph.widest // BATCH_VALUES), len(points)))

    def both_of(part: NDArray[Any]) -> tuple[Array, Array]:
        deadline.check("the network was compared with onnxruntime")
        return np.array([_theirs(runtime, point, graph) for point in part]), _ours(graph, part)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        both = list(pool.map(both_of, parts))
    theirs, ours = (np.concatenate(found) for found in zip(*both, strict=True))
    if theirs.shape != ours.shape:
        raise NetworkError(f"onnxruntime gives {theirs.shape[1]} outputs where we read {graph.outputs}")
    return theirs, ours


def relative_error(ours: Array, theirs: Array, share: float = 1.0) -> float:
    """The largest difference of an output, relative to how large that output gets (or a hundredth of the largest);
    with a smaller share than 1 that of this share of the points which is best."""
    sizes = np.abs(theirs).max(axis=0)
    scale = np.maximum(sizes, 0.01 * sizes.max())
    difference = np.abs(ours - theirs)
    found = np.divide(difference, scale, out=np.where(difference > 0, np.inf, 0.0), where=scale > 0).max(axis=1)
    return float(found.max() if share == 1 else np.sort(found)[int(share * (len(found) - 1))])


def _theirs(runtime: Runtime, point: NDArray[Any], graph: Graph) -> Array:
    """Not a number where onnxruntime looks for what is in no table: at a place outside of an image, say."""
    try:
        return runtime(point)
    except NetworkError:
        if any(isinstance(graph.nodes[number].function, Table) for number in graph.applied):  # type: ignore[union-attr]
            return np.full(graph.outputs, np.nan)
        raise


def _ours(graph: Graph, points: NDArray[Any]) -> Array:
    with np.errstate(all="ignore"):
        return graph.evaluate(points.astype(np.float64))


def work_of(graph: Graph) -> int:
    """About how many products it takes to evaluate the graph once, here or by onnxruntime, which multiplies with every
    number of the file, zeros included."""
    affine = [one for node in graph.nodes if isinstance(node, Affine) for one in node.maps]
    ours = 1 + sum(map(_products, affine)) + 10 * sum(node.size for node in graph.nodes)
    return max(ours, len(graph.model) // np.dtype(np.float32).itemsize)


def _products(linear: LinearMap) -> int:
    match linear:
        case Dense():
            return int(linear.weight.size)
        case Sparse():
            return int(linear.weight.nnz)
        case Repeated():
            return int(linear.weight.weight.size) * linear.times
        case Convolution():
            return int(linear.weight.size) * linear.windows
        case Adjoint():
            return _products(linear.of)
        case _:
            return linear.outputs


def _points(graph: Graph, count: int) -> NDArray[Any]:
    """Half uniform in the unit cube, half normal with deviations from 0.1 to 10, as the network's element type; what
    matters as a whole number only is at least 0 and up to 100."""
    random = np.random.default_rng(0)
    points = random.random((count, graph.inputs), dtype=np.float32)
    normal = points[count // 2 :]
    random.standard_normal(out=normal, dtype=np.float32)
    normal *= np.float32(10) ** random.uniform(-1, 1, (len(normal), 1)).astype(np.float32)
    for i in stepped(graph):
        points[:, i] = random.random(count) * 10 ** random.uniform(0, 2, count)
    return points.astype(graph.dtype, copy=False)


def in_box(box: Box, count: int, random: np.random.Generator) -> Array:
    """Points inside, at corners, and on edges: at a corner but for one input."""
    inside = box.sample(random, count)
    corners = np.where(random.random(inside.shape) < 0.5, box.lower, box.upper)
    edges = corners.copy()
    along = random.integers(box.inputs, size=count)
    edges[np.arange(count), along] = inside[np.arange(count), along]
    kind = np.arange(count)[:, None] % 3
    return np.where(kind == 0, inside, np.where(kind == 1, corners, edges))
