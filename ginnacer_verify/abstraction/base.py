"""From the affine expressions of a network's values on a box to the base of a query."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.abstraction.fold import MARGIN, Affine, Expressions
from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.bounds.chain import Bounds
from ginnacer_verify.box import Box
from ginnacer_verify.properties.property import Polytope
from ginnacer_verify.query.query import Base, Relus


def base_of(expressions: Expressions, box: Box, bounds: Bounds, *, inputs: Polytope, row_error: Array) -> Base:
    """The base with every unstable ReLU. The last values are the property's rows, off by `row_error`: unsafe where all
    are at most 0. Of further inputs than the network's, as remainders are, `box` holds the ends as well."""
    return Base(
        Box(box.lower[expressions.varying], box.upper[expressions.varying]),
        box.lower,
        expressions.varying,
        _relus(expressions, bounds),
        _unsafe(expressions.leaving[-1], row_error),
        _over_z(inputs, box, expressions),
    )


def without_idle(base: Base) -> Base:
    """The base without the ReLUs that no row depends on, directly or through others."""
    relus, free = base.relus, base.free
    used = np.asarray(np.vstack([base.unsafe.matrix, base.inputs.matrix])[:, free:].any(axis=0))
    for i in range(len(relus) - 1, -1, -1):
        if used[i]:
            used |= relus.weight[i, free:] != 0
    chosen: NDArray[np.intp] = np.flatnonzero(used)
    columns = np.concatenate([np.arange(free), free + chosen])
    return replace(
        base,
        relus=Relus(
            relus.weight[np.ix_(chosen, columns)],
            relus.bias[chosen],
            relus.lower[chosen],
            relus.upper[chosen],
            relus.slack[chosen],
            relus.layer[chosen],
            tuple(relus.neurons[i] for i in chosen),
        ),
        unsafe=Polytope.of(base.unsafe.matrix[:, columns], base.unsafe.offset),
        inputs=Polytope.of(base.inputs.matrix[:, columns], base.inputs.offset),
    )


def _relus(expressions: Expressions, bounds: Bounds) -> Relus:
    places = list(zip(expressions.layer, expressions.neuron, strict=True))
    width = expressions.entering[0].matrix.shape[1]

    def gather(values: Sequence[Array]) -> Array:
        return read_only([values[layer][neuron] for layer, neuron in places])

    lower, upper = gather(bounds.lower), gather(bounds.upper)
    error = gather([y.error for y in expressions.leaving])
    weight = read_only([expressions.leaving[layer].matrix[neuron] for layer, neuron in places] or np.zeros((0, width)))
    return Relus(
        weight,
        gather([y.offset for y in expressions.leaving]),
        lower,
        upper,
        read_only(error + MARGIN * (1 + np.maximum(-lower, upper))),
        expressions.layer,
        tuple((int(neuron),) for neuron in expressions.neuron),
    )


def _unsafe(rows: Affine, row_error: Array) -> Polytope:
    slack = row_error + rows.error + MARGIN * (1 + rows.size)
    return Polytope.of(rows.matrix, -rows.offset + slack)


def _over_z(inputs: Polytope, box: Box, expressions: Expressions) -> Polytope:
    """Linear constraints on the inputs as constraints on z."""
    entering = expressions.entering[0]
    own = slice(inputs.matrix.shape[1])
    size = np.abs(inputs.matrix) @ np.maximum(np.abs(box.lower), np.abs(box.upper))[own] + np.abs(inputs.offset)
    offset = inputs.offset - inputs.matrix @ entering.offset + MARGIN * (1 + size)
    return Polytope.of(inputs.matrix @ entering.matrix, offset)
