"""Table: what a network looks up by whole numbers, a position in an image say; and which inputs count as whole only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.function import Arrays
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input
from ginnacer_verify.graph.linear import NOTHING, Indices, Select
from ginnacer_verify.graph.steps import Flat, Truncate

FEW = 64
"""With more combinations of whole numbers than this in a box nothing is said about the values: it is cut anyway."""
KEPT = 256
"""So many entries are remembered."""
Place = tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Table(Flat):
    """Value `j` is `values(t)[j]`, with `t` the whole numbers that are left of its arguments when they are cut off.

    What `values` gives broadcasts to the node's size; it is NaN where the table has no entry."""

    values: Callable[[Array], Array]
    arity: int = 1
    cuts = "trunc"
    known: dict[Place, Array] = field(default_factory=dict, repr=False)

    def apply(self, *y: Array) -> Array:
        return np.asarray(self._looked_up(y, 1, lambda t: self._entry(t)[None])[0])

    def range(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """The least and the largest entry; anything, if there are many or if one is missing."""
        found = self._looked_up((*lower, *upper), 2, self._between)
        return found[0], found[1]

    def cut(self, lower: Arrays, upper: Arrays) -> tuple[Array, Array]:
        """At a step of the argument that takes most whole numbers."""
        pairs = list(zip(lower, upper, strict=True))
        which = np.stack([np.trunc(high) - np.trunc(low) for low, high in pairs]).argmax(axis=0)
        cuts = np.stack([Truncate().cut((low,), (high,))[1] for low, high in pairs])
        return which, np.take_along_axis(cuts, which[None], axis=0)[0]

    def _looked_up(self, numbers: Sequence[Array], count: int, entry: Callable[[Place], Array]) -> Array:
        """`count` values for each element, `entry` being asked once for those of a row that have the same numbers."""
        shape = np.broadcast_shapes(*(one.shape for one in numbers))
        whole = np.stack([np.broadcast_to(np.trunc(one), shape) for one in numbers])
        whole = whole.reshape(len(numbers), prod(shape[:-1]), shape[-1])
        found = np.empty((count, *whole.shape[1:]))
        for row in range(whole.shape[1]):
            places, of = whole[:, row, :1], np.zeros(shape[-1], dtype=np.intp)
            if (whole[:, row] != places).any():
                places, of = np.unique(whole[:, row], axis=1, return_inverse=True)
            for number, place in enumerate(places.T):
                at = of.reshape(-1) == number
                found[:, row, at] = np.broadcast_to(entry(tuple(place.tolist())), (count, shape[-1]))[:, at]
        return found.reshape(count, *shape)

    def _entry(self, t: Place) -> Array:
        if t not in self.known:
            if len(self.known) >= KEPT:
                self.known.clear()
            self.known[t] = np.atleast_1d(np.asarray(self.values(np.array(t)), dtype=np.float64))
        return self.known[t]

    def _between(self, ends: Place) -> Array:
        lower, counts = ends[: self.arity], [b - a + 1 for a, b in zip(ends, ends[self.arity :], strict=False)]
        anything = np.array([[-np.inf], [np.inf]])
        if not prod(counts) <= FEW:
            return anything
        steps = product(*(range(int(count)) for count in counts))
        entries = [self._entry(tuple(a + k for a, k in zip(lower, step, strict=True))) for step in steps]
        all_of_them = np.stack(np.broadcast_arrays(*entries))
        found = np.stack([all_of_them.min(axis=0), all_of_them.max(axis=0)])
        return np.where(np.isnan(found), anything, found)


USES = {"floor": 1, "trunc": 2, "": 3}
"""Two uses of an input together are their bitwise or: as it is, if they differ."""
WHOLE: dict[int, Callable[[Array], Array]] = {1: np.floor, 2: np.trunc}


def stepped(graph: Graph) -> dict[int, Callable[[Array], Array]]:
    """The inputs that matter only as whole numbers, each with what makes these of it.

    Nothing takes such an input but functions whose value depends on the whole numbers alone: so all real inputs that
    have the same ones are one to the network."""
    use = np.zeros(graph.inputs, dtype=np.intp)
    copies: list[Indices | None] = []  # which input each value of a node is a copy of, NOTHING for none
    for node in graph.nodes:
        copy: Indices | None = None
        match node:
            case Input():
                copy = np.arange(node.start, node.start + node.size)
            case Affine():
                copy = _copied(node, copies, use)
            case Apply():
                for source in node.sources:
                    _mark(use, copies[source], USES[node.function.cuts])
        copies.append(copy)
    _mark(use, copies[-1], USES[""])
    return {int(i): WHOLE[int(use[i])] for i in np.flatnonzero(np.isin(use, list(WHOLE)))}


def _copied(node: Affine, copies: Sequence[Indices | None], use: NDArray[np.intp]) -> Indices | None:
    """The inputs that a selection copies; what any other map takes is used."""
    for source, one in zip(node.sources, node.maps, strict=True):
        copy = copies[source]
        if copy is not None and node.moves and isinstance(one, Select):
            return np.where(one.index == NOTHING, NOTHING, copy[one.index])
        if copy is not None:
            _mark(use, copy[one.absolute().pull_back(np.ones((1, one.outputs)))[0] != 0], USES[""])
    return None


def _mark(use: NDArray[np.intp], copy: Indices | None, kind: int) -> None:
    if copy is not None:
        taken = copy[copy != NOTHING]
        use[taken] |= kind
