"""The tree that both VNN-LIB readers build: polynomials, comparisons of them, and/or; all in exact arithmetic.

A variable is an int, `i` for input `x_i` and `~j` for output `y_j`; a constant is a Fraction. Nothing here recurses, so
no depth of nesting can exhaust the stack.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, TypeAlias

from ginnacer_verify.errors import UnsupportedProperty, VnnlibSyntaxError

MAX_DISJUNCTS = 1_000_000
"""A property with more is refused; each of them is a query of its own."""

MAX_BITS = 20_000
"""A constant whose exact fraction needs more is refused: nested products could grow it without end."""

MAX_MONOMIALS, MAX_DEGREE = 1000, 16
"""A product of sums that has more terms when multiplied out, or that multiplies more variables, is refused."""

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
MAX_NUMBER_LENGTH = 2000
MAX_EXPONENT = 400

ZERO, ONE, MINUS_ONE = Fraction(0), Fraction(1), Fraction(-1)

Monomial: TypeAlias = tuple[int, ...]
"""The variables of a product, in order; a square has the same one twice."""
Term: TypeAlias = "int | Fraction | Sum | Scaled | Polynomial"
Formula: TypeAlias = "Row | Curve | And | Or"
Node: TypeAlias = "Term | Formula"


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """At least one of the parts holds a variable."""

    parts: tuple[Term, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """`factor * term`, where the term holds a variable."""

    factor: Fraction
    term: Term


@dataclass(frozen=True, slots=True, eq=False)
class Polynomial:
    """A product of sums, multiplied out: the coefficient of each monomial. The empty monomial is the constant."""

    coefficients: dict[Monomial, Fraction]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The comparison `sum of coefficient * variable <= offset`, or `<` if strict.

    At least one variable, none with the coefficient zero, and either only inputs or only outputs."""

    coefficients: dict[int, Fraction]
    offset: Fraction
    strict: bool
    disjuncts: ClassVar[int] = 1

    @property
    def is_input(self) -> bool:
        return next(iter(self.coefficients)) >= 0


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The comparison `sum of coefficient * monomial <= offset`, or `<` if strict, that is no Row: it has products of
    variables, or inputs beside outputs."""

    coefficients: dict[Monomial, Fraction]
    offset: Fraction
    strict: bool
    disjuncts: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, eq=False)
class And:
    """`disjuncts` counts those of the normal form (capped just above MAX_DISJUNCTS)."""

    parts: tuple[Formula, ...]
    disjuncts: int


@dataclass(frozen=True, slots=True, eq=False)
class Or:
    parts: tuple[Formula, ...]
    disjuncts: int


TRUE, FALSE = And((), 1), Or((), 0)


def number(text: str) -> Fraction:
    """The exact value of a decimal literal, which must lie in the range of float64."""
    found = NUMBER.fullmatch(text) if len(text) <= MAX_NUMBER_LENGTH else None
    if found is None:
        raise VnnlibSyntaxError(f"{text[:40]!r} is not a number", hint="numbers are written like 12, -0.5 or 3e-2")
    if abs(float(text)) == float("inf") or abs(int(found[1] or 0)) > MAX_EXPONENT:
        raise VnnlibSyntaxError(
            f"the number {text[:40]} is out of range", hint="float64 reaches from 5e-324 to 1.8e308"
        )
    return Fraction(Decimal(text))


def conjunction(parts: Sequence[Formula]) -> Formula:
    """And, simplified: no part of the result is true or false, so every branch of it has a disjunct."""
    if any(part is FALSE for part in parts):
        return FALSE
    rest = tuple(part for part in parts if part is not TRUE)
    if len(rest) < 2:
        return rest[0] if rest else TRUE
    disjuncts = 1
    for part in rest:
        disjuncts = min(disjuncts * part.disjuncts, MAX_DISJUNCTS + 1)
    return And(rest, disjuncts)


def disjunction(parts: Sequence[Formula]) -> Formula:
    """Or, simplified in the same way."""
    if any(part is TRUE for part in parts):
        return TRUE
    rest = tuple(part for part in parts if part is not FALSE)
    if len(rest) < 2:
        return rest[0] if rest else FALSE
    return Or(rest, min(sum(part.disjuncts for part in rest), MAX_DISJUNCTS + 1))


def add(terms: Sequence[Term]) -> Term:
    if all(isinstance(term, Fraction) for term in terms):
        return _checked(sum((term for term in terms if isinstance(term, Fraction)), ZERO))
    return Sum(tuple(terms))


def subtract(terms: Sequence[Term]) -> Term:
    """`a - b - c`, or `-a` of a single term."""
    if len(terms) == 1:
        return multiply((MINUS_ONE, terms[0]))
    return add((terms[0], *(multiply((MINUS_ONE, term)) for term in terms[1:])))


def multiply(terms: Sequence[Term]) -> Term:
    """The product of constants and of any number of terms with variables."""
    variable = [term for term in terms if not isinstance(term, Fraction)]
    factor = ONE
    for term in terms:
        if isinstance(term, Fraction):
            factor = _checked(factor * term)
    if not variable:
        return factor
    return Scaled(factor, variable[0] if len(variable) == 1 else _product(variable))


def _product(terms: Sequence[Term]) -> Polynomial:
    """Several terms with variables, multiplied out."""
    result: dict[Monomial, Fraction] = {(): ONE}
    for term in terms:
        expanded, product = _expanded(term), dict[Monomial, Fraction]()
        if len(expanded) * len(result) > MAX_MONOMIALS:
            raise UnsupportedProperty(f"a product of sums with more than {MAX_MONOMIALS} terms: write it with fewer")
        for left, a in result.items():
            for right, b in expanded.items():
                key = tuple(sorted(left + right))
                product[key] = _checked(product.get(key, ZERO) + a * b)
        result = product
    if max(map(len, result), default=0) > MAX_DEGREE:
        raise UnsupportedProperty(f"a product of more than {MAX_DEGREE} variables")
    return Polynomial(result)


def at_most(left: Term, right: Term, strict: bool = False) -> Formula:
    """`left <= right` as a row or a curve, or as TRUE or FALSE when no variable is left in it."""
    if isinstance(left, int) and isinstance(right, Fraction):
        return Row({left: ONE}, right, strict)
    if isinstance(left, Fraction) and isinstance(right, int):
        return Row({right: MINUS_ONE}, -left, strict)
    coefficients = _expanded(subtract((left, right)))
    constant = coefficients.pop((), ZERO)
    if not coefficients:
        return TRUE if constant < 0 or (constant == 0 and not strict) else FALSE
    linear = {monomial[0]: value for monomial, value in coefficients.items() if len(monomial) == 1}
    if len(linear) < len(coefficients) or min(linear) < 0 <= max(linear):
        return Curve(coefficients, -constant, strict)
    return Row(linear, -constant, strict)


def _expanded(term: Term) -> dict[Monomial, Fraction]:
    """The coefficients of all monomials, without zeros; that of the empty one is the constant."""
    found: dict[Monomial, Fraction] = {}
    todo = [(term, ONE)]
    while todo:
        term, factor = todo.pop()
        match term:
            case int():
                found[(term,)] = _checked(found.get((term,), ZERO) + factor)
            case Fraction():
                found[()] = _checked(found.get((), ZERO) + factor * term)
            case Sum():
                todo.extend((part, factor) for part in term.parts)
            case Scaled():
                todo.append((term.term, _checked(factor * term.factor)))
            case Polynomial():
                for monomial, value in term.coefficients.items():
                    found[monomial] = _checked(found.get(monomial, ZERO) + factor * value)
    return {monomial: value for monomial, value in found.items() if value}


def curves(formula: Formula) -> Iterator[Curve]:
    """All curves of a formula, in the order of the text; parts that occur several times are looked at once."""
    todo, seen = [formula], set[int]()
    while todo:
        match todo.pop():
            case Curve() as curve:
                yield curve
            case And(parts=parts) | Or(parts=parts):
                if id(parts) not in seen:
                    seen.add(id(parts))
                    todo.extend(reversed(parts))


def _checked(value: Fraction) -> Fraction:
    if value.numerator.bit_length() + value.denominator.bit_length() > MAX_BITS:
        raise UnsupportedProperty("a constant expression needs thousands of digits: write its value instead")
    return value


COMPARISONS: dict[str, Callable[[Term, Term], Formula]] = {
    "<=": at_most,
    "<": lambda left, right: at_most(left, right, strict=True),
    ">=": lambda left, right: at_most(right, left),
    ">": lambda left, right: at_most(right, left, strict=True),
    "=": lambda left, right: conjunction((at_most(left, right), at_most(right, left))),
    "!=": lambda left, right: disjunction((at_most(left, right, strict=True), at_most(right, left, strict=True))),
}
ARITHMETIC: dict[str, Callable[[Sequence[Term]], Term]] = {"+": add, "-": subtract, "*": multiply}
CONNECTIVES: dict[str, Callable[[Sequence[Formula]], Formula]] = {"and": conjunction, "or": disjunction}


def combine(operator: str, nodes: Sequence[Node]) -> Node:
    """The node of an operator applied to nodes, whose number and kind are checked here for both readers."""
    if not nodes:
        raise VnnlibSyntaxError(f"'{operator}' is applied to nothing", hint="remove it or give it an argument")
    if operator in CONNECTIVES:
        return CONNECTIVES[operator]([_formula(operator, node) for node in nodes])
    terms = [_term(operator, node) for node in nodes]
    if operator in ARITHMETIC:
        return ARITHMETIC[operator](terms)
    if operator in COMPARISONS:
        if len(terms) != 2:
            raise VnnlibSyntaxError(f"'{operator}' compares {len(terms)} terms", hint="it takes exactly two")
        return COMPARISONS[operator](*terms)
    raise VnnlibSyntaxError(f"unknown operator {operator[:40]!r}")


def _formula(operator: str, node: Node) -> Formula:
    if isinstance(node, (Row, Curve, And, Or)):
        return node
    raise VnnlibSyntaxError(f"'{operator}' is applied to a number", hint="it takes comparisons, 'and' and 'or'")


def _term(operator: str, node: Node) -> Term:
    if isinstance(node, (Row, Curve, And, Or)):
        raise VnnlibSyntaxError(f"'{operator}' is applied to a comparison", hint="it takes variables, numbers and sums")
    return node
