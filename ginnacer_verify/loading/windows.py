"""The windows of convolutions and pools: which inputs each output position sees, and the sparse maps made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ginnacer_verify.errors import NetworkError
from ginnacer_verify.loading.chain import Index, Shape, size_of
from ginnacer_verify.network import Array, Weight

PADDING = -1
"""Stands for a cell of a window that lies outside of the tensor."""


@dataclass(frozen=True, eq=False)
class Windows:
    """What a sliding window sees: `seen` has a row per position, a column per cell, and flat inputs or PADDING.

    `counts` says how many cells of each row lie in the tensor or its declared padding: fewer than all of them only
    where `ceil_mode` lets a window reach further."""

    seen: Index
    counts: Array
    shape: Shape


@dataclass(frozen=True)
class Window:
    """A sliding window over the spatial axes; the names are those of the ONNX attributes."""

    kernel_shape: Sequence[int]
    strides: Sequence[int] = ()
    pads: Sequence[int] = ()
    dilations: Sequence[int] = ()
    auto_pad: str = "NOTSET"
    ceil_mode: int = 0

    def over(self, spatial: Shape) -> Windows:
        seen, counts = np.zeros((1, 1), dtype=np.intp), np.ones(1)
        shape: Shape = ()
        for number, extent in enumerate(spatial):
            cells, counted = self._axis(number, extent)
            size_of((*seen.shape, *cells.shape))
            outside = (seen[:, None, :, None] == PADDING) | ((cells < 0) | (cells >= extent))[None, :, None, :]
            flat = np.where(outside, PADDING, seen[:, None, :, None] * extent + cells[None, :, None, :])
            seen = flat.reshape(seen.shape[0] * cells.shape[0], seen.shape[1] * cells.shape[1])
            counts = (counts[:, None] * counted[None, :]).reshape(-1)
            shape = (*shape, len(cells))
        return Windows(seen, counts, shape)

    def _axis(self, number: int, extent: int) -> tuple[Index, Array]:
        """Cells along one axis, a row per position, some out of range; and how many of them are in the padded axis."""
        kernel = self.kernel_shape[number]
        stride = self.strides[number] if self.strides else 1
        dilation = self.dilations[number] if self.dilations else 1
        if min(kernel, stride, dilation) < 1:
            raise NetworkError("a window with a kernel, stride or dilation below 1 is not well-formed")
        before, after = self._pads(number, extent, kernel, stride, dilation)
        room = extent + before + after - dilation * (kernel - 1) - 1
        if min(before, after, room) < 0:
            raise NetworkError(f"a window of {kernel} cells does not fit an axis of {extent}")
        count = (ceil(room / stride) if self.ceil_mode else room // stride) + 1
        if self.ceil_mode and (count - 1) * stride >= extent + before:
            count -= 1  # a window may not begin in the padding behind the tensor
        size_of((count, kernel))
        cells = np.arange(count)[:, None] * stride - before + np.arange(kernel)[None, :] * dilation
        return cells, (cells < extent + after).sum(axis=1).astype(np.float64)

    def _pads(self, number: int, extent: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
        match self.auto_pad:
            case "NOTSET":
                return (self.pads[number], self.pads[number + len(self.kernel_shape)]) if self.pads else (0, 0)
            case "VALID":
                return 0, 0
            case "SAME_UPPER" | "SAME_LOWER":
                total = max(0, (ceil(extent / stride) - 1) * stride + dilation * (kernel - 1) + 1 - extent)
                small, large = total // 2, total - total // 2
                return (small, large) if self.auto_pad == "SAME_UPPER" else (large, small)
            case other:
                raise NetworkError(f"auto_pad {other!r} is not one of ONNX's")


def convolution(weight: Array, window: Window, channels: int, spatial: Shape, groups: int) -> tuple[Weight, Shape]:
    """The sparse matrix of a convolution and its output's spatial shape; `weight` is (out, in / groups, *kernel)."""
    outputs, per_group = weight.shape[:2]
    if groups < 1 or outputs % groups or per_group * groups != channels or len(weight.shape) != 2 + len(spatial):
        raise NetworkError(f"a convolution with weights {list(weight.shape)} does not fit {channels} channels")
    windows = window.over(spatial)
    group = np.arange(outputs) // (outputs // groups)
    sources = group[:, None] * per_group + np.arange(per_group)[None, :]
    kernels = weight.reshape(outputs, per_group, -1)
    return _matrix(windows, sources, kernels[:, None, :, :], channels, spatial), windows.shape


def average(window: Window, channels: int, spatial: Shape, count_padding: bool) -> tuple[Weight, Shape]:
    """The sparse matrix of an average pool and its output's spatial shape."""
    windows = window.over(spatial)
    counts = windows.counts if count_padding else (windows.seen != PADDING).sum(axis=1)
    sources = np.arange(channels)[:, None]
    return _matrix(
        windows, sources, (1.0 / np.maximum(counts, 1))[None, :, None, None], channels, spatial
    ), windows.shape


def _matrix(windows: Windows, sources: Index, values: Array, channels: int, spatial: Shape) -> Weight:
    """The matrix whose row (output channel, position) weighs the cells that it sees in its source channels.

    `values` broadcasts over (output channel, position, source channel, cell)."""
    seen = windows.seen[None, :, None, :]
    extent = int(np.prod(spatial))
    size_of((*sources.shape, *windows.seen.shape))
    columns = sources[:, None, :, None] * extent + seen
    inside: NDArray[np.bool_] = np.broadcast_to(seen != PADDING, columns.shape)
    lengths = inside.sum(axis=(2, 3)).reshape(-1)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.broadcast_to(values, columns.shape)[inside]
    return csr_array((entries, columns[inside], starts), shape=(len(lengths), channels * extent))
