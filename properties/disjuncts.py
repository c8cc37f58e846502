"""From the tree of a VNN-LIB text to a Property: disjunctive normal form, boxes and polytopes.

What goes in is any nesting of and/or over rows and curves; what comes out has one box and two polytopes per disjunct.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import UnsupportedProperty
from ginnacer_verify.properties.contradiction import divide_out, leave_no_room
from ginnacer_verify.properties.property import Declared, Disjunct, Polytope, Property, Variable
from ginnacer_verify.properties.rounding import Bound, at_least_float, interval, nearest_float
from ginnacer_verify.properties.terms import MAX_DISJUNCTS, And, Curve, Formula, Monomial, Or, Row, curves

MAX_NUMBERS = 50_000_000
"""A property whose boxes and polytopes would hold more numbers is refused, before memory runs out."""

OBJECT = 24
"""A box or a polytope takes as much memory as so many numbers more."""

Block: TypeAlias = tuple[Row, ...]
"""Rows that occur together. Disjuncts that share a part of the text share its blocks, and so their box."""
Blocks: TypeAlias = "tuple[Block, Blocks] | None"
Choices: TypeAlias = "tuple[Or, Choices] | None"


@dataclass(frozen=True, eq=False, slots=True)
class Clause:
    """A conjunction on its way to become a disjunct: its rows, and the or-nodes from which it has yet to choose.

    All are linked lists, (last, rest), so that branches share what they have in common instead of copying it."""

    inputs: Blocks = None
    outputs: Blocks = None
    pending: Choices = None


def element(variable: Variable, index: int, version: str) -> str:
    """How a VNN-LIB text names one value of the input or output: X_7 in version 1.0, X[0,7] in 2.0."""
    if version == "1.0":
        return f"{variable.name}_{index}"
    indices = [str(i) for i in np.unravel_index(index, variable.shape)] if variable.shape else []
    return f"{variable.name}[{','.join(indices)}]" if indices else variable.name


def property_of(
    formula: Formula,
    x: Variable,
    y: Variable,
    version: str,
    deadline: Deadline = FOREVER,
    *,
    networks: tuple[Declared, ...] = (),
) -> Property:
    """The property whose unsafe pairs of an input and an output are those that satisfy the formula.

    What curves multiply becomes monomials of the property. Of properties with curves or several networks, conjunctions
    that contradict themselves are left out."""
    if formula.disjuncts > MAX_DISJUNCTS:
        raise UnsupportedProperty(f"more than {MAX_DISJUNCTS} disjuncts: split the property into several files")
    numbers = _numbers(formula, y.size)
    monomials = tuple(monomial for monomial, number in numbers.items() if number >= y.size)
    builder = _Builder(x, y.size + len(monomials), lambda i: _input_name(x, networks, i, version))
    made: list[Disjunct] = []
    for clause in _clauses(formula, numbers):
        if not len(made) % 1024:
            deadline.check("the property was read")
        disjunct = builder.disjunct(clause)
        if numbers or networks:
            rows = [row for block in _blocks(clause.outputs) for row in block]
            if leave_no_room(rows) or (not disjunct.box.is_empty and divide_out(rows, y.size, monomials, disjunct.box)):
                continue
        made.append(disjunct)
    return Property(tuple(made), x, y, version, networks=networks, monomials=monomials)


def _input_name(x: Variable, networks: tuple[Declared, ...], i: int, version: str) -> str:
    for network in networks:
        if i in network.inputs:
            return element(network.x, network.inputs.index(i), version)
    return element(x, i, version)


def _numbers(formula: Formula, outputs: int) -> dict[Monomial, int]:
    """The outputs that curves speak about: those of the network, and one more for each input or product."""
    numbers: dict[Monomial, int] = {}
    more = outputs
    for curve in curves(formula):
        for monomial in curve.coefficients:
            if monomial not in numbers:
                own = len(monomial) == 1 and monomial[0] < 0
                numbers[monomial] = ~monomial[0] if own else more
                more += not own
    return dict(sorted(numbers.items(), key=lambda item: item[1]))


def _clauses(formula: Formula, numbers: Mapping[Monomial, int]) -> Iterator[Clause]:
    """The disjunctive normal form, in the order of the text."""
    flat: dict[int, tuple[Block, Block, list[Or]]] = {}
    todo: list[tuple[Formula, Clause]] = [(formula, Clause())]
    while todo:
        node, clause = todo.pop()
        if isinstance(node, Or):
            todo.extend((part, clause) for part in reversed(node.parts))
            continue
        if id(node) not in flat:
            flat[id(node)] = _flattened(node, numbers)
        clause = _extended(clause, *flat[id(node)])
        if clause.pending is None:
            yield clause
        else:
            choice, rest = clause.pending
            todo.append((choice, Clause(clause.inputs, clause.outputs, rest)))


def _flattened(node: Row | Curve | And, numbers: Mapping[Monomial, int]) -> tuple[Block, Block, list[Or]]:
    """What a conjunction asserts, through any nesting of `and`: input rows, output rows and or-nodes."""
    inputs: list[Row] = []
    outputs: list[Row] = []
    choices: list[Or] = []
    todo: list[Formula] = [node]
    while todo:
        match todo.pop():
            case Row() as row:
                (inputs if row.is_input else outputs).append(row)
            case Curve(coefficients=coefficients, offset=offset, strict=strict):
                over = {~numbers[monomial]: value for monomial, value in coefficients.items()}
                outputs.append(Row(over, offset, strict))
            case And(parts=parts):
                todo.extend(reversed(parts))
            case Or() as choice:
                choices.append(choice)
    return tuple(inputs), tuple(outputs), choices


def _extended(clause: Clause, inputs: Block, outputs: Block, choices: list[Or]) -> Clause:
    pending = clause.pending
    for choice in reversed(choices):
        pending = (choice, pending)
    return Clause(
        (inputs, clause.inputs) if inputs else clause.inputs,
        (outputs, clause.outputs) if outputs else clause.outputs,
        pending,
    )


def _blocks(linked: Blocks) -> list[Block]:
    """The blocks of a linked list, the first one first."""
    blocks = []
    while linked is not None:
        block, linked = linked
        blocks.append(block)
    return blocks[::-1]


@dataclass(eq=False)
class _Builder:
    """Turns clauses into disjuncts; what is equal in two of them becomes the same object."""

    x: Variable
    outputs_size: int
    name: Callable[[int], str]
    numbers: int = 0
    inputs: dict[tuple[int, ...], tuple[Box, Polytope, Box | None]] = field(default_factory=dict)
    outputs: dict[tuple[int, ...], Polytope] = field(default_factory=dict)
    boxes: dict[bytes, Box] = field(default_factory=dict)

    def disjunct(self, clause: Clause) -> Disjunct:
        inputs, outputs = _blocks(clause.inputs), _blocks(clause.outputs)
        input_key, output_key = tuple(map(id, inputs)), tuple(map(id, outputs))
        if input_key not in self.inputs:
            self.inputs[input_key] = self._input_set([row for block in inputs for row in block])
        if output_key not in self.outputs:
            self.outputs[output_key] = self._polytope([row for block in outputs for row in block], self.outputs_size)
        box, constraints, inner = self.inputs[input_key]
        return Disjunct(box, constraints, self.outputs[output_key], inner)

    def _input_set(self, rows: list[Row]) -> tuple[Box, Polytope, Box | None]:
        self._reserve(len(rows))
        box, inner = self._boxes(rows)
        return box, self._polytope([row for row in rows if len(row.coefficients) > 1], self.x.size), inner

    def _boxes(self, rows: list[Row]) -> tuple[Box, Box | None]:
        """The box for proofs, and that for witnesses if it is another."""
        negated_lower: dict[int, Bound] = {}
        upper: dict[int, Bound] = {}
        for row in rows:
            if len(row.coefficients) == 1:
                ((i, coefficient),) = row.coefficients.items()
                side = upper if coefficient > 0 else negated_lower
                bound = (row.offset if abs(coefficient) == 1 else row.offset / abs(coefficient), not row.strict)
                side[i] = min(side[i], bound) if i in side else bound
        if min(len(upper), len(negated_lower)) < self.x.size:
            _imply([row for row in rows if len(row.coefficients) > 1], negated_lower, upper)
        self._require(negated_lower, ">=")
        self._require(upper, "<=")
        self._reserve(4 * self.x.size + OBJECT)
        ends = np.array([interval(negated_lower[i], upper[i]) for i in range(self.x.size)])
        box, inner = self._shared(ends[:, 0]), self._shared(ends[:, 1])
        return box, None if inner is box else inner

    def _shared(self, ends: Array) -> Box:
        return self.boxes.setdefault(ends.tobytes(), Box(ends[:, 0], ends[:, 1]))

    def _require(self, bounds: dict[int, Bound], relation: str) -> None:
        if len(bounds) < self.x.size:
            name = self.name(next(i for i in range(self.x.size) if i not in bounds))
            end = "smallest" if relation == ">=" else "largest"
            raise UnsupportedProperty(
                f"input {name} is not bounded on both sides: add (assert ({relation} {name} ...)) with its {end} value"
            )

    def _polytope(self, rows: list[Row], dimension: int) -> Polytope:
        self._reserve(len(rows) * dimension + OBJECT)
        matrix, offset = np.zeros((len(rows), dimension)), np.zeros(len(rows))
        exact = {}
        for i, row in enumerate(rows):
            coefficients = {max(variable, ~variable): value for variable, value in row.coefficients.items()}
            for j, coefficient in coefficients.items():
                matrix[i, j] = _coefficient(coefficient)
            offset[i] = _offset(row.offset)
            if float(offset[i]) != row.offset or any(float(matrix[i, j]) != value for j, value in coefficients.items()):
                exact[i] = coefficients, row.offset
        return Polytope(matrix, offset, np.array([row.strict for row in rows], dtype=np.bool_), exact)

    def _reserve(self, numbers: int) -> None:
        self.numbers += numbers
        if self.numbers > MAX_NUMBERS:
            raise UnsupportedProperty(f"more than {MAX_NUMBERS} numbers in its disjuncts: split it into several files")


def _imply(rows: list[Row], negated_lower: dict[int, Bound], upper: dict[int, Bound]) -> None:
    """Add the bounds that are missing and that a row implies, given those of its other inputs; until there are no more.

    They count as closed: the row itself stays, and says what is strict."""
    found = True
    while found:
        found = False
        for row in rows:
            sides = {i: (negated_lower if value > 0 else upper) for i, value in row.coefficients.items()}
            missing = [i for i, side in sides.items() if i not in side]
            for i, value in row.coefficients.items():
                own = upper if value > 0 else negated_lower
                if i not in own and not set(missing) - {i}:
                    rest = (abs(row.coefficients[j]) * sides[j][j][0] for j in row.coefficients if j != i)
                    own[i] = (row.offset + sum(rest, Fraction(0))) / abs(value), True
                    found = True


def _offset(value: Fraction) -> float:
    """Not below the exact one: what is unsafe stays unsafe."""
    return _finite(at_least_float(value))


def _coefficient(value: Fraction) -> float:
    nearest = _finite(nearest_float(value))
    if nearest == 0.0:  # would silently drop the variable
        raise UnsupportedProperty("a coefficient of a linear constraint is too small for float64: scale it up")
    return nearest


def _finite(value: float) -> float:
    if math.isinf(value):
        raise UnsupportedProperty("a constant of a linear constraint is out of the range of float64: scale it down")
    return value + 0.0
