"""Networks made to fool a verifier, on boxes made to fool it: no engine and no backend may call one safe that is not.

The truth is that of exact rationals (`exhaustive`). `unknown` is allowed, and so is a counterexample that only the
network's own float64 arithmetic has: that is what replay is for."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cases import Case, one_disjunct, random_network
from exhaustive import is_sat, least

from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.box import Box
from ginnacer_verify.engines import verify as portfolio
from ginnacer_verify.engines.refinement import loop as cegar
from ginnacer_verify.engines.verdict import Violated
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.query.backend import Backend, get_backend, missing

Arrays = list[tuple[Array, Array]]
SHAPES = ((2, 3, 3, 1), (1, 4, 3, 1), (2, 4, 1), (3, 3, 3, 1), (2, 1), (2, 3, 2))
WAYS = ("boxes", "phases", "highs split relaxed", "highs bisect relaxed", "highs recentre ginnacer", "milp split exact",
        "marabou split exact", "marabou recentre ginnacer", "auto_lirpa split exact",
        "auto_lirpa split relaxed")  # fmt: skip
SECONDS = {"auto_lirpa": 20.0}
"""1 s for all others. Longer would decide more; but what is tested is that nothing is decided wrongly."""


def cancelling(random: np.random.Generator, arrays: Arrays) -> Arrays:
    """Each neuron of layer 1 twice, exactly or nearly, with weights up to 1e12 behind it that cancel."""
    (first, bias), (second, other), *rest = arrays
    large = 10.0 ** random.integers(3, 12) * random.integers(-4, 5, second.shape) / 4
    nearly = 1 + random.choice([0.0, 1e-7, -1e-7, 1e-12], (len(first), 1))
    doubled = np.vstack([first, first * nearly]), np.concatenate([bias, bias])
    return [doubled, (np.hstack([second + large, -large]), other), *rest]


def unlike(random: np.random.Generator, arrays: Arrays) -> Arrays:
    """One layer 1e-300 to 1e30 times as large as it was, and the next one the other way round."""
    k = int(random.integers(len(arrays) - 1))
    factor = 10.0 ** float(random.choice([-300, -150, -20, -5, -3, 5, 10, 30]))
    arrays[k] = (arrays[k][0] * factor, arrays[k][1] * factor)
    arrays[k + 1] = (arrays[k + 1][0] * min(1 / factor, 1e300), arrays[k + 1][1])
    return arrays


def constant(random: np.random.Generator, arrays: Arrays) -> Arrays:
    """Half of the neurons do not depend on anything."""
    return [(weight * (random.random((len(weight), 1)) < 0.5), bias) for weight, bias in arrays[:-1]] + arrays[-1:]


def repeated(random: np.random.Generator, arrays: Arrays) -> Arrays:
    """The same rows several times."""
    rows = [random.integers(0, len(weight), len(weight)) for weight, _ in arrays[:-1]]
    return [(w[i], b[i]) for (w, b), i in zip(arrays[:-1], rows, strict=True)] + arrays[-1:]


def ordinary(random: np.random.Generator, arrays: Arrays) -> Arrays:
    """Weights with all their digits."""
    return [(w + 1e-3 * random.normal(size=w.shape), b + 1e-3 * random.normal(size=b.shape)) for w, b in arrays]


KINDS: dict[str, Callable[[np.random.Generator, Arrays], Arrays]] = {
    kind.__name__: kind for kind in (cancelling, unlike, constant, repeated, ordinary)
}


def made(kind: str, seed: int) -> Case:
    """A network of the kind, on a box that may be a point or 1e-9 wide, with a property at or near its boundary."""
    random = np.random.default_rng([seed, *kind.encode()])
    shape = SHAPES[seed % len(SHAPES)]
    arrays = [(dense(layer.weight).copy(), layer.bias.copy()) for layer in random_network(random, shape).layers]
    network = Network.from_arrays(*(KINDS[kind](random, arrays) if len(arrays) > 1 else arrays))
    network = replace(network, dtype=np.dtype(np.float64))
    lower, width = random.integers(-8, 5, shape[0]) / 4, random.integers(0, 9, shape[0]) / 4
    width[2:] = 0.0
    box = Box(lower, lower + width * random.choice([0.0, 1e-9, 1e-5, 1.0, 1.0, 1.0]))
    prop = Property.of(*(_disjunct(random, network, box) for _ in range(random.integers(1, 4))))
    return Case(f"{kind} {seed}", network, prop, "sat" if is_sat(network, prop) else "unsat")


def _disjunct(random: np.random.Generator, network: Network, box: Box) -> Disjunct:
    y, size = network(box.middle), float(np.abs(network(box.middle)).max())
    if network.outputs == 1:
        lowest = float(least(network, one_disjunct(box, [[1.0]], [0.0]).disjuncts[0]))
        away = float(random.choice([-1, 0, 1])) * float(random.choice([1e-12, 1e-9, 1e-6, 1e-3, 0.1]))
        rows, offset = np.ones((1, 1)), np.array([lowest + away * random.choice([1.0, size])])
    else:
        rows = random.integers(-4, 5, (2, 2)) / 2.0
        offset = rows @ y + random.integers(-12, 6, 2) / 8 * random.choice([1.0, size])
    inputs = Polytope.everything(box.inputs)
    if random.random() < 0.3:
        row = random.integers(-3, 4, (1, box.inputs)).astype(float)
        inputs = Polytope.of(row, row @ box.middle + random.choice([-0.25, 0.0, 0.25]))
    return Disjunct(box, inputs, Polytope.of(rows, offset, bool(random.random() < 0.3)))


@cache
def ready(backend: str) -> Backend:
    """One of each for all cases: starting Marabou's process takes longer than most of them."""
    return get_backend(backend)


