"""Composer: nodes of a Graph made out of tensors whose values may still lie in another order, or several times over.

A tensor is a node together with the position of each of its entries among the node's values. Reshaping, transposing,
slicing or gathering only change the positions; a node that moves values is made when an operator needs them in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ginnacer_verify.arrays import Array
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.function import Function
from ginnacer_verify.graph.graph import Affine, Builder, Graph, Shape
from ginnacer_verify.graph.graph import Tensor as Described
from ginnacer_verify.graph.linear import NOTHING, Indices, LinearMap, Scale, Select, Sparse

LARGEST_TENSOR = 20_000_000
"""More values than this in one tensor is a broken file, not a network for a verifier."""
MANY_PARTS = 8
"""An affine node is not made the sum of more maps than this by absorbing others."""


def size_of(shape: Sequence[int]) -> int:
    """The number of entries, checked before anything of that size is made."""
    if any(extent < 0 for extent in shape):
        raise NetworkError(f"a tensor of shape {list(shape)} is not well-formed")
    size = prod(int(extent) for extent in shape)
    if size > LARGEST_TENSOR:
        raise NetworkError(f"a tensor of shape {list(shape)} is larger than we handle ({LARGEST_TENSOR} values)")
    return size


def broadcast_shape(*shapes: Shape) -> Shape:
    """The shape that numpy gives an operation on the given ones, if it is of a sensible size."""
    shape = np.broadcast_shapes(*shapes)
    size_of(shape)
    return shape


@dataclass(frozen=True, eq=False)
class Tensor:
    """Values of a node: all of them in order if `index` is None, else those at `index`, NOTHING for a zero."""

    node: int
    index: Indices | None
    shape: Shape

    @cached_property
    def positions(self) -> Indices:
        """The place of each entry in the node's values, in the tensor's shape; to move them is to move the tensor."""
        return np.arange(prod(self.shape), dtype=np.intp).reshape(self.shape) if self.index is None else self.index

    def moved(self, positions: Indices) -> "Tensor":
        """The tensor of the same node's values at other positions."""
        if self.index is None and positions.size == prod(self.shape):
            flat = positions.reshape(-1)
            if bool((flat == np.arange(len(flat))).all()):
                return Tensor(self.node, None, positions.shape)
        return Tensor(self.node, positions, positions.shape)

    def broadcast(self, shape: Shape) -> "Tensor":
        return self if shape == self.shape else self.moved(np.broadcast_to(self.positions, shape))


Constant: TypeAlias = NDArray[Any]
Value: TypeAlias = Tensor | Constant
Part: TypeAlias = tuple[int, LinearMap]


