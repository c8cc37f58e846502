"""Who shares a ReLU with whom, what a witness exploited of it, and what became of it: for refinement and for traces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Sharing:
    """The ReLUs of one layer: neurons that share one, that have their own, and that have only lines in its place."""

    shared: tuple[tuple[int, ...], ...] = ()
    exact: tuple[int, ...] = ()
    relaxed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Exploited:
    """How far the property moved because some neurons of a layer, from 0, share a ReLU or lack their own."""

    layer: int
    neurons: tuple[int, ...]
    amount: float


@dataclass(frozen=True)
class Split:
    """Neurons of a layer that shared a ReLU, or one that had lines for it; the parts they are in now; those exact."""

    layer: int
    neurons: tuple[int, ...]
    into: tuple[tuple[int, ...], ...]
    exact: tuple[int, ...]


def splits(before: Sequence[Sharing], after: Sequence[Sharing]) -> tuple[Split, ...]:
    """What changed from one abstraction to the next."""
    return tuple(one for n, (old, new) in enumerate(zip(before, after, strict=True)) for one in _splits(n, old, new))


def _splits(layer: int, old: Sharing, new: Sharing) -> Iterator[Split]:
    same = set(new.shared)
    units = [*(subset for subset in old.shared if subset not in same), *((i,) for i in old.relaxed)]
    exact, relaxed = set(new.exact), set(new.relaxed)
    for unit in units:
        if set(unit) <= relaxed:
            continue
        parts = [tuple(i for i in subset if i in unit) for subset in new.shared]
        alone = tuple(i for i in unit if i in exact)
        yield Split(layer, unit, (*(part for part in parts if part), *((i,) for i in alone)), alone)
