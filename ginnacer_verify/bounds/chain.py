"""Bounds of all pre-activations of a network on a box: interval, FastLin and CROWN, each rigorous in floating point.

Every bound is that of real arithmetic on the network's weights. A computed sum of n products, in whatever order BLAS
takes them, is off by at most gamma(n) times the sum of their absolute values (Higham, Accuracy and Stability of
Numerical Algorithms, 3.1); each step is widened by that much, so no rounding error can turn into a proof.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array, Weight, dense, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.rounding import HUGE, TINY, UNDERFLOW, UNIT, gamma

Mask = NDArray[np.bool_]
NEGLIGIBLE = 1e-12
"""A ReLU whose input exceeds 0 on one side by no more than this counts as stable; the difference is an error term."""
CHUNK = 256
"""So many rows are substituted back together: between two chunks the deadline is looked at."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """`lower[l] <= y <= upper[l]` for the pre-activations y of each layer; the last one is the output."""

    lower: tuple[Array, ...]
    upper: tuple[Array, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", tuple(read_only(values) for values in self.lower))
        object.__setattr__(self, "upper", tuple(read_only(values) for values in self.upper))

    def __len__(self) -> int:
        return len(self.lower)

    def active(self, number: int) -> Mask:
        """The ReLUs of a layer that never cut off more than a negligible amount."""
        return np.asarray((self.lower[number] >= -NEGLIGIBLE) & (self.upper[number] > NEGLIGIBLE))

    def unstable_in(self, number: int) -> Mask:
        """The ReLUs of a layer that can be active as well as inactive, and not only by a negligible amount."""
        return np.asarray((self.lower[number] < -NEGLIGIBLE) & (self.upper[number] > NEGLIGIBLE))

    @property
    def is_finite(self) -> bool:
        return all(bool((np.abs(ends) < HUGE).all()) for ends in (*self.lower, *self.upper))

    @property
    def unstable(self) -> int:
        """How many unstable ReLUs there are."""
        return sum(int(np.count_nonzero(self.unstable_in(number))) for number in range(len(self) - 1))

    def intersect(self, other: "Bounds") -> "Bounds":
        """The tighter of two sound bounds, value by value; a NaN on either side is ignored."""
        return Bounds(
            tuple(np.fmax(a, b) for a, b in zip(self.lower, other.lower, strict=True)),
            tuple(np.fmin(a, b) for a, b in zip(self.upper, other.upper, strict=True)),
        )


@dataclass(frozen=True, eq=False)
class Lines:
    """Two lines per ReLU: `lower_slope * y <= relu(y) <= upper_slope * y + intercept` on the neuron's interval.

    One value per neuron, or a matrix with one row per function that is bounded. `extra * y`, if given, is at most 0
    wherever the bound is to hold: what a decided phase adds."""

    lower_slope: Array
    upper_slope: Array
    intercept: Array
    extra: Array | None = None


def relu_lines(lower: Array, upper: Array, *, parallel: bool = False) -> Lines:
    """CROWN's lines of a ReLU layer; `parallel` gives FastLin's, where both have one slope."""
    lines = (Relu().parallel if parallel else Relu().lines)((lower,), (upper,))
    return Lines(lines.lower_slope[0], lines.upper_slope[0], lines.upper_intercept)


def absolute(weight: Weight) -> Weight:
    return abs(weight)


def outputs_of(lower: Array, upper: Array) -> tuple[Array, Array]:
    """The interval of relu(y) for y in an interval."""
    return np.maximum(lower, 0.0), np.maximum(upper, 0.0)


def interval(layer: Layer, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Bounds of one affine layer from bounds of its inputs."""
    middle = lower + (upper - lower) / 2
    radius = np.maximum(upper - middle, middle - lower) * (1 + 4 * UNIT)
    size = absolute(layer.weight) @ radius
    total = layer.absolute(np.abs(middle) + radius)
    error = gamma(layer.inputs + 4) * total + layer.off(total) + TINY
    y = layer(middle)
    return np.asarray(y - size - error), np.asarray(y + size + error)


@np.errstate(over="ignore", invalid="ignore")
def interval_bounds(layers: Sequence[Layer], box: Box) -> Bounds:
    """Plain interval propagation."""
    lower, upper, found = box.lower, box.upper, []
    for layer in layers:
        low, high = interval(layer, lower, upper)
        found.append((np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)))
        lower, upper = outputs_of(*found[-1])
    return Bounds(tuple(low for low, _ in found), tuple(high for _, high in found))


