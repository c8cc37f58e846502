"""The layers before a layer, without the neurons that are inactive on the whole box.

Lower bounds of functions of what enters the layer are wanted, with some ReLUs decided to be active or inactive. Each
bound replaces every ReLU by a line, from the last layer to the box. A *multiplier* per neuron says which:

    undecided   the slope of the lower line, from 0 to 1 (alpha of alpha-CROWN);
    decided     how much of the decision y >= 0 or y <= 0 is added to the function (beta of beta-CROWN).

Any multipliers give a sound bound, so they are looked for in float32 (`ascend`) and used in float64 (`rigorous`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.bounds.chain import Form, Lines, lost, magnitudes, relu_lines, substitute
from ginnacer_verify.box import Box
from ginnacer_verify.engines.phases.ascent import (
    ACTIVE,
    FIRST,
    FLOOR,
    INACTIVE,
    RATE,
    SECOND,
    SHORTER,
    STABLE,
    UNDECIDED,
    Climbed,
    Phases,
    Single,
)
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.native import Climb, Layers, Record, call

Integers = NDArray[np.int64]
AT_ONCE = 512
"""Functions that are bounded together in float64."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """`layers[j]` keeps the neurons `kept[j]` of the network; `ends[j] : ends[j + 1]` are theirs among all of them.

    `phase` is that of each neuron on the box. The float32 copies are what `ascent` works with: `sizes` of inputs and
    layers, their matrices one after the other, from `starts` on in `down` and transposed in `up`."""

    box: Box
    kept: tuple[NDArray[np.intp], ...]
    layers: tuple[Layer, ...]
    found: tuple[tuple[Array, Array], ...]
    ends: Integers
    phase: Phases
    lines: tuple[Lines, ...]
    scale: tuple[Array, ...]
    lost: float
    sizes: Integers
    starts: Integers
    down: Single
    up: Single
    bias: Single
    middle: Single
    radius: Single
    slope: Single
    intercept: Single
    steep: Single

    @classmethod
    @np.errstate(over="ignore")
    def of(cls, layers: Sequence[Layer], box: Box, found: Sequence[tuple[Array, Array]]) -> "Reduced":
        """`found` bounds the pre-activations of each of `layers`."""
        kept = tuple(np.flatnonzero(upper > 0) for _, upper in found)
        columns = (np.arange(box.inputs), *kept)
        reduced = tuple(layer.part(kept[j], columns[j]) for j, layer in enumerate(layers))
        matrices = [dense(layer.weight) for layer in reduced]
        ends = tuple((lower[chosen], upper[chosen]) for (lower, upper), chosen in zip(found, kept, strict=True))
        lines = tuple(relu_lines(*pair) for pair in ends)
        scale = tuple(magnitudes(reduced, box, ends))
        stable = _flat([lower >= 0 for lower, _ in ends]) > 0
        return cls(
            box,
            kept,
            reduced,
            ends,
            np.cumsum([0] + [len(chosen) for chosen in kept]),
            np.where(stable, STABLE, UNDECIDED).astype(np.int8),
            lines,
            scale,
            lost(reduced, box, ends, scale),
            np.array([len(chosen) for chosen in columns]),
            np.cumsum([0] + [matrix.size for matrix in matrices])[:-1],
            _flat([matrix.reshape(-1) for matrix in matrices]),
            _flat([matrix.T.reshape(-1) for matrix in matrices]),
            _flat([layer.bias for layer in reduced]),
            box.middle.astype(np.float32),
            (box.upper.astype(np.float32) - box.lower.astype(np.float32)) / np.float32(2),
            _flat([line.upper_slope for line in lines]),
            _flat([line.intercept for line in lines]),
            _flat([line.lower_slope for line in lines]),
        )

    @property
    def neurons(self) -> int:
        return int(self.ends[-1])

    @property
    def inputs(self) -> int:
        return self.box.inputs

    at_once = 256

    def rows_of(self, layer: Layer) -> Array:
        """The weights of the layer behind, over the neurons that are kept."""
        return dense(layer.weight)[:, self.kept[-1]] if self.kept else dense(layer.weight)

    def position(self, number: int, neuron: int) -> int:
        """Where a neuron of the network stands among all that are kept; -1 if it is inactive."""
        at = np.flatnonzero(self.kept[number] == neuron)
        return int(self.ends[number] + at[0]) if len(at) else -1

    def place(self, position: int) -> tuple[int, int]:
        """Layer and neuron of a position."""
        number = int(np.searchsorted(self.ends, position, side="right")) - 1
        return number, int(self.kept[number][position - self.ends[number]])

    def ascend(self, weight: Single, bias: Single, phase: Phases, start: Single, steps: int) -> Climbed:
        """Bounds of `weight @ x + bias`, row by row, with their multipliers improved `steps` times."""
        rows, inputs = len(bias), self.inputs
        layers = self._record()
        space = np.empty(call("climb_room", inputs, self.neurons, layers.values["widest"]), np.float32)
        bound, gain, neuron = np.empty(rows, np.float32), np.empty(rows, np.float32), np.empty(rows, np.int64)
        best, corner, flat = np.empty_like(start), np.empty((rows, inputs), np.int8), np.empty(rows, np.int8)
        task = Climb(
            rows=rows,
            wanted=weight.shape[1],
            steps=steps,
            rate=RATE,
            shorter=SHORTER,
            least_rate=FLOOR,
            keep=FIRST,
            hold=SECOND,
            weight=np.ascontiguousarray(weight),
            constant=bias,
            start=start,
            phase=phase,
            bound=bound,
            best=best,
            gain=gain,
            neuron=neuron,
            corner=corner,
            flat=flat,
        )
        call("climb", layers, task, space)
        return Climbed(bound, best, neuron, gain, corner.view(np.bool_), flat.view(np.bool_), neuron[:, None])

    def bounds(self, weight: Single, bias: Single, phase: Phases, multipliers: Single) -> Single:
        """Guesses of the bounds of rows with just these multipliers."""
        return self.ascend(weight, bias, phase, multipliers, 0).bound

    def _record(self) -> Record:
        return Layers(
            layers=len(self.layers),
            neurons=self.neurons,
            widest=int(self.sizes.max()),
            sizes=self.sizes,
            ends=self.ends,
            starts=self.starts,
            down=self.down,
            up=self.up,
            bias=self.bias,
            slope=self.slope,
            intercept=self.intercept,
            middle=self.middle,
            radius=self.radius,
        )

    @np.errstate(over="ignore", invalid="ignore")
    def rigorous(self, weight: Array, bias: Array, phase: Phases, multipliers: Single) -> Array:
        """Lower bounds of `weight @ x + bias`, row by row, on the part of the box where the decisions hold."""
        if len(bias) > AT_ONCE:
            parts = [slice(first, first + AT_ONCE) for first in range(0, len(bias), AT_ONCE)]
            return np.concatenate([self.rigorous(weight[p], bias[p], phase[p], multipliers[p]) for p in parts])
        lines = [self._lines(number, phase, multipliers) for number in range(len(self.layers))]
        form = Form(weight, bias, np.full(len(bias), self.lost))
        return substitute(form, self.layers, lines, self.box, self.found, self.scale)

    def _lines(self, number: int, phase: Phases, multipliers: Single) -> Lines:
        columns = slice(self.ends[number], self.ends[number + 1])
        phases, values, given = phase[:, columns], multipliers[:, columns].astype(np.float64), self.lines[number]
        undecided, on = phases == UNDECIDED, (phases >= ACTIVE).astype(np.float64)
        return Lines(
            np.where(undecided, np.clip(values, 0.0, 1.0), on),
            np.where(undecided, given.upper_slope, on),
            np.where(undecided, given.intercept, 0.0),
            np.where(phases == ACTIVE, -1.0, phases == INACTIVE) * np.maximum(values, 0.0),
        )


def _flat(parts: Sequence[NDArray[Any]]) -> Single:
    return np.concatenate([np.zeros(0), *parts]).astype(np.float32)
