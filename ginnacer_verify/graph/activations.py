"""Smooth activations: what networks use beside ReLUs, sigmoids and tanh."""

from dataclasses import dataclass

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.elementary import sigmoid
from ginnacer_verify.graph.function import Executed
from ginnacer_verify.graph.smooth import Mask, Smooth
from ginnacer_verify.rounding import UNIT


class Softplus(Smooth):
    """`log(1 + exp(y))`."""

    executed = Executed(16.0, 0.0, 16.0)
    choices = (True, False)
    least, monotone = 0.0, 1

    def apply(self, *y: Array) -> Array:
        return np.asarray(np.log1p(np.exp(-np.abs(y[0]))) + np.maximum(y[0], 0.0))

    def slope(self, y: Array) -> Array:
        return sigmoid(y)


@dataclass(frozen=True)
class Elu(Smooth):
    """`y` above 0, `alpha * (exp(y) - 1)` below."""

    alpha: float = 1.0
    monotone = 1
    points, convex = (0.0,), (True, False)

    @property
    def executed(self) -> Executed:  # type: ignore[override]
        return Executed(16.0, 0.0, 16.0 * max(1.0, self.alpha))

    def __post_init__(self) -> None:
        if not self.alpha >= 0:
            raise ValueError(f"Elu takes an alpha of at least 0, not {self.alpha}")

    def apply(self, *y: Array) -> Array:
        return np.where(y[0] > 0, y[0], self.alpha * np.expm1(np.minimum(y[0], 0.0)))

    def slope(self, y: Array) -> Array:
        return np.where(y > 0, 1.0, self.alpha * np.exp(np.minimum(y, 0.0)))

    def _concave(self, number: int, bowl: Mask) -> Mask:
        """The straight piece needs no more than its ends."""
        return np.zeros(bowl.shape, dtype=bool)


class Erf(Smooth):
    """`erf(y)`."""

    executed = Executed(16.0, 0.0, 16.0)
    least, most, monotone = -1.0, 1.0, 1
    slope_slack = 8.0
    points, convex = (0.0,), (True, False)

    def apply(self, *y: Array) -> Array:
        from scipy.special import erf

        return np.asarray(erf(y[0]))

    def slope(self, y: Array) -> Array:
        return np.asarray(2 / np.sqrt(np.pi) * np.exp(-(np.minimum(np.abs(y), 100.0) ** 2)))


class Gelu(Smooth):
    """`y` times the standard normal distribution function of y."""

    least = -0.17
    slack, slope_slack = 32.0, 32.0
    points, convex = (-1.4142135623730951, 1.4142135623730951), (False, True, False)
    inexact = 4 * UNIT

    def apply(self, *y: Array) -> Array:
        from scipy.special import erfc

        return np.asarray(y[0] * (0.5 * erfc(-y[0] / np.sqrt(2))))

    def slope(self, y: Array) -> Array:
        from scipy.special import erfc

        near = np.clip(y, -100.0, 100.0)
        return np.asarray(0.5 * erfc(-near / np.sqrt(2)) + near * np.exp(-(near**2) / 2) / np.sqrt(2 * np.pi))


class GeluTanh(Smooth):
    """`y / 2 * (1 + tanh(sqrt(2 / pi) * (y + 0.044715 * y ** 3)))`, the usual approximation of Gelu."""

    executed = Executed(16.0, 16.0, 16.0, single=True)
    least = -0.171
    slack, slope_slack = 64.0, 64.0
    points, convex = (-1.4185040087908284, 1.4185040087908284), (False, True, False)
    inexact = 16 * UNIT

    def _inner(self, y: Array) -> tuple[Array, Array]:
        near, factor = np.clip(y, -100.0, 100.0), 2 * np.sqrt(2 / np.pi)
        return factor * (near + 0.044715 * near**3), factor * (1 + 3 * 0.044715 * near**2)

    def apply(self, *y: Array) -> Array:
        return np.asarray(y[0] * sigmoid(self._inner(y[0])[0]) * (y[0] > -100.0))

    def slope(self, y: Array) -> Array:
        inner, tilt = self._inner(y)
        e = np.exp(-np.abs(inner))
        return np.asarray(sigmoid(inner) + np.clip(y, -100.0, 100.0) * tilt * (e / (1 + e) ** 2))


class Silu(Smooth):
    """`y / (1 + exp(-y))`, also called Swish."""

    least = -0.2785
    slack, slope_slack = 8.0, 16.0
    points, convex = (-2.3993572805154677, 2.3993572805154677), (False, True, False)
    inexact = 4 * UNIT

    def apply(self, *y: Array) -> Array:
        return y[0] * sigmoid(y[0])

    def slope(self, y: Array) -> Array:
        e = np.exp(-np.abs(y))
        return np.asarray(sigmoid(y) + np.clip(y, -1e3, 1e3) * (e / (1 + e) ** 2))


class Mish(Smooth):
    """`y * tanh(softplus(y))`."""

    least = -0.309
    slack, slope_slack = 16.0, 64.0
    points, convex = (-2.2563763963607931, 1.4905711794854285), (False, True, False)
    inexact = 8 * UNIT

    def _shares(self, y: Array) -> tuple[Array, Array]:
        """tanh(softplus(y)) and its derivative, in terms of n = exp(2y) + 2 exp(y): n / (n + 2) and 2n' / (n + 2)^2."""
        e = np.exp(-np.abs(y))
        up = y >= 0  # Both are divided by exp(2y) there, so that nothing overflows.
        n, rest = np.where(up, 1 + 2 * e, e * e + 2 * e), np.where(up, 2 * e * e, 2.0)
        change = np.where(up, 2 + 2 * e, 2 * e * e + 2 * e)
        return n / (n + rest), rest * change / (n + rest) ** 2

    def apply(self, *y: Array) -> Array:
        return y[0] * self._shares(y[0])[0]

    def slope(self, y: Array) -> Array:
        share, change = self._shares(y)
        return np.asarray(share + np.clip(y, -1e3, 1e3) * change)


class HardSwish(Smooth):
    """`y * max(0, min(1, y / 6 + 1 / 2))`."""

    executed = Executed(16.0, 16.0, 16.0, single=True)
    least = -0.375
    slack, slope_slack = 16.0, 8.0
    points, convex = (-3.0, 3.0), (False, True, False)

    def apply(self, *y: Array) -> Array:
        return np.asarray(y[0] * np.clip(y[0] / 6 + 0.5, 0.0, 1.0))

    def slope(self, y: Array) -> Array:
        return np.where(np.abs(y) <= 3, np.clip(y, -3.0, 3.0) / 3 + 0.5, y > 0)

    def _concave(self, number: int, bowl: Mask) -> Mask:
        """The straight pieces need no more than their ends."""
        return np.zeros(bowl.shape, dtype=bool)
