"""Two networks that imitate the table of collision advisories, with safety properties in the manner of ACAS Xu."""

from dataclasses import replace
from decimal import Decimal
from math import pi
from pathlib import Path

import numpy as np
import torch
from advisory_table import LOWER, STATES, UPPER, Array, costs, scaled_end, unscaled
from networks import be_deterministic, fully_connected, train, write_onnx
from texts import Atom, Case, Instance, Interval
from torch import Tensor

SMALL, LARGE = "advisory_15x3.onnx", "advisory_25x4.onnx"


def make_networks(folder: Path) -> None:
    _make(folder / SMALL, 15, 15, 15)
    _make(folder / LARGE, 25, 25, 25, 25)


def _make(path: Path, *hidden: int) -> None:
    be_deterministic(seed=3)
    x, y = (torch.tensor(values, dtype=torch.float32) for values in _samples())
    model = fully_connected(5, *hidden, 5)
    train(model, x, y, _loss, epochs=60, batch=512, rate=5e-3)
    write_onnx(path, model, (1, 5))


def _loss(scores: Tensor, table: Tensor) -> Tensor:
    """The squared error, and a little of the cross-entropy of choosing the cheapest advisory."""
    choice = torch.nn.functional.cross_entropy(-scores / 0.02, table.argmin(dim=1))
    return torch.nn.functional.mse_loss(scores, table) + 0.01 * choice


def _samples() -> tuple[Array, Array]:
    """100000 random states of which a half asks for a turn; in a uniform sample only a tenth would."""
    inputs = np.random.default_rng(3).uniform(-0.5, 0.5, (600_000, 5))
    table = np.concatenate([costs(unscaled(part)) for part in np.array_split(inputs, 60)])
    turns = table.argmin(axis=1) > 0
    chosen = np.concatenate([np.flatnonzero(turns)[:50_000], np.flatnonzero(~turns)[:50_000]])
    return inputs[chosen], table[chosen]


def box(**intervals: tuple[float, float]) -> tuple[Interval, ...]:
    """The scaled box of these intervals of the state; what is not named may be anything."""
    everything = zip(STATES, LOWER, UPPER, strict=True)
    ends = ((name, intervals.get(name.replace(" ", "_"), (lower, upper))) for name, lower, upper in everything)
    return tuple((scaled_end(name, lower), scaled_end(name, upper)) for name, (lower, upper) in ends)


def lowest(advisory: int) -> tuple[Atom, ...]:
    """The advisory is chosen."""
    return tuple(("<=", advisory, other) for other in range(5) if other != advisory)


def highest(advisory: int) -> tuple[Atom, ...]:
    return tuple((">=", advisory, other) for other in range(5) if other != advisory)


def chosen(where: tuple[Interval, ...], *advisories: int) -> tuple[Case, ...]:
    """One of the advisories is chosen: as many conjunctions of four."""
    return tuple(Case(where, lowest(advisory)) for advisory in advisories)


def beaten(where: tuple[Interval, ...], advisory: int) -> tuple[Case, ...]:
    """Another advisory does at least as well: a disjunction of four."""
    return tuple(Case(where, (("<=", other, advisory),)) for other in range(5) if other != advisory)


CLEAR, WEAK_LEFT, WEAK_RIGHT, STRONG_LEFT, STRONG_RIGHT = range(5)
FAR_IN_FRONT = box(distance=(1700, 2000), angle=(-1, 1), own_speed=(10, 15), intruder_speed=(10, 15))
FAR_AROUND = box(distance=(1700, 2000), own_speed=(10, 15), intruder_speed=(10, 15))
FAR_AHEAD = box(
    distance=(1700, 2000), angle=(-0.5, 0.5), heading=(-1.5, 1.5), own_speed=(10, 15), intruder_speed=(10, 15)
)
FASTER_IN_FRONT = box(distance=(1500, 2000), angle=(-1, 1), own_speed=(10, 25), intruder_speed=(10, 25))
HEAD_ON = box(
    distance=(1000, 1300), angle=(-0.06, 0.06), heading=(3.0, pi), own_speed=(40, 50), intruder_speed=(25, 35)
)
DRAWS_AWAY = box(
    distance=(700, 2000), angle=(-0.1, 0.1), heading=(-0.1, 0.1), own_speed=(10, 20), intruder_speed=(40, 60)
)
FROM_LEFT, FROM_RIGHT = (
    box(distance=(450, 600), angle=angle, heading=heading, own_speed=(50, 60), intruder_speed=(10, 15))
    for angle, heading in (((0.2, 0.3), (-1.2, -0.8)), ((-0.3, -0.2), (0.8, 1.2)))
)
LEFT_BEHIND, RIGHT_BEHIND = (
    box(distance=(1000, 2000), angle=angle, heading=(-0.3, 0.3), own_speed=(40, 60), intruder_speed=(10, 30))
    for angle in ((2.2, pi), (-pi, -2.2))
)
BESIDE_LEFT = box(distance=(300, 500), angle=(0.5, 0.8), heading=(0, 0), own_speed=(40, 60), intruder_speed=(10, 40))
AT_ONE_SPEED = box(
    distance=(900, 1200), angle=(-0.05, 0.05), heading=(3.0, pi), own_speed=(35, 35), intruder_speed=(35, 35)
)

