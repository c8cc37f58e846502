"""Affine bounds in a solver's element type: weights and biases rounded in the direction that keeps a bound a bound."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ginnacer_verify.abstraction.icf import Anchor
from ginnacer_verify.arrays import Array
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.rounding import gamma

Direction = Literal[1, -1]
UP: Direction = 1
DOWN: Direction = -1


def rounded(values: Array, direction: Direction | Array, dtype: np.dtype[Any]) -> Array:
    """The nearest numbers of the type that are not below (direction 1) or not above (-1) the values, as float64."""
    with np.errstate(over="ignore"):
        nearest = values.astype(dtype)
    missed = direction * (nearest.astype(np.float64) - values) < 0
    outwards = np.nextafter(nearest, np.broadcast_to(direction * np.inf, nearest.shape).astype(dtype))
    result = np.where(missed, outwards, nearest).astype(np.float64)
    if not np.isfinite(result).all():
        raise AbstractionError(f"a weight of the abstraction is too large for {dtype}; emit it in float64")
    return result


def representable(values: Array, dtype: np.dtype[Any]) -> bool:
    with np.errstate(over="ignore"):
        return bool((values.astype(dtype).astype(np.float64) == values).all())


@dataclass(frozen=True, eq=False)
class Rows:
    """`weight @ x + bias`, in numbers that the element type has."""

    weight: Array
    bias: Array

    def on(self, bounded: bool, direction: Direction) -> "Rows":
        """The same bound over the tensor of upper, then lower bounds of x instead of x itself."""
        if not bounded:
            return self
        positive, negative = np.maximum(self.weight, 0.0), np.minimum(self.weight, 0.0)
        both = [positive, negative] if direction == UP else [negative, positive]
        return Rows(np.hstack(both), self.bias)


def bound_rows(
    weight: Array, bias: Array, error: Array, anchor: Anchor | None, direction: Direction, dtype: np.dtype[Any]
) -> Rows:
    """Rows that are not below (UP) or not above (DOWN) `weight @ x + bias`, itself off by up to `error`, for every x on
    the anchor's side.

    With w' >= w where x >= a and w' <= w where x <= a: w x + b <= w' x + b + (w - w') a. Without an anchor, which is
    with inputs of any sign, no rounded weight is a bound, so the type must have the weights themselves."""
    if anchor is None:
        if not representable(weight, dtype):
            raise AbstractionError(
                f"layer 1 takes inputs of any sign and has weights that {dtype} has not; use a pre-layer, or float64"
            )
        off = error + np.where(error == 0, 0.0, gamma(8) * (np.abs(bias) + error))
        return Rows(weight, rounded(bias + direction * off, direction, dtype))
    new = rounded(weight, direction * anchor.side, dtype)
    change = (weight - new) @ anchor.point
    size = (
        np.abs(weight - new) @ np.abs(anchor.point) + np.where((change == 0) & (error == 0), 0.0, np.abs(bias)) + error
    )
    off = error + gamma(len(anchor.point) + 8) * size
    return Rows(new, rounded(bias + change + direction * off, direction, dtype))
