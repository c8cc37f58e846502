"""Network Abstractions (Elboher, Gottschlich and Katz 2020): four copies of each neuron, merged by max and min.

A neuron is *inc* where a larger value of it only ever makes an upper bound larger (or a lower bound smaller), *dec*
where a smaller one does; *pos* or *neg* is the sign of all of its outgoing weights. Each neuron is copied for every of
the four kinds that it is needed in:

    upper bounds read  pos-inc copies with positive weights and neg-dec copies with negative ones
    lower bounds read  pos-dec copies with positive weights and neg-inc copies with negative ones

Inc copies are upper bounds themselves, dec copies are lower bounds, and so on backwards. Copies of one kind are merged:
incoming weights by max (inc) or min (dec), outgoing weights are added up. Since values are >= 0, the merged network
bounds the original. Negative inputs go through the pre-layer relu(x), relu(-x) of the GINNACER paper.

What comes out depends on the order of merging. With j over the neurons of a subset of one layer and i over those of a
subset of the next, the weight between two inc subsets is

    "sum-first"   max_i sum_j w_ij    layers merged from the first to the last: each sees what is left of the one before
    "max-first"   sum_j max_i w_ij    from the last to the first

Either is sound; sum-first is never wider for the same subsets, and is the default. The authors describe the merging of
two neurons and leave the order open; code that is built on theirs (NARv, core/utils/ar_utils.py) sums maxima.

The loop turns a property into one output of which a lower bound is needed; `sides` says which bounds are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ginnacer_verify.arrays import Array, Weight, dense, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.rivals.rival import (
    Ends,
    Progress,
    above,
    at_least,
    at_most,
    bias_above,
    evaluate,
    everywhere,
)

Kind = Literal["pos-inc", "neg-inc", "pos-dec", "neg-dec"]
KINDS: tuple[Kind, ...] = ("pos-inc", "neg-inc", "pos-dec", "neg-dec")
INC: tuple[Kind, ...] = KINDS[:2]
READ_BY_UPPER: tuple[Kind, ...] = ("pos-inc", "neg-dec")
READ_BY_LOWER: tuple[Kind, ...] = ("pos-dec", "neg-inc")
Sides = Literal["both", "lower"]
Order = Literal["sum-first", "max-first"]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Copies:
    """The copies of one layer in the order of their kinds: which neuron each copies, and its subset.

    Subsets are numbered in the order of their first copies, so those of one kind are next to each other too."""

    neuron: Labels
    kind: Labels
    subset: Labels

    def __len__(self) -> int:
        """How many subsets, which is how many ReLUs."""
        return int(self.subset.max()) + 1 if len(self.subset) else 0

    def of_kind(self, kind: Kind) -> NDArray[np.bool_]:
        return np.asarray(self.kind == KINDS.index(kind))

    @cached_property
    def inc(self) -> NDArray[np.bool_]:
        """Which subsets are inc."""
        inc = np.zeros(len(self), dtype=np.bool_)
        inc[self.subset] = self.kind < len(INC)
        return inc

    def relabelled(self, subset: Labels) -> "Copies":
        _, first, inverse = np.unique(subset, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return Copies(self.neuron, self.kind, rank[inverse])


@dataclass(frozen=True, eq=False)
class MergedLayer:
    """What enters the subsets of a layer, over the subsets of the layer before (layer 1: over relu(x), relu(-x))."""

    weight: Array
    bias: Array


@dataclass(frozen=True, eq=False)
class NetworkAbstraction:
    """The abstraction: the copies and merged weights of each ReLU layer, and the outputs' upper or lower rows."""

    network: Network
    sides: Sides
    order: Order
    copies: tuple[Copies, ...]
    layers: tuple[MergedLayer, ...]
    upper: MergedLayer
    lower: MergedLayer

    @property
    def domain(self) -> Box:
        return everywhere(self.network.inputs)

    @property
    def relus_per_layer(self) -> tuple[int, ...]:
        return tuple(len(copies) for copies in self.copies)

    def __call__(self, x: ArrayLike) -> Ends:
        """The bounds for one input, or one row of bounds per row of a batch; the upper ones only if they were built."""
        return evaluate(self.network, self.domain, x, self._bounds)

    def _bounds(self, batch: Array) -> Ends:
        negative = np.maximum(-batch, 0.0)
        first = self.layers[0]
        values = np.maximum(batch, 0.0) @ first.weight[:, : batch.shape[1]].T
        if negative.any():
            values = values + negative @ first.weight[:, batch.shape[1] :].T
        values = self._relu(0, values + first.bias)
        for number, layer in enumerate(self.layers[1:], start=1):
            values = self._relu(number, values @ layer.weight.T + layer.bias)
        lower = values @ self.lower.weight.T + self.lower.bias
        if self.sides == "lower":
            return lower, np.full_like(lower, np.inf)
        return lower, values @ self.upper.weight.T + self.upper.bias

    def _relu(self, number: int, y: Array) -> Array:
        if not np.isfinite(y).all():
            y = np.where(self.copies[number].inc, at_most(y), at_least(y))
        return np.maximum(y, 0.0)

    def margin(self, x: ArrayLike) -> Array:
        lower, upper = self(x)
        return upper - lower

    def lower_network(self, *, nonnegative: bool = False) -> Network:
        """The lower bounds as a network of its own; its pre-layer is left out where inputs are never negative."""
        n = self.network.inputs
        first = Layer(self.layers[0].weight[:, :n] if nonnegative else self.layers[0].weight, self.layers[0].bias)
        pre = [] if nonnegative else [Layer(np.vstack([np.eye(n), -np.eye(n)]), np.zeros(2 * n))]
        rest = [Layer(layer.weight, layer.bias) for layer in (*self.layers[1:], self.lower)]
        return Network((*pre, first, *rest))

    @np.errstate(over="ignore", invalid="ignore")
    def refined(self, x: ArrayLike, count: int = 1) -> "NetworkAbstraction":
        """The `count` copies whose merging matters most at an input leave their subsets.

        Elboher et al.: the largest difference of an incoming weight to that of the merged neuron, times the value of
        the original neuron at the input. Where all of these are 0, the difference alone decides."""
        values = [np.maximum(y, 0.0) for y in self.network.pre_activations(self.network.flat(x))][:-1]
        ranked: list[tuple[float, float, int, int]] = []
        for number, (copies, change) in enumerate(zip(self.copies, self._changes(), strict=True)):
            together = np.flatnonzero(np.bincount(copies.subset)[copies.subset] > 1)
            score = change * values[number][copies.neuron]
            ranked += [(-float(score[k]), -float(change[k]), number, int(k)) for k in together]
        if not ranked:
            return self
        labels = [copies.subset.copy() for copies in self.copies]
        for _, _, number, k in sorted(ranked)[:count]:
            labels[number][k] = labels[number].max() + 1
        finer = [old.relabelled(label) for old, label in zip(self.copies, labels, strict=True)]
        return _built(self.network, self.sides, self.order, finer)

    def _changes(self) -> Iterator[Array]:
        """How much the merging changed the weights of each copy at most, layer by layer."""
        before: Copies | None = None
        for layer, copies in zip(self.network.layers, self.copies, strict=False):
            rows = _rows(layer, copies, before, self.order)
            yield np.asarray(np.abs(rows - _outermost(rows, copies)[copies.subset]).max(axis=1, initial=0.0))
            before = copies


