"""Sums, products and matrix products; with a constant they are affine, of two computed tensors they are Products."""

from functools import reduce
from math import prod

import numpy as np
from scipy.sparse import csr_array

from ginnacer_verify.graph.linear import NOTHING, Dense, Repeated, Sparse, linear_map
from ginnacer_verify.loading.composer import Constant, Tensor, Value, broadcast_shape, size_of
from ginnacer_verify.loading.node import Node


def add(node: Node) -> Tensor:
    """Add and Sum."""
    total = reduce(lambda a, b: _sum(node, a, b), node.values())
    assert isinstance(total, Tensor)
    return total


def mean(node: Node) -> Tensor:
    return node.make.scaled(add(node), 1.0 / len(node.inputs), roundings=1)


def sub(node: Node) -> Tensor:
    match node.values():
        case (Tensor() as a, Tensor() as b):
            return node.make.added(a, b, signs=(1.0, -1.0))
        case (Tensor() as a, np.ndarray() as b):
            return node.make.shifted(a, -b.astype(np.float64))
        case (np.ndarray() as a, Tensor() as b):
            return node.make.shifted(node.make.scaled(b, -1.0), a.astype(np.float64))
        case _:
            raise node.unsupported("it needs two inputs")


def _sum(node: Node, first: Value, second: Value) -> Value:
    match first, second:
        case (Tensor() as a, Tensor() as b):
            return node.make.added(a, b)
        case (Tensor() as a, np.ndarray() as b) | (np.ndarray() as b, Tensor() as a):
            return node.make.shifted(a, b.astype(np.float64))
        case _:
            return np.add(first, second)  # type: ignore[arg-type]


def mul(node: Node) -> Tensor:
    match node.values():
        case (Tensor() as a, np.ndarray() as b) | (np.ndarray() as b, Tensor() as a):
            return node.make.scaled(a, b.astype(np.float64))
        case (Tensor() as a, Tensor() as b):
            return product(node, a, b)
        case _:
            raise node.unsupported("it needs two inputs")


