"""What the compiled part of the engine works on: a folded network in flat arrays, and its working memory."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.network import Array

OPEN, PROVED = 0, 1


class Net(NamedTuple):
    """A folded network: `sizes[k]` values enter layer k; its weights and biases start at `weights[k]`, `biases[k]`.

    `across` holds the same weights, each layer's transposed."""

    sizes: NDArray[np.int64]
    weights: NDArray[np.int64]
    biases: NDArray[np.int64]
    weight: Array
    across: Array
    bias: Array
    error: Array


class Scratch(NamedTuple):
    """Working memory of one thread, made once for all of its boxes; `memory.Memory` says what is what."""

    columns: Array
    layer: Array
    unstable: Array
    spread: Array
    reach: Array
    planes: Array
    blame: Array
    numbers: Array
    counts: NDArray[np.int64]


def scratch(net: Net) -> Scratch:
    """Working memory for the given network."""
    inputs, rows = int(net.sizes[0]), int(net.sizes[-1])
    relus, widest = int(net.sizes[1:-1].sum()), int(net.sizes.max())
    width = 1 + inputs + relus
    return Scratch(
        np.zeros((2, width, widest)),
        np.zeros((widest, width)),
        np.zeros((relus, width)),
        np.zeros((widest, inputs)),
        np.zeros((relus, inputs)),
        np.zeros((rows + 1, 1 + inputs)),
        np.zeros((rows + 1, relus)),
        np.zeros(7 * relus + width + 2 * rows + 7 * inputs),
        np.zeros(relus + widest, dtype=np.int64),
    )
