"""Comparing a Property with the second opinion of `sexpr`, at points inside, outside and exactly on bounds."""

import math
import random
from fractions import Fraction

import numpy as np
from sexpr import Form, TooClose, truth, words

from ginnacer_verify.box import Box
from ginnacer_verify.properties.property import Property


def compare(prop: Property, formula: Form, rng: random.Random, count: int = 24) -> int:
    """Assert that both agree at `count` points; returns how many of them were unsafe."""
    constants = words(formula)[1]
    unsafe = 0
    for _ in range(count):
        x, y = _input(prop, constants, rng), [rng.randint(-24, 24) / 8 for _ in range(prop.outputs)]
        actual = prop.is_unsafe_at(x, y)
        try:
            expected = truth(formula, _point([*x], y))
            if actual and not expected:  # a pin such as `x = 0.1`: its float64 stands for the decimal
                expected = truth(formula, _point(_pinned(prop, x, constants), y))
        except TooClose:
            continue
        assert actual == expected, (x, y)
        unsafe += actual
    return unsafe


def includes(prop: Property, formula: Form, rng: random.Random, count: int = 24) -> None:
    """Assert that what the formula says is unsafe, so says the property: its boxes may hold a rounding error more."""
    constants = words(formula)[1]
    for _ in range(count):
        x, y = _input(prop, constants, rng), [rng.randint(-24, 24) / 8 for _ in range(prop.outputs)]
        try:
            expected = truth(formula, _point([*x], y))
        except TooClose:
            continue
        assert prop.is_unsafe_at(x, y) or not expected, (x, y)


def same_set(first: Property, second: Property) -> bool:
    """Whether two properties have the same disjuncts, row by row."""
    pairs = list(zip(first.disjuncts, second.disjuncts, strict=True))
    return all(
        (a.box.lower == b.box.lower).all()
        and (a.box.upper == b.box.upper).all()
        and all(
            [p.row(i) for i in range(len(p))] == [q.row(i) for i in range(len(q))] and (p.strict == q.strict).all()
            for p, q in ((a.inputs, b.inputs), (a.outputs, b.outputs))
        )
        for a, b in pairs
    )


def _point(x: list[float | Fraction], y: list[float]) -> dict[str, Fraction]:
    values = [(f"X_{i}", v) for i, v in enumerate(x)] + [(f"Y_{j}", v) for j, v in enumerate(y)]
    return {name: Fraction(value) for name, value in values}


def _pinned(prop: Property, x: list[float], constants: set[Fraction]) -> list[float | Fraction]:
    """The same input with the decimals of the text in place of the values that a box pins."""
    decimals = {float(c): c for c in sorted(constants, key=lambda c: -c.denominator)}  # of two the shorter one
    pins = [any(box.lower[i] == box.upper[i] == x[i] for box in prop.boxes) for i in range(len(x))]
    return [decimals.get(v, v) if pin else v for v, pin in zip(x, pins, strict=True)]


def _input(prop: Property, constants: set[Fraction], rng: random.Random) -> list[float]:
    """A point of a random box, some of whose values are moved to an end, a float beyond it, or a constant."""
    inner = dict.fromkeys(disjunct.witnesses for disjunct in prop.disjuncts)
    boxes = [box for box in inner if not box.is_empty] or [Box(np.zeros(prop.inputs), np.ones(prop.inputs))]
    box = rng.choice(boxes)
    low, high = box.lower.tolist(), box.upper.tolist()
    x = [a + rng.random() * min(b - a, 1e300) for a, b in zip(low, high, strict=True)]
    for i in range(len(x)):
        end = rng.choice((low[i], high[i]))
        choice = rng.random()
        if choice < 0.3:
            x[i] = end
        elif choice < 0.3 + 0.5 / len(x):  # so that about half of the points stay inside
            x[i] = math.nextafter(end, rng.choice((-math.inf, math.inf)))
        elif choice < 0.3 + 0.6 / len(x) and constants:
            x[i] = float(rng.choice(sorted(constants)))
    return x
