"""Images: what the original was, the counterexample, and ten times their difference, side by side."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.errors import InputError
from ginnacer_verify.replay.judge import Counterexample

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMES = 10
"""By how much differences are enlarged."""


def original(box: Box) -> Array:
    """The point that a box was made around: its middle, but for the sides that were clipped to a range of values."""
    radius, width = box.width.max(initial=0.0) / 2, box.width
    clipped = width < 2 * radius * (1 - 1e-6)
    low, high = clipped & (box.lower == box.lower.min()), clipped & (box.upper == box.upper.max())
    return np.where(low, box.upper - radius, np.where(high, box.lower + radius, box.middle))


def image(values: Array, shape: tuple[int, ...]) -> NDArray[Any]:
    """Values as rows and columns, with colours last if there are three of them; InputError if they are no image."""
    sides = [size for size in shape if size != 1] or [values.size]
    if len(sides) == 1 and math.isqrt(values.size) ** 2 == values.size:
        sides = [math.isqrt(values.size)] * 2
    if len(sides) == 2:
        return values.reshape(sides)
    if len(sides) == 3 and 3 in (sides[0], sides[2]):
        colours = values.reshape(sides)
        return colours.transpose(1, 2, 0) if sides[0] == 3 else colours
    raise InputError(f"inputs of shape {list(shape)} are no image; write the counterexample as .npy or text")


def draw_counterexample(box: Box, found: Counterexample) -> "Figure":
    """Three images beside each other."""
    from matplotlib.figure import Figure

    before, after = (image(values, found.shape) for values in (original(box), found.x))
    difference = TIMES * (after - before)
    figure = Figure(figsize=(7.5, 2.9), layout="constrained")
    low, high = min(before.min(), after.min()), max(before.max(), after.max())
    pictures = (("original", before), ("counterexample", after), (f"difference x {TIMES}", difference))
    for axes, (title, picture) in zip(figure.subplots(1, 3), pictures, strict=True):
        if picture.ndim == 3:
            middle = 0.5 if picture is difference else 0.0
            axes.imshow(np.clip((picture - low) / max(high - low, 1e-30) if not middle else picture + middle, 0, 1))
        elif picture is difference:
            axes.imshow(picture, cmap="RdBu_r", vmin=low - high, vmax=high - low)
        else:
            axes.imshow(picture, cmap="gray", vmin=low, vmax=high)
        axes.set_title(title)
        axes.set_axis_off()
    return figure
