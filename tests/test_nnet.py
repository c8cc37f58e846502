"""The NNet reader against the text it is given."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from benchmarks import benchmark
from ginnacer_verify.arrays import dense
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load_chain, operators_of


def nnet_text(network: Network) -> str:
    """The network in the NNet format with a made-up normalisation."""
    sizes = [network.inputs, *(layer.outputs for layer in network.layers)]
    ends = [",".join(["1.0"] * network.inputs) + ","] * 2
    scales = [",".join(["2.0"] * (network.inputs + 1)) + ","] * 2
    lines = ["// Neural Network File Format", f"{len(network.layers)},{sizes[0]},{sizes[-1]},{max(sizes)},"]
    lines += [",".join(map(str, sizes)) + ",", "0,", *ends, *scales]
    for layer in network.layers:
        lines += [",".join(map(repr, row)) + "," for row in dense(layer.weight).tolist()]
        lines += [f"{bias!r}," for bias in layer.bias.tolist()]
    return "\n".join(lines) + "\n"


def test_round_trip_of_an_acas_network(tmp_path: Path) -> None:
    original = load_chain(benchmark("acasxu", "ACASXU_run2a_2_3_batch_2000.onnx"))
    file = tmp_path / "acas.nnet"
    file.write_text(nnet_text(original))
    network = load_chain(file)
    for read, given in zip(network.layers, original.layers, strict=True):  # outputs depend on how BLAS finds its memory
        np.testing.assert_array_equal(dense(read.weight), dense(given.weight))
        np.testing.assert_array_equal(read.bias, given.bias)
    assert operators_of(file) == []


def test_compressed_files_are_read(tmp_path: Path) -> None:
    network = Network.from_arrays(([[1, 2], [3, 4], [5, 6]], [1, 2, 3]), ([[1, 2, 3]], [4]))
    file = tmp_path / "small.nnet.gz"
    file.write_bytes(gzip.compress(nnet_text(network).encode()))
    assert load_chain(file)([1, -1]).tolist() == network([1, -1]).tolist()


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: lines[:-1],
        lambda lines: [*lines, "0.5,"],
        lambda lines: [*lines[:-1], "word,"],
        lambda lines: lines[:3],
        lambda lines: [lines[0], "2,9,1,3,", *lines[2:]],
        lambda lines: [lines[0], "inf,2,1,3,", *lines[2:]],
        lambda lines: [lines[0], "5,2,1,3,", *lines[2:]],
        lambda _: [],
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, damage: object) -> None:
    network = Network.from_arrays(([[1, 2], [3, 4], [5, 6]], [1, 2, 3]), ([[1, 2, 3]], [4]))
    file = tmp_path / "small.nnet"
    file.write_text("\n".join(damage(nnet_text(network).splitlines())))  # type: ignore[operator]
    with pytest.raises(NetworkError, match=r"small\.nnet"):
        load_chain(file)
