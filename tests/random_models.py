"""Random small ONNX models of every kind that is read: layers, convolutions, pools, skips, all functions, products."""

from math import prod
from typing import Any

import numpy as np
from models import Graph, ints


class RandomModel:
    """A model under construction; `shape` is that of its last value, with a batch of one in front.

    Values are kept small: what grows is scaled down before a function that makes much of it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 16])
        image = self.random.random() < 0.4
        self.shape = [1, int(self.random.integers(1, 3)), 2, 3] if image else [1, int(self.random.integers(1, 7))]
        self.graph = Graph(self.shape, seed=seed)
        self.inputs = prod(self.shape)
        self.used: list[str] = []
        self.earlier: list[tuple[str, list[int]]] = [("input", self.shape)]

    def add(self, operator: str, *values: Any, **attributes: Any) -> None:
        self.used.append(operator)
        self.graph.add(operator, *values, **attributes)

    def weight(self, *shape: int, scale: float = 1.0) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        values = scale * self.random.normal(size=shape)
        return (values * (self.random.random(shape) < 0.9)).astype(np.float32)

    def whole(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def one_of(self, *names: str) -> str:
        return names[self.whole(0, len(names) - 1)]

    # Affine

    def layer(self, outputs: int | None = None) -> None:
        size, outputs = self.shape[-1], outputs or self.whole(1, 6)
        weight, bias = self.weight(size, outputs, scale=1.5 / np.sqrt(size)), self.weight(outputs)
        if len(self.shape) == 2 and self.random.random() < 0.6:
            flipped = self.random.random() < 0.5
            self.add("Gemm", weight.T if flipped else weight, bias, transB=int(flipped))
        else:
            self.add("MatMul", weight)
            self.add("Add", bias)
        self.shape = [*self.shape[:-1], outputs]

    def convolution(self) -> None:
        channels, *extent = self.shape[1:]
        outputs, kernel = self.whole(1, 3), [self.whole(1, min(2, size)) for size in extent]
        if self.random.random() < 0.7:
            self.add("Conv", self.weight(outputs, channels, *kernel), self.weight(outputs), pads=[0, 1, 1, 0])
            self.shape = [1, outputs, *(size + 2 - k for size, k in zip(extent, kernel, strict=True))]
        else:
            self.add("ConvTranspose", self.weight(channels, outputs, *kernel), self.weight(outputs))
            self.shape = [1, outputs, *(size + k - 1 for size, k in zip(extent, kernel, strict=True))]

    def normalization(self) -> None:
        channels = self.shape[1]
        scale, bias, mean = (self.weight(channels) for _ in range(3))
        self.add("BatchNormalization", scale, bias, mean, np.abs(self.weight(channels)) + np.float32(0.3))

    def scale(self) -> None:
        self.add("Mul", self.weight(*self.shape[1:]))
        self.add(self.one_of("Add", "Sub"), self.weight(*self.shape[1:]))

    # Functions

    def function(self) -> None:
        """One of those that are defined everywhere and do not grow fast, or one of the others on what suits it."""
        name = self.one_of(
            *("Relu",) * 6, "LeakyRelu", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "Sigmoid", "Tanh", "Abs", "Clip",
            "Clip", "HardSigmoid", "HardSwish", "Elu", "Softplus", "Erf", "Sin", "Cos", "Floor", "Sign", "Exp", "Pow",
            "Sqrt", "Log", "Reciprocal", "Softmax", "LogSoftmax", "Max", "Min",
        )  # fmt: skip
        match name:
            case "LeakyRelu":
                self.add(name, alpha=float(self.random.choice([0.01, 0.3, -0.5, 2.0])))
            case "PRelu":
                self.add(name, self.weight(*self.shape[1:]))
            case "Clip":
                ends = np.sort(self.random.normal(size=2)).astype(np.float32)
                low, high = np.asarray(ends[0]), np.asarray(ends[1])
                self.add(name, *((low, high), (low,), ("", high))[self.whole(0, 2)])
            case "Elu":
                self.add(name, alpha=float(self.random.choice([0.5, 1.0, 2.0])))
            case "Exp":
                self.add("Clip", np.float32(-5), np.float32(2))
                self.add(name)
            case "Pow":
                self.add("Clip", np.float32(-3), np.float32(3))
                self.add(name, np.float32(self.random.choice([2.0, 3.0])))
            case "Sqrt" | "Log" | "Reciprocal":
                self.add("Abs")
                self.add("Add", np.float32(self.random.choice([0.1, 1.0])))
                self.add(name)
            case "Max" | "Min":
                self.add(name, self.weight(*self.shape[1:]))
            case "Softmax" | "LogSoftmax":
                self.add(name, axis=-1)
            case "Floor" | "Sign":
                self.add("Add", np.float32(0.37))
                self.add(name)
            case _:
                self.add(name)

    def pool(self) -> None:
        kernel = [self.whole(1, min(2, size)) for size in self.shape[2:]]
        stride = [self.whole(1, 2) for _ in kernel]
        self.add(self.one_of("MaxPool", "AveragePool"), kernel_shape=kernel, strides=stride)
        counts = ((n - k) // s + 1 for n, k, s in zip(self.shape[2:], kernel, stride, strict=True))
        self.shape = [*self.shape[:2], *counts]

    # Several values

    def skip(self) -> None:
        """With an earlier value: added, subtracted, multiplied, compared, appended."""
        fitting = [name for name, shape in self.earlier if shape == self.shape and name != self.graph.last]
        if not fitting:
            return
        other = self.one_of(*fitting)
        match name := self.one_of("Add", "Add", "Add", "Sub", "Max", "Min", "Concat", "Mul", "Div", "Mean"):
            case "Concat":
                self.add(name, other, axis=1)
                self.shape = [1, 2 * self.shape[1], *self.shape[2:]]
            case "Div":
                below = self.graph.last
                self.graph.last = other
                self.add("Abs")
                self.add("Add", np.float32(0.5))
                self.add(name, below, self.graph.last, first=False)
            case _:
                self.add(name, other)

    def product(self) -> None:
        """Rows times columns of what has been computed, as in attention."""
        size = prod(self.shape)
        if size % 2 or size > 8:
            return
        self.add("Reshape", ints(1, 2, size // 2))
        rows = self.graph.last
        self.add("Transpose", perm=[0, 2, 1])
        self.add("MatMul", rows)
        self.add("Reshape", ints(1, (size // 2) ** 2))
        self.shape = [1, (size // 2) ** 2]

    def move(self) -> None:
        """Something that changes no value."""
        size = self.shape[-1]
        match self.one_of("Slice", "Gather", "Pad", "Transpose", "ReduceSum", "Split"):
            case "Slice" if size > 1:
                self.add("Slice", ints(size), ints(-size - 1), ints(-1), ints(-1))
            case "Gather":
                at = self.random.integers(-size, size, self.whole(1, 4))
                self.add("Gather", at, axis=-1)
                self.shape = [*self.shape[:-1], len(at)]
            case "Pad":
                zeros = [0] * (len(self.shape) - 1)
                self.add("Pad", ints(*zeros, 1, *zeros, 0), np.float32(0.5))
                self.shape = [*self.shape[:-1], size + 1]
            case "Transpose" if len(self.shape) == 4:
                self.add("Transpose", perm=[0, 1, 3, 2])
                self.shape = [*self.shape[:2], self.shape[3], self.shape[2]]
            case "ReduceSum" if len(self.shape) == 4:
                self.add(self.one_of("ReduceMean", "ReduceMax", "ReduceMin"), axes=[2], keepdims=1)
                self.shape = [*self.shape[:2], 1, self.shape[3]]
            case "Split" if size > 1:
                self.add("Split", ints(1, size - 1), axis=-1, results=2)
                first, self.graph.last = self.graph.last, f"{self.graph.last}.1"
                self.add("Add", first)
                self.shape = [*self.shape[:-1], size - 1]

    def block(self) -> None:
        image = len(self.shape) == 4
        self.convolution() if image else self.layer()
        if image and self.random.random() < 0.3:
            self.normalization()
        self.function()
        for chance, step in ((0.45, self.skip), (0.15, self.move), (0.1, self.product), (0.1, self.scale)):
            if self.random.random() < chance:
                step()
        if len(self.shape) == 4 and self.random.random() < 0.3:
            self.pool()
        self.earlier.append((self.graph.last, self.shape))

    def flat(self) -> None:
        if len(self.shape) > 2:
            self.add("Flatten")
            self.shape = [1, prod(self.shape)]


def random_model(seed: int) -> tuple[bytes, tuple[str, ...]]:
    """The model, and the operators that it is made of."""
    made = RandomModel(seed)
    for _ in range(made.whole(1, 3)):
        made.block()
    made.flat()
    made.layer(made.whole(1, 3))
    return made.graph.model(14), tuple(made.used)
