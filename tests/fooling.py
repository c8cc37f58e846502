"""Networks made to fool verifiers, with what is known about them in real arithmetic and in execution.

After Jia and Rinard (arXiv 2003.03021), Zombori et al. (ICLR 2021) and "deployment" attacks (arXiv 2506.01054): biases
that absorb what is added to them, sums that cancel, triggers too small for a float32, and sums whose value hangs on
the order in which they are taken or on fused operations. Each has a threshold next to what it gives.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from executed import executed

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Polytope, Property

TRIES = 12
"""Orders of summation that are tried."""


@dataclass(frozen=True, eq=False)
class Fooling:
    """Unsafe: an output of at most the threshold. Whether there is one in real numbers is known, and whether one was
    seen in an execution."""

    name: str
    network: Network
    prop: Property
    real: bool
    run: bool


def exact(network: Network, x: Array) -> list[Fraction]:
    """The outputs in rational numbers."""
    values = [Fraction(float(value)) for value in x]
    for number, layer in enumerate(network.layers):
        weight = layer.weight if isinstance(layer.weight, np.ndarray) else layer.weight.toarray()
        values = [max(value, Fraction(0)) for value in values] if number else values
        values = [
            sum((Fraction(float(w)) * v for w, v in zip(row, values, strict=True) if w), Fraction(float(b)))
            for row, b in zip(weight, layer.bias, strict=True)
        ]
    return values


def lowest(network: Network, x: Array, random: np.random.Generator) -> float:
    """The least output that some order of summation gives."""
    graph = graph_of(network)
    return min(float(executed(graph, x, random)[-1][0]) for _ in range(TRIES))


def _single(values: Array) -> Array:
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def _network(*layers: tuple[Array, Array]) -> Network:
    return Network.from_arrays(*((_single(weight), _single(bias)) for weight, bias in layers))


def absorbing(random: np.random.Generator) -> tuple[Network, Array]:
    """`relu(relu(x + omega) - omega)` is x, but a float32 sum keeps none of its digits; what is lost is made large."""
    omega, gain = 2.0 ** random.integers(20, 40), 2.0 ** random.integers(0, 8)
    first = np.vstack([np.full((1, 2), 1.0), random.normal(size=(2, 2))])
    second = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    third = np.array([[gain, random.normal()]])
    network = _network(
        (first, np.array([omega, 0.1, -0.2])), (second, np.array([-omega, 0.3])), (third, random.normal(size=1))
    )
    return network, random.uniform(0.1, 1.0, size=2)


def cancelling(random: np.random.Generator) -> tuple[Network, Array]:
    """Two large values that nearly cancel in the last layer."""
    hidden, scale = int(random.integers(3, 8)), 10.0 ** random.integers(2, 7)
    weight = random.normal(size=(hidden, 3))
    twins = np.vstack([weight, weight * (1 + 1e-6 * random.normal(size=(hidden, 1)))])
    bias = np.tile(random.uniform(0.5, 2.0, size=hidden), 2)
    last = scale * random.uniform(0.5, 1.5, size=(1, hidden))
    return _network((twins, bias), (np.hstack([last, -last]), random.normal(size=1))), random.normal(size=3)


def tiny(random: np.random.Generator) -> tuple[Network, Array]:
    """A trigger that is multiplied down to where float32 numbers end, and up again."""
    down, up = 2.0 ** -int(random.integers(120, 148)), 2.0 ** int(random.integers(60, 120))
    network = _network(
        (np.array([[down, down * 0.75]]), np.zeros(1)), (np.array([[up]]), np.zeros(1)), (np.eye(1), np.ones(1))
    )
    return network, random.uniform(0.3, 1.0, size=2)


def ordered(random: np.random.Generator) -> tuple[Network, Array]:
    """A long sum of values of very different sizes: every order gives another value."""
    count = int(random.integers(6, 30))
    sizes = 10.0 ** random.uniform(-3, 7, size=count)
    last = np.concatenate([sizes, -sizes * (1 + 1e-5 * random.normal(size=count))])
    weight = np.tile(random.uniform(0.5, 1.5, size=(count, 2)), (2, 1))
    return _network((weight, np.zeros(2 * count)), (last[None], random.normal(size=1))), random.uniform(
        0.5, 1.0, size=2
    )


def fused(random: np.random.Generator) -> tuple[Network, Array]:
    """`a * b - c` next to 0, where a fused operation keeps what a rounded product loses."""
    a, b = random.uniform(1.0, 2.0, size=2)
    weight = np.array([[a, 0.0], [0.0, 1.0]])
    last = np.array([[b, -a * b]]) * 2.0 ** random.integers(0, 20)
    return _network((weight, np.zeros(2)), (last, np.zeros(1))), np.ones(2)


FAMILIES = {one.__name__: one for one in (absorbing, cancelling, tiny, ordered, fused)}


def fooling(seed: int) -> Iterator[Fooling]:
    """A network, and thresholds between its values: below both, between the two, at the real one, above."""
    random = np.random.default_rng(seed)
    name = list(FAMILIES)[seed % len(FAMILIES)]
    network, x = FAMILIES[name](random)
    x = _single(x)
    real, run = exact(network, x)[0], lowest(network, x, random)
    apart = abs(float(real) - run)
    for number, threshold in enumerate(
        (run, float(real), min(float(real), run) - 4096 * apart - 0.01 * (1 + abs(run)))
    ):
        width = 0.0 if number < 2 else 2.0**-30
        box = Box(x - width * np.abs(x), x + width * np.abs(x))
        prop = Property.of(
            Disjunct(box, Polytope.everything(len(x)), Polytope.of([[1.0]], [threshold])),
        )
        yield Fooling(f"{name} {seed} {number}", network, prop, real <= Fraction(threshold), run <= threshold)


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
