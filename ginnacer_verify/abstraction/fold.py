"""Folding: the property's rows into the last layer, and fixed inputs and stable neurons into the affine maps.

What comes out of `fold_rows` has one output per row of the property, unsafe where it is at most 0, so that `y_i - y_j`
is bounded as one value and not as two. What comes out of `Expressions` knows no stable neuron and no fixed input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.abstraction.lean import Lean, leaning
from ginnacer_verify.arrays import Array, dense, read_only
from ginnacer_verify.bounds.chain import Bounds, absolute
from ginnacer_verify.box import Box
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.graph import Affine as AffineNode
from ginnacer_verify.graph.graph import Apply, Graph, Input
from ginnacer_verify.graph.linear import dense_of, matrix_of
from ginnacer_verify.graph.network import Layer, Network, then
from ginnacer_verify.properties.property import Disjunct, Polytope
from ginnacer_verify.rounding import UNDERFLOW, gamma

MARGIN = 1e-8
"""Ten times the tolerance that solvers are asked for: how far every row of a query is moved outwards, relatively to
its magnitude plus one, so that no answer depends on a constraint being met to the last digit."""


def fold_rows(network: Network, disjuncts: Sequence[Disjunct]) -> tuple[Layer, ...]:
    """The network with `matrix @ y - offset` of all disjuncts' unsafe sets, one after the other, as its outputs."""
    matrix = np.vstack([disjunct.outputs.matrix for disjunct in disjuncts])
    offset = np.concatenate([disjunct.outputs.offset for disjunct in disjuncts])
    return then(network.layers, Layer(matrix, -offset))


def fold_error(network: Network, disjuncts: Sequence[Disjunct], largest: Array) -> Array:
    """How far the folded rows can be above the property's own, at inputs of the last layer up to `largest`."""
    rows = [disjunct.outputs for disjunct in disjuncts]
    matrix, offset = np.vstack([row.matrix for row in rows]), np.concatenate([row.offset for row in rows])
    return read_only(rows_error(network.layers[-1], matrix, offset, largest, _slop(rows)))


@np.errstate(over="ignore", invalid="ignore")  # what overflows proves nothing
def rows_error(last: Layer, matrix: Array, offset: Array, largest: Array, slop: Array | None = None) -> Array:
    """`fold_error` for some rows; or, where `offset` and `largest` have one row per disjunct, for each of these.

    Rows that float64 cannot hold are charged `slop` for their coefficients; their offsets are on the safe side."""
    size = np.asarray(absolute(last.weight) @ largest.T).T + np.abs(last.bias)
    lost = UNDERFLOW * last.outputs * (1.0 + largest.sum(axis=-1, keepdims=True))
    error = np.asarray(gamma(2 * last.outputs + 4) * (size @ np.abs(matrix).T + np.abs(offset)) + lost)
    if slop is None:
        return error
    return np.asarray(error + size @ slop.T * (1 + gamma(last.outputs + last.inputs + 8)) + lost)


def rows_below(last: Layer, outputs: Polytope) -> Layer:
    """Rows over what enters the last layer that are nowhere above `matrix @ y - offset` of an unsafe set.

    What enters it are outputs of ReLUs, so weights that are rounded down do it, wherever the network is looked at.
    Test: test_paper.py::test_rows_below."""
    weight, size = dense(last.weight), np.abs(outputs.matrix)
    slop = outputs.slop if outputs.exact else np.zeros_like(size)
    share = gamma(2 * last.outputs + 16)

    def below(product: Array, factors: Array, more: Array | float = 0.0) -> Array:
        magnitude = size @ factors + more
        lost = UNDERFLOW * (last.outputs + 4) * ((size > 0) @ (factors > 0) > 0)
        return np.asarray(product - (share * (magnitude + np.abs(product)) + slop @ factors * (1 + share) + lost))

    return Layer(
        below(outputs.matrix @ weight, np.abs(weight)),
        below(outputs.matrix @ last.bias - outputs.offset, np.abs(last.bias), np.abs(outputs.offset)),
    )


def _slop(rows: Sequence[Polytope]) -> Array | None:
    return np.vstack([row.slop for row in rows]) if any(row.exact for row in rows) else None


@dataclass(frozen=True, eq=False)
class Affine:
    """`matrix @ z + offset`, off by at most `error`; no summand of it is larger than `size` altogether."""

    matrix: Array
    offset: Array
    error: Array
    size: Array

    def then(self, layer: Layer, reach: float) -> "Affine":
        """The layer applied to it, with the rounding of that; the |z| add up to at most `reach`."""
        weight = absolute(layer.weight)
        size = weight @ self.size + np.abs(layer.bias)
        lost = UNDERFLOW * (layer.inputs + 4) * (1.0 + reach)
        return Affine(
            np.asarray(layer.weight @ self.matrix),
            layer.weight @ self.offset + layer.bias,
            np.asarray(weight @ self.error + gamma(layer.inputs + 4) * size + lost),
            np.asarray(size),
        )


