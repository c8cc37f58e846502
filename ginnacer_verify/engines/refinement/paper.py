"""The paper's own abstraction in the loop: upper and lower copies of every neuron, and ReLUs that subsets share.

The query is the abstract network itself, as `ginnacer abstract` emits it, on the box: t <= x' <= t + relu(rhat_D),
carried through the layers as pairs of copies, with one exact ReLU for each subset D. A spurious witness says which
subsets gave away how much. These are split; a singleton, or a neuron that gives away something below, becomes
*concrete*: both of its copies keep their ReLU. With every neuron concrete both copies agree: the query is
the network.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.abstraction.base import base_of, without_idle
from ginnacer_verify.abstraction.fold import Expressions, rows_below
from ginnacer_verify.abstraction.inputs import Mode
from ginnacer_verify.abstraction.layer import AbstractLayer
from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.bounds.chain import Bounds
from ginnacer_verify.bounds.substitution import tightened
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.emit.abstraction import Emitted, abstraction_graph
from ginnacer_verify.engines.refinement.abstracted import (
    USUAL,
    Abstracted,
    Bisection,
    Method,
    Options,
    Refine,
    Region,
    Situation,
    bisected,
)
from ginnacer_verify.engines.refinement.relational import Kept
from ginnacer_verify.engines.refinement.relational import start as relational_start
from ginnacer_verify.engines.refinement.sharing import Exploited, Sharing
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.gradient import gradients
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.properties.property import Disjunct, Polytope
from ginnacer_verify.query.query import Query, singleton

FLOAT64 = np.dtype(np.float64)
LEAK = 1e-3
"""What a ReLU that is off at the witness counts for: the next witness may turn it on."""


class Loss(NamedTuple):
    """What one neuron gives away at an input, times how the property reads it: above it, and below it."""

    above: Array
    below: Array


@dataclass(frozen=True, eq=False)
class Paper:
    """The abstraction, the property's rows over its last layer, and the box and constraints of the inputs."""

    abstraction: Abstraction
    rows: Layer
    box: Box
    inputs: Polytope
    options: Options = USUAL
    deadline: Deadline = FOREVER

    @classmethod
    def of(cls, abstraction: Abstraction, disjunct: Disjunct, box: Box, options: Options = USUAL) -> "Paper":
        """An abstraction of a network with a disjunct of a property on a box."""
        if not (box.lower in abstraction.domain and box.upper in abstraction.domain):
            raise AbstractionError("the property goes beyond the domain of the abstraction: see --inputs")
        rows = rows_below(abstraction.network.layers[-1], disjunct.outputs)
        return cls(abstraction, rows, box, disjunct.inputs, options)

    @property
    def network(self) -> Network:
        return self.abstraction.network

    @cached_property
    def emitted(self) -> Emitted:
        """The abstract network, whose outputs are below the property's rows."""
        return abstraction_graph(self.abstraction, FLOAT64, self.rows)

    @cached_property
    @np.errstate(over="ignore", invalid="ignore")
    def query(self) -> Query:
        """Every ReLU of the abstract network that is not stable on the box, and that the rows depend on."""
        graph = self.emitted.graph
        known = tightened(graph, self.box.lower[None], self.box.upper[None], deadline=self.deadline)
        sources = [*(graph.nodes[number].sources[0] for number in graph.applied), len(graph.nodes) - 1]
        bounds = Bounds(*(tuple(ends[source][0] for source in sources) for ends in (known.lower, known.upper)))
        expressions = Expressions.of_graph(graph, self.box, bounds)
        base = base_of(expressions, self.box, bounds, inputs=self.inputs, row_error=np.zeros(self.rows.outputs))
        served = [self.emitted.served[graph.applied[layer]] for layer in expressions.layer]
        names = [each[neuron] for each, neuron in zip(served, expressions.neuron, strict=True)]
        layers = np.array([layer for layer, _ in names], dtype=np.intp)
        relus = replace(base.relus, layer=layers, neurons=tuple(neurons for _, neurons in names))
        base = without_idle(replace(base, relus=relus))
        return Query(base, tuple(singleton(base, i) for i in range(len(base.relus))))

    @property
    def sharing(self) -> tuple[Sharing, ...]:
        found = []
        for layer in self.abstraction.layers:
            if isinstance(layer, AbstractLayer):
                shared = tuple(subset for subset in layer.partition.subsets if subset[0] not in layer.concrete)
                found.append(Sharing(shared, tuple(sorted(layer.concrete))))
            else:
                found.append(Sharing(exact=tuple(range(layer.layer.outputs))))
        return tuple(found)

    def exploited(self, z: Array) -> list[Exploited]:
        """Subsets with what they gave away above their members, and neurons with what they gave away below."""
        losses = self.losses(self.query.base.input_of(z))
        found = [one for number, loss in losses.items() for one in self._given(number, loss)]
        return sorted(found, key=lambda one: (-one.amount, one.layer, -len(one.neurons), one.neurons))

    def _given(self, number: int, loss: Loss) -> Iterator[Exploited]:
        layer = self.abstract_layer(number)
        for subset in layer.partition.subsets:
            if len(subset) > 1:
                yield Exploited(number, subset, float(loss.above[list(subset)].sum()))
                yield from (Exploited(number, (i,), float(loss.below[i])) for i in subset if loss.below[i] > 0)
            elif subset[0] not in layer.concrete:
                yield Exploited(number, subset, float(loss.above[subset[0]] + loss.below[subset[0]]))

    def abstract_layer(self, number: int) -> AbstractLayer:
        layer = self.abstraction.layers[number]
        assert isinstance(layer, AbstractLayer)
        return layer

    def losses(self, x: Array) -> dict[int, Loss]:
        """What the neurons of each abstract layer give away at an input: each copy against the ReLU of its own y."""
        emitted, found = self.emitted, dict[int, Loss]()
        values, slopes = gradients(emitted.graph, x, leak=LEAK)
        upper = lower = x
        for number, (layer, leaving) in enumerate(zip(self.network.layers, emitted.leaving, strict=False)):
            y_upper, y_lower = _copies(layer, upper, lower)
            count = layer.outputs
            upper, lower = values[leaving][:count], values[leaving][-count:]
            if isinstance(self.abstraction.layers[number], AbstractLayer):
                weight = np.abs(slopes[leaving]).max(axis=0, initial=0.0)
                above = np.maximum(upper - np.maximum(y_upper, 0.0), 0.0) * weight[:count]
                below = np.maximum(np.maximum(y_lower, 0.0) - lower, 0.0) * weight[-count:]
                found[number] = Loss(above, below)
        return found

    def refined(self, chosen: Sequence[Exploited], x: Array) -> "Paper":
        """Subsets of several are cut in two where their members differ most at x; neurons become concrete."""
        abstraction, entering = self.abstraction, [x, *(np.maximum(y, 0.0) for y in self.network.pre_activations(x))]
        for number in sorted({one.layer for one in chosen}):
            layer = self.abstract_layer(number)
            concrete = {one.neurons[0] for one in chosen if one.layer == number and len(one.neurons) == 1}
            cut = {one.neurons for one in chosen if one.layer == number and len(one.neurons) > 1}
            y = np.where(layer.icf.active, -1.0, 1.0) * self.network.layers[number](entering[number])
            subsets = list[tuple[int, ...]]()
            for subset in layer.partition.subsets:
                rest = tuple(i for i in subset if i not in concrete)
                subsets += _cut(rest, y) if subset in cut and len(rest) > 1 else [rest] if rest else []
            partition = Partition((*subsets, *((i,) for i in concrete)))
            abstraction = abstraction.with_partition(number + 1, partition, layer.concrete | concrete)
        return replace(self, abstraction=abstraction) if chosen else self


