"""compare, monotone and lipschitz: against sampling, exact rationals and enumeration, and as commands."""

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cases import box_of, random_network

import ginnacer_verify as gv
from ginnacer_verify.bounds.slopes import slopes, slopes_by_phase
from ginnacer_verify.bounds.substitution import below, tightened
from ginnacer_verify.cli import main
from ginnacer_verify.engines.compare import Comparison, apart
from ginnacer_verify.engines.slopes import Question, _gradients, monotonicity, question_of
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.graph import Original
from ginnacer_verify.graph.joint import joined
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.onnx import network_model
from ginnacer_verify.graph.twin import Twin, twinned

UNIT = box_of([-1.0, -1.0], [1.0, 1.0])


def moved(network: Network, scale: float, seed: int = 0) -> Network:
    random = np.random.default_rng(seed)
    return Network.from_arrays(
        *((layer.weight + scale * random.normal(size=layer.weight.shape), layer.bias) for layer in network.layers)
    )


def wide(seed: int, shape: tuple[int, ...]) -> Network:
    random = np.random.default_rng(seed)
    return Network.from_arrays(
        *((random.normal(size=(n, m)) / np.sqrt(m), random.normal(size=n) / 4) for m, n in pairwise(shape))
    )


# The lines of twins


@pytest.mark.parametrize("share", [None, 0.0, 0.3, 1.0])
def test_lines_of_twins_hold_in_exact_arithmetic(share: float | None) -> None:
    random = np.random.default_rng(0)
    for scale in (1e-300, 1e-9, 1.0, 1e9):
        f, g = (np.sort(random.normal(size=(2, 400)) * scale, axis=0) for _ in range(2))
        f[:, :20], g[:, 10:30], f[:, 30:40] = 0.0, 0.0, g[:, 30:40]
        f[1, 40:60] = f[0, 40:60]  # degenerate intervals
        d_low, d_high = g[0] - f[1], g[1] - f[0]
        d_low[100:], d_high[100:] = d_low[100:] * random.random(300), d_high[100:] * random.random(300)
        lower, upper = (g[0], np.maximum(f[0], 0), d_low), (g[1], np.maximum(f[1], 0), d_high)
        choice = None if share is None else np.full(400, share)
        lines = Twin().lines(lower, upper, choice, choice)
        for _ in range(20):
            a = f[0] + random.choice([0.0, 1.0, random.random()], size=400) * (f[1] - f[0])
            a = np.clip(a, *f)
            b = g[0] + random.choice([0.0, 1.0, random.random()], size=400) * (g[1] - g[0])
            b = np.clip(b, *g)
            for i in range(400):
                x, y = Fraction(a[i]), Fraction(b[i])
                if not Fraction(d_low[i]) <= y - x <= Fraction(d_high[i]):
                    continue
                values, exact = (y, max(x, Fraction(0)), y - x), max(y, Fraction(0))
                low = sum(Fraction(s[i]) * v for s, v in zip(lines.lower_slope, values, strict=True))
                high = sum(Fraction(s[i]) * v for s, v in zip(lines.upper_slope, values, strict=True))
                assert low + Fraction(lines.lower_intercept[i]) <= exact <= high + Fraction(lines.upper_intercept[i])


@pytest.mark.parametrize("seed", range(8))
def test_graphs_with_twins_are_the_same_and_bounded_tighter(seed: int) -> None:
    f = wide(seed, (4, 20, 20, 3))
    g = moved(f, 1e-3, seed)
    plain = joined([Original(graph_of(one), (0, 1, 2, 3)) for one in (f, g)], 4)
    leaning = twinned(plain)
    random = np.random.default_rng(seed)
    points = random.uniform(-1, 1, (2000, 4))
    assert np.array_equal(plain.evaluate(points), leaning.evaluate(points))
    rows = np.hstack([np.eye(3), -np.eye(3)])
    lower, upper = -np.ones((1, 4)), np.ones((1, 4))
    bounds = [
        below(graph, len(graph.nodes) - 1, np.vstack([rows, -rows]), tightened(graph, lower, upper))
        for graph in (plain, leaning)
    ]
    seen = (plain.evaluate(points) @ np.vstack([rows, -rows]).T).min(axis=0)
    assert (bounds[0] <= seen).all()
    assert (bounds[1] <= seen).all()
    assert bounds[1].min() > 5 * bounds[0].min()  # both are negative


# Comparing