def network_abstraction(
    network: Network,
    counts: Sequence[int],
    *,
    sides: Sides = "both",
    order: Order = "sum-first",
    progress: Progress | None = None,
) -> NetworkAbstraction:
    """The abstraction with `counts[l]` subsets in ReLU layer l, merged greedily; fewer than one per kind cannot be.

    Elboher et al., the greedy choice of their initial abstraction: the pair whose incoming weights, the bias among
    them, differ least in their largest difference. Departs from them: a fixed number of ReLUs for each layer, as the
    GINNACER paper compares, instead of stopping at the first spurious counterexample."""
    if len(counts) != len(network.layers) - 1 or min(counts, default=1) < 1:
        raise AbstractionError(f"{len(network.layers) - 1} ReLU layers need as many counts, each of at least 1")
    chosen: list[Copies] = []
    built: list[MergedLayer] = []
    for number, fresh in enumerate(_copies(network, sides)):
        layer, before = network.layers[number], chosen[-1] if chosen else None
        rows = _rows(layer, fresh, before, order)
        chosen.append(_merged(rows, layer.bias, fresh, counts[number]))
        built.append(_merged_layer(rows, layer, chosen[-1], before, order))
        if progress is not None:
            progress(number + 1, len(counts))
    return NetworkAbstraction(network, sides, order, tuple(chosen), tuple(built), *_outputs(network, chosen[-1]))


def _built(network: Network, sides: Sides, order: Order, copies: Sequence[Copies]) -> NetworkAbstraction:
    layers = []
    for layer, own, before in zip(network.layers, copies, [None, *copies], strict=False):
        layers.append(_merged_layer(_rows(layer, own, before, order), layer, own, before, order))
    return NetworkAbstraction(network, sides, order, tuple(copies), tuple(layers), *_outputs(network, copies[-1]))


def _copies(network: Network, sides: Sides) -> Iterator[Copies]:
    """Every copy that is needed, each alone, layer by layer: found backwards, from what reads it."""
    needed = [(dense(network.layers[-1].weight), True, sides == "both")]  # rows; read by lower bounds, by upper ones
    found: list[Copies] = []
    for number in range(len(network.layers) - 2, -1, -1):
        positive, negative = (np.zeros((2, network.layers[number].outputs), dtype=np.bool_) for _ in range(2))
        for rows, by_lower, by_upper in needed:
            for reader, wanted in enumerate((by_lower, by_upper)):
                positive[reader] |= wanted & (rows > 0).any(axis=0)
                negative[reader] |= wanted & (rows < 0).any(axis=0)
        per_kind = [np.flatnonzero(mask) for mask in (positive[1], negative[0], positive[0], negative[1])]
        neuron = np.concatenate(per_kind)
        kind = np.repeat(np.arange(len(KINDS)), [len(neurons) for neurons in per_kind])
        found.append(Copies(neuron, kind, np.arange(len(neuron))))
        weight = dense(network.layers[number].weight)
        inc, dec = neuron[kind < len(INC)], neuron[kind >= len(INC)]
        needed = [(weight[np.unique(dec)], True, False), (weight[np.unique(inc)], False, True)]
    yield from reversed(found)


