"""Chain: ReLU layers under construction, and Tensor, whose entries are affine in the values of one of them.

Any graph of affine maps and ReLUs becomes one chain of layers: a value that skips a layer is carried through it by
ReLUs that never bend it. A value that cannot be negative passes one ReLU unchanged; any other value is carried as
`x = relu(x) - relu(-x)`. Both are exact, also in floating point.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, hstack, vstack

from ginnacer_verify.arrays import DENSE_ABOVE, Array, Weight
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.rounding import REAL, Arithmetic

Shape: TypeAlias = tuple[int, ...]
Index: TypeAlias = NDArray[np.intp]

LARGEST_TENSOR = 20_000_000
"""More values than this in one tensor is a broken file, not a network for a verifier."""


def size_of(shape: Shape) -> int:
    """The number of entries, checked before anything of that size is made."""
    size = 1
    for extent in shape:
        if extent < 0:
            raise NetworkError(f"a tensor of shape {list(shape)} is not well-formed")
        size *= int(extent)
    if size > LARGEST_TENSOR:
        raise NetworkError(f"a tensor of shape {list(shape)} is larger than we handle ({LARGEST_TENSOR} values)")
    return size


@dataclass(frozen=True, eq=False)
class Tensor:
    """`weight @ values(level) + bias`, row-major, in the given shape; level 0 holds the network's inputs.

    Where the network is bounded as it is executed, `size` has the absolute values of all terms that are rounded on the
    way, up to `roundings` times each."""

    level: int
    weight: Weight
    bias: Array
    shape: Shape
    roundings: int = 0
    size: "Tensor | None" = None

    def rounded(self, roundings: int, floor: float = 0.0) -> "Tensor":
        """The same tensor after as many more roundings, each of which takes a share of the floor as well."""
        if self.size is None or not roundings:
            return self
        size = replace(self.size, bias=self.size.bias + floor)
        return replace(self, roundings=self.roundings + roundings, size=size)

    def mapped(self, matrix: Weight, shape: Shape, absolute: Weight | None = None) -> "Tensor":
        """The tensor `matrix @ self`, flat, in a new shape; `absolute` if the matrix has its own terms."""
        size = self.size and self.size.mapped(abs(matrix) if absolute is None else absolute, shape)
        weight, bias = _tidy(matrix @ self.weight), np.asarray(matrix @ self.bias)
        return Tensor(self.level, weight, bias, shape, self.roundings, size)

    def taken(self, index: Index) -> "Tensor":
        """The entries with the given flat positions, in the shape of `index`: any reordering, repetition or choice."""
        rows, size = index.reshape(-1), self.size and self.size.taken(index)
        return Tensor(self.level, self.weight[rows], self.bias[rows], index.shape, self.roundings, size)

    def positions(self) -> Index:
        """The flat position of each entry, in the tensor's shape: numpy operations on it describe `taken` tensors."""
        return np.arange(len(self.bias), dtype=np.intp).reshape(self.shape)

    def broadcast(self, shape: Shape) -> "Tensor":
        return self if shape == self.shape else self.taken(np.broadcast_to(self.positions(), shape))

    def scaled(self, factor: Array | float) -> "Tensor":
        """Each entry times its entry of `factor`, with numpy's broadcasting."""
        shape = broadcast_shape(self.shape, np.shape(factor))
        factors = np.broadcast_to(np.asarray(factor, dtype=np.float64), shape).reshape(-1)
        return self.broadcast(shape).mapped(csr_array(diags_array(factors)), shape)

    def shifted(self, offset: Array | float) -> "Tensor":
        """Each entry plus its entry of `offset`, with numpy's broadcasting."""
        shape = broadcast_shape(self.shape, np.shape(offset))
        offsets = np.broadcast_to(np.asarray(offset, dtype=np.float64), shape).reshape(-1)
        tensor = self.broadcast(shape)
        size = tensor.size and tensor.size.shifted(np.abs(offsets).reshape(shape))
        return replace(tensor, bias=tensor.bias + offsets, size=size)

    def never_negative(self) -> NDArray[np.bool_]:
        """The entries that cannot be negative because they add up values of a ReLU layer with no minus sign."""
        if self.level == 0:
            constant = np.asarray(abs(self.weight).sum(axis=1)) == 0
            return np.asarray(constant & (self.bias >= 0))
        lowest = np.minimum(self.weight, 0) if isinstance(self.weight, np.ndarray) else self.weight.minimum(0)
        return np.asarray((np.asarray(lowest.sum(axis=1)) == 0) & (self.bias >= 0))


