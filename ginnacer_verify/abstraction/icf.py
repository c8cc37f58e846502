"""The Inactive Canonical Form of a layer at the centroid: every ReLU rewritten so that it is off there."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import diags_array

from ginnacer_verify.arrays import Array, Weight, compact, read_only
from ginnacer_verify.bounds.chain import absolute
from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.rounding import gamma

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Anchor:
    """A point of the layer's input space and the side of it on which each input always lies.

    `side * (x - point) >= 0` for every input x of the layer. The paper's anchor is 0 with all sides +1: the inputs
    are outputs of ReLUs."""

    point: Array
    side: Array

    @classmethod
    def zero(cls, inputs: int) -> "Anchor":
        return cls(read_only(np.zeros(inputs)), read_only(np.ones(inputs)))

    @classmethod
    def corner(cls, box: Box) -> "Anchor":
        """The lower corner of a box: the shift `x - lower >= 0`."""
        return cls(box.lower, read_only(np.ones(box.inputs)))

    @classmethod
    def nearest(cls, box: Box, centroid: Array) -> "Anchor":
        """The corner of a box next to the centroid, from which the most subsets are valid."""
        at_upper = box.upper - centroid < centroid - box.lower
        return cls(read_only(np.where(at_upper, box.upper, box.lower)), read_only(np.where(at_upper, -1.0, 1.0)))


@dataclass(frozen=True, eq=False)
class ICF:
    """`relu(W x + b) = relu(r) + t`, where `r = bias + rows @ |x - anchor|` is not positive at the centroid and
    `t = A (W x + b)`.

    Paper: Inactive Canonical Form; rows = S W, bias = S b, distance = x_c, active = the diagonal of A.
    Departs from it: seen from an anchor, which is 0 in the paper, so `rows` has the signs of the anchor's sides and
    `bias` is the value there.

    `potential` is r at the centroid. `slack[i]` bounds every rounding error of a shared potential to which neuron i
    contributes its largest magnitude; see `is_valid`."""

    rows: Weight
    bias: Array
    distance: Array
    active: Mask
    potential: Array
    slack: Array

    @property
    def neurons(self) -> int:
        return len(self.bias)


def activation(y: Array) -> tuple[Mask, Array]:
    """The diagonals of A and S for pre-activations y of the centroid.

    Paper: Centroid Activation Matrices. Departs from it: nowhere.
    Test: test_icf.py::test_centroid_activation_matrices."""
    active = y >= 0
    return active, np.where(active, -1.0, 1.0)


def canonical_form(layer: Layer, centroid: Array, y: Array, anchor: Anchor) -> ICF:
    """The ICF of a layer whose inputs are at `centroid` and whose pre-activations there are `y`.

    Paper: Inactive Canonical Form. Test: test_icf.py::test_inactive_canonical_form.

    `y` is what the evaluation computed, which differs from W x_c + b by rounding: the slack covers that too. Why 16:
    for a subset D whose potential is near 0 the sum of its absolute summands is at most 4 max_i size_i, because where
    V_D < 0 every member is at least as large; computing u_D costs 1 more, y another 1, and a strategy may sum in
    another order than `is_valid`, which doubles it."""
    active, sign = activation(y)
    distance = np.abs(centroid - anchor.point)
    away = np.asarray(layer.weight @ anchor.point)
    size = np.asarray(absolute(layer.weight) @ (distance + 2 * np.abs(anchor.point))) + np.abs(layer.bias)
    slack = 16 * gamma(layer.inputs + 8) * size + np.abs(layer(centroid) - y)
    active.setflags(write=False)
    return ICF(
        scaled(layer.weight, sign, anchor.side),
        read_only(sign * (away + layer.bias)),
        read_only(distance),
        active,
        read_only(sign * y),
        read_only(slack),
    )


def scaled(weight: Weight, rows: Array, columns: Array) -> Weight:
    """The matrix with every row and every column multiplied by a number."""
    if isinstance(weight, np.ndarray):
        return compact(rows[:, None] * weight * columns)
    return compact(diags_array(rows) @ weight @ diags_array(columns))
