"""Networks made to fool verifiers, with what is known about them in real arithmetic and in execution.

After Jia and Rinard (arXiv 2003.03021), Zombori et al. (ICLR 2021) and "deployment" attacks (arXiv 2506.01054): biases
that absorb what is added to them, hidden parts that are 0 in real numbers only, sums that cancel, triggers too small
for a float32, factors that runtimes fold into weights, and sums whose value hangs on the order in which they are taken,
on fused operations or on the size of the batch. Each has a threshold next to what it gives.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import onnxruntime
from executed import executed
from models import Graph as Model
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input, Node
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.product import Product
from ginnacer_verify.loading.onnx import parse_model, read_graph
from ginnacer_verify.properties.property import Disjunct, Polytope, Property

TRIES = 8
"""Orders of summation that are tried."""
BATCHES = (1, 3, 16)
THRESHOLDS = 3
Made = tuple[Model, Array]
"""A model of one output, and an input."""


@dataclass(frozen=True, eq=False)
class Fooling:
    """Unsafe: an output of at most the threshold. Whether there is one in real numbers is known, and whether one was
    seen in an execution."""

    name: str
    graph: Graph
    prop: Property
    real: bool
    run: bool


def exact(graph: Graph, x: Array) -> Fraction:
    """The first output in rational numbers."""
    values: list[list[Fraction]] = []
    for node in graph.nodes:
        values.append(_exact(node, [Fraction(float(one)) for one in x], [values[source] for source in node.sources]))
    return values[-1][0]


def _exact(node: Node, x: list[Fraction], given: list[list[Fraction]]) -> list[Fraction]:
    match node:
        case Input():
            return x[node.start : node.start + node.size]
        case Affine():
            total = [Fraction(float(one)) for one in node.bias]
            for linear, values in zip(node.maps, given, strict=True):
                matrix = linear.matrix().tocoo()
                for i, j, weight in zip(*matrix.coords, matrix.data, strict=True):
                    total[int(i)] += Fraction(float(weight)) * values[int(j)]
            return total
        case Apply() if isinstance(node.function, Relu):
            return [max(one, Fraction(0)) for one in given[0]]
        case Apply() if isinstance(node.function, Product):
            return [a * b for a, b in zip(*given, strict=True)]
    raise TypeError(f"{node!r} has no exact values here")


def lowest(graph: Graph, x: Array, random: np.random.Generator) -> float:
    """The least output that some order of summation gives, or onnxruntime with some size of the batch."""
    orders = min(float(executed(graph, x, random)[-1][0]) for _ in range(TRIES))
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(graph.model, options, providers=["CPUExecutionProvider"])
    one = x.astype(np.float32).reshape(1, *graph.input_shape[1:])
    runs = [session.run(None, {"input": np.repeat(one, batch, axis=0)})[0] for batch in BATCHES]
    return min(orders, *(float(np.min(run)) for run in runs))


def single(values: Array) -> Array:
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def _layers(inputs: int, *layers: tuple[Array, ArrayLike]) -> Model:
    """Dense layers with ReLUs between them."""
    model = Model([1, inputs])
    for number, (weight, bias) in enumerate(layers):
        if number:
            model.add("Relu")
        model.add("Gemm", np.asarray(weight, np.float32), np.asarray(bias, np.float32), transB=1)
    return model


def absorbing(random: np.random.Generator) -> Made:
    """`relu(relu(x + omega) - omega)` is x, but a float32 sum keeps none of its digits; what is lost is made large."""
    omega, gain = 2.0 ** random.integers(20, 38), 2.0 ** random.integers(0, 8)
    first = np.vstack([np.full((1, 2), 1.0), random.normal(size=(2, 2))])
    second = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    third = np.array([[gain, random.normal()]])
    model = _layers(
        2, (first, np.array([omega, 0.1, -0.2])), (second, np.array([-omega, 0.3])), (third, random.normal(size=1))
    )
    return model, random.uniform(0.1, 1.0, size=2)


def hidden(random: np.random.Generator) -> Made:
    """An honest network, and beside it `relu(omega + a x) - omega - a x`: 0 in real numbers, else what rounding makes,
    times a large number."""
    inputs, width = int(random.integers(1, 5)), int(random.integers(2, 6))
    omega, gain = 2.0 ** random.integers(10, 30), 2.0 ** random.integers(4, 16)
    honest, trigger = random.normal(size=(width, inputs)), random.uniform(0.1, 1.0, size=(1, inputs))
    first = np.vstack([honest, trigger, trigger])
    bias = np.concatenate([random.normal(size=width), [omega, 0.0]])
    last = np.concatenate([random.normal(size=width), [-gain, gain]])
    return _layers(inputs, (first, bias), (last[None], [gain * omega])), random.uniform(0.1, 1.0, size=inputs)


def cancelling(random: np.random.Generator) -> Made:
    """Two large values that nearly cancel in the last layer."""
    width, scale = int(random.integers(3, 8)), 10.0 ** random.integers(2, 7)
    weight = random.normal(size=(width, 3))
    twins = np.vstack([weight, weight * (1 + 1e-6 * random.normal(size=(width, 1)))])
    bias = np.tile(random.uniform(0.5, 2.0, size=width), 2)
    last = scale * random.uniform(0.5, 1.5, size=(1, width))
    return _layers(3, (twins, bias), (np.hstack([last, -last]), random.normal(size=1))), random.normal(size=3)


def tiny(random: np.random.Generator) -> Made:
    """A trigger that is multiplied down to where float32 numbers end, and up again."""
    down, up = 2.0 ** -int(random.integers(120, 148)), 2.0 ** int(random.integers(60, 120))
    model = _layers(2, (np.array([[down, down * 0.75]]), [0.0]), (np.array([[up]]), [0.0]), (np.eye(1), [1.0]))
    return model, random.uniform(0.3, 1.0, size=2)


def folded(random: np.random.Generator) -> Made:
    """A convolution and factors behind it, which runtimes fold into its weights."""
    down = 10.0 ** -float(random.integers(18, 26))
    model = Model([1, 1, 2, 2])
    model.add("Conv", (down * random.uniform(0.5, 1.5, size=(2, 1, 1, 1))).astype("f4"))
    scale, mean = (random.uniform(0.5, 1.5, size=2).astype("f4") for _ in range(2))
    factor = scale * np.float32(10.0 ** -float(random.integers(10, 20)))
    model.add("BatchNormalization", factor, np.zeros(2, "f4"), mean * np.float32(0), np.ones(2, "f4"), epsilon=0.0)
    model.add("Relu")
    model.add("Flatten")
    up = 10.0 ** float(random.integers(20, 37))
    model.add("Gemm", (up * random.uniform(0.5, 1.5, size=(8, 1))).astype("f4"), np.ones(1, "f4"))
    return model, random.uniform(0.5, 1.0, size=4) * 10.0 ** float(random.integers(0, 9))


def ordered(random: np.random.Generator) -> Made:
    """A long sum of values of very different sizes: every order gives another value."""
    count = int(random.integers(6, 30))
    sizes = 10.0 ** random.uniform(-3, 7, size=count)
    last = np.concatenate([sizes, -sizes * (1 + 1e-5 * random.normal(size=count))])
    weight = np.tile(random.uniform(0.5, 1.5, size=(count, 2)), (2, 1))
    model = _layers(2, (weight, np.zeros(2 * count)), (last[None], random.normal(size=1)))
    return model, random.uniform(0.5, 1.0, size=2)


def convolved(random: np.random.Generator) -> Made:
    """A skip past a convolution, and their difference, which is nearly nothing."""
    model = Model([1, 2, 3, 3])
    model.add("Conv", random.normal(size=(2, 2, 1, 1)).astype("f4"), np.full(2, 40.0, "f4"))
    before = model.add("Relu")
    nearly = np.eye(2) * (1 + 1e-6 * random.normal(size=(2, 1)))
    model.add("Conv", nearly.reshape(2, 2, 1, 1).astype("f4"))
    model.add("Sub", before)
    model.add("Flatten")
    size = 10.0 ** random.uniform(0, 5)
    model.add("Gemm", (size * random.normal(size=(18, 1))).astype("f4"), random.normal(size=1).astype("f4"))
    return model, random.uniform(-1.0, 1.0, size=18)


def multiplied(random: np.random.Generator) -> Made:
    """Products of two computed values that cancel: `(a + e) (a - e) - a^2`."""
    scale = 10.0 ** random.uniform(1, 4)
    model = Model([1, 2])
    model.add("Gemm", np.array([[scale, scale], [1.0, -1.0]], "f4"), np.zeros(2, "f4"))
    first = model.last
    model.add("Gemm", np.array([[1.0, 1.0], [1.0, -1.0]], "f4"), first=True)
    model.add("Mul", first)
    model.add("Gemm", np.array([[1.0], [-1.0]], "f4"), random.normal(size=1).astype("f4"))
    return model, random.uniform(0.5, 1.0, size=2)


def fused(random: np.random.Generator) -> Made:
    """`a * b - c` next to 0, where a fused operation keeps what a rounded product loses."""
    a, b = random.uniform(1.0, 2.0, size=2)
    weight = np.array([[a, 0.0], [0.0, 1.0]])
    last = np.array([[b, -a * b]]) * 2.0 ** random.integers(0, 20)
    return _layers(2, (weight, np.zeros(2)), (last, np.zeros(1))), np.ones(2)


FAMILIES: dict[str, Callable[[np.random.Generator], Made]] = {
    one.__name__: one
    for one in (absorbing, hidden, cancelling, tiny, folded, ordered, convolved, multiplied, fused)
}  # fmt: skip


def fooling(seed: int) -> Iterator[Fooling]:
    """A network, and thresholds between its values: what a run gives, what real numbers give, and well below both."""
    random = np.random.default_rng(seed)
    name = list(FAMILIES)[seed % len(FAMILIES)]
    model, x = FAMILIES[name](random)
    x, content = single(x), model.model(batch="N")
    graph = read_graph(parse_model(content), content=content)
    real, run = exact(graph, x), lowest(graph, x, random)
    apart = abs(float(real) - run)
    below = min(float(real), run) - 4096 * apart - 0.01 * (1 + abs(run))
    for number, threshold in enumerate((run, float(real), below)):
        width = 0.0 if number < 2 else 2.0**-30
        box = Box(x - width * np.abs(x), x + width * np.abs(x))
        rows = Polytope.of([[1.0]], [threshold])
        prop = Property.of(Disjunct(box, Polytope.everything(len(x)), rows))
        yield Fooling(f"{name} {seed} {number}", graph, prop, real <= Fraction(threshold), run <= threshold)


def robust(width: int, depth: int, seed: int) -> tuple[Network, Property]:
    """A network whose output cannot fall by more than the radius times its Lipschitz constant, which is known because
    all of its matrices are orthogonal; the threshold is nearer to that the larger the depth. Unsafe nowhere."""
    random = np.random.default_rng(seed)
    layers = [(_orthogonal(width, random), random.normal(size=width) * 0.1) for _ in range(depth)]
    last = random.normal(size=(1, width))
    last /= np.linalg.norm(last)
    network = Network.from_arrays(*layers, (last, np.zeros(1)))
    x, radius = random.normal(size=width), 0.01
    fall = radius * np.sqrt(width) * 1.001  # the ball is inside of one in the norm 2, which no layer stretches
    unsafe = Polytope.of([[1.0]], [float(network(x)[0]) - fall * (1 + 1 / depth)])
    return network, Property.of(Disjunct(Box.around(x, radius), Polytope.everything(width), unsafe))


def _orthogonal(size: int, random: np.random.Generator) -> Array:
    q, r = np.linalg.qr(random.normal(size=(size, size)))
    return np.asarray(q * np.sign(np.diag(r)))
