"""A second opinion on VNN-LIB texts, for tests: slow, recursive, exact, and written without the readers under test.

A formula is a nested list of words, `["or", ["<=", "X_0", "0.5"], ...]`. It is taken from a 1.0 text by `forms` or from
the tree of the official 2.0 parser by `formula_of_query`, and evaluated at a point by `truth`.
"""

import operator
from collections.abc import Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

Form: TypeAlias = "str | list[Form]"
Point: TypeAlias = Mapping[str, Fraction]

COMPARE = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
    "!=": operator.ne,
}


class Malformed(Exception):
    """The text is no VNN-LIB."""


class TooClose(Exception):
    """A point so close to the boundary of a row that the rounding of its constants to float64 decides."""


def forms(text: str) -> list[list[Form]]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    words = " ".join(line.split(";")[0] for line in lines).replace("(", " ( ").replace(")", " ) ").split()
    top: list[Form] = []
    stack = [top]
    for word in words:
        if word == "(":
            stack.append([])
            stack[-2].append(stack[-1])
        elif word == ")":
            stack.pop()
            if not stack:
                raise Malformed("a parenthesis too many")
        else:
            stack[-1].append(word)
    if len(stack) != 1 or any(isinstance(form, str) for form in top):
        raise Malformed("a parenthesis is missing")
    return [form for form in top if isinstance(form, list)]


def formula_of_text(text: str) -> Form:
    """The conjunction of all assertions of a VNN-LIB 1.0 text; every word in them is known and declared."""
    declared: set[str] = set()
    asserted: list[Form] = ["and"]
    for form in forms(text):
        match form:
            case ["declare-const", str(name), "Real"] | ["declare-fun", str(name), [], "Real"] if name not in declared:
                declared.add(name)
            case ["assert", formula]:
                check(formula, declared)
                asserted.append(formula)
            case _:
                raise Malformed(f"{form}")
    for letter in "XY":
        count = sum(name.startswith(f"{letter}_") for name in declared)
        if not count or not {f"{letter}_{i}" for i in range(count)} <= declared:
            raise Malformed(f"the variables {letter} have gaps")
    return asserted


def check(form: Form, declared: set[str]) -> None:
    if isinstance(form, list):
        if len(form) < 2 or form[0] not in ("and", "or", "<=", ">=", "<", ">", "=", "+", "-", "*"):
            raise Malformed(f"{form}")
        if form[0] in COMPARE and len(form) != 3:
            raise Malformed(f"{form}")
        for part in form[1:]:
            check(part, declared)
    elif form not in declared:
        Fraction(form)


def formula_of_query(query: Any) -> Form:
    """The same from the tree of the official parser, by its named attributes; elements become X_i and Y_j."""
    (network,) = query.networks
    letters = {network.inputs[0].name: "X", network.outputs[0].name: "Y"}
    return ["and", *(_form(assertion.expr, letters) for assertion in query.assertions)]


def _form(node: Any, letters: dict[str, str]) -> Form:
    comparisons = {
        "LessEqual": "<=",
        "LessThan": "<",
        "GreaterEqual": ">=",
        "GreaterThan": ">",
        "Equal": "=",
        "NotEqual": "!=",
    }
    match type(node).__name__:
        case "And" | "Or" as name:
            return [name.lower(), *(_form(part, letters) for part in node.args)]
        case "Plus":
            return ["+", *(_form(part, letters) for part in node.args)]
        case "Multiply":
            return ["*", *(_form(part, letters) for part in node.args)]
        case "Minus":
            return ["-", _form(node.head, letters), *(_form(part, letters) for part in node.rest)]
        case "Negate":
            return ["-", _form(node.expr, letters)]
        case "Float" | "Int":
            return str(node.lexeme)
        case "Var":
            flat = sum(i * _product(node.shape[d + 1 :]) for d, i in enumerate(node.indices))
            return f"{letters[node.name]}_{flat}"
        case name:
            return [comparisons[name], _form(node.lhs, letters), _form(node.rhs, letters)]


def _product(factors: list[int]) -> int:
    return reduce(operator.mul, factors, 1)


def truth(form: Form, point: Point) -> bool:
    """Whether the point satisfies the formula."""
    if form[0] in ("and", "or"):
        values = [truth(part, point) for part in form[1:]]
        return all(values) if form[0] == "and" else any(values)
    if isinstance(form, str) or form[0] not in COMPARE:
        raise Malformed(f"{form} is no formula")
    left, right = value(form[1], point), value(form[2], point)
    if abs(left - right) < 1e-9 and _is_rounded(form):
        raise TooClose
    return bool(COMPARE[str(form[0])](left, right))


def _is_rounded(form: Form) -> bool:
    """Whether a Property rounds the constants of this comparison: not in bounds of one input, which are exact."""
    names, constants = words(form)
    bound = len(names) == 1 and names.pop().startswith("X")
    return not bound and any(Fraction(float(c)) != c for c in constants)


def value(form: Form, point: Point) -> Fraction:
    if isinstance(form, str):
        return point[form] if form in point else Fraction(form)
    first, *rest = (value(part, point) for part in form[1:])
    match form[0]:
        case "+":
            return sum(rest, first)
        case "-":
            return first - sum(rest) if rest else -first
        case "*":
            return reduce(operator.mul, rest, first)
    raise Malformed(f"{form} is no term")


def words(form: Form) -> tuple[set[str], set[Fraction]]:
    """The names and the constants that occur in it."""
    if isinstance(form, str):
        return ({form}, set()) if form[0] in "XY" else (set(), {Fraction(form)})
    parts = [words(part) for part in form[1:]]
    return {name for names, _ in parts for name in names}, {c for _, constants in parts for c in constants}
