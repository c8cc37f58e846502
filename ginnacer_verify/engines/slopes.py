"""Questions about derivatives: is an output monotone in an input, and how fast can outputs change at all?

That a network is monotone is a property about two runs of it, whose difference is 0 wherever the two inputs agree: no
bound of the outputs ever proves it, but a derivative that is nowhere negative does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.bounds.slopes import slopes, slopes_by_phase
from ginnacer_verify.bounds.substitution import tightened
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import REACHED, Deadline
from ginnacer_verify.engines.verdict import Holds, Statistics, Undecided, Verdict, Violated
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.gradient import value_and_gradient
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.linear import Indices
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading.model import Model, as_network, box_of, shapes_for
from ginnacer_verify.properties.property import Declared, Disjunct, Polytope, Property, Variable
from ginnacer_verify.replay.attack import falsify
from ginnacer_verify.replay.joint import subject
from ginnacer_verify.replay.judge import Counterexample, Judge, settle

BATCH = 64
NORMS = ("1", "2", "inf")
DIRECTIONS = ("up", "down")


@dataclass(frozen=True, eq=False)
class Question:
    """Whether output `output` never falls (sign 1) or never rises (-1) while input `input` rises, on a box."""

    box: Box
    input: int
    output: int
    sign: int


def monotone(
    model: Model,
    box: Box | tuple[ArrayLike, ArrayLike],
    *,
    input: int,  # noqa: A002
    output: int,
    direction: str = "up",
    timeout: float = 60.0,
    seed: int = 0,
) -> Verdict:
    """Whether an output never falls while one input rises and all others stay.

    A counterexample carries two inputs in one vector: all of the first, and last the value of that input in the second.

    Args:
        model: A file, an ONNX model, its bytes, a torch module or a network that was read.
        box: Where the inputs lie, as a `Box` or as (lower, upper).
        input: The input that rises, counted from 0.
        output: The output, counted from 0.
        direction: "up" if the output must not fall, "down" if it must not rise.
        timeout: Seconds for everything.
        seed: Of the inputs that are tried.
    """
    box = box_of(box)
    network = as_network(model, shapes_for((box.inputs,)))
    if direction not in DIRECTIONS:
        raise InputError(f"direction={direction!r} is unknown; choose one of {', '.join(DIRECTIONS)}")
    for what, index, size in (("input", input, network.inputs), ("output", output, network.outputs)):
        if not 0 <= index < size:
            raise InputError(f"there is no {what} {index}: the network has {size}, counted from 0")
    if box.inputs != network.inputs:
        raise InputError(f"the box has {box.inputs} inputs, the network has {network.inputs}")
    question = Question(box, input, output, 1 if direction == "up" else -1)
    prop = monotonicity(network, question)
    return decide(graph_of(network), question, prop, Deadline.after(timeout), seed=seed)


def monotonicity(network: Network | Graph, question: Question) -> Property:
    """Unsafe: two inputs that differ in one place, with the outputs in the wrong order."""
    inputs, outputs, i = network.inputs, network.outputs, question.input
    first, second = tuple(range(inputs)), tuple(inputs if k == i else k for k in range(inputs))
    declared = (
        Declared("f", Variable("X_f", (inputs,)), Variable("Y_f", (outputs,)), first),
        Declared("g", Variable("X_g", (inputs,)), Variable("Y_g", (outputs,)), second, "f"),
    )
    box = Box(
        np.append(question.box.lower, question.box.lower[i]), np.append(question.box.upper, question.box.upper[i])
    )
    order, row = np.zeros((1, inputs + 1)), np.zeros((1, 2 * outputs))
    order[0, i], order[0, inputs] = 1.0, -1.0
    row[0, question.output], row[0, outputs + question.output] = -question.sign, question.sign
    disjunct = Disjunct(box, Polytope.of(order, [0.0]), Polytope.of(row, [0.0], strict=True))
    return Property((disjunct,), Variable("X", (inputs + 1,)), Variable("Y", (2 * outputs,)), "2.0", networks=declared)


def question_of(prop: Property) -> Question | None:
    """The question of a property about one network twice, if it is one about monotonicity and nothing else."""
    if len(prop.networks) != 2 or prop.monomials or len(prop.disjuncts) != 1 or not prop.networks[1].equal_to:
        return None
    (f, g), (disjunct,) = prop.networks, prop.disjuncts
    places = [k for k, (a, b) in enumerate(zip(f.inputs, g.inputs, strict=False)) if a != b]
    plain = (len(f.inputs), f.inputs) == (len(g.inputs), tuple(range(len(f.inputs))))
    if not (plain and len(places) == len(disjunct.inputs) == len(disjunct.outputs) == 1 and disjunct.outputs.strict[0]):
        return None
    i, size = places[0], f.y.size
    row, order = disjunct.outputs.matrix[0], disjunct.inputs.matrix[0]
    (used,), (moved,) = np.nonzero(row), np.nonzero(order)
    pairs = len(used) == len(moved) == 2 and used[1] == used[0] + size and set(moved) == {i, g.inputs[i]}
    exact = not (disjunct.outputs.exact or disjunct.inputs.exact)
    if not (pairs and exact) or row.sum() or order.sum() or disjunct.outputs.offset[0] or disjunct.inputs.offset[0]:
        return None
    box = disjunct.box
    lower, upper = box.lower[list(f.inputs)], box.upper[list(f.inputs)]
    lower[i], upper[i] = min(lower[i], box.lower[g.inputs[i]]), max(upper[i], box.upper[g.inputs[i]])
    rises = order[i] > 0  # the second input is the larger one
    return Question(Box(lower, upper), i, int(used[0]), int(np.sign(row[used[1]])) * (1 if rises else -1))


def decide(graph: Graph, question: Question, prop: Property, deadline: Deadline, *, seed: int = 0) -> Verdict:
    """Attack the property about two runs, then bound the derivative on boxes, halved while its sign is open."""
    judge = Judge(subject({"f": graph, "g": graph}, prop), prop)
    random = np.random.default_rng(seed)

    def numbers(boxes: int) -> Statistics:
        return Statistics(seconds=deadline.spent, engine="slopes", boxes=boxes, total=graph.relus)

    row, boxes = np.zeros((1, graph.outputs)), 0
    row[0, question.output] = question.sign
    open_, rounds = [(question.box.lower, question.box.upper)], 0
    while open_:
        if rounds % 16 == 0 and (found := falsify(judge, prop.disjuncts, random, deadline.within(deadline.left / 4))):
            return Violated(found, numbers(boxes))
        if deadline.passed:
            return Undecided(REACHED, timeout=True, statistics=numbers(boxes))
        batch, open_ = open_[-BATCH:], open_[:-BATCH]
        lower, upper = (np.array(ends) for ends in zip(*batch, strict=True))
        still = _still_open(graph, row, tightened(graph, lower, upper, deadline=deadline), question.input)
        boxes, rounds = boxes + len(batch), rounds + 1
        if len(still) and (broken := _broken(graph, question, judge, lower[still], upper[still])):
            return Violated(broken, numbers(boxes))
        for k in still:
            halves = _halves(lower[k], upper[k], question.box)
            if not halves:
                return Undecided("the derivative comes nearer to 0 than boxes can be halved", statistics=numbers(boxes))
            open_ += halves
    return Holds((), numbers(boxes))


def _still_open(graph: Graph, row: Array, known: Known, index: int) -> Indices:
    """The boxes on which the derivative of the row by an input may be negative."""
    still = np.flatnonzero(~(slopes(graph, row, known)[0][:, 0, index] >= 0))
    return still[~(slopes_by_phase(graph, row, known.part(still))[:, 0, index] >= 0)]


def _broken(graph: Graph, question: Question, judge: Judge, lower: Array, upper: Array) -> Counterexample | None:
    """Two inputs beside the middle of the box whose derivative there has the wrong sign most, if replay confirms it."""
    middles, i = lower + (upper / 2 - lower / 2), question.input
    slope = question.sign * _gradients(graph, middles, question.output)[:, i]
    worst = int(slope.argmin())
    if not slope[worst] < 0:
        return None
    ends = question.box.lower[i], question.box.upper[i]
    steps = (ends[1] - ends[0]) * 2.0 ** -np.arange(24)
    values = np.clip(middles[worst, i] + np.concatenate([[0.0], steps, -steps]), *ends)
    line = np.repeat(middles[[worst]], len(values), axis=0)
    line[:, i] = values
    y = question.sign * graph.evaluate(line)[:, question.output]
    fall = np.where(values[:, None] < values, y[:, None] - y, -np.inf)
    low, high = values[np.array(np.unravel_index(fall.argmax(), fall.shape))]
    (disjunct,), (f, g) = judge.prop.disjuncts, judge.prop.networks
    point, up = np.zeros(judge.prop.inputs), disjunct.inputs.matrix[0, i] > 0
    point[list(f.inputs)] = middles[worst]
    point[i], point[g.inputs[i]] = (low, high) if up else (high, low)
    judgement = judge(settle(point, disjunct.witnesses, judge.dtype))
    return judgement if isinstance(judgement, Counterexample) else None


def _halves(lower: Array, upper: Array, root: Box) -> list[tuple[Array, Array]]:
    """Halved where it is widest, relative to the whole."""
    width = np.where(np.nextafter(lower, np.inf) < upper, (upper - lower) / np.maximum(root.width, 1e-300), 0.0)
    i = int(width.argmax())
    if not width[i] > 0:
        return []
    left, right = upper.copy(), lower.copy()
    left[i] = right[i] = lower[i] + (upper[i] / 2 - lower[i] / 2)
    return [(lower, left), (right, upper)]


def lipschitz(model: Model, box: Box | tuple[ArrayLike, ArrayLike], norm: str = "inf") -> tuple[float, float]:
    """Two numbers between which the least Lipschitz constant of a network on a box lies.

    The first is the largest norm of a derivative at sampled inputs, the second that of the bounds of all derivatives.

    Args:
        model: A file, an ONNX model, its bytes, a torch module or a network that was read. Its functions are ReLUs.
        box: Where the inputs lie, as a `Box` or as (lower, upper).
        norm: "inf", "2" or "1", of inputs and of outputs.
    """
    box = box_of(box)
    network = as_network(model, shapes_for((box.inputs,)))
    if norm not in NORMS:
        raise InputError(f"norm={norm!r} is unknown; choose one of {', '.join(NORMS)}")
    if box.inputs != network.inputs:
        raise InputError(f"the box has {box.inputs} inputs, the network has {network.inputs}")
    graph = graph_of(network)
    known = tightened(graph, box.lower[None], box.upper[None])
    least, most = slopes(graph, np.eye(graph.outputs), known)
    largest = np.maximum(np.abs(least), np.abs(most))[0]
    points = box.sample(np.random.default_rng(0), 256)
    seen = np.stack([_gradients(graph, points, j) for j in range(graph.outputs)], axis=1)
    order = {"1": 1, "2": 2, "inf": np.inf}[norm]
    return float(np.linalg.norm(seen, order, axis=(1, 2)).max()), _size(largest, norm) * (1 + 1e-9)


def _gradients(graph: Graph, points: Array, output: int) -> Array:
    def towards(y: Array) -> Array:
        rows = np.zeros_like(y)
        rows[:, output] = 1.0
        return rows

    return value_and_gradient(graph, points, towards, np.zeros((len(points), 1)))[1]


def _size(matrix: Array, norm: str) -> float:
    """A bound of the norm of every matrix with entries no larger than these; of the Euclidean one by the other two."""
    rows, columns = np.abs(matrix).sum(axis=1).max(), np.abs(matrix).sum(axis=0).max()
    sizes: Mapping[str, float] = {"1": columns, "inf": rows, "2": float(np.sqrt(rows * columns))}
    return float(sizes[norm])
