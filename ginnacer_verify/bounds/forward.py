"""Bounds for few varying inputs: every value of a graph as an affine function of them, with a radius, front to back.

On a box `x = middle + radius * e` with `|e| <= 1` a value is `centre + slopes @ e`, give or take its radius. A function
passes on its argument's form times the slope of two parallel lines around it; half the distance of the lines is added
to the radius. So a graph of any size takes as many evaluations as inputs vary, and a few more; what is lost against
back-substitution is that radii of different values are no longer related to each other. Hence the largest radii become
symbols, further `e` that later values share, as in zonotopes (Singh et al., Fast and Effective Robustness
Certification, 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known, append, executed_off, widen
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input, Node
from ginnacer_verify.graph.linear import Indices
from ginnacer_verify.rounding import TINY, UNIT, gamma

SYMBOLS = 5
"""So many radii per varying input become symbols, in each layer at most half of those that are left for it and later
ones: a box takes a few times as long as without, whatever the number of inputs."""
NEGLIGIBLE = 1e-9
"""Radii that are smaller than this part of a value are not worth a symbol."""


@dataclass(frozen=True, eq=False)
class Form:
    """`terms[:, 0] + sum(terms[:, 1 + j] * e[j])`, give or take `radius`: (batch, terms, size), (batch, size).

    The first of the `e` are the varying inputs, the others symbols: radii of earlier values."""

    terms: Array
    radius: Array

    @property
    def size(self) -> Array:
        """At least the sum of the absolute values of all that makes up a value."""
        return np.asarray((np.abs(self.terms).sum(axis=1) + self.radius) * (1 + gamma(self.terms.shape[1] + 2)))

    @property
    def ends(self) -> tuple[Array, Array]:
        """The interval of each value."""
        spread = np.abs(self.terms[:, 1:]).sum(axis=1) + self.radius
        centre = self.terms[:, 0]
        spread = spread + gamma(self.terms.shape[1] + 4) * (np.abs(centre) + spread) + TINY
        return centre - spread, centre + spread


@np.errstate(all="ignore")
def forward(
    graph: Graph, lower: Array, upper: Array, varying: Indices, deadline: Deadline = FOREVER
) -> tuple[Known, dict[int, Array]]:
    """Intervals of all nodes on a batch of boxes; and of the values that enter functions, by node, how far each varying
    input moves them: (batch, varying, size).

    `varying` has the numbers of each box's inputs that are not fixed, (batch, varying), and -1 where it has fewer."""
    known = Known(np.asarray(lower, np.float64), np.asarray(upper, np.float64))
    forms: dict[int, Form] = {}
    reach: dict[int, Array] = {}
    first = 1 + varying.shape[1]  # the terms of inputs come first
    used, most = first, first + SYMBOLS * varying.shape[1]
    entering = {source for number in graph.applied for source in graph.nodes[number].sources}
    for number, node in enumerate(graph.nodes):
        deadline.check("a batch of boxes was bounded")
        form = _form(node, _aligned([forms[source] for source in node.sources]), known, varying)
        if not graph.arithmetic.is_real:
            off = executed_off(graph, known)
            widen(known, off)
            form = Form(form.terms, form.radius + off * (1 + 4 * UNIT))
        if isinstance(node, Apply):
            form = _promoted(form, used, -(-(most - used) // 2))
            used = max(used, form.terms.shape[1])
        forms[number] = form
        known.tighten(number, *form.ends)
        if number in entering:
            reach[number] = np.abs(form.terms[:, 1:first])
        for source in node.sources:
            if graph.last_use[source] <= number:
                forms.pop(source, None)
    return known, reach


def _form(node: Node, sources: Sequence[Form], known: Known, varying: Indices) -> Form:
    """The next node's form, from those of its sources; its interval is appended to what is known."""
    match node:
        case Input():
            return _input(node, known, varying)
        case Affine():
            return _affine(node, sources, known)
        case Apply():
            return _apply(node, sources, known)
    raise TypeError(f"{node!r} is no node of a graph")


def _aligned(sources: Sequence[Form]) -> list[Form]:
    """The same forms with as many terms each."""
    count = max((form.terms.shape[1] for form in sources), default=0)
    return [Form(_padded(form.terms, count), form.radius) for form in sources]


def _padded(terms: Array, count: int) -> Array:
    """So many terms: a value does not depend on symbols that came later, or on another way from the inputs."""
    more = count - terms.shape[1]
    return np.pad(terms, ((0, 0), (0, more), (0, 0))) if more else terms


def _promoted(form: Form, used: int, most: int) -> Form:
    """The largest radii of each box as symbols: terms of their own behind all that are in use, by whatever value."""
    radius = form.radius.copy()
    worth = np.where(np.isfinite(radius) & (radius > NEGLIGIBLE * form.size), radius, 0.0)
    count = min(most, int(np.count_nonzero(worth, axis=1).max(initial=0)))
    if not count:
        return form
    box, column = np.arange(len(radius))[:, None], np.arange(count)
    at = np.argpartition(-worth, count - 1, axis=1)[:, :count]
    symbols = np.zeros((len(radius), count, radius.shape[1]))
    symbols[box, column, at] = worth[box, at]
    radius[box, at] -= worth[box, at]  # either all of it or nothing
    return Form(np.concatenate([_padded(form.terms, used), symbols], axis=1), radius)


def _input(node: Input, known: Known, varying: Indices) -> Form:
    at = slice(node.start, node.start + node.size)
    lower, upper = known.box_lower[:, at], known.box_upper[:, at]
    middle = lower + (upper / 2 - lower / 2)
    radius = np.maximum(upper - middle, middle - lower) * (1 + 4 * UNIT)
    append(known, lower, upper, np.maximum(np.abs(lower), np.abs(upper)))
    terms = np.zeros((known.batch, 1 + varying.shape[1], node.size))
    terms[:, 0] = middle
    inside = (varying >= node.start) & (varying < node.start + node.size)
    box, column = np.nonzero(inside)
    place = varying[inside] - node.start
    terms[box, 1 + column, place] = radius[box, place]
    return Form(terms, np.zeros_like(middle))


def _affine(node: Affine, sources: Sequence[Form], known: Known) -> Form:
    """The map of all terms at once, together with plain intervals, whose middles and radii go along."""
    batch, count = sources[0].terms.shape[:2]
    lower, upper = known.ends(node.sources)
    if node.moves:
        low, high = node.linear(lower), node.linear(upper)
        append(known, low, high, np.maximum(np.abs(low), np.abs(high)))
        moved = node.linear([sources[0].terms.reshape(batch * count, -1)])
        return Form(moved.reshape(batch, count, node.size), node.linear([sources[0].radius]))
    middle = [low + (high / 2 - low / 2) for low, high in zip(lower, upper, strict=True)]
    apart = [np.maximum(high - m, m - low) * (1 + 4 * UNIT) for low, m, high in zip(lower, middle, upper, strict=True)]
    sizes = [np.maximum(form.size, np.abs(m) + r) for form, m, r in zip(sources, middle, apart, strict=True)]
    stacked = [
        np.concatenate([form.terms, m[:, None]], axis=1).reshape(batch * (count + 1), -1)
        for form, m in zip(sources, middle, strict=True)
    ]
    terms = node.linear(stacked).reshape(batch, count + 1, node.size)
    terms[:, 0] += node.bias
    terms[:, count] += node.bias
    radii = node.absolute.linear(
        [np.concatenate([form.radius, r, s]) for form, r, s in zip(sources, apart, sizes, strict=True)]
    )
    size = radii[2 * batch :] + np.abs(node.bias)
    error = 2 * gamma(node.terms + 8) * size + TINY
    plain = radii[batch : 2 * batch] + error
    append(known, terms[:, count] - plain, terms[:, count] + plain, size * (1 + gamma(node.terms + 8)) + TINY)
    return Form(terms[:, :count], radii[:batch] + error)


def _apply(node: Apply, sources: Sequence[Form], known: Known) -> Form:
    ends = known.ends(node.sources)
    low, high = node.function.range(*ends)
    append(known, low, high, np.maximum(np.abs(low), np.abs(high)))
    lines = node.function.parallel(*ends)
    below, above = lines.lower_intercept, lines.upper_intercept
    radius, size = (above / 2 - below / 2) * (1 + 4 * UNIT), np.maximum(np.abs(below), np.abs(above))
    terms: Array | float = 0.0
    for slope, form in zip(lines.lower_slope, sources, strict=True):
        terms = terms + slope[:, None] * form.terms
        radius = radius + np.abs(slope) * form.radius
        size = size + np.abs(slope) * form.size
    terms = np.asarray(terms)
    terms[:, 0] += below / 2 + above / 2
    radius = radius + 2 * gamma(len(sources) + 8) * size + TINY
    # Where the lines tell nothing the interval may: it is a form without slopes.
    lower, upper = known.lower[-1], known.upper[-1]
    useless = ~(np.isfinite(radius) & np.isfinite(terms).all(axis=1))
    if useless.any():
        middle = lower + (upper / 2 - lower / 2)
        terms[np.broadcast_to(useless[:, None], terms.shape)] = 0.0
        terms[:, 0] = np.where(useless, middle, terms[:, 0])
        radius = np.where(useless, np.maximum(upper - middle, middle - lower) * (1 + 4 * UNIT), radius)
    return Form(terms, np.where(np.isnan(radius), np.inf, radius))
