"""The picture of the README: `python docs/pictures.py` draws it anew, which takes some minutes."""

import json
import tempfile
import time
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

import ginnacer_verify as gv
from ginnacer_verify.commands.plot_trace import blocks
from ginnacer_verify.engines.progress import observer

OUTPUT = Path(__file__).parent / "pictures" / "overview.png"
LIMIT, WALL = 10.0, 40.0
"""Of CPU time, which counts, and of wall time, which is longer on a busy machine."""
ENGINES = ("auto", "cegar", "phases", "regions")


def motivating(axes: Axes) -> None:
    """The paper's motivating example: a network with one input inside of its abstraction."""
    network = gv.load(gv.examples("pade") / "pade_64x2.onnx")
    abstraction = gv.abstract(network, [2.0])
    x = np.linspace(0.5, 3.5, 301)[:, None]
    lower, upper = abstraction(x)
    kept = sum(abstraction.relus_per_layer)
    axes.fill_between(x[:, 0], lower[:, 0], upper[:, 0], color="#9ecae1", label=f"abstraction, {kept} ReLUs")
    axes.plot(x[:, 0], network(x)[:, 0], color="black", label=f"network, {network.relus} ReLUs")
    axes.axvline(2.0, color="grey", linestyle=":", linewidth=1)
    axes.set_title("Padé network, exact at x = 2")
    axes.set_xlabel("input x")
    axes.set_ylabel("output")
    axes.legend(loc="lower center", framealpha=0.9)


def cactus(axes: Axes) -> None:
    """How many instances each engine decides within a time, on one core."""
    pairs = [
        (gv.examples(name) / network, gv.examples(name) / prop)
        for name in ("advisory", "digits")
        for network, prop, *_ in (
            line.split(",") for line in (gv.examples(name) / "instances.csv").read_text().splitlines()
        )
    ]
    for engine in ENGINES:
        seconds = []
        for network, prop in pairs:
            start = time.process_time()
            verdict = gv.verify(network, prop, engine=engine, timeout=WALL, threads=1)
            spent = time.process_time() - start
            if not verdict.undecided and spent <= LIMIT:
                seconds.append(spent)
        axes.step([0, *sorted(seconds)], range(len(seconds) + 1), where="post", label=f"{engine}: {len(seconds)}")
    axes.set_xscale("log")
    axes.set_xlim(0.03, 1.5 * LIMIT)
    axes.xaxis.set_major_locator(FixedLocator([0.1, 1, 10]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"advisory and digits, {len(pairs)} instances")
    axes.set_xlabel(f"CPU seconds on one core (limit {LIMIT:g} s)")
    axes.set_ylabel("instances decided")
    axes.legend(loc="lower right", framealpha=0.9)


def partition(axes: Axes) -> None:
    """Neurons that share a ReLU in the queries of one run of the loop, which split as it refines."""
    folder = gv.examples("pade")
    with tempfile.NamedTemporaryFile("r") as trace:
        with observer(Path(trace.name), live=False) as observe:
            gv.verify(
                folder / "pade_64x2.onnx", folder / "prop_03.vnnlib", abstraction="paper", restarts=0, observe=observe
            )
        rounds = [json.loads(line) for line in trace]
    blocks(axes, rounds)
    axes.set_title(f"Padé network, prop_03: {len(rounds)} rounds of the loop")
    legend = axes.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    axes.legend(
        legend.legend_handles, names, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize="small"
    )
    axes.set_xlabel("round; each row is a neuron")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def main() -> None:
    figure = Figure(figsize=(15, 4.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    motivating(left)
    cactus(middle)
    partition(right)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=120)


if __name__ == "__main__":
    main()
