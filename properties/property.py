"""Property: where the input lies and which outputs are unsafe there, as a union of disjuncts.

As in VNN-LIB, a property describes the *bad* behaviour: `sat` means that some input of a disjunct's input set gives an
output of its unsafe set, `unsat` that none does.

Semantics: `unsat` speaks about all real inputs, `sat` needs an input that the network's element type holds. So a box
read from a file comes in two forms: the least float64 box around the text's real one, on which proofs are made, and the
box of exactly those float64 values that satisfy the text, in which witnesses lie. No input of the real box is lost and
no witness lies a rounding error outside of it. A pinned input, with the same number as its closed lower and upper end,
is that number as float64 reads it; the network sees it rounded to its element type.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.box import Ball, Box
from ginnacer_verify.errors import PropertyError, UnsupportedProperty
from ginnacer_verify.shown import Shown

Row: TypeAlias = tuple[dict[int, Fraction], Fraction]
"""The coefficients of a row that are not zero, and its offset."""


@dataclass(frozen=True, eq=False)
class Polytope:
    """All `v` with `matrix @ v <= offset`; `<` in the rows marked strict. No rows: the whole space.

    `exact` has the coefficients and the offset of those rows that float64 cannot hold: they are what counts. Such a row
    of `matrix` is the nearest, off by at most `slop`, and its `offset` is not below the exact one."""

    matrix: Array
    offset: Array
    strict: NDArray[np.bool_]
    exact: Mapping[int, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        matrix, offset = read_only(self.matrix), read_only(self.offset)
        strict = np.array(self.strict, dtype=np.bool_)
        strict.setflags(write=False)
        if matrix.ndim != 2 or offset.shape != (len(matrix),) or strict.shape != (len(matrix),):
            raise PropertyError(
                f"{matrix.shape} coefficients, {offset.shape} offsets and {strict.shape} flags make no polytope"
            )
        if not (np.isfinite(matrix).all() and np.isfinite(offset).all()):
            raise PropertyError("a coefficient of a linear constraint is not a finite number")
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "strict", strict)

    @classmethod
    def of(cls, matrix: ArrayLike, offset: ArrayLike, strict: bool | Sequence[bool] = False) -> "Polytope":
        rows = read_only(matrix)
        return cls(rows, read_only(offset), np.broadcast_to(np.asarray(strict, dtype=np.bool_), (len(rows),)))

    @classmethod
    def everything(cls, dimension: int) -> "Polytope":
        return cls.of(np.zeros((0, dimension)), np.zeros(0))

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def dimension(self) -> int:
        return int(self.matrix.shape[1])

    def row(self, i: int) -> Row:
        """A row in exact arithmetic."""
        if i in self.exact:
            return self.exact[i]
        coefficients = {int(j): Fraction(float(self.matrix[i, j])) for j in np.flatnonzero(self.matrix[i])}
        return coefficients, Fraction(float(self.offset[i]))

    @property
    def slop(self) -> Array:
        """How far each coefficient of `matrix` can be from the exact one."""
        slop = np.zeros(self.matrix.shape)
        for i, (coefficients, _) in self.exact.items():
            for j, coefficient in coefficients.items():
                if error := abs(coefficient - Fraction(float(self.matrix[i, j]))):
                    slop[i, j] = math.nextafter(float(error), math.inf)
        return slop

    def slacks(self, v: ArrayLike | Sequence[Fraction]) -> list[Fraction]:
        """`offset - matrix @ v`, row by row, in exact arithmetic: non-negative (positive if strict) is inside."""
        values = [Fraction(value) for value in (v if isinstance(v, list) else np.asarray(v, np.float64).tolist())]
        rows = (self.row(i) for i in range(len(self)))
        return [
            offset - sum((coefficient * values[j] for j, coefficient in coefficients.items()), Fraction(0))
            for coefficients, offset in rows
        ]

    def __contains__(self, v: ArrayLike | Sequence[Fraction]) -> bool:
        return all(
            slack > 0 if strict else slack >= 0 for slack, strict in zip(self.slacks(v), self.strict, strict=True)
        )


def stacked(polytopes: Sequence[Polytope]) -> Polytope:
    """The rows of all of them, one after the other."""
    exact, start = dict[int, Row](), 0
    for polytope in polytopes:
        exact |= {start + i: row for i, row in polytope.exact.items()}
        start += len(polytope)
    matrix, offset = (np.concatenate([getattr(one, name) for one in polytopes]) for name in ("matrix", "offset"))
    return Polytope(matrix, offset, np.concatenate([one.strict for one in polytopes]), exact)


def beside(first: Polytope, second: Polytope) -> Polytope:
    """All pairs `(u, v)`, one vector, of which `u` is in the first and `v` in the second."""
    matrix = np.zeros((len(first) + len(second), first.dimension + second.dimension))
    matrix[: len(first), : first.dimension] = first.matrix
    matrix[len(first) :, first.dimension :] = second.matrix
    exact = {
        len(first) + i: ({first.dimension + j: value for j, value in coefficients.items()}, offset)
        for i, (coefficients, offset) in second.exact.items()
    }
    offset = np.concatenate([first.offset, second.offset])
    return Polytope(matrix, offset, np.concatenate([first.strict, second.strict]), {**first.exact, **exact})


@dataclass(frozen=True, eq=False)
class Disjunct:
    """Inputs in `box` that satisfy `inputs` and whose outputs satisfy `outputs`.

    Proofs are made on `box`; `inner` holds those float64 inputs of it that satisfy the text. None: all of them."""

    box: Box
    inputs: Polytope
    outputs: Polytope
    inner: Box | None = None
    ball: Ball | None = None
    """Where there is one, inputs lie in it as well."""

    def __post_init__(self) -> None:
        if self.ball is not None and len(self.ball.centre) != self.box.inputs:
            raise PropertyError(f"a box of {self.box.inputs} inputs with a ball of {len(self.ball.centre)}")
        if self.box.inputs != self.inputs.dimension:
            raise PropertyError(f"a box of {self.box.inputs} inputs with constraints on {self.inputs.dimension}")
        if self.inner is not None and self.inner.inputs != self.box.inputs:
            raise PropertyError(f"a box of {self.box.inputs} inputs with an inner box of {self.inner.inputs}")

    @property
    def witnesses(self) -> Box:
        """The box in which counterexamples lie."""
        return self.box if self.inner is None else self.inner

    def contains_input(self, x: ArrayLike) -> bool:
        return x in self.witnesses and x in self.inputs and (self.ball is None or x in self.ball)


@dataclass(frozen=True)
class Variable:
    """The name, element type and shape under which VNN-LIB declares the input or the output."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "Real"

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Declared:
    """A network of a property: its name and variables, and which inputs of the property it is given, in order.

    Inputs that the text says to be equal are one input of the property. `equal_to` names a network that must be the
    same."""

    name: str
    x: Variable
    y: Variable
    inputs: tuple[int, ...]
    equal_to: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Property(Shown):
    """A union of disjuncts, over a network with the variables `x` and `y`.

    `version` is the VNN-LIB version of the text it came from: witnesses are written in the same one. `network` is the
    name under which such a text speaks of the network; VNN-LIB 1.0 gives it none. Of a property about several
    `networks`, `x` is made up of all their different inputs and `y` of their outputs, one network after the other.
    `monomials` are products of inputs `i` and outputs `~j`: polytopes of outputs speak about `y` followed by these."""

    disjuncts: tuple[Disjunct, ...]
    x: Variable
    y: Variable
    version: str = field(default="1.0")
    network: str = ""
    networks: tuple[Declared, ...] = ()
    monomials: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        outputs = self.y.size + len(self.monomials)
        for disjunct in self.disjuncts:
            if disjunct.box.inputs != self.x.size or disjunct.outputs.dimension != outputs:
                raise PropertyError(
                    f"a disjunct over {disjunct.box.inputs} inputs and {disjunct.outputs.dimension} outputs in a "
                    f"property over {self.x.size} and {outputs}"
                )

    @classmethod
    def of(cls, *disjuncts: Disjunct) -> "Property":
        """A property with the plain names of VNN-LIB 1.0."""
        if not disjuncts:
            raise PropertyError("a property needs at least one disjunct to know its inputs and outputs")
        first = disjuncts[0]
        return cls(disjuncts, Variable("X", (first.box.inputs,)), Variable("Y", (first.outputs.dimension,)))

    @property
    def inputs(self) -> int:
        return self.x.size

    @property
    def outputs(self) -> int:
        return self.y.size

    def facts(self) -> dict[str, object]:
        varying = max((len(box.varying) for box in self.boxes), default=0)
        return {
            "inputs": f"{self.inputs} ({varying} varying)",
            "outputs": self.outputs,
            "disjuncts": len(self.disjuncts),
            "VNN-LIB": self.version,
        }

    @property
    def boxes(self) -> tuple[Box, ...]:
        """The distinct input boxes, in order of appearance: disjuncts that share a box share the object."""
        return tuple(dict.fromkeys(disjunct.box for disjunct in self.disjuncts))

    def as_seen_in(self, dtype: "np.dtype[Any]") -> "Property":
        """The property on what a network of this element type sees of its inputs: it rounds those that are pinned."""
        seen: dict[Box, Box] = {}
        for disjunct in self.disjuncts:
            box = disjunct.box
            with np.errstate(over="ignore"):
                rounded = box.lower.astype(dtype).astype(np.float64)
            moved = (box.lower == box.upper) & (rounded != box.lower)
            if moved.any() and len(disjunct.inputs):
                raise UnsupportedProperty("linear constraints on inputs that are pinned to numbers which are rounded")
            if moved.any() and box not in seen:
                seen[box] = Box(np.where(moved, rounded, box.lower), np.where(moved, rounded, box.upper))
        disjuncts = (replace(one, box=seen.get(one.box, one.box), inner=one.witnesses) for one in self.disjuncts)
        return replace(self, disjuncts=tuple(disjuncts)) if seen else self

    def is_unsafe_at(self, x: ArrayLike, y: ArrayLike) -> bool:
        """Whether the pair of an input and an output is *bad*: inside at least one disjunct, exactly."""
        values = self.exact(x, y)
        return any(disjunct.contains_input(x) and values in disjunct.outputs for disjunct in self.disjuncts)

    def exact(self, x: ArrayLike, y: ArrayLike) -> list[Fraction]:
        """The outputs and the monomials, which polytopes of outputs speak about, in exact arithmetic."""
        inputs, outputs = (
            [Fraction(value) for value in np.asarray(v, dtype=np.float64).reshape(-1).tolist()] for v in (x, y)
        )
        factors = ([inputs[i] if i >= 0 else outputs[~i] for i in monomial] for monomial in self.monomials)
        return outputs + [math.prod(values, start=Fraction(1)) for values in factors]
