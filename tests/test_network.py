"""Network: evaluation, shapes, and what is refused."""

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from ginnacer_verify.arrays import compact, dense
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.network import Layer, Network, then


def test_evaluation_by_hand() -> None:
    network = Network.from_arrays(([[1, -1], [2, 0]], [0, -1]), ([[1, 1]], [0.5]))
    assert network([3, 1]).tolist() == [2 + 5 + 0.5]
    assert network([0, 1]).tolist() == [0.5]
    assert [y.tolist() for y in network.pre_activations([0, 1])] == [[-1, -1], [0.5]]


def test_batches_rows_and_shapes_give_the_same() -> None:
    random = np.random.default_rng(0)
    layers = Layer(random.normal(size=(5, 6)), random.normal(size=5)), Layer(random.normal(size=(2, 5)), np.ones(2))
    network = Network(layers, input_shape=(1, 2, 3), output_shape=(1, 2))
    batch = random.normal(size=(4, 6))
    for x, y in zip(batch, network(batch), strict=True):
        np.testing.assert_allclose(network(x), y, atol=1e-12)
        np.testing.assert_allclose(network(x.reshape(1, 2, 3)), y, atol=1e-12)
    np.testing.assert_allclose(network(batch.reshape(4, 1, 2, 3)), network(batch))
    with pytest.raises(NetworkError, match=r"shape \[5\] does not fit"):
        network(np.zeros(5))


@pytest.mark.parametrize("density", [0.01, 0.9])
def test_sparse_and_dense_layers_agree(density: float) -> None:
    matrix = random_array((80, 90), density=density, rng=np.random.default_rng(1), format="csr")
    layer = Layer(matrix, np.ones(80))
    assert isinstance(layer.weight, np.ndarray) == (density > 0.5)
    x = np.random.default_rng(2).normal(size=(3, 90))
    np.testing.assert_allclose(layer(x), x @ matrix.toarray().T + 1)
    np.testing.assert_allclose(layer(x[0]), matrix.toarray() @ x[0] + 1)
    assert layer.parameters == matrix.nnz + 80


def test_arrays_cannot_be_changed() -> None:
    weight = np.ones((2, 2))
    layer = Layer(weight, np.zeros(2))
    weight[0, 0] = 5
    assert dense(layer.weight)[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        layer.bias[0] = 1
    sparse = compact(csr_array((100, 100)))
    assert not isinstance(sparse, np.ndarray)
    assert not any(part.flags.writeable for part in (sparse.data, sparse.indices, sparse.indptr))


def test_sparse_weights_keep_what_is_small_and_add_what_is_stored_twice() -> None:
    stored = csr_array(([1e-30, 2.0, 3.0], [0, 5, 5], [0, 3, *[3] * 99]), shape=(100, 100))
    layer = Layer(stored, np.zeros(100))
    assert not isinstance(layer.weight, np.ndarray)
    assert layer.weight.data.tolist() == [1e-30, 5.0]
    assert layer.parameters == 2


def test_composition() -> None:
    random = np.random.default_rng(3)
    network = Network.from_arrays((random.normal(size=(4, 3)), np.ones(4)), (random.normal(size=(2, 4)), np.ones(2)))
    last = Layer(np.array([[1.0, -1.0]]), np.array([0.25]))
    x = random.normal(size=(5, 3))
    np.testing.assert_allclose(Network(then(network.layers, last))(x), last(network(x)))


@pytest.mark.parametrize(
    "arrays",
    [
        [],
        [([[1.0, 2.0]], [0.0, 0.0])],
        [([[1.0]], [0.0]), ([[1.0, 1.0]], [0.0])],
        [([[np.nan]], [0.0])],
        [([[np.inf]], [0.0])],
        [([[1.0]], [np.nan])],
        [([[1.0]], [np.inf])],
    ],
)
def test_what_is_not_well_formed_is_refused(arrays: list[tuple[list[list[float]], list[float]]]) -> None:
    with pytest.raises(NetworkError):
        Network.from_arrays(*arrays)


def test_shapes_must_fit() -> None:
    with pytest.raises(NetworkError, match="does not hold 2 values"):
        Network((Layer(np.ones((1, 2)), np.zeros(1)),), input_shape=(3,))
