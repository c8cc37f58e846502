"""Images: what the original was, the counterexample, and ten times their difference, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ginnacer_verify.box import Box
from ginnacer_verify.errors import InputError, plainly
from ginnacer_verify.replay.judge import Counterexample
from ginnacer_verify.robust.images import grey, image, original, png, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMES = 10
"""By how much differences are enlarged."""


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a drawing; the suffix says in which format."""
    try:
        figure.savefig(path, dpi=150)
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {plainly(problem)}") from problem
    except ValueError as problem:  # a suffix that matplotlib does not know
        raise InputError(f"{path}: unknown kind of picture; end its name in .png, .svg or .pdf") from problem


def tiles(box: Box, found: Counterexample) -> bytes:
    """The three images as a PNG file, without titles and without matplotlib."""
    before, after = (image(values, found.shape) for values in (original(box), found.x))
    low, high = float(min(before.min(), after.min())), float(max(before.max(), after.max()))
    pictures = (grey(before, low, high), grey(after, low, high), signed(TIMES * (after - before), high - low))
    scale = max(1, 192 // before.shape[0])
    enlarged = [one.repeat(scale, axis=0).repeat(scale, axis=1) for one in pictures]
    gap = np.full((enlarged[0].shape[0], 24, 3), 255, np.uint8)
    return png(np.hstack([enlarged[0], gap, enlarged[1], gap, enlarged[2]]))


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
