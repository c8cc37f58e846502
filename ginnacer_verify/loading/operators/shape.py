"""Operators that move values: they change a tensor's positions and cost no node."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ginnacer_verify.graph.linear import NOTHING, Indices
from ginnacer_verify.loading.composer import Tensor, Value, broadcast_shape, size_of
from ginnacer_verify.loading.node import Node
from ginnacer_verify.loading.whole import TRUTH, WHOLE


def identity(node: Node) -> Tensor:
    if node.operator == "Dropout" and node.has(2) and node.constant(2).any():
        raise node.unsupported("it is in training mode; export the network in evaluation mode")
    return node.tensor()


def cast(node: Node) -> Tensor:
    """Of truth values and whole numbers, and among floating-point numbers; casts that cut are read elsewhere."""
    to = node.attributes.get("to")
    if (to == node.kind and to == TRUTH) or (to in WHOLE and node.kind in {*WHOLE, TRUTH}):
        return node.tensor()
    if to not in {1, 11}:
        raise node.unsupported("we read casts of computed values to float, double, int32 and int64 only")
    rounds = node.double and to == 1 and node.kind != TRUTH
    return node.make.scaled(node.tensor(), 1.0, roundings=1) if rounds else node.tensor()


def flatten(node: Node) -> Tensor:
    tensor, axis = node.tensor(), node.attributes.get("axis", 1)
    axis = axis + len(tensor.shape) if axis < 0 else axis
    return tensor.moved(tensor.positions.reshape(prod(tensor.shape[:axis]), prod(tensor.shape[axis:])))


def reshape(node: Node) -> Tensor:
    tensor, shape = node.tensor(), node.integers("shape", 1) or []
    if not node.attributes.get("allowzero", 0):
        shape = [tensor.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return tensor.moved(tensor.positions.reshape(shape))


def transpose(node: Node) -> Tensor:
    tensor = node.tensor()
    return tensor.moved(np.transpose(tensor.positions, node.attributes.get("perm")))


def squeeze(node: Node) -> Tensor:
    tensor, axes = node.tensor(), node.integers("axes", 1)
    return tensor.moved(np.squeeze(tensor.positions, tuple(axes) if axes else None))


def unsqueeze(node: Node) -> Tensor:
    tensor = node.tensor()
    return tensor.moved(np.expand_dims(tensor.positions, tuple(node.integers("axes", 1) or ())))


def gather(node: Node) -> Tensor:
    tensor, axis, at = node.tensor(), node.attributes.get("axis", 0), node.constant(1).astype(np.intp)
    size_of((prod(tensor.shape), at.size))
    return tensor.moved(np.take(tensor.positions, at, axis=axis))


def gather_elements(node: Node) -> Tensor:
    tensor, axis = node.tensor(), node.axis(len(node.tensor().shape), 0)
    at = node.constant(1).astype(np.intp)
    cut = tuple(slice(None) if a == axis else slice(extent) for a, extent in enumerate(at.shape))
    return tensor.moved(np.take_along_axis(tensor.positions[cut], at, axis=axis))


def gather_nd(node: Node) -> Tensor:
    if node.attributes.get("batch_dims", 0):
        raise node.unsupported("we read it without batch_dims")
    at = node.constant(1).astype(np.intp)
    return node.tensor().moved(node.tensor().positions[tuple(np.moveaxis(at, -1, 0))])


def slice_(node: Node) -> Tensor:
    tensor = node.tensor()
    starts, ends = node.integers("starts", 1) or [], node.integers("ends", 2) or []
    axes = node.integers("axes", 3) or list(range(len(starts)))
    steps = node.integers("steps", 4) or [1] * len(starts)
    cuts = [slice(None)] * len(tensor.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cuts[axis] = slice(start, end, step)
    return tensor.moved(tensor.positions[tuple(cuts)])


def split(node: Node) -> tuple[Tensor, ...]:
    tensor = node.tensor()
    axis, sizes = node.axis(len(tensor.shape), 0), node.integers("split", 1)
    if not sizes:
        count = node.attributes.get("num_outputs", node.outputs)
        size = -(-tensor.shape[axis] // count)
        sizes = [*[size] * (count - 1), tensor.shape[axis] - size * (count - 1)]
    if sum(sizes) != tensor.shape[axis] or min(sizes) < 0:
        raise node.unsupported(f"parts of {sizes} do not make up an axis of {tensor.shape[axis]}")
    return tuple(tensor.moved(part) for part in np.split(tensor.positions, np.cumsum(sizes)[:-1], axis=axis))


def expand(node: Node) -> Tensor:
    tensor = node.tensor()
    return tensor.broadcast(broadcast_shape(tensor.shape, tuple(node.integers("shape", 1) or ())))


def tile(node: Node) -> Tensor:
    tensor, times = node.tensor(), node.integers("repeats", 1) or []
    size_of([extent * count for extent, count in zip(tensor.shape, times, strict=True)])
    return tensor.moved(np.tile(tensor.positions, times))


def concat(node: Node) -> Tensor:
    values = node.values()
    axis = node.axis(values[0].ndim if isinstance(values[0], np.ndarray) else len(values[0].shape))
    starts = np.cumsum([0, *(prod(value.shape) for value in values)])
    size_of([int(starts[-1])])
    order = [at + np.arange(prod(v.shape)).reshape(v.shape) for v, at in zip(values, starts, strict=False)]
    joined = np.concatenate(order, axis=axis)
    place = np.empty(joined.size, dtype=np.intp)
    place[joined.reshape(-1)] = np.arange(joined.size)
    pieces = [(value, place[at : at + prod(value.shape)]) for value, at in zip(values, starts, strict=False)]
    return node.make.joined(pieces, joined.shape)


def where(node: Node) -> Tensor:
    chosen, values = node.constant(0).astype(bool), [node.value(1), node.value(2)]
    shape = broadcast_shape(chosen.shape, *(value.shape for value in values))
    chosen = np.broadcast_to(chosen, shape)
    pieces = [(_at(v, shape, side), np.flatnonzero(side)) for v, side in zip(values, (chosen, ~chosen), strict=True)]
    return node.make.joined(pieces, shape)


def _at(value: Value, shape: tuple[int, ...], where: Any) -> Value:
    """The entries of a value, after broadcasting, where a mask is true."""
    if isinstance(value, Tensor):
        return value.moved(np.broadcast_to(value.positions, shape)[where])
    return np.asarray(np.broadcast_to(value, shape)[where])


def pad(node: Node) -> Tensor:
    tensor, mode = node.tensor(), node.attributes.get("mode", "constant")
    amounts = node.integers("pads", 1) or []
    axes = [axis % len(tensor.shape) for axis in node.integers("axes", 3) or range(len(tensor.shape))]
    half = len(amounts) // 2
    before, after = [0] * len(tensor.shape), [0] * len(tensor.shape)
    for number, axis in enumerate(axes):
        before[axis], after[axis] = amounts[number], amounts[half + number]
    size_of([max(0, n + b + a) for n, b, a in zip(tensor.shape, before, after, strict=True)])
    cuts = tuple(slice(max(0, -b), n - max(0, -a)) for n, b, a in zip(tensor.shape, before, after, strict=True))
    widths = [(max(0, b), max(0, a)) for b, a in zip(before, after, strict=True)]
    inner = tensor.positions[cuts]
    if mode in {"reflect", "edge", "wrap"}:
        return tensor.moved(np.pad(inner, widths, mode=mode))
    if mode != "constant":
        raise node.unsupported(f"the mode {mode!r} is not supported")
    value = float(node.numbers(2).reshape(())) if node.has(2) else node.real("value", 0.0)
    padded: Indices = np.pad(inner, widths, constant_values=NOTHING)
    moved = tensor.moved(padded)
    if value == 0:
        return moved
    outside = np.pad(np.zeros(inner.shape), widths, constant_values=value)
    return node.make.shifted(moved, outside)


def depth_to_space(node: Node) -> Tensor:
    tensor, size = node.tensor(), int(node.attributes["blocksize"])
    batch, channels, height, width = tensor.shape
    if node.attributes.get("mode", "DCR") == "DCR":
        blocks = tensor.positions.reshape(batch, size, size, channels // size**2, height, width)
        order = blocks.transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = tensor.positions.reshape(batch, channels // size**2, size, size, height, width)
        order = blocks.transpose(0, 1, 4, 2, 5, 3)
    return tensor.moved(order.reshape(batch, channels // size**2, height * size, width * size))


def space_to_depth(node: Node) -> Tensor:
    tensor, size = node.tensor(), int(node.attributes["blocksize"])
    batch, channels, height, width = tensor.shape
    blocks = tensor.positions.reshape(batch, channels, height // size, size, width // size, size)
    return tensor.moved(
        blocks.transpose(0, 3, 5, 1, 2, 4).reshape(batch, channels * size**2, height // size, width // size)
    )


SHAPE: dict[str, Callable[[Node], Tensor | tuple[Tensor, ...]]] = {
    "Cast": cast,
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Dropout": identity,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Identity": identity,
    "Pad": pad,
    "Reshape": reshape,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
    "Where": where,
}
