"""Network: affine layers as read-only arrays with a ReLU between any two of them, and their evaluation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from ginnacer_verify.arrays import Array, Weight, compact, dense, entries, flattened, read_only
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.rounding import FLOATS, REAL, Arithmetic
from ginnacer_verify.shown import Shown

if TYPE_CHECKING:
    from ginnacer_verify.graph.graph import Original

Indices: TypeAlias = NDArray[np.intp]
FUSED = 8
"""So many more roundings may a product pass in a runtime that folds constant factors into weights (BatchNormalization)
or converts weights that are stored with more digits."""


@dataclass(frozen=True, eq=False, repr=False)
class Layer(Shown):
    """The affine map `y = weight @ x + bias`, dense or sparse.

    Paper: Fully-Connected Layer; weight = W, bias = b. An executed layer passes `roundings` in its arithmetic; the sums
    whose terms are rounded are those of `size`, or of the layer itself if that is None: a layer that is several
    operators of the original multiplied out has larger ones."""

    weight: Weight
    bias: Array
    arithmetic: Arithmetic = REAL
    roundings: int = 0
    size: "Layer | None" = field(default=None, repr=False)
    share: Array | float = 1.0
    """Executed values may be so many times as large as the layer's before they overflow: less than 1 where rows of a
    property were multiplied in."""

    def __post_init__(self) -> None:
        weight, bias = compact(self.weight), read_only(self.bias)
        if weight.ndim != 2 or bias.shape != (weight.shape[0],):
            raise NetworkError(f"a layer with weights of shape {weight.shape} cannot have biases of shape {bias.shape}")
        if not (np.isfinite(entries(weight)).all() and np.isfinite(bias).all()):
            raise NetworkError("a weight or bias is not a finite number; retrain or repair the network")
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", bias)

    @property
    def inputs(self) -> int:
        return int(self.weight.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.weight.shape[0])

    def facts(self) -> dict[str, object]:
        return {"inputs": self.inputs, "outputs": self.outputs}

    @property
    def parameters(self) -> int:
        """How many weights and biases are not zero."""
        return int(np.count_nonzero(entries(self.weight)) + np.count_nonzero(self.bias))

    @cached_property
    def absolute(self) -> "Layer":
        """The layer whose value at |x| is the sum of the absolute values of all terms that are rounded."""
        return self.size or Layer(abs(self.weight), np.abs(self.bias))

    def off(self, size: Array) -> Array:
        """How far executed values are from `weight @ x + bias`, given `absolute` at |x|: 0 in real numbers."""
        off = self.arithmetic.off(self.roundings, size)
        return off if self.arithmetic.is_real else np.where(size < self.limit, off, np.inf)

    @property
    def limit(self) -> Array:
        """What `absolute` must be below, so that no executed sum overflows."""
        return np.broadcast_to(self.share * self.arithmetic.largest, self.bias.shape)

    def part(self, rows: Indices | slice, columns: Indices | slice = slice(None)) -> "Layer":
        """Some of the values, as functions of some of the inputs; the others are zero."""
        weight = self.weight[rows][:, columns]
        size = self.size and self.size.part(rows, columns)
        share = self.share if isinstance(self.share, float) else self.share[rows]
        return Layer(weight, self.bias[rows], self.arithmetic, self.roundings, size, share)

    def __call__(self, x: Array) -> Array:
        """`weight @ x + bias` for one vector or for each row of a batch."""
        product = self.weight @ x if x.ndim == 1 else (self.weight @ x.T).T
        return np.asarray(product + self.bias)


@dataclass(frozen=True, eq=False, repr=False)
class Network(Shown):
    """Affine layers with a ReLU on every value between two of them.

    Paper: Feedforward Neural Network; `layers[l - 1]` holds W^l and b^l, the last one has no ReLU.

    Inputs and outputs are flat vectors in row-major order; the shapes and the element type are those of the
    original file. `model` is that file's ONNX model in bytes, on which witnesses are replayed, or empty; a chain that
    joins several networks has them as its `originals` instead.
    """

    layers: tuple[Layer, ...]
    input_shape: tuple[int, ...] = ()
    output_shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))
    model: bytes = field(default=b"", repr=False)
    originals: "tuple[Original, ...]" = ()

    def __post_init__(self) -> None:
        if not self.layers:
            raise NetworkError("a network needs at least one layer")
        for index, (first, second) in enumerate(zip(self.layers, self.layers[1:], strict=False), start=1):
            if first.outputs != second.inputs:
                raise NetworkError(
                    f"layer {index} has {first.outputs} outputs but layer {index + 1} takes {second.inputs} inputs"
                )
        object.__setattr__(self, "input_shape", self.input_shape or (self.inputs,))
        object.__setattr__(self, "output_shape", self.output_shape or (self.outputs,))
        for shape, size in ((self.input_shape, self.inputs), (self.output_shape, self.outputs)):
            if int(np.prod(shape)) != size:
                raise NetworkError(f"a tensor of shape {list(shape)} does not hold {size} values")

    @classmethod
    def from_arrays(cls, *arrays: tuple[ArrayLike | Weight, ArrayLike]) -> "Network":
        """A network from (weight, bias) pairs, for scripts and tests."""
        pairs = ((w if issparse(w) else read_only(w), read_only(b)) for w, b in arrays)
        return cls(tuple(Layer(weight, bias) for weight, bias in pairs))

    @property
    def inputs(self) -> int:
        return self.layers[0].inputs

    @property
    def outputs(self) -> int:
        return self.layers[-1].outputs

    @property
    def arithmetic(self) -> Arithmetic:
        """What bounds of the layers hold in: real numbers, or those that the layers are executed in."""
        return self.layers[-1].arithmetic

    def executed(self) -> "Network":
        """The same network, to be bounded as it is executed layer by layer in its element type."""
        kind = FLOATS[str(self.dtype)]
        layers = (replace(one, arithmetic=kind, roundings=one.inputs + 1 + FUSED, size=None) for one in self.layers)
        return replace(self, layers=tuple(layers))

    @property
    def relus_per_layer(self) -> tuple[int, ...]:
        return tuple(layer.outputs for layer in self.layers[:-1])

    @property
    def relus(self) -> int:
        return sum(self.relus_per_layer)

    @property
    def parameters(self) -> int:
        return sum(layer.parameters for layer in self.layers)

    def facts(self) -> dict[str, object]:
        layers = "-".join(str(count) for count in self.relus_per_layer) or "none"
        return {
            "inputs": f"{self.inputs} {list(self.input_shape)} {self.dtype}",
            "outputs": self.outputs,
            "ReLUs": f"{self.relus} ({layers})",
            "parameters": self.parameters,
        }

    def flat(self, x: ArrayLike) -> Array:
        """`x` as one flat input, or as a batch of flat inputs, whatever of the known shapes it comes in."""
        return flattened(x, self.inputs, self.input_shape)

    def pre_activations(self, x: ArrayLike) -> Iterator[Array]:
        """y^1, ..., y^m for one input or a batch: what enters each ReLU layer, and the output last."""
        return self.through(self.flat(x))

    def through(self, values: Array) -> Iterator[Array]:
        """`pre_activations` of flat inputs: a vector, or a batch with one per row, even if it is a single row that has
        the shape of an input."""
        for layer in self.layers:
            y = layer(values)
            yield y
            values = np.maximum(y, 0.0)

    def __call__(self, x: ArrayLike) -> Array:
        """The output for one input, or one row of outputs per row of a batch, in float64."""
        *_, y = self.pre_activations(x)
        return y


def then(first: Sequence[Layer], last: Layer) -> tuple[Layer, ...]:
    """`first` with `last` applied to its output, exactly: their two affine maps become one."""
    *hidden, end = first
    whole = Layer(last.weight @ end.weight, last.weight @ end.bias + last.bias)
    if not end.arithmetic.is_real:
        rows, before = np.abs(dense(last.weight)), end.absolute
        size = Layer(rows @ before.weight, rows @ before.bias)
        share = np.where(rows > 0, np.minimum(rows, 1.0), 1.0).min(axis=1, initial=1.0)
        whole = replace(whole, arithmetic=end.arithmetic, roundings=end.roundings, size=size, share=share)
    return (*hidden, whole)
