"""The fast way through plain VNN-LIB of either version: declarations, bounds and orders, and a choice of conjunctions.

One regular expression takes a whole comparison at a time, and numbers are compared with their float64 as integers. What
is not plain (sums, products, nested choices, anything wrong) is None here, and the general reader has the word. What
both read is the same, bit by bit.
"""

import gc
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import VnnlibSyntaxError
from ginnacer_verify.properties.disjuncts import MAX_NUMBERS, OBJECT
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable
from ginnacer_verify.properties.property import Row as ExactRow
from ginnacer_verify.properties.rounding import interval
from ginnacer_verify.properties.terms import MAX_DISJUNCTS, MINUS_ONE, ONE, number

CHUNK = 1 << 20
"""So many characters are taken apart at once: all pieces of a text would take ten times its size."""
LOOK = 1 << 16
"""After so many comparisons the clock is looked at."""
MAX_WORD = 60
"""Numbers beyond so many characters are for the general reader."""

COMMENT = re.compile(r";[^\n]*")
BLANK = r"[ \t\n]*"
NUMBER1 = r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?"
NUMBER2 = r"-?[0-9]+\.[0-9]+"
WORD = r"[A-Za-z_][A-Za-z0-9_]*(?:\[[0-9,]*\])?"
DECLARATION1 = re.compile(r"\(declare-const ([XY]_(?:0|[1-9][0-9]{0,8})) Real\)|([^ \t\n])")
HEADER2 = re.compile(
    r"[ \t\n]*\([ \t\n]*vnnlib-version[ \t\n]+<2\.0>[ \t\n]*\)[ \t\n]*\([ \t\n]*declare-network[ \t\n]+([A-Za-z]\w*)"
    r"[ \t\n]*\([ \t\n]*declare-input[ \t\n]+([A-Z]\w*)[ \t\n]+(real|float32|float64)[ \t\n]+\[([0-9, ]*)\][ \t\n]*\)"
    r"[ \t\n]*\([ \t\n]*declare-output[ \t\n]+([A-Z]\w*)[ \t\n]+(real|float32|float64)[ \t\n]+\[([0-9, ]*)\][ \t\n]*\)"
    r"[ \t\n]*\)[ \t\n]*",
    re.ASCII,
)
CUT = re.compile(r"\((?:assert|and|or)\b")

Made = TypeVar("Made")
Atom: TypeAlias = tuple[str, str, str]
Read: TypeAlias = tuple[float, int]
"""The nearest float64 of a number, and on which side of it the number lies: -1 below, 0 the same, 1 above."""


def _body(numeral: str, equal: str) -> re.Pattern[str]:
    comparison = rf"(<=|>=|<|>|{equal}){BLANK[:-1]}+({WORD}){BLANK[:-1]}+({WORD}|{numeral}){BLANK}\)"
    return re.compile(
        rf"(\(assert{BLANK})?\({comparison}(?(1){BLANK}\))|(\((?:assert|and|or)(?=[ \t\n(])|\))|([^ \t\n])"
    )


BODY = {"1.0": _body(NUMBER1, "="), "2.0": _body(NUMBER2, "==")}


class NotPlain(Exception):
    """The general reader has the word."""


def parse_plain(text: str, deadline: Deadline = FOREVER) -> Property | None:
    """The property of a plain text whose lines end with a line feed; None for any other text, right or wrong."""
    collecting = gc.isenabled()
    gc.disable()  # nothing here is cyclic, and looking through a million pieces again and again takes long
    try:
        return _parsed(text, deadline)
    except NotPlain:
        return None
    finally:
        if collecting:
            gc.enable()


def _parsed(text: str, deadline: Deadline) -> Property:
    if "\0" in text:
        raise NotPlain
    text = COMMENT.sub("", text) if ";" in text else text
    header = HEADER2.match(text)
    if header:
        version, start, network = "2.0", header.end(), header[1]
        x, y = (Variable(header[k], _shape(header[k + 2]), header[k + 1]) for k in (2, 5))
        if len({network, x.name, y.name}) < 3 or not (x.size and y.size):
            raise NotPlain
        names = _named(x, 1) | _named(y, -1)
    else:
        version, start, network = "1.0", max(0, text.find("(assert")), ""
        names = _declared(text, start, deadline)
        x, y = (Variable(letter, (sum(name[0] == letter for name in names),)) for letter in "XY")
        if not (x.size and y.size and max(names.values()) < x.size and ~min(names.values()) < y.size):
            raise NotPlain
    shared, choices = _structure(text, start, BODY[version], deadline)
    made = _Maker(x.size, y.size, names, deadline).disjuncts(shared, choices)
    return Property(tuple(made), x, y, version, network)


def _shape(text: str) -> tuple[int, ...]:
    words = [word.strip(" ") for word in text.split(",")]
    if not all(word.isdigit() and len(word) < 9 for word in words):
        raise NotPlain
    return tuple(map(int, words))


def _named(variable: Variable, sign: int) -> dict[str, int]:
    """Every value of a variable of VNN-LIB 2.0 by its name; outputs as `~index`."""
    if variable.size > MAX_NUMBERS:
        raise NotPlain
    places = product(*([str(i) for i in range(size)] for size in variable.shape))
    return {f"{variable.name}[{','.join(p)}]": i if sign > 0 else ~i for i, p in enumerate(places)}


