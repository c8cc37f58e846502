"""Small ONNX models for the tests, written node by node."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Builder = Callable[[np.random.Generator], bytes]


class Graph:
    """Collects nodes one after the other; each takes the last output first."""

    def __init__(self, shape: Sequence[int], dtype: str = "f4", seed: int = 0) -> None:
        self.shape, self.dtype = list(shape), np.dtype(dtype)
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.last = "input"

    def weight(self, *shape: int) -> "np.ndarray[Any, Any]":
        return self.random.normal(size=shape).astype(self.dtype)

    def add(self, operator: str, *values: Any, first: bool = True, **attributes: Any) -> str:
        """Append a node whose further inputs are arrays (made constants) or the names of earlier outputs."""
        names = []
        for value in values:
            if isinstance(value, str):
                names.append(value)
                continue
            names.append(f"c{len(self.constants)}")
            self.constants.append(numpy_helper.from_array(np.asarray(value), names[-1]))
        output = f"v{len(self.nodes)}"
        others = [f"{output}.{number}" for number in range(1, attributes.pop("results", 1))]
        inputs = [self.last, *names] if first else names
        self.nodes.append(
            helper.make_node(operator, inputs, [output, *others], name=f"node{len(self.nodes)}", **attributes)
        )
        self.last = output
        return output

    def model(self, opset: int = 13, batch: str | int | None = None, gives: int | None = None) -> bytes:
        """The model; `gives` is the element type of its output, if that is another one."""
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        shape: list[Any] = self.shape if batch is None else [batch, *self.shape[1:]]
        graph = helper.make_graph(
            self.nodes,
            "test",
            [helper.make_tensor_value_info("input", kind, shape)],
            [helper.make_tensor_value_info(self.last, kind if gives is None else gives, None)],
            self.constants,
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return bytes(made.SerializeToString())


def dense(inputs: int = 3, hidden: int = 6, outputs: int = 2, seed: int = 0) -> bytes:
    """Gemm, Relu, MatMul, Add, Relu, Gemm."""
    graph = Graph([1, inputs], seed=seed)
    graph.add("Gemm", graph.weight(hidden, inputs), graph.weight(hidden), transB=1)
    graph.add("Relu")
    graph.add("MatMul", graph.weight(hidden, hidden))
    graph.add("Add", graph.weight(hidden))
    graph.add("Relu")
    graph.add("Gemm", graph.weight(hidden, outputs), graph.weight(outputs))
    return graph.model()


def convolutional(seed: int = 0) -> bytes:
    """Conv with stride and padding, BatchNormalization, MaxPool, a residual block, average pool, Flatten, Gemm."""
    graph = Graph([1, 2, 8, 8], seed=seed)
    graph.add("Conv", graph.weight(4, 2, 3, 3), graph.weight(4), strides=[1, 1], pads=[1, 1, 1, 1])
    variance = np.abs(graph.weight(4)) + np.float32(0.5)
    graph.add("BatchNormalization", graph.weight(4), graph.weight(4), graph.weight(4), variance)
    graph.add("Relu")
    skip = graph.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    graph.add("Conv", graph.weight(4, 1, 3, 3), group=4, pads=[1, 1, 1, 1])
    graph.add("Relu")
    graph.add("Conv", graph.weight(4, 4, 1, 1))
    graph.add("Add", skip)
    graph.add("Relu")
    graph.add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
    graph.add("Flatten")
    graph.add("Gemm", graph.weight(16, 3), graph.weight(3))
    return graph.model()


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def ones(*shape: int) -> NDArray[np.float32]:
    return np.ones(shape, "f4")


def residual() -> bytes:
    """Skips of a signed value, of the input, and of a ReLU's output, over one and over two layers."""
    graph = Graph([1, 4])
    start = graph.add("MatMul", graph.weight(4, 4))
    graph.add("Relu")
    first = graph.add("MatMul", graph.weight(4, 4))
    graph.add("Add", start)
    graph.add("Relu")
    graph.add("MatMul", graph.weight(4, 4))
    graph.add("Sub", first)
    graph.add("Add", "input")
    graph.add("Relu")
    graph.add("Concat", start, axis=1)
    return graph.model()


def two_sided() -> bytes:
    """A constant on the left of every operator that takes one, and a shape computed in the graph."""
    graph = Graph([1, 4])
    values = graph.weight(4)
    graph.constants.append(numpy_helper.from_array(values, "left"))
    graph.add("Sub", "left", "input", first=False)
    graph.add("Add", "left", graph.last, first=False)
    graph.add("Mul", "left", graph.last, first=False)
    kept = graph.add("Relu")
    graph.add("Shape")
    shape = graph.add("Concat", ints(1), axis=0)
    graph.add("Reshape", kept, shape, first=False)
    graph.add("Reshape", ints(1, 4))
    return graph.model()
