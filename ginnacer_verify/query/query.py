"""Query, what a backend is asked; Answer = Sat | Unsat | Unknown.

A query is the relational abstraction of a network on a box with everything removed that costs nothing: fixed inputs
are constants, stable neurons are folded into the affine maps behind them. What remains are the variables

    z = (varying inputs, outputs of the unstable ReLUs in layer order)

and every value of the network is an affine function of the z before it. The query asks for a z such that, with
y = weight @ z + bias for each unstable ReLU,

    x' >= 0,  x' >= y - slack,  x' <= upper * (y - lower) / (upper - lower) + slack     the triangle
    x' <= active * y + relu(shared weight @ z + shared bias) + slack                    for each kept subset
    unsafe.matrix @ z <= unsafe.offset                                                   the property
    inputs.matrix @ z <= inputs.offset                                                   linear input constraints

Slacks cover the rounding of the folding and the tolerance of solvers: `Unsat` of the query is `unsat` of the network.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.properties.property import Polytope

TOLERANCE = 1e-9
"""What every backend is told to satisfy constraints to, where it can be told."""


@dataclass(frozen=True, eq=False)
class Relus:
    """The unstable ReLUs: position i reads `weight[i] @ z + bias[i]`, which lies in `[lower[i], upper[i]]`.

    `layer` and `neurons` say which ReLUs of the network it serves, several if these share it; a layer of -1 is in front
    of the network. `slack` is the rounding error and tolerance of its rows.
    Strictly triangular: `weight[i]` is zero from the column of the first ReLU of its own layer on."""

    weight: Array
    bias: Array
    lower: Array
    upper: Array
    slack: Array
    layer: NDArray[np.intp]
    neurons: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.bias)


@dataclass(frozen=True, eq=False)
class Shared:
    """A kept subset: one ReLU, `relu(weight @ z + bias)` with values in `[lower, upper]`, over all its members.

    Paper: Layer-Wise Upper Bound; weight = V_D, bias = u_D, `active` = the members' entries of A. `members` are
    positions among the unstable ReLUs. A singleton makes its member exact."""

    members: tuple[int, ...]
    active: NDArray[np.bool_]
    weight: Array
    bias: float
    lower: float
    upper: float
    centroid: Array
    """The input at whose trace the members have this form; empty for a singleton, which needs none."""

    @property
    def is_singleton(self) -> bool:
        return len(self.members) == 1


@dataclass(frozen=True, eq=False)
class Base:
    """The part of a query that refinement does not change."""

    box: Box
    """Of the varying inputs."""
    fixed: Array
    """One value per input of the network; those at `varying` are replaced by the first entries of z."""
    varying: NDArray[np.intp]
    relus: Relus
    unsafe: Polytope
    inputs: Polytope
    own: int | None = None
    """How many rows of `inputs` are the property's, if others that make up the abstraction follow them."""

    @property
    def free(self) -> int:
        """The number of varying inputs: z begins with them."""
        return len(self.varying)

    @property
    def size(self) -> int:
        return self.free + len(self.relus)

    @cached_property
    def lower(self) -> Array:
        return read_only(np.concatenate([self.box.lower, np.zeros(len(self.relus))]))

    @cached_property
    def upper(self) -> Array:
        return read_only(np.concatenate([self.box.upper, self.relus.upper + self.relus.slack]))

    @cached_property
    def harmless(self) -> NDArray[np.bool_]:
        """Which ReLUs can only move every unsafe row away from the unsafe set when their x' is larger than relu(y).

        Those of the last layer whose coefficients are nowhere negative: their upper bounds never matter, since with
        relu(y) in the place of x' a solution stays one."""
        columns = slice(self.free, self.size)
        read = (self.relus.weight[:, columns] != 0).any(axis=0) | (self.inputs.matrix[:, columns] != 0).any(axis=0)
        return np.asarray(~read & (self.unsafe.matrix[:, columns] >= 0).all(axis=0))

    @property
    def is_finite(self) -> bool:
        """Whether every number of it is one: what overflows cannot be asked."""
        relus = self.relus
        rows = (relus.weight, relus.bias, relus.slack, self.unsafe.matrix, self.unsafe.offset)
        return all(bool(np.isfinite(part).all()) for part in (self.lower, self.upper, relus.lower, *rows))

    def tightened(self, amount: float) -> "Base":
        """The base with every row of the property moved inwards, so that a solution is one by more than rounding.

        An `Unsat` of it proves nothing about the property."""
        return replace(
            self,
            unsafe=self._inwards(self.unsafe, amount, len(self.unsafe)),
            inputs=self._inwards(self.inputs, amount, len(self.inputs) if self.own is None else self.own),
        )

    def _inwards(self, rows: Polytope, amount: float, count: int) -> Polytope:
        size = np.abs(rows.matrix) @ np.maximum(np.abs(self.lower), np.abs(self.upper))
        moved = amount * (1 + np.abs(rows.offset) + size) * (np.arange(len(rows)) < count)
        return Polytope.of(rows.matrix, rows.offset - moved)

    def input_of(self, z: Array) -> Array:
        """The input of the network that a solution stands for."""
        x = self.fixed.copy()
        x[self.varying] = self.box.clip(z[: self.free])
        return read_only(x)

    def pre_activations(self, z: Array) -> Array:
        """y of every unstable ReLU, as the query sees it."""
        return np.asarray(self.relus.weight @ z + self.relus.bias)


