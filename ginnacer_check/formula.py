"""The property: VNN-LIB 1.0, read into exact rationals. It describes the unsafe pairs of an input and an output.

What comes out is a union of disjuncts: each a box of inputs, and rows `sum(a * X) + sum(b * Y) <= c` (or `<`).
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ginnacer_check.maps import Array
from ginnacer_check.network import Unreadable

MOST_DISJUNCTS = 1_000_000
Terms = dict[str, Fraction]
"""Coefficients by variable; the empty name stands for 1."""


@dataclass(frozen=True)
class Row:
    """`sum of coefficients * variables <= offset`, or `<`."""

    terms: tuple[tuple[str, Fraction], ...]
    offset: Fraction
    strict: bool

    @cached_property
    def is_end(self) -> bool:
        """Whether it is one end of one input."""
        return len(self.terms) == 1 and self.terms[0][0][0] == "X"

    def holds(self, values: dict[str, Fraction]) -> bool:
        total = sum((c * values[name] for name, c in self.terms), Fraction(0))
        return total < self.offset if self.strict else total <= self.offset


class Disjunct:
    """One conjunction: all of its rows, those that are no ends of inputs, and the ends by input."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows, self.others = rows, [row for row in rows if not row.is_end]
        self.lower: dict[int, Fraction] = {}
        self.upper: dict[int, Fraction] = {}
        for row in (row for row in rows if row.is_end):
            (name, coefficient), *_ = row.terms
            i, end = int(name[2:]), row.offset / coefficient
            if coefficient > 0:
                self.upper[i] = min(end, self.upper.get(i, end))
            else:
                self.lower[i] = max(end, self.lower.get(i, end))

    @property
    def empty(self) -> bool:
        return any(self.lower[i] > self.upper[i] for i in self.lower if i in self.upper)

    def box(self, inputs: int) -> tuple[Array, Array]:
        """The least box of float64 numbers around the inputs."""
        if len(self.lower) < inputs or len(self.upper) < inputs:
            raise Unreadable("the property gives no lower or no upper end for some input")
        lower = np.array([below(self.lower[i]) for i in range(inputs)])
        return lower, np.array([-below(-self.upper[i]) for i in range(inputs)])


def below(value: Any) -> float:
    """The largest float64 that is not above a rational."""
    exact = Fraction(int(value.numerator), int(value.denominator))
    try:
        nearest = float(exact)
    except OverflowError:
        return sys.float_info.max if exact > 0 else -np.inf
    return nearest if nearest <= exact else float(np.nextafter(nearest, -np.inf))


@dataclass(frozen=True, eq=False)
class Part:
    """Disjuncts on one box, by number. Row j is `inputs[j] @ x + outputs[j] @ y <= offset[j]`, in fractions (`<` where
    `strict`), and belongs to disjunct `owner[j]`."""

    lower: Array
    upper: Array
    disjuncts: tuple[int, ...]
    owner: Array
    inputs: Array
    outputs: Array
    offset: Array
    strict: Array


@dataclass(frozen=True, eq=False)
class Formula:
    inputs: int
    outputs: int
    disjuncts: tuple[Disjunct, ...]

    def parts(self) -> list[Part]:
        """The disjuncts by their boxes, in order of appearance. A disjunct with an empty box holds no input at all."""
        groups: dict[bytes, list[int]] = {}
        for number, disjunct in enumerate(self.disjuncts):
            if not disjunct.empty:
                groups.setdefault(np.stack(disjunct.box(self.inputs)).tobytes(), []).append(number)
        return [self._part(numbers) for numbers in groups.values()]

    def _part(self, numbers: list[int]) -> Part:
        rows = [(number, row) for number in numbers for row in self.disjuncts[number].others]
        matrix = {letter: np.full((len(rows), n), Fraction(0)) for letter, n in zip("XY", self.sizes, strict=True)}
        for j, (_, row) in enumerate(rows):
            for name, coefficient in row.terms:
                matrix[name[0]][j, int(name[2:])] = coefficient
        owner = np.array([number for number, _ in rows], int)
        offset, strict = (
            np.array([row.offset for _, row in rows], object),
            np.array([row.strict for _, row in rows], bool),
        )
        ends = self.disjuncts[numbers[0]].box(self.inputs)
        return Part(*ends, tuple(numbers), owner, matrix["X"], matrix["Y"], offset, strict)

    @property
    def sizes(self) -> tuple[int, int]:
        return self.inputs, self.outputs

    def satisfied(self, x: Array, y: list[Fraction]) -> bool:
        """Whether a pair of an input and an output is unsafe, exactly.

        An input that the text pins to a number that x's type does not hold may be that number rounded."""
        values = {f"Y_{i}": value for i, value in enumerate(y)}
        for disjunct in self.disjuncts:
            given = {}
            for i, value in enumerate(x.tolist()):
                lower, upper = disjunct.lower.get(i), disjunct.upper.get(i)
                pinned = lower is not None and lower == upper and value in {float(lower), float(np.float32(lower))}
                given[f"X_{i}"] = lower if pinned and lower is not None else Fraction(value)
            if all(row.holds(given | values) for row in disjunct.rows):
                return True
        return False


