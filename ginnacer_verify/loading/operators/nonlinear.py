"""Operators that bend: elementwise functions, extrema, reductions and softmax."""

from collections.abc import Callable
from itertools import combinations
from math import prod

import numpy as np
from scipy.sparse import csr_array

from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.linear import Sparse
from ginnacer_verify.loading.composer import Tensor, broadcast_shape, size_of
from ginnacer_verify.loading.node import Node
from ginnacer_verify.loading.operators.windows import extremum

MOST_COMPARED = 64
"""ArgMax of more values than this is not read: it takes the differences of all pairs."""
LARGEST_FLOAT = float(np.finfo(np.float32).max)


def relu(node: Node) -> Tensor:
    return node.make.applied(Relu(), node.tensor())


def plain(module: str, name: str) -> Callable[[Node], Tensor]:
    """An operator that is a function as it stands."""
    return lambda node: node.make.applied(node.function(module, name), node.tensor())


def leaky_relu(node: Node) -> Tensor:
    return node.make.applied(node.function("piecewise", "LeakyRelu", node.real("alpha", 0.01)), node.tensor())


def elu(node: Node) -> Tensor:
    return node.make.applied(node.function("activations", "Elu", node.real("alpha", 1.0)), node.tensor())


def gelu(node: Node) -> Tensor:
    name = "GeluTanh" if node.attributes.get("approximate", "none") == "tanh" else "Gelu"
    return node.make.applied(node.function("activations", name), node.tensor())


def prelu(node: Node) -> Tensor:
    """A leaky ReLU with one slope for all values or one for each."""
    tensor, slope = node.tensor(), node.numbers(1)
    if broadcast_shape(tensor.shape, slope.shape) != tensor.shape:
        raise node.unsupported(f"slopes of shape {list(slope.shape)} do not fit {list(tensor.shape)}")
    if slope.size and (slope == slope.flat[0]).all():
        return node.make.applied(node.function("piecewise", "LeakyRelu", float(slope.flat[0])), tensor)
    slopes = np.broadcast_to(slope, tensor.shape).reshape(-1)
    ordered = node.make.whole(node.make.ordered(tensor), tensor.shape)
    return node.make.applied(node.function("piecewise", "LeakyRelu", slopes), ordered)


def clip(node: Node) -> Tensor:
    """With one finite end `low + relu(x - low)` or `high - relu(high - x)`, with two a function of its own."""
    tensor, low, high = node.tensor(), _end(node, "min", 1, -np.inf), _end(node, "max", 2, np.inf)
    if not low <= high:
        raise node.unsupported(f"its bounds {low} and {high} are the wrong way round")
    if low == -np.inf:
        return tensor if high == np.inf else _at_most(node, tensor, np.array(high))
    if high == np.inf:
        return _at_least(node, tensor, np.array(low))
    return node.make.applied(node.function("piecewise", "Clip", low, high), tensor)


def _end(node: Node, attribute: str, position: int, without: float) -> float:
    """A bound of Clip; in float32 its largest number bounds nothing: old exporters write it for infinity."""
    value = float(node.numbers(position).reshape(())) if node.has(position) else node.attributes.get(attribute, without)
    bounds_nothing = np.sign(value) == np.sign(without) and abs(value) >= LARGEST_FLOAT
    return without if bounds_nothing and not node.double else float(value)


