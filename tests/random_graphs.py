"""Random small graphs of every shape that networks take: dense, convolutional, with skips."""

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.convolution import Convolution, Geometry
from ginnacer_verify.graph.elementary import Sigmoid, Tanh
from ginnacer_verify.graph.function import Function, Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense, LinearMap, Select
from ginnacer_verify.graph.piecewise import LeakyRelu, Maximum
from ginnacer_verify.graph.product import Product

SMOOTH: tuple[Function, ...] = (Sigmoid(), Tanh(), LeakyRelu(), Relu())


def random_graph(seed: int, scale: float = 1.0, *, smooth: bool = False) -> Graph:
    """Up to four inputs; one to three blocks of a map, a function and perhaps a skip; one or two outputs. If `smooth`,
    functions are not only ReLUs, and the largest of two values and products of two may follow."""
    random = np.random.default_rng(seed)
    builder = Builder()
    inputs = 4 if seed % 3 == 0 else int(random.integers(1, 5))
    value = builder.input(inputs)
    for block in range(int(random.integers(1, 4))):
        before, size = value, builder.size(value)
        one: LinearMap = Dense(scale * random.normal(size=(int(random.integers(2, 6)), size)))
        if seed % 3 == 0 and block == 0:
            weight = scale * random.normal(size=(1, 2, 1, 2, 2))
            one = Convolution(weight, Geometry((2, 2), (2, 2), (1, 1), (1, 1), (1, 0), (2, 1)))
        value = builder.affine((value, one), bias=scale * random.normal(size=one.outputs))
        value = builder.apply(SMOOTH[int(random.integers(4))] if smooth else Relu(), value)
        if smooth and random.random() < 0.5:
            size_here = builder.size(value)
            other = builder.affine((value, Dense(random.normal(size=(size_here, size_here)))), bias=random.normal())
            value = builder.apply(Product() if random.random() < 0.5 else Maximum(2), value, other)
        if random.random() < 0.5:
            back = Dense(random.normal(size=(builder.size(value), size)))
            value = builder.affine((value, Select.identity(builder.size(value))), (before, back))
    outputs = int(random.integers(1, 3))
    value = builder.affine((value, Dense(random.normal(size=(outputs, builder.size(value))))), bias=random.normal())
    return builder.graph(value, [Tensor("X", (1, inputs))], [Tensor("Y", (1, outputs))])


def random_box(random: np.random.Generator, inputs: int) -> tuple[Array, Array]:
    lower = random.normal(size=inputs)
    return lower, lower + random.choice([0.0, 1e-9, 0.1, 1.0], size=inputs) * random.random(inputs)
