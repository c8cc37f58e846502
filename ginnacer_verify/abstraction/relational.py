"""The relational abstraction: the paper's subsets on a box, as one variable per unstable neuron.

The abstraction of the paper bounds a layer by `t <= x' <= t + relu(rhat_D)` as an interval, which forgets that both
ends move together. Here x' is a variable between its triangle and `t + relu(rhat_D)` for each kept subset D, and
rhat_D is anchored at the box: its coefficients are the largest (or smallest) of the members' where x moves up (or
down) from the anchor. Then:

    R1  every run of the network on the box satisfies the constraints;
    R2  the query has as many ReLUs as kept subsets;
    R3  with every singleton kept the query is the network;
    R4  if the subsets kept are valid at the trace of an input and cover all neurons, then the only solution at that
        input is the true trace;
    R5  keeping one more subset only removes solutions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ginnacer_verify.abstraction.base import base_of
from ginnacer_verify.abstraction.fold import Expressions
from ginnacer_verify.abstraction.icf import ICF, Anchor, canonical_form
from ginnacer_verify.abstraction.lean import Lean, widened
from ginnacer_verify.abstraction.partition import Partition, upper_bound
from ginnacer_verify.arrays import Array, dense, read_only
from ginnacer_verify.bounds.chain import Bounds, interval
from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.properties.property import Polytope
from ginnacer_verify.query.query import Base, Query, Shared, singleton
from ginnacer_verify.rounding import gamma


@dataclass(frozen=True, eq=False)
class Relational:
    """A folded network on a box, ready to be asked about with any subsets kept."""

    layers: tuple[Layer, ...]
    box: Box
    bounds: Bounds
    expressions: Expressions
    base: Base

    @classmethod
    def of(
        cls,
        layers: Sequence[Layer],
        box: Box,
        bounds: Bounds,
        *,
        inputs: Polytope,
        row_error: Array,
        leans: Sequence[Lean] = (),
    ) -> "Relational":
        """The outputs of `layers` are the property's rows, off by `row_error`: unsafe where all are at most 0.

        Neurons that lean on others have no variable of their own, and the query has their remainders as further
        inputs."""
        expressions = Expressions.of(layers, box, bounds, leans)
        base = base_of(expressions, widened(box, leans), bounds, inputs=inputs, row_error=row_error)
        return cls(tuple(layers), box, bounds, expressions, base)

    def query(self, kept: Iterable[Shared] = ()) -> Query:
        return Query(self.base, tuple(kept))

    def witness(self, z: Array) -> Array:
        """The input that a solution stands for."""
        return self.base.input_of(z)

    def trace(self, x: Array) -> list[Array]:
        """What enters each layer when the network runs on `x`."""
        values = [read_only(x)]
        for layer in self.layers[:-1]:
            values.append(np.maximum(layer(values[-1]), 0.0))
        return values

    def singleton(self, member: int) -> Shared:
        """The subset that makes one unstable ReLU exact."""
        return singleton(self.base, member)

    def shared(self, members: Sequence[int], trace: Sequence[Array]) -> Shared:
        """The subset of `members`, all of one layer, in the form that they have at the trace of a centroid.

        Paper: Layer-Wise Upper Bound. Departs from it: anchored at the corner of the layer's input box next to the
        centroid instead of 0. Test: test_relational.py::test_layer_wise_upper_bound."""
        if len(members) == 1:
            return self.singleton(members[0])
        number = int(self.base.relus.layer[members[0]])
        icf, anchor = self.icf(members, trace)
        bound = upper_bound(icf, Partition((tuple(range(len(members))),)))
        weight, entering = dense(bound.weight)[0] * anchor.side, self.expressions.entering[number]
        size = np.abs(weight) @ (entering.size + np.abs(anchor.point)) + np.abs(bound.bias[0])
        error = gamma(2 * len(weight) + 8) * size + np.abs(weight) @ entering.error + icf.slack.max()
        bias = float(bound.bias[0] - weight @ anchor.point + error)
        lower, upper = interval(Layer(weight[None, :], np.array([bias])), *self._inputs_of(number))
        return Shared(
            tuple(int(i) for i in members),
            icf.active,
            read_only(weight @ entering.matrix),
            bias + float(weight @ entering.offset),
            float(lower[0]),
            float(upper[0]),
            read_only(trace[0]),
        )

    def icf(self, members: Sequence[int], trace: Sequence[Array]) -> tuple[ICF, Anchor]:
        """The members' rows, all of one layer, in ICF at a trace, and the corner that they are measured from."""
        relus = self.base.relus
        number, neurons = int(relus.layer[members[0]]), [relus.neurons[i][0] for i in members]
        layer, x = self.layers[number], trace[number]
        chosen = Layer(layer.weight[neurons], layer.bias[neurons])
        anchor = Anchor.nearest(Box(*self._inputs_of(number)), x)
        return canonical_form(chosen, x, chosen(x), anchor), anchor

    def _inputs_of(self, number: int) -> tuple[Array, Array]:
        """The interval of each value that enters a layer."""
        if number == 0:
            return self.box.lower, self.box.upper
        return np.maximum(self.bounds.lower[number - 1], 0.0), np.maximum(self.bounds.upper[number - 1], 0.0)
