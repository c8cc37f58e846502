"""Random graphs with every function there is, and what is wrong with their bounds and verdicts, if anything is.

Each is looked at from two sides: at densely sampled inputs, whose values must lie in all bounds, and on boxes that cut
its box to pieces, on each of which plain intervals enclose all values: these must meet the bounds of the whole."""

from collections.abc import Iterator
from itertools import product

import numpy as np
from cases import box_of, one_disjunct
from deciding import Nobody
from function_cases import CASES, Case

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.call import bounds
from ginnacer_verify.bounds.forward import forward
from ginnacer_verify.bounds.intervals import Known, intervals
from ginnacer_verify.bounds.substitution import tightened
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.graph import GraphRun
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.graphs.run import GraphPhaseRun
from ginnacer_verify.engines.regions import RegionRun
from ginnacer_verify.graph.convolution import Convolution, Geometry
from ginnacer_verify.graph.elementary import Square
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense, LinearMap, Select
from ginnacer_verify.graph.piecewise import Maximum
from ginnacer_verify.graph.steps import ArgMax

SIDE = 3
"""Images are so wide and high."""
VARYING = 3
"""So many inputs vary at most: boxes are cut along all of them."""
SAMPLES, PIECES = 4000, 6
RUNS = (GraphRun, GraphPhaseRun, RegionRun)
SHORT = 0.05
"""Seconds for an engine that must not succeed."""
ROOM = 1e-9
"""What evaluation itself rounds."""


def any_graph(seed: int) -> Graph:
    """One to three blocks of a map, a function and perhaps a skip; every function in turn. Some are on small images,
    with convolutions and the largest values of windows."""
    random, builder = np.random.default_rng(seed), Builder()
    image = bool(random.random() < 0.4)
    inputs = SIDE**2 if image else int(random.integers(1, 5))
    value = builder.input(inputs)
    if image:
        value = _of_image(builder, value, random)
    for block in range(int(random.integers(1, 4))):
        before = value
        case = CASES[(seed if block == 0 else int(random.integers(len(CASES)))) % len(CASES)]
        value = _applied(builder, value, case, random)
        if random.random() < 0.5:
            back = random.normal(size=(builder.size(value), builder.size(before)))
            value = builder.affine((value, Select.identity(builder.size(value))), (before, Dense(back)))
    if random.random() < 0.1:
        value = _largest(builder, value, random)
    outputs = int(random.integers(1, 3))
    value = builder.affine((value, Dense(random.normal(size=(outputs, builder.size(value))))), bias=random.normal())
    return builder.graph(value, [Tensor("X", (1, inputs))], [Tensor("Y", (1, outputs))])


def _of_image(builder: Builder, image: int, random: np.random.Generator) -> int:
    """A convolution and a ReLU, or the largest values of overlapping windows, or one after the other."""
    value, side = image, SIDE
    if random.random() < 0.7:
        where = Geometry((SIDE, SIDE), (2, 2), (1, 1), (1, 1), (1, 1), (SIDE, SIDE))
        value = builder.affine((value, Convolution(random.normal(size=(1, 1, 1, 2, 2)), where)), bias=random.normal())
        value = builder.apply(Relu(), value)
    if value == image or random.random() < 0.5:
        cells = np.arange(side**2).reshape(side, side)
        windows = [cells[i : side - 1 + i, j : side - 1 + j].reshape(-1) for i, j in product(range(2), repeat=2)]
        value = builder.apply(Maximum(4), *(builder.affine((value, Select(own, side**2))) for own in windows))
    return value


def _applied(builder: Builder, value: int, case: Case, random: np.random.Generator) -> int:
    """A function of as many dense maps of a value as it takes, positive where it asks for that."""
    size = int(random.integers(2, 5))
    arguments = []
    for _ in range(case.function.arity):
        weight = random.normal(size=(size, builder.size(value))) / np.sqrt(builder.size(value))
        one: LinearMap = Dense(weight * random.choice([0.3, 1.0, 3.0]))
        argument = builder.affine((value, one), bias=random.normal(size=size))
        if case.positive:
            squared = builder.apply(Square(), argument)
            argument = builder.affine((squared, Select.identity(size)), bias=random.choice([0.0, 0.1]))
        arguments.append(argument)
    return builder.apply(case.function, *arguments)


