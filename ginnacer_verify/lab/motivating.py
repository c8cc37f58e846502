"""The paper's motivating example: global abstractions of a network with one input, and local ones near x = 2.

Paper: Figure "Comparison between global and local abstraction methods"."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.methods import GLOBAL, LOCAL, STYLES, global_method, local_method
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.lab.subjects import subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RADIUS = 0.5
"""The paper's epsilon, which it does not state."""
NEAR = 1.0
"""How far from the centroid the zoomed panel goes."""


def cells(setting: Setting) -> list[Cell]:
    return [Cell.of("motivating", method=method) for method in ("original", *GLOBAL, *LOCAL)]


def measure(setting: Setting, method: str) -> list[Row]:
    """The bounds on a grid, and at the centroid itself."""
    pade = subject("pade", setting)
    wide = np.union1d(np.linspace(-10, 10, 401), pade.centroid)
    near = np.union1d(np.linspace(2 - NEAR, 2 + NEAR, 401), pade.centroid)
    rows: list[Row] = []
    for view, grid in (("wide", wide), ("near", near)):
        if method == "original":
            relus = pade.network.relus_per_layer
            lower = upper = pade.network(grid[:, None])
        elif method in GLOBAL:
            rival = global_method(method, pade, seed=setting.seed)
            relus, (lower, upper) = rival.relus_per_layer, rival(grid[:, None])
        elif view == "near":
            rival = local_method(method, pade, RADIUS)
            grid = grid[np.abs(grid - 2) <= RADIUS]
            relus, (lower, upper) = rival.relus_per_layer, rival(grid[:, None])
        else:
            continue
        count = ", ".join(map(str, relus))
        rows += [
            {"method": method, "view": view, "x": float(x), "lower": float(a), "upper": float(b), "relus": count}
            for x, a, b in zip(grid, lower[:, 0], upper[:, 0], strict=True)
        ]
    return rows


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    from ginnacer_verify.lab.plots import legend, panels

    figure, (wide, near) = panels(2, width=6.0, height=4.2)
    for (view, method), some in groups(rows, "view", "method").items():
        axis, style = (wide if view == "wide" else near), STYLES[method]
        if view == "near" and method in {"prabhakar", "elboher", "elboher-max-first"}:
            continue
        x, lower, upper = ([row[name] for row in some] for name in ("x", "lower", "upper"))
        if method == "original":
            axis.plot(x, lower, color=style.colour, linewidth=1.4, label=style.label, zorder=5)
            continue
        axis.fill_between(x, lower, upper, color=style.colour, alpha=0.18, linewidth=0)
        axis.plot(x, lower, color=style.colour, linestyle=style.line, linewidth=1.2, label=style.label)
        axis.plot(x, upper, color=style.colour, linestyle=style.line, linewidth=1.2)
    wide.set(title="Global abstractions, zoomed out", xlabel="input x")
    wide.set_ylabel("output y and its bounds (logarithmic beyond ±10)")
    near.set(title="Around the centroid x = 2, zoomed in", xlabel="input x", ylabel="output y and its bounds")
    wide.set_yscale("symlog", linthresh=10)
    values = [row["lower"] for row in rows if row["method"] == "original" and row["view"] == "near"]
    if values:
        room = 1.0 * (max(values) - min(values)) + 0.2
        near.set_ylim(min(values) - room, max(values) + room)
    near.axvline(2.0, color="#999999", linewidth=0.8, linestyle=":")
    legend(figure, (wide, near))
    return {"motivating": figure}


def tables(rows: Sequence[Row]) -> list[Table]:
    found = []
    for (method,), some in groups(rows, "method").items():
        near = [row for row in some if row["view"] == "near"]
        at = [row["upper"] - row["lower"] for row in near if row["x"] == 2.0]
        wide = [row["upper"] - row["lower"] for row in some if row["view"] == "wide"]
        inside = [row["upper"] - row["lower"] for row in near if abs(row["x"] - 2) <= RADIUS]
        cells = (f"{max(at):.2g}", f"{max(inside):.3g}", f"{max(wide):.3g}" if wide else "not defined")
        found.append((STYLES[method].label, str(some[0]["relus"]), *cells))
    header = ("method", "ReLUs per layer", "margin at x = 2", f"largest within {RADIUS}", "largest on [-10, 10]")
    return [Table("Largest margins", header, tuple(found))]


EXPERIMENT = Experiment(
    "motivating",
    "Motivating example",
    'Figure "Comparison between global and local abstraction methods"',
    "A network with one input and two layers of 64 ReLUs follows a rational function. Global abstractions (left, "
    "logarithmic beyond 10) bound it everywhere, local ones (right) only within 0.5 of x = 2. All global methods have "
    "the same number of ReLUs per layer; FastLin and CROWN are linear and have none.",
    cells,
    figures,
    tables,
)
