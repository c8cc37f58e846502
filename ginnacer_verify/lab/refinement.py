"""The loop itself: rounds, ReLUs and time of every refinement strategy of ours, and of the rivals in the same loop."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ginnacer_verify.engines.refinement import loop as cegar
from ginnacer_verify.engines.refinement.relational import REFINEMENTS
from ginnacer_verify.errors import InputError
from ginnacer_verify.lab.cells import Cell, Row
from ginnacer_verify.lab.experiment import Experiment, Table, groups
from ginnacer_verify.lab.methods import STYLES, Style
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.vnnlib import read_vnnlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIVALS = {"prabhakar": "prabhakar", "elboher": "elboher", "fastlin": "linear"}
"""How the figures call them, and the loop."""
COUNTS = ("rounds", "boxes", "kept")
INSTANCES = {
    "pade": (("pade_64x2", "prop_05"), ("pade_64x2", "prop_14")),
    "digits": (("digits_32x2", "image_188_0.1"), ("digits_48x4", "image_003_0.02")),
    "advisory": (("advisory_15x3", "prop_03"), ("advisory_15x3", "prop_09"), ("advisory_15x3", "prop_11")),
    "acasxu": (("ACASXU_run2a_1_1_batch_2000", "prop_3"),),
    "mnistfc": (("mnist-net_256x2", "prop_0_0.03"),),
}
"""Properties that hold: an attack decides most others before any abstraction is looked at."""
OURS = {
    name: Style(f"GINNACER, {name.replace('_', ' ')}", colour, marker)
    for name, colour, marker in (
        ("split", "#0072B2", "o"),
        ("recentre", "#56B4E9", "D"),
        ("bisect", "#00334E", "v"),
        ("random", "#7F9FBF", "p"),
        ("max_weight_loss", "#33658A", "P"),
    )
}


def cells(setting: Setting) -> list[Cell]:
    return [
        Cell.of("refinement", folder=folder, network=network, prop=prop, method=method)
        for folder in setting.networks
        for network, prop in INSTANCES.get(folder, ())
        for method in (*REFINEMENTS, *RIVALS)
    ]


def measure(setting: Setting, folder: str, network: str, prop: str, method: str) -> list[Row]:
    """No attack at the start and none around witnesses: every answer is the abstraction's."""
    place = Path(setting.benchmarks if folder in {"acasxu", "mnistfc"} else setting.own, folder)
    files = place / f"{network}.onnx", place / f"{prop}.vnnlib"
    if not all(file.exists() for file in files):
        raise InputError(f"{place} lacks {network} or {prop}; set GINNACER_BENCHMARKS or --benchmarks")
    read, asked = load_chain(files[0]), read_vnnlib(files[1])
    timeout, seed = setting.timeout, setting.seed
    abstraction, refine = (RIVALS[method], None) if method in RIVALS else ("relational", method)
    verdict = cegar.verify(read, asked, abstraction=abstraction, refine=refine, timeout=timeout, seed=seed, restarts=0)
    found = verdict.statistics
    return [
        {
            "instance": f"{network.replace('ACASXU_run2a_', 'ACAS Xu ').removesuffix('_batch_2000')} {prop}",
            "method": method,
            "verdict": verdict.word,
            "rounds": found.rounds,
            "boxes": found.boxes,
            "kept": found.kept,
            "relus": found.total,
            "seconds": found.seconds,
            "reason": getattr(verdict, "reason", ""),
        }
    ]


def style_of(method: str) -> Style:
    """The style of a method; one that came later is drawn in grey."""
    return (OURS | STYLES).get(method, Style(f"GINNACER, {method.replace('_', ' ')}", "#666666", "X"))


def figures(rows: Sequence[Row]) -> dict[str, "Figure"]:
    from ginnacer_verify.lab.plots import legend, panels

    figure, axes = panels(3, width=4.6, height=4.6)
    instances = [name for (name,) in groups(rows, "instance")]
    methods = [name for (name,) in groups(rows, "method")]
    columns = ("seconds", "rounds", "kept")
    titles = ("time (s)", "rounds (or boxes)", "ReLUs in the hardest query")
    for axis, column, title in zip(axes, columns, titles, strict=True):
        for (method,), own in groups(rows, "method").items():
            style = style_of(method)
            shift = 0.7 * (methods.index(method) + 0.5) / len(methods) - 0.35
            for solved in (True, False):
                some = [row for row in own if (row["verdict"] == "unsat") == solved]
                axis.plot(
                    [max(row[column], 0.5 if column != "seconds" else 1e-3) for row in some],
                    [instances.index(row["instance"]) + shift for row in some],
                    marker=style.marker,
                    color=style.colour,
                    fillstyle="full" if solved else "none",
                    linestyle="none",
                    label=style.label if solved else None,
                )
        axis.set(xscale="log", xlabel=title)
        axis.set_yticks(range(len(instances)), instances if axis is axes[0] else [])
        axis.invert_yaxis()
    axes[2].set_xlabel("ReLUs in the hardest query (0 drawn at 0.5)")
    axes[1].set_title("filled: proved; hollow: time limit reached or no answer", fontsize="medium")
    legend(figure, axes, fontsize="small")
    return {"refinement": figure}


def tables(rows: Sequence[Row]) -> list[Table]:
    found = []
    for (instance,), some in groups(rows, "instance").items():
        body = tuple(
            (style_of(row["method"]).label, row["verdict"], *(str(row[c]) for c in COUNTS), f"{row['seconds']:.3g}")
            for row in some
        )
        title = f"{instance} ({some[0]['relus']} ReLUs)"
        found.append(Table(title, ("refinement", "verdict", "rounds", "boxes", "ReLUs kept", "s"), body))
    return found


EXPERIMENT = Experiment(
    "refinement",
    "Refinement inside the loop",
    "not in the paper; its future work",
    "One abstraction-refinement loop, one solver (HiGHS), properties that hold. GINNACER's relational abstraction "
    "starts with all ReLUs relaxed and refines in five ways; the rivals start with everything merged and take their "
    "own refinement steps; FastLin halves boxes. The same property, judge and deadline for all.",
    cells,
    figures,
    tables,
)
