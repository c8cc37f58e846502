"""Linear maps against their matrices, and graphs against plain arithmetic."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.sparse import random_array

from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.convolution import Convolution, Geometry
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.gradient import value_and_gradient
from ginnacer_verify.graph.graph import Affine, Builder, Graph, Tensor
from ginnacer_verify.graph.linear import NOTHING, Adjoint, Dense, LinearMap, Repeated, Scale, Select, Sparse


def random_convolution(random: np.random.Generator) -> Convolution:
    axes = int(random.integers(1, 4))
    kernel, stride, dilation = (tuple(int(v) for v in random.integers(1, 4, axes)) for _ in range(3))
    before = tuple(int(v) for v in random.integers(0, 3, axes))
    extent = tuple(
        int(d * (k - 1) + 1 + v) for d, k, v in zip(dilation, kernel, random.integers(0, 4, axes), strict=True)
    )
    count = tuple(
        int((n + b + random.integers(0, 2) - d * (k - 1) - 1) // s + 1)
        for n, b, d, k, s in zip(extent, before, dilation, kernel, stride, strict=True)
    )
    groups, out, into = (int(v) for v in random.integers(1, 4, 3))
    weight = random.normal(size=(groups, out, into, *kernel))
    return Convolution(weight, Geometry(extent, kernel, stride, dilation, before, count))


def some_maps(random: np.random.Generator) -> list[LinearMap]:
    index = np.where(random.random(7) < 0.3, NOTHING, random.integers(0, 5, 7))
    convolution = random_convolution(random)
    return [
        Dense(random.normal(size=(3, 5))),
        Sparse(random_array((6, 4), density=0.4, rng=random)),
        Scale(random.normal(size=4)),
        Select(index, 5),
        Select([2, 3, 4], 6),
        Select(random.permutation(6), 6),
        Select.identity(3),
        Repeated(Dense(random.normal(size=(2, 3))), 4),
        convolution,
        Adjoint(convolution),
    ]


@pytest.mark.parametrize("seed", range(40))
def test_maps_are_their_matrices(seed: int) -> None:
    random = np.random.default_rng(seed)
    for one in some_maps(random):
        matrix = one.matrix().toarray()
        assert matrix.shape == (one.outputs, one.inputs)
        x, rows = random.normal(size=(3, one.inputs)), random.normal(size=(2, one.outputs))
        np.testing.assert_allclose(one.apply(x), x @ matrix.T, atol=1e-12)
        np.testing.assert_allclose(one.pull_back(rows), rows @ matrix, atol=1e-12)
        np.testing.assert_allclose(one.absolute().matrix().toarray(), np.abs(matrix), atol=0)
        np.testing.assert_allclose(one.single().apply(x.astype(np.float32)), x @ matrix.T, rtol=1e-4, atol=1e-4)
        most = max((matrix != 0).sum(axis=0).max(initial=0), (matrix != 0).sum(axis=1).max(initial=0))
        assert one.terms >= most, type(one).__name__
        assert one.largest >= np.abs(matrix).max(initial=0.0)  # more where no window sees a cell of the kernel


def test_a_convolution_is_its_definition() -> None:
    random = np.random.default_rng(1)
    weight, x = random.normal(size=(1, 2, 3, 3, 2)), random.normal(size=(3, 5, 4))
    one = Convolution(weight, Geometry((5, 4), (3, 2), (2, 1), (1, 2), (1, 0), (3, 2)))
    y = one.apply(x.reshape(1, -1)).reshape(2, 3, 2)
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)))
    for channel, i, j in product(range(2), range(3), range(2)):
        expected = sum(
            weight[0, channel, c, a, b] * padded[c, 2 * i + a, j + 2 * b]
            for c, a, b in product(range(3), range(3), range(2))
        )
        assert y[channel, i, j] == pytest.approx(expected)


def residual(random: np.random.Generator, width: int = 4) -> Graph:
    """x, a block of two layers that is added to it, and an output."""
    builder = Builder()
    x = builder.input(3)
    first = builder.affine((x, Dense(random.normal(size=(width, 3)))), bias=random.normal(size=width))
    y = builder.apply(Relu(), first)
    block = builder.affine((y, Dense(random.normal(size=(width, width)))), bias=random.normal(size=width))
    block = builder.affine((builder.apply(Relu(), block), Dense(random.normal(size=(width, width)))))
    together = builder.affine((y, Select.identity(width)), (block, Select.identity(width)), bias=0.5)
    out = builder.affine((builder.apply(Relu(), together), Dense(random.normal(size=(2, width)))))
    return builder.graph(out, [Tensor("x", (1, 3))], [Tensor("y", (1, 2))])


def test_batches_are_explicit_and_gradients_are_those_of_differences() -> None:
    random = np.random.default_rng(2)
    graph = residual(random)
    x = random.normal(size=(5, 3))
    y = graph.evaluate(x)
    assert y.shape == (5, 2)
    np.testing.assert_allclose(graph(x[0]), y[0])
    np.testing.assert_allclose(graph(x[0].reshape(1, 3)), y[0])
    np.testing.assert_allclose(graph(x.reshape(5, 1, 3)), y)
    values, gradient = value_and_gradient(graph, x, lambda out: np.ones_like(out))
    np.testing.assert_allclose(values, y)
    for i in range(3):
        moved = x.copy()
        moved[:, i] += 1e-7
        np.testing.assert_allclose((graph.evaluate(moved) - y).sum(axis=1) / 1e-7, gradient[:, i], atol=1e-5)


def test_what_the_output_does_not_need_is_left_out() -> None:
    builder = Builder()
    x = builder.input(2)
    builder.apply(Relu(), x)
    out = builder.affine((x, Dense([[1.0, 1.0]])))
    graph = builder.graph(out, [Tensor("x", (2,))], [Tensor("y", (1,))])
    assert len(graph.nodes) == 2
    assert graph.relus == 0


@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_weights_are_finite(weight: float) -> None:
    with pytest.raises(NetworkError, match="finite"):
        Affine((0,), (Dense([[weight]]),), np.zeros(1))


def test_sizes_must_fit() -> None:
    builder = Builder()
    x = builder.input(2)
    builder.affine((x, Dense(np.ones((1, 3)))))
    with pytest.raises(NetworkError, match="sizes"):
        builder.graph(1, [Tensor("x", (2,))], [Tensor("y", (1,))])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_compiled_convolutions_are_those_of_numpy(seed: int, kind: type[np.floating[Any]]) -> None:
    """Any groups, strides, dilations and paddings, in both precisions; without the kernels numpy does it."""
    random = np.random.default_rng(seed)
    one = random_convolution(random)
    if seed % 2:  # enough channels and windows for every size of block
        weight = random.normal(size=(1, int(random.integers(5, 20)), int(random.integers(5, 20)), 3, 3))
        stride, before = (tuple(int(v) for v in random.integers(1, 3, 2)) for _ in range(2))
        count = tuple((size + 2 * b - 3) // s + 1 for size, b, s in zip((9, 12), before, stride, strict=True))
        one = Convolution(weight, Geometry((9, 12), (3, 3), stride, (1, 1), before, count))
    plain = one if kind is np.float64 else one.single()
    other = one if kind is np.float64 else one.single()
    other = Convolution(other.weight.reshape(*other.weight.shape[:3], *one.geometry.kernel), one.geometry)
    other.__dict__["_windows"] = None
    x, rows = (random.normal(size=(3, size)).astype(kind) for size in (one.inputs, one.outputs))
    tolerance = 1e-4 if kind is np.float32 else 1e-12
    for ours, theirs in ((plain.apply(x), other.apply(x)), (plain.pull_back(rows), other.pull_back(rows))):
        assert ours.dtype == theirs.dtype == kind
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * (1 + np.abs(theirs).max()))
