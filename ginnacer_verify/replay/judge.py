"""Replay: the one judge of witnesses, on the original network in its own precision and with no tolerance.

A witness is a counterexample when the input, as the network's element type holds it, lies inside the real box and
onnxruntime's output for it lies in the unsafe set. Both comparisons are exact. A pinned input is the one exception: it
stays the property's number, and the network sees its rounding. So a box that is wider than a point, but too narrow for
any number of the element type, has no counterexample.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.errors import NetworkError, PropertyError, WitnessError
from ginnacer_verify.graph.chain import as_chain, graph_of
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.onnx import network_model
from ginnacer_verify.loading.oracle import runtime_of
from ginnacer_verify.properties.property import Disjunct, Property
from ginnacer_verify.shown import Shown


@dataclass(frozen=True, eq=False, repr=False)
class Counterexample(Shown):
    """A confirmed witness: `x` is in disjunct number `disjunct`, and the network answers the unsafe `y`.

    `x` and `y` are flat float64; `input` and `output` are what the network was given and gave, in its own shapes and
    type. numpy takes a counterexample for its `input`."""

    x: Array
    y: Array
    disjunct: int
    slacks: Array
    shape: tuple[int, ...] = (-1,)
    output_shape: tuple[int, ...] = (-1,)
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))

    @property
    def input(self) -> NDArray[Any]:
        return self.x.astype(self.dtype).reshape(self.shape)

    @property
    def output(self) -> NDArray[Any]:
        return self.y.astype(self.dtype).reshape(self.output_shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.input if dtype is None else self.input.astype(dtype)

    def facts(self) -> dict[str, object]:
        return {
            "input": f"{list(self.input.shape)} {self.dtype}",
            "disjunct": self.disjunct,
            "output": [float(f"{value:.4g}") for value in self.y[:10]],
        }


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
    with np.errstate(over="ignore"):
        rounded = clipped.astype(dtype)
    rounded = np.where(rounded.astype(np.float64) < box.lower, np.nextafter(rounded, dtype.type(np.inf)), rounded)
    rounded = np.where(rounded.astype(np.float64) > box.upper, np.nextafter(rounded, dtype.type(-np.inf)), rounded)
    exact = rounded.astype(np.float64)
    return read_only(np.where((exact >= box.lower) & (exact <= box.upper), exact, clipped))


def lacks_numbers(disjunct: Disjunct, dtype: np.dtype[Any]) -> bool:
    """Whether an input that is not pinned has an interval without any number of the element type."""
    box = disjunct.witnesses
    with np.errstate(over="ignore"):
        first = box.lower.astype(dtype)
    first = np.where(first.astype(np.float64) < box.lower, np.nextafter(first, dtype.type(np.inf)), first)
    held = np.isfinite(first) & (first.astype(np.float64) <= box.upper)
    return bool((~held & (disjunct.box.lower != disjunct.box.upper)).any())


class Judge:
    """Replays witnesses of one property on one network; the session is made once and used for all of them."""

    def __init__(self, network: Network | Graph, prop: Property) -> None:
        if not network.originals:
            check_fit(network, prop)
        self.prop, self.graph, self.dtype = prop, graph_of(network), network.dtype
        self._given = network
        self._runtimes = [
            (list(original.inputs), runtime_of(original.network.model or network_model(as_chain(original.network))))
            for original in self.graph.originals
        ] or [(list(range(network.inputs)), runtime_of(self.graph.model or network_model(self.network)))]
        self._lacking: dict[tuple[Box, Box], bool] = {}

    @cached_property
    def network(self) -> Network:
        """The network as a chain of affine layers and ReLUs, for those who need one."""
        return as_chain(self._given)

    @property
    def no_number(self) -> str:
        """Why nothing is a counterexample in a disjunct that lacks numbers."""
        return f"the box holds no {self.dtype.name}"

    def lacks_numbers(self, disjunct: Disjunct) -> bool:
        """Whether the disjunct's box holds no number of the network's element type; an empty one lacks nothing."""
        boxes = disjunct.box, disjunct.witnesses
        if boxes not in self._lacking:
            self._lacking[boxes] = not boxes[0].is_empty and lacks_numbers(disjunct, self.dtype)
        return self._lacking[boxes]

    def why_undecided(self, reason: str) -> str:
        """The reason for no verdict, with that disjuncts lack numbers if some do, and with nothing else if all do."""
        lacking = [self.lacks_numbers(disjunct) for disjunct in self.prop.disjuncts if not disjunct.box.is_empty]
        if not any(lacking) or self.no_number in reason:
            return reason
        return self.no_number if all(lacking) else f"{reason}; {self.no_number}"

    def __call__(self, x: ArrayLike) -> Judgement:
        """Judge a witness as it stands."""
        point = read_only(x)
        if point.shape != (self.prop.inputs,):
            raise WitnessError(f"the witness has {point.size} inputs, the property has {self.prop.inputs}")
        if not np.isfinite(point).all():
            raise WitnessError("the witness has an input that is not a finite number")
        y = self._outputs(point)
        found = [self._against(number, point, y) for number in range(len(self.prop.disjuncts))]
        if not found:
            return Spurious(point, y, -1, np.zeros(0), "the property has no disjunct: nothing is unsafe")
        confirmed = (judgement for judgement in found if isinstance(judgement, Counterexample))
        return next(confirmed, max(found, key=lambda judgement: min(judgement.slacks, default=0.0)))

    def _outputs(self, point: Array) -> Array:
        """The outputs as onnxruntime computes them; not numbers where it cannot."""
        try:
            return np.concatenate([runtime(point[inputs]) for inputs, runtime in self._runtimes])
        except NetworkError:
            return np.full(self.prop.outputs, np.nan)

    def _against(self, number: int, point: Array, y: Array) -> Judgement:
        disjunct = self.prop.disjuncts[number]
        held = self._as_held(point, disjunct)
        slacks = read_only(
            [float(slack) for slack in disjunct.outputs.slacks(self.prop.exact(held, y))]
            if np.isfinite(y).all()
            else [-np.inf]
        )
        if reason := self._refutation(disjunct, held, y):
            return Spurious(held, y, number, slacks, reason)
        shapes = self.graph.input_shape, (-1,) if self.graph.originals else self.graph.output_shape
        return Counterexample(held, y, number, slacks, *shapes, self.dtype)

    def _as_held(self, point: Array, disjunct: Disjunct) -> Array:
        """The witness as the network sees it, except where it is pinned to a number that is none of its type."""
        with np.errstate(over="ignore"):
            number = disjunct.witnesses.lower
            held, pin = (x.astype(self.dtype).astype(np.float64) for x in (point, number))
        pinned = (disjunct.box.lower == disjunct.box.upper) & (pin != number)
        return read_only(np.where(pinned, point, held))

    def _refutation(self, disjunct: Disjunct, x: Array, y: Array) -> str:
        """Why the pair is no counterexample in this disjunct; empty if it is one."""
        if self.lacks_numbers(disjunct):
            return self.no_number
        if not np.isfinite(y).all():
            return "an output is not a finite number"
        box = disjunct.witnesses
        outside = np.flatnonzero((x < box.lower) | (x > box.upper))
        if len(outside):
            i = outside[0]
            return f"input {i} is {x[i]}, outside of [{box.lower[i]}, {box.upper[i]}]"
        if x not in disjunct.inputs:
            return "the input breaks a linear input constraint of the property"
        if disjunct.ball is not None and x not in disjunct.ball:
            return "the input is outside of the property's ball"
        if self.prop.exact(x, y) not in disjunct.outputs:
            return "the output is safe"
        return ""


def check_fit(network: Network | Graph, prop: Property) -> None:
    """Refuse a property about other inputs or outputs than the network has: their numbers, shapes and element type.

    A flat vector fits every shape, and so do dimensions of size one, which do not change the order of the values."""
    if prop.networks or prop.monomials:
        raise PropertyError("only `verify` and `replay` take properties with several networks or with products")
    if (network.inputs, network.outputs) != (prop.inputs, prop.outputs):
        raise PropertyError(
            f"the property has {prop.inputs} inputs and {prop.outputs} outputs, "
            f"but the network has {network.inputs} and {network.outputs}"
        )
    for variable, shape, what, verb in (
        (prop.x, network.input_shape, "inputs", "takes"),
        (prop.y, network.output_shape, "outputs", "gives"),
    ):
        if variable.dtype.lower() not in {"real", network.dtype.name}:
            raise PropertyError(
                f"the property declares {variable.dtype} {what}, but the network {verb} {network.dtype.name}"
            )
        declared, own = (tuple(size for size in sizes if size != 1) for sizes in (variable.shape, shape))
        if declared != own and len(declared) > 1 and len(own) > 1:
            raise PropertyError(
                f"the property declares {what} of shape {list(variable.shape)}, but the network {verb} {list(shape)}"
            )
