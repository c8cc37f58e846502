"""Parts: the disjuncts of a property that share a box, what bounds alone prove, and what remains to be asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ginnacer_verify.abstraction.fold import fold_error, fold_rows
from ginnacer_verify.abstraction.lean import Lean, leans_of
from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import Bounds, deviation, linear_bounds
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import UnsupportedProperty
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.properties.property import Property


@dataclass(frozen=True, eq=False)
class Part:
    """Some disjuncts, by number, on a box inside of theirs. `within` are bounds of the hidden layers known before."""

    box: Box
    disjuncts: tuple[int, ...]
    within: Bounds | None = None


def parts(prop: Property) -> list[Part]:
    """One part per box of the property; an empty box holds no input, so nothing on it is unsafe."""
    numbers: dict[Box, list[int]] = {}
    for number, disjunct in enumerate(prop.disjuncts):
        if not (np.isfinite(disjunct.box.lower).all() and np.isfinite(disjunct.box.upper).all()):
            raise UnsupportedProperty("an input has no finite bounds; give every input a lower and an upper end")
        if not disjunct.box.is_empty:
            numbers.setdefault(disjunct.box, []).append(number)
    return [Part(box, tuple(members)) for box, members in numbers.items()]


@dataclass(frozen=True, eq=False)
class Bounded:
    """A part with its bounds: `layers` are folded, and row `ends[k] : ends[k + 1]` belong to its k-th disjunct."""

    part: Part
    layers: tuple[Layer, ...]
    bounds: Bounds
    row_error: Array
    ends: tuple[int, ...]
    proved: tuple[int, ...]
    deadline: Deadline = FOREVER

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls, network: Network, prop: Property, part: Part, deadline: Deadline = FOREVER) -> "Bounded":
        """Bounds of the hidden layers and of all disjuncts' rows, in one pass."""
        disjuncts = [prop.disjuncts[number] for number in part.disjuncts]
        layers = fold_rows(network, disjuncts)
        bounds = linear_bounds(layers, part.box, within=part.within, deadline=deadline)
        entering = part.box if len(layers) == 1 else Box(np.zeros(layers[-1].inputs), np.maximum(bounds.upper[-2], 0))
        error = fold_error(network, disjuncts, np.maximum(np.abs(entering.lower), np.abs(entering.upper)))
        ends = np.cumsum([0] + [len(disjunct.outputs) for disjunct in disjuncts])
        strict = np.concatenate([disjunct.outputs.strict for disjunct in disjuncts])
        lower = bounds.lower[-1] - error
        safe = (lower > 0) | (strict & (lower >= 0))  # a NaN is neither
        if not network.arithmetic.is_real:  # solvers are asked in real arithmetic
            error = error + deviation(layers, part.box, bounds)
        proved = [number for k, number in enumerate(part.disjuncts) if safe[ends[k] : ends[k + 1]].any()]
        return cls(part, layers, bounds, error, tuple(int(end) for end in ends), tuple(proved), deadline)

    @property
    def open_disjuncts(self) -> list[int]:
        """Those that bounds do not prove, the nearest to a proof first."""
        proved = set(self.proved)
        remaining = [number for number in self.part.disjuncts if number not in proved]
        return sorted(remaining, key=lambda number: -self.best_bound(number))

    def best_bound(self, number: int) -> float:
        """The largest lower bound of the disjunct's rows: above 0 it is out of reach."""
        return float(self.bounds.lower[-1][self._rows(number)].max(initial=-np.inf))

    @property
    def query_bytes(self) -> int:
        """What the affine expressions of a relational abstraction take: they are dense."""
        width = len(self.part.box.varying) + self.bounds.unstable
        return 16 * width * sum(layer.outputs for layer in self.layers)

    @cached_property
    def leans(self) -> tuple[Lean, ...]:
        """The neurons that are nearly copies of others on the box."""
        return leans_of(self.layers, self.part.box, self.bounds, self.deadline)

    def relational(self, prop: Property, number: int, leans: Sequence[Lean] = ()) -> Relational:
        """The relational abstraction for one disjunct."""
        rows, last = self._rows(number), self.layers[-1]
        layers = (*self.layers[:-1], Layer(last.weight[rows], last.bias[rows]))
        inputs = prop.disjuncts[number].inputs
        return Relational.of(
            layers, self.part.box, self._with_rows(rows), inputs=inputs, row_error=self.row_error[rows], leans=leans
        )

    def sub_parts(self, boxes: Sequence[Box], numbers: Sequence[int]) -> Iterator[Part]:
        """Parts for boxes inside of this one; what is known about the hidden layers is passed on."""
        chosen = [row for number in numbers for row in range(*self._rows(number).indices(len(self.row_error)))]
        within = self._with_rows(chosen)
        yield from (Part(box, tuple(numbers), within) for box in boxes)

    @cached_property
    def _places(self) -> dict[int, int]:
        """Of each disjunct among those of the part."""
        return {number: k for k, number in enumerate(self.part.disjuncts)}

    def _rows(self, number: int) -> slice:
        k = self._places[number]
        return slice(self.ends[k], self.ends[k + 1])

    def _with_rows(self, rows: slice | list[int]) -> Bounds:
        *lower, last_lower = self.bounds.lower
        *upper, last_upper = self.bounds.upper
        return Bounds((*lower, last_lower[rows]), (*upper, last_upper[rows]))
