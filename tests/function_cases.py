"""Every function with its exact values, and intervals to try it on."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor, trunc
from typing import Any

import mpmath
import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph import activations, elementary, piecewise, product, smooth, steps, table
from ginnacer_verify.graph.function import Function, Monotone, Relu

mpmath.mp.dps = 60
ABSTRACT = {Function, Monotone, smooth.Smooth, steps.Flat}


@dataclass(frozen=True)
class Case:
    """A function, its exact value, and where it is defined. Exact numbers are fractions or have 60 digits."""

    function: Function
    exact: Callable[..., Any]
    rational: bool = False
    positive: bool = False

    @property
    def name(self) -> str:
        return f"{type(self.function).__name__}{getattr(self.function, 'exponent', '')}"

    def number(self, value: float) -> Any:
        return Fraction(float(value)) if self.rational else mpmath.mpf(float(value))


def _clip(y: Any, low: Any, high: Any) -> Any:
    return min(max(y, low), high)


def _gelu_tanh(y: Any) -> Any:
    inner = mpmath.sqrt(2 / mpmath.pi) * (y + mpmath.mpf(0.044715) * y**3)
    return y / (1 + mpmath.exp(-2 * inner))


def _rational(function: Function, exact: Callable[..., Any], positive: bool = False) -> Case:
    return Case(function, exact, True, positive)


def _softplus(y: Any) -> Any:
    return mpmath.log1p(mpmath.exp(y)) if y < 200 else y + mpmath.exp(-y)


CASES = [
    _rational(Relu(), lambda y: max(y, 0)),
    _rational(piecewise.LeakyRelu(0.01), lambda y: y if y >= 0 else Fraction(0.01) * y),
    _rational(piecewise.LeakyRelu(3.0), lambda y: y if y >= 0 else 3 * y),
    _rational(piecewise.LeakyRelu(-0.3), lambda y: y if y >= 0 else Fraction(-0.3) * y),
    _rational(piecewise.Absolute(), abs),
    _rational(piecewise.Clip(-1.0, 2.5), lambda y: _clip(y, -1, Fraction(2.5))),
    _rational(piecewise.Clip(0.1), lambda y: max(y, Fraction(0.1))),
    _rational(steps.Sign(), lambda y: (y > 0) - (y < 0)),
    _rational(steps.Floor(), floor),
    _rational(steps.Truncate(), trunc),
    _rational(steps.Equal(), lambda x, y: int(x == y)),
    _rational(table.Table(lambda t: np.abs(t[0] % 5.0) - 2), lambda y: trunc(y) % 5 - 2),
    _rational(table.Table(lambda t: np.abs(t[0] - t[1]), 2), lambda x, y: abs(trunc(x) - trunc(y))),
    _rational(piecewise.Maximum(2), max),
    _rational(piecewise.Maximum(4), max),
    _rational(piecewise.Minimum(3), min),
    _rational(product.Product(), lambda x, y: x * y),
    _rational(elementary.Square(), lambda y: y * y),
    _rational(elementary.Reciprocal(), lambda y: 1 / y),
    _rational(elementary.SoftmaxReciprocal(4), lambda y: 1 / y),
    _rational(elementary.Power(3), lambda y: y**3),
    _rational(elementary.Power(4), lambda y: y**4),
    _rational(elementary.Power(-2), lambda y: 1 / y**2),
    _rational(activations.HardSwish(), lambda y: y * _clip(y / 6 + Fraction(1, 2), 0, 1)),
    Case(elementary.Power(1.5), lambda y: mpmath.power(y, 1.5), positive=True),
    Case(elementary.Power(0.3), lambda y: mpmath.power(y, 0.3), positive=True),
    Case(elementary.Power(-0.5), lambda y: mpmath.power(y, -0.5), positive=True),
    Case(elementary.Sqrt(), mpmath.sqrt, positive=True),
    Case(elementary.Log(), mpmath.log, positive=True),
    Case(elementary.SoftmaxLog(4), mpmath.log, positive=True),
    Case(elementary.Exp(), mpmath.exp),
    Case(elementary.Sigmoid(), lambda y: 1 / (1 + mpmath.exp(-y))),
    Case(elementary.Tanh(), mpmath.tanh),
    Case(elementary.Sin(), mpmath.sin),
    Case(elementary.Cos(), mpmath.cos),
    Case(activations.Softplus(), _softplus),
    Case(activations.Elu(1.0), lambda y: y if y > 0 else mpmath.expm1(y)),
    Case(activations.Elu(2.5), lambda y: y if y > 0 else mpmath.mpf(2.5) * mpmath.expm1(y)),
    Case(activations.Erf(), mpmath.erf),
    Case(activations.Gelu(), lambda y: y * mpmath.erfc(-y / mpmath.sqrt(2)) / 2),
    Case(activations.GeluTanh(), _gelu_tanh),
    Case(activations.Silu(), lambda y: y / (1 + mpmath.exp(-y))),
    Case(activations.Mish(), lambda y: y * mpmath.tanh(_softplus(y))),
]


def intervals(case: Case, count: int, seed: int = 0) -> tuple[list[Array], list[Array]]:
    """Ends for each argument: ordinary, degenerate, adjacent, tiny, huge, and starting or ending where pieces meet."""
    random = np.random.default_rng(seed)
    kinks = [0.0, -0.0, 1.0, -1.0, 2.5, 0.1, 3.0, -3.0, np.pi, np.pi / 2, *getattr(case.function, "points", ())]
    lowers, uppers = [], []
    for _ in range(case.function.arity):
        middle = random.normal(size=count) * 10.0 ** random.integers(-2, 3, count)
        width = random.random(count) * 10.0 ** random.integers(-9, 3, count)
        lower, upper = middle - width, middle + width
        kind = random.integers(0, 12, count)
        at = random.choice(np.array(kinks), count)
        lower, upper = np.where(kind == 0, at, lower), np.where(kind == 0, at + width, upper)
        lower, upper = np.where(kind == 1, at - width, lower), np.where(kind == 1, at, upper)
        upper = np.where(kind == 2, lower, upper)
        upper = np.where(kind == 3, np.nextafter(lower, np.inf), upper)
        scale = random.choice([1e-300, 1e-160, 1e-20, 1e6, 1e30], count)
        ends = np.sort(random.normal(size=(2, count)), axis=0) * scale
        lower, upper = np.where(kind == 4, ends[0], lower), np.where(kind == 4, ends[1], upper)
        lower, upper = np.where(kind == 5, at, lower), np.where(kind == 5, np.nextafter(at, np.inf), upper)
        lower, upper = np.where(kind == 6, np.nextafter(at, -np.inf), lower), np.where(kind == 6, at + width, upper)
        lower, upper = np.where(kind == 7, -5 * random.random(count), lower), np.where(kind == 7, 5 * width, upper)
        if case.positive:
            lower, upper = np.minimum(np.abs(lower), np.abs(upper)), np.maximum(np.abs(lower), np.abs(upper))
        lowers.append(np.minimum(lower, upper))
        uppers.append(np.maximum(lower, upper))
    return lowers, uppers


def classes(base: type[Function] = Function) -> set[type[Function]]:
    """Every class of functions in the package that can be made."""
    found = {base} | {one for child in base.__subclasses__() for one in classes(child)}
    return {one for one in found if one not in ABSTRACT and one.__module__.startswith("ginnacer_verify")}