def _largest(builder: Builder, value: int, random: np.random.Generator) -> int:
    """The number of the largest of three mixtures, by their differences."""
    scores = random.normal(size=(3, builder.size(value)))
    pairs = [scores[i] - scores[j] for i, j in ((0, 1), (0, 2), (1, 2))]
    return builder.apply(ArgMax(3), *(builder.affine((value, Dense(row[None]))) for row in pairs))


def box_for(graph: Graph, seed: int) -> Box:
    """At most VARYING inputs vary, by little or much."""
    random = np.random.default_rng([seed, 1])
    lower, width = random.normal(size=graph.inputs), np.zeros(graph.inputs)
    own = random.permutation(graph.inputs)[:VARYING]
    width[own] = random.choice([1e-9, 0.1, 1.0, 3.0]) * random.random(len(own))
    return Box(lower, lower + width)


def points_of(box: Box, random: np.random.Generator) -> Array:
    points = box.sample(random, SAMPLES)
    points[:64] = np.where(random.random((64, box.inputs)) < 0.5, box.lower, box.upper)
    return points


def pieces_of(box: Box) -> tuple[Array, Array]:
    """The boxes that are left when each varying input is cut into PIECES."""
    cuts = [np.linspace(low, high, PIECES + 1) for low, high in zip(box.lower, box.upper, strict=True)]
    varying = list(box.varying)
    numbers = np.array(list(product(range(PIECES), repeat=len(varying))), dtype=np.intp)
    lower, upper = (np.tile(ends, (len(numbers), 1)) for ends in (box.lower, box.upper))
    for column, i in enumerate(varying):
        lower[:, i], upper[:, i] = cuts[i][numbers[:, column]], cuts[i][numbers[:, column] + 1]
    return lower, upper


def faults(seed: int) -> Iterator[str]:
    """What is wrong about one random graph."""
    graph, random = any_graph(seed), np.random.default_rng([seed, 2])
    box = box_for(graph, seed)
    with np.errstate(all="ignore"):
        values = list(graph.through(points_of(box, random)))
        pieces = intervals(graph, *pieces_of(box))
    for name, known in _bounds(graph, box):
        for number, value in enumerate(values):
            lower, upper = known.lower[number][0], known.upper[number][0]
            room = ROOM * (1 + np.abs(value))
            if ((value < lower - room) | (value > upper + room)).any():
                yield f"{name}: node {number} has values out of its bounds"
            low, high = pieces.lower[number], pieces.upper[number]
            room = ROOM * (1 + np.minimum(np.abs(low), np.abs(high)))
            if ((high < lower - room) | (low > upper + room)).any():
                yield f"{name}: node {number} has intervals out of its bounds"
    finite = np.isfinite(values[-1]).all(axis=1)
    if not finite.any():
        return
    y = values[-1][finite]
    for method in ("interval", "crown", "alpha"):
        found, room = bounds(graph, box, method), ROOM * (1 + np.abs(y))
        if ((y < found.lower.reshape(-1) - room) | (y > found.upper.reshape(-1) + room)).any():
            yield f"{method}: outputs are out of their bounds"
    row = random.normal(size=(1, graph.outputs))
    least = float((y @ row.T).min())
    prop = one_disjunct(box_of(list(box.lower), list(box.upper)), row, [least + ROOM * (1 + abs(least))])
    for run in RUNS:
        if run(Nobody.of(graph, prop), Budget(Deadline.after(SHORT), threads=1, restarts=0)).run() is None:
            yield f"{run.__name__}: what was seen is proved absent"


def _bounds(graph: Graph, box: Box) -> Iterator[tuple[str, Known]]:
    lower, upper = box.lower[None], box.upper[None]
    yield "intervals", intervals(graph, lower, upper)
    yield "back-substitution", tightened(graph, lower, upper)
    yield "forward", forward(graph, lower, upper, np.array([list(box.varying) or [-1]]))[0]
    yield "executed", intervals(graph.executed(), lower, upper)