def magnitudes(layers: Sequence[Layer], box: Box, found: Sequence[tuple[Array, Array]]) -> list[Array]:
    """|W| |x| + |b| per layer at the largest |x| that the bounds allow: the scale of its rounding errors."""
    return [layer.absolute(x) for layer, x in zip(layers, _largest(box, found), strict=False)]


def lost(layers: Sequence[Layer], box: Box, found: Sequence[tuple[Array, Array]], scale: Sequence[Array]) -> float:
    """What underflow can take from a function that is substituted back through the layers: in each of them that many
    products per coefficient of a value x, and some per coefficient of a value y, whose scale is given."""
    parts = zip(layers, _largest(box, found), scale, strict=False)
    return UNDERFLOW * sum((layer.outputs + 4.0) * float(1.0 + x.sum() + y.sum()) for layer, x, y in parts)


def _largest(box: Box, found: Sequence[tuple[Array, Array]]) -> list[Array]:
    """The largest |x| that enters each layer."""
    return [np.maximum(np.abs(box.lower), np.abs(box.upper)), *(np.maximum(upper, 0.0) for _, upper in found)]


def deviation(layers: Sequence[Layer], box: Box, bounds: Bounds) -> Array:
    """How far the values of the last layer as executed can be from those in real arithmetic, at any input of the box.

    The bounds hold in both. Each neuron's own sum adds a difference of at most `offs`; those of neurons that can be
    unstable are bounded layer by layer. What is rounded here is covered by `loose`, which adds up absolute values."""
    found = list(zip(bounds.lower, bounds.upper, strict=True))
    offs = [layer.off(size) for layer, size in zip(layers, magnitudes(layers, box, found), strict=True)]
    apart: list[Array] = []
    loose = np.zeros(box.inputs)
    for number, layer in enumerate(layers):
        loose = offs[number] + absolute(layer.weight) @ loose
        last = number + 1 == len(layers)
        rows = np.flatnonzero(np.ones(layer.outputs, bool) if last else bounds.unstable_in(number))
        apart.append(loose.copy())
        apart[-1][rows] = offs[number][rows] + _followed(layers, found, offs, apart, number, rows) + 1e-9 * loose[rows]
        loose = np.where(bounds.upper[number] > 0, loose, 0.0)
    return np.asarray(np.where(np.isnan(apart[-1]), np.inf, apart[-1] * (1 + 1e-9)))


def _followed(
    layers: Sequence[Layer],
    found: Sequence[tuple[Array, Array]],
    offs: Sequence[Array],
    apart: Sequence[Array],
    number: int,
    rows: NDArray[np.intp],
) -> Array:
    """Bounds of the differences of some values of a layer, without what their own sums add: an active ReLU passes on a
    difference, an inactive one nothing, an unstable one half of it, and at most half of what it can be."""
    c, total = dense(layers[number].weight[rows]), np.zeros(len(rows))
    for before in range(number - 1, -1, -1):
        lower, upper = found[before]
        c = np.where(lower >= 0, c, np.where(upper > 0, c / 2, 0.0))
        total = total + np.abs(c) @ (offs[before] + np.where(lower >= 0, 0.0, apart[before]))
        c = np.asarray(c @ layers[before].weight)
    return np.asarray(total)


@dataclass(frozen=True, eq=False)
class Form:
    """One affine function per row, `coefficients @ v + constant` off by at most `error`, of the values v of a layer."""

    coefficients: Array
    constant: Array
    error: Array

    def through_layer(self, layer: Layer, scale: Array, spare: int) -> "Form":
        """v = W x + b replaced: a function of x. The computed coefficients' error is charged at the largest values."""
        size = np.abs(self.coefficients)
        error = self.error + gamma(layer.outputs + spare) * (size @ scale)
        constant = self.constant + self.coefficients @ layer.bias
        if not layer.arithmetic.is_real:
            constant = constant - size @ layer.off(scale)
        return Form(np.asarray(self.coefficients @ layer.weight), constant, error)

    def through_relu(self, lines: Lines, largest: Array, scale: Array, spare: int) -> "Form":
        """v = relu(y) replaced by one line each: a lower bound that is a function of y."""
        positive, negative = np.maximum(self.coefficients, 0.0), np.minimum(self.coefficients, 0.0)
        given = (negative * lines.intercept).sum(axis=1)
        rounding = gamma(len(largest) + spare)
        error = self.error + rounding * (np.abs(given) + np.abs(self.coefficients) @ largest)
        coefficients = positive * lines.lower_slope + negative * lines.upper_slope
        if lines.extra is not None:
            error = error + gamma(spare) * ((np.abs(self.coefficients) + np.abs(lines.extra)) @ scale)
            coefficients = coefficients + lines.extra
        return Form(coefficients, self.constant + given, error)

    def least(self, box: Box, spare: int) -> Array:
        """A lower bound of each row on a box."""
        middle = box.middle
        radius = np.maximum(box.upper - middle, middle - box.lower) * (1 + 4 * UNIT)
        size = np.abs(self.coefficients) @ radius
        largest = np.abs(self.coefficients) @ np.abs(middle) + size + np.abs(self.constant)
        error = self.error + gamma(box.inputs + spare) * largest
        return np.asarray(self.coefficients @ middle + self.constant - size - 2 * error - TINY)


