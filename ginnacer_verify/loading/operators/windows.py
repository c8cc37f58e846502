"""Convolutions, pools and batch normalization."""

from collections.abc import Callable
from math import ceil, prod

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.convolution import Convolution, Geometry
from ginnacer_verify.graph.graph import Shape
from ginnacer_verify.graph.linear import Adjoint
from ginnacer_verify.loading.composer import Tensor, size_of
from ginnacer_verify.loading.node import Node


def geometry(node: Node, spatial: Shape, kernel: Shape) -> tuple[Geometry, Shape]:
    """Where the windows lie, and how much padding is declared behind the input, which `ceil_mode` may exceed."""
    kernel = tuple(node.attributes.get("kernel_shape", kernel))
    if len(kernel) != len(spatial):
        raise NetworkError(f"a window of {list(kernel)} cells does not fit an input of {list(spatial)}")
    strides, dilations = _per_axis(node, "strides", kernel), _per_axis(node, "dilations", kernel)
    if min((*kernel, *strides, *dilations)) < 1:
        raise NetworkError("a window with a kernel, stride or dilation below 1 is not well-formed")
    befores, afters, counts = [], [], []
    ceil_mode = bool(node.attributes.get("ceil_mode", 0))
    for axis, (extent, size, stride, step) in enumerate(zip(spatial, kernel, strides, dilations, strict=True)):
        before, after = _pads(node, axis, extent, size, stride, step)
        room = extent + before + after - step * (size - 1) - 1
        if min(before, after, room) < 0:
            raise NetworkError(f"a window of {size} cells does not fit an axis of {extent}")
        count = (ceil(room / stride) if ceil_mode else room // stride) + 1
        if ceil_mode and (count - 1) * stride >= extent + before:
            count -= 1  # a window may not begin in the padding behind the tensor
        size_of((count, size))
        befores.append(before)
        afters.append(after)
        counts.append(count)
    return Geometry(spatial, kernel, strides, dilations, tuple(befores), tuple(counts)), tuple(afters)


def _per_axis(node: Node, attribute: str, kernel: Shape) -> Shape:
    values = tuple(node.attributes.get(attribute, ())) or (1,) * len(kernel)
    if len(values) != len(kernel):
        raise NetworkError(f"{attribute} {list(values)} do not fit a window of {list(kernel)} cells")
    return values


def _pads(node: Node, axis: int, extent: int, kernel: int, stride: int, step: int) -> tuple[int, int]:
    match node.attributes.get("auto_pad", "NOTSET"):
        case "NOTSET":
            pads = node.attributes.get("pads", ())
            return (pads[axis], pads[axis + len(pads) // 2]) if pads else (0, 0)
        case "VALID":
            return 0, 0
        case "SAME_UPPER" | "SAME_LOWER" as mode:
            if step > 1 and node.operator != "Conv":
                raise node.unsupported("automatic padding of a pool with dilations is understood in several ways")
            total = max(0, (ceil(extent / stride) - 1) * stride + step * (kernel - 1) + 1 - extent)
            small, large = total // 2, total - total // 2
            return (small, large) if mode == "SAME_UPPER" else (large, small)
        case other:
            raise NetworkError(f"auto_pad {other!r} is not one of ONNX's")


def _spatial(node: Node, tensor: Tensor) -> Shape:
    if len(tensor.shape) < 3 or min(tensor.shape) < 1:
        raise node.unsupported(f"we read it on a batch, channels and at least one axis, not {list(tensor.shape)}")
    return tensor.shape[2:]


def _each(node: Node, tensor: Tensor, one: Callable[[Tensor], Tensor]) -> Tensor:
    """A map of each entry of a batch."""
    if tensor.shape[0] == 1:
        return one(tensor)
    results = [one(tensor.moved(tensor.positions[number : number + 1])) for number in range(tensor.shape[0])]
    size = prod(results[0].shape)
    pieces = [(result, np.arange(number * size, (number + 1) * size)) for number, result in enumerate(results)]
    return node.make.joined(pieces, (tensor.shape[0], *results[0].shape[1:]))


def _offset(node: Node, tensor: Tensor) -> Tensor:
    """The bias of each channel, if there is one."""
    if not node.has(2):
        return tensor
    return node.make.shifted(tensor, node.numbers(2).reshape(-1, *[1] * (len(tensor.shape) - 2)))


def conv(node: Node) -> Tensor:
    tensor, weight = node.tensor(), node.numbers(1)
    spatial, groups = _spatial(node, tensor), node.attributes.get("group", 1)
    channels, outputs = tensor.shape[1], len(weight)
    fits = groups >= 1 and weight.ndim == len(tensor.shape) and outputs % groups == 0
    if not fits or weight.shape[1] * groups != channels:
        raise NetworkError(f"a convolution with weights {list(weight.shape)} does not fit {channels} channels")
    where, _ = geometry(node, spatial, weight.shape[2:])
    size_of((outputs, *where.count))
    linear = Convolution(weight.reshape(groups, outputs // groups, *weight.shape[1:]), where)
    shape = (1, outputs, *where.count)
    return _offset(node, _each(node, tensor, lambda one: node.make.mapped(one, linear, shape)))


def conv_transpose(node: Node) -> Tensor:
    """The adjoint of the convolution with the same weights."""
    tensor, weight = node.tensor(), node.numbers(1)
    spatial, groups = _spatial(node, tensor), node.attributes.get("group", 1)
    channels = tensor.shape[1]
    if groups < 1 or weight.ndim != len(tensor.shape) or len(weight) != channels or channels % groups:
        raise NetworkError(f"a convolution with weights {list(weight.shape)} does not fit {channels} channels")
    kernel = weight.shape[2:]
    strides, dilations = _per_axis(node, "strides", kernel), _per_axis(node, "dilations", kernel)
    extra = tuple(node.attributes.get("output_padding", ())) or (0,) * len(kernel)
    full = [
        s * (n - 1) + e + (k - 1) * d + 1
        for s, n, e, k, d in zip(strides, spatial, extra, kernel, dilations, strict=True)
    ]
    befores, extents = _transposed_pads(node, full, spatial, strides)
    where = Geometry(extents, kernel, strides, dilations, befores, spatial)
    size_of((weight.shape[1] * groups, *where.padded))
    linear = Adjoint(Convolution(weight.reshape(groups, channels // groups, *weight.shape[1:]), where))
    shape = (1, weight.shape[1] * groups, *extents)
    return _offset(node, _each(node, tensor, lambda one: node.make.mapped(one, linear, shape)))


def _transposed_pads(node: Node, full: list[int], spatial: Shape, strides: Shape) -> tuple[Shape, Shape]:
    """How much is cut off in front, and what is left of the full extent."""
    mode, wanted = (
        node.attributes.get("auto_pad", "NOTSET"),
        list(node.attributes.get("output_shape", ()))[-len(full) :],
    )
    pads = list(node.attributes.get("pads", ())) or [0] * 2 * len(full)
    if mode in {"SAME_UPPER", "SAME_LOWER"} and not wanted:
        wanted = [n * s for n, s in zip(spatial, strides, strict=True)]
    if wanted:
        totals = [max(0, size - want) for size, want in zip(full, wanted, strict=True)]
        before = [total // 2 if mode == "SAME_UPPER" else total - total // 2 for total in totals]
        return tuple(before), tuple(wanted)
    pads = [0] * len(pads) if mode == "VALID" else pads
    extents = [size - pads[i] - pads[i + len(full)] for i, size in enumerate(full)]
    return tuple(pads[: len(full)]), tuple(extents)


def batch_normalization(node: Node) -> Tensor:
    """`(x - mean) * scale / sqrt(variance + epsilon) + bias`, where the factor is rounded four times."""
    if node.attributes.get("training_mode", 0) or node.outputs > 1:
        raise node.unsupported("it is in training mode; export the network in evaluation mode")
    if not node.attributes.get("spatial", 1):
        raise node.unsupported("it normalizes every value on its own (spatial=0), which onnxruntime does not run")
    tensor = node.tensor()
    along = (-1, *[1] * (len(tensor.shape) - 2))
    scale, bias, mean, variance = (node.numbers(i).reshape(along) for i in (1, 2, 3, 4))
    factor = scale / np.sqrt(variance + node.real("epsilon", 1e-5))
    centred = node.make.shifted(tensor, -mean)
    return node.make.shifted(node.make.scaled(centred, factor, roundings=4), bias)


def average_pool(node: Node) -> Tensor:
    """The sum of each window, times one over the number of its cells."""
    tensor = node.tensor()
    spatial = _spatial(node, tensor)
    if node.operator == "GlobalAveragePool":
        where, after = _everything(spatial), (0,) * len(spatial)
    else:
        where, after = geometry(node, spatial, tuple(node.attributes["kernel_shape"]))
    channels = tensor.shape[1]
    sums = Convolution(np.ones((channels, 1, 1, *where.kernel)), where)
    counts = _counts(where, after if node.attributes.get("count_include_pad", 0) else None)
    shape = (1, channels, *where.count)
    result = _each(node, tensor, lambda one: node.make.mapped(one, sums, shape))
    return node.make.scaled(result, 1.0 / np.maximum(counts, 1.0), roundings=1)


def _everything(spatial: Shape) -> Geometry:
    ones = (1,) * len(spatial)
    return Geometry(spatial, spatial, ones, ones, (0,) * len(spatial), ones)


def _counts(where: Geometry, after: Shape | None) -> Array:
    """How many cells of each window are in the input, or in it and the padding declared around it."""
    total = np.ones(())
    for axis, extent in enumerate(where.extent):
        starts = np.arange(where.count[axis])[:, None] * where.stride[axis] - where.before[axis]
        cells = starts + np.arange(where.kernel[axis]) * where.dilation[axis]
        inside = (cells >= 0) & (cells < extent) if after is None else cells < extent + after[axis]
        total = total[..., None] * inside.sum(axis=1)
    return total


def max_pool(node: Node) -> Tensor:
    """The maximum of each window; a cell in the padding is replaced by one inside, which changes no maximum."""
    if node.attributes.get("storage_order", 0):
        raise node.unsupported("we read it without its output of indices")
    tensor = node.tensor()
    spatial = _spatial(node, tensor)
    if node.operator == "GlobalMaxPool":
        where = _everything(spatial)
    else:
        where, _ = geometry(node, spatial, tuple(node.attributes["kernel_shape"]))
    seen = where.seen()
    if (seen < 0).all(axis=1).any():
        raise node.unsupported("one of its windows lies in the padding altogether")
    seen = np.where(seen < 0, seen.max(axis=1, keepdims=True), seen)
    size_of((*tensor.shape[:2], *seen.shape))
    cells = tensor.positions.reshape(*tensor.shape[:2], -1)[..., seen]
    return extremum(node, "Maximum", tensor, cells.reshape(*tensor.shape[:2], *where.count, -1))


def extremum(node: Node, name: str, tensor: Tensor, cells: "np.ndarray[tuple[int, ...], np.dtype[np.intp]]") -> Tensor:
    """The largest or smallest of a node's values at the positions along the last axis."""
    columns = [tensor.moved(np.ascontiguousarray(cells[..., number])) for number in range(cells.shape[-1])]
    return (
        columns[0] if len(columns) == 1 else node.make.applied(node.function("piecewise", name, len(columns)), *columns)
    )


WINDOWS = {
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "GlobalAveragePool": average_pool,
    "GlobalMaxPool": max_pool,
    "MaxPool": max_pool,
}
