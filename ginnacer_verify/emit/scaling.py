"""A functional form in units in which all of its variables have the same size.

Marabou's tolerances are absolute, up to 1e-5 (a variable with a smaller range counts as fixed). On a box 1e-4 wide, or
behind a layer with values of 1e-3, it calls queries `unsat` that have solutions. So each variable is written as

    v = shift + scale * v'

with v' between 0 and SIZE for an input or an unsafe row, and up to SIZE in absolute value for all others; then its
tolerances are far below the slacks of a query. ReLUs allow it because relu(scale * v) = scale * relu(v). Scales are
powers of two, so that scaling rounds nothing."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ginnacer_verify.arrays import Array

if TYPE_CHECKING:
    from ginnacer_verify.emit.marabou import Equation, FunctionalForm

SIZE = 2.0**20
"""Marabou's 1e-5 is then 1e-11 of a variable's range; the slacks of a query are 1e-8 of it or more."""


@dataclass(frozen=True, eq=False)
class ScaledForm:
    """The form over v', and the units of its variables."""

    form: "FunctionalForm"
    shift: Array
    scale: Array

    def z(self, values: Array) -> Array:
        """The query's z for values of the scaled form's variables `form.z`."""
        return self.shift[self.form.z] + self.scale[self.form.z] * values


def scaled(form: "FunctionalForm") -> ScaledForm:
    """The same form with variables of one size."""
    shift = np.zeros(len(form.lower))
    shift[: form.inputs] = form.lower[: form.inputs]
    shift[form.outputs] = form.lower[form.outputs]
    scale = power_of_two(np.maximum(np.abs(form.lower - shift), np.abs(form.upper - shift)) / SIZE)
    for before, after in form.relus:
        scale[after] = scale[before]
    return ScaledForm(
        replace(
            form,
            lower=(form.lower - shift) / scale,
            upper=(form.upper - shift) / scale,
            equations=tuple(_scaled(equation, shift, scale) for equation in form.equations),
        ),
        shift,
        scale,
    )


def _scaled(equation: "Equation", shift: Array, scale: Array) -> "Equation":
    """The equation over v', divided by its largest coefficient, or nearly so."""
    coefficients = equation.coefficients * scale[equation.variables]
    scalar = equation.scalar - float(equation.coefficients @ shift[equation.variables])
    unit = float(power_of_two(np.abs(coefficients).max(initial=0.0)))
    return replace(equation, coefficients=coefficients / unit, scalar=scalar / unit)


def power_of_two(size: float | Array) -> Array:
    """The next power of two that is not smaller; 1 for nothing at all."""
    return np.where(np.asarray(size) > 0, np.exp2(np.ceil(np.log2(np.maximum(size, 1e-300)))), 1.0)