def _declared(text: str, stop: int, deadline: Deadline) -> dict[str, int]:
    names: dict[str, int] = {}
    start = 0
    while start < stop:
        deadline.check("the property was read")
        end = text.find("(declare", start + CHUNK, stop)
        end = stop if end < 0 else end
        for name, other in DECLARATION1.findall(text, start, end):
            if other or name in names:
                raise NotPlain
            names[name] = int(name[2:]) if name[0] == "X" else ~int(name[2:])
        start = end
    if not names:
        raise NotPlain
    return names


def _structure(
    text: str, start: int, body: re.Pattern[str], deadline: Deadline
) -> tuple[list[Atom], list[list[list[Atom]]]]:
    """What all disjuncts share, and the choices, each a list of conjunctions."""
    shared: list[Atom] = []
    choices: list[list[list[Atom]]] = []
    opened: list[str] = []
    counts: list[int] = []  # of what each open form holds
    block = shared  # where comparisons go: to all, or to the part of a choice that is open
    choosing = 0  # how deep the `or` is that is open
    while start < len(text):
        deadline.check("the property was read")
        cut = CUT.search(text, start + CHUNK)
        end = cut.start() if cut else len(text)
        for asserted, relation, left, right, connective, other in body.findall(text, start, end):
            if relation:
                if asserted:
                    if opened:
                        raise NotPlain
                    shared.append((relation, left, right))
                elif not opened:
                    raise NotPlain
                else:
                    counts[-1] += 1
                    if choosing == len(opened):
                        choices[-1].append([(relation, left, right)])
                    else:
                        block.append((relation, left, right))
            elif connective == ")":
                if not opened or not (count := counts.pop()) or (opened[-1] == "(assert" and count > 1):
                    raise NotPlain
                if choosing == len(opened):
                    choosing, block = 0, shared
                opened.pop()
            elif other or (connective == "(assert") != (not opened):
                raise NotPlain
            else:
                if connective == "(or":
                    if choosing or "(or" in opened:
                        raise NotPlain
                    choices.append([])
                    choosing = len(opened) + 1
                elif connective == "(and" and choosing and choosing == len(opened):
                    block = []
                    choices[-1].append(block)
                if counts:
                    counts[-1] += 1
                opened.append(connective)
                counts.append(0)
        start = end
    if opened:
        raise NotPlain
    return shared, choices


