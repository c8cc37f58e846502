"""Convolutions in any number of dimensions, as products of matrices and moves of slices; no matrix of the whole map.

Forwards, the cells that each window sees are gathered, kernel offset by kernel offset, and multiplied with the kernel;
backwards, rows are multiplied with the kernel and scattered to the cells. Transposed convolutions are adjoints.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ginnacer_verify.arrays import Array
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.linear import Indices, LinearMap, _single

Shape = tuple[int, ...]
Place = tuple[Any, ...]
CHUNK = 2_000_000
"""So many gathered cells are held at once."""


@dataclass(frozen=True)
class Geometry:
    """Where the windows of a convolution or pool lie: one entry per spatial axis. `before` and `after` count the cells
    of padding that the windows may see, which is less than is declared where no window reaches them."""

    extent: Shape
    kernel: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    count: Shape
    """The number of windows per axis."""

    def __post_init__(self) -> None:
        sizes = (*self.kernel, *self.stride, *self.dilation, *self.count, *self.extent)
        if min(sizes, default=1) < 1 or min(self.before, default=0) < 0:
            raise NetworkError(f"a window of {list(self.kernel)} cells does not fit an input of {list(self.extent)}")

    @property
    def padded(self) -> Shape:
        """The extent with all the padding that any window sees."""
        return tuple(
            max(before + extent, (count - 1) * stride + (kernel - 1) * dilation + 1)
            for before, extent, count, stride, kernel, dilation in zip(
                self.before, self.extent, self.count, self.stride, self.kernel, self.dilation, strict=True
            )
        )

    @property
    def inside(self) -> Place:
        """Where the input lies in the padded extent, behind any axes in front."""
        return (..., *(slice(b, b + n) for b, n in zip(self.before, self.extent, strict=True)))

    def offsets(self) -> Iterator[tuple[int, Place]]:
        """For each cell of the kernel the slices of the padded input that all windows see through it."""
        for number, cell in enumerate(product(*map(range, self.kernel))):
            starts = [c * d for c, d in zip(cell, self.dilation, strict=True)]
            cuts = (slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, self.count, self.stride, strict=True))
            yield number, (..., *cuts)

    def seen(self) -> Indices:
        """The flat input that each window sees through each cell of the kernel, -1 in the padding: (windows, cells)."""
        flat = np.full(self.padded, -1, dtype=np.intp)
        flat[self.inside] = np.arange(prod(self.extent)).reshape(self.extent)
        return np.stack([flat[at].reshape(-1) for _, at in self.offsets()], axis=1)


class Convolution(LinearMap):
    """`weight` is (groups, outputs per group, inputs per group, *kernel); vectors are flat (channels, *extent)."""

    def __init__(self, weight: Array, geometry: Geometry, roundings: int = 0) -> None:
        self.geometry, self.roundings = geometry, roundings
        self.groups, self.out_channels, self.in_channels = weight.shape[:3]
        if weight.shape[3:] != geometry.kernel:
            raise NetworkError(f"a kernel of shape {list(weight.shape[3:])} for windows of {list(geometry.kernel)}")
        self.cells = prod(geometry.kernel)
        self.weight = np.ascontiguousarray(weight.reshape(*weight.shape[:3], self.cells))
        self.windows = prod(geometry.count)
        self.inputs = self.groups * self.in_channels * prod(geometry.extent)
        self.outputs = self.groups * self.out_channels * self.windows
        self.terms = max(self.in_channels, self.out_channels) * self.cells + roundings

    @property
    def executed(self) -> int:
        return int(self.in_channels * self.cells + self.roundings)

    @cached_property
    def _across(self) -> Array:
        """(groups, inputs per group * cells, outputs per group)"""
        flat = self.weight.reshape(self.groups, self.out_channels, self.in_channels * self.cells)
        return np.ascontiguousarray(flat.transpose(0, 2, 1))

    def _chunks(self, batch: int) -> Iterator[slice]:
        each = self.groups * self.in_channels * self.cells * self.windows
        size = max(1, CHUNK // max(1, each))
        return (slice(first, first + size) for first in range(0, batch, size))

    def apply(self, x: Array) -> Array:
        y = np.empty((len(x), self.outputs), dtype=np.result_type(x, self.weight))
        for chunk in self._chunks(len(x)):
            y[chunk] = self._forward(x[chunk])
        return y

    def _forward(self, x: Array) -> Array:
        geometry, batch = self.geometry, len(x)
        channels = self.groups * self.in_channels
        values = x.reshape(batch, channels, *geometry.extent)
        if geometry.padded != geometry.extent:
            padded = np.zeros((batch, channels, *geometry.padded), dtype=x.dtype)
            padded[geometry.inside] = values
            values = padded
        if self.in_channels == self.out_channels == 1:
            y = np.zeros((batch, channels, *geometry.count), dtype=np.result_type(x, self.weight))
            for cell, at in geometry.offsets():
                y += values[at] * self.weight[:, 0, 0, cell].reshape(-1, *[1] * len(geometry.count))
            return y.reshape(batch, -1)
        seen = np.empty((batch, self.groups, self.in_channels, self.cells, *geometry.count), dtype=x.dtype)
        grouped = values.reshape(batch, self.groups, self.in_channels, *geometry.padded)
        for cell, at in geometry.offsets():
            seen[:, :, :, cell] = grouped[at]
        flat = seen.reshape(batch, self.groups, self.in_channels * self.cells, self.windows)
        weight = self.weight.reshape(self.groups, self.out_channels, -1)
        return np.asarray(np.matmul(weight, flat).reshape(batch, -1))

    def pull_back(self, rows: Array) -> Array:
        x = np.empty((len(rows), self.inputs), dtype=np.result_type(rows, self.weight))
        for chunk in self._chunks(len(rows)):
            x[chunk] = self._backward(rows[chunk])
        return x

    def _backward(self, rows: Array) -> Array:
        geometry, batch = self.geometry, len(rows)
        channels = self.groups * self.in_channels
        kind = np.result_type(rows, self.weight)
        padded = np.zeros((batch, channels, *geometry.padded), dtype=kind)
        if self.in_channels == self.out_channels == 1:
            values = rows.reshape(batch, channels, *geometry.count)
            for cell, at in geometry.offsets():
                padded[at] += values * self.weight[:, 0, 0, cell].reshape(-1, *[1] * len(geometry.count))
        else:
            values = rows.reshape(batch, self.groups, self.out_channels, self.windows)
            given = np.matmul(self._across, values)
            given = given.reshape(batch, channels, self.cells, *geometry.count)
            for cell, at in geometry.offsets():
                padded[at] += given[:, :, cell]
        return np.asarray(padded[geometry.inside].reshape(batch, -1))

    def absolute(self) -> "Convolution":
        return self._with(np.abs(self.weight), self.roundings)

    @property
    def parameters(self) -> int:
        return int(np.count_nonzero(self.weight))

    def single(self) -> "Convolution":
        return self._with(_single(self.weight), 0)

    def _with(self, weight: Array, roundings: int) -> "Convolution":
        return Convolution(weight.reshape(*weight.shape[:3], *self.geometry.kernel), self.geometry, roundings)

    @property
    def largest(self) -> float:
        return float(np.abs(self.weight).max(initial=0.0))

    def matrix(self) -> csr_array:
        seen, size = self.geometry.seen(), prod(self.geometry.extent)
        group = np.repeat(np.arange(self.groups), self.out_channels)
        sources = group[:, None] * self.in_channels + np.arange(self.in_channels)
        columns = sources[:, None, :, None] * size + seen[None, :, None, :]
        inside = np.broadcast_to(seen[None, :, None, :] >= 0, columns.shape)
        kernels = self.weight.reshape(-1, 1, self.in_channels, self.cells)
        lengths = inside.sum(axis=(2, 3)).reshape(-1)
        entries = np.broadcast_to(kernels, columns.shape)[inside]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return csr_array((entries, columns[inside], starts), shape=(self.outputs, self.inputs))
