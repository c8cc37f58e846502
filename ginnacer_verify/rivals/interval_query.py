"""An Interval Network on a box as a query for a solver: Prabhakar and Afzal's encoding, one variable per neuron.

A pre-activation may take any value of its interval, L v + b_low <= y <= U v + b_high, at the values v >= 0 before it.
With one more variable per neuron, y = L v + b_low + d with 0 <= d <= (U - L) v + b_high - b_low: a network whose inputs
are x and all d, which are passed on through the layers unchanged, and one linear constraint per d.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ginnacer_verify.abstraction.fold import MARGIN
from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.bounds.chain import linear_bounds
from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.properties.property import Polytope
from ginnacer_verify.rivals.prabhakar import IntervalLayer, IntervalNetwork


def interval_relational(network: IntervalNetwork, box: Box, inputs: Polytope, row_error: Array) -> Relational:
    """The relational form of the Interval Network, with no ReLU relaxed or kept yet."""
    pre = bool((box.lower < 0).any())
    steps = [_with_pre_layer(network.layers[0]) if pre else network.layers[0], *network.layers[1:]]
    room = _room(steps, box, pre)
    ends = np.cumsum([box.inputs, *(len(each) for each in room)])
    wide = Box(np.concatenate([box.lower, np.zeros(ends[-1] - box.inputs)]), np.concatenate([box.upper, *room]))
    layers = _layers(steps, box.inputs, pre)
    bounds = linear_bounds(layers, wide)
    constraints = Polytope.of(np.hstack([inputs.matrix, np.zeros((len(inputs), ends[-1] - box.inputs))]), inputs.offset)
    relational = Relational.of(layers, wide, bounds, inputs=constraints, row_error=row_error)
    rows = [_limits(relational, step, number + pre, int(ends[number])) for number, step in enumerate(steps)]
    matrix = np.vstack([relational.base.inputs.matrix, *(each for each, _ in rows)])
    offset = np.concatenate([relational.base.inputs.offset, *(each for _, each in rows)])
    base = replace(relational.base, inputs=Polytope.of(matrix, offset), own=len(inputs))
    return replace(relational, base=base)


def _with_pre_layer(first: IntervalLayer) -> IntervalLayer:
    """Layer 1 over relu(x) and relu(-x)."""
    return replace(
        first,
        lower=read_only(np.hstack([first.lower, -first.upper])),
        upper=read_only(np.hstack([first.upper, -first.lower])),
    )


def _room(steps: Sequence[IntervalLayer], box: Box, pre: bool) -> list[Array]:
    """The largest value that each d can take on the box, layer by layer, rounded up."""
    low, high = np.maximum(box.lower, 0.0), np.maximum(box.upper, 0.0)
    if pre:
        low, high = (
            np.concatenate([low, np.maximum(-box.upper, 0.0)]),
            np.concatenate([high, np.maximum(-box.lower, 0.0)]),
        )
    found = []
    for step in steps:
        found.append(((step.upper - step.lower) @ high + step.bias_upper - step.bias_lower) * (1 + 1e-9))
        lower, upper = step(low[None], high[None])
        low, high = np.maximum(lower[0], 0.0), np.maximum(upper[0], 0.0)
    return found


def _layers(steps: Sequence[IntervalLayer], inputs: int, pre: bool) -> tuple[Layer, ...]:
    """Lower weights on the values, 1 on each layer's own d; the d of later layers are passed on."""
    waiting = [len(step.bias_lower) for step in steps]
    layers = []
    if pre:
        signs = np.vstack([np.eye(inputs), -np.eye(inputs)])
        layers.append(_passing(signs, np.zeros(2 * inputs), 0, sum(waiting)))
    for number, step in enumerate(steps):
        layers.append(_passing(step.lower, step.bias_lower, waiting[number], sum(waiting[number + 1 :])))
    return tuple(layers)


def _passing(weight: Array, bias: Array, own: int, later: int) -> Layer:
    above = np.hstack([weight, np.eye(len(bias), own), np.zeros((len(bias), later))])
    below = np.hstack([np.zeros((later, weight.shape[1] + own)), np.eye(later)])
    return Layer(np.vstack([above, below]), np.concatenate([bias, np.zeros(later)]))


def _limits(relational: Relational, step: IntervalLayer, number: int, first: int) -> tuple[Array, Array]:
    """d - (U - L) v <= b_high - b_low as rows over z; `first` is the first d of this layer among the inputs."""
    d, v = relational.expressions.entering[0], relational.expressions.entering[number]
    own = slice(first, first + len(step.bias_lower))
    values = slice(0, step.lower.shape[1])
    width, room = step.upper - step.lower, step.bias_upper - step.bias_lower
    size = d.size[own] + width @ v.size[values] + np.abs(room)
    error = width @ v.error[values] + MARGIN * (1 + size)
    return d.matrix[own] - width @ v.matrix[values], room - d.offset[own] + width @ v.offset[values] + error