def _at_least(node: Node, tensor: Tensor, low: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> Tensor:
    return node.make.shifted(node.make.applied(Relu(), node.make.shifted(tensor, -low)), low)


def _at_most(node: Node, tensor: Tensor, high: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> Tensor:
    below = node.make.applied(Relu(), node.make.shifted(node.make.scaled(tensor, -1.0), high))
    return node.make.shifted(node.make.scaled(below, -1.0), high)


def max_min(node: Node) -> Tensor:
    """Max and Min: of the computed tensors first, then against the constants, which takes one ReLU each."""
    tensors = [value for value in node.values() if isinstance(value, Tensor)]
    constants = [value.astype(np.float64) for value in node.values() if not isinstance(value, Tensor)]
    best = tensors[0]
    if len(tensors) > 1:
        name = "Maximum" if node.operator == "Max" else "Minimum"
        best = node.make.applied(node.function("piecewise", name, len(tensors)), *tensors)
    for constant in constants:
        best = _at_least(node, best, constant) if node.operator == "Max" else _at_most(node, best, constant)
    return best


def hard_sigmoid(node: Node) -> Tensor:
    """`clip(alpha x + beta, 0, 1)`."""
    line = node.make.scaled(node.tensor(), node.real("alpha", 0.2))
    line = node.make.shifted(line, node.real("beta", 0.5))
    return node.make.applied(node.function("piecewise", "Clip", 0.0, 1.0), line)


def power(node: Node) -> Tensor:
    tensor, exponents = node.tensor(), node.numbers(1)
    if not exponents.size or (exponents != exponents.flat[0]).any():
        raise node.unsupported("we read it with the same exponent for all values")
    tensor, exponent = tensor.broadcast(broadcast_shape(tensor.shape, exponents.shape)), float(exponents.flat[0])
    match exponent:
        case 0:
            raise node.unsupported("to the power of 0 everything is 1")
        case 1:
            return tensor
        case 2:
            return node.make.applied(node.function("elementary", "Square"), tensor)
        case 0.5:
            return node.make.applied(node.function("elementary", "Sqrt"), tensor)
        case -1:
            return node.make.applied(node.function("elementary", "Reciprocal"), tensor)
        case _:
            return node.make.applied(node.function("elementary", "Power", exponent), tensor)


def _axes(node: Node, tensor: Tensor) -> tuple[int, ...]:
    axes = node.integers("axes", 1)
    if not axes:
        return () if node.attributes.get("noop_with_empty_axes", 0) else tuple(range(len(tensor.shape)))
    if any(not -len(tensor.shape) <= axis < len(tensor.shape) for axis in axes):
        raise ValueError(f"axes {axes} are not those of a tensor of shape {list(tensor.shape)}")
    return tuple(sorted({axis % len(tensor.shape) for axis in axes}))


def reduce_sum(node: Node) -> Tensor:
    """ReduceSum, ReduceMean and ReduceSumSquare."""
    tensor = node.tensor()
    axes = _axes(node, tensor)
    if node.operator == "ReduceSumSquare":
        tensor = node.make.applied(node.function("elementary", "Square"), tensor)
    if not axes:
        return tensor
    total = node.make.summed(tensor, axes, bool(node.attributes.get("keepdims", 1)))
    if node.operator != "ReduceMean":
        return total
    return node.make.scaled(total, 1.0 / prod(tensor.shape[axis] for axis in axes), roundings=1)


def reduce_extremum(node: Node) -> Tensor:
    """ReduceMax and ReduceMin."""
    tensor = node.tensor()
    axes = _axes(node, tensor)
    if not axes:
        return tensor
    kept = [axis for axis in range(len(tensor.shape)) if axis not in axes]
    cells = tensor.positions.transpose(*kept, *axes).reshape(*(tensor.shape[axis] for axis in kept), -1)
    result = extremum(node, "Maximum" if node.operator == "ReduceMax" else "Minimum", tensor, cells)
    if not node.attributes.get("keepdims", 1):
        return result
    shape = [1 if axis in axes else extent for axis, extent in enumerate(tensor.shape)]
    return result.moved(result.positions.reshape(shape))


def softmax(node: Node) -> Tensor:
    """`1 / (1 + sum of exp(x_j - x_i) over the others)`, and for LogSoftmax minus the logarithm of that sum."""
    tensor, shape = node.tensor(), node.tensor().shape
    axis = node.axis(len(shape), 1 if node.opset < 13 else -1)
    if node.opset < 13:
        tensor = tensor.moved(tensor.positions.reshape(prod(shape[:axis]), -1))
        axis = 1
    order = np.moveaxis(tensor.positions, axis, -1)
    flat = tensor.moved(order.reshape(-1, order.shape[-1]))
    result = _softmax(node, node.make.whole(node.make.ordered(flat), flat.shape))
    back = np.moveaxis(result.positions.reshape(order.shape), -1, axis)
    return result.moved(back.reshape(shape))


def _softmax(node: Node, tensor: Tensor) -> Tensor:
    """Along the rows of a matrix."""
    rows, size = tensor.shape
    if size == 1:
        return node.make.constant(np.ones((rows, 1)) if node.operator == "Softmax" else np.zeros((rows, 1)))
    size_of((rows, size, size))
    mine, other = np.nonzero(~np.eye(size, dtype=bool))
    starts = np.arange(rows)[:, None] * size
    pairs = rows * len(mine)
    columns = np.stack([starts + other, starts + mine], axis=-1).reshape(-1)
    entries = np.tile([1.0, -1.0], pairs)
    matrix = csr_array((entries, columns, np.arange(pairs + 1) * 2), shape=(pairs, rows * size))
    differences = node.make.mapped(tensor, Sparse(matrix), (rows, size, size - 1))
    total = node.make.summed(node.make.applied(node.function("elementary", "Exp"), differences), (2,), bias=1.0)
    if node.operator == "Softmax":
        return node.make.applied(node.function("elementary", "SoftmaxReciprocal", size), total)
    return node.make.scaled(node.make.applied(node.function("elementary", "SoftmaxLog", size), total), -1.0)


def argmax(node: Node) -> Tensor:
    """The place of the largest value along an axis, from the differences of all pairs."""
    tensor, axis = node.tensor(), node.axis(len(node.tensor().shape), 0)
    count = tensor.shape[axis]
    if node.attributes.get("select_last_index", 0):
        raise node.unsupported("of several largest values we read the first one only")
    if not 1 < count <= MOST_COMPARED:
        raise node.unsupported(f"it compares {count} values; export the network up to the scores that it compares")
    columns = [np.take(tensor.positions, [k], axis=axis) for k in range(count)]
    pairs = [(tensor.moved(columns[i]), tensor.moved(columns[j])) for i, j in combinations(range(count), 2)]
    differences = [node.make.added(one, other, signs=(1.0, -1.0)) for one, other in pairs]
    found = node.make.applied(node.function("steps", "ArgMax", count), *differences)
    keep = bool(node.attributes.get("keepdims", 1))
    return found if keep else found.moved(np.squeeze(found.positions, axis))


def equal(node: Node) -> Tensor:
    """1 where two values are the same, else 0."""
    values = [one if isinstance(one, Tensor) else node.make.constant(one) for one in node.values()]
    return node.make.applied(node.function("steps", "Equal"), *values)


NONLINEAR: dict[str, Callable[[Node], Tensor]] = {
    "Abs": plain("piecewise", "Absolute"),
    "ArgMax": argmax,
    "Clip": clip,
    "Cos": plain("elementary", "Cos"),
    "Elu": elu,
    "Equal": equal,
    "Erf": plain("activations", "Erf"),
    "Exp": plain("elementary", "Exp"),
    "Floor": plain("steps", "Floor"),
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": plain("activations", "HardSwish"),
    "LeakyRelu": leaky_relu,
    "Log": plain("elementary", "Log"),
    "LogSoftmax": softmax,
    "Max": max_min,
    "Min": max_min,
    "PRelu": prelu,
    "Pow": power,
    "Reciprocal": plain("elementary", "Reciprocal"),
    "ReduceMax": reduce_extremum,
    "ReduceMean": reduce_sum,
    "ReduceMin": reduce_extremum,
    "ReduceSum": reduce_sum,
    "ReduceSumSquare": reduce_sum,
    "Relu": relu,
    "Sigmoid": plain("elementary", "Sigmoid"),
    "Sign": plain("steps", "Sign"),
    "Sin": plain("elementary", "Sin"),
    "Softmax": softmax,
    "Softplus": plain("activations", "Softplus"),
    "Sqrt": plain("elementary", "Sqrt"),
    "Tanh": plain("elementary", "Tanh"),
}