def singleton(base: Base, member: int) -> Shared:
    """The subset that makes one unstable ReLU exact."""
    relus, inactive = base.relus, np.zeros(1, dtype=np.bool_)
    ends = float(relus.bias[member]), float(relus.lower[member]), float(relus.upper[member])
    return Shared((member,), inactive, relus.weight[member], *ends, read_only([]))


@dataclass(frozen=True, eq=False)
class Query:
    """The base and the kept subsets; every other unstable ReLU is relaxed to its triangle."""

    base: Base
    kept: tuple[Shared, ...] = ()

    @property
    def binaries(self) -> int:
        """How many ReLUs the solver has to decide: those kept subsets whose shared ReLU is not stable itself."""
        return sum(shared.lower < 0 < shared.upper for shared in self.kept)

    @property
    def serving(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """For each kept ReLU its layer and the neurons of the network that share it."""
        layer, neurons = self.base.relus.layer, self.base.relus.neurons
        return tuple(
            (int(layer[shared.members[0]]), tuple(n for member in shared.members for n in neurons[member]))
            for shared in self.kept
        )

    def deviation(self, z: Array) -> Array:
        """x' - relu(y) of every unstable ReLU at a solution: what its abstraction gave away there, if it matters."""
        y = self.base.pre_activations(z)
        return np.where(self.base.harmless, 0.0, np.maximum(z[self.base.free :] - np.maximum(y, 0.0), 0.0))

    def violation(self, z: Array) -> float:
        """By how much `z` breaks the worst constraint; at most 0 is a solution. NaN counts as broken without limit.

        Ends of intervals count relative to their size."""
        base, relus = self.base, self.base.relus
        x, y = z[base.free :], base.pre_activations(z)
        width = relus.upper - relus.lower
        size = np.maximum(1.0, np.maximum(np.abs(base.lower), np.abs(base.upper)))
        parts = [
            (base.lower - z) / size,
            (z - base.upper) / size,
            y - x - relus.slack,
            x - relus.upper * (y - relus.lower) / width - relus.slack,
            base.unsafe.matrix @ z - base.unsafe.offset,
            base.inputs.matrix @ z - base.inputs.offset,
        ]
        for shared in self.kept:
            members = np.array(shared.members)
            ceiling = np.where(shared.active, y[members], 0.0) + max(0.0, float(shared.weight @ z) + shared.bias)
            parts.append(x[members] - ceiling - relus.slack[members])
        worst = max((float(np.max(part)) for part in parts if len(part)), default=0.0)
        return worst if all(np.isfinite(part).all() for part in parts) else np.inf


@dataclass(frozen=True, eq=False)
class Sat:
    """A solution `z` of the query: a witness, to be replayed.

    `bound` is a lower bound of the unsafe rows' largest slack if the solver knows one, for reports. `room` is by how
    much it may violate the query: a solver that is told about it in fewer digits solves a slightly larger one."""

    z: Array
    bound: float = field(default=-np.inf)
    room: float = 0.0


@dataclass(frozen=True)
class Unsat:
    """The query has no solution."""


@dataclass(frozen=True)
class Unknown:
    """No answer; `reason` says why and what to try. `timeout`: more time may give one."""

    reason: str
    timeout: bool = False


Answer: TypeAlias = Sat | Unsat | Unknown


def sensitivity(base: Base) -> Array:
    """How each z moves the unsafe rows, the largest over the rows: back-substitution with the triangles' slopes."""
    relus, free = base.relus, base.free
    coefficients = base.unsafe.matrix.copy()
    slope = relus.upper / (relus.upper - relus.lower)
    for number in np.unique(relus.layer)[::-1]:
        here = np.flatnonzero(relus.layer == number)
        coefficients += (coefficients[:, free + here] * slope[here]) @ relus.weight[here]
    return np.asarray(np.abs(coefficients).max(axis=0, initial=0.0))
