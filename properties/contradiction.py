"""Conjunctions that contradict themselves, whatever the network computes: seen in exact arithmetic.

Bounds prove that rows cannot all hold by some distance. What is left for this place are rows that hold almost, such as
`y < 0` beside `x * y >= 0` with a positive x: there is no distance, but no solution either.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import TypeAlias

from ginnacer_verify.box import Box
from ginnacer_verify.properties.terms import ONE, ZERO, Monomial, Row

Polynomial: TypeAlias = dict[Monomial, Fraction]
"""The empty monomial is the constant. Inputs are `i`, outputs `~j`."""
Ends: TypeAlias = tuple[Fraction, Fraction]


def leave_no_room(rows: Sequence[Row]) -> bool:
    """Whether two rows bound the same combination of outputs from both sides so that nothing is left in between."""
    least: dict[tuple[tuple[int, Fraction], ...], tuple[Fraction, bool]] = {}
    for row in rows:
        scale = abs(row.coefficients[min(row.coefficients)])
        key = tuple(sorted((variable, value / scale) for variable, value in row.coefficients.items()))
        bound = row.offset / scale, not row.strict
        least[key] = min(least[key], bound) if key in least else bound
        opposite = least.get(tuple((variable, -value) for variable, value in key))
        if opposite is not None:
            room = least[key][0] + opposite[0]
            if room < 0 or (room == 0 and not (least[key][1] and opposite[1])):
                return True
    return False


def divide_out(rows: Sequence[Row], outputs: int, monomials: Sequence[Monomial], box: Box) -> bool:
    """Whether some row is `v * q <= 0` where `v` has a sign, because a row says so strictly, and `q` has it as well.

    The row may also be the sum of a row and another one times the distance of an input from an end of its box."""
    ends = [(Fraction(float(a)), Fraction(float(b))) for a, b in zip(box.lower, box.upper, strict=True)]
    polynomials = [_pinned(_polynomial(row, outputs, monomials), ends) for row in rows]
    for row in rows:
        if row.strict and row.offset == 0 and len(row.coefficients) == 1:
            ((variable, coefficient),) = row.coefficients.items()
            sign = -1 if coefficient > 0 else 1
            if ~variable < outputs and any(
                _has_sign(_quotient(one, variable), ends, sign) for one in _sums(polynomials, variable, ends)
            ):
                return True
    return False


def _polynomial(row: Row, outputs: int, monomials: Sequence[Monomial]) -> Polynomial:
    """A row as `polynomial <= 0`."""
    found = {
        (variable,) if ~variable < outputs else monomials[~variable - outputs]: value
        for variable, value in row.coefficients.items()
    }
    return found | ({(): -row.offset} if row.offset else {})


def _pinned(polynomial: Polynomial, ends: Sequence[Ends]) -> Polynomial:
    """The same with the values of inputs that do not vary."""
    found: Polynomial = {}
    for monomial, value in polynomial.items():
        rest: list[int] = []
        for i in monomial:
            if i >= 0 and ends[i][0] == ends[i][1]:
                value *= ends[i][0]
            else:
                rest.append(i)
        found[tuple(rest)] = found.get(tuple(rest), ZERO) + value
    return {monomial: value for monomial, value in found.items() if value}


def _times(a: Polynomial, b: Polynomial, factor: Fraction = ONE) -> Polynomial:
    found: Polynomial = {}
    for (left, x), (right, y) in product(a.items(), b.items()):
        key = tuple(sorted(left + right))
        found[key] = found.get(key, ZERO) + factor * x * y
    return {monomial: value for monomial, value in found.items() if value}


def _plus(a: Polynomial, b: Polynomial) -> Polynomial:
    total = {key: a.get(key, ZERO) + b.get(key, ZERO) for key in a | b}
    return {monomial: value for monomial, value in total.items() if value}


def _without(polynomial: Polynomial, variable: int) -> Polynomial:
    return {monomial: value for monomial, value in polynomial.items() if variable not in monomial}


def _sums(rows: Sequence[Polynomial], variable: int, ends: Sequence[Ends]) -> Iterator[Polynomial]:
    """Polynomials that are at most 0 wherever all rows are, and every term of which has the variable."""
    for one in rows:
        rest = _without(one, variable)
        if one and not rest:
            yield one
            continue
        inputs = sorted({i for monomial in rest for i in monomial if i >= 0})
        for other, i in product(rows, inputs):
            low, high = ends[i]
            for distance in ({(i,): ONE, (): -low}, {(i,): -ONE, (): high}):
                more = _times(other, {monomial: value for monomial, value in distance.items() if value})
                second = _without(more, variable)
                if second.keys() == rest.keys() and rest:
                    factor = -rest[next(iter(rest))] / second[next(iter(rest))]
                    total = _plus(one, _times(more, {(): factor}))
                    if factor > 0 and total and not _without(total, variable):
                        yield total


def _quotient(polynomial: Polynomial, variable: int) -> Polynomial:
    """What is left of each monomial without the variable, once."""
    found: Polynomial = {}
    for monomial, value in polynomial.items():
        at = monomial.index(variable)
        found[monomial[:at] + monomial[at + 1 :]] = value
    return found


def _has_sign(polynomial: Polynomial, ends: Sequence[Ends], sign: int) -> bool:
    """Whether a polynomial of inputs alone is positive (negative) everywhere on the box."""
    low = high = ZERO
    for monomial, value in polynomial.items():
        if any(i < 0 for i in monomial):
            return False
        a = b = value
        for i in monomial:
            corners = [x * y for x, y in product((a, b), ends[i])]
            a, b = min(corners), max(corners)
        low, high = low + a, high + b
    return low > 0 if sign > 0 else high < 0