@dataclass(eq=False)
class _Maker:
    """Turns comparisons into disjuncts; what is equal in two of them becomes the same object."""

    inputs: int
    outputs: int
    names: dict[str, int]
    deadline: Deadline
    read: dict[str, Read] = field(default_factory=dict)
    boxes: dict[bytes, Box] = field(default_factory=dict)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.everything = {size: Polytope.everything(size) for size in (self.inputs, self.outputs)}

    def disjuncts(self, shared: list[Atom], choices: list[list[list[Atom]]]) -> list[Disjunct]:
        if any(len(choice) < 2 or not all(choice) for choice in choices):
            raise NotPlain
        if math.prod(len(choice) for choice in choices) > MAX_DISJUNCTS:
            raise NotPlain
        common, parts = self._sorted(shared), [[self._sorted(part) for part in choice] for choice in choices]
        made: list[Disjunct] = []
        spaces: dict[tuple[int, ...], tuple[Box, Polytope, Box | None]] = {}
        unsafe: dict[tuple[int, ...], Polytope] = {}
        for count, chosen in enumerate(product(*parts)):
            if not count % 4096:
                self.deadline.check("the property was read")
            sides = (common, *chosen)
            bounding = tuple(id(side) for side in sides if side.bounds or side.orders)
            if bounding not in spaces:
                spaces[bounding] = self._space(sides)
            limiting = tuple(id(side) for side in sides if side.rows)
            if limiting not in unsafe:
                unsafe[limiting] = self._polytope([row for side in sides for row in side.rows], self.outputs)
            box, rows, inner = spaces[bounding]
            made.append(_checked(Disjunct, box=box, inputs=rows, outputs=unsafe[limiting], inner=inner))
        return made

    def _sorted(self, atoms: list[Atom]) -> "_Side":
        """Comparisons as bounds of inputs, orders of inputs, and rows of outputs."""
        bounds: list[tuple[int, bool, str, bool]] = []
        orders: list[tuple[int, int | str, int, bool]] = []
        rows: list[tuple[int, int | str, int, bool]] = []
        names, read = self.names, self.read
        for count, (relation, left, right) in enumerate(atoms):
            if not count % LOOK:
                self.deadline.check("the property was read")
            variable = names.get(left)
            other = names.get(right)
            if variable is None or (other is None and right[0] > "9") or variable == other:
                raise NotPlain
            if other is None:
                if right not in read:
                    read[right] = _read(right)
                if variable >= 0:
                    if relation[0] != ">":
                        bounds.append((variable, True, right, relation == "<"))
                    if relation[0] != "<":
                        bounds.append((variable, False, right, relation == ">"))
                    continue
            elif (variable < 0) != (other < 0):
                raise NotPlain
            target = orders if variable >= 0 else rows
            place, end = max(variable, ~variable), right if other is None else max(other, ~other)
            if relation[0] != ">":
                target.append((place, end, 1, relation == "<"))
            if relation[0] != "<":
                target.append((place, end, -1, relation == ">"))
        return _Side(bounds, orders, rows)

    def _space(self, sides: "Sequence[_Side]") -> tuple[Box, Polytope, Box | None]:
        lower: dict[int, tuple[str, bool]] = {}
        upper: dict[int, tuple[str, bool]] = {}
        for side in sides:
            for variable, above, text, strict in side.bounds:
                ends = upper if above else lower
                if variable in ends and ends[variable] != (text, strict):
                    raise NotPlain  # which of two is tighter needs exact arithmetic
                ends[variable] = text, strict
        if len(lower) < self.inputs or len(upper) < self.inputs:
            raise NotPlain
        self._reserve(4 * self.inputs + OBJECT)
        ends_of: list[tuple[float, float, float, float]] = []
        for i in range(self.inputs):
            if not i % LOOK:
                self.deadline.check("the property was read")
            ends_of.append(self._interval(lower[i], upper[i]))
        found = np.array(ends_of).T.copy()
        found.setflags(write=False)
        box, inner = self._box(found[:2]), self._box(found[2:])
        orders = self._polytope([row for side in sides for row in side.orders], self.inputs)
        return box, orders, None if inner is box else inner

    def _interval(self, lower: tuple[str, bool], upper: tuple[str, bool]) -> tuple[float, float, float, float]:
        """As `rounding.interval`: the ends around the real interval, and those of the float64 values in it."""
        low, low_side = self.read[lower[0]]
        high, high_side = self.read[upper[0]]
        if not low < high:
            outer, inner = interval((-number(lower[0]), not lower[1]), (number(upper[0]), not upper[1]))
            return *outer, *inner
        return (
            low if low_side >= 0 else math.nextafter(low, -math.inf) + 0.0,
            high if high_side <= 0 else math.nextafter(high, math.inf) + 0.0,
            low if low_side < 0 or not (low_side or lower[1]) else math.nextafter(low, math.inf) + 0.0,
            high if high_side > 0 or not (high_side or upper[1]) else math.nextafter(high, -math.inf) + 0.0,
        )

    def _box(self, ends: Array) -> Box:
        key = ends.tobytes()
        if key not in self.boxes:
            self.boxes[key] = _checked(Box, lower=ends[0], upper=ends[1])
        return self.boxes[key]

    def _polytope(self, rows: list[tuple[int, int | str, int, bool]], dimension: int) -> Polytope:
        if not rows:
            return self.everything[dimension]
        self._reserve(len(rows) * dimension + OBJECT)
        matrix, offset = np.zeros((len(rows), dimension)), np.zeros(len(rows))
        exact: dict[int, ExactRow] = {}
        for i, (place, end, sign, _) in enumerate(rows):
            matrix[i, place] = sign
            if isinstance(end, int):
                matrix[i, end] = -sign
                continue
            value, side = self.read[end]
            offset[i] = sign * value + 0.0
            if side:
                if side == sign:
                    offset[i] = math.nextafter(offset[i], math.inf) + 0.0
                exact[i] = {place: ONE if sign > 0 else MINUS_ONE}, sign * number(end)
        strict = np.array([row[3] for row in rows], dtype=np.bool_)
        for array in (matrix, offset, strict):
            array.setflags(write=False)
        return _checked(Polytope, matrix=matrix, offset=offset, strict=strict, exact=exact)

    def _reserve(self, numbers: int) -> None:
        self.numbers += numbers
        if self.numbers > MAX_NUMBERS:
            raise NotPlain  # the general reader says so


@dataclass(frozen=True, eq=False, slots=True)
class _Side:
    """A conjunction: bounds (input, is upper, number, strict), orders of inputs and rows of outputs
    (place, other place or number, sign, strict)."""

    bounds: list[tuple[int, bool, str, bool]]
    orders: list[tuple[int, int | str, int, bool]]
    rows: list[tuple[int, int | str, int, bool]]


def _checked(kind: type[Made], **values: Any) -> Made:
    """A frozen value whose checks the maker has made: a hundred thousand of them take time."""
    made = object.__new__(kind)
    made.__dict__.update(values)
    return made


def _read(text: str) -> Read:
    """The float64 next to a literal and the side on which the literal lies, both exact."""
    if len(text) > MAX_WORD:
        raise NotPlain
    if "e" in text or "E" in text:
        try:
            value = number(text)
        except VnnlibSyntaxError:
            raise NotPlain from None
        nearest = float(value)
        return nearest + 0.0, (value > nearest) - (value < nearest)
    nearest = float(text)
    whole, _, fraction = text.partition(".")
    digits = int(whole + fraction)
    numerator, denominator = nearest.as_integer_ratio()
    mine, its = digits * denominator, numerator * 10 ** len(fraction)
    return nearest + 0.0, (mine > its) - (mine < its)
