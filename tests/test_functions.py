"""Lines and ranges of every function hold in exact arithmetic, and are tight."""

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
from function_cases import CASES, Case, classes, intervals
from hypothesis import given, settings
from hypothesis import strategies as st

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.activations import Elu
from ginnacer_verify.graph.elementary import Power
from ginnacer_verify.graph.function import Lines
from ginnacer_verify.graph.piecewise import Clip, LeakyRelu
from ginnacer_verify.graph.smooth import Smooth
from ginnacer_verify.rounding import UNIT

COUNT = 200
CHOICES: tuple[float | None, ...] = (None, 0.0, 0.3, 1.0)
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def violations(case: Case, lines: Lines, lower: list[Array], upper: list[Array], seed: int = 0) -> list[str]:
    """Where a line is on the wrong side of the function: at the ends, at random, and where the two are nearest."""
    random = np.random.default_rng(seed)
    shares = np.concatenate(
        [[[0.0] * case.function.arity, [1.0] * case.function.arity], random.random((90, case.function.arity))]
    )
    shares[2:30] = np.round(shares[2:30])
    samples = [
        np.clip(lo + shares[:, k, None] * (hi - lo), lo, hi)
        for k, (lo, hi) in enumerate(zip(lower, upper, strict=True))
    ]
    for k, (lo, hi) in enumerate(zip(lower, upper, strict=True)):  # Jumps, and just beside them.
        jumps = [np.zeros(lo.shape), np.floor(hi), np.ceil(lo)]
        beside = [np.clip(np.nextafter(jump, side), lo, hi) for jump in jumps for side in (-np.inf, np.inf)]
        samples[k] = np.stack([*samples[k], *(np.clip(jump, lo, hi) for jump in jumps), *beside])
    with np.errstate(all="ignore"):
        value = case.function.apply(*samples)
        sums = [
            sum(s * y for s, y in zip(slopes, samples, strict=True))
            for slopes in (lines.lower_slope, lines.upper_slope)
        ]
        gaps = [value - sums[0] - lines.lower_intercept, sums[1] + lines.upper_intercept - value]
    wrong = []
    for sign, slopes, intercept, gap in (
        (1, lines.lower_slope, lines.lower_intercept, gaps[0]),
        (-1, lines.upper_slope, lines.upper_intercept, gaps[1]),
    ):
        assert all(np.isfinite(slope).all() for slope in slopes)
        assert not np.isnan(intercept).any()
        assert not (intercept == sign * np.inf).any()
        nearest = np.argsort(np.where(np.isnan(gap), -np.inf, gap), axis=0)[:2]
        for column in range(len(intercept)):
            if np.isinf(intercept[column]):
                continue
            for row in {0, 1, *nearest[:, column]}:
                point = [case.number(y[row, column]) for y in samples]
                line = sum(case.number(s[column]) * y for s, y in zip(slopes, point, strict=True))
                if sign * (case.exact(*point) - line - case.number(intercept[column])) < 0:
                    wrong.append(
                        f"{case.name} {sign} on {[(a[column], b[column]) for a, b in zip(lower, upper, strict=True)]}"
                    )
    return wrong


def flat(case: Case, lower: list[Array], upper: list[Array], choice: float | None) -> Lines:
    share = None if choice is None else np.full(lower[0].shape, choice)
    lines = case.function.lines(tuple(lower), tuple(upper), share, share)
    slopes = [
        tuple(np.broadcast_to(s, lower[0].shape) for s in part) for part in (lines.lower_slope, lines.upper_slope)
    ]
    return Lines(slopes[0], lines.lower_intercept, slopes[1], lines.upper_intercept)


def test_every_function_has_a_case() -> None:
    elsewhere = {"Twin", "ArgMax"}  # their arguments depend on each other: test_compare.py, test_steps.py
    missing = {one for one in classes() if one.__name__ not in elsewhere} - {type(case.function) for case in CASES}
    assert not missing, f"add {missing} with its exact value to tests/function_cases.py"


@each
def test_parallel_lines_hold(case: Case) -> None:
    lower, upper = intervals(case, COUNT, seed=7)
    lines = case.function.parallel(tuple(lower), tuple(upper))
    assert all((a == b).all() for a, b in zip(lines.lower_slope, lines.upper_slope, strict=True))
    assert not violations(case, lines, lower, upper)


