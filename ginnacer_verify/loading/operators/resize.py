"""Resize and Upsample: nearest neighbours are a move, linear interpolation a sparse matrix along each axis."""

from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ginnacer_verify.graph.linear import Sparse
from ginnacer_verify.loading.composer import Tensor, size_of
from ginnacer_verify.loading.node import Node

Floats: TypeAlias = NDArray[np.float32]


def resize(node: Node) -> Tensor:
    tensor, mode = node.tensor(), node.attributes.get("mode", "nearest")
    strange = (
        node.attributes.get("antialias", 0) or node.attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch"
    )
    if strange or mode not in {"nearest", "linear"}:
        raise node.unsupported("we read the modes nearest and linear, without antialiasing and aspect ratios")
    for axis, extent, scale in _targets(node, tensor.shape):
        size_of([extent if a == axis else n for a, n in enumerate(tensor.shape)])
        if extent == tensor.shape[axis] and scale == 1:
            continue
        at = _coordinates(node, tensor.shape[axis], extent, scale)
        tensor = _nearest(node, tensor, axis, at, scale) if mode == "nearest" else _linear(node, tensor, axis, at)
    return tensor


def _targets(node: Node, shape: tuple[int, ...]) -> list[tuple[int, int, np.float32]]:
    """For each axis the extent that it gets, and the scale."""
    axes = [axis % len(shape) for axis in node.attributes.get("axes", range(len(shape)))]
    sizes = node.integers("sizes", 3) if node.operator == "Resize" and node.opset > 10 else None
    if sizes:
        pairs = zip(axes, sizes, strict=True)
        return [(axis, size, np.float32(size) / np.float32(shape[axis])) for axis, size in pairs]
    where = 2 if node.operator == "Resize" and node.opset > 10 else 1
    scales = node.constant(where).astype(np.float32) if node.has(where) else np.float32(node.attributes["scales"])
    return [(a, int(np.floor(np.float32(shape[a]) * s)), s) for a, s in zip(axes, scales.reshape(-1), strict=True)]


def _coordinates(node: Node, before: int, after: int, scale: np.float32) -> Floats:
    """Where each new value lies on the old axis, in float32 as onnxruntime has it."""
    x, half = np.arange(after, dtype=np.float32), np.float32(0.5)
    old = node.operator == "Upsample" or node.opset < 11
    match "asymmetric" if old else node.attributes.get("coordinate_transformation_mode", "half_pixel"):
        case "half_pixel":
            return (x + half) / scale - half
        case "pytorch_half_pixel":
            return (x + half) / scale - half if after > 1 else x * 0
        case "asymmetric":
            return x / scale
        case "align_corners":
            return x * np.float32(before - 1) / np.float32(after - 1) if after > 1 else x * 0
        case other:
            raise node.unsupported(f"the coordinate mode {other!r} is not supported")


def _nearest(node: Node, tensor: Tensor, axis: int, at: Floats, scale: np.float32) -> Tensor:
    old = node.operator == "Upsample" or node.opset < 11
    match "simple" if old else node.attributes.get("nearest_mode", "round_prefer_floor"):
        case "simple":
            index = np.floor(at) if scale >= 1 else np.ceil(at)
        case "round_prefer_floor":
            index = np.ceil(at - np.float32(0.5))
        case "round_prefer_ceil":
            index = np.floor(at + np.float32(0.5))
        case "floor":
            index = np.floor(at)
        case "ceil":
            index = np.ceil(at)
        case other:
            raise node.unsupported(f"the mode {other!r} of rounding is not one of ONNX's")
    chosen = np.clip(index, 0, tensor.shape[axis] - 1).astype(np.intp)
    return tensor.moved(np.take(tensor.positions, chosen, axis=axis))


def _linear(node: Node, tensor: Tensor, axis: int, at: Floats) -> Tensor:
    """Each value as the weighted mean of its two neighbours; each runtime rounds the weights in its own way."""
    node.make.unstated = True
    extent = tensor.shape[axis]
    place = np.clip(at, 0, extent - 1).astype(np.float64)
    left = np.floor(place).astype(np.intp)
    right, share = np.minimum(left + 1, extent - 1), place - left
    columns = np.stack([np.take(tensor.positions, side, axis=axis) for side in (left, right)], axis=-1)
    along = [1] * len(tensor.shape)
    along[axis] = -1
    weights = np.stack([np.broadcast_to(w.reshape(along), columns.shape[:-1]) for w in (1 - share, share)], axis=-1)
    shape = columns.shape[:-1]
    rows, inside = np.repeat(np.arange(prod(shape)), 2), columns.reshape(-1) >= 0
    entries = (weights.reshape(-1)[inside], (rows[inside], columns.reshape(-1)[inside]))
    matrix = csr_array(entries, shape=(prod(shape), node.make.size(tensor.node)))
    return node.make.whole(node.make.affine((tensor.node, Sparse(matrix, roundings=2))), shape)


RESIZE = {"Resize": resize, "Upsample": resize}
