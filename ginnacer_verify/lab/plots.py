"""How all figures look: panels, axes, legends, and how they are saved. Importing this imports matplotlib."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ginnacer_verify.lab.methods import STYLES, Style

FLOOR = 1e-13
"""Margins below are drawn here: they are rounding errors, or exactly 0."""
STRATEGIES = {
    "first-fit": Style("GINNACER, first fit (paper)", "#0072B2", "o"),
    "random": Style("GINNACER, random order", "#7F9FBF", "x"),
    "cosine": Style("GINNACER, cosine", "#33658A", "P"),
    "best-fit": Style("GINNACER, best fit", "#00334E", "v"),
    "budget": Style("GINNACER, budget", "#2A9DD6", "^"),
    "budget-clip": Style("GINNACER, budget and clip", "#56B4E9", "D"),
    "singletons": Style("GINNACER, singletons", "#4C78A8", "s"),
    "bound": Style("lower bound for any valid partition", "#000000", "_"),
}
"""Partition strategies: all of them in blues, because blue is GINNACER; markers tell them apart."""


def panels(count: int, *, width: float = 4.4, height: float = 3.2, columns: int = 3) -> tuple[Figure, list[Any]]:
    """A figure with so many axes, row by row; those left over are taken out."""
    across = min(count, columns)
    down = -(-count // across)
    figure = Figure(figsize=(width * across, height * down + 0.5), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(down, across)).ravel())
    for axis in axes[count:]:
        axis.remove()
    for axis in axes[:count]:
        axis.grid(True, which="major", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes[:count]


def line(axis: Any, style: Style, x: Sequence[float], y: Sequence[float], **more: Any) -> None:
    """A marked line in the method's style."""
    look = {"linestyle": style.line, "linewidth": 1.4, "marker": style.marker, "markersize": 4} | more
    axis.plot(x, y, color=style.colour, label=style.label, **look)


def floored(values: Sequence[float]) -> list[float]:
    return [max(value, FLOOR) for value in values]


def boxes(axis: Any, style: Style, data: Sequence[Sequence[float]], places: Sequence[float], width: float) -> None:
    """Box plots as in the paper: quartiles, and whiskers to the last point within 1.5 times their distance."""
    drawn = axis.boxplot(
        data, positions=places, widths=width, patch_artist=True, flierprops={"markersize": 2}, manage_ticks=False
    )
    for name, parts in drawn.items():
        for part in parts:
            if name == "boxes":
                part.set(facecolor=style.colour, edgecolor=style.colour, alpha=0.75)
            elif name == "medians":
                part.set(color="black", linewidth=1)
            elif name == "fliers":
                part.set(markeredgecolor=style.colour)
            else:
                part.set(color=style.colour)


def legend(figure: Figure, axes: Sequence[Any], **more: Any) -> None:
    """One legend for all panels, below them."""
    found: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    if found:
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=3, frameon=False, **more)


def patch_legend(figure: Figure, names: Sequence[str]) -> None:
    """A legend of colours, for box plots and bars."""
    handles = [Patch(color=STYLES[name].colour, label=STYLES[name].label) for name in names]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)


def save(figure: Figure, folder: Path, stem: str) -> bytes:
    """`stem`.png and `stem`.pdf; the PNG is returned for the page."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=160, metadata={"Software": None})
    (folder / f"{stem}.png").write_bytes(image.getvalue())
    figure.savefig(folder / f"{stem}.pdf", metadata={"CreationDate": None})
    return image.getvalue()