def read_formula(text: str) -> Formula:
    """The property of a VNN-LIB 1.0 text, or Unreadable."""
    try:
        return _formula(text)
    except (Unreadable, RecursionError, ValueError, IndexError, TypeError, ZeroDivisionError, KeyError) as problem:
        reason = problem if isinstance(problem, Unreadable) else f"{type(problem).__name__}: {problem}"
        raise Unreadable(f"the property cannot be read: {reason}") from problem


def _formula(text: str) -> Formula:
    names: set[str] = set()
    asserted: list[Any] = ["and"]
    for command in _expressions(re.sub(r";[^\n]*", "", text)):
        match command:
            case ["declare-const", str(name), "Real"] if re.fullmatch(r"[XY]_(0|[1-9]\d*)", name) and name not in names:
                names.add(name)
            case ["assert", expression]:
                asserted.append(expression)
            case _:
                raise Unreadable(f"{str(command)[:60]} is not something that this program reads (VNN-LIB 1.0 only)")
    counts = {letter: sum(name[0] == letter for name in names) for letter in "XY"}
    if names != {f"{letter}_{i}" for letter in "XY" for i in range(counts[letter])}:
        raise Unreadable("the variables X_0, X_1, ..., Y_0, Y_1, ... are not declared one by one")
    return Formula(counts["X"], counts["Y"], tuple(map(Disjunct, _clauses(asserted, names))))


def _expressions(text: str) -> Iterator[Any]:
    """The nested lists of a text."""
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise Unreadable("there is a closing bracket too many")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise Unreadable("a closing bracket is missing")
    yield from stack[0]


def _clauses(expression: Any, names: set[str]) -> list[tuple[Row, ...]]:
    """Disjunctive normal form. A row without variables is true (no row) or false (no clause)."""
    match expression:
        case ["and", *parts]:
            clauses: list[tuple[Row, ...]] = [()]
            for part in parts:
                more = _clauses(part, names)
                if len(clauses) * len(more) > MOST_DISJUNCTS:
                    raise Unreadable(f"more than {MOST_DISJUNCTS} disjuncts")
                clauses = [one + other for one in clauses for other in more]
            return clauses
        case ["or", *parts]:
            return [clause for part in parts for clause in _clauses(part, names)]
        case [("<=" | ">=" | "<" | ">" | "=") as sign, left, right]:
            difference = _combined([(1, _terms(left, names)), (-1, _terms(right, names))])
            rows = []
            for factor in {"<": [1], "<=": [1], ">": [-1], ">=": [-1], "=": [1, -1]}[sign]:
                terms = tuple((name, factor * c) for name, c in difference.items() if name and c)
                row = Row(terms, -factor * difference.get("", Fraction(0)), sign in "<>")
                if terms:
                    rows.append(row)
                elif not row.holds({}):
                    return []
            return [tuple(rows)]
    raise Unreadable(f"{str(expression)[:60]} is not a comparison, and or or")


def _terms(expression: Any, names: set[str]) -> Terms:
    """A linear expression as coefficients."""
    match expression:
        case str(name) if name in names:
            return {name: Fraction(1)}
        case str(number) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", number):
            return {"": Fraction(number)}
        case ["+", *parts] if parts:
            return _combined([(1, _terms(part, names)) for part in parts])
        case ["-", part]:
            return _combined([(-1, _terms(part, names))])
        case ["-", first, *rest]:
            return _combined([(1, _terms(first, names)), *((-1, _terms(part, names)) for part in rest)])
        case ["*", left, right]:
            a, b = _terms(left, names), _terms(right, names)
            if not set(a) <= {""}:
                a, b = b, a
            if set(a) <= {""}:
                return _combined([(a.get("", Fraction(0)), b)])
    raise Unreadable(f"{str(expression)[:60]} is not a linear expression of declared variables")


def _combined(parts: list[tuple[Any, Terms]]) -> Terms:
    total: Terms = {}
    for factor, terms in parts:
        for name, coefficient in terms.items():
            total[name] = total.get(name, Fraction(0)) + factor * coefficient
    return total
