"""The motivating example of the paper: a network that follows a rational function of one input.

Paper: Motivating Example; 201 samples of the function on [-10, 10] in steps of 0.1, two hidden layers of 64 ReLUs.
"""

from decimal import Decimal
from pathlib import Path

import numpy as np
import torch
from networks import be_deterministic, evaluate, fully_connected, train, write_onnx
from numpy.typing import NDArray
from texts import Case, Instance

NETWORK = "pade_64x2.onnx"


def rational(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Paper: Motivating Example, the equation of y."""
    return np.asarray(
        (-0.035 * x**5 - 0.12 * x**3 + x) / (0.021 * x**6 - 0.10 * x**4 + 0.55 * x**2 + 1), dtype=np.float64
    )


def make_networks(folder: Path) -> None:
    be_deterministic(seed=0)
    x = np.linspace(-10, 10, 201)
    samples, targets = (torch.tensor(values, dtype=torch.float32)[:, None] for values in (x, rational(x)))
    model = fully_connected(1, 64, 64, 1)
    train(model, samples, targets, torch.nn.functional.mse_loss, epochs=6000, batch=201, rate=3e-3)
    write_onnx(folder / NETWORK, model, (1, 1))


# Where the input lies, whether the output must stay below ("max") or above ("min") a bound, and how far that bound is
# beyond (positive) or before (negative) what the network really reaches there.
BOUNDS = (
    ("0", "0.5", "max", "0.05"),
    ("0", "0.5", "max", "-0.05"),
    ("-1", "1", "min", "0.002"),
    ("-1", "1", "min", "-0.002"),
    ("2", "4", "min", "0.1"),
    ("2", "4", "min", "0.001"),
    ("2", "4", "min", "-0.001"),
    ("-4", "-2", "max", "0.01"),
    ("-4", "-2", "max", "-0.01"),
    ("5", "10", "max", "0.0005"),
    ("5", "10", "max", "-0.0005"),
    ("-5", "5", "max", "0.02"),
    ("-5", "5", "max", "-0.02"),
    ("-10", "10", "max", "0.2"),
    ("-10", "10", "max", "0.002"),
    ("-10", "10", "min", "0.002"),
    ("-10", "10", "min", "-0.002"),
)


def make_instances(folder: Path) -> list[Instance]:
    return [_instance(folder, number, *bound) for number, bound in enumerate(BOUNDS, start=1)] + [_outside(folder)]


def _instance(folder: Path, number: int, lower: str, upper: str, end: str, beyond: str) -> Instance:
    reached, away = _reached(folder, lower, upper, end), Decimal(beyond)
    bound = reached + away if end == "max" else reached - away
    relation, word = (">=", "below") if end == "max" else ("<=", "above")
    meaning = f"For x in [{lower}, {upper}] the output stays {word} {bound}."
    case = Case(((Decimal(lower), Decimal(upper)),), ((relation, 0, bound),))
    return Instance(NETWORK, f"prop_{number:02}", meaning, (case,), outputs=1)


def _outside(folder: Path) -> Instance:
    """Both bounds in one property, a disjunction over one box."""
    high = _reached(folder, "-2", "2", "max") + Decimal("0.003")
    low = _reached(folder, "-2", "2", "min") - Decimal("0.003")
    box = ((Decimal(-2), Decimal(2)),)
    meaning = f"For x in [-2, 2] the output stays between {low} and {high}."
    cases = (Case(box, (("<=", 0, low),)), Case(box, ((">=", 0, high),)))
    return Instance(NETWORK, f"prop_{len(BOUNDS) + 1:02}", meaning, cases, outputs=1)


def _reached(folder: Path, lower: str, upper: str, end: str) -> Decimal:
    """The largest or smallest output on a fine grid, to four digits: a guide for bounds, not a proof of anything."""
    grid = np.linspace(float(lower), float(upper), 20001, dtype=np.float32)
    outputs = evaluate(folder / NETWORK, grid)
    return Decimal(f"{outputs.max() if end == 'max' else outputs.min():.4f}")
