"""Linear maps as values: applied to batches of vectors and pulled back through, without building their matrices.

Batches come first and are always there: `apply` takes (batch, inputs) and gives (batch, outputs), `pull_back` takes
rows of coefficients of the outputs, (batch, outputs), and gives coefficients of the inputs, `rows @ matrix`.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from ginnacer_verify.arrays import Array, Weight, dense, read_only
from ginnacer_verify.errors import NetworkError

Indices = NDArray[np.intp]
NOTHING = -1
"""An index of `Select` that stands for zero."""


class LinearMap(ABC):
    """`y = matrix @ x`. A computed value of y, or of a row that is pulled back, is a sum of at most `terms` products.

    Every entry of the matrix may itself be off by some relative roundings: these are counted in `terms` as well, so
    that `gamma(terms)` times the sum of absolute values covers both."""

    inputs: int
    outputs: int
    terms: int
    """The most roundings that any product of a sum passes, forwards or backwards."""

    @property
    def executed(self) -> int:
        """The most roundings that a product passes where the network is executed; 0 if values are only moved."""
        return self.terms

    @abstractmethod
    def apply(self, x: Array) -> Array:
        """`x @ matrix.T` for a batch of vectors, one per row."""

    @abstractmethod
    def pull_back(self, rows: Array) -> Array:
        """`rows @ matrix` for a batch of coefficients, one per row."""

    @abstractmethod
    def absolute(self) -> "LinearMap":
        """The map whose matrix holds the absolute values of this one's."""

    @abstractmethod
    def matrix(self) -> csr_array:
        """The matrix itself, for reductions that need one."""

    @abstractmethod
    def single(self) -> "LinearMap":
        """The same map in float32: to guess with, never to prove."""

    @property
    def parameters(self) -> int:
        """How many stored weights are not zero; maps that only move values have none."""
        return 0

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest absolute value of an entry; not finite if any of them is not."""


def _single(values: Array) -> Any:
    return np.asarray(values, dtype=np.float32)


class Dense(LinearMap):
    """A matrix that is mostly full."""

    def __init__(self, weight: ArrayLike, roundings: int = 0) -> None:
        self.weight = np.asarray(weight) if getattr(weight, "dtype", None) == np.float32 else read_only(weight)
        if self.weight.ndim != 2:
            raise NetworkError(f"a matrix has two axes, not the shape {list(self.weight.shape)}")
        self.outputs, self.inputs = self.weight.shape
        self.roundings, self.terms = roundings, max(self.weight.shape) + roundings

    @property
    def executed(self) -> int:
        return self.inputs + self.roundings

    def apply(self, x: Array) -> Array:
        return np.asarray(x @ self.weight.T)

    def pull_back(self, rows: Array) -> Array:
        return np.asarray(rows @ self.weight)

    def absolute(self) -> "Dense":
        return Dense(np.abs(self.weight), self.roundings)

    def matrix(self) -> csr_array:
        return csr_array(self.weight)

    @property
    def parameters(self) -> int:
        return int(np.count_nonzero(self.weight))

    def single(self) -> "Dense":
        return Dense(_single(self.weight))

    @property
    def largest(self) -> float:
        return float(np.abs(self.weight).max(initial=0.0))


class Sparse(LinearMap):
    """A matrix with few entries that are not zero."""

    def __init__(self, weight: Any, roundings: int = 0) -> None:
        self.weight = csr_array(weight)
        self.weight.sum_duplicates()
        self.outputs, self.inputs = self.weight.shape
        across = np.bincount(self.weight.indices, minlength=self.inputs) if self.weight.nnz else np.zeros(1)
        self.roundings = roundings
        self.terms = int(max(np.diff(self.weight.indptr).max(initial=0), across.max(initial=0))) + roundings

    @property
    def executed(self) -> int:
        return int(np.diff(self.weight.indptr).max(initial=0)) + self.roundings

    @cached_property
    def _across(self) -> csr_array:
        return csr_array(self.weight.T)

    def apply(self, x: Array) -> Array:
        return np.ascontiguousarray((self.weight @ x.T).T)

    def pull_back(self, rows: Array) -> Array:
        return np.ascontiguousarray((self._across @ rows.T).T)

    def absolute(self) -> "Sparse":
        return Sparse(abs(self.weight), self.roundings)

    def matrix(self) -> csr_array:
        return self.weight

    @property
    def parameters(self) -> int:
        return int(np.count_nonzero(self.weight.data))

    def single(self) -> "Sparse":
        return Sparse(self.weight.astype(np.float32))

    @property
    def largest(self) -> float:
        return float(np.abs(self.weight.data).max(initial=0.0))


class Scale(LinearMap):
    """Every value times a factor of its own."""

    def __init__(self, factor: Array, roundings: int = 0) -> None:
        self.factor = np.asarray(factor)
        self.inputs = self.outputs = len(self.factor)
        self.roundings, self.terms = roundings, 1 + roundings

    @property
    def executed(self) -> int:
        mantissas = np.abs(np.frexp(self.factor)[0])
        exact = bool(((mantissas == 0.5) | (mantissas == 0)).all())  # 0 and powers of 2
        return self.roundings if exact else 1 + self.roundings

    def apply(self, x: Array) -> Array:
        return np.asarray(x * self.factor)

    def pull_back(self, rows: Array) -> Array:
        return np.asarray(rows * self.factor)

    def absolute(self) -> "Scale":
        return Scale(np.abs(self.factor), self.roundings)

    def matrix(self) -> csr_array:
        places = np.arange(self.inputs)
        return csr_array((np.asarray(self.factor, dtype=np.float64), (places, places)))

    @property
    def parameters(self) -> int:
        return int(np.count_nonzero(self.factor))

    def single(self) -> "Scale":
        return Scale(_single(self.factor))

    @property
    def largest(self) -> float:
        return float(np.abs(self.factor).max(initial=0.0))


class Select(LinearMap):
    """Values picked by index, NOTHING for zero: reshaping, transposing, slicing, gathering, padding and expanding."""

    def __init__(self, index: ArrayLike, inputs: int) -> None:
        self.index: Indices = np.asarray(index, dtype=np.intp).reshape(-1)
        self.inputs, self.outputs = inputs, len(self.index)
        self._there = np.flatnonzero(self.index != NOTHING)
        self._taken = self.index[self._there]
        counts = np.bincount(self._taken, minlength=1)
        self._unique = bool(counts.max(initial=0) <= 1)
        self.terms = int(counts.max(initial=0))
        self.is_identity = inputs == len(self.index) and bool((self.index == np.arange(inputs)).all())
        first = int(self._taken[0]) if len(self._taken) else 0
        run = len(self._there) == len(self.index) and bool((self.index == first + np.arange(len(self.index))).all())
        self._run = slice(first, first + len(self.index)) if run else None

    @classmethod
    def identity(cls, size: int) -> "Select":
        return cls(np.arange(size), size)

    @property
    def executed(self) -> int:
        return 0

    @cached_property
    def _sparse(self) -> Sparse:
        return Sparse(self.matrix())

    def apply(self, x: Array) -> Array:
        if self.is_identity:
            return x
        if self._run is not None:
            return x[:, self._run]
        if len(self._there) == self.outputs:
            return x[:, self.index]
        y = np.zeros((len(x), self.outputs), dtype=x.dtype)
        y[:, self._there] = x[:, self._taken]
        return y

    def pull_back(self, rows: Array) -> Array:
        if self.is_identity:
            return rows
        if not self._unique:
            return self._sparse.pull_back(rows)
        x = np.zeros((len(rows), self.inputs), dtype=rows.dtype)
        if self._run is not None:
            x[:, self._run] = rows
        else:
            x[:, self._taken] = rows[:, self._there]
        return x

    def absolute(self) -> "Select":
        return self

    def matrix(self) -> csr_array:
        ones = np.ones(len(self._there))
        return csr_array((ones, (self._there, self._taken)), shape=(self.outputs, self.inputs))

    def single(self) -> "Select":
        return self

    @property
    def largest(self) -> float:
        return 1.0 if len(self._there) else 0.0

    def then(self, index: ArrayLike) -> "Select":
        """This selection, and then another one of what it gives."""
        chosen = np.asarray(index, dtype=np.intp).reshape(-1)
        return Select(np.where(chosen == NOTHING, NOTHING, self.index[chosen]), self.inputs)


class Adjoint(LinearMap):
    """The transposed map: a transposed convolution is the adjoint of a convolution."""

    def __init__(self, of: LinearMap) -> None:
        self.of = of
        self.inputs, self.outputs, self.terms = of.outputs, of.inputs, of.terms

    def apply(self, x: Array) -> Array:
        return self.of.pull_back(x)

    def pull_back(self, rows: Array) -> Array:
        return self.of.apply(rows)

    def absolute(self) -> "Adjoint":
        return Adjoint(self.of.absolute())

    def matrix(self) -> csr_array:
        return csr_array(self.of.matrix().T)

    @property
    def parameters(self) -> int:
        return self.of.parameters

    def single(self) -> "Adjoint":
        return Adjoint(self.of.single())

    @property
    def largest(self) -> float:
        return self.of.largest


class Repeated(LinearMap):
    """The same matrix on each of many vectors that follow each other: a linear layer on every token of a sequence."""

    def __init__(self, weight: Dense, times: int) -> None:
        self.weight, self.times = weight, times
        self.inputs, self.outputs, self.terms = weight.inputs * times, weight.outputs * times, weight.terms

    @property
    def executed(self) -> int:
        return self.weight.executed

    def apply(self, x: Array) -> Array:
        return self.weight.apply(x.reshape(-1, self.weight.inputs)).reshape(len(x), self.outputs)

    def pull_back(self, rows: Array) -> Array:
        return self.weight.pull_back(rows.reshape(-1, self.weight.outputs)).reshape(len(rows), self.inputs)

    def absolute(self) -> "Repeated":
        return Repeated(self.weight.absolute(), self.times)

    def matrix(self) -> csr_array:
        from scipy.sparse import eye_array, kron

        return csr_array(kron(eye_array(self.times), self.weight.matrix()))

    @property
    def parameters(self) -> int:
        return self.weight.parameters

    def single(self) -> "Repeated":
        return Repeated(self.weight.single(), self.times)

    @property
    def largest(self) -> float:
        return self.weight.largest


def linear_map(weight: Any, roundings: int = 0) -> LinearMap:
    """A matrix, dense or sparse, as the map that multiplies faster."""
    if issparse(weight):
        full = weight.nnz > 0.3 * np.prod(weight.shape)
        return Dense(weight.toarray(), roundings) if full else Sparse(weight, roundings)
    array = np.asarray(weight)
    few = array.size >= 4096 and np.count_nonzero(array) <= 0.1 * array.size
    if few:  # of many zeros no copy in float64 is made
        return Sparse(csr_array(array).astype(np.float64), roundings)
    return Dense(np.asarray(array, dtype=np.float64), roundings)


def matrix_of(one: LinearMap) -> Weight:
    """The matrix of a map, as it is stored if it is."""
    return one.weight if isinstance(one, Dense) else one.matrix()


def dense_of(one: LinearMap) -> Array:
    """The matrix of a map as a dense array."""
    return dense(matrix_of(one))
