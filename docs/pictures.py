"""The picture of the README: `python docs/pictures.py` draws it anew, which takes a minute or two."""

import time
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

import ginnacer_verify as gv
from ginnacer_verify.abstraction.layer import AbstractLayer

OUTPUT = Path(__file__).parent / "pictures" / "overview.png"
LIMIT = 10.0


def motivating(axes: Axes) -> None:
    """The paper's motivating example: a network with one input inside of its abstraction."""
    network = gv.load(gv.examples("pade") / "pade_64x2.onnx")
    abstraction = gv.abstract(network, [2.0])
    x = np.linspace(0.0, 4.0, 401)[:, None]
    lower, upper = abstraction(x)
    axes.fill_between(
        x[:, 0], lower[:, 0], upper[:, 0], color="#cfe3f7", label=f"{sum(abstraction.relus_per_layer)} ReLUs"
    )
    axes.plot(x[:, 0], network(x)[:, 0], color="black", label=f"network, {network.relus} ReLUs")
    axes.axvline(2.0, color="grey", linestyle=":", linewidth=1)
    axes.set_title("Padé network, exact at x = 2")
    axes.set_xlabel("input")
    axes.set_ylabel("output")
    axes.legend(loc="upper right", frameon=False)


def cactus(axes: Axes) -> None:
    """How many instances each engine decides within a time, on one core."""
    folder = gv.examples("advisory")
    pairs = [line.split(",")[:2] for line in (folder / "instances.csv").read_text().splitlines()]
    for engine in ("boxes", "cegar", "regions"):
        seconds = []
        for network, prop in pairs:
            start = time.process_time()
            verdict = gv.verify(folder / network, folder / prop, engine=engine, timeout=LIMIT, threads=1)
            if not verdict.undecided:
                seconds.append(time.process_time() - start)
        axes.step(sorted(seconds), range(1, len(seconds) + 1), where="post", label=f"{engine}, {len(seconds)}")
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(f"advisory, {len(pairs)} instances")
    axes.set_xlabel("CPU seconds, reading included")
    axes.set_ylabel("decided")
    axes.legend(loc="lower right", frameon=False)


def partition(axes: Axes) -> None:
    """Which neurons of a layer share a ReLU, before and after the largest subset was split in two."""
    abstraction = gv.abstract(gv.load(gv.examples("advisory") / "advisory_25x4.onnx"), np.zeros(5))
    layer = abstraction.layers[0]
    assert isinstance(layer, AbstractLayer)
    subsets = [tuple(subset) for subset in layer.partition.subsets]
    largest = max(subsets, key=len)
    halves = (largest[: len(largest) // 2], largest[len(largest) // 2 :])
    finer = [part for subset in subsets for part in (halves if subset == largest else (subset,))]
    for shift, (some, colour) in enumerate(((subsets, "#9db4c8"), (finer, "#c1272d"))):
        for number, subset in enumerate(some, start=1):
            axes.plot(subset, [number + 0.25 * shift] * len(subset), "o-", color=colour, markersize=5, linewidth=1)
    axes.plot([], [], "o-", color="#9db4c8", label=f"{len(subsets)} subsets")
    axes.plot([], [], "o-", color="#c1272d", label=f"{len(finer)} after a split")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("advisory 25x4, layer 1")
    axes.set_xlabel("neuron")
    axes.set_ylabel("subset")
    axes.legend(loc="upper left", frameon=False)


def main() -> None:
    figure = Figure(figsize=(15, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    motivating(left)
    cactus(middle)
    partition(right)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=110)


if __name__ == "__main__":
    main()
