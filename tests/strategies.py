"""Hypothesis strategies: networks with the shapes and numbers that break abstractions, and points around them."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.network import Layer, Network

SCALES = (1.0, 1e-3, 1e3)
EXTREMES = (1.0, 1e-160, 1e-30, 1e30, 1e120)
KINDS = ("dense", "sparse", "zero rows", "duplicates", "constant", "small integers")


@st.composite
def layers(draw: st.DrawFn, inputs: int, outputs: int, scales: Sequence[float] = SCALES) -> Layer:
    """A layer of one of the `KINDS`; weights of type float32, as in files."""
    kind, scale = draw(st.sampled_from(KINDS)), draw(st.sampled_from(scales))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weight, bias = random.normal(size=(outputs, inputs)), random.normal(size=outputs)
    match kind:
        case "sparse":
            weight *= random.random(weight.shape) < 0.3
        case "zero rows":
            weight[random.random(outputs) < 0.5] = 0.0
            bias[random.random(outputs) < 0.5] = 0.0
        case "duplicates":
            chosen = random.integers(outputs, size=outputs)
            weight, bias = weight[chosen], bias[chosen]
        case "constant":
            weight[:] = 0.0
        case "small integers":  # many exact ties, and potentials of exactly 0
            weight, bias = np.round(weight), np.round(bias)
    weight = (weight * scale).astype(np.float32 if 1e-30 <= scale <= 1e30 else np.float64).astype(np.float64)
    return Layer(csr_array(weight) if kind == "sparse" else weight, bias)


@st.composite
def networks(draw: st.DrawFn, scales: Sequence[float] = SCALES, most: int = 8) -> Network:
    """Two to four layers with up to `most` values each."""
    widths = draw(st.lists(st.integers(1, most), min_size=3, max_size=5))
    return Network(tuple(draw(layers(a, b, scales)) for a, b in pairwise(widths)))


@st.composite
def points(draw: st.DrawFn, size: int) -> Array:
    """A point near 0, far away, or with few distinct values."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    match draw(st.sampled_from(["normal", "far", "integers", "zeros"])):
        case "normal":
            return random.normal(size=size)
        case "far":
            return random.normal(size=size) * 1e3
        case "integers":
            return np.round(random.normal(size=size))
        case _:
            return np.zeros(size)


def batch_around(point: Array, seed: int, count: int = 12) -> Array:
    """Points at many distances of `point`, some of them along a single input, and the point itself."""
    random = np.random.default_rng(seed)
    steps = random.normal(size=(count, len(point))) * 10.0 ** random.integers(-12, 3, size=(count, 1))
    steps[::3] *= np.eye(len(point))[random.integers(len(point), size=len(steps[::3]))]
    return np.vstack([point, point + steps])


def exact(network: Network, x: Array) -> list[Fraction]:
    """The network's output in rational arithmetic."""
    values = [Fraction(float(value)) for value in x]
    for number, layer in enumerate(network.layers):
        weight = layer.weight if isinstance(layer.weight, np.ndarray) else layer.weight.toarray()
        values = [
            sum((Fraction(float(w)) * v for w, v in zip(row, values, strict=True) if w), Fraction(float(b)))
            for row, b in zip(weight, layer.bias, strict=True)
        ]
        if number < len(network.layers) - 1:
            values = [max(value, Fraction(0)) for value in values]
    return values