def check(case: Case, way: str) -> None:
    if way in {"boxes", "phases"}:
        if any(len(disjunct.inputs) for disjunct in case.prop.disjuncts):
            return  # these are not the engine's business
        verdict = portfolio.verify(case.network, case.prop, engine=way, timeout=1.0, restarts=0, threads=1)
    else:
        backend, refine, initial = way.split()
        if absent := missing(backend):
            pytest.skip(f"{backend} needs {', '.join(absent)}")
        verdict = cegar.verify(
            case.network,
            case.prop,
            backend=ready(backend),
            refine=refine,
            initial=initial,
            timeout=SECONDS.get(backend, 1.0),
            restarts=0,
        )
    assert case.expected == "unsat" or verdict.word != "unsat", f"{case.name} by {way}"
    if isinstance(verdict, Violated):
        assert case.prop.is_unsafe_at(verdict.counterexample.x, verdict.counterexample.y), f"{case.name} by {way}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_unsafe_is_called_safe(way: str, kind: str) -> None:
    for seed in range(18):
        check(made(kind, seed), way)


def test_both_verdicts_occur_in_that_test() -> None:
    words = [made(kind, seed).expected for kind in KINDS for seed in range(18)]
    assert min(words.count("sat"), words.count("unsat")) > 20


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("narrow", [1.0, 1e-4, 1e-6])
@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e-5])
def test_small_values_and_narrow_boxes(way: str, factor: float, narrow: float) -> None:
    """Reachable by a hundredth of the output's range. Marabou's absolute tolerances made such cases unsat."""
    for seed in range(3):
        random = np.random.default_rng(seed)
        (first, bias), (second, other), last = (
            (dense(layer.weight), layer.bias) for layer in random_network(random, (2, 3, 3, 1)).layers
        )
        network = Network.from_arrays((first * factor, bias * factor), (second / factor, other), last)
        network = replace(network, dtype=np.dtype(np.float64))
        box = Box(random.integers(-8, 5, 2) / 4, np.full(2, 9.0))
        box = Box(box.lower, box.lower + narrow * random.integers(1, 9, 2) / 4)
        values = network(box.sample(random, 1000))
        lowest = float(least(network, one_disjunct(box, [[1.0]], [0.0]).disjuncts[0]))
        prop = one_disjunct(box, [[1.0]], [lowest + 0.01 * (float(values.max()) - lowest)])
        check(Case(f"{factor} {narrow} {seed}", network, prop, "sat"), way)


Pair = tuple[float, float]
EXTREMES: dict[str, tuple[list[Pair], Pair, Pair]] = {
    "an interval as wide as float64": ([(1e308, 0.0), (-1e-308, 0.25)], (-1.0, 1.0), (1.0, 0.0)),
    "values that vanish and come back": ([(1e-300, 0.0), (1e300, 0.0), (-1e30, 0.5)], (0.0, 1e-30), (1.0, 0.0)),
    "weights that vanish and come back": (
        [(1e-200, 0.0), (1e-200, 0.0), (1e200, 0.0), (-1e200, 0.5)],
        (-1.0, 1.0),
        (1.0, 0.0),
    ),
    "a product of weights that vanishes": ([(1e-200, 0.0), (-1e-200, 5e-102)], (0.0, 1e299), (1.0, 0.0)),
    "the same, unstable": ([(1e-200, 0.0), (-1e-200, 5e-102)], (-1e299, 1e299), (1.0, 0.0)),
    "a row of the property that vanishes": ([(1.0, 0.0), (1e-200, 0.0)], (0.0, 1e250), (-1e-200, -1e-160)),
    "weights that solvers take for 0": ([(1.0, 0.0), (-1e-10, 100.0)], (0.0, 1e13), (1.0, 0.0)),
    "the same, in front of a ReLU": ([(1e-10, 0.0), (-1.0, 0.5)], (-1e10, 1e10), (1.0, 0.0)),
    "the same, a million times smaller": ([(1e-16, 0.0), (-1.0, 0.5)], (-1e16, 1e16), (1.0, 0.0)),
}
"""Chains of single neurons as (weight, bias), the input's interval, and the unsafe row as (coefficient, offset)."""


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("way", WAYS)
def test_numbers_at_the_ends_of_float64(way: str, name: str) -> None:
    """What underflows in a bound is not nothing, and what overflows is no bound. Each of these is reachable."""
    layers, (lower, upper), (coefficient, offset) = EXTREMES[name]
    network = Network.from_arrays(*(([[weight]], [bias]) for weight, bias in layers))
    prop = one_disjunct(Box(np.array([lower]), np.array([upper])), [[coefficient]], [offset])
    assert is_sat(network, prop)
    with np.errstate(all="ignore"):
        check(Case(name, replace(network, dtype=np.dtype(np.float64)), prop, "sat"), way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("active", [True, False])
def test_large_weights_on_narrow_boxes(way: str, active: bool) -> None:
    """Reachable by 1e-5. HiGHS's branch and cut took such a box for a point."""
    for seed, narrow in ((3, 1e-16), (16, 1e-14), (68, 1e-14), (129, 1e-14)):
        random = np.random.default_rng(seed)
        weight, box = random.normal(size=(1, 2)) / narrow, Box(np.zeros(2), np.full(2, narrow))
        layers: Arrays = (
            [(weight, np.array([0.3]))] if active else [(weight, np.zeros(1)), (-np.ones((1, 1)), np.zeros(1))]
        )
        network = replace(Network.from_arrays(*layers), dtype=np.dtype(np.float64))
        lowest = float(least(network, one_disjunct(box, [[1.0]], [0.0]).disjuncts[0]))
        check(Case(f"{narrow} {seed}", network, one_disjunct(box, [[1.0]], [lowest + 1e-5]), "sat"), way)