def product(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """The product of two computed tensors, entry by entry; of a tensor with itself it is a Square."""
    if a.node == b.node and (a is b or np.array_equal(a.positions, b.positions)):
        return node.make.applied(node.function("elementary", "Square"), a)
    return node.make.applied(node.function("product", "Product"), a, b)


def div(node: Node) -> Tensor:
    match node.values():
        case (Tensor() as a, np.ndarray() as b):
            if (b == 0).any():
                raise node.unsupported("it divides by zero")
            inverse = 1.0 / b.astype(np.float64)
            exact = bool((np.abs(np.frexp(b.astype(np.float64))[0]) == 0.5).all())  # powers of 2
            return node.make.scaled(a, inverse, roundings=0 if exact else 1)
        case (np.ndarray() as a, Tensor() as b):
            return node.make.scaled(_inverse(node, b), a.astype(np.float64))
        case (Tensor() as a, Tensor() as b):
            return product(node, a, _inverse(node, b))
        case _:
            raise node.unsupported("it needs two inputs")


def _inverse(node: Node, tensor: Tensor) -> Tensor:
    return node.make.applied(node.function("elementary", "Reciprocal"), tensor)


def neg(node: Node) -> Tensor:
    return node.make.scaled(node.tensor(), -1.0)


def matmul(node: Node) -> Tensor:
    return _matmul(node, node.value(0), node.value(1))


def gemm(node: Node) -> Tensor:
    left, right = node.value(0), node.value(1)
    if len(left.shape) != 2 or len(right.shape) != 2:
        raise node.unsupported("we read it with two matrices")
    left = _swapped(left) if node.attributes.get("transA", 0) else left
    right = _swapped(right) if node.attributes.get("transB", 0) else right
    result = node.make.scaled(_matmul(node, left, right), node.real("alpha", 1.0))
    if not node.has(2):
        return result
    beta, offset = node.real("beta", 1.0), node.value(2)
    if isinstance(offset, Tensor):
        return node.make.added(result, node.make.scaled(offset, beta))
    if beta != 1 and offset.dtype == np.float64:
        raise node.unsupported("a beta other than 1 is read with constants of float32 only")
    return node.make.shifted(result, offset.astype(np.float64) * beta)  # exact: 24 and 24 bits


def _swapped(value: Value) -> Value:
    if isinstance(value, Tensor):
        return value.moved(np.swapaxes(value.positions, -1, -2))
    return np.swapaxes(value, -1, -2)


def _matmul(node: Node, left: Value, right: Value) -> Tensor:
    """As numpy has it: a vector becomes a matrix for the time being."""
    if not left.shape or not right.shape:
        raise node.unsupported("it needs matrices")
    one_row, one_column = len(left.shape) == 1, len(right.shape) == 1
    left = _reshaped(left, (1, *left.shape)) if one_row else left
    right = _reshaped(right, (*right.shape, 1)) if one_column else right
    if left.shape[-1] != right.shape[-2]:
        raise node.unsupported(f"the shapes {list(left.shape)} and {list(right.shape)} do not fit")
    match left, right:
        case (Tensor() as a, np.ndarray() as b):
            result = _times(node, a, b)
        case (np.ndarray() as a, Tensor() as b):
            flipped = _times(node, b.moved(np.swapaxes(b.positions, -1, -2)), np.swapaxes(a, -1, -2))
            result = flipped.moved(np.swapaxes(flipped.positions, -1, -2))
        case (Tensor() as a, Tensor() as b):
            result = _both(node, a, b)
        case _:
            raise node.unsupported("it needs a computed tensor")
    shape = list(result.shape)
    if one_column:
        shape.pop(-1)
    if one_row:
        shape.pop(-1 if one_column else -2)
    return result.moved(result.positions.reshape(shape))


def _reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    return value.moved(value.positions.reshape(shape)) if isinstance(value, Tensor) else value.reshape(shape)


def _times(node: Node, a: Tensor, matrix: Constant) -> Tensor:
    """A computed tensor times a constant matrix, the same for all or one for each of a batch."""
    batch = broadcast_shape(a.shape[:-2], matrix.shape[:-2])
    shape = (*batch, a.shape[-2], matrix.shape[-1])
    size_of(shape)
    if prod(matrix.shape[:-2]) == 1:
        flat = matrix.reshape(matrix.shape[-2:]).T
        a, rows = a.broadcast((*batch, *a.shape[-2:])), prod(shape[:-1])
        if rows == 1:
            return node.make.mapped(a, linear_map(flat), shape)
        return node.make.mapped(a, Repeated(Dense(flat.astype(np.float64)), rows), shape)
    weight = matrix.astype(np.float64)
    inner = (*batch, a.shape[-2], weight.shape[-1], a.shape[-1])
    size_of(inner)
    columns = np.broadcast_to(a.positions[..., :, None, :], inner).reshape(-1)
    entries = np.broadcast_to(np.swapaxes(weight, -1, -2)[..., None, :, :], inner).reshape(-1)
    rows, inside = np.repeat(np.arange(prod(shape)), a.shape[-1]), columns != NOTHING
    sparse = csr_array((entries[inside], (rows[inside], columns[inside])), shape=(prod(shape), node.make.size(a.node)))
    return node.make.whole(node.make.affine((a.node, Sparse(sparse))), shape)


def _both(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """The product of two computed tensors: all products of two entries, then their sums."""
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1], a.shape[-1])
    size_of(shape)
    left = a.moved(np.ascontiguousarray(np.broadcast_to(a.positions[..., :, None, :], shape)))
    right = b.moved(np.ascontiguousarray(np.broadcast_to(np.swapaxes(b.positions, -1, -2)[..., None, :, :], shape)))
    return node.make.summed(product(node, left, right), (len(shape) - 1,))


LINEAR = {
    "Add": add,
    "Div": div,
    "Gemm": gemm,
    "MatMul": matmul,
    "Mean": mean,
    "Mul": mul,
    "Neg": neg,
    "Sub": sub,
    "Sum": add,
}
