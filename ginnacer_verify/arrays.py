"""Arrays as everything else holds them: float64, read-only, matrices dense or sparse, batches explicit."""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from ginnacer_verify.errors import NetworkError

Array: TypeAlias = NDArray[np.float64]
Weight: TypeAlias = Array | csr_array

DENSE_ABOVE = 0.3
"""A matrix with a larger share of non-zeros than this is kept dense: BLAS beats CSR from about there."""


def read_only(values: ArrayLike) -> Array:
    """A float64 copy of `values` that nobody can change."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def compact(weight: Weight) -> Weight:
    """The same matrix as a dense array or in CSR form, whichever is cheaper to multiply with; read-only."""
    if issparse(weight):
        sparse = csr_array(weight, dtype=np.float64, copy=True)
        if sparse.nnz > DENSE_ABOVE * np.prod(sparse.shape):
            return read_only(sparse.toarray())
    else:
        array = np.asarray(weight, dtype=np.float64)
        if array.size < 4096 or np.count_nonzero(array) > DENSE_ABOVE * array.size:
            return read_only(array)
        sparse = csr_array(array)
    sparse.sum_duplicates()
    sparse.eliminate_zeros()
    for part in (sparse.data, sparse.indices, sparse.indptr):
        part.setflags(write=False)
    return sparse


def entries(weight: Weight) -> Array:
    """The numbers that are stored for a matrix, in no particular order: all of them, or the non-zeros."""
    return weight if isinstance(weight, np.ndarray) else weight.data


def dense(weight: Weight) -> Array:
    """The matrix as a dense array."""
    return weight if isinstance(weight, np.ndarray) else weight.toarray()


def flattened(x: ArrayLike, inputs: int, shape: tuple[int, ...]) -> Array:
    """`x` as one flat input of a network, or as a batch with one per row.

    Dimensions of size one do not matter, and a flat vector fits every shape; a different order of axes fits none."""
    array = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x, dtype=np.float64)
    if array.shape in {(inputs,), shape}:
        return array.reshape(inputs)
    if array.ndim and array.size == len(array) * inputs and _alike(array.shape[1:], shape):
        return array.reshape(len(array), inputs)
    if array.size == inputs and _alike(array.shape, shape):
        return array.reshape(inputs)
    raise NetworkError(f"an input of shape {list(array.shape)} does not fit a network that takes {list(shape)}")


def _alike(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    one, other = (tuple(size for size in sizes if size != 1) for sizes in (given, wanted))
    return one == other or len(one) <= 1 or len(other) <= 1
