"""Networks as a runtime executes them: every product and sum rounded to float32, sums in a random order, with or
without fused operations. A fused step goes through float64, which moves it by no more than a rounding."""

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input

Single = NDArray[np.float32]


def total(products: list[tuple[np.float32, np.float32]], random: np.random.Generator) -> np.float32:
    """The sum of the products in a random order: one after the other, fused or not, or as a random tree."""
    order = [products[i] for i in random.permutation(len(products))]
    way = random.integers(3)
    if way < 2:
        sum_ = np.float32(0)
        for a, b in order:
            sum_ = np.float32(np.float64(a) * np.float64(b) + np.float64(sum_) if way else sum_ + a * b)
        return sum_
    terms = [a * b for a, b in order] or [np.float32(0)]
    while len(terms) > 1:
        at = int(random.integers(len(terms) - 1))
        terms[at : at + 2] = [terms[at] + terms[at + 1]]
    return np.float32(terms[0])


def executed(graph: Graph, x: Array, random: np.random.Generator) -> list[Single]:
    """The value of every node at a float32 input."""
    values: list[Single] = []
    for node in graph.nodes:
        match node:
            case Input():
                values.append(x[node.start : node.start + node.size].astype(np.float32))
            case Affine():
                values.append(_affine(node, [values[source] for source in node.sources], random))
            case Apply():
                y = node.function.apply(*(values[source].astype(np.float64)[None] for source in node.sources))
                values.append(y[0].astype(np.float32))
    return values


def _affine(node: Affine, x: list[Single], random: np.random.Generator) -> Single:
    matrices = [one.matrix().tocsr() for one in node.maps]
    found = []
    for i in range(node.size):
        products = [(np.float32(1), np.float32(node.bias[i]))] if node.bias[i] else []
        for matrix, values in zip(matrices, x, strict=True):
            entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
            pairs = zip(matrix.data[entries], matrix.indices[entries], strict=True)
            products += [(np.float32(weight), values[column]) for weight, column in pairs]
        found.append(total(products, random))
    return np.array(found, dtype=np.float32)
