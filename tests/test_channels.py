"""Channels that are copies or negatives of others take no ReLUs of their own."""

import numpy as np
import pytest

from ginnacer_verify.graph.channels import with_fewer_channels
from ginnacer_verify.graph.convolution import Convolution, Geometry
from ginnacer_verify.graph.folds import folded
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense

SIZE = 5


def convolution(weight: np.ndarray, kernel: int) -> Convolution:
    pairs = [(size, size) for size in (SIZE, kernel, 1, 1, kernel // 2, SIZE)]
    return Convolution(weight[None], Geometry(*pairs))


def network(weight: np.ndarray, bias: np.ndarray, after: np.ndarray, added: float, *, dense: bool = False) -> Graph:
    """A convolution of two channels, ReLU, a second one or a matrix, ReLU, a matrix."""
    builder, pixels = Builder(), SIZE * SIZE
    x = builder.input(2 * pixels)
    first = builder.apply(Relu(), builder.affine((x, convolution(weight, 3)), bias=np.repeat(bias, pixels)))
    second = Dense(after.reshape(len(after), -1)) if dense else convolution(after, after.shape[-1])
    value = builder.apply(Relu(), builder.affine((first, second), bias=added))
    rows = np.random.default_rng(7).normal(size=(3, builder.size(value)))
    last = builder.affine((value, Dense(rows)))
    return builder.graph(last, [Tensor("X", (1, 2, SIZE, SIZE))], [Tensor("Y", (1, 3))])


def agree(graph: Graph, other: Graph) -> bool:
    x = np.random.default_rng(0).normal(size=(50, graph.inputs))
    return np.allclose(graph.evaluate(x), other.evaluate(x), rtol=0, atol=1e-10)


def test_a_channel_less_relu_of_its_negative_is_no_relu() -> None:
    """As relusplitter makes them: `relu(y) - relu(-y)` for each channel, and a ReLU behind."""
    random = np.random.default_rng(0)
    weight, bias = random.integers(-8, 8, size=(3, 2, 3, 3)) / 8, random.integers(-8, 8, size=3) / 8
    both = np.stack([weight, -weight], axis=1).reshape(6, 2, 3, 3)
    split = np.kron(np.eye(3), np.array([1.0, -1.0]))[:, :, None, None]
    graph = network(both, np.stack([bias, -bias], axis=1).reshape(-1), split, 0.25)
    less = folded(graph)
    assert agree(graph, less)
    assert [size for _, size in less.functions] == [3 * SIZE * SIZE]
    assert len(less.nodes) == 4  # one layer where there were two


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dense", [False, True])
def test_copies_and_negatives_of_channels_take_one_relu(seed: int, dense: bool) -> None:
    random = np.random.default_rng(seed)
    at, sign = random.integers(3, size=6), random.choice([1.0, -1.0], size=6)
    weight, bias = random.normal(size=(3, 2, 3, 3)), random.normal(size=3)
    after = random.normal(size=(4, 6, SIZE, SIZE) if dense else (4, 6, 3, 3))
    graph = network(weight[at] * sign[:, None, None, None], bias[at] * sign, after, 0.1, dense=dense)
    less = with_fewer_channels(graph)
    pairs = sum(count // 2 for count in np.bincount(at))
    assert agree(graph, less)
    assert less.functions[0][1] == (6 - pairs) * SIZE * SIZE


def test_channels_with_biases_of_their_own_stay() -> None:
    """The same kernel with another bias bends elsewhere."""
    random = np.random.default_rng(3)
    weight = random.normal(size=(1, 2, 3, 3))
    graph = network(np.concatenate([weight, -weight]), np.array([0.5, 0.5]), random.normal(size=(2, 2, 3, 3)), 0.0)
    assert with_fewer_channels(graph) is graph


def test_merged_kernels_say_that_they_are_rounded() -> None:
    random = np.random.default_rng(4)
    weight, after = random.normal(size=(1, 2, 3, 3)), random.normal(size=(2, 2, 3, 3))
    less = with_fewer_channels(network(np.concatenate([weight, weight]), np.zeros(2), after, 0.0))
    (merged,) = [one for node in less.nodes[3:4] for one in getattr(node, "maps", ())]
    assert isinstance(merged, Convolution)
    assert merged.roundings == 1