def to_inputs(
    form: Form,
    layers: Sequence[Layer],
    lines: Sequence[Lines],
    found: Sequence[tuple[Array, Array]],
    scale: Sequence[Array],
) -> Form:
    """A function of the inputs below a form of what leaves the ReLUs behind the last of `layers`, on the box.

    `found` holds the bounds of the layers, `scale` their magnitudes. Each step replaces x by one line of its ReLU, then
    y = W x + b."""
    spare = 6 + 2 * len(layers)  # the additions to the constant that follow
    for number in range(len(layers) - 1, -1, -1):
        form = form.through_relu(lines[number], np.maximum(found[number][1], 0.0), scale[number], spare)
        form = form.through_layer(layers[number], scale[number], spare)
    return form


def substitute(
    form: Form,
    layers: Sequence[Layer],
    lines: Sequence[Lines],
    box: Box,
    found: Sequence[tuple[Array, Array]],
    scale: Sequence[Array],
) -> Array:
    """Lower bounds of a form of what leaves the ReLUs behind the last of `layers`, by back-substitution to the box."""
    return to_inputs(form, layers, lines, found, scale).least(box, 6 + 2 * len(layers))


def planes(
    rows: Array, layers: Sequence[Layer], box: Box, found: Sequence[tuple[Array, Array]], *, parallel: bool = False
) -> Form:
    """Functions of the inputs below `rows @ y` on the box, for the pre-activations y of the last of `layers`."""
    *scale, last = magnitudes(layers, box, found)
    error = np.full(len(rows), lost(layers, box, found, (*scale, last)))
    form = Form(rows, np.zeros(len(rows)), error).through_layer(layers[-1], last, 6 + 2 * len(layers))
    lines = [relu_lines(*ends, parallel=parallel) for ends in found]
    return to_inputs(form, layers[:-1], lines, found, scale)


def backward(
    rows: Array, layers: Sequence[Layer], box: Box, found: Sequence[tuple[Array, Array]], *, parallel: bool = False
) -> Array:
    """Lower bounds of `rows @ y` for the pre-activations y of the last of `layers`; `found` bounds those before it."""
    return planes(rows, layers, box, found, parallel=parallel).least(box, 6 + 2 * len(layers))


@np.errstate(over="ignore", invalid="ignore")
def linear_bounds(
    layers: Sequence[Layer],
    box: Box,
    *,
    within: Bounds | None = None,
    parallel: bool = False,
    deadline: Deadline = FOREVER,
) -> Bounds:
    """CROWN bounds (FastLin: `parallel`) of every layer, intersected with intervals and with what is known already.

    Only the rows that intervals leave undecided are substituted back; the output rows always are. Once the deadline has
    passed, intervals have to do for the rest."""
    found: list[tuple[Array, Array]] = []
    x = (box.lower, box.upper)
    for number, layer in enumerate(layers):
        lower, upper = interval(layer, *x)
        if within is not None:
            lower, upper = np.fmax(lower, within.lower[number]), np.fmin(upper, within.upper[number])
        last = number == len(layers) - 1
        open_rows = np.flatnonzero(np.ones(len(lower), bool) if last else (lower < 0) & (upper > 0))
        for first in range(0, len(open_rows) if number else 0, CHUNK):
            if deadline.passed:
                break
            rows = open_rows[first : first + CHUNK]
            units = np.zeros((len(rows), layer.outputs))
            units[np.arange(len(rows)), rows] = 1.0
            both = backward(np.vstack([units, -units]), layers[: number + 1], box, found, parallel=parallel)
            lower[rows] = np.fmax(lower[rows], both[: len(rows)])
            upper[rows] = np.fmin(upper[rows], -both[len(rows) :])
        found.append((np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)))
        x = outputs_of(*found[-1])
    return Bounds(tuple(low for low, _ in found), tuple(high for _, high in found))
