"""The property: VNN-LIB 1.0 or 2.0, read into exact rationals. It describes the unsafe pairs of an input and an output.

What comes out is a union of disjuncts: each a box of inputs, and rows, comparisons `sum of coefficients * products of
variables <= number` (or `<`). Variables are X_0, X_1, ..., Y_0, Y_1, ...; those of several networks follow each other.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ginnacer_check.maps import Array, below
from ginnacer_check.network import Unreadable

MOST_DISJUNCTS = 1_000_000
Product = tuple[str, ...]
Terms = dict[Product, Fraction]
"""Coefficients by the variables that are multiplied; the empty product stands for 1."""


@dataclass(frozen=True)
class Declared:
    """A network: its name, which of all inputs it is given, how many outputs it has, and what file it shares."""

    name: str
    inputs: Sequence[int]
    outputs: int
    equal_to: str = ""


@dataclass(frozen=True)
class Row:
    """`sum of coefficients * products <= offset`, or `<`."""

    terms: tuple[tuple[Product, Fraction], ...]
    offset: Fraction
    strict: bool

    @cached_property
    def is_end(self) -> bool:
        """Whether it is one end of one input."""
        return len(self.terms) == 1 and len(self.terms[0][0]) == 1 and self.terms[0][0][0][0] == "X"

    def holds(self, values: dict[str, Fraction]) -> bool:
        total = Fraction(0)
        for names, coefficient in self.terms:
            for name in names:
                coefficient *= values[name]
            total += coefficient
        return total < self.offset if self.strict else total <= self.offset


class Disjunct:
    """One conjunction: all of its rows, those that are no ends of inputs, and the ends by input."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows, self.others = rows, [row for row in rows if not row.is_end]
        self.lower: dict[int, Fraction] = {}
        self.upper: dict[int, Fraction] = {}
        for row in (row for row in rows if row.is_end):
            ((name,), coefficient), *_ = row.terms
            i, end = int(name[2:]), row.offset / coefficient
            if coefficient > 0:
                self.upper[i] = min(end, self.upper.get(i, end))
            else:
                self.lower[i] = max(end, self.lower.get(i, end))
        linear = [[(names[0], c) for names, c in row.terms if len(names) == 1] for row in self.others]
        inputs = [(terms, row) for terms, row in zip(linear, self.others, strict=True) if len(terms) == len(row.terms)]
        found = bool(inputs)
        while found:
            found = any(self._implied(dict(terms), row.offset) for terms, row in inputs)

    def _implied(self, terms: dict[str, Fraction], offset: Fraction) -> bool:
        """Add an end that is missing and follows from those of the other inputs of a row; whether there was one."""
        if any(name[0] != "X" for name in terms):
            return False
        for name, c in terms.items():
            own, i = self.upper if c > 0 else self.lower, int(name[2:])
            others = [(d, (self.lower if d > 0 else self.upper).get(int(n[2:]))) for n, d in terms.items() if n != name]
            if i not in own and all(end is not None for _, end in others):
                own[i] = (offset - sum((d * end for d, end in others if end is not None), Fraction(0))) / c
                return True
        return False

    @property
    def empty(self) -> bool:
        return any(self.lower[i] > self.upper[i] for i in self.lower if i in self.upper)

    def box(self, inputs: int) -> Array:
        """The least box of float64 numbers around the inputs: lower and upper ends."""
        lower = [below(self.lower[i]) if i in self.lower else -np.inf for i in range(inputs)]
        return np.array([lower, [-below(-self.upper[i]) if i in self.upper else np.inf for i in range(inputs)]])


@dataclass(frozen=True, eq=False)
class Part:
    """Disjuncts on one box, by number. Row j, in fractions, is the sum of `matrices[k][j] @ z[k]`, with inputs, outputs
    and products as z, at most `offset[j]` (less where `strict`), and belongs to disjunct `owner[j]`."""

    lower: Array
    upper: Array
    disjuncts: tuple[int, ...]
    owner: Array
    matrices: tuple[Array, Array, Array]
    offset: Array
    strict: Array


