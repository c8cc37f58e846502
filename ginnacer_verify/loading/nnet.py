"""The NNet text format of the original ACAS Xu networks."""

import numpy as np

from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.network import Layer, Network


def parse_nnet(content: bytes) -> Network:
    """The network as stored, over normalised inputs and outputs.

    The ranges and means in the header, which turn raw sensor values into the network's inputs, are not part of the
    network: the competition's ACAS Xu files and Marabou's reader leave them out too."""
    lines = _numbers(content)
    try:
        depth, inputs = int(lines[0][0]), int(lines[0][1])
        sizes = [int(size) for size in lines[1][: depth + 1]]
        layers, at = [], 7  # sizes, a flag, minima, maxima, means and ranges come first
        for size, before in zip(sizes[1:], sizes, strict=False):
            weight = np.array([row[:before] for row in lines[at : at + size]])
            bias = np.array([row[0] for row in lines[at + size : at + 2 * size]])
            layers.append(Layer(weight.reshape(size, before), bias))
            at += 2 * size
    except (IndexError, ValueError, OverflowError) as problem:
        raise NetworkError(f"this is not a well-formed NNet file: {problem}") from problem
    if sizes[0] != inputs or len(layers) != depth or at != len(lines):
        raise NetworkError("this is not a well-formed NNet file: its sizes and its numbers do not fit together")
    return Network(tuple(layers))


def _numbers(content: bytes) -> list[list[float]]:
    """The numbers of each line after the leading comments."""
    try:
        lines = [line for line in content.decode().splitlines() if line.strip() and not line.startswith("//")]
        return [[float(word) for word in line.split(",") if word.strip()] for line in lines]
    except ValueError as problem:  # UnicodeDecodeError is one of them
        raise NetworkError(f"this is not an NNet file: {problem}") from problem
