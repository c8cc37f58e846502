"""Interval Networks (Prabhakar and Afzal 2019): neurons are merged at random, weights become intervals.

A merged neuron stands for any value between those of its members. Merging the subset t of one layer and s of the layer
before gives the weight

    |s| * [min, max] of W[i, j] over i in t, j in s       min and max over i: the "right" abstraction of t's incoming
                                                          weights; over j and times |s|: the "left" one of s's outgoing
    [min, max] of b[i] over i in t

because a sum over the members of s of weight times value is |s| times a mean of such products.

The paper that we reproduce puts its pre-layer relu(x), relu(-x) in front, for negative inputs. That changes nothing:
an interval times a negative number is what the pre-layer gives (test_rivals.py::test_prabhakar_needs_no_pre_layer).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.arrays import Array, dense, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.rivals.rival import (
    Ends,
    Progress,
    above,
    at_least,
    at_most,
    below,
    bias_above,
    bias_below,
    evaluate,
    everywhere,
)


@dataclass(frozen=True, eq=False)
class IntervalLayer:
    """An affine layer whose weights are intervals, already rounded outwards."""

    lower: Array
    upper: Array
    bias_lower: Array
    bias_upper: Array

    @classmethod
    def of(cls, layer: Layer, rows: Partition, columns: Partition) -> "IntervalLayer":
        weight, terms = dense(layer.weight), 4 * layer.inputs
        sizes = np.array([len(subset) for subset in columns.subsets])
        least = sizes * _reduced(np.minimum, _reduced(np.minimum, weight, rows).T, columns).T
        most = sizes * _reduced(np.maximum, _reduced(np.maximum, weight, rows).T, columns).T
        return cls(
            read_only(below(least, terms)),
            read_only(above(most, terms)),
            read_only(bias_below(_reduced(np.minimum, layer.bias, rows), terms)),
            read_only(bias_above(_reduced(np.maximum, layer.bias, rows), terms)),
        )

    def first(self, x: Array) -> Ends:
        """The bounds for inputs of any sign, one per row."""
        positive, negative = np.maximum(x, 0.0), np.maximum(-x, 0.0)
        lower, upper = positive @ self.lower.T + self.bias_lower, positive @ self.upper.T + self.bias_upper
        if negative.any():
            lower, upper = lower - negative @ self.upper.T, upper - negative @ self.lower.T
        return at_least(lower), at_most(upper)

    def __call__(self, low: Array, high: Array) -> Ends:
        """The bounds for intervals [low, high] of numbers >= 0."""
        (lower_up, lower_down), (upper_up, upper_down) = self._parts
        lower = low @ lower_up + high @ lower_down + self.bias_lower
        upper = high @ upper_up + low @ upper_down + self.bias_upper
        return at_least(lower), at_most(upper)

    @cached_property
    def _parts(self) -> tuple[Ends, Ends]:
        """The positive and the negative part of both weights, transposed."""
        lower, upper = ((np.maximum(weight, 0.0).T, np.minimum(weight, 0.0).T) for weight in (self.lower, self.upper))
        return lower, upper


@dataclass(frozen=True, eq=False)
class IntervalNetwork:
    """The abstraction: one partition and one interval layer per ReLU layer, and the interval layer of the outputs."""

    network: Network
    partitions: tuple[Partition, ...]
    layers: tuple[IntervalLayer, ...]

    @classmethod
    def of(
        cls, network: Network, partitions: Sequence[Partition], progress: Progress | None = None
    ) -> "IntervalNetwork":
        sides = [_singletons(network.inputs), *partitions, _singletons(network.outputs)]
        layers = []
        for number, layer in enumerate(network.layers):
            layers.append(IntervalLayer.of(layer, sides[number + 1], sides[number]))
            if progress is not None:
                progress(number + 1, len(network.layers))
        return cls(network, tuple(partitions), tuple(layers))

    @property
    def domain(self) -> Box:
        return everywhere(self.network.inputs)

    @property
    def relus_per_layer(self) -> tuple[int, ...]:
        return tuple(len(partition) for partition in self.partitions)

    def __call__(self, x: ArrayLike) -> Ends:
        """The bounds for one input, or one row of bounds per row of a batch."""
        return evaluate(self.network, self.domain, x, self._bounds)

    def _bounds(self, batch: Array) -> Ends:
        lower, upper = self.layers[0].first(batch)
        for layer in self.layers[1:]:
            lower, upper = layer(np.maximum(lower, 0.0), np.maximum(upper, 0.0))
        return lower, upper

    def margin(self, x: ArrayLike) -> Array:
        lower, upper = self(x)
        return upper - lower

    @np.errstate(over="ignore", invalid="ignore")
    def refined(self, x: ArrayLike, count: int = 1) -> "IntervalNetwork":
        """The `count` subsets that cost most at an input are cut in two, where their members' values part most.

        The authors give no refinement; this undoes their merging, guided in the way of Elboher et al."""
        values = [np.maximum(y, 0.0) for y in self.network.pre_activations(self.network.flat(x))]
        entering = [self.network.flat(x), *values]
        ranked = sorted(
            ((self._cost(layer, number, entering[layer]), layer, number) for layer, number in self._merged()),
            key=lambda entry: (-entry[0], *entry[1:]),
        )
        if not ranked:
            return self
        chosen = {(layer, number) for _, layer, number in ranked[:count]}
        partitions = []
        for layer, partition in enumerate(self.partitions):
            y = self.network.layers[layer](entering[layer])
            parts = [_cut(s, y) if (layer, n) in chosen else (s,) for n, s in enumerate(partition.subsets)]
            partitions.append(Partition(tuple(subset for part in parts for subset in part)))
        return IntervalNetwork.of(self.network, partitions)

    def _merged(self) -> list[tuple[int, int]]:
        return [
            (layer, number)
            for layer, partition in enumerate(self.partitions)
            for number, subset in enumerate(partition.subsets)
            if len(subset) > 1
        ]

    def _cost(self, layer: int, number: int, x: Array) -> float:
        """How far apart the merged weights let the members be at the values x, times the weights behind them."""
        members = list(self.partitions[layer].subsets[number])
        own, behind = self.network.layers[layer], self.network.layers[layer + 1]
        rows, bias = dense(own.weight[members]), own.bias[members]
        width = np.ptp(rows, axis=0) @ np.abs(x) + np.ptp(bias)
        return float(width * np.abs(dense(behind.weight[:, members])).sum())


def interval_network(
    network: Network, counts: Sequence[int], *, seed: int = 0, progress: Progress | None = None
) -> IntervalNetwork:
    """The abstraction with `counts[l]` merged neurons in ReLU layer l: random pairs are merged until no more are left.

    Prabhakar and Afzal leave the choice open; random pairs are what the GINNACER paper compares with."""
    if len(counts) != len(network.layers) - 1 or min(counts, default=1) < 1:
        raise AbstractionError(f"{len(network.layers) - 1} ReLU layers need as many counts, each of at least 1")
    random = np.random.default_rng(seed)
    partitions, built = [_singletons(network.inputs)], []
    for number, layer in enumerate(network.layers):
        last = number == len(counts)
        partitions.append(
            _singletons(layer.outputs) if last else merge_at_random(layer.outputs, counts[number], random)
        )
        built.append(IntervalLayer.of(layer, partitions[-1], partitions[-2]))
        if progress is not None:
            progress(number + 1, len(network.layers))
    return IntervalNetwork(network, tuple(partitions[1:-1]), tuple(built))


def merge_at_random(neurons: int, count: int, random: np.random.Generator) -> Partition:
    """Two random subsets become one, until `count` are left."""
    subsets = [[neuron] for neuron in range(neurons)]
    while len(subsets) > count:
        first, second = random.choice(len(subsets), size=2, replace=False)
        subsets[first] += subsets[second]
        subsets[second] = subsets[-1]
        subsets.pop()
    return Partition(tuple(tuple(subset) for subset in subsets))


def _singletons(neurons: int) -> Partition:
    return Partition(tuple((neuron,) for neuron in range(neurons)))


def _reduced(function: np.ufunc, values: Array, partition: Partition) -> Array:
    """The minimum or maximum over the rows of each subset."""
    order = np.concatenate([np.array(subset) for subset in partition.subsets])
    starts = np.cumsum([0] + [len(subset) for subset in partition.subsets[:-1]])
    return np.asarray(function.reduceat(values[order], starts, axis=0))


def _cut(subset: tuple[int, ...], y: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A subset in two, at the widest gap between its members' values."""
    members = sorted(subset, key=lambda neuron: (y[neuron], neuron))
    place = int(np.argmax(np.diff(y[members]))) + 1
    return tuple(members[:place]), tuple(members[place:])
