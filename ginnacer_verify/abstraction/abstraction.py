"""Network + centroid + partitions -> Abstraction: sound lower and upper functions that are exact at the centroid.

    abstraction = abstract(network, centroid)
    lower, upper = abstraction(x)

Soundness is that of real arithmetic on the network's float64 weights: for every input x of the domain but the
centroid, `lower <= network(x) <= upper` with all rounding errors accounted for; at the centroid both are, bit for bit,
what `network(centroid)` computes. Inputs so far off that a bound could overflow get infinite bounds.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.abstraction.deviation import ExactRelu, Map, Output, SharedRelu
from ginnacer_verify.abstraction.icf import Anchor
from ginnacer_verify.abstraction.inputs import Entry, Mode
from ginnacer_verify.abstraction.layer import AbstractLayer, ExactLayer
from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.abstraction.partitioning.strategies import Strategy, first_fit, named
from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.bounds.chain import interval_bounds
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.loading.model import Model, as_network, shapes_for
from ginnacer_verify.shown import Shown

if TYPE_CHECKING:
    from ginnacer_verify.abstraction.trace import Trace

CHUNK = 2**16
"""How many numbers of a batch are worked on at a time: few enough to stay in the cache."""

LEAST = 64
"""How many inputs at least, however wide the layers are."""

Progress = Callable[[int, int], None]
"""Called with how many of how many layers are done."""


@dataclass(frozen=True, eq=False, repr=False)
class Abstraction(Shown):
    """Paper: Full Abstraction, and its execution."""

    network: Network
    entry: Entry
    trace: "Trace"
    layers: tuple[AbstractLayer | ExactLayer, ...]
    clip: bool

    @property
    def centroid(self) -> Array:
        return self.entry.centroid

    @property
    def domain(self) -> Box:
        """Where the bounds are sound."""
        return self.entry.domain

    @property
    def partitions(self) -> dict[int, Partition]:
        """The partition of each abstracted layer; layers are numbered from 1 as in the paper."""
        return {n: layer.partition for n, layer in enumerate(self.layers, start=1) if isinstance(layer, AbstractLayer)}

    @property
    def relus_per_layer(self) -> tuple[int, ...]:
        """The ReLUs of each layer: one per subset. What is not abstracted needs its ReLUs twice, for both bounds, once
        they have parted. Not counted: the pre-layer (`entry.relus`) and the clip (`clips_per_layer`)."""
        counts, parted = [], False
        for layer in self.layers:
            match layer:
                case AbstractLayer():
                    counts.append(len(layer.partition) + parted * len(layer.concrete))
                    parted = parted or layer.parts
                case ExactLayer():
                    counts.append(layer.layer.outputs * (2 if parted else 1))
        return tuple(counts)

    @property
    def clips_per_layer(self) -> tuple[int, ...]:
        """The ReLUs that the clip adds: one for each neuron that is active at the centroid and not concrete."""
        return tuple(
            sum(bool(active) and i not in layer.concrete for i, active in enumerate(layer.icf.active))
            if self.clip and isinstance(layer, AbstractLayer)
            else 0
            for layer in self.layers
        )

    @cached_property
    def rounding(self) -> Array:
        """What the trace of the centroid can be off, at the outputs."""
        from ginnacer_verify.abstraction.trace import output_rounding

        return output_rounding(self.network, self.trace)

    @cached_property
    def _stages(self) -> tuple[tuple[SharedRelu | ExactRelu, ...], Output]:
        stages, columns = [], np.arange(self.layers[0].layer.inputs)
        for layer, own in zip(self.layers, self.network.layers, strict=False):
            stages.append(layer.stage(own, columns, self.clip))
            columns = layer.order
        last = Map(self.network.layers[-1].weight[:, columns])
        return tuple(stages), Output(last, self.trace.y[-1], self.rounding, self.network(self.centroid))

    @cached_property
    def reach(self) -> float:
        """Deviations of the input up to this one overflow nowhere: no layer enlarges one more than 4 |W| + 1 times, and
        squares are taken of what enters the first."""
        stages, output = self._stages
        maps = [stage.own for stage in (*stages, output)]
        maps += [stage.shared for stage in stages if isinstance(stage, SharedRelu)]
        norms = np.array([each.norm for each in maps])
        return 0.0 if norms.max() > 2.0**400 else float(2.0 ** min(400, 1000 - np.log2(4 * norms + 1).sum()))

    def __call__(self, x: ArrayLike) -> tuple[Array, Array]:
        """The bounds for one input, or one row of bounds per row of a batch.

        Paper: Algorithm "Execute GINNACER Abstraction". Departs from it: intervals as middle and radius around the
        trace of the centroid, see `deviation`; and the clip. Test: test_abstraction.py::test_algorithm_execute."""
        values = self.network.flat(x)
        batch = np.atleast_2d(values)
        self.entry.check(batch)
        size = max(LEAST, CHUNK // max(max(layer.weight.shape) for layer in self.network.layers))
        lower, upper = np.empty((2, len(batch), self.network.outputs))
        for first in range(0, len(batch), size):
            some = slice(first, first + size)
            lower[some].T[:], upper[some].T[:] = self._bounds(batch[some])
        return (lower[0], upper[0]) if values.ndim == 1 else (lower, upper)

    def _bounds(self, batch: Array) -> tuple[Array, Array]:
        """The bounds for a few rows of a batch, one column for each."""
        stages, output = self._stages
        distance = np.abs(batch - self.centroid).max(axis=1)
        near = distance <= self.reach  # false for NaN too
        if not near.all():
            batch = np.where(near[:, None], batch, self.centroid)
        moved = (near & (distance > 0)).astype(np.float64)
        x, plain = self.entry.deviations(np.ascontiguousarray(batch.T), moved, stages[0].shares)
        with np.errstate(over="ignore", invalid="ignore"):  # beyond reach, where the result is not used
            for stage in stages:
                x = plain = stage(x, plain)
            lower, upper = output(x)
        lower[:, ~near], upper[:, ~near] = -np.inf, np.inf
        return lower, upper

    def margin(self, x: ArrayLike) -> Array:
        """Upper minus lower bound."""
        lower, upper = self(x)
        return upper - lower

    @property
    def concrete(self) -> dict[int, frozenset[int]]:
        """The neurons of each abstracted layer whose two bounds both keep the ReLU."""
        return {n: layer.concrete for n, layer in enumerate(self.layers, start=1) if isinstance(layer, AbstractLayer)}

    def with_partition(self, number: int, partition: Partition, concrete: Iterable[int] = ()) -> "Abstraction":
        """The abstraction with another partition of one layer, at the same centroid."""
        old = self.layers[number - 1]
        if not isinstance(old, AbstractLayer):
            raise AbstractionError(f"layer {number} is not abstracted, so it has no partition to exchange")
        layers = list(self.layers)
        layers[number - 1] = old.with_partition(partition, concrete)
        return replace(self, layers=tuple(layers))

    def facts(self) -> dict[str, object]:
        old, new = ("-".join(map(str, one.relus_per_layer)) for one in (self.network, self))
        return {
            "inputs": self.network.inputs,
            "ReLUs": f"{sum(self.relus_per_layer)} ({new}) for {self.network.relus} ({old})",
        }

    def save(self, path: "str | Path") -> None:
        """Write everything to one `.npz` file."""
        from ginnacer_verify.abstraction.npz import save

        save(self, path)

    @staticmethod
    def load(path: "str | Path") -> "Abstraction":
        """What `save` wrote."""
        from ginnacer_verify.abstraction.npz import load_abstraction

        return load_abstraction(path)

    def describe(self) -> str:
        """A table of the ReLUs, layer by layer."""
        lines = relu_table(self.network, self.relus_per_layer)
        if self.entry.relus:
            lines.append(f"and {self.entry.relus} ReLUs of the pre-layer ({self.entry.mode})")
        if self.clip:
            lines.append(f"and {sum(self.clips_per_layer)} ReLUs of the clip")
        return "\n".join(lines)


def relu_table(network: Network, relus_per_layer: Sequence[int]) -> list[str]:
    """The ReLUs of a network and of its abstraction, layer by layer."""
    rows = [("layer", "ReLUs", "abstract", "share")]
    counts = list(zip(network.relus_per_layer, relus_per_layer, strict=True))
    named = [*((str(n), *pair) for n, pair in enumerate(counts, start=1))]
    named.append(("all", network.relus, sum(relus_per_layer)))
    rows += [(name, str(old), str(new), f"{new / old:.1%}" if old else "-") for name, old, new in named]
    return ["".join(cell.rjust(10) for cell in row) for row in rows]


def abstract(
    model: Model,
    centroid: ArrayLike,
    *,
    strategy: str | Strategy | Sequence[str | Strategy] = first_fit,
    layers: Sequence[int] | None = None,
    inputs: Mode | None = None,
    box: Box | None = None,
    clip: bool = False,
    progress: Progress | None = None,
) -> Abstraction:
    """The GINNACER abstraction of a network: fewer ReLUs, bounds for every input, exact at the centroid.

    Paper: Algorithm "Compute GINNACER Parameters". Test: test_abstraction.py::test_acas_xu_counts.

    Args:
        model: A chain of ReLU layers: a file, an ONNX model, its bytes, a torch module or a network that was read.
        centroid: The input at which the abstraction is exact.
        strategy: Which neurons share a ReLU: "first_fit", "best_fit", "cosine", "random", "singletons" or a function;
            one for all layers, or a list with one for each.
        layers: The layers to abstract, counted from 1; all by default.
        inputs: How layer 1 copes with negative inputs: "nonnegative" where there are none (the default at a centroid,
            and in a box, without negative values), the paper's "pre-layer" otherwise, or "centred", "shift", "nearest".
        box: The box of inputs that matter, for "shift" and "nearest".
        clip: Also use that ReLUs are never negative: tighter, and refinement is nested, for a ReLU per active neuron
            when the abstraction is emitted.
        progress: Called with the number of layers that are done, and of all.
    """
    from ginnacer_verify.abstraction.trace import accurate_trace

    network = as_chain(as_network(model, shapes_for(np.shape(centroid))))
    point = _centroid(network, centroid)
    chosen = _chosen(network, layers)
    strategies = _strategies(strategy, len(chosen))
    trace = accurate_trace(network, point)
    if not all(np.isfinite(y).all() for y in trace.y):
        raise AbstractionError("the network overflows at the centroid; choose one nearer to 0")
    entry = Entry.of(_mode(inputs, point, box, 1 in chosen), point, box)
    built: list[AbstractLayer | ExactLayer] = []
    for number, (layer, x, y, anchor) in enumerate(_seen(network, trace.y, entry), start=1):
        if number in chosen:
            built.append(AbstractLayer.of(layer, x, y, anchor, strategies[chosen.index(number)]))
        else:
            built.append(ExactLayer(layer, y))
        if progress is not None:
            progress(number, len(trace.y) - 1)
    return Abstraction(network, entry, trace, tuple(built), clip)


def _seen(network: Network, trace: Sequence[Array], entry: Entry) -> Iterator[tuple[Layer, Array, Array, Anchor]]:
    """Each ReLU layer with its input and pre-activations at the centroid, and the anchor that it is seen from."""
    bounds = interval_bounds(network.layers, entry.domain) if entry.mode == "nearest" else None
    layer, x, anchor = (
        entry.layer(network.layers[0], trace[0]),
        entry.values(entry.centroid[:, None])[:, 0],
        entry.anchor(),
    )
    for number, y in enumerate(trace[:-1]):
        yield layer, read_only(x), y, anchor
        layer, x, anchor = network.layers[number + 1], np.maximum(y, 0.0), Anchor.zero(len(y))
        if bounds is not None:
            lower, upper = np.maximum(bounds.lower[number], 0.0), np.maximum(bounds.upper[number], 0.0)
            anchor = Anchor.nearest(Box(lower, upper), x)


def _centroid(network: Network, centroid: ArrayLike) -> Array:
    point = np.asarray(centroid, dtype=np.float64)
    if point.size != network.inputs:
        raise AbstractionError(f"a centroid of {point.size} values does not fit a network with {network.inputs} inputs")
    if not np.isfinite(point).all():
        raise AbstractionError("the centroid has a value that is not a finite number")
    return read_only(point.reshape(-1))


def _chosen(network: Network, layers: Sequence[int] | None) -> list[int]:
    hidden = len(network.layers) - 1
    if not hidden:
        raise AbstractionError("the network has no ReLU layer, so there is nothing to abstract")
    chosen = sorted(set(range(1, hidden + 1) if layers is None else layers))
    if not chosen or not 1 <= chosen[0] <= chosen[-1] <= hidden:
        raise AbstractionError(f"the layers to abstract must be some of 1 to {hidden}, not {list(layers or [])}")
    return chosen


def _strategies(strategy: str | Strategy | Sequence[str | Strategy], count: int) -> Sequence[Strategy]:
    if isinstance(strategy, str) or callable(strategy):
        return [_strategy(strategy)] * count
    if len(strategy) != count:
        raise AbstractionError(f"{len(strategy)} strategies for {count} layers; give one, or one for each")
    return [_strategy(one) for one in strategy]


def _strategy(strategy: str | Strategy) -> Strategy:
    return named(strategy) if isinstance(strategy, str) else strategy


def _mode(inputs: Mode | None, centroid: Array, box: Box | None, first: bool) -> Mode:
    """What is asked for, or what fits; layer 1 needs nothing when it is not abstracted."""
    if not first and inputs != "nearest":
        return "as-is"
    least = centroid if box is None else np.minimum(centroid, box.lower)
    return inputs or ("nonnegative" if (least >= 0).all() else "pre-layer")
