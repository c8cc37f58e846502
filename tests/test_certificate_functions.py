"""The checker's lines of functions hold at sampled arguments, with any slopes, in both arithmetics; and it reads
operators as onnxruntime runs them, or says that it does not."""

from typing import Any

import mpmath
import numpy as np
import onnxruntime
import pytest
from operator_cases import CASES

from ginnacer_check.formula import Declared
from ginnacer_check.functions import FUNCTIONS, PRODUCT, TWIN
from ginnacer_check.network import Unreadable, read_networks

mpmath.mp.dps = 60
EXACT = {
    "Sigmoid": lambda y: 1 / (1 + mpmath.exp(-y)),
    "Tanh": mpmath.tanh,
    "Exp": mpmath.exp,
    "Log": mpmath.log,
    "Sqrt": mpmath.sqrt,
    "Sin": mpmath.sin,
    "Cos": mpmath.cos,
    "Reciprocal": lambda y: 1 / y,
    "Square": lambda y: y * y,
    "Relu": lambda y: max(y, 0),
    "Floor": mpmath.floor,
    "Sign": mpmath.sign,
}


def intervals(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Of all sizes, also a single number, across 0 and away from it, and up to whole numbers."""
    middle = random.normal(size=count) * 10.0 ** random.integers(-9, 3, count)
    width = np.abs(random.normal(size=count)) * 10.0 ** random.integers(-12, 2, count)
    low, high = middle - width, middle + width
    high[::7] = low[::7]
    low[::11] = np.round(low[::11])
    return low, np.maximum(low, high)


@pytest.mark.parametrize("name", sorted(EXACT))
@pytest.mark.parametrize("exact", [False, True])
@np.errstate(all="ignore")
def test_lines_of_one_argument(name: str, exact: bool) -> None:
    random, function = np.random.default_rng(0), FUNCTIONS[name]
    low, high = intervals(random, 120)
    if name in {"Log", "Sqrt"}:
        low, high = np.abs(low) + 1e-9, np.abs(low) + 1e-9 + (high - low)
    range_low, range_high = function.range((low,), (high,))
    given: list[Any] = [None]
    if name == "Relu":
        given.append(random.random(len(low)))
    else:
        given += [((random.normal(size=120),), (random.normal(size=120) * 1e-3,)), ((np.ones(120),), (np.ones(120),))]
    for chosen in given:
        below, above = function.lines((low,), (high,), chosen, exact)
        assert (below.gone | above.gone).mean() < 0.6
        for i in range(len(low)):
            for share in (0.0, 0.25, 0.5, 1.0, random.random()):
                y = mpmath.mpf(float(low[i])) * (1 - share) + mpmath.mpf(float(high[i])) * share
                value = EXACT[name](y) if not (name == "Reciprocal" and y == 0) else None
                if value is None:
                    continue
                assert range_low[i] <= value <= range_high[i]
                for line, sign in ((below, 1), (above, -1)):
                    level = (
                        mpmath.mpf(int(line.level[i].numerator)) / int(line.level[i].denominator)
                        if exact
                        else line.level[i]
                    )
                    if not line.gone[i]:
                        assert sign * (value - mpmath.mpf(float(line.slopes[0][i])) * y - level) >= 0


@pytest.mark.parametrize("exact", [False, True])
@np.errstate(all="ignore")
def test_lines_of_products_and_twins(exact: bool) -> None:
    random, count = np.random.default_rng(1), 150
    (a, b), (p, q) = intervals(random, count), intervals(random, count)
    for function in (PRODUCT, TWIN):
        lows, highs = (
            ((a, p), (b, q)) if function is PRODUCT else ((a, np.zeros(count), p), (b, np.full(count, 1e9), q))
        )
        slopes = [tuple(random.normal(size=count) for _ in lows) for _ in (0, 1)]
        for chosen in (None, slopes):
            below, above = function.lines(lows, highs, chosen, exact)
            for share in random.random((30, 2, count)).round(1):
                first, second = a + share[0] * (b - a), p + share[1] * (q - p)
                first, second = np.clip(first, a, b), np.clip(second, p, q)
                y = (first, second) if function is PRODUCT else (first, np.maximum(first - second, 0), second)
                value = function.values[0](*y)
                for line, sign in ((below, 1), (above, -1)):
                    level = (
                        np.asarray([float(int(v.numerator) / int(v.denominator)) for v in line.level])
                        if exact
                        else line.level
                    )
                    plane = sum(s * one for s, one in zip(line.slopes, y, strict=True)) + level
                    size = abs(value) + sum(abs(s * one) for s, one in zip(line.slopes, y, strict=True)) + abs(level)
                    assert (line.gone | (sign * (value - plane) >= -1e-14 * size)).all()


@pytest.mark.parametrize("name", sorted(CASES))
def test_operators_are_read_as_onnxruntime_runs_them(name: str) -> None:
    """Or it is said that they are not; what is read wrongly would prove something about another network."""
    model = CASES[name]()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (given,), (wanted,) = session.get_inputs(), session.get_outputs()
    shape = tuple(n if isinstance(n, int) else 1 for n in given.shape)
    random = np.random.default_rng(0)
    x = random.normal(size=(4, *shape)).astype(np.float64 if "double" in given.type else np.float32)
    y = [session.run([wanted.name], {given.name: one})[0] for one in x]
    try:
        network = read_networks([model], [Declared("", range(x[0].size), y[0].size)], x[0].size)
    except Unreadable:
        return
    with np.errstate(all="ignore"):
        ours = [network.values(one.reshape(-1).astype(float))[network.ends[1]] for one in x]
    np.testing.assert_allclose(ours, [one.reshape(-1) for one in y], rtol=1e-4, atol=1e-4)