def test_an_interval_that_holds_the_largest_difference() -> None:
    f = random_network(np.random.default_rng(3), (2, 6, 6, 2))
    g = moved(f, 1e-2)
    steps: list[Comparison] = []
    found = gv.compare(f, g, UNIT, timeout=15, observe=steps.append)
    points = UNIT.sample(np.random.default_rng(9), 50_000)
    seen = apart(f(points), g(points), "output").max()
    assert 0 < found.seen <= found.proved * (1 + 1e-6)
    assert seen <= found.proved
    assert found.proved <= 1.2 * found.seen
    assert [one.proved for one in steps] == sorted((one.proved for one in steps), reverse=True)
    assert [one.seen for one in steps] == sorted(one.seen for one in steps)


@pytest.mark.parametrize("norm", ["output", "class"])
def test_one_epsilon(norm: str) -> None:
    f = random_network(np.random.default_rng(4), (2, 6, 3))
    g = moved(f, 5e-2)
    points = UNIT.sample(np.random.default_rng(9), 50_000)
    seen = float(apart(f(points), g(points), norm).max())
    assert seen > 0
    proved = gv.compare(f, g, UNIT, 1.5 * seen + 0.1, norm=norm, timeout=20)
    assert proved.verdict is not None
    assert proved.verdict.holds
    broken = gv.compare(f, g, UNIT, 0.5 * seen, norm=norm, timeout=20)
    assert broken.verdict is not None
    assert broken.verdict.violated
    assert broken.x is not None
    assert broken.seen >= 0.5 * seen
    assert broken.x in UNIT


def test_a_network_agrees_with_itself() -> None:
    f = random_network(np.random.default_rng(4), (2, 6, 3))
    assert gv.compare(f, f, UNIT, 1e-6, timeout=20).proved == 1e-6


def test_bad_comparisons_get_a_sentence() -> None:
    f, other = (random_network(np.random.default_rng(4), shape) for shape in ((2, 3, 2), (3, 3, 2)))
    with pytest.raises(InputError, match="has 2 inputs and 2 outputs, the second 3 and 2"):
        gv.compare(f, other, UNIT)
    with pytest.raises(InputError, match="the domain has 3 inputs"):
        gv.compare(f, f, box_of([0] * 3, [1] * 3))
    with pytest.raises(InputError, match="epsilon must be"):
        gv.compare(f, f, UNIT, -1.0)
    with pytest.raises(InputError, match="norm='median'"):
        gv.compare(f, f, UNIT, norm="median")


# Derivatives


@pytest.mark.parametrize("seed", range(10))
def test_slopes_hold(seed: int) -> None:
    """No difference quotient lies outside of the bounds, on boxes wide, narrow and flat."""
    network = wide(seed, (3, 10, 10, 2))
    graph, random = graph_of(network), np.random.default_rng(seed)
    lower = random.normal(size=3)
    upper = lower + random.choice([1e-6, 0.1, 1.0], size=3)
    least, most = slopes(graph, np.eye(2), tightened(graph, lower[None], upper[None]))
    for i in range(3):
        a, b = (lower + random.random((5000, 3)) * (upper - lower) for _ in range(2))
        step = (b[:, i] - a[:, i])[:, None]
        b = a.copy()
        b[:, i] += step[:, 0]
        far = np.abs(step[:, 0]) > 0.1 * (upper[i] - lower[i])
        quotient = ((graph.evaluate(b) - graph.evaluate(a)) / step)[far]
        room = 1e-8 / (upper[i] - lower[i]) * 1e-4 + 1e-9
        assert (quotient >= least[0, :, i] - room).all()
        assert (quotient <= most[0, :, i] + room).all()


@pytest.mark.parametrize("seed", range(10))
def test_slopes_by_phase_hold_and_are_exact_at_a_kink(seed: int) -> None:
    network = wide(seed, (3, 10, 10, 2))
    graph, random = graph_of(network), np.random.default_rng(seed)
    point = random.normal(size=3)
    first = network.layers[0]
    point += first.weight[0] * -first(point)[0] / (first.weight[0] @ first.weight[0])  # on the kink of a ReLU
    lower, upper = point - 1e-7, point + 1e-7
    known = tightened(graph, lower[None], upper[None])
    coarse, fine = slopes(graph, np.eye(2), known)[0], slopes_by_phase(graph, np.eye(2), known)
    points = lower + random.random((2000, 3)) * (upper - lower)
    seen = np.stack([_gradients(graph, points, j).min(axis=0) for j in range(2)])
    assert (fine[0] <= seen + 1e-9).all()
    assert (fine[0] >= coarse[0] - 1e-9).all()
    assert np.allclose(fine[0], seen)


def test_a_small_dent_is_found_and_a_kink_is_no_dent() -> None:
    """Random inputs do not meet a dent that is 1e-4 wide; where two slopes of one sign meet, halving does not end."""
    dent = [[1.0], [1.0], [1.0]], [-0.5, -0.5001, -0.5003]
    falls = Network.from_arrays(([[1.0], *dent[0]], [2.0, *dent[1]]), ([[1.0, -3.0, 4.0, 0.0]], [0.0]))
    line = box_of([0.0], [1.0])
    assert gv.monotone(falls, line, input=0, output=0, timeout=20).violated
    rises = Network.from_arrays(([[1.0], [1.0]], [2.0, -0.3]), ([[0.1, -0.05]], [0.0]))
    assert gv.monotone(rises, line, input=0, output=0, timeout=20).holds