class Chain:
    """The ReLU layers made so far; neurons are only ever appended, so that positions stay what they were."""

    def __init__(self, inputs: int, arithmetic: Arithmetic = REAL) -> None:
        self._widths, self.arithmetic = [inputs], arithmetic
        self._blocks: list[list[Tensor]] = [[]]
        self._carried: dict[int, tuple[Tensor, Tensor]] = {}

    def input(self, shape: Shape) -> Tensor:
        return self._values(0, size_of(shape), shape)

    def _values(self, level: int, size: int, shape: Shape, start: int = 0) -> Tensor:
        """Values of a level as they are, from the given one on."""
        exact = Tensor(level, _identity(size, start), np.zeros(size), shape)
        return exact if self.arithmetic.is_real else replace(exact, size=exact)

    def relu(self, tensor: Tensor) -> Tensor:
        """The ReLU of every entry."""
        return tensor if tensor.never_negative().all() else self._neurons(tensor)

    def maximum(self, first: Tensor, second: Tensor) -> Tensor:
        """The larger of two entries, place by place: `b + relu(a - b)`."""
        a, b = self.aligned(first, second)
        return self.add(self.relu(self.add(a, b.scaled(-1.0))), b)

    def add(self, first: Tensor, second: Tensor) -> Tensor:
        """The sum of two tensors, with numpy's broadcasting."""
        shape = broadcast_shape(first.shape, second.shape)
        a, b = (tensor.broadcast(shape) for tensor in self.aligned(first, second))
        size = a.size and b.size and _sum(a.size, b.size)
        return replace(_sum(a, b), roundings=max(a.roundings, b.roundings), size=size)

    def concatenated(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """The tensors one after the other along an axis."""
        parts = self.aligned(*tensors)
        starts = np.cumsum([0, *(len(part.bias) for part in parts)])
        order = np.concatenate([part.positions() + at for part, at in zip(parts, starts, strict=False)], axis=axis)
        return _stacked(parts).taken(order)

    def aligned(self, *tensors: Tensor) -> list[Tensor]:
        """The same tensors, all carried up to the level of the highest."""
        level = max(tensor.level for tensor in tensors)
        return [self._carried_to(level, tensor) for tensor in tensors]

    def layers(self, output: Tensor) -> tuple[Layer, ...]:
        """The ReLU layers up to the output's level, and the output's own affine map."""
        blocks = [*self._blocks[1 : output.level + 1], [output]]
        return tuple(self._layer(width, block) for width, block in zip(self._widths, blocks, strict=False))

    def _layer(self, width: int, blocks: Sequence[Tensor]) -> Layer:
        weights = [_padded(block.weight, width) for block in blocks]
        weight = weights[0] if len(weights) == 1 else vstack([csr_array(block) for block in weights], format="csr")
        sizes = [block.size for block in blocks if block.size is not None]
        size = self._layer(width, sizes) if sizes else None
        bias, roundings = np.concatenate([block.bias for block in blocks]), max(block.roundings for block in blocks)
        return Layer(weight, bias, self.arithmetic if sizes else REAL, roundings, size)

    def _neurons(self, tensor: Tensor) -> Tensor:
        """New neurons of the next layer, one per entry."""
        level = tensor.level + 1
        if level == len(self._widths):
            self._widths.append(0)
            self._blocks.append([])
        start, size = self._widths[level], len(tensor.bias)
        self._blocks[level].append(tensor)
        self._widths[level] += size
        return self._values(level, size, tensor.shape, start)

    def _carried_to(self, level: int, tensor: Tensor) -> Tensor:
        while tensor.level < level:
            if id(tensor) not in self._carried:
                self._carried[id(tensor)] = (
                    tensor,
                    self._carry(tensor),
                )  # kept beside its result, so the id stays its own
            tensor = self._carried[id(tensor)][1]
        return tensor

    def _carry(self, tensor: Tensor) -> Tensor:
        """The same values one level up: the entries themselves, or what they are made of if that takes fewer ReLUs."""
        used = np.flatnonzero(np.asarray(abs(tensor.weight).sum(axis=0)))
        parts = self._values(tensor.level, tensor.weight.shape[1], (tensor.weight.shape[1],)).taken(used)
        if _relus_to_carry(parts) >= _relus_to_carry(tensor):
            return self._carry_entries(tensor)
        size = tensor.size
        sizes = None if size is None else size.weight[:, used]
        carried = self._carry_entries(parts).mapped(tensor.weight[:, used], tensor.shape, sizes)
        carried = carried.shifted(tensor.bias.reshape(tensor.shape)).rounded(tensor.roundings)
        if size is None or carried.size is None:
            return carried
        return replace(carried, size=replace(carried.size, bias=size.bias))

    def _carry_entries(self, tensor: Tensor) -> Tensor:
        size, signed = len(tensor.bias), np.flatnonzero(~tensor.never_negative())
        lifted = self._neurons(_stacked([tensor, tensor.taken(signed).scaled(-1.0)]))
        minus = csr_array((-np.ones(len(signed)), (signed, np.arange(len(signed)))), shape=(size, len(signed)))
        return lifted.mapped(hstack([_identity(size), minus], format="csr"), tensor.shape)


def broadcast_shape(*shapes: Shape) -> Shape:
    """The shape that numpy gives an operation on the given ones, if it is of a sensible size."""
    shape = np.broadcast_shapes(*shapes)
    size_of(shape)
    return shape


def _relus_to_carry(tensor: Tensor) -> int:
    return 2 * len(tensor.bias) - int(np.count_nonzero(tensor.never_negative()))


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """All entries of tensors of one level, as one vector."""
    width = max(tensor.weight.shape[1] for tensor in tensors)
    weight = vstack([csr_array(_padded(tensor.weight, width)) for tensor in tensors], format="csr")
    bias = np.concatenate([tensor.bias for tensor in tensors])
    sizes = [tensor.size for tensor in tensors if tensor.size is not None]
    roundings = max(tensor.roundings for tensor in tensors)
    return Tensor(tensors[0].level, weight, bias, (len(bias),), roundings, _stacked(sizes) if sizes else None)


def _sum(a: Tensor, b: Tensor) -> Tensor:
    """Of two tensors of one level and shape, without what is said about rounding."""
    width = max(a.weight.shape[1], b.weight.shape[1])
    weight = _tidy(_padded(a.weight, width) + _padded(b.weight, width))
    return Tensor(a.level, weight, a.bias + b.bias, a.shape)


def _identity(size: int, start: int = 0) -> Weight:
    """Rows that pick the values number `start`, `start + 1`, ... of a level."""
    return csr_array((np.ones(size), np.arange(start, start + size), np.arange(size + 1)), shape=(size, start + size))


def _padded(weight: Weight, width: int) -> Weight:
    """The same rows over a level that has grown since."""
    missing = width - weight.shape[1]
    if not missing:
        return weight
    if isinstance(weight, np.ndarray):
        return np.pad(weight, ((0, 0), (0, missing)))
    return csr_array((weight.data, weight.indices, weight.indptr), shape=(weight.shape[0], width))


def _tidy(weight: Weight) -> Weight:
    """Dense once it is mostly full, so that long compositions stay fast."""
    if isinstance(weight, np.ndarray) or weight.nnz <= DENSE_ABOVE * weight.shape[0] * weight.shape[1]:
        return weight
    return weight.toarray()