def _copies(layer: Layer, upper: Array, lower: Array) -> tuple[Array, Array]:
    """The pre-activations' upper and lower bounds between those of the inputs."""
    weight = dense(layer.weight)
    positive, negative = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
    return positive @ upper + negative @ lower + layer.bias, positive @ lower + negative @ upper + layer.bias


def _cut(subset: tuple[int, ...], values: Array) -> list[tuple[int, ...]]:
    """A subset in two, at the widest gap between its members' values. Any part of a valid subset is valid."""
    members = sorted(subset, key=lambda i: (values[i], i))
    place = int(np.argmax(np.diff(values[members]))) + 1
    return [tuple(members[:place]), tuple(members[place:])]


def _chosen(situation: Situation[Paper], ranked: Sequence[Exploited]) -> Paper:
    """The first ones: those that gave away anything, if there are any."""
    now = situation.abstracted
    some = [one for one in ranked if one.amount > 0] or ranked
    return now.refined(some[: situation.count], now.query.base.input_of(situation.z))


def split(situation: Situation[Paper]) -> Paper:
    """What the witness exploited most."""
    return _chosen(situation, situation.abstracted.exploited(situation.z))


def random(situation: Situation[Paper]) -> Paper:
    """Baseline: any subsets and neurons."""
    ranked = situation.abstracted.exploited(situation.z)
    order = situation.random.permutation(len(ranked))
    return _chosen(situation, [replace(ranked[i], amount=1.0) for i in order])