def test_monotone() -> None:
    rising = Network.from_arrays(([[1.0, 0.5], [-1.0, 0.25]], [0.1, 0.2]), ([[1.0, -1.0]], [0.0]))
    assert gv.monotone(rising, UNIT, input=0, output=0, timeout=20).holds
    assert gv.monotone(rising, UNIT, input=0, output=0, direction="down", timeout=20).violated
    both = gv.monotone(rising, UNIT, input=1, output=0, timeout=20)
    assert both.violated  # it falls where only the second ReLU is active
    assert both.counterexample is not None
    x = both.counterexample.x
    assert x[1] <= x[2]


def test_monotone_against_sampling() -> None:
    words = set()
    for seed in range(30):
        network = random_network(np.random.default_rng(seed), (2, 4, 4, 1))
        verdict = gv.monotone(
            network, UNIT, input=seed % 2, output=0, direction=("up", "down")[seed % 3 % 2], timeout=20
        )
        random = np.random.default_rng(1)
        a = UNIT.sample(random, 20_000)
        b = a.copy()
        b[:, seed % 2] = np.maximum(a[:, seed % 2], UNIT.sample(random, 20_000)[:, 0])
        rise = (network(b) - network(a))[:, 0] * (1, -1)[seed % 3 % 2]
        assert not (verdict.holds and rise.min() < -1e-9), seed
        assert not (verdict.violated and rise.min() >= 0 and verdict.counterexample is None), seed
        words.add(verdict.word)
    assert words >= {"sat", "unsat"}


def test_properties_about_monotonicity_are_recognised() -> None:
    network = random_network(np.random.default_rng(0), (2, 4, 2))
    for i, j, sign in ((0, 1, 1), (1, 0, -1)):
        found = question_of(monotonicity(network, Question(UNIT, i, j, sign)))
        assert found is not None
        assert (found.input, found.output, found.sign, found.box.lower.tolist()) == (i, j, sign, [-1.0, -1.0])
    rising = Network.from_arrays(([[1.0, 0.5], [-1.0, 0.25]], [0.1, 0.2]), ([[1.0, -1.0]], [0.0]))
    prop = monotonicity(rising, Question(UNIT, 0, 0, 1))
    assert gv.verify({"f": rising, "g": rising}, prop, timeout=20).holds


@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_lipschitz(norm: str) -> None:
    network = wide(1, (3, 10, 2))
    box = box_of([-1.0] * 3, [1.0] * 3)
    low, high = gv.lipschitz(network, box, norm)
    order = {"1": 1, "2": 2, "inf": np.inf}[norm]
    a, b = (box.sample(np.random.default_rng(k), 5000) for k in range(2))
    ratio = np.linalg.norm(network(a) - network(b), order, axis=1) / np.linalg.norm(a - b, order, axis=1)
    assert ratio.max() <= high
    assert low <= high
    assert gv.lipschitz(Network.from_arrays(([[3.0, -4.0]], [0.0])), UNIT, "inf")[0] == pytest.approx(7.0)


# Commands


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    f = random_network(np.random.default_rng(4), (2, 6, 3))
    a, b = tmp_path / "a.onnx", tmp_path / "b.onnx"
    a.write_bytes(network_model(f))
    b.write_bytes(network_model(moved(f, 1e-3)))
    assert main(["compare", str(a), str(b), "--epsilon", "0.5", "--domain=-1,1"]) == 0
    assert capsys.readouterr().out == "Proved: the outputs differ by at most 0.5.\n"
    assert main(["compare", str(a), str(b), "--epsilon", "1e-9", "--domain=-1,1"]) == 0
    assert "differ by more than 1e-09: by" in capsys.readouterr().out
    assert main(["compare", str(a), str(b), "--domain=-1,1", "--json", "--timeout", "5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["seen"] <= found["proved"] * (1 + 1e-6)
    assert main(["compare", str(a), str(b), "--domain", "1"]) == 2
    assert "two numbers" in capsys.readouterr().err
    assert main(["monotone", str(a), "--input", "0", "--output", "7", "--domain=-1,1"]) == 2
    assert "there is no output 7" in capsys.readouterr().err
    assert main(["monotone", str(a), "--input", "0", "--output", "0", "--domain=-1,1", "--timeout", "10"]) == 0
    assert capsys.readouterr().out.split("\n")[0] in {"sat", "unsat"}
