"""From a Property to VNN-LIB text that is read back as the same boxes for proofs and the same unsafe outputs.

The boxes are written closed: a witness of the text may lie on an end that the property does not include."""

import sys
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

from ginnacer_verify.box import Box
from ginnacer_verify.errors import PropertyError, UnsupportedProperty
from ginnacer_verify.properties.disjuncts import element
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable
from ginnacer_verify.properties.rounding import Bound, interval
from ginnacer_verify.properties.terms import MAX_NUMBER_LENGTH


def to_vnnlib(prop: Property, version: str = "1.0") -> str:
    """The text of a property in VNN-LIB 1.0 or 2.0; numbers are written out, never with an exponent."""
    if version not in ("1.0", "2.0"):
        raise PropertyError(f"VNN-LIB {version} cannot be written: choose 1.0 or 2.0")
    if any(disjunct.ball is not None for disjunct in prop.disjuncts):
        raise UnsupportedProperty("VNN-LIB has no balls; write the property of the maximum norm, which is a box")
    if prop.networks or prop.monomials:
        raise PropertyError("a property with several networks or with products cannot be written")
    x, y = prop.x, prop.y
    if version == "1.0":
        x, y = Variable("X", (x.size,)), Variable("Y", (y.size,))
    writer = _Writer(x, y, version)
    asserted = [f"(assert {condition})" for condition in writer.conditions(prop)]
    return "\n".join([*writer.declarations(), "", *asserted, ""])


@dataclass(frozen=True)
class _Writer:
    x: Variable
    y: Variable
    version: str

    def declarations(self) -> list[str]:
        if self.version == "1.0":
            return [
                f"(declare-const {element(v, i, self.version)} Real)" for v in (self.x, self.y) for i in range(v.size)
            ]
        network = "N" if "N" not in (self.x.name, self.y.name) else "Network"
        inputs, outputs = (f"{v.name} {v.dtype.lower()} [{','.join(map(str, v.shape))}]" for v in (self.x, self.y))
        return [
            "(vnnlib-version <2.0>)",
            f"(declare-network {network}",
            f"    (declare-input {inputs})",
            f"    (declare-output {outputs})",
            ")",
        ]

    def conditions(self, prop: Property) -> list[str]:
        """What the property says, as a conjunction; a box that all disjuncts share is written only once."""
        live = [(box, d) for d in prop.disjuncts if not (box := _tightened(d)).is_empty and not _contradicts(d)]
        if not live:
            return self._bounds(Box(np.eye(1, prop.inputs)[0], np.zeros(prop.inputs)))
        rows = [[*self._rows(d.inputs, self.x, above=1), *self._rows(d.outputs, self.y)] for _, d in live]
        first = live[0][0]
        if all(_equal(box, first) for box, _ in live):
            return [*self._bounds(first), *_either(rows)]
        return _either([[*self._bounds(box), *more] for (box, _), more in zip(live, rows, strict=True)])

    def _bounds(self, box: Box) -> list[str]:
        conditions = []
        for i, (low, high) in enumerate(zip(box.lower.tolist(), box.upper.tolist(), strict=True)):
            name = element(self.x, i, self.version)
            if np.isinf([low, high]).any():
                raise PropertyError(f"input {name} is unbounded: VNN-LIB properties need a box")
            number = self._nearest if low == high else self._exact  # a pin is read as the nearest float64
            conditions += [f"(>= {name} {number(low)})", f"(<= {name} {number(high)})"]
        return conditions

    def _rows(self, polytope: Polytope, variable: Variable, above: int = 0) -> list[str]:
        """The rows that have more than so many coefficients."""
        rows = ((polytope.row(i), bool(polytope.strict[i])) for i in range(len(polytope)))
        return [self._row(*row, strict, variable) for row, strict in rows if len(row[0]) > above]

    def _row(self, coefficients: dict[int, Fraction], offset: Fraction, strict: bool, variable: Variable) -> str:
        """A comparison in the simplest form that says the same, because many tools read only the simple forms."""
        less, greater = ("<", ">") if strict else ("<=", ">=")
        terms = {element(variable, i, self.version): coefficients[i] for i in sorted(coefficients)}
        match sorted(terms.items(), key=lambda term: -term[1]):
            case [(name, 1)]:
                return f"({less} {name} {self._exact(offset)})"
            case [(name, -1)]:
                return f"({greater} {name} {self._exact(-offset)})"
            case [(name, 1), (other, -1)] if offset == 0:
                return f"({less} {name} {other})"
        scaled = [name if c == 1 else f"(* {self._exact(c)} {name})" for name, c in terms.items()]
        left = f"(+ {' '.join(scaled)})" if len(scaled) > 1 else scaled[0]
        return f"({less} {left} {self._exact(offset)})"

    def _nearest(self, value: float) -> str:
        """The shortest decimal to which this float64 is the nearest."""
        return self._text(Decimal(repr(value)))

    def _exact(self, value: float | Fraction) -> str:
        """The decimal that is this number: readers may round inwards, outwards or not at all."""
        return self._text(decimal_of(Fraction(value)))

    def _text(self, value: Decimal) -> str:
        if self.version == "2.0" and 0 < value.copy_abs() < sys.float_info.min:
            raise UnsupportedProperty(f"{float(value)} is below the numbers that the parser of VNN-LIB 2.0 can read")
        text = format(value, "f")
        text = text.rstrip("0") if "." in text else f"{text}.0"
        text = f"{text}0" if text.endswith(".") else text
        if len(text) > MAX_NUMBER_LENGTH:
            raise UnsupportedProperty(f"a number of {len(text)} digits: readers refuse it")
        return text