def max_weight_loss(situation: Situation[Paper]) -> Paper:
    """Baseline: the subsets whose sharing changes the most weight, whatever the witness says.

    After CEGARETTE's rule (arXiv 2210.12871). A singleton has no shared weights: what it could lose is its own."""
    now = situation.abstracted

    def loss(one: Exploited) -> float:
        layer, members = now.abstract_layer(one.layer), list(one.neurons)
        rows = dense(layer.icf.rows)[members]
        return float(np.abs(rows.max(axis=0) - rows).sum() if len(members) > 1 else np.abs(rows).sum())

    found = [replace(one, amount=loss(one)) for one in now.exploited(situation.z)]
    return _chosen(situation, sorted(found, key=lambda one: (-one.amount, one.layer, one.neurons)))


def recentre(situation: Situation[Paper]) -> Paper:
    """The abstraction at the witness, where it is exact; what is concrete stays so, and what was exploited most joins.

    The second half of that is what ends the loop: earlier witnesses may come back."""
    now, z = situation.abstracted, situation.z
    x = now.query.base.input_of(z)
    ranked = now.exploited(z)
    if not ranked:
        return now
    worst = list(dict.fromkeys((one.layer, i) for one in ranked for i in one.neurons))[: situation.count]
    abstraction = _abstraction(now.network, x, now.box, now.options)
    for number in abstraction.partitions:
        own = {i for layer, i in worst if layer == number - 1} | now.abstraction.concrete[number]
        subsets = [tuple(i for i in subset if i not in own) for subset in abstraction.partitions[number].subsets]
        partition = Partition((*(subset for subset in subsets if subset), *((i,) for i in own)))
        abstraction = abstraction.with_partition(number, partition, own)
    return replace(now, abstraction=abstraction)


def bisect(situation: Situation[Paper]) -> Paper | Bisection:
    """Halve the box across the input that moves the abstract network most; each half gets a centroid of its own."""
    now = situation.abstracted
    if not now.box.varying:
        return now
    _, slopes = gradients(now.emitted.graph, now.query.base.input_of(situation.z), leak=LEAK)
    return bisected(now.box, np.abs(slopes[0]).max(axis=0, initial=0.0))


REFINEMENTS: dict[str, Refine] = {
    "split": split,
    "recentre": recentre,
    "bisect": bisect,
    "random": random,
    "max_weight_loss": max_weight_loss,
}


def start(region: Region, options: Options) -> Paper | Kept:
    """The abstraction at a centroid, or a saved one; a network without ReLUs has none and is asked about as it is."""
    if not region.network.relus:
        return relational_start(region, USUAL)
    own = region.is_whole
    if own and options.saved is not None:
        abstraction = _fitting(options.saved, region.network)
    else:
        centroid = options.centroid if own and options.centroid is not None else region.box.middle
        abstraction = _abstraction(region.network, centroid, region.box, options)
    return replace(Paper.of(abstraction, region.disjunct, region.box, options), deadline=region.deadline)


def _abstraction(network: Network, centroid: Array, box: Box, options: Options) -> Abstraction:
    first = options.layers is None or 1 in options.layers
    mode: Mode = options.inputs or ("nonnegative" if (box.lower >= 0).all() else "pre-layer")
    return abstract(
        network,
        centroid,
        strategy=options.strategy,
        layers=options.layers,
        inputs=mode if first else options.inputs,
        box=box,
        clip=options.clip,
    )


def _fitting(saved: Abstraction, network: Network) -> Abstraction:
    """The saved abstraction, if it is one of this network."""
    pairs = list(zip(saved.network.layers, network.layers, strict=False))
    if len(saved.network.layers) != len(network.layers) or not all(
        old.weight.shape == new.weight.shape
        and (old.bias == new.bias).all()
        and not (dense(old.weight) != dense(new.weight)).any()
        for old, new in pairs
    ):
        raise AbstractionError("the saved abstraction is one of another network: abstract this one")
    return replace(saved, network=network)


def resume(before: Abstracted, fresh: Abstracted) -> Abstracted:
    """The partition that proved another disjunct on the same box."""
    if isinstance(before, Paper) and isinstance(fresh, Paper):
        return replace(fresh, abstraction=before.abstraction)
    return fresh


METHOD = Method("paper", start, REFINEMENTS, resume)
