"""Replay: the one judge of witnesses, on the original network in its own precision and with no tolerance.

A witness is a counterexample when the input, as the network's element type holds it, lies inside the real box and
onnxruntime's output for it lies in the unsafe set. Both comparisons are exact.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.box import Box
from ginnacer_verify.emit.onnx import network_model
from ginnacer_verify.errors import PropertyError, WitnessError
from ginnacer_verify.graph.chain import as_chain, graph_of
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.network import Array, Network, read_only
from ginnacer_verify.properties.property import Disjunct, Property
from ginnacer_verify.runtime import Runtime


@dataclass(frozen=True, eq=False)
class Counterexample:
    """A confirmed witness: `x` is in disjunct number `disjunct`, and the network answers the unsafe `y`."""

    x: Array
    y: Array
    disjunct: int
    slacks: Array


@dataclass(frozen=True, eq=False)
class Spurious:
    """A refuted witness. `disjunct` is the one it comes nearest to; a negative slack is the distance of that row."""

    x: Array
    y: Array
    disjunct: int
    slacks: Array
    reason: str


Judgement: TypeAlias = Counterexample | Spurious


def settle(x: ArrayLike, box: Box, dtype: np.dtype[Any]) -> Array:
    """The point of `box` next to `x` that `dtype` can hold.

    Where the interval holds no such number (an input pinned to 0.1, say) the value stays a float64 of the box: the
    network then sees its rounding, as it does in the competition's scorer."""
    clipped = box.clip(x)
    rounded = clipped.astype(dtype)
    rounded = np.where(rounded.astype(np.float64) < box.lower, np.nextafter(rounded, dtype.type(np.inf)), rounded)
    rounded = np.where(rounded.astype(np.float64) > box.upper, np.nextafter(rounded, dtype.type(-np.inf)), rounded)
    exact = rounded.astype(np.float64)
    return read_only(np.where((exact >= box.lower) & (exact <= box.upper), exact, clipped))


class Judge:
    """Replays witnesses of one property on one network; the session is made once and used for all of them."""

    def __init__(self, network: Network | Graph, prop: Property) -> None:
        check_fit(network, prop)
        self.prop, self.graph, self.dtype = prop, graph_of(network), network.dtype
        self._given = network
        self._runtime = Runtime(self.graph.model or network_model(self.network))

    @cached_property
    def network(self) -> Network:
        """The network as a chain of affine layers and ReLUs, for those who need one."""
        return as_chain(self._given)

    def __call__(self, x: ArrayLike) -> Judgement:
        """Judge a witness as it stands."""
        point = read_only(x)
        if point.shape != (self.prop.inputs,):
            raise WitnessError(f"the witness has {point.size} inputs, the property has {self.prop.inputs}")
        if not np.isfinite(point).all():
            raise WitnessError("the witness has an input that is not a finite number")
        y = self._runtime(point)
        found = [self._against(number, point, y) for number in range(len(self.prop.disjuncts))]
        if not found:
            return Spurious(point, y, -1, np.zeros(0), "the property has no disjunct: nothing is unsafe")
        confirmed = (judgement for judgement in found if isinstance(judgement, Counterexample))
        return next(confirmed, max(found, key=lambda judgement: min(judgement.slacks, default=0.0)))

    def _against(self, number: int, point: Array, y: Array) -> Judgement:
        disjunct = self.prop.disjuncts[number]
        held = self._as_held(point, disjunct)
        slacks = read_only(
            [float(slack) for slack in disjunct.outputs.slacks(y)] if np.isfinite(y).all() else [-np.inf]
        )
        if reason := self._refutation(disjunct, held, y):
            return Spurious(held, y, number, slacks, reason)
        return Counterexample(held, y, number, slacks)

    def _as_held(self, point: Array, disjunct: Disjunct) -> Array:
        """The witness as the network sees it, except where the box has no number of the network's element type."""
        held = point.astype(self.dtype).astype(np.float64)
        settled = settle(held, disjunct.witnesses, self.dtype)
        no_number = settled.astype(self.dtype).astype(np.float64) != settled
        return read_only(np.where(no_number, point, held))

    @staticmethod
    def _refutation(disjunct: Disjunct, x: Array, y: Array) -> str:
        """Why the pair is no counterexample in this disjunct; empty if it is one."""
        if not np.isfinite(y).all():
            return "an output is not a finite number"
        box = disjunct.witnesses
        outside = np.flatnonzero((x < box.lower) | (x > box.upper))
        if len(outside):
            i = outside[0]
            return f"input {i} is {x[i]}, outside of [{box.lower[i]}, {box.upper[i]}]"
        if x not in disjunct.inputs:
            return "the input breaks a linear input constraint of the property"
        if y not in disjunct.outputs:
            return "the output is safe"
        return ""


def check_fit(network: Network | Graph, prop: Property) -> None:
    """Refuse a property about another number of inputs or outputs, or another element type, than the network has."""
    if (network.inputs, network.outputs) != (prop.inputs, prop.outputs):
        raise PropertyError(
            f"the property speaks about {prop.inputs} inputs and {prop.outputs} outputs, "
            f"but the network has {network.inputs} and {network.outputs}"
        )
    if prop.x.dtype.lower() not in {"real", network.dtype.name}:
        raise PropertyError(f"the property declares {prop.x.dtype} inputs, but the network takes {network.dtype.name}")
