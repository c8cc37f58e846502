"""Linear maps, forwards and backwards, on batches of flat vectors. Weights are float64 or, to be exact, fractions.

Each map is one matrix `W`. `apply(x)` is `x @ W.T` and `pull(rows)` is `rows @ W`, for any number of axes in front.
`terms` is the largest number of products that are added up in one value of either.
"""

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any, Protocol

import numpy as np

Array = Any
"""An array of float64 or of fractions."""
Change = Callable[[Array], Array]


class Map(Protocol):
    inputs: int
    outputs: int
    terms: int

    def apply(self, x: Array) -> Array: ...
    def pull(self, rows: Array) -> Array: ...
    def changed(self, change: Change) -> "Map":
        """The map with another number in place of each weight: its absolute value, or the same as a fraction."""


class Dense:
    def __init__(self, weight: Array) -> None:
        self.weight = weight
        self.outputs, self.inputs = weight.shape
        self.terms = max(weight.shape)

    def apply(self, x: Array) -> Array:
        return x @ self.weight.T

    def pull(self, rows: Array) -> Array:
        return rows @ self.weight

    def changed(self, change: Change) -> "Dense":
        return Dense(change(self.weight))


class Scale:
    """Each value times a number of its own."""

    def __init__(self, factor: Array) -> None:
        self.factor = factor
        self.inputs = self.outputs = len(factor)
        self.terms = 1

    def apply(self, x: Array) -> Array:
        return x * self.factor

    pull = apply

    def changed(self, change: Change) -> "Scale":
        return Scale(change(self.factor))


class Pick:
    """Values by their index, -1 for a zero: shapes, slices, padding, copies."""

    def __init__(self, index: Array, inputs: int) -> None:
        self.index = np.asarray(index, dtype=np.intp).reshape(-1)
        self.inputs, self.outputs = inputs, len(self.index)
        self.there = np.flatnonzero(self.index >= 0)
        self.once = len(np.unique(self.index[self.there])) == len(self.there)
        self.terms = int(np.bincount(self.index[self.there], minlength=1).max())
        self.identity = self.outputs == inputs and bool((self.index == np.arange(inputs)).all())

    def apply(self, x: Array) -> Array:
        if self.identity:
            return x
        values = np.zeros((*x.shape[:-1], self.outputs), dtype=x.dtype)
        values[..., self.there] = x[..., self.index[self.there]]
        return values

    def pull(self, rows: Array) -> Array:
        if self.identity:
            return rows
        values = np.zeros((*rows.shape[:-1], self.inputs), dtype=rows.dtype)
        if self.once:
            values[..., self.index[self.there]] = rows[..., self.there]
        else:
            at: Any = (..., self.index[self.there])
            np.add.at(values, at, rows[..., self.there])
        return values

    def changed(self, change: Change) -> "Pick":
        return self


class Convolution:
    """Weights (groups, outputs per group, inputs per group, *kernel); values are flat (channels, *extent)."""

    def __init__(
        self,
        weight: Array,
        extent: tuple[int, ...],
        stride: tuple[int, ...],
        dilation: tuple[int, ...],
        pads: tuple[int, ...],
    ) -> None:
        self.weight, self.extent, self.stride, self.dilation, self.pads = weight, extent, stride, dilation, pads
        self.groups, self.out, self.into, *self.kernel = weight.shape
        axes = range(len(extent))
        before, after = pads[: len(extent)], pads[len(extent) :]
        self.padded = tuple(extent[a] + before[a] + after[a] for a in axes)
        self.count = tuple((self.padded[a] - dilation[a] * (self.kernel[a] - 1) - 1) // stride[a] + 1 for a in axes)
        if min(self.count) < 1 or min(pads) < 0 or min(*stride, *dilation) < 1:
            raise ValueError(f"a convolution with a kernel of {self.kernel} does not fit an input of {extent}")
        self.inside: Any = (..., *(slice(before[a], before[a] + extent[a]) for a in axes))
        self.inputs, self.outputs = self.groups * self.into * prod(extent), self.groups * self.out * prod(self.count)
        self.terms = max(self.into, self.out) * prod(self.kernel)

    def _cells(self) -> Any:
        """Each cell of the kernel, with the part of the padded input that all windows see through it."""
        for cell in product(*map(range, self.kernel)):
            steps = zip(cell, self.dilation, self.count, self.stride, strict=True)
            yield cell, (..., *(slice(c * d, c * d + (n - 1) * s + 1, s) for c, d, n, s in steps))

    def apply(self, x: Array) -> Array:
        front = x.shape[:-1]
        padded = np.zeros((*front, self.groups, self.into, *self.padded), dtype=x.dtype)
        padded[self.inside] = x.reshape(*front, self.groups, self.into, *self.extent)
        total = np.zeros((*front, self.groups, self.out, prod(self.count)), dtype=x.dtype)
        for cell, seen in self._cells():
            total = total + self.weight[(..., *cell)] @ padded[seen].reshape(*front, self.groups, self.into, -1)
        return total.reshape(*front, self.outputs)

    def pull(self, rows: Array) -> Array:
        front = rows.shape[:-1]
        rows = rows.reshape(*front, self.groups, self.out, prod(self.count))
        padded = np.zeros((*front, self.groups, self.into, *self.padded), dtype=rows.dtype)
        for cell, seen in self._cells():
            part = self.weight[(..., *cell)].swapaxes(-1, -2) @ rows
            padded[seen] += part.reshape(*front, self.groups, self.into, *self.count)
        return padded[self.inside].reshape(*front, self.inputs)

    def changed(self, change: Change) -> "Convolution":
        return Convolution(change(self.weight), self.extent, self.stride, self.dilation, self.pads)
