"""Images: what the original was, the counterexample, and ten times their difference, side by side."""

from typing import TYPE_CHECKING

import numpy as np

from ginnacer_verify.box import Box
from ginnacer_verify.replay.judge import Counterexample
from ginnacer_verify.robust.images import image, original

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMES = 10
"""By how much differences are enlarged."""


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
