"""Reading the instances without the package: networks as dense matrices, properties as exact numbers, witnesses.

It knows the little that our instances use, and refuses the rest. Verdicts and tests that rest on it owe nothing to the
readers that they are there to check.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Array = NDArray[np.float64]
Row = tuple[dict[int, int], Fraction]
"""`({0: 1, 3: -1}, 0)` is Y_0 - Y_3 <= 0."""


@dataclass(frozen=True)
class Case:
    """Inputs between `lower` and `upper` are unsafe where all rows hold on the outputs."""

    lower: tuple[Fraction, ...]
    upper: tuple[Fraction, ...]
    rows: tuple[Row, ...]

    def contains(self, x: NDArray[np.float32]) -> bool:
        exact = [Fraction(float(value)) for value in x]
        return all(low <= value <= high for low, value, high in zip(self.lower, exact, self.upper, strict=True))

    def slack(self, y: NDArray[np.float32]) -> Fraction:
        """How far inside the unsafe set an output is, exactly: at least 0 is unsafe."""
        exact = [Fraction(float(value)) for value in y]
        return min(offset - sum(factor * exact[i] for i, factor in row.items()) for row, offset in self.rows)


def instances(folder: Path) -> list[tuple[str, str, float]]:
    with (folder / "instances.csv").open(newline="") as lines:
        return [(network, prop, float(timeout)) for network, prop, timeout in csv.reader(lines)]


def read_cases(path: Path) -> list[Case]:
    """The unsafe set of a VNN-LIB 1.0 file, or of a 2.0 file over one network with variables of shape [1, n]."""
    commands = _expressions(path.read_text())
    cases = []
    for atoms in _dnf(["and", *(command[1] for command in commands if command[0] == "assert")]):
        bounds = {">=": dict[int, Fraction](), "<=": dict[int, Fraction]()}
        rows = []
        for relation, left, right in atoms:
            kind, index = _variable(left)
            if kind == "X":
                nearer = max if relation == ">=" else min
                bounds[relation][index] = nearer(bounds[relation].get(index, Fraction(right)), Fraction(right))
            else:
                rows.append(_row(relation, index, right))
        lower, upper = ([ends[i] for i in range(len(ends))] for ends in (bounds[">="], bounds["<="]))
        cases.append(Case(tuple(lower), tuple(upper), tuple(rows)))
    return cases


def _row(relation: str, index: int, right: str) -> Row:
    sign = {"<=": 1, ">=": -1}[relation]
    if right[0] != "Y":
        return {index: sign}, sign * Fraction(right)
    return {index: sign, _variable(right)[1]: -sign}, Fraction(0)


def _variable(name: str) -> tuple[str, int]:
    found = re.fullmatch(r"([XY])(?:_|\[0,)(\d+)\]?", name)
    if not found:
        raise ValueError(f"{name} is no variable that we know")
    return found[1], int(found[2])


def _expressions(text: str) -> list[Any]:
    """S-expressions as nested lists of strings."""
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", re.sub(r";.*", "", text)):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    (top,) = stack
    return top


def _dnf(expression: Any) -> Iterator[list[Any]]:
    """The conjunctions of atoms whose union is the expression."""
    match expression:
        case ["or", *parts]:
            for part in parts:
                yield from _dnf(part)
        case ["and", *parts]:
            for chosen in product(*(list(_dnf(part)) for part in parts)):
                yield [atom for atoms in chosen for atom in atoms]
        case [("<=" | ">="), str(), str()]:
            yield [expression]
        case _:
            raise ValueError(f"{expression} is nothing that we know")


def read_layers(path: Path) -> list[tuple[Array, Array]]:
    """The matrix and bias of each affine layer; a ReLU lies between any two."""
    graph = onnx.load(path).graph
    weights = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in graph.initializer}
    shape = [size.dim_value for size in graph.input[0].type.tensor_type.shape.dim]
    layers: list[tuple[Array, Array]] = []
    for node in graph.node:
        match node.op_type:
            case "Gemm":
                layers.append((weights[node.input[1]], weights[node.input[2]]))
            case "Conv":
                stride, pad = (
                    next(a.ints[0] for a in node.attribute if a.name == name) for name in ("strides", "pads")
                )
                matrix, bias, shape = _convolution(weights[node.input[1]], weights[node.input[2]], shape, stride, pad)
                layers.append((matrix, bias))
            case "Relu" | "Flatten":
                pass
            case other:
                raise ValueError(f"{other} is no operator that we know")
    return layers


def _convolution(kernel: Array, bias: Array, shape: list[int], stride: int, pad: int) -> tuple[Array, Array, list[int]]:
    """A square convolution with equal padding on all sides as a matrix, with the shape of its output."""
    _, channels, height, width = shape
    outputs, _, size, _ = kernel.shape
    high, wide = ((length + 2 * pad - size) // stride + 1 for length in (height, width))
    matrix = np.zeros((outputs, high, wide, channels, height, width))
    for row, column, i, j in product(range(high), range(wide), range(size), range(size)):
        y, x = row * stride + i - pad, column * stride + j - pad
        if 0 <= y < height and 0 <= x < width:
            matrix[:, row, column, :, y, x] = kernel[:, :, i, j]
    return matrix.reshape(outputs * high * wide, -1), bias.repeat(high * wide), [1, outputs, high, wide]


def witness_path(folder: Path, network: str, prop: str) -> Path:
    return folder / "witnesses" / f"{Path(network).stem}__{Path(prop).stem}.witness"


def read_witness(path: Path) -> tuple[list[str], list[str]]:
    """The inputs and the outputs of a witness in the format of VNN-COMP, as written."""
    (pairs,) = _expressions(path.read_text())
    names = [_variable(name) for name, _ in pairs]
    inputs = [value for (kind, _), (_, value) in zip(names, pairs, strict=True) if kind == "X"]
    outputs = [value for (kind, _), (_, value) in zip(names, pairs, strict=True) if kind == "Y"]
    if names != [("X", i) for i in range(len(inputs))] + [("Y", i) for i in range(len(outputs))]:
        raise ValueError(f"{path.name} does not list X_0, X_1, ..., Y_0, Y_1, ... in this order")
    return inputs, outputs
