"""Model: whatever people call one, as a network: a file, bytes, an ONNX model, a torch module, or a network already."""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.graph import Graph, Shape
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load

Model: TypeAlias = Any
"""`Network | Graph | str | Path | bytes | onnx.ModelProto | torch.nn.Module`"""


def as_network(model: Model, shapes: Sequence[Shape] = (), deadline: Deadline = FOREVER) -> Network | Graph:
    """The network of a model; a torch module is read for the first of the input shapes that it takes."""
    if isinstance(model, Network | Graph):
        return model
    if isinstance(model, str | Path | bytes) or type(model).__name__ == "ModelProto":
        return load(model, deadline=deadline)
    from ginnacer_verify.loading.torch import from_torch, is_module

    if is_module(model):
        return from_torch(model, _fitting(model, shapes))
    raise InputError(f"a {type(model).__name__} is not a model; give a file, bytes, an ONNX model or a torch module")


def values_of(x: ArrayLike) -> Array:
    """An input as an array of float64: lists, arrays and tensors alike."""
    try:
        return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise InputError(f"numbers are needed, in an array or in lists of equal lengths ({problem})") from problem


def box_of(ends: Box | tuple[ArrayLike, ArrayLike]) -> Box:
    """A box, or its lower and its upper ends in any shape."""
    if isinstance(ends, Box):
        return ends
    lower, upper = map(values_of, ends)
    return Box(lower.ravel(), upper.ravel())


def shapes_for(shape: Shape) -> list[Shape]:
    """Input shapes to try for values of a shape: with a batch of one in front, or having it; flat ones as images."""
    return list(dict.fromkeys(_shapes(shape)))


def _shapes(shape: Shape) -> Iterator[Shape]:
    if len(shape) > 1 and shape[0] == 1:
        yield shape
    yield (1, *shape)
    size = math.prod(shape)
    yield (1, size)
    for channels in (1, 3):
        side = math.isqrt(size // channels)
        if channels * side * side == size and len(shape) == 1:
            yield (1, channels, side, side)


def _fitting(module: Any, shapes: Sequence[Shape]) -> Shape:
    """The first shape that the module runs on and answers with a batch of one."""
    import torch

    from ginnacer_verify.loading.torch import dtype_of

    for shape in shapes:
        try:
            with torch.no_grad():
                y = deepcopy(module).eval()(torch.zeros(shape, dtype=dtype_of(module)))
        except Exception:  # whatever a module raises on a shape that it does not take
            continue
        if isinstance(y, torch.Tensor) and y.ndim >= 2 and len(y) == 1:
            return shape
    tried = ", ".join(str(list(shape)) for shape in shapes) or "none"
    raise InputError(f"what inputs the module takes is not clear (tried {tried}): use gv.from_torch(module, shape)")
