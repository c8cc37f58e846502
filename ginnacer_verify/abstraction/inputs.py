"""How inputs of any sign enter layer 1, whose shared weights need to know on which side of an anchor they lie."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import hstack

from ginnacer_verify.abstraction.deviation import Deviation
from ginnacer_verify.abstraction.icf import Anchor
from ginnacer_verify.arrays import Array, Weight
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Layer

Mode = Literal["as-is", "nonnegative", "pre-layer", "centred", "shift", "nearest"]
"""
    as-is        layer 1 is not abstracted and takes inputs of any sign
    nonnegative  the domain is x >= 0, as in the hidden layers
    pre-layer    the paper's Negative Input Pre-Layers: relu(x) and relu(-x)
    centred      the same around the centroid: relu(x - c) and relu(c - x); every subset of layer 1 is then valid
    shift        the domain is a box, seen from its lower corner
    nearest      the domain is a box, and each layer is seen from the corner of its inputs' bounds next to the centroid
"""


@dataclass(frozen=True, eq=False)
class Entry:
    """The inputs as layer 1 sees them."""

    mode: Mode
    centroid: Array
    domain: Box

    @classmethod
    def of(cls, mode: Mode, centroid: Array, box: Box | None) -> "Entry":
        inputs = len(centroid)
        match mode:
            case "as-is" | "pre-layer" | "centred":
                return cls(mode, centroid, Box(np.full(inputs, -np.inf), np.full(inputs, np.inf)))
            case "nonnegative":
                entry = cls(mode, centroid, Box(np.zeros(inputs), np.full(inputs, np.inf)))
            case "shift" | "nearest":
                if box is None or box.inputs != inputs or box.is_empty:
                    raise AbstractionError(f"inputs={mode!r} needs a box with {inputs} inputs that is not empty")
                entry = cls(mode, centroid, box)
            case _:
                raise AbstractionError(f"there is no input mode {mode!r}; see ginnacer_verify.abstraction.inputs")
        entry.check(centroid[None])
        return entry

    def check(self, x: Array) -> None:
        """Refuse a batch with an input outside of the domain."""
        if not ((self.domain.lower <= x) & (x <= self.domain.upper)).all():
            what = (
                "an input is negative or not a number"
                if self.mode == "nonnegative"
                else "an input is not in the domain"
            )
            raise AbstractionError(
                f"{what}; use inputs='pre-layer' or inputs='centred', or do not abstract layer 1 (layers from 2 on)"
            )

    @property
    def relus(self) -> int:
        """The ReLUs of the pre-layer."""
        return 2 * len(self.centroid) if self.mode in {"pre-layer", "centred"} else 0

    def layer(self, first: Layer, y: Array) -> Layer:
        """Layer 1 on what enters it; y is what it gives at the centroid.

        Paper: Negative Input Pre-Layers; W_pre = [W, -W]. Departs from it: the centred mode, whose bias is y."""
        if not self.relus:
            return first
        return Layer(_beside(first.weight), y if self.mode == "centred" else first.bias)

    def values(self, x: Array) -> Array:
        """What enters layer 1 for a batch with one input per column."""
        if not self.relus:
            return x
        both = np.empty((2 * len(x), x.shape[1]))
        origin = self.centroid[:, None] if self.mode == "centred" else np.zeros((len(x), 1))
        np.subtract(x, origin, out=both[: len(x)])
        np.negative(both[: len(x)], out=both[len(x) :])
        return np.maximum(both, 0.0, out=both)

    def deviations(self, x: Array, moved: Array, shared: bool) -> tuple[Deviation, Deviation]:
        """The deviations of what enters layer 1, and of the inputs themselves; the former only matter to subsets that
        are `shared`."""
        plain = Deviation(x - self.centroid[:, None], None, moved)
        if not self.relus or not shared:
            return plain, plain
        entered = self.values(x)
        entered -= self.values(self.centroid[:, None])
        return Deviation(entered, None, moved), plain

    def anchor(self) -> Anchor:
        """Where layer 1 is seen from."""
        match self.mode:
            case "shift":
                return Anchor.corner(self.domain)
            case "nearest":
                return Anchor.nearest(self.domain, self.centroid)
            case _:
                return Anchor.zero(self.relus or len(self.centroid))


def _beside(weight: Weight) -> Weight:
    return np.hstack([weight, -weight]) if isinstance(weight, np.ndarray) else hstack([weight, -weight], format="csr")