@dataclass(frozen=True, eq=False)
class Formula:
    networks: tuple[Declared, ...]
    inputs: int
    disjuncts: tuple[Disjunct, ...]

    @cached_property
    def products(self) -> list[Product]:
        """Products of two variables that occur."""
        rows = (row for disjunct in self.disjuncts for row in disjunct.others)
        return sorted({names for row in rows for names, _ in row.terms if len(names) > 1})

    def parts(self) -> list[Part]:
        """The disjuncts by their boxes, in order of appearance. A disjunct with an empty box holds no input at all."""
        groups: dict[bytes, list[int]] = {}
        for number, disjunct in enumerate(self.disjuncts):
            if not disjunct.empty:
                groups.setdefault(disjunct.box(self.inputs).tobytes(), []).append(number)
        return [self._part(numbers) for numbers in groups.values()]

    def _part(self, numbers: list[int]) -> Part:
        rows = [(number, row) for number in numbers for row in self.disjuncts[number].others]
        counts = self.inputs, sum(one.outputs for one in self.networks), len(self.products)
        matrices = [np.full((len(rows), count), Fraction(0)) for count in counts]
        place = {names: (2, k) for k, names in enumerate(self.products)}
        for j, (_, row) in enumerate(rows):
            for names, coefficient in row.terms:
                which, k = place.get(names) or ("XY".index(names[0][0]), int(names[0][2:]))
                matrices[which][j, k] = coefficient
        owner, strict = np.array([n for n, _ in rows], int), np.array([row.strict for _, row in rows], bool)
        offset = np.array([row.offset for _, row in rows], object)
        lower, upper = self.disjuncts[numbers[0]].box(self.inputs)
        return Part(lower, upper, tuple(numbers), owner, (matrices[0], matrices[1], matrices[2]), offset, strict)

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
    """The property of a VNN-LIB text, or Unreadable."""
    try:
        commands = list(_expressions(re.sub(r";[^\n]*", "", text)))
        newer = commands[:1] == [["vnnlib-version", "<2.0>"]]
        networks, names, rest = _declared_2(commands[1:]) if newer else _declared_1(commands)
        asserted: list[Any] = ["and"]
        for command in rest:
            match command:
                case ["assert", expression]:
                    asserted.append(expression)
                case _:
                    raise Unreadable(f"{str(command)[:60]} is not something that this program reads")
        inputs = len({name for name in names.values() if name[0] == "X"})
        return Formula(networks, inputs, tuple(map(Disjunct, _clauses(asserted, names))))
    except (Unreadable, RecursionError, ValueError, IndexError, TypeError, ZeroDivisionError, KeyError) as problem:
        reason = problem if isinstance(problem, Unreadable) else f"{type(problem).__name__}: {problem}"
        raise Unreadable(f"the property cannot be read: {reason}") from problem


def _declared_1(commands: list[Any]) -> tuple[tuple[Declared, ...], dict[str, str], list[Any]]:
    """Version 1.0: one network with the variables X_0, X_1, ..., Y_0, Y_1, ..."""
    names: list[str] = []
    for command in commands:
        match command:
            case ["declare-const", str(name), "Real"] if re.fullmatch(r"[XY]_(0|[1-9]\d*)", name):
                names.append(name)
    counts = [sum(name[0] == letter for name in names) for letter in "XY"]
    if sorted(names) != sorted(
        f"{letter}_{i}" for letter, count in zip("XY", counts, strict=True) for i in range(count)
    ):
        raise Unreadable("the variables X_0, X_1, ..., Y_0, Y_1, ... are not declared one by one")
    rest = [command for command in commands if command[:1] != ["declare-const"]]
    return (Declared("", range(counts[0]), counts[1]),), {name: name for name in names}, rest