def _rows(layer: Layer, copies: Copies, before: Copies | None, order: Order) -> Array:
    """The incoming weights of every copy, over the subsets of the layer before.

    For max-first, their positive and their negative parts over its neurons: they are added up after the merging."""
    if before is None:
        weight = dense(layer.weight)
        return np.hstack([weight, -weight])[copies.neuron]
    positive, negative = _parts(layer.weight)
    if order == "max-first":
        return np.hstack([dense(positive), dense(negative)])[copies.neuron]
    inc = copies.kind < len(INC)
    upper, lower = (_added(positive, negative, before, kinds) for kinds in (READ_BY_UPPER, READ_BY_LOWER))
    return np.vstack([upper[copies.neuron[inc]], lower[copies.neuron[~inc]]])  # inc copies come first


def _parts(weight: Weight) -> tuple[Weight, Weight]:
    """The positive and the negative entries of a matrix."""
    if isinstance(weight, np.ndarray):
        return np.maximum(weight, 0.0), np.minimum(weight, 0.0)
    return weight.maximum(0.0), weight.minimum(0.0)


def _added(positive: Weight, negative: Weight, before: Copies, kinds: Sequence[Kind]) -> Array:
    """The weights on the subsets of these kinds: positive ones on pos, negative ones on neg, added up."""
    summed = np.zeros((positive.shape[0], len(before)))
    for kind in kinds:
        mask = before.of_kind(kind)
        places = before.neuron[mask], before.subset[mask]
        members = csr_array((np.ones(len(places[0])), places), shape=(positive.shape[1], len(before)))
        summed += dense((positive if kind.startswith("pos") else negative) @ members)
    return summed


def _merged(rows: Array, bias: Array, copies: Copies, count: int) -> Copies:
    """Copies of one kind merged until `count` are left; dec rows change their signs, so that max is right for all."""
    from ginnacer_verify.rivals.greedy import merge

    table = np.empty((len(rows), rows.shape[1] + 1))
    sign = np.where(copies.kind < len(INC), 1.0, -1.0)
    np.multiply(rows, sign[:, None], out=table[:, :-1])
    np.multiply(bias[copies.neuron], sign, out=table[:, -1])
    return copies.relabelled(merge(table, copies.kind, count))


def _outermost(values: Array, copies: Copies) -> Array:
    """The largest (inc) or smallest (dec) values of each subset, one row per subset."""
    order = np.argsort(copies.subset, kind="stable")
    starts = np.flatnonzero(np.diff(copies.subset[order], prepend=-1))
    first_dec = np.count_nonzero(copies.kind < len(INC))  # inc copies come first, and so do inc subsets
    inc, dec = order[:first_dec], order[first_dec:]
    largest = np.maximum.reduceat(values[inc], starts[starts < first_dec], axis=0)
    least = np.minimum.reduceat(values[dec], starts[starts >= first_dec] - first_dec, axis=0)
    return np.concatenate([largest, least])


def _merged_layer(rows: Array, layer: Layer, copies: Copies, before: Copies | None, order: Order) -> MergedLayer:
    """The weights and biases of each subset, rounded outwards."""
    weight, bias = _outermost(rows, copies), _outermost(layer.bias[copies.neuron], copies)
    if order == "max-first" and before is not None:
        parts, inc = (weight[:, : layer.inputs], weight[:, layer.inputs :]), copies.inc[:, None]
        weight = np.where(inc, _added(*parts, before, READ_BY_UPPER), _added(*parts, before, READ_BY_LOWER))
    sign = np.where(copies.inc, 1.0, -1.0)
    terms = 2 * (layer.inputs + weight.shape[1])  # the sums of outgoing weights, and the product with the values
    weight = above(weight * sign[:, None], terms) * sign[:, None]
    return MergedLayer(read_only(weight), read_only(bias_above(bias * sign, terms) * sign))


def _outputs(network: Network, last: Copies) -> tuple[MergedLayer, MergedLayer]:
    """The rows of the upper and of the lower bounds."""
    layer = network.layers[-1]
    terms = 2 * (layer.inputs + len(last))
    upper, lower = (_added(*_parts(layer.weight), last, kinds) for kinds in (READ_BY_UPPER, READ_BY_LOWER))
    return (
        MergedLayer(read_only(above(upper, terms)), read_only(bias_above(layer.bias, terms))),
        MergedLayer(read_only(-above(-lower, terms)), read_only(-bias_above(-layer.bias, terms))),
    )
