"""A disjunct on its box as the kernel wants it: folded, flat, without fixed inputs, and with its rounding error."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.bounds import HUGE, TINY, UNDERFLOW, absolute, gamma
from ginnacer_verify.engine.net import Net
from ginnacer_verify.fold import fold_error, fold_rows
from ginnacer_verify.network import Array, Network, dense, read_only
from ginnacer_verify.properties.property import Disjunct


@dataclass(frozen=True, eq=False)
class Problem:
    """Unsafe: an input between `low` and `high`, over the varying inputs only, where every row of `net` is at most 0.

    `largest` bounds the absolute value of each neuron's input on the box."""

    net: Net
    low: Array
    high: Array
    largest: Array
    fixed: Array
    varying: NDArray[np.intp]

    def whole(self, x: Array) -> Array:
        """The inputs of the network for values of the varying ones."""
        point = self.fixed.copy()
        point[self.varying] = x
        return point


def problem(network: Network, disjunct: Disjunct) -> Problem:
    """The disjunct's unsafe rows folded into the network's last layer, its fixed inputs into the first biases."""
    layers = fold_rows(network, [disjunct])
    box, varying = disjunct.box, np.asarray(disjunct.box.varying, dtype=np.intp)
    fixed = box.lower.copy()
    fixed[varying] = 0.0
    matrices = [dense(layers[0].weight)[:, varying], *(dense(layer.weight) for layer in layers[1:])]
    biases = [layers[0].bias + layers[0].weight @ fixed, *(layer.bias for layer in layers[1:])]
    sizes = np.array([len(varying), *(len(bias) for bias in biases)], dtype=np.int64)
    largest, error = _rounding(network, disjunct)
    net = Net(
        sizes,
        np.cumsum([0] + [matrix.size for matrix in matrices[:-1]]).astype(np.int64),
        np.cumsum([0] + [len(bias) for bias in biases[:-1]]).astype(np.int64),
        np.concatenate([matrix.reshape(-1) for matrix in matrices]),
        np.concatenate([matrix.T.reshape(-1) for matrix in matrices]),
        np.concatenate(biases),
        error,
    )
    return Problem(net, box.lower[varying], box.upper[varying], largest, read_only(fixed), varying)


@np.errstate(over="ignore", invalid="ignore")
def _rounding(network: Network, disjunct: Disjunct) -> tuple[Array, Array]:
    """How large a neuron's input can be, and per layer how far a computed bound can be from that of real arithmetic.

    `size` bounds the sum of the absolute values of all terms that make up a row: |W| size + |b| from layer to layer.
    Eliminating a ReLU replaces `s` by at most its row plus slope * |lower|, a constant of at most half its size, so
    `total` bounds the terms of a row after elimination. Each term has passed, in each layer, a sum over that layer
    (composition), a sum over all unstable ReLUs (elimination) and a handful of products; a chain of n roundings moves
    a term by at most gamma(n) of itself (Higham, Accuracy and Stability of Numerical Algorithms, Lemma 3.1). The
    outputs of a layer are counted for the combination of rows at the end.

    Underflow takes from each of as many products at most UNDERFLOW times the value whose coefficient it is: one for
    inputs and constants, a neuron's size for a ReLU. `least`, far above that divided by a unit of rounding, is added to
    the sizes instead. If any size is HUGE nothing is proved: differences of such values may overflow."""
    layers, relus = fold_rows(network, [disjunct]), network.relus
    size = np.maximum(np.abs(disjunct.box.lower), np.abs(disjunct.box.upper))
    total, roundings, largest, errors = size, 8, [], []
    least = UNDERFLOW / gamma(1) * (1.0 + len(size))
    for number, layer in enumerate(layers):
        weight = absolute(layer.weight)
        carried = total + size / 2 if number else total
        entering = size
        size = np.asarray(weight @ size + np.abs(layer.bias)) * (1 + 1e-12) + least
        total = np.asarray(weight @ carried + np.abs(layer.bias)) * (1 + 1e-12) + least
        roundings += layer.inputs + layer.outputs + relus + 12
        largest.append(size)
        errors.append(gamma(roundings) * total.max(initial=0.0) + TINY)
        least += UNDERFLOW / gamma(1) * float(size.sum())
    errors[-1] += float(fold_error(network, [disjunct], entering).max(initial=0.0))
    if not all(bool((sizes < HUGE).all()) for sizes in (*largest, total)):
        errors = [np.inf] * len(layers)
    return read_only(np.concatenate([*largest[:-1], np.zeros(0)])), read_only(errors)
