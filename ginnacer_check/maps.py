"""Numbers and linear maps, forwards and backwards, on batches of flat vectors. Weights are float64 or fractions.

Each map is one matrix `W`. `apply(x)` is `x @ W.T` and `pull(rows)` is `rows @ W`, for any number of axes in front.
`terms` is the largest number of products that are added up in one value of either.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, Protocol

import numpy as np

try:
    from flint import fmpq as _number  # much faster fractions, if python-flint is installed
except ImportError:
    _number = Fraction

Array = Any
"""An array of float64 or of fractions."""
Change = Callable[[Array], Array]


def _fraction(value: Any) -> Any:
    numerator, denominator = (value if isinstance(value, Fraction) else float(value)).as_integer_ratio()
    return _number(numerator, denominator)


def exactly(values: Array) -> Array:
    """The same numbers as fractions."""
    return np.asarray(np.frompyfunc(_fraction, 1, 1)(values), dtype=object)


def below(value: Any) -> float:
    """The largest float64 that is not above a fraction."""
    exact = Fraction(int(value.numerator), int(value.denominator))
    try:
        nearest = float(exact)
    except OverflowError:
        return float(np.finfo(float).max) if exact > 0 else -np.inf
    return nearest if nearest <= exact else float(np.nextafter(nearest, -np.inf))


class Map(Protocol):
    inputs: int
    outputs: int
    terms: int
    weight: Array

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
        used = np.flatnonzero(rows.reshape(-1, self.outputs).any(axis=0))  # what is zero adds nothing
        return rows[..., used] @ self.weight[used] if 4 * len(used) < 3 * self.outputs else rows @ self.weight

    def changed(self, change: Change) -> "Dense":
        return Dense(change(self.weight))


class Pick:
    """Values by their index, -1 for a zero, each times a number: shapes, slices, padding, copies, factors."""

    def __init__(self, index: Array, inputs: int, weight: Array = None) -> None:
        self.index = np.asarray(index, dtype=np.intp).reshape(-1)
        self.inputs, self.outputs = inputs, len(self.index)
        self.weight, self.plain = np.ones(1) if weight is None else weight, weight is None
        self.there = np.flatnonzero(self.index >= 0)
        self.terms = int(np.bincount(self.index[self.there], minlength=1).max())
        self.identity = self.plain and np.array_equal(self.index, np.arange(inputs))

    def apply(self, x: Array) -> Array:
        values = np.zeros((*x.shape[:-1], self.outputs), dtype=x.dtype)
        values[..., self.there] = x[..., self.index[self.there]]
        return values * self.weight

    def pull(self, rows: Array) -> Array:
        values = np.zeros((*rows.shape[:-1], self.inputs), dtype=rows.dtype)
        rows, at = (rows * self.weight)[..., self.there], self.index[self.there]
        if self.terms <= 1:
            values[..., at] = rows
        else:
            np.add.at(values, (..., at), rows)  # type: ignore[arg-type]
        return values

    def after(self, first: "Pick") -> "Pick":
        """Picked from what another one picks as it is."""
        return Pick(
            np.where(self.index >= 0, first.index[self.index], -1), first.inputs, None if self.plain else self.weight
        )

    def changed(self, change: Change) -> "Pick":
        return Pick(self.index, self.inputs, change(self.weight))


class Convolution:
    """Weights (groups, outputs per group, inputs per group, *kernel); values are flat (channels, *extent)."""

    def __init__(self, weight: Array, extent: Any, stride: Any, dilation: Any, pads: Any) -> None:
        self.weight, self.shape = weight, (tuple(extent), tuple(stride), tuple(dilation), tuple(pads))
        self.groups, self.out, self.into, *self.kernel = weight.shape
        before, after = pads[: len(extent)], pads[len(extent) :]
        padded = np.array(extent) + before + after
        count = (padded - np.array(dilation) * (np.array(self.kernel) - 1) - 1) // stride + 1
        if min(count) < 1 or min(pads) < 0 or min(*stride, *dilation) < 1:
            raise ValueError(f"a convolution with a kernel of {self.kernel} does not fit an input of {extent}")
        self.extent, self.padded, self.count = tuple(extent), tuple(map(int, padded)), tuple(map(int, count))
        self.inside: Any = (..., *(slice(b, b + n) for b, n in zip(before, extent, strict=True)))
        self.inputs, self.outputs = self.groups * self.into * prod(extent), self.groups * self.out * prod(self.count)
        self.terms = max(self.into, self.out) * prod(self.kernel)
        steps = [[(c, slice(c * d, c * d + (n - 1) * s + 1, s)) for c in range(k)]
                 for k, d, n, s in zip(self.kernel, dilation, self.count, stride, strict=True)]  # fmt: skip
        self.cells = [tuple(zip(*cell, strict=True)) for cell in product(*steps)]
        """Each cell of the kernel, with the part of the padded input that all windows see through it."""

    def apply(self, x: Array) -> Array:
        front = x.shape[:-1]
        padded = np.zeros((*front, self.groups, self.into, *self.padded), dtype=x.dtype)
        padded[self.inside] = x.reshape(*front, self.groups, self.into, *self.extent)
        total = np.zeros((*front, self.groups, self.out, prod(self.count)), dtype=x.dtype)
        for cell, seen in self.cells:
            window = padded[(..., *seen)].reshape(*front, self.groups, self.into, -1)
            total = total + self.weight[(..., *cell)] @ window
        return total.reshape(*front, self.outputs)

    def pull(self, rows: Array) -> Array:
        front = rows.shape[:-1]
        rows = rows.reshape(*front, self.groups, self.out, prod(self.count))
        padded = np.zeros((*front, self.groups, self.into, *self.padded), dtype=rows.dtype)
        for cell, seen in self.cells:
            part = self.weight[(..., *cell)].swapaxes(-1, -2) @ rows
            padded[(..., *seen)] += part.reshape(*front, self.groups, self.into, *self.count)
        return padded[self.inside].reshape(*front, self.inputs)

    def changed(self, change: Change) -> "Convolution":
        return Convolution(change(self.weight), *self.shape)


class Transposed:
    """Another map the other way round: that of a transposed convolution."""

    def __init__(self, one: Map) -> None:
        self.one, self.inputs, self.outputs, self.terms = one, one.outputs, one.inputs, one.terms
        self.weight, self.apply, self.pull = one.weight, one.pull, one.apply

    def changed(self, change: Change) -> "Transposed":
        return Transposed(self.one.changed(change))