def _declared_2(commands: list[Any]) -> tuple[tuple[Declared, ...], dict[str, str], list[Any]]:
    """Version 2.0: networks with tensors; inputs that are asserted to be equal are one input."""
    found, names, outputs = list[Any](), dict[str, str](), 0
    rest = [command for command in commands if command[:1] != ["declare-network"]]
    for _, name, *parts in (command for command in commands if command[:1] == ["declare-network"]):
        tensors, equal_to = dict[str, list[str]](), ""
        for part in parts:
            match part:
                case ["equal-to" | "isomorphic-to" as kind, str(other)]:
                    equal_to = other if kind == "equal-to" else equal_to
                case [
                    "declare-input" | "declare-output" as kind,
                    str(variable),
                    "real" | "float32" | "float64",
                    str(shape),
                ]:
                    indices = np.ndindex(*map(int, shape[1:-1].split(",")))
                    values = [f"{variable}[{','.join(map(str, index))}]" for index in indices]
                    if kind in tensors or not names.keys().isdisjoint(values):
                        raise Unreadable(
                            "several inputs or outputs of a network, or one name for two, are not read here"
                        )
                    tensors[kind] = values
                    names |= dict.fromkeys(values, "")
                case _:
                    raise Unreadable(f"{str(part)[:60]} is not something that this program reads")
        found.append((name, tensors["declare-input"], tensors["declare-output"], equal_to))
    one = {value: number for number, value in enumerate(value for _, x, _, _ in found for value in x)}
    for a, b in _equal(["and", *(command[1] for command in rest)], one):
        first, second = sorted((one[a], one[b]))
        one = {value: first if number == second else number for value, number in one.items()}
    number = {old: new for new, old in enumerate(sorted(set(one.values())))}
    networks = []
    for name, x, y, equal_to in found:
        networks.append(Declared(name, [number[one[value]] for value in x], len(y), equal_to))
        names |= {value: f"X_{number[one[value]]}" for value in x} | {v: f"Y_{outputs + j}" for j, v in enumerate(y)}
        outputs += len(y)
    return tuple(networks), names, rest


def _equal(expression: Any, inputs: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Pairs of inputs that are asserted to be equal."""
    match expression:
        case ["and", *parts]:
            for part in parts:
                yield from _equal(part, inputs)
        case ["==", str(a), str(b)] if a in inputs and b in inputs:
            yield a, b


def _expressions(text: str) -> Iterator[Any]:
    """The nested lists of a text; an index belongs to its variable."""
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[()]|[^\s()\[]*\[[^\]]*\]|[^\s()\[]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise Unreadable("there is a closing bracket too many")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(re.sub(r"\s", "", token))
    if len(stack) > 1:
        raise Unreadable("a closing bracket is missing")
    yield from stack[0]


def _clauses(expression: Any, names: dict[str, str]) -> list[tuple[Row, ...]]:
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
        case ["!=", left, right]:
            return _clauses(["or", ["<", left, right], [">", left, right]], names)
        case [("<=" | ">=" | "<" | ">" | "=" | "==") as sign, left, right]:
            difference = _sum([(1, _terms(left, names)), (-1, _terms(right, names))])
            rows = []
            for factor in {"<": [1], "<=": [1], ">": [-1], ">=": [-1]}.get(sign, [1, -1]):
                terms = tuple((product, factor * c) for product, c in difference.items() if product and c)
                row = Row(terms, -factor * difference.get((), Fraction(0)), sign in "<>")
                if terms:
                    rows.append(row)
                elif not row.holds({}):
                    return []
            return [tuple(rows)]
    raise Unreadable(f"{str(expression)[:60]} is not a comparison, and or or")


def _terms(expression: Any, names: dict[str, str]) -> Terms:
    """An expression as coefficients of products of at most two variables."""
    match expression:
        case str(name) if name in names:
            return {(names[name],): Fraction(1)}
        case str(number) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", number):
            return {(): Fraction(number)}
        case ["+", *parts] if parts:
            return _sum([(1, _terms(part, names)) for part in parts])
        case ["-", part]:
            return _sum([(-1, _terms(part, names))])
        case ["-", first, *rest]:
            return _sum([(1, _terms(first, names)), *((-1, _terms(part, names)) for part in rest)])
        case ["*", first, *rest] if rest:
            total = _terms(first, names)
            for part in rest:
                pairs = [(a, b, c * d) for a, c in total.items() for b, d in _terms(part, names).items() if c and d]
                total = _sum([(1, {tuple(sorted(a + b)): c}) for a, b, c in pairs])
            if all(len(names) <= 2 for names in total):
                return total
    raise Unreadable(f"{str(expression)[:60]} is not a sum of products of at most two declared variables")


def _sum(parts: list[tuple[int, Terms]]) -> Terms:
    total: Terms = {}
    for factor, terms in parts:
        for names, coefficient in terms.items():
            total[names] = total.get(names, Fraction(0)) + factor * coefficient
    return total