@each
@pytest.mark.parametrize("choice", CHOICES)
def test_lines_hold(case: Case, choice: float | None) -> None:
    lower, upper = intervals(case, COUNT, seed=int(1 + 10 * (choice or 0)))
    assert not violations(case, flat(case, lower, upper, choice), lower, upper)


@each
def test_lines_are_tight(case: Case) -> None:
    """An intercept that is better by a billionth is caught on some interval, below and above."""
    lower, upper = intervals(case, COUNT)
    lines = flat(case, lower, upper, None)
    inward = 1e-9 * (np.abs(case.function.range(tuple(lower), tuple(upper))).max(axis=0) + 1e-9)
    inward[~np.isfinite(inward)] = 0.0
    assert violations(case, replace(lines, lower_intercept=lines.lower_intercept + inward), lower, upper)
    assert violations(case, replace(lines, upper_intercept=lines.upper_intercept - inward), lower, upper)


@pytest.mark.parametrize(
    "case", [case for case in CASES if isinstance(case.function, Smooth)], ids=lambda case: case.name
)
def test_lines_are_the_best_in_the_middle(case: Case) -> None:
    """In the middle a lower line is as high as any line below the function, up to a hundredth of its rise."""
    random = np.random.default_rng(0)
    lower = random.random(100) * 4 + 0.01 if case.positive else random.normal(size=100) * 2
    upper = lower + random.random(100) * 4
    lines = flat(case, [lower], [upper], None)
    share = np.linspace(0, 1, 101)[:, None]
    y = lower + share * (upper - lower)
    with np.errstate(all="ignore"):
        f = case.function.apply(y)
    before, after = slice(0, 50), slice(51, None)
    weight = (0.5 - share[before, None]) / (share[None, after] - share[before, None])
    chords = (1 - weight) * f[before, None] + weight * f[None, after]
    envelope = np.minimum(chords.min(axis=(0, 1)), f[50]), np.maximum(chords.max(axis=(0, 1)), f[50])
    loss = np.maximum(
        envelope[0] - lines.lower_slope[0] * y[50] - lines.lower_intercept,
        lines.upper_slope[0] * y[50] + lines.upper_intercept - envelope[1],
    )
    known = np.isfinite(lines.lower_intercept) & np.isfinite(lines.upper_intercept)
    assert (loss <= 1e-2 * (f.max(axis=0) - f.min(axis=0)) + 1e-13)[known].all()


@each
def test_range_holds(case: Case) -> None:
    lower, upper = intervals(case, COUNT, seed=3)
    least, most = case.function.range(tuple(lower), tuple(upper))
    assert not np.isnan(least).any()
    assert not np.isnan(most).any()
    nothing = tuple(np.zeros(least.shape) for _ in lower)
    assert not violations(case, Lines(nothing, least, nothing, most), lower, upper)


@each
def test_range_of_unbounded_and_overflowing_arguments(case: Case) -> None:
    """It is never NaN, and no computed infinity is taken for a bound from the wrong side."""
    ends = np.array([-np.inf, -1e300, -1e200, -1.0, 0.0, 1.0, 1e200, 1e300, np.inf])
    pairs = [(a, b) for a in ends for b in ends if a <= b and (a >= 0 or not case.positive)]
    pairs = [(a, b) for a, b in pairs if np.isfinite(a) or np.isfinite(b) or a < b]
    pairs = [(a, b) for a, b in pairs if (a, b) not in {(np.inf, np.inf), (-np.inf, -np.inf)}]
    lower, upper = (
        tuple(np.array([pair[end] for pair in pairs]) for _ in range(case.function.arity)) for end in (0, 1)
    )
    least, most = case.function.range(lower, upper)
    assert (least < np.inf).all()
    assert (most > -np.inf).all()
    assert (least <= most).all()
    finite = [np.isfinite(low) & np.isfinite(high) for low, high in pairs]
    with np.errstate(all="ignore"):
        for y in (lower, upper):
            value = case.function.apply(*y)
            assert ((least <= value) & (value <= most) | np.isnan(value))[finite].all()


