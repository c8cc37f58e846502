"""A small model for every operator, with the attributes that change what it means."""

from collections.abc import Callable
from typing import Any

import numpy as np
from models import Graph, ints, ones
from numpy.typing import NDArray

SHAPE_1D, SHAPE_2D, FLAT = (1, 4, 9), (1, 4, 7, 6), (1, 6)


def case(shape: tuple[int, ...], *nodes: tuple[Any, ...], opset: int = 13) -> Callable[[], bytes]:
    """A model that applies the nodes to a tensor which a first layer with a ReLU has made."""

    def build() -> bytes:
        graph = Graph(shape)
        graph.add("Mul", graph.weight(*shape))
        graph.add("Add", graph.weight(*shape))
        for operator, *rest in nodes:
            attributes = rest.pop() if rest and isinstance(rest[-1], dict) else {}
            values = [value(graph) if callable(value) else value for value in rest]
            graph.add(operator, *values, **attributes)
        return graph.model(opset)

    return build


def weight(*shape: int) -> Callable[[Graph], NDArray[Any]]:
    return lambda graph: graph.weight(*shape)


def last(graph: Graph) -> str:
    """What the nodes so far give, for a node that takes a constant first."""
    return graph.last


CASES: dict[str, Callable[[], bytes]] = {
    "gemm with alpha and beta": case(FLAT, ("Gemm", weight(6, 5), weight(5), {"alpha": 0.5, "beta": -2.0})),
    "gemm with transB, without bias": case(FLAT, ("Gemm", weight(5, 6), {"transB": 1})),
    "matmul with several rows": case((1, 3, 4), ("MatMul", weight(4, 2)), ("Relu",)),
    "matmul of a vector": case((6,), ("MatMul", weight(6, 2))),
    "matmul with a constant on the left": case((3, 4), ("MatMul", weight(2, 3), last, {"first": False}), ("Relu",)),
    "matmul of a constant and a vector": case((4,), ("MatMul", weight(2, 4), last, {"first": False})),
    "sub and div": case(FLAT, ("Sub", weight(6)), ("Div", weight(1, 6))),
    "broadcast that grows": case((1, 3, 1), ("Add", weight(1, 3, 4)), ("Relu",), ("Mul", weight(4))),
    "flatten at axis 2": case((1, 3, 4), ("Flatten", {"axis": 2}), ("Relu",)),
    "flatten at a negative axis": case((1, 3, 4), ("Flatten", {"axis": -1})),
    "flatten without an axis": case((2, 3, 4), ("Flatten",)),
    "reshape with 0 and -1": case((1, 3, 4), ("Reshape", ints(0, -1, 2)), ("Relu",)),
    "transpose": case((1, 3, 4), ("Transpose", {"perm": [0, 2, 1]}), ("Flatten",), ("MatMul", weight(12, 2))),
    "transpose without perm": case((1, 3, 4), ("Transpose",), ("Reshape", ints(1, 12)), ("MatMul", weight(12, 2))),
    "squeeze and unsqueeze": case((1, 3, 1, 4), ("Squeeze", ints(2)), ("Unsqueeze", ints(0, 3))),
    "squeeze without axes": case((1, 3, 1, 4), ("Squeeze",)),
    "squeeze with a list of no axes": case((1, 3, 1, 4), ("Squeeze", ints())),
    "squeeze and unsqueeze, old": case((1, 3, 1, 4), ("Squeeze", {"axes": [2]}), ("Unsqueeze", {"axes": [0]}), opset=9),
    "slice and gather": case(
        (1, 3, 8), ("Slice", ints(1), ints(7), ints(2), ints(2)), ("Gather", ints(2, 0), {"axis": 1})
    ),
    "slice without axes": case((1, 3, 8), ("Slice", ints(0, 1), ints(1, 3))),
    "concat along the last axis": case((1, 3, 4), ("Relu",), ("Concat", "input", {"axis": 2})),
    "concat along a negative axis": case((1, 3, 4), ("Relu",), ("Concat", "input", {"axis": -2})),
    "identity, dropout, cast": case(FLAT, ("Identity",), ("Dropout",), ("Cast", {"to": 1}), ("Relu",)),
    "neg": case(FLAT, ("Neg",), ("Relu",)),
    "relu of a shifted relu": case(FLAT, ("Relu",), ("Sub", np.full(6, 0.5, "f4")), ("Relu",)),
    "relu of a constant": case(FLAT, ("Mul", np.zeros(6, "f4")), ("Add", weight(6)), ("Relu",)),
    "relu of a sum with minus signs": case(FLAT, ("Relu",), ("MatMul", np.array([[2], [-1.9]] * 3, "f4")), ("Relu",)),
    "relu twice": case(FLAT, ("Relu",), ("Relu",), ("MatMul", weight(6, 2))),
    "conv 1-D": case(SHAPE_1D, ("Conv", weight(3, 4, 3), weight(3), {"strides": [2], "pads": [1, 0]}), ("Relu",)),
    "conv with dilation": case(SHAPE_2D, ("Conv", weight(2, 4, 2, 3), {"dilations": [2, 2], "pads": [0, 1, 2, 1]})),
    "conv with groups": case(SHAPE_2D, ("Conv", weight(6, 2, 3, 2), weight(6), {"group": 2, "strides": [2, 3]})),
    "conv same upper": case(SHAPE_2D, ("Conv", weight(2, 4, 2, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]})),
    "conv same lower": case(SHAPE_2D, ("Conv", weight(2, 4, 2, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]})),
    "conv valid": case(SHAPE_2D, ("Conv", weight(2, 4, 3, 3), {"auto_pad": "VALID"})),
    "average pool": case(SHAPE_2D, ("AveragePool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]})),
    "average pool that counts padding": case(
        SHAPE_2D, ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1})
    ),
    "average pool, ceil": case(SHAPE_2D, ("AveragePool", {"kernel_shape": [2, 2], "strides": [3, 4], "ceil_mode": 1})),
    "average pool, ceil, counts padding": case(
        (1, 2, 6),
        (
            "AveragePool",
            {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1, "count_include_pad": 1},
        ),
    ),
    "global average pool": case(SHAPE_2D, ("Relu",), ("GlobalAveragePool",), ("Flatten",), ("MatMul", weight(4, 2))),
    "batch normalization": case(
        SHAPE_1D,
        ("BatchNormalization", weight(4), weight(4), weight(4), np.full(4, 0.5, "f4"), {"epsilon": 1e-3}),
        ("Relu",),
    ),
    "leaky relu": case(FLAT, ("LeakyRelu", {"alpha": 0.1}), ("MatMul", weight(6, 3))),
    "leaky relu without alpha": case(FLAT, ("LeakyRelu",), ("MatMul", weight(6, 3))),
    "abs": case(FLAT, ("Abs",), ("MatMul", weight(6, 3))),
    "clip": case(FLAT, ("Clip", np.float32(-0.5), np.float32(1.5)), ("MatMul", weight(6, 3))),
    "clip from below": case(FLAT, ("Clip", np.float32(0.25)), ("MatMul", weight(6, 3))),
    "clip from above": case(FLAT, ("Clip", "", np.float32(0.25)), ("MatMul", weight(6, 3))),
    "clip, old": case(FLAT, ("Clip", {"min": 0.0, "max": 6.0}), opset=9),
    "clip, old, from below": case(FLAT, ("Clip", {"min": 0.0}), opset=9),
    "clip, old, the largest float for infinity": case(
        FLAT, ("Clip", {"min": -3.4028234663852886e38, "max": 6.0}), opset=9
    ),
    "max pool": case(SHAPE_2D, ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]})),
    "max pool of relu": case(SHAPE_2D, ("Relu",), ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]})),
    "max pool 1-D, dilation": case(SHAPE_1D, ("MaxPool", {"kernel_shape": [3], "dilations": [2]})),
    "max pool, ceil": case(SHAPE_2D, ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 4], "ceil_mode": 1})),
    "max pool, ceil, no window in the padding": case(
        (1, 2, 3), ("MaxPool", {"kernel_shape": [2], "strides": [2], "pads": [1, 1], "ceil_mode": 1})
    ),
    "max of three": case(FLAT, ("Max", weight(6), weight(6)), ("MatMul", weight(6, 2))),
    "max and min with a constant": case(FLAT, ("Max", weight(6)), ("Min", weight(1, 6)), ("MatMul", weight(6, 2))),
    "gemm with several rows and transA": case((4, 3), ("Gemm", weight(4, 5), weight(3, 5), {"transA": 1})),
    "gemm with a constant on the left": case((4, 3), ("Gemm", weight(2, 4), last, {"first": False})),
    "gemm with a computed bias": case((1, 6), ("Gemm", weight(6, 6), "input", {"beta": 0.5})),
    "matmul with a batch of matrices": case((2, 3, 4), ("MatMul", weight(2, 4, 5))),
    "matmul with a constant left of a batch": case((2, 3, 4), ("MatMul", weight(5, 3), last, {"first": False})),
    "matmul of two computed tensors": case((2, 3, 3), ("Relu",), ("MatMul", "input")),
    "product": case(FLAT, ("Relu",), ("Mul", "input")),
    "square": case(FLAT, ("Mul", last)),
    "powers": case(FLAT, ("Pow", np.float32(2)), ("Add", ones(1)), ("Pow", np.float32(0.5)), ("Pow", np.float32(3))),
    "div of two values": case(FLAT, ("Abs",), ("Add", ones(6)), ("Div", "input", last, {"first": False})),
    "div of a constant": case(FLAT, ("Abs",), ("Add", ones(6)), ("Div", ones(6), last, {"first": False})),
    "reciprocal": case(FLAT, ("Abs",), ("Add", ones(6)), ("Reciprocal",)),
    "sum and mean": case(FLAT, ("Sum", "input", weight(6)), ("Mean", "input", "v0")),
    "slice backwards": case((1, 3, 8), ("Slice", ints(7), ints(-9), ints(2), ints(-2)), ("Relu",)),
    "concat with constants": case((1, 3, 4), ("Concat", weight(1, 2, 4), "input", {"axis": 1})),
    "gather elements": case((3, 4), ("GatherElements", np.array([[0, 3], [2, 1]]), {"axis": 1})),
    "gather nd": case((3, 4), ("GatherND", np.array([[0, 3], [2, 1], [2, 2]]))),
    "split": case((1, 6), ("Split", ints(2, 4), {"axis": 1, "results": 2}), ("Relu",)),
    "expand and tile": case((1, 3, 1), ("Expand", ints(2, 1, 4)), ("Tile", ints(1, 2, 1)), ("Relu",)),
    "where": case((1, 6), ("Where", np.arange(6) % 2 == 0, last, weight(1, 6), {"first": False})),
    "pad": case((1, 3, 4), ("Pad", ints(0, 1, 2, 0, 0, -1), np.float32(2.5))),
    "pad with zeros": case((1, 3, 4), ("Pad", ints(0, 1, 2, 0, 0, 1)), ("Relu",), ("MatMul", weight(7, 2))),
    "pad by reflection": case((1, 3, 4), ("Pad", ints(0, 1, 2, 0, 0, 1), {"mode": "reflect"})),
    "pad with the edge": case((1, 3, 4), ("Pad", ints(0, 1, 2, 0, 0, 1), {"mode": "edge"})),
    "depth to space": case((1, 8, 2, 3), ("DepthToSpace", {"blocksize": 2}), ("SpaceToDepth", {"blocksize": 2})),
    "depth to space by columns": case((1, 8, 2, 3), ("DepthToSpace", {"blocksize": 2, "mode": "CRD"})),
    "conv 3-D": case((1, 2, 4, 5, 3), ("Conv", weight(3, 2, 2, 3, 2), weight(3), {"pads": [1, 0, 0, 0, 1, 1]})),
    "conv of a batch": case((2, 4, 9), ("Conv", weight(3, 4, 3), weight(3))),
    "transposed conv": case(
        SHAPE_2D, ("ConvTranspose", weight(4, 3, 3, 2), weight(3), {"strides": [2, 3], "pads": [1, 0, 0, 1]})
    ),
    "transposed conv with groups": case(
        SHAPE_2D,
        ("ConvTranspose", weight(4, 3, 3, 2), {"group": 2, "strides": [2, 2], "output_padding": [1, 0]}),
        ("Relu",),
    ),
    "transposed conv with an output shape": case(
        SHAPE_2D, ("ConvTranspose", weight(4, 2, 3, 3), {"strides": [2, 2], "output_shape": [14, 12]})
    ),
    "transposed conv, dilated": case(SHAPE_1D, ("ConvTranspose", weight(4, 2, 3), {"dilations": [2]})),
    "upsample": case(SHAPE_2D, ("Upsample", np.array([1, 1, 2, 3], "f4")), opset=9),
    "upsample, linear": case(SHAPE_2D, ("Upsample", np.array([1, 1, 2, 2], "f4"), {"mode": "linear"}), opset=9),
    **{
        f"resize {mode} {coordinates} {rounding}": case(
            SHAPE_2D,
            (
                "Resize",
                "",
                np.array([1, 1, 2, 1.5], "f4"),
                {
                    "mode": mode,
                    "coordinate_transformation_mode": coordinates,
                    **({"nearest_mode": rounding} if rounding else {}),
                },
            ),
        )
        for mode, rounding in [("linear", ""), ("nearest", "floor"), ("nearest", "round_prefer_ceil"), ("nearest", "")]
        for coordinates in ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
    },
    "resize to sizes": case(SHAPE_2D, ("Resize", "", "", ints(1, 4, 5, 9), {"mode": "linear"})),
    "reduce": case((2, 3, 4), ("ReduceSum", ints(1)), ("ReduceMean", {"axes": [0], "keepdims": 0})),
    "reduce max and min": case((2, 3, 4), ("ReduceMax", {"axes": [-1]}), ("ReduceMin", {"axes": [0], "keepdims": 0})),
    "reduce sum of squares": case((2, 3, 4), ("ReduceSumSquare", {"axes": [2]})),
    "global max pool": case((1, 2, 3, 2), ("GlobalMaxPool",)),
    "softmax": case((2, 3, 4), ("Softmax", {"axis": 1})),
    "softmax, old": case((2, 3, 4), ("Softmax", {"axis": 1}), opset=11),
    "log softmax": case((2, 5), ("LogSoftmax",)),
    "softmax of one value": case((2, 1), ("Softmax",), ("Add", "input")),
    "prelu": case((1, 3, 4), ("PRelu", weight(3, 1))),
    "prelu with one slope": case((1, 3, 4), ("PRelu", weight(1))),
    "hard sigmoid": case(FLAT, ("HardSigmoid",)),
    "max and min of computed values": case(FLAT, ("Relu",), ("Max", "input", "v0"), ("Min", "v1")),
    "functions": case(FLAT, ("Sigmoid",), ("Tanh",), ("Exp",), ("Log",), ("Softplus",), ("Elu", {"alpha": 0.5})),
    "waves": case(FLAT, ("Sin",), ("Cos",), ("Erf",), ("Abs",), ("Sqrt",)),
    "steps": case(FLAT, ("Mul", np.float32(0.1)), ("Floor",), ("Sign",)),
    "argmax": case((2, 3, 4), ("ArgMax", {"axis": 2}), ("Cast", {"to": 1})),
    "argmax without its axis": case((1, 4, 2), ("ArgMax", {"axis": -2, "keepdims": 0}), ("Cast", {"to": 1})),
    "equal to a number": case(
        (1, 5), ("ArgMax", {"axis": 1}), ("Cast", {"to": 1}), ("Equal", np.float32(2)), ("Cast", {"to": 1})
    ),
    "casts to whole numbers": case(FLAT, ("Cast", {"to": 7}), ("Cast", {"to": 1}), ("MatMul", weight(6, 3))),
    "casts of truth values": case(
        (1, 5),
        ("ArgMax", {"axis": 1}),
        ("Equal", np.array(2)),
        ("Cast", {"to": 9}),
        ("Cast", {"to": 7}),
        ("Cast", {"to": 1}),
    ),
    "gather at computed places": case(
        (1, 2),
        ("Clip", np.float32(0), np.float32(4.5)),
        ("Cast", {"to": 6}),
        ("Gather", weight(5, 3), last, {"axis": 0, "first": False}),
        ("MatMul", weight(3, 2)),
    ),
    "hard swish": case(FLAT, ("HardSwish",), opset=14),
    "gelu": case(FLAT, ("Gelu",), ("Gelu", {"approximate": "tanh"}), opset=20),
}
