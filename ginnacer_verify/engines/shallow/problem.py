"""One disjunct of a network with one hidden layer, and batches of regions of its box.

An input is unsafe where every row of `rows @ relu(weight @ x + bias) + constant` is at most `error`. A region is a
box of inputs and an interval for each neuron; whatever is unsafe in the region has its values inside of both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.abstraction.fold import fold_error, fold_rows
from ginnacer_verify.arrays import Array, dense, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct
from ginnacer_verify.rounding import TINY, gamma


@dataclass(frozen=True, eq=False)
class Shallow:
    """The rows of one disjunct, scaled to about the same size by powers of two, which rounds nothing."""

    weight: Array
    bias: Array
    rows: Array
    constant: Array
    error: Array
    box: Box

    @classmethod
    def of(cls, network: Network, disjunct: Disjunct) -> "Shallow":
        first, last = fold_rows(network, [disjunct])
        weight, rows = dense(first.weight), dense(last.weight)
        largest = np.maximum(np.abs(disjunct.box.lower), np.abs(disjunct.box.upper))
        size = (np.abs(weight) @ largest + np.abs(first.bias)) * (1 + gamma(first.inputs + 4)) + TINY
        error = fold_error(network, [disjunct], size)
        scale = 2.0 ** -np.round(np.log2(np.maximum(np.abs(rows).sum(axis=1), 1e-30)))
        return cls(
            read_only(weight),
            read_only(first.bias),
            read_only(rows * scale[:, None]),
            read_only(last.bias * scale),
            read_only(error * scale),
            disjunct.box,
        )

    @property
    def root(self) -> "Regions":
        """The whole box, one region; the intervals of its neurons are still to be propagated."""
        hidden, count = self.rows.shape[1], len(self.constant)
        return Regions(
            self.box.lower[None],
            self.box.upper[None],
            np.full((1, hidden), -np.inf),
            np.full((1, hidden), np.inf),
            np.full((1, hidden), 0.5),
            np.zeros((1, hidden)),
            np.full((1, count), 1 / max(1, count)),
        )


@dataclass(frozen=True, eq=False)
class Regions:
    """A batch of regions: their boxes, the intervals of their neurons, and the multipliers to start from.

    `slope` is that of the line below a ReLU, `force` the multiplier of an end of a neuron's interval, `share` the
    weight of each row; all of them are guesses that any bound may be computed with."""

    lower: Array
    upper: Array
    low: Array
    high: Array
    slope: Array
    force: Array
    share: Array

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def phase(self) -> Array:
        """1 for neurons that are active in the whole region, -1 for inactive ones, 0 for the others."""
        return np.where(self.low >= 0, 1.0, np.where(self.high <= 0, -1.0, 0.0))

    def __getitem__(self, chosen: "slice | NDArray[np.bool_] | NDArray[np.intp]") -> "Regions":
        return Regions(*(getattr(self, one.name)[chosen] for one in fields(self)))

    def each(self) -> Iterator["Regions"]:
        """One region at a time."""
        return (self[i : i + 1] for i in range(len(self)))

    @staticmethod
    def joined(parts: "Sequence[Regions]") -> "Regions":
        return Regions(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Regions)))
