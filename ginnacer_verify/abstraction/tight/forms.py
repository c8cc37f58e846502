"""Linear forms through a network whose ReLUs are abstracted, rigorous in floating point.

Everything is measured from the trace of the centroid. With the paper's canonical form a ReLU layer changes by

    dx = A dy + e,   dy = W dx_before,   e = relu(r),   r = p + S dy,   p = S y_c <= 0,

so all that is not linear is the excess e, which is 0 at the centroid. A *form* bounds such a quantity from above by
`weight @ v`, where v >= 0 holds relu(d) and relu(-d) of the input's deviation d, then the kept ReLUs, layer by layer.
The paper's intervals forget that both ends of a value move together; forms do not, because active paths are multiplied
out, and the columns of one shared ReLU are summed before anything is maximised.

Rounding: a product with a matrix is off by gamma(n) |q| |W|, charged at the largest |dx| that `Step.size` and
`Step.reach` allow; sums of products by gamma(terms) of their absolute values. Where products can underflow, every
coefficient gets TINY added.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ginnacer_verify.abstraction.icf import Mask
from ginnacer_verify.arrays import Array, Weight, dense, entries
from ginnacer_verify.bounds.chain import absolute
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.rounding import TINY, UNDERFLOW, UNIT, gamma

ROWS = 256
"""So many rows are substituted back together, which bounds the memory that this takes."""


@dataclass(frozen=True, eq=False)
class Step:
    """A ReLU layer on the way back: `lower @ v <= e <= upper @ v`.

    `size` and `reach` bound what enters it, `|dx_before| <= size * (reach @ v)`; the first layer needs neither."""

    layer: Layer
    active: Mask
    upper: Weight
    lower: Weight
    size: Array
    reach: Array

    def lost(self, kept: Array, underflow: float) -> Array:
        """What rounding `kept @ W` can cost, as coefficients of the first entries of v."""
        error, few = gamma(self.layer.outputs + 8), underflow * self.layer.outputs
        if not len(self.reach):
            products = error * np.asarray(np.abs(kept) @ absolute(self.layer.weight)) + few
            return np.hstack([products, products])
        return np.asarray(np.multiply.outer(error * (np.abs(kept) @ self._scale) + few * self.size.sum(), self.reach))

    @cached_property
    def _scale(self) -> Array:
        return np.asarray(absolute(self.layer.weight) @ self.size) * (1 + gamma(self.layer.inputs + 4))

    @cached_property
    def smallest(self) -> float:
        """The exponent of the smallest coefficient of an excess."""
        return min(_exponent(self.upper), _exponent(self.lower))


@dataclass(frozen=True, eq=False)
class Forms:
    """`-below @ v <= rows dx <= above @ v`, one form of each per row."""

    above: Array
    below: Array

    def sizes(self) -> tuple[Array, Array]:
        """A number for each row and a form for all: |row dx| <= size * (reach @ v)."""
        size, reach = np.ones(len(self.above)), np.zeros(self.above.shape[1])
        for some in chunks(len(size)):
            ends = np.maximum(np.maximum(self.above[some], self.below[some]), 0.0)
            largest = ends.max(axis=1, initial=0.0)
            size[some] = np.where(largest > 0, largest, 1.0)
            reach = np.maximum(reach, (ends / size[some, None]).max(axis=0, initial=0.0))
        return size, reach * (1 + 4 * UNIT)


def chunks(rows: int) -> Iterator[slice]:
    """Some rows at a time, where more would need too much memory."""
    return (slice(first, min(rows, first + ROWS)) for first in range(0, rows, ROWS))


def substitute(rows: Weight, steps: Sequence[Step], inputs: int) -> Forms:
    """The forms of `rows @ dx`, where dx is what leaves the last step, or the input's deviation without any."""
    columns = steps[-1].upper.shape[1] if steps else 2 * inputs
    above, below = np.empty((2, rows.shape[0], columns))
    for some in chunks(rows.shape[0]):
        above[some], below[some] = _substitute(dense(rows[some]), steps, inputs)
    return Forms(above, below)


def _substitute(rows: Array, steps: Sequence[Step], inputs: int) -> tuple[Array, Array]:
    q, columns = rows, steps[-1].upper.shape[1] if steps else 2 * inputs
    above, below, size, slack = np.zeros((4, len(q), columns))
    small = _may_underflow(rows, steps)
    for step in reversed(steps):
        positive, negative = np.maximum(q, 0.0), np.maximum(-q, 0.0)
        here = slice(step.upper.shape[1])
        rise, fall = np.asarray(positive @ step.upper), np.asarray(negative @ step.upper)
        above[:, here] += rise
        below[:, here] += fall
        products = rise + fall
        if entries(step.lower).any():
            above[:, here] -= np.asarray(negative @ step.lower)
            below[:, here] -= np.asarray(positive @ step.lower)
            products += np.asarray(np.abs(q) @ absolute(step.lower))
        size[:, here] += products
        slack[:, here] += gamma(step.layer.outputs + 8) * products
        kept = q * step.active
        lost = step.lost(kept, UNDERFLOW if small else 0.0)
        slack[:, : lost.shape[1]] += lost
        q = np.asarray(kept @ step.layer.weight)
    for form, sign in ((above, 1.0), (below, -1.0)):
        form[:, :inputs] += sign * q
        form[:, inputs : 2 * inputs] -= sign * q
    size[:, : 2 * inputs] += np.abs(np.hstack([q, q]))
    slack += gamma(4 * len(steps) + 8) * size  # the sums above, and of the slack itself
    if small:
        slack += TINY
    slack *= 1 + gamma(64)
    return above + slack, below + slack


def _may_underflow(rows: Array, steps: Sequence[Step]) -> bool:
    """Whether a product of coefficients can be too small for a float: a sum that is not 0 is at least a last digit of
    its smallest term."""
    path = _exponent(rows) + sum(_exponent(step.layer.weight) - 53 for step in steps)
    return path + min((step.smallest for step in steps), default=0.0) < -960


def _exponent(matrix: Weight) -> float:
    values = np.abs(entries(matrix))
    return float(np.log2(values.min(where=values > 0, initial=1.0)))
