"""One ReLU layer of an abstraction, with shared ReLUs or with all of its own."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.abstraction.deviation import Concrete, ExactRelu, Map, SharedRelu
from ginnacer_verify.abstraction.icf import ICF, Anchor, canonical_form, scaled
from ginnacer_verify.abstraction.partition import Partition, UpperBound, upper_bound
from ginnacer_verify.abstraction.partitioning.strategies import Strategy
from ginnacer_verify.arrays import Array, Weight
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Layer


@dataclass(frozen=True, eq=False)
class AbstractLayer:
    """A ReLU layer whose neurons share ReLUs; `y` are its pre-activations at the centroid.

    Paper: Layer-Wise Abstraction; icf holds A, S W and S b, partition P, bound V and u. Departs from it: `concrete`
    neurons, singletons whose lower bound keeps the ReLU too, which is what refinement ends in."""

    layer: Layer
    y: Array
    anchor: Anchor
    icf: ICF
    partition: Partition
    bound: UpperBound
    concrete: frozenset[int] = frozenset()

    @classmethod
    def of(cls, layer: Layer, x: Array, y: Array, anchor: Anchor, choose: Strategy) -> "AbstractLayer":
        """Paper: Algorithm "Compute GINNACER Parameters", one turn of its loop, in its order."""
        icf = canonical_form(layer, x, y, anchor)
        partition = choose(icf)
        return cls(layer, y, anchor, icf, partition, _valid_bound(icf, partition))

    def with_partition(self, partition: Partition, concrete: Iterable[int] = ()) -> "AbstractLayer":
        chosen = frozenset(concrete)
        if not chosen <= {subset[0] for subset in partition.subsets if len(subset) == 1}:
            raise AbstractionError("only a neuron that shares its ReLU with no other can be concrete: split it off")
        return replace(self, partition=partition, bound=_valid_bound(self.icf, partition), concrete=chosen)

    @property
    def parts(self) -> bool:
        """Whether its two bounds differ even where those of its inputs do not."""
        return len(self.concrete) < self.layer.outputs

    @property
    def shared_weight(self) -> Weight:
        """V as weights of x itself instead of its distances from the anchor."""
        return scaled(self.bound.weight, np.ones(len(self.partition)), self.anchor.side)

    @cached_property
    def alone(self) -> NDArray[np.bool_]:
        """Which neurons are singletons."""
        return np.asarray(np.bincount(self.partition.subset_of)[self.partition.subset_of] == 1)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Active singletons, other active neurons, inactive singletons, other inactive ones; see `SharedRelu`."""
        return np.lexsort((~self.alone, ~self.icf.active))

    def stage(self, own: Layer, columns: NDArray[np.intp], clip: bool) -> SharedRelu:
        """The layer on deviations that come in the order `columns` and leave in `order`; `own`: without a pre-layer."""
        active, alone = self.icf.active[self.order], self.alone[self.order]
        subset_of = self.partition.subset_of[self.order]
        several = np.setdiff1d(np.arange(len(self.partition)), subset_of[alone])
        numbers = np.concatenate([subset_of[alone], several])
        width = columns if own is self.layer else np.arange(own.inputs)
        return SharedRelu(
            Map(own.weight[self.order[active | alone]][:, width]),
            Map(self.shared_weight[several][:, columns]),
            self.bound.potential[numbers],
            np.argsort(numbers)[subset_of],
            int((active & alone).sum()),
            int(active.sum()),
            -self.y[self.order[active]] if clip else None,
            self._concrete(active | alone) if self.concrete else None,
        )

    def _concrete(self, rows: NDArray[np.bool_]) -> Concrete:
        """The concrete neurons, where `rows` are the places of all neurons whose y is at hand."""
        places = np.flatnonzero(np.isin(self.order, list(self.concrete)))
        return Concrete(places, np.cumsum(rows)[places] - 1, self.y[self.order[places]])


@dataclass(frozen=True, eq=False)
class ExactLayer:
    """A ReLU layer that is not abstracted."""

    layer: Layer
    y: Array

    @cached_property
    def order(self) -> NDArray[np.intp]:
        return np.arange(self.layer.outputs)

    def stage(self, own: Layer, columns: NDArray[np.intp], clip: bool) -> ExactRelu:
        return ExactRelu(Map(own.weight[:, columns]), self.y)


def _valid_bound(icf: ICF, partition: Partition) -> UpperBound:
    bound = upper_bound(icf, partition)
    if not (bound.potential <= 0).all():
        raise AbstractionError("a subset is not valid at the centroid: split it, or let a strategy choose")
    return bound
