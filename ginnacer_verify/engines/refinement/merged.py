"""Interval Networks and Network Abstractions in the loop: everything merged at first, refined as their papers say.

Each query has all of the abstraction's ReLUs, so a solver decides the abstraction completely, and a spurious witness is
answered by the method's own refinement step.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ginnacer_verify.abstraction.fold import fold_error, fold_rows
from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import interval_bounds, linear_bounds
from ginnacer_verify.box import Box
from ginnacer_verify.engines.refinement.abstracted import (
    USUAL,
    Abstracted,
    Method,
    Options,
    Region,
    Situation,
)
from ginnacer_verify.engines.refinement.relational import exact
from ginnacer_verify.engines.refinement.relational import start as relational_start
from ginnacer_verify.engines.refinement.sharing import Exploited, Sharing
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.properties.property import Disjunct
from ginnacer_verify.query.query import Query
from ginnacer_verify.rivals.elboher import NetworkAbstraction, network_abstraction
from ginnacer_verify.rivals.interval_query import interval_relational
from ginnacer_verify.rivals.prabhakar import IntervalNetwork, interval_network

Merging = IntervalNetwork | NetworkAbstraction
Merge = Callable[[Network, np.random.Generator], Merging]


def one_output(network: Network, disjunct: Disjunct, box: Box) -> tuple[Network, Array]:
    """A network that is unsafe where its one output is at most 0, up to the error that comes with it.

    Elboher et al. ask for one output: with several rows r it is the sum of all relu(r), which is 0 where all rows are
    unsafe together and positive elsewhere."""
    bounds = interval_bounds(network.layers, box)
    largest = np.maximum(bounds.upper[-2], 0.0) if len(bounds) > 1 else np.maximum(-box.lower, box.upper)
    error = fold_error(network, [disjunct], largest)
    layers = fold_rows(network, [disjunct])
    if len(error) == 1:
        return Network(layers), error
    return Network((*layers, Layer(np.ones((1, len(error))), np.zeros(1)))), error.sum(keepdims=True) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class Merged:
    """A merging of the network with one output that belongs to a disjunct, on a box."""

    merging: Merging
    box: Box
    disjunct: Disjunct
    error: Array

    @cached_property
    def query(self) -> Query:
        """All unstable ReLUs of the abstraction, exactly, and the neurons that share each."""
        match self.merging:
            case NetworkAbstraction() as merging:
                network = merging.lower_network(nonnegative=bool((self.box.lower >= 0).all()))
                bounds = linear_bounds(network.layers, self.box)
                inputs, error = self.disjunct.inputs, self.error
                relational = Relational.of(network.layers, self.box, bounds, inputs=inputs, row_error=error)
            case IntervalNetwork() as merging:
                relational = interval_relational(merging, self.box, self.disjunct.inputs, self.error)
            case _:
                raise TypeError(f"{self.merging!r} is no merging")
        named = self._named(relational, len(relational.layers) - len(self.merging.network.layers))
        return named.query(exact(named))

    def _named(self, relational: Relational, before: int) -> Relational:
        """The relational form with each ReLU named after the neurons that it stands for; `before` it is a pre-layer."""
        relus, subsets = relational.base.relus, [_subsets(self.merging, n) for n in range(len(relational.layers))]
        layers = relus.layer - before
        names = [
            subsets[layer][place] if layer >= 0 and place < len(subsets[layer]) else (place,)
            for layer, (place,) in zip(layers, relus.neurons, strict=True)
        ]
        named = replace(relus, layer=layers, neurons=tuple(names))
        return replace(relational, base=replace(relational.base, relus=named))

    @property
    def sharing(self) -> tuple[Sharing, ...]:
        found = []
        for number in range(len(self.merging.network.layers) - 1):
            subsets = _subsets(self.merging, number)
            found.append(
                Sharing(
                    tuple(subset for subset in subsets if len(subset) > 1),
                    tuple(subset[0] for subset in subsets if len(subset) == 1),
                )
            )
        return tuple(found)

    def exploited(self, z: Array) -> list[Exploited]:
        """Both methods rank what to undo themselves; what is merged is not told apart here."""
        several = ((layer, subset) for layer, here in enumerate(self.sharing) for subset in here.shared)
        return [Exploited(layer, subset, 0.0) for layer, subset in several]


def _subsets(merging: Merging, number: int) -> list[tuple[int, ...]]:
    """The neurons of each merged neuron of a ReLU layer."""
    match merging:
        case IntervalNetwork():
            return list(merging.partitions[number].subsets) if number < len(merging.partitions) else []
        case NetworkAbstraction():
            if number >= len(merging.copies):
                return []
            copies = merging.copies[number]
            return [tuple(copies.neuron[list(members)].tolist()) for members in Partition.of(copies.subset).subsets]
    raise TypeError(f"{merging!r} is no merging")


def split(situation: Situation[Merged]) -> Merged:
    """The method's own step at the witness, as often as there are ReLUs to refine."""
    now = situation.abstracted
    witness = now.query.base.input_of(situation.z)[: now.box.inputs]
    finer = now.merging.refined(witness, situation.count)
    return now if finer is now.merging else replace(now, merging=finer)


def _starting(merge: Merge) -> Callable[[Region, Options], Abstracted]:
    def start(region: Region, options: Options) -> Abstracted:
        if not region.network.relus:
            return relational_start(region, USUAL)
        network, error = one_output(region.network, region.disjunct, region.box)
        return Merged(merge(network, region.random), region.box, region.disjunct, error)

    return start


def merge_intervals(network: Network, random: np.random.Generator) -> Merging:
    """One interval neuron per layer."""
    return interval_network(network, [1] * (len(network.layers) - 1), seed=int(random.integers(2**32)))


def merge_copies(network: Network, random: np.random.Generator) -> Merging:
    """One copy of each kind per layer; Elboher et al. call this abstraction to saturation."""
    return network_abstraction(network, [1] * (len(network.layers) - 1), sides="lower")


MERGES: dict[str, Merge] = {"prabhakar": merge_intervals, "elboher": merge_copies}
METHODS = tuple(Method(name, _starting(merge), {"split": split}) for name, merge in MERGES.items())