class Composer(Builder):
    """A Builder that takes and gives tensors. Rounding is nowhere hidden: a factor that is itself rounded says so."""

    unstated = False
    """Whether a weight is computed when the network is executed, so that nobody says how far it is off."""

    def whole(self, node: int, shape: Shape) -> Tensor:
        return Tensor(node, None, shape)

    def ordered(self, tensor: Tensor) -> int:
        """A node whose values are the tensor's, in order."""
        if tensor.index is None:
            return tensor.node
        return self.affine((tensor.node, Select(tensor.index, self.size(tensor.node))))

    def mapped(self, tensor: Tensor, linear: LinearMap, shape: Shape) -> Tensor:
        """A linear map of all entries."""
        return self.whole(self.affine((self.ordered(tensor), linear)), shape)

    def scaled(self, tensor: Tensor, factor: ArrayLike, roundings: int = 0) -> Tensor:
        """Each entry times its entry of `factor`, with numpy's broadcasting."""
        shape = broadcast_shape(tensor.shape, np.shape(factor))
        tensor, factors = tensor.broadcast(shape), np.broadcast_to(np.asarray(factor, np.float64), shape)
        if not roundings and (factors == 1).all():
            return tensor
        if self._is_all(tensor):
            return Tensor(
                self.affine((tensor.node, Scale(self._as_stored(tensor, factors), roundings))), tensor.index, shape
            )
        matrix = self._picked(tensor.positions.reshape(-1), factors.reshape(-1), tensor.node)
        return self.whole(self.affine((tensor.node, Sparse(matrix, roundings))), shape)

    def shifted(self, tensor: Tensor, offset: ArrayLike) -> Tensor:
        """Each entry plus its entry of `offset`, with numpy's broadcasting."""
        shape = broadcast_shape(tensor.shape, np.shape(offset))
        tensor, offsets = tensor.broadcast(shape), np.broadcast_to(np.asarray(offset, np.float64), shape)
        if (offsets == 0).all():
            return tensor
        if self._is_all(tensor):
            same = Select.identity(self.size(tensor.node))
            return Tensor(self.affine((tensor.node, same), bias=self._as_stored(tensor, offsets)), tensor.index, shape)
        moved = Select(tensor.positions, self.size(tensor.node))
        return self.whole(self.affine((tensor.node, moved), bias=offsets.reshape(-1)), shape)

    def added(self, *tensors: Tensor, signs: Sequence[float] | None = None) -> Tensor:
        """The sum of several tensors, each with a sign, with numpy's broadcasting."""
        shape = broadcast_shape(*(tensor.shape for tensor in tensors))
        tensors = tuple(tensor.broadcast(shape) for tensor in tensors)
        signs, stored = signs or [1.0] * len(tensors), self._are_aligned(tensors)
        parts = [self._signed(tensor, sign, stored) for tensor, sign in zip(tensors, signs, strict=True)]
        return Tensor(self.affine(*parts), tensors[0].index if stored else None, shape)

    def summed(self, tensor: Tensor, axes: tuple[int, ...], keep: bool = False, bias: float = 0.0) -> Tensor:
        """The sum along some axes, and a constant."""
        kept = [axis for axis in range(len(tensor.shape)) if axis not in axes]
        order = tensor.positions.transpose(*kept, *axes).reshape(size_of([tensor.shape[a] for a in kept]), -1)
        rows, inside = np.repeat(np.arange(len(order)), order.shape[1]), order.reshape(-1) != NOTHING
        ones, size = np.ones(int(inside.sum())), self.size(tensor.node)
        matrix = csr_array((ones, (rows[inside], order.reshape(-1)[inside])), shape=(len(order), size))
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(tensor.shape) if keep or axis in kept)
        return self.whole(self.affine((tensor.node, Sparse(matrix)), bias=bias), shape)

    def applied(self, function: Function, *tensors: Tensor) -> Tensor:
        """An elementwise function of tensors, with numpy's broadcasting."""
        shape = broadcast_shape(*(tensor.shape for tensor in tensors))
        tensors = tuple(tensor.broadcast(shape) for tensor in tensors)
        if self._are_aligned(tensors):
            return Tensor(self.apply(function, *(tensor.node for tensor in tensors)), tensors[0].index, shape)
        return self.whole(self.apply(function, *(self.ordered(tensor) for tensor in tensors)), shape)

    def joined(self, pieces: Sequence[tuple[Value, Indices]], shape: Shape) -> Tensor:
        """A tensor whose flat entry `at[i]` is entry `i` of the piece that comes with `at`; what none gives is zero."""
        nodes: dict[int, Indices] = {}
        bias = np.zeros(size_of(shape))
        for value, at in pieces:
            if isinstance(value, Tensor):
                nodes.setdefault(value.node, np.full(len(bias), NOTHING))[at] = value.positions.reshape(-1)
            else:
                bias[at] = value.astype(np.float64).reshape(-1)
        if len(nodes) == 1 and not bias.any():
            ((node, index),) = nodes.items()
            return Tensor(node, index.reshape(shape), shape)
        parts = [(node, Select(index, self.size(node))) for node, index in nodes.items()]
        return self.whole(self.affine(*parts, bias=bias), shape)

    def constant(self, values: Constant) -> Tensor:
        """Numbers as a tensor, for the few functions that take nothing else."""
        flat = values.astype(np.float64).reshape(-1)
        nothing = Select(np.full(len(flat), NOTHING), self.size(0))
        return self.whole(self.affine((0, nothing), bias=flat), values.shape)

    def graph(self, output: int, x: Sequence[Described], y: Sequence[Described], model: bytes = b"") -> Graph:
        _absorb(self.nodes, output)
        return super().graph(output, x, y, model)

    def _is_all(self, tensor: Tensor) -> bool:
        """Whether the tensor has every value of its node exactly once."""
        if tensor.index is None:
            return True
        flat, size = tensor.index.reshape(-1), self.size(tensor.node)
        return (
            len(flat) == size and int(flat.min(initial=0)) >= 0 and bool((np.bincount(flat, minlength=size) == 1).all())
        )

    def _are_aligned(self, tensors: Sequence[Tensor]) -> bool:
        """Whether all tensors have all values of their nodes, in the same order."""
        first, *others = tensors
        if any((other.index is None) != (first.index is None) for other in others) or not self._is_all(first):
            return False
        return all(o.index is first.index or np.array_equal(o.positions, first.positions) for o in others) and all(
            self.size(o.node) == self.size(first.node) for o in others
        )

    def _as_stored(self, tensor: Tensor, values: Array) -> Array:
        """Numbers for the tensor's entries, in the order of the node's values."""
        if tensor.index is None:
            return values.reshape(-1)
        stored = np.empty(values.size)
        stored[tensor.index.reshape(-1)] = values.reshape(-1)
        return stored

    def _signed(self, tensor: Tensor, sign: float, stored: bool) -> Part:
        size = self.size(tensor.node)
        if sign == 1:
            return tensor.node, Select.identity(size) if stored else Select(tensor.positions, size)
        if stored or tensor.index is None:
            return tensor.node, Scale(np.full(size, sign))
        flat = tensor.positions.reshape(-1)
        return tensor.node, Sparse(self._picked(flat, np.full(len(flat), sign), tensor.node))

    def _picked(self, flat: Indices, factors: Array, node: int) -> csr_array:
        inside = flat != NOTHING
        entries = (factors[inside], (np.flatnonzero(inside), flat[inside]))
        return csr_array(entries, shape=(len(flat), self.size(node)))


def _absorb(nodes: list[Any], output: int) -> None:
    """Make one of two affine nodes where the second only adds to the first, which nobody else uses; exactly."""
    needed, uses = {output}, dict.fromkeys(range(len(nodes)), 0)
    for number in range(len(nodes) - 1, -1, -1):
        if number in needed:
            needed.update(nodes[number].sources)
            for source in nodes[number].sources:
                uses[source] += 1
    for number in sorted(needed):
        node = nodes[number]
        if not isinstance(node, Affine):
            continue
        parts: list[Part] = []
        bias = node.bias
        for source, linear in zip(node.sources, node.maps, strict=True):
            before = nodes[source]
            same = (
                isinstance(linear, Select) and linear.is_identity and isinstance(before, Affine) and uses[source] == 1
            )
            if (
                same
                and len(before.maps) + len(parts) <= MANY_PARTS
                and not (bias.astype(bool) & before.bias.astype(bool)).any()
            ):
                parts += zip(before.sources, before.maps, strict=True)
                bias = bias + before.bias
            else:
                parts.append((source, linear))
        nodes[number] = Affine(tuple(s for s, _ in parts), tuple(m for _, m in parts), bias)
