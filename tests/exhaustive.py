"""The truth about tiny networks: every activation pattern in turn, in exact rationals, with no code of the verifier.

On a box with at most two varying inputs the region of an activation pattern is a polygon. It is kept as the list of
its corners and cut by one neuron after the other; the network is affine on what is left."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ginnacer_verify.arrays import dense
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Property

Point = tuple[Fraction, ...]
Affine = tuple[Fraction, ...]
"""Coefficients of the varying inputs, then the constant."""


@dataclass(frozen=True)
class Region:
    """A polygon of inputs on which the network is affine, and the outputs there."""

    corners: tuple[Point, ...]
    outputs: tuple[Affine, ...]


def at(form: Affine, point: Point) -> Fraction:
    return sum((a * x for a, x in zip(form, point, strict=False)), form[-1])


def cut(corners: Sequence[Point], form: Affine) -> tuple[Point, ...]:
    """The part of a convex polygon where the form is at most 0."""
    values = [at(form, corner) for corner in corners]
    kept: list[Point] = []
    for i, (corner, value) in enumerate(zip(corners, values, strict=True)):
        if value <= 0:
            kept.append(corner)
        following = values[(i + 1) % len(corners)]
        if (value < 0 < following) or (following < 0 < value):
            other, share = corners[(i + 1) % len(corners)], value / (value - following)
            kept.append(tuple(a + share * (b - a) for a, b in zip(corner, other, strict=True)))
    return tuple(dict.fromkeys(kept))


def compose(rows: Sequence[Sequence[float]], offsets: Sequence[float], inner: Sequence[Affine]) -> list[Affine]:
    width = len(inner[0])
    found = []
    for row, offset in zip(rows, offsets, strict=True):
        form = [Fraction(0)] * (width - 1) + [Fraction(float(offset))]
        for weight, part in zip(row, inner, strict=True):
            if weight:
                form = [a + Fraction(float(weight)) * b for a, b in zip(form, part, strict=True)]
        found.append(tuple(form))
    return found


def regions(network: Network, disjunct: Disjunct) -> Iterator[Region]:
    """All activation patterns that occur on the disjunct's box and input constraints."""
    corners, inputs = _box(disjunct)
    for row in compose(disjunct.inputs.matrix.tolist(), (-disjunct.inputs.offset).tolist(), inputs):
        corners = cut(corners, row)
    if corners:
        yield from _layers(network, 0, corners, inputs)


def _box(disjunct: Disjunct) -> tuple[tuple[Point, ...], list[Affine]]:
    box = disjunct.box
    varying = list(box.varying)
    assert len(varying) <= 2, "a polygon has two dimensions"
    ends = [(Fraction(float(box.lower[i])), Fraction(float(box.upper[i]))) for i in varying]
    corners: tuple[Point, ...] = ((),)
    if len(ends) == 1:
        corners = ((ends[0][0],), (ends[0][1],))
    elif ends:
        (a, b), (c, d) = ends
        corners = ((a, c), (b, c), (b, d), (a, d))
    inputs = []
    for i in range(box.inputs):
        unit = [Fraction(int(i == j)) for j in varying]
        inputs.append((*unit, Fraction(0) if i in varying else Fraction(float(box.lower[i]))))
    return corners, inputs


def _layers(network: Network, number: int, corners: tuple[Point, ...], entering: Sequence[Affine]) -> Iterator[Region]:
    layer = network.layers[number]
    forms = compose(dense(layer.weight).tolist(), layer.bias.tolist(), entering)
    if number == len(network.layers) - 1:
        yield Region(corners, tuple(forms))
    else:
        yield from _neurons(network, number, corners, forms, [])


def _neurons(
    network: Network, number: int, corners: tuple[Point, ...], forms: Sequence[Affine], done: list[Affine]
) -> Iterator[Region]:
    if len(done) == len(forms):
        yield from _layers(network, number + 1, corners, done)
        return
    form = forms[len(done)]
    values = [at(form, corner) for corner in corners]
    zero = (Fraction(0),) * len(form)
    if min(values) < 0:
        yield from _neurons(network, number, cut(corners, form), forms, [*done, zero])
    if max(values) > 0 or min(values) >= 0:
        flipped = tuple(-a for a in form)
        yield from _neurons(network, number, cut(corners, flipped), forms, [*done, form])


def is_sat(network: Network, prop: Property) -> bool:
    """Whether an input of the property is unsafe, in real arithmetic."""
    return any(
        _reaches(region, disjunct)
        for disjunct in prop.disjuncts
        if not disjunct.box.is_empty
        for region in regions(network, disjunct)
    )


def _reaches(region: Region, disjunct: Disjunct) -> bool:
    rows = compose(disjunct.outputs.matrix.tolist(), (-disjunct.outputs.offset).tolist(), region.outputs)
    corners = region.corners
    for row in rows:
        corners = cut(corners, row)
        if not corners:
            return False
    # In a convex set some point satisfies all strict rows when each of them is satisfied by some corner: the middle.
    return all(
        any(at(row, corner) < 0 for corner in corners)
        for row, strict in zip(rows, disjunct.outputs.strict, strict=True)
        if strict
    )


def least(network: Network, disjunct: Disjunct, output: int = 0) -> Fraction:
    """The smallest value of an output on the disjunct's box."""
    return min(at(region.outputs[output], c) for region in regions(network, disjunct) for c in region.corners)
