"""ONNX operators as maps of tensors: affine ones as they are, piecewise linear ones rewritten with ReLUs, exactly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array, kron

from ginnacer_verify.errors import NetworkError, UnsupportedOperator
from ginnacer_verify.loading.chain import Chain, Tensor, broadcast_shape
from ginnacer_verify.loading.windows import PADDING, Window, average, convolution
from ginnacer_verify.network import Array

Constant: TypeAlias = NDArray[Any]
Value: TypeAlias = Tensor | Constant


@dataclass(frozen=True, eq=False)
class Node:
    """One node of the graph with its inputs already computed; `None` stands for an input that is left out."""

    operator: str
    name: str
    inputs: tuple[Value | None, ...]
    attributes: Mapping[str, Any]
    outputs: int
    chain: Chain

    def tensor(self, position: int = 0) -> Tensor:
        match self._input(position):
            case Tensor() as value:
                return value
            case _:
                raise self.unsupported("it needs a computed tensor where the graph has a constant")

    def constant(self, position: int) -> Constant:
        match self._input(position):
            case Tensor():
                raise self.unsupported(f"its input {position} is computed by the network; we need a constant there")
            case None:
                raise self.unsupported(f"its input {position} is missing")
            case value:
                return value

    def numbers(self, position: int) -> Array:
        return self.constant(position).astype(np.float64)

    def has(self, position: int) -> bool:
        return self._input(position) is not None

    def integers(self, attribute: str, position: int) -> list[int] | None:
        """What newer opsets pass as an input and older ones as an attribute."""
        if self.has(position):
            return [int(value) for value in self.constant(position).reshape(-1)]
        values = self.attributes.get(attribute)
        return None if values is None else [int(value) for value in values]

    def unsupported(self, why: str) -> UnsupportedOperator:
        return UnsupportedOperator(self.operator, self.name, why)

    def _input(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None


# --- affine maps -----------------------------------------------------------------------------------------------------


def gemm(node: Node) -> Tensor:
    tensor, weight = node.tensor(), node.numbers(1)
    if tensor.shape[:-1] != (1,) or weight.ndim != 2 or node.attributes.get("transA", 0):
        raise node.unsupported("we read it with one row on the left, a matrix on the right and without transA")
    matrix = (weight if node.attributes.get("transB", 0) else weight.T) * node.attributes.get("alpha", 1.0)
    product = tensor.mapped(matrix, (1, len(matrix)))
    return product.shifted(node.numbers(2) * node.attributes.get("beta", 1.0)) if node.has(2) else product


def matmul(node: Node) -> Tensor:
    match node.inputs:
        case (Tensor() as left, np.ndarray() as right) if right.ndim == 2 and left.shape[-1] == len(right):
            rows = int(np.prod(left.shape[:-1]))
            matrix = right.astype(np.float64).T
            return left.mapped(_repeated(rows, matrix), (*left.shape[:-1], right.shape[1]))
        case (np.ndarray() as left, Tensor() as right) if left.ndim == 2 and len(right.shape) <= 2:
            columns = int(np.prod(right.shape[1:]))
            matrix = csr_array(kron(left.astype(np.float64), eye_array(columns)))
            return right.mapped(matrix, (left.shape[0], *right.shape[1:]))
        case (Tensor(), Tensor()):
            raise node.unsupported("the product of two computed tensors is not piecewise linear")
        case _:
            raise node.unsupported("we read it with one constant matrix whose shape fits")


def _repeated(times: int, matrix: Array) -> Any:
    return matrix if times == 1 else csr_array(kron(eye_array(times), matrix))


def add(node: Node) -> Tensor:
    match node.inputs:
        case (Tensor() as a, Tensor() as b):
            return node.chain.add(a, b)
        case (Tensor() as a, np.ndarray() as b):
            return a.shifted(b.astype(np.float64))
        case (np.ndarray() as a, Tensor() as b):
            return b.shifted(a.astype(np.float64))
        case _:
            raise node.unsupported("it needs two inputs")


def sub(node: Node) -> Tensor:
    match node.inputs:
        case (Tensor() as a, Tensor() as b):
            return node.chain.add(a, b.scaled(-1.0))
        case (Tensor() as a, np.ndarray() as b):
            return a.shifted(-b.astype(np.float64))
        case (np.ndarray() as a, Tensor() as b):
            return b.scaled(-1.0).shifted(a.astype(np.float64))
        case _:
            raise node.unsupported("it needs two inputs")


def mul(node: Node) -> Tensor:
    match node.inputs:
        case (Tensor() as a, np.ndarray() as b) | (np.ndarray() as b, Tensor() as a):
            return a.scaled(b.astype(np.float64))
        case _:
            raise node.unsupported("the product of two computed tensors is not piecewise linear")


def div(node: Node) -> Tensor:
    divisor = node.numbers(1)
    if (divisor == 0).any():
        raise node.unsupported("it divides by zero")
    return node.tensor().scaled(1.0 / divisor)


def neg(node: Node) -> Tensor:
    return node.tensor().scaled(-1.0)


def identity(node: Node) -> Tensor:
    if node.operator == "Dropout" and node.has(2) and node.constant(2).any():
        raise node.unsupported("it is in training mode; export the network in evaluation mode")
    return node.tensor()


def cast(node: Node) -> Tensor:
    if node.attributes.get("to") not in {1, 11}:
        raise node.unsupported("we read casts to float and double only")
    return node.tensor()


def flatten(node: Node) -> Tensor:
    tensor, axis = node.tensor(), node.attributes.get("axis", 1)
    axis = axis + len(tensor.shape) if axis < 0 else axis
    return tensor.taken(tensor.positions().reshape(int(np.prod(tensor.shape[:axis])), -1))


def reshape(node: Node) -> Tensor:
    tensor, shape = node.tensor(), node.integers("shape", 1) or []
    if not node.attributes.get("allowzero", 0):
        shape = [tensor.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return tensor.taken(tensor.positions().reshape(shape))


def transpose(node: Node) -> Tensor:
    tensor = node.tensor()
    return tensor.taken(np.transpose(tensor.positions(), node.attributes.get("perm")))


def squeeze(node: Node) -> Tensor:
    tensor, axes = node.tensor(), node.integers("axes", 1)
    return tensor.taken(np.squeeze(tensor.positions(), tuple(axes) if axes else None))


def unsqueeze(node: Node) -> Tensor:
    tensor = node.tensor()
    return tensor.taken(np.expand_dims(tensor.positions(), tuple(node.integers("axes", 1) or ())))


def gather(node: Node) -> Tensor:
    tensor, axis = node.tensor(), node.attributes.get("axis", 0)
    return tensor.taken(np.take(tensor.positions(), node.constant(1).astype(np.intp), axis=axis))


def slice_(node: Node) -> Tensor:
    tensor = node.tensor()
    starts, ends = node.integers("starts", 1) or [], node.integers("ends", 2) or []
    axes = node.integers("axes", 3) or list(range(len(starts)))
    steps = node.integers("steps", 4) or [1] * len(starts)
    cuts = [slice(None)] * len(tensor.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 1:
            raise node.unsupported("we read it with positive steps")
        cuts[axis] = slice(start, end, step)
    return tensor.taken(tensor.positions()[tuple(cuts)])


def concat(node: Node) -> Tensor:
    if not all(isinstance(value, Tensor) for value in node.inputs):
        raise node.unsupported("we read it between computed tensors only")
    return node.chain.concatenated([node.tensor(i) for i in range(len(node.inputs))], node.attributes["axis"])


def batch_normalization(node: Node) -> Tensor:
    if node.attributes.get("training_mode", 0) or node.outputs > 1:
        raise node.unsupported("it is in training mode; export the network in evaluation mode")
    tensor = node.tensor()
    scale, bias, mean, variance = (node.numbers(i) for i in (1, 2, 3, 4))
    factor = scale / np.sqrt(variance + node.attributes.get("epsilon", 1e-5))
    along = (-1, *[1] * (len(tensor.shape) - 2))
    return tensor.scaled(factor.reshape(along)).shifted((bias - mean * factor).reshape(along))


def conv(node: Node) -> Tensor:
    tensor, weight = node.tensor(), node.numbers(1)
    spatial = _spatial(node, tensor)
    window = _window(node, weight.shape[2:])
    groups = node.attributes.get("group", 1)
    matrix, shape = convolution(weight, window, tensor.shape[1], spatial, groups)
    result = tensor.mapped(matrix, (1, len(weight), *shape))
    return result.shifted(node.numbers(2).reshape(-1, *[1] * len(shape))) if node.has(2) else result


def average_pool(node: Node) -> Tensor:
    tensor = node.tensor()
    spatial = _spatial(node, tensor)
    window = _window(node, node.attributes["kernel_shape"])
    matrix, shape = average(window, tensor.shape[1], spatial, bool(node.attributes.get("count_include_pad", 0)))
    return tensor.mapped(matrix, (1, tensor.shape[1], *shape))


def global_average_pool(node: Node) -> Tensor:
    tensor = node.tensor()
    spatial = _spatial(node, tensor)
    matrix, shape = average(Window(spatial), tensor.shape[1], spatial, count_padding=False)
    return tensor.mapped(matrix, (1, tensor.shape[1], *shape))


def _spatial(node: Node, tensor: Tensor) -> tuple[int, ...]:
    if len(tensor.shape) not in {3, 4} or tensor.shape[0] != 1:
        raise node.unsupported(f"we read it in one or two dimensions with a batch of one, not {list(tensor.shape)}")
    return tensor.shape[2:]


def _window(node: Node, kernel: Any) -> Window:
    attributes = node.attributes
    return Window(
        tuple(attributes.get("kernel_shape", kernel)),
        tuple(attributes.get("strides", ())),
        tuple(attributes.get("pads", ())),
        tuple(attributes.get("dilations", ())),
        attributes.get("auto_pad", "NOTSET"),
        attributes.get("ceil_mode", 0),
    )


# --- piecewise linear maps -------------------------------------------------------------------------------------------


def relu(node: Node) -> Tensor:
    return node.chain.relu(node.tensor())


def leaky_relu(node: Node) -> Tensor:
    """`relu(y) - alpha relu(-y)`."""
    tensor, alpha = node.tensor(), node.attributes.get("alpha", 0.01)
    negative = node.chain.relu(tensor.scaled(-1.0)).scaled(-alpha)
    return node.chain.add(node.chain.relu(tensor), negative)


def absolute(node: Node) -> Tensor:
    """`relu(y) + relu(-y)`."""
    tensor = node.tensor()
    return node.chain.add(node.chain.relu(tensor), node.chain.relu(tensor.scaled(-1.0)))


def clip(node: Node) -> Tensor:
    """`low + relu(y - low) - relu(y - high)`, or the half of it that an infinite end leaves."""
    tensor = node.tensor()
    low, high = _end(node, "min", 1, -np.inf), _end(node, "max", 2, np.inf)
    if low > high:
        raise node.unsupported(f"its bounds {low} and {high} are the wrong way round")
    if low == -np.inf:
        return (
            tensor if high == np.inf else node.chain.relu(tensor.scaled(-1.0).shifted(high)).scaled(-1.0).shifted(high)
        )
    raised = node.chain.relu(tensor.shifted(-low)).shifted(low)
    if high == np.inf:
        return raised
    return node.chain.add(raised, node.chain.relu(tensor.shifted(-high)).scaled(-1.0))


def _end(node: Node, attribute: str, position: int, without: float) -> float:
    """A bound of Clip; the largest numbers of float32 are how old exporters write infinity."""
    value = float(node.numbers(position).reshape(())) if node.has(position) else node.attributes.get(attribute, without)
    return without if abs(value) >= np.finfo(np.float32).max else float(value)


def max_pool(node: Node) -> Tensor:
    """The maximum of each window as a tournament of `max(a, b) = b + relu(a - b)`."""
    if node.outputs > 1 or node.attributes.get("storage_order", 0):
        raise node.unsupported("we read it without its output of indices")
    tensor = node.tensor()
    spatial = _spatial(node, tensor)
    windows = _window(node, node.attributes["kernel_shape"]).over(spatial)
    seen = windows.seen
    if (seen == PADDING).all(axis=1).any():
        raise node.unsupported("one of its windows lies in the padding altogether")
    seen = np.where(seen == PADDING, seen.max(axis=1, keepdims=True), seen)  # a value twice does not change a maximum
    channels = tensor.shape[1]
    cells = (np.arange(channels)[:, None, None] * int(np.prod(spatial)) + seen[None]).reshape(-1, seen.shape[1])
    players = [tensor.taken(np.ascontiguousarray(column)) for column in cells.T]
    while len(players) > 1:
        pairs = zip(players[::2], players[1::2], strict=False)
        players = [node.chain.maximum(a, b) for a, b in pairs] + players[len(players) // 2 * 2 :]
    return Tensor(players[0].level, players[0].weight, players[0].bias, (1, channels, *windows.shape))


def extremum(node: Node) -> Tensor:
    """Max and Min of two or more tensors or constants; `min(a, b) = -max(-a, -b)`."""
    sign = 1.0 if node.operator == "Max" else -1.0
    best, *others = [_as_tensor(node, value).scaled(sign) for value in node.inputs]
    for other in others:
        shape = broadcast_shape(best.shape, other.shape)
        best = node.chain.maximum(best.broadcast(shape), other.broadcast(shape))
    return best.scaled(sign)


def _as_tensor(node: Node, value: Value | None) -> Tensor:
    match value:
        case Tensor():
            return value
        case np.ndarray():
            zeros = csr_array((value.size, 1))
            return Tensor(0, zeros, value.astype(np.float64).reshape(-1), value.shape)
        case None:
            raise node.unsupported("an input is missing")
    raise NetworkError(f"{type(value).__name__} is no value of a graph")


AFFINE: dict[str, Callable[[Node], Tensor]] = {
    "Add": add,
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Cast": cast,
    "Concat": concat,
    "Conv": conv,
    "Div": div,
    "Dropout": identity,
    "Flatten": flatten,
    "Gather": gather,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "Identity": identity,
    "MatMul": matmul,
    "Mul": mul,
    "Neg": neg,
    "Relu": relu,
    "Reshape": reshape,
    "Slice": slice_,
    "Squeeze": squeeze,
    "Sub": sub,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
"""Read as they are."""

REWRITTEN: dict[str, Callable[[Node], Tensor]] = {
    "Abs": absolute,
    "Clip": clip,
    "LeakyRelu": leaky_relu,
    "Max": extremum,
    "MaxPool": max_pool,
    "Min": extremum,
}
"""Read as several ReLUs each."""

CONSTANT = {"Constant", "ConstantOfShape", "Shape"}
"""Evaluated while reading, as is every operator whose inputs are all constants."""