@dataclass(frozen=True, eq=False)
class Expressions:
    """Every value of a network on a box as an affine function of z = (varying inputs, unstable ReLU outputs).

    `leaving[l]` are the pre-activations of ReLU layer l, and the outputs last; `entering[0]` are the inputs, the others
    what leaves the ReLU layers; `layer` and `neuron` name the unstable ReLUs in the order of z. Remainders of neurons
    that lean on others are further inputs, in front of the ReLUs."""

    varying: NDArray[np.intp]
    layer: NDArray[np.intp]
    neuron: NDArray[np.intp]
    entering: tuple[Affine, ...]
    leaving: tuple[Affine, ...]

    @classmethod
    def of(cls, layers: Sequence[Layer], box: Box, bounds: Bounds, leans: Sequence[Lean] = ()) -> "Expressions":
        return cls.of_graph(graph_of(Network(tuple(layers))), box, bounds, leans)

    @classmethod
    def of_graph(cls, graph: Graph, box: Box, bounds: Bounds, leans: Sequence[Lean] = ()) -> "Expressions":
        """The same for a graph of affine maps and ReLUs with one input; `bounds` has an entry for each ReLU node."""
        numbers = range(len(graph.applied))
        unstable = [np.setdiff1d(np.flatnonzero(bounds.unstable_in(n)), leaning(n, leans)) for n in numbers]
        remainders = [lean for lean in leans if not lean.negligible]
        varying = np.concatenate([np.asarray(box.varying, dtype=np.intp), box.inputs + np.arange(len(remainders))])
        width = len(varying) + sum(len(neurons) for neurons in unstable)
        entering, leaving, first = [_inputs(box, width)], [], len(varying)
        places = {lean: len(box.varying) + k for k, lean in enumerate(remainders)}
        reach = float(entering[0].size[list(box.varying)].sum()) + sum(lean.largest for lean in remainders)
        reach += sum(float(bounds.upper[number][neurons].sum()) for number, neurons in enumerate(unstable))
        values: list[Affine] = []
        for node in graph.nodes:
            match node:
                case Input():
                    values.append(entering[0])
                case AffineNode():
                    entered = _beside([values[source] for source in node.sources])
                    weight = matrix_of(node.maps[0]) if len(node.maps) == 1 else np.hstack([*map(dense_of, node.maps)])
                    values.append(entered.then(Layer(weight, node.bias), reach))
                case Apply():
                    leaving.append(values[node.sources[0]])
                    number = len(leaving) - 1
                    entered = _relu(leaving[-1], bounds, number, unstable[number], first)
                    here = [lean for lean in leans if lean.layer == number]
                    entering.append(_leaning(entered, leaving[-1], here, places, reach) if here else entered)
                    first += len(unstable[number])
                    values.append(entering[-1])
        leaving.append(values[-1])
        layers = [np.full(len(neurons), number, dtype=np.intp) for number, neurons in enumerate(unstable)]
        nothing = [np.zeros(0, dtype=np.intp)]
        return cls(
            varying,
            np.concatenate(nothing + layers),
            np.concatenate(nothing + unstable),
            tuple(entering),
            tuple(leaving),
        )


def _beside(parts: Sequence[Affine]) -> Affine:
    """Several values as one."""
    if len(parts) == 1:
        return parts[0]
    return Affine(
        np.vstack([part.matrix for part in parts]),
        np.concatenate([part.offset for part in parts]),
        np.concatenate([part.error for part in parts]),
        np.concatenate([part.size for part in parts]),
    )


def _inputs(box: Box, width: int) -> Affine:
    matrix, varying = np.zeros((box.inputs, width)), list(box.varying)
    matrix[varying, np.arange(len(varying))] = 1.0
    offset = box.lower.copy()
    offset[varying] = 0.0
    return Affine(matrix, offset, np.zeros(box.inputs), np.maximum(np.abs(box.lower), np.abs(box.upper)))


def _relu(y: Affine, bounds: Bounds, number: int, unstable: NDArray[np.intp], first: int) -> Affine:
    """What leaves a ReLU layer: active neurons as they are, inactive ones gone, unstable ones the next variables.

    relu(y) exceeds y by at most -lower, and 0 by at most upper: what is negligible of that is an error."""
    lower, upper = bounds.lower[number], bounds.upper[number]
    active = bounds.active(number)
    matrix = np.where(active[:, None], y.matrix, 0.0)
    matrix[unstable, first + np.arange(len(unstable))] = 1.0
    size = np.where(active, y.size, 0.0)
    size[unstable] = upper[unstable]
    error = np.where(active, y.error + np.maximum(-lower, 0.0), np.maximum(upper, 0.0))
    error[unstable] = 0.0
    return Affine(matrix, np.where(active, y.offset, 0.0), error, size)


def _leaning(x: Affine, y: Affine, leans: Sequence[Lean], places: Mapping[Lean, int], reach: float) -> Affine:
    """What leaves a ReLU layer, with neurons that lean on others in the place of ReLUs of their own."""
    matrix, offset, error, size = x.matrix.copy(), x.offset.copy(), x.error.copy(), x.size.copy()
    for lean in leans:
        i, j, scale, share = lean.neuron, lean.pivot, abs(lean.scale), lean.share
        of_pivot = -float(lean.scale < 0) * scale - share * lean.scale  # relu(-y) = relu(y) - y
        matrix[i] = scale * x.matrix[j] + of_pivot * y.matrix[j] + share * y.matrix[i]
        offset[i] = scale * x.offset[j] + of_pivot * y.offset[j] + share * y.offset[i]
        parts = scale * x.size[j] + abs(of_pivot) * y.size[j] + share * y.size[i]
        errors = scale * x.error[j] + abs(of_pivot) * y.error[j] + share * y.error[i]
        size[i] = parts + lean.largest
        error[i] = errors + gamma(16) * (parts + scale * y.size[j]) + 16 * UNDERFLOW * (1.0 + reach)
        if lean.negligible:
            error[i] += lean.largest
        else:
            matrix[i, places[lean]] = 1.0
    return Affine(matrix, offset, error, size)
