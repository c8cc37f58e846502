"""Several networks as one graph: inputs that they share are one input, and their outputs follow each other.

Products of inputs and outputs, of which properties may speak, are further outputs.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ginnacer_verify.graph.elementary import Square
from ginnacer_verify.graph.graph import Affine, Apply, Builder, Graph, Input, Original, Tensor
from ginnacer_verify.graph.linear import LinearMap, Select
from ginnacer_verify.graph.product import Product


def joined(originals: Sequence[Original], inputs: int, monomials: Sequence[tuple[int, ...]] = ()) -> Graph:
    """The graph of all networks side by side on `inputs` inputs; monomials name inputs `i` and outputs `~j`."""
    builder = Builder()
    whole = builder.input(inputs)
    ends = [_copied(builder, whole, inputs, original) for original in originals]
    parts = _outputs(builder, whole, ends, monomials)
    total = sum(builder.size(number) for number in parts)
    placed: list[tuple[int, LinearMap]] = []
    start = 0
    for number in parts:
        size = builder.size(number)
        index = np.full(total, -1)
        index[start : start + size] = np.arange(size)
        placed.append((number, Select(index, size)))
        start += size
    output = builder.affine(*placed, bias=0.0)
    kind = str(originals[0].network.dtype)
    graph = builder.graph(output, [Tensor("X", (inputs,), kind)], [Tensor("Y", (total,), kind)])
    precisions = {original.network.precision for original in originals}
    coarsest = next((one for one in ("", "float16", "float32", "float64") if one in precisions), "")
    return replace(graph, originals=tuple(originals), precision=coarsest)


def _copied(builder: Builder, whole: int, inputs: int, original: Original) -> int:
    """The nodes of a network, on the inputs that it is given; the number of its output."""
    place: dict[int, int] = {}
    for number, node in enumerate(original.network.nodes):
        sources = [place[source] for source in node.sources]
        match node:
            case Input():
                chosen = original.inputs[node.start : node.start + node.size]
                place[number] = builder.affine((whole, Select(chosen, inputs)))
            case Affine():
                place[number] = builder.affine(*zip(sources, node.maps, strict=True), bias=node.bias)
            case Apply():
                place[number] = builder.apply(node.function, *sources)
    return place[len(original.network.nodes) - 1]


def _outputs(builder: Builder, whole: int, ends: Sequence[int], monomials: Sequence[tuple[int, ...]]) -> list[int]:
    """The nodes that make up the output: those of the networks, then one of a single value for each monomial."""
    outputs = [(number, i) for number in ends for i in range(builder.size(number))]
    made: dict[tuple[int, ...], int] = {}

    def value(monomial: tuple[int, ...]) -> int:
        if monomial not in made:
            if len(monomial) == 1:
                number, i = (whole, monomial[0]) if monomial[0] >= 0 else outputs[~monomial[0]]
                made[monomial] = builder.affine((number, Select([i], builder.size(number))), bias=0.0)
            elif len(monomial) == 2 and monomial[0] == monomial[1]:
                made[monomial] = builder.apply(Square(), value(monomial[:1]))
            else:
                half = len(monomial) // 2
                made[monomial] = builder.apply(Product(), value(monomial[:half]), value(monomial[half:]))
        return made[monomial]

    return [*ends, *(value(monomial) for monomial in monomials)]