@each
@settings(max_examples=10)
@given(data=st.data())
def test_any_interval(case: Case, data: Any) -> None:
    numbers = st.floats(0 if case.positive else -1e30, 1e30)
    pairs = [sorted(data.draw(st.tuples(numbers, numbers))) for _ in range(case.function.arity)]
    lower, upper = ([np.array([pair[end]]) for pair in pairs] for end in (0, 1))
    share = data.draw(st.one_of(st.none(), st.floats(0, 1)))
    assert not violations(case, flat(case, lower, upper, share), lower, upper)


@each
def test_errors_are_as_stated(case: Case) -> None:
    """Values and derivatives are as near to the exact ones as the lines rely on."""
    function = case.function
    if not isinstance(function, Smooth):
        pytest.skip("its lines rely on no stated error")
    random = np.random.default_rng(0)
    y = np.concatenate([random.normal(size=60) * scale for scale in (0.01, 1.0, 3.0, 10.0, 100.0)])
    y = np.abs(y) if case.positive else y
    value, slope = function.apply(y), function.derivative(y)[0]
    for point, f, tilt in zip(y, value, slope, strict=True):
        exact = case.exact(case.number(point))
        if np.isfinite(f):
            assert abs(case.number(f) - exact) <= (abs(exact) * function.ulps + function.slack) * UNIT + 1e-300
        real = Case(function, case.exact)
        step = mpmath.mpf(10) ** -20 * abs(real.number(point))
        rise = [case.exact(case.number(0) + _exactly(case, point, move * step)) for move in (-1, 1)]
        exact = mpmath.mpf(_real(rise[1] - rise[0])) / (2 * step)
        if np.isfinite(tilt):
            assert abs(tilt - exact) <= (abs(exact) * function.slope_ulps + function.slope_slack) * UNIT + 1e-19


def _exactly(case: Case, point: float, move: Any) -> Any:
    return case.number(point) + (case.number(1) * int(mpmath.floor(move * 2**200)) / 2**200 if case.rational else move)


def _real(value: Any) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator if hasattr(value, "numerator") else value


@each
def test_cuts_are_inside(case: Case) -> None:
    lower, upper = intervals(case, COUNT, seed=4)
    which, at = case.function.cut(tuple(lower), tuple(upper))
    low, high = (np.choose(which.astype(np.intp), ends) for ends in (lower, upper))
    assert (np.isnan(at) | ((at > low) & (at < high)) | (high <= np.nextafter(low, np.inf))).all()
    if case.function.piecewise_linear:  # After two cuts the lines are exact.
        for _ in range(2):
            low, high = (
                np.concatenate([low, np.where(np.isnan(at), low, at)]),
                np.concatenate([np.where(np.isnan(at), high, at), high]),
            )
            at = case.function.cut((low,), (high,))[1]
        assert np.isnan(at).all()
        lines = case.function.lines((low,), (high,))
        assert np.array_equal(lines.lower_slope[0], lines.upper_slope[0])
        assert np.array_equal(lines.lower_intercept, lines.upper_intercept)


@each
def test_choices_broadcast(case: Case) -> None:
    """With choices of three queries each line is the one that each choice gives on its own."""
    lower, upper = (tuple(one.reshape(2, 10) for one in ends) for ends in intervals(case, 20, seed=5))
    shares = np.random.default_rng(0).random((3, 2, 10))
    lines = case.function.lines(lower, upper, shares, shares)
    for number, share in enumerate(shares):
        alone = case.function.lines(lower, upper, share, share)
        for name in ("lower_slope", "lower_intercept", "upper_slope", "upper_intercept"):
            many, one = getattr(lines, name), getattr(alone, name)
            for all_of_them, own in zip(many, one, strict=True) if "slope" in name else [(many, one)]:
                assert np.array_equal(np.broadcast_to(all_of_them, shares.shape)[number], own)


def test_ends_per_element() -> None:
    function = Clip(np.array([0.0, -1.0]), np.array([1.0, 1.0]))
    assert function.apply(np.array([[-2.0, -2.0]])).tolist() == [[0.0, -1.0]]
    assert LeakyRelu(np.array([0.5, 2.0])).apply(np.array([[-2.0, -2.0]])).tolist() == [[-1.0, -4.0]]


@pytest.mark.parametrize(
    "make", [lambda: Clip(1.0, 0.0), lambda: Elu(-1.0), lambda: Power(0), lambda: LeakyRelu(np.nan)]
)
def test_misuse_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="takes"):
        make()