def decimal_of(value: Fraction) -> Decimal:
    """The decimal with this very value."""
    twos = (value.denominator & -value.denominator).bit_length() - 1
    fives, rest = 0, value.denominator >> twos
    while rest % 5 == 0:
        fives, rest = fives + 1, rest // 5
    if rest != 1:
        raise PropertyError(f"{str(value)[:40]} has no end as a decimal")
    places = max(twos, fives)
    digits = abs(value.numerator) * 10**places // value.denominator
    return Decimal((int(value < 0), tuple(map(int, str(digits))), -places))


def _either(alternatives: list[list[str]]) -> list[str]:
    """The disjunction of conjunctions, as conditions that all hold."""
    if any(not conditions for conditions in alternatives):
        return []
    if len(alternatives) == 1:
        return alternatives[0]
    parts = "\n".join(f"    (and {' '.join(conditions)})" for conditions in alternatives)
    return [f"(or\n{parts}\n)"]


def _equal(a: Box, b: Box) -> bool:
    return a is b or bool((a.lower == b.lower).all() and (a.upper == b.upper).all())


def _tightened(disjunct: Disjunct) -> Box:
    """The box within the rows of a single input, which a reader would take for its bounds."""
    rows = disjunct.inputs
    single = np.flatnonzero(np.count_nonzero(rows.matrix, axis=1) == 1)
    if not len(single):
        return disjunct.box
    lower, upper = disjunct.box.lower.copy(), disjunct.box.upper.copy()
    for i in dict.fromkeys(int(np.flatnonzero(rows.matrix[r])[0]) for r in single):
        if np.isfinite([lower[i], upper[i]]).all():
            sides: dict[bool, Bound] = {False: (-Fraction(lower[i]), True), True: (Fraction(upper[i]), True)}
            for r in single[rows.matrix[single, i] != 0]:
                coefficients, offset = rows.row(int(r))
                coefficient = coefficients[i]
                bound = (offset / abs(coefficient), not rows.strict[r])
                sides[coefficient > 0] = min(sides[coefficient > 0], bound)
            lower[i], upper[i] = interval(sides[False], sides[True])[0]
    return Box(lower, upper)


def _contradicts(disjunct: Disjunct) -> bool:
    """Whether a row without variables is false, `0 <= -1`; VNN-LIB needs a variable in each comparison."""
    for rows in (disjunct.inputs, disjunct.outputs):
        for i in np.flatnonzero(~rows.matrix.any(axis=1)):
            offset = rows.row(int(i))[1]
            if offset < 0 or (offset == 0 and rows.strict[i]):
                return True
    return False
