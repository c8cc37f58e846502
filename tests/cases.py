"""Tiny networks and properties whose truth is known: by hand, or by exhaustive enumeration in rationals."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from exhaustive import is_sat, least
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import read_only
from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Polytope, Property


@dataclass(frozen=True, eq=False)
class Case:
    """A network and a property with its verdict."""

    name: str
    network: Network
    prop: Property
    expected: str


def box_of(lower: ArrayLike, upper: ArrayLike) -> Box:
    return Box(read_only(lower), read_only(upper))


def one_disjunct(box: Box, matrix: ArrayLike, offset: ArrayLike, *, strict: bool = False) -> Property:
    """Unsafe where `matrix @ y <= offset` on the box."""
    return Property.of(Disjunct(box, Polytope.everything(box.inputs), Polytope.of(matrix, offset, strict)))


SHAPES = ((2, 4, 4, 1), (1, 4, 4, 4, 1), (2, 6, 6, 1), (2, 3, 1), (3, 4, 4, 1), (2, 3, 3, 3, 2), (2, 12, 1), (2, 5, 2))


def random_network(random: np.random.Generator, shape: tuple[int, ...]) -> Network:
    """Weights are multiples of 1/4, so that a float32 evaluates the network at dyadic points without rounding."""
    arrays = []
    for inputs, outputs in pairwise(shape):
        weight = random.integers(-8, 9, (outputs, inputs)) / 4
        arrays.append((weight * (random.random(weight.shape) < 0.8), random.integers(-6, 7, outputs) / 4))
    return Network.from_arrays(*arrays)


def random_case(seed: int, distances: Sequence[float] = (1e-3, 1e-2, 0.25)) -> Case:
    """A random network with a property next to its boundary: the exact smallest output, moved by one of `distances`.

    With two outputs, a conjunction of two rows with random offsets; such a case is used only if moving both rows by
    0.01 does not change its truth, so that it does not hang on the last digits."""
    random = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    network = random_network(random, shape)
    lower, width = random.integers(-8, 5, shape[0]) / 4, random.integers(1, 9, shape[0]) / 4
    width[2:] = 0.0
    box = Box(lower, lower + width)
    if shape[-1] == 1:
        free = one_disjunct(box, [[1.0]], [0.0])
        lowest = least(network, free.disjuncts[0])
        offset = float(lowest) + float(random.choice([-1.0, 1.0])) * float(random.choice(distances))
        prop = one_disjunct(box, [[1.0]], [offset])
        return Case(f"random {seed}", network, prop, "sat" if is_sat(network, prop) else "unsat")
    while True:
        middle = network(box.middle)
        rows = random.integers(-4, 5, (2, 2)) / 2.0
        offset_pair = rows @ middle + random.integers(-12, 6, 2) / 8
        prop = one_disjunct(box, rows, offset_pair)
        moved = {is_sat(network, one_disjunct(box, rows, offset_pair + d)) for d in (-0.01, 0.0, 0.01)}
        if len(moved) == 1:
            return Case(f"random {seed}", network, prop, "sat" if moved.pop() else "unsat")


SQUARE = box_of([-1.0, -1.0], [1.0, 1.0])
CORNERS = Network.from_arrays(
    ([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], np.zeros(4)), ([[-0.5, -0.5, -0.5, -0.5]], [0.0])
)
"""-max(|x1|, |x2|): its least value on the square is -1; a query with all ReLUs relaxed sees -2."""
SIGNS = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, -1.0], [-1.0, 1.0]], [0.0, 0.0]))
"""(x, -x) through ReLUs."""
DEEP = Network.from_arrays(([[1.0], [1.0]], [0.0, -1.0]), ([[1.0, -2.0]], [0.0]), ([[1.0]], [0.0]))
"""The tent relu(relu(x) - 2 relu(x - 1)): 0 outside of [0, 2] and 1 at x = 1."""
DEAD = Network.from_arrays(([[1.0, 1.0]], [-5.0]), ([[1.0]], [0.25]))
"""Always 1/4 on the square."""
LINE = box_of([-1.0], [3.0])


def in_the_corner(offset: float) -> Property:
    """Where x1 + x2 >= 1.5, max(|x1|, |x2|) is at least 0.75; unsafe where it is at most -offset."""
    inputs, outputs = Polytope.of([[-1.0, -1.0]], [-1.5]), Polytope.of([[-1.0]], [-offset])
    return Property.of(Disjunct(SQUARE, inputs, outputs))


BY_HAND = (
    Case("corners reached", CORNERS, one_disjunct(SQUARE, [[1.0]], [-0.99]), "sat"),
    Case("corners missed", CORNERS, one_disjunct(SQUARE, [[1.0]], [-1.01]), "unsat"),
    Case("corners far off", CORNERS, one_disjunct(SQUARE, [[1.0]], [-2.5]), "unsat"),
    Case("one sign", SIGNS, one_disjunct(LINE, [[1.0, 0.0]], [-0.5]), "sat"),
    Case("both signs", SIGNS, one_disjunct(LINE, np.eye(2), [-0.1, -0.1]), "unsat"),
    Case("tent top", DEEP, one_disjunct(LINE, [[-1.0]], [-0.99]), "sat"),
    Case("above the tent", DEEP, one_disjunct(LINE, [[-1.0]], [-1.01]), "unsat"),
    Case("dead below", DEAD, one_disjunct(SQUARE, [[1.0]], [0.2]), "unsat"),
    Case("dead above", DEAD, one_disjunct(SQUARE, [[1.0]], [0.3]), "sat"),
    Case("one input fixed", CORNERS, one_disjunct(box_of([0.5, -0.25], [0.5, 0.25]), [[1.0]], [-0.51]), "unsat"),
    Case("one input fixed, reached", CORNERS, one_disjunct(box_of([0.5, -0.75], [0.5, 0.25]), [[1.0]], [-0.7]), "sat"),
    Case("a point", CORNERS, one_disjunct(box_of([0.5, 0.25], [0.5, 0.25]), [[1.0]], [-0.5]), "sat"),
    Case("a point, missed", CORNERS, one_disjunct(box_of([0.5, 0.25], [0.5, 0.25]), [[1.0]], [-0.6]), "unsat"),
    Case(
        "three disjuncts, the middle one reached",
        CORNERS,
        Property.of(*(one_disjunct(SQUARE, [[1.0]], [offset]).disjuncts[0] for offset in (-1.5, -0.5, -3.0))),
        "sat",
    ),
    Case(
        "two boxes",
        CORNERS,
        Property.of(
            one_disjunct(box_of([-0.5, -0.5], [0.5, 0.5]), [[1.0]], [-0.6]).disjuncts[0],
            one_disjunct(box_of([-0.5, 0.5], [0.5, 0.75]), [[1.0]], [-0.8]).disjuncts[0],
        ),
        "unsat",
    ),
    Case("linear input constraint", CORNERS, in_the_corner(-0.7), "unsat"),
    Case("linear input constraint, reached", CORNERS, in_the_corner(-0.8), "sat"),
    Case("an empty box", CORNERS, one_disjunct(box_of([1.0, 0.0], [0.0, 1.0]), [[1.0]], [9.0]), "unsat"),
)
