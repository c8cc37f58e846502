"""What an engine tells those who want a certificate: how it cut regions, and with which multipliers it closed them.

Nothing of it is believed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.properties.property import Disjunct, Property

MARGIN = 1e-7
"""What is claimed stays so far below what was found, relative to 1 and to its size: a checker rounds otherwise."""


@dataclass(eq=False)
class Grown:
    """Trees of decisions, as far as they prove something. Nodes have numbers, that of a tree's root is its row.

    `splits` has the ReLU at which a node was split, and its first child: active, then inactive. A leaf has a byte per
    ReLU, 128 times the slope of its lower line, and multipliers of some decisions. ReLUs stand in the order of
    `kept`: which neurons of each layer there are."""

    kept: tuple[NDArray[np.intp], ...]
    splits: dict[int, tuple[int, int]] = field(default_factory=dict)
    leaves: dict[int, tuple[bytes, NDArray[np.intp], NDArray[np.float32]]] = field(default_factory=dict)

    def place(self, position: int) -> tuple[int, int]:
        """Layer and neuron of a ReLU."""
        for layer, some in enumerate(self.kept):
            if position < len(some):
                return layer, int(some[position])
            position -= len(some)
        raise IndexError(position)


@dataclass(frozen=True, eq=False)
class Claims:
    """Bounds of neurons of a layer: `sign * value >= sign * at`, each by the tree of a row."""

    layer: int
    claims: tuple[tuple[int, int, float, int], ...]
    """Neuron, sign, at, row."""
    grown: Grown


@dataclass(frozen=True, eq=False)
class Closed:
    """A disjunct that is out of reach: which row of its part says so, by the tree of which row."""

    disjunct: int
    row: int
    tree: int
    grown: Grown


@dataclass(frozen=True, eq=False)
class Halved:
    """A ReLU that was decided, and what followed where it is active and where it is inactive."""

    layer: int
    neuron: int
    active: "Story"
    inactive: "Story"


@dataclass(eq=False)
class Story:
    """What happened on a region, in order."""

    events: list[Claims | Closed | Halved] = field(default_factory=list)


class Record:
    """By disjunct of a property, the input at which each box was halved (a box is known by the ends of its inputs); or
    by its disjuncts, what happened on each box."""

    def __init__(self, prop: Property | None = None) -> None:
        self.number = {id(disjunct): k for k, disjunct in enumerate(prop.disjuncts if prop else ())}
        self.halved: dict[tuple[int, bytes], int] = {}
        self.together: dict[int, tuple[int, ...]] = {}
        """Disjuncts whose boxes were halved together."""
        self.stories: dict[tuple[int, ...], Story] = {}
        self.network: Any = None

    def halve(self, disjuncts: Sequence[Disjunct], low: Array, high: Array, index: int) -> None:
        numbers = tuple(self.number[id(disjunct)] for disjunct in disjuncts)
        self.together |= dict.fromkeys(numbers, numbers)
        self.halved[numbers[0], low.tobytes() + high.tobytes()] = index

    def cut_of(self, disjunct: int, low: Array, high: Array) -> int | None:
        """The input at which a box of a disjunct, or of those that were halved with it, was halved, if it was."""
        return self.halved.get(
            (self.together.get(disjunct, (disjunct,))[0], np.asarray(low).tobytes() + np.asarray(high).tobytes())
        )
