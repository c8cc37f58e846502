"""VNN-LIB 1.0: text -> tokens -> tree -> Property.

One pass over the tokens: a closing parenthesis turns what it closes into a node of the tree, so nothing recurses.
"""

import re
from collections.abc import Sequence
from itertools import islice
from typing import TypeAlias

from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import UnsupportedProperty, VnnlibSyntaxError
from ginnacer_verify.properties.disjuncts import property_of
from ginnacer_verify.properties.property import Property, Variable
from ginnacer_verify.properties.terms import NUMBER, And, Formula, Node, Or, Row, combine, conjunction, number

COMMENT = re.compile(r";[^\n]*")
TOKEN = re.compile(r"[()]|[^ \t\n()]+")
NAME = re.compile(r"([XY])_(0|[1-9][0-9]{0,8})")
OPERATORS = ("and", "or", "<=", ">=", "<", ">", "=", "+", "-", "*")
LOOK = 1 << 16
"""After so many tokens the clock is looked at."""
COMMANDS = ("assert", "declare-const", "declare-fun")

Item: TypeAlias = "str | Node | tuple[()]"
"""What a form holds: words, the nodes of forms inside of it, and the () of declare-fun."""


def parse_vnnlib1(text: str, source: str, deadline: Deadline = FOREVER) -> Property:
    """The property of a VNN-LIB 1.0 text whose lines end with a line feed."""
    text = COMMENT.sub("", text)
    reader = _Reader(deadline)
    try:
        reader.read(TOKEN.findall(text))
        return reader.result()
    except VnnlibSyntaxError as error:
        line = _line(text, reader.position)
        raise VnnlibSyntaxError(error.problem, source=source, line=line, hint=error.hint) from None
    except UnsupportedProperty as error:
        line = _line(text, reader.position)
        raise UnsupportedProperty(f"{source}:{line}: {error}" if line else f"{source}: {error}") from None


def _line(text: str, position: int) -> int:
    """The line of the token at a position; 0 without one."""
    token = next(islice(TOKEN.finditer(text), position, None), None) if position >= 0 else None
    return text.count("\n", 0, token.start()) + 1 if token else 0


class _Reader:
    """What has been declared and asserted so far; `position` is the token that an error would be about."""

    def __init__(self, deadline: Deadline) -> None:
        self.deadline = deadline
        self.position = -1
        self.variables: dict[str, int] = {}
        self.numbers: dict[str, Node] = {}
        self.asserted: list[Formula] = []

    def read(self, tokens: Sequence[str]) -> None:
        opened: list[int] = []
        forms: list[list[Item]] = [[]]
        for position, token in enumerate(tokens):
            if not position % LOOK:
                self.deadline.check("the property was read")
            if token == "(":
                opened.append(position)
                forms.append([])
            elif not opened:
                self.position = position
                raise VnnlibSyntaxError(f"{token[:40]!r} outside of any form", hint="check the parentheses before it")
            elif token == ")":
                self.position = opened.pop()
                form = forms.pop()
                if opened:
                    forms[-1].append(self._node(form))
                else:
                    self._command(form)
            else:
                forms[-1].append(token)
        self.position = opened[-1] if opened else -1
        if opened:
            raise VnnlibSyntaxError("this parenthesis is never closed", hint=f"add {len(opened)} at the end")

    def result(self) -> Property:
        x, y = self._declared("X"), self._declared("Y")
        return property_of(conjunction(self.asserted), x, y, "1.0", self.deadline)

    def _declared(self, letter: str) -> Variable:
        indices = {max(v, ~v) for name, v in self.variables.items() if name[0] == letter}
        if not indices:
            raise VnnlibSyntaxError(f"no variable {letter}_0 is declared", hint=f"(declare-const {letter}_0 Real)")
        missing = next((i for i in range(len(indices)) if i not in indices), None)
        if missing is not None:
            raise VnnlibSyntaxError(f"{letter}_{missing} is not declared but {letter}_{max(indices)} is")
        return Variable(letter, (len(indices),))

    def _command(self, form: list[Item]) -> None:
        match form:
            case ["assert", (Row() | And() | Or()) as formula]:
                self.asserted.append(formula)
            case ["assert", *_]:
                raise VnnlibSyntaxError("'assert' takes one comparison, 'and' or 'or'", hint="join several with 'and'")
            case ["declare-const", str(name), str(sort)] | ["declare-fun", str(name), (), str(sort)]:
                self._declare(name, sort)
            case ["declare-const" | "declare-fun", *_]:
                raise VnnlibSyntaxError("not a declaration", hint="write (declare-const X_0 Real)")
            case [str(word), *_]:
                raise VnnlibSyntaxError(
                    f"unknown command {word[:40]!r}", hint="only declare-const and assert are known"
                )
            case _:
                raise VnnlibSyntaxError("a form without a command", hint="write (assert ...) or (declare-const ...)")

    def _declare(self, name: str, sort: str) -> None:
        found = NAME.fullmatch(name)
        if found is None:
            hint = "inputs are X_0, X_1, ... and outputs Y_0, Y_1, ..."
            raise VnnlibSyntaxError(f"{name[:40]!r} is not the name of a variable", hint=hint)
        if name in self.variables:
            raise VnnlibSyntaxError(f"{name} is declared twice")
        if sort != "Real":
            raise UnsupportedProperty(f"{name} has the type {sort[:40]}: only Real is supported")
        self.variables[name] = int(found[2]) if found[1] == "X" else ~int(found[2])

    def _node(self, form: list[Item]) -> Item:
        if not form:
            return ()
        operator = form[0]
        if not isinstance(operator, str) or operator not in OPERATORS:
            word = operator if isinstance(operator, str) else "("
            if word in COMMANDS:
                raise VnnlibSyntaxError(
                    f"'{word}' inside of another form", hint="a parenthesis before it is not closed"
                )
            raise VnnlibSyntaxError(f"unknown operator {word[:40]!r}", hint=f"known are {' '.join(OPERATORS)}")
        return combine(operator, [self._resolved(item) for item in form[1:]])

    def _resolved(self, item: Item) -> Node:
        if isinstance(item, tuple):
            raise VnnlibSyntaxError("an empty form ()", hint="remove it")
        if not isinstance(item, str):
            return item
        known = self.variables.get(item, self.numbers.get(item))
        if known is not None:
            return known
        if NUMBER.match(item) is None:
            hint = f"add (declare-const {item} Real)" if NAME.fullmatch(item) else ""
            raise VnnlibSyntaxError(f"{item[:40]!r} is not declared", hint=hint)
        self.numbers[item] = number(item)
        return self.numbers[item]