PROPERTIES: tuple[tuple[str, str, tuple[Case, ...]], ...] = (
    (
        "prop_01",
        "A slow intruder far away in front of us: clear of conflict scores less than 0.1.",
        (Case(FAR_IN_FRONT, ((">=", CLEAR, Decimal("0.1")),)),),
    ),
    (
        "prop_02",
        "An intruder far away in front of us: clear of conflict never scores worst.",
        (Case(FASTER_IN_FRONT, highest(CLEAR)),),
    ),
    ("prop_03", "An intruder comes head-on: clear of conflict is not chosen.", chosen(HEAD_ON, CLEAR)),
    ("prop_04", "A fast intruder ahead draws away: clear of conflict is chosen.", beaten(DRAWS_AWAY, CLEAR)),
    ("prop_05", "A slow intruder crosses from the left: strong right is chosen.", beaten(FROM_LEFT, STRONG_RIGHT)),
    (
        "prop_06",
        "A slow intruder crosses from the left or from the right: a strong turn to the other side is chosen.",
        beaten(FROM_LEFT, STRONG_RIGHT) + beaten(FROM_RIGHT, STRONG_LEFT),
    ),
    (
        "prop_07",
        "A slow intruder behind us, to the left or to the right: clear of conflict is chosen.",
        beaten(LEFT_BEHIND, CLEAR) + beaten(RIGHT_BEHIND, CLEAR),
    ),
    ("prop_08", "A slow intruder far ahead: no strong turn.", chosen(FAR_AHEAD, STRONG_LEFT, STRONG_RIGHT)),
    (
        "prop_09",
        "An intruder to the left flies exactly in our direction: no turn to the left.",
        chosen(BESIDE_LEFT, WEAK_LEFT, STRONG_LEFT),
    ),
    (
        "prop_10",
        "An intruder comes head-on, both at exactly 35 m/s: a strong turn is chosen.",
        chosen(AT_ONE_SPEED, CLEAR, WEAK_LEFT, WEAK_RIGHT),
    ),
    ("prop_11", "Anywhere: clear of conflict scores less than 2.", (Case(box(), ((">=", CLEAR, Decimal(2)),)),)),
    (
        "prop_12",
        "An intruder to the left flies exactly in our direction: clear of conflict is chosen.",
        beaten(BESIDE_LEFT, CLEAR),
    ),
    (
        "prop_13",
        "A slow intruder far away in any direction: clear of conflict scores less than 0.1.",
        (Case(FAR_AROUND, ((">=", CLEAR, Decimal("0.1")),)),),
    ),
)
# What is asked of one network only: the first takes a mixed-integer program too long on the large one.
ONLY = {"prop_11": SMALL, "prop_12": SMALL, "prop_13": LARGE}
# What is asked again in VNN-LIB 2.0.
AGAIN = ((SMALL, "prop_06"), (LARGE, "prop_03"), (LARGE, "prop_07"))


def make_instances(folder: Path) -> list[Instance]:
    first = [
        Instance(network, name, meaning, cases, outputs=5)
        for name, meaning, cases in PROPERTIES
        for network in (SMALL, LARGE)
        if ONLY.get(name, network) == network
    ]
    chosen_again = [instance for instance in first if (instance.network, instance.name) in AGAIN]
    return first + [replace(instance, name=f"{instance.name}_v2", version="2.0") for instance in chosen_again]
