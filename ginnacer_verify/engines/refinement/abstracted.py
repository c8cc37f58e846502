"""What the loop needs of an abstraction, and what a refinement is given and gives.

An abstraction of one disjunct on a box is a frozen value: it says what to ask, and what it gave away at a solution that
turned out to be spurious. A refinement is a function from such a Situation to a finer abstraction, or to two halves of
the box; it gives the same abstraction back when nothing is left to refine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.abstraction.inputs import Mode
from ginnacer_verify.abstraction.partitioning.strategies import Strategy, first_fit
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.engines.parts import Bounded, Part
from ginnacer_verify.engines.refinement.sharing import Exploited, Sharing
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Property
from ginnacer_verify.query.query import Query

FLOOR = 0.01
"""What an input counts for that does not move anything, as a share of the one that moves most."""


class Abstracted(Protocol):
    """An abstraction of one disjunct on a box."""

    @property
    def box(self) -> Box: ...
    @property
    def query(self) -> Query:
        """What is asked: if it has no solution, no input of the box is unsafe."""
        ...

    @property
    def sharing(self) -> tuple[Sharing, ...]:
        """Who shares a ReLU with whom, layer by layer."""
        ...

    def exploited(self, z: Array) -> list[Exploited]:
        """What it gave away at a solution, most of it first; what can still be refined is all there."""
        ...


A = TypeVar("A", bound=Abstracted)


@dataclass(frozen=True, eq=False)
class Situation(Generic[A]):
    """A spurious solution `z` of an abstraction's query; `count` is how many ReLUs to refine now."""

    abstracted: A
    z: Array
    count: int
    random: np.random.Generator
    deadline: Deadline = FOREVER


@dataclass(frozen=True, eq=False)
class Bisection:
    """The two halves of the box, to be verified one by one."""

    halves: tuple[Box, Box]


Refine: TypeAlias = Callable[[Situation[Any]], Abstracted | Bisection]


def bisected(box: Box, *slopes: Array) -> Bisection:
    """The box cut in the middle of the input that some slopes say moves most.

    Inputs with no slope count for a little, lest they stay wide for ever: slopes change as the box shrinks."""
    moves = np.zeros(box.inputs)
    for slope in slopes:
        total = float(slope @ box.width)
        if 0 < total < np.inf:
            moves += (slope + FLOOR * slope.max()) * box.width / total
    at = int(np.argmax(moves if moves.any() else box.width))
    middle = box.middle[at]
    upper, lower = box.upper.copy(), box.lower.copy()
    upper[at] = lower[at] = middle
    return Bisection((Box(box.lower, upper), Box(lower, box.upper)))


@dataclass(frozen=True, eq=False)
class Options:
    """How abstractions begin: `initial` is the relational one's, all else is the paper's (`abstract`).

    Without a centroid it is the middle of the box. `saved` is an abstraction of the network to start from."""

    initial: str = "relaxed"
    centroid: Array | None = None
    strategy: str | Strategy | Sequence[str | Strategy] = first_fit
    layers: Sequence[int] | None = None
    inputs: Mode | None = None
    clip: bool = False
    saved: Abstraction | None = None


USUAL = Options()


@dataclass(frozen=True, eq=False)
class Region:
    """A disjunct of a property on a box inside of its own, to be abstracted."""

    network: Network
    prop: Property
    number: int
    part: Part
    bounded: Bounded | None
    random: np.random.Generator
    deadline: Deadline = FOREVER

    @property
    def box(self) -> Box:
        return self.part.box

    @property
    def disjunct(self) -> Disjunct:
        return self.prop.disjuncts[self.number]

    @property
    def is_whole(self) -> bool:
        """Whether the box is the disjunct's own."""
        own = self.disjunct.box
        return bool((own.lower == self.box.lower).all() and (own.upper == self.box.upper).all())

    def bounds(self) -> Bounded:
        """Linear bounds of the network on the box."""
        return self.bounded or Bounded.of(self.network, self.prop, self.part, self.deadline)


@dataclass(frozen=True)
class Method:
    """An abstraction by name: how it starts on a region, how it can be refined, the usual way first.

    `resume` starts from what is known of another disjunct on the same box. `bounds`: whether linear bounds, which it
    needs anyway, are tried before it. `executed`: whether it knows networks in other than real arithmetic."""

    name: str
    start: Callable[[Region, Options], Abstracted]
    refinements: Mapping[str, Refine] = field(default_factory=dict)
    resume: Callable[[Abstracted, Abstracted], Abstracted] | None = None
    bounds: bool = False
    executed: bool = False
