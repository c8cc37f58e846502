"""The cost model behind the advisory networks: what each of five turns costs when an intruder is near.

Both aircraft fly in one plane at constant speed, the intruder straight ahead; ours follows the advisory for 30 s. The
cost of an advisory is the risk, which grows linearly from 0 at a smallest separation of 600 m to 1 at 0 m, plus the
price of the turn. The advisory of least cost is chosen, as in ACAS Xu.

A state is (distance, angle to the intruder, heading of the intruder, own speed, speed of the intruder) in metres,
radians and metres per second; angles are relative to our own heading and counter-clockwise, so positive is left.
Networks see it scaled to [-0.5, 0.5].
"""

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ADVISORIES = ("clear of conflict", "weak left", "weak right", "strong left", "strong right")
TURN = np.radians([0.0, 1.5, -1.5, 3.0, -3.0])
"""Radians per second."""
PRICE = np.array([0.0, 0.05, 0.05, 0.1, 0.1])
SAFE = 600.0
"""Metres."""
SECONDS = np.arange(31.0)

STATES = ("distance", "angle", "heading", "own speed", "intruder speed")
LOWER = np.array([0.0, -np.pi, -np.pi, 10.0, 10.0])
UPPER = np.array([2000.0, np.pi, np.pi, 60.0, 60.0])


def costs(states: Array) -> Array:
    """The cost of each advisory, one row per state."""
    risk = np.maximum(0.0, 1.0 - np.stack([_separation(states, rate) for rate in TURN], axis=1) / SAFE)
    return np.asarray(risk + PRICE)


def _separation(states: Array, rate: float) -> Array:
    """The smallest distance between the two over the next 30 s, looked at every second."""
    distance, angle, heading, own, other = states[:, :, None].transpose(1, 0, 2)
    turned = rate * SECONDS
    # Positions along and across our heading: an arc of length own * t, which `sinc` gives for straight flight too.
    chord, direction = own * SECONDS * np.sinc(turned / 2 / np.pi), turned / 2
    ahead = distance * np.cos(angle) + other * SECONDS * np.cos(heading) - chord * np.cos(direction)
    aside = distance * np.sin(angle) + other * SECONDS * np.sin(heading) - chord * np.sin(direction)
    return np.asarray(np.hypot(ahead, aside).min(axis=1))


def scaled(states: Array) -> Array:
    return np.asarray((states - LOWER) / (UPPER - LOWER) - 0.5)


def unscaled(inputs: Array) -> Array:
    return np.asarray(LOWER + (inputs + 0.5) * (UPPER - LOWER))


def scaled_end(name: str, value: float) -> Decimal:
    """One end of an interval of a state, to four digits in the scale of the network."""
    index = STATES.index(name)
    return Decimal(f"{(value - LOWER[index]) / (UPPER[index] - LOWER[index]) - 0.5:.4f}")
