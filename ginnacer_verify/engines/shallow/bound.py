"""The dual bound of a region: the rows, weighted, with lines for their ReLUs and multipliers for decided neurons.

For shares s >= 0 of the rows the sum is `c @ relu(y)` with c = s @ rows. Where c_k > 0 the ReLU is at least slope * y,
where c_k < 0 at most its chord; decided neurons are y or 0, and `force * (y - low)` or, for a negative force, `force *
(y - high)` may be taken away. What is left is affine in the inputs and its least value on the box is a sum. Any
multipliers give a sound bound; Adam looks for good ones, and the best is charged for its rounding.
"""

from dataclasses import dataclass, replace

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.engines.shallow.problem import Regions, Shallow
from ginnacer_verify.rounding import TINY, gamma

RATE, FADE = 0.25, 0.93
"""The first step of the multipliers, and how much smaller each further one is."""
FIRST, SECOND = 0.8, 0.95
"""How much of the mean and of the square of earlier gradients is kept."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """Regions with their best multipliers, a rigorous lower bound of the weighted rows, and points near to it."""

    regions: Regions
    bound: Array
    coefficients: Array
    points: Array


class _Lines:
    """What a region's intervals say about its ReLUs: the chord, and which neurons are decided."""

    def __init__(self, regions: Regions) -> None:
        self.phase = regions.phase
        width = np.maximum(regions.high - regions.low, TINY)
        self.chord = np.where(
            self.phase > 0, 1.0, np.where(self.phase < 0, 0.0, np.clip(regions.high / width, 0.0, 1.0))
        )
        self.height = np.where(self.phase == 0, -regions.low * self.chord, 0.0)
        self.low, self.high = regions.low, regions.high

    def end(self, force: Array) -> Array:
        """The end of a neuron's interval that a force pushes away from."""
        return np.where(force > 0, self.low, self.high)


@np.errstate(all="ignore")
def ascended(problem: Shallow, regions: Regions, steps: int) -> Bounded:
    """The best bound of each region that some steps of ascent find."""
    lines, best = _Lines(regions), np.full(len(regions), -np.inf)
    middle, radius = (regions.lower + regions.upper) / 2, (regions.upper - regions.lower) / 2
    slope, force, share = regions.slope, regions.force, regions.share
    kept = [slope.copy(), force.copy(), share.copy()]
    moments = [(np.zeros_like(one), np.zeros_like(one)) for one in kept]
    points, weights = np.zeros_like(middle), 0
    for step in range(steps):
        c = share @ problem.rows
        below = np.where(lines.phase == 0, slope, lines.chord)
        q = np.maximum(c, 0.0) * below + np.minimum(c, 0.0) * lines.chord - force
        g = q @ problem.weight
        constant = (np.minimum(c, 0.0) * lines.height + force * lines.end(force)).sum(axis=1)
        value = q @ problem.bias + (g * middle - np.abs(g) * radius).sum(axis=1) + constant
        value = value + share @ problem.constant
        better = value > best
        best = np.where(better, value, best)
        for old, new in zip(kept, (slope, force, share), strict=True):
            old[better] = new[better]
        x = middle - np.sign(g) * radius
        points, weights = points + (step + 1) * x, weights + step + 1
        y = x @ problem.weight.T + problem.bias
        attained = np.where(c > 0, below * y, lines.chord * y + lines.height)
        gradients = (
            np.where(lines.phase == 0, np.maximum(c, 0.0) * y, 0.0),
            np.where(force == 0, np.clip(y, lines.low, lines.high), lines.end(force)) - y,
            attained @ problem.rows.T + problem.constant,
        )
        slope, force, share = _moved(problem, (slope, force, share), gradients, moments, step)
    found = replace(regions, slope=kept[0], force=kept[1], share=kept[2])
    plane = planes(problem, found)
    return Bounded(within(found, plane), plane.least, found.share @ problem.rows, points / max(1, weights))


def _moved(
    problem: Shallow,
    multipliers: tuple[Array, Array, Array],
    gradients: tuple[Array, Array, Array],
    moments: list[tuple[Array, Array]],
    step: int,
) -> tuple[Array, Array, Array]:
    """One step of Adam, and back into what multipliers may be."""
    rate = RATE * FADE**step
    moves = []
    for i, (gradient, (mean, square)) in enumerate(zip(gradients, moments, strict=True)):
        mean, square = FIRST * mean + (1 - FIRST) * gradient, SECOND * square + (1 - SECOND) * gradient**2
        moments[i] = mean, square
        size = np.sqrt(square / (1 - SECOND ** (step + 1))) + TINY
        moves.append(rate * mean / (1 - FIRST ** (step + 1)) / size)
    slope, force, share = multipliers
    share = np.maximum(share + moves[2], 0.0) if share.shape[1] > 1 else share
    return (
        np.clip(slope + moves[0], 0.0, 1.0),
        force + 2 * np.abs(problem.rows).mean() * moves[1],
        share / np.maximum(share.sum(axis=1, keepdims=True), TINY),
    )


@dataclass(frozen=True, eq=False)
class Planes:
    """`slope @ x` plus something is below the shared rows in each region, and there nowhere less than `least`."""

    slope: Array
    least: Array


@np.errstate(all="ignore")
def planes(problem: Shallow, regions: Regions) -> Planes:
    """The planes that the regions' multipliers give, rigorous: where `least` is above 0 nothing is unsafe."""
    lines = _Lines(regions)
    hidden, inputs = problem.weight.shape
    c, largest = regions.share @ problem.rows, np.maximum(np.abs(regions.lower), np.abs(regions.upper))
    below = np.where(lines.phase == 0, regions.slope, lines.chord)
    q = np.maximum(c, 0.0) * below + np.minimum(c, 0.0) * lines.chord - regions.force
    g = q @ problem.weight
    least = np.where(g > 0, g * regions.lower, g * regions.upper).sum(axis=1)
    ends = regions.force * lines.end(regions.force)
    value = q @ problem.bias + least + regions.share @ problem.constant
    value = value + (np.minimum(c, 0.0) * lines.height + ends).sum(axis=1)
    summands = regions.share @ np.abs(problem.rows)
    size = largest @ np.abs(problem.weight).T + np.abs(problem.bias)
    reach = ((summands + np.abs(regions.force)) * (size + np.abs(lines.height)) + np.abs(ends)).sum(axis=1)
    reach = reach + regions.share @ np.abs(problem.constant)
    error = 4 * gamma(2 * hidden + inputs + len(problem.constant) + 16) * reach + regions.share @ problem.error
    found = value - error * (1 + gamma(8)) - TINY
    return Planes(g, np.where(np.isfinite(found), found, -np.inf))


@np.errstate(all="ignore")
def within(regions: Regions, below: Planes) -> Regions:
    """The boxes without inputs at which a plane below the rows is above 0: an unsafe one is not among them."""
    reach = (np.maximum(-below.least, 0.0)[:, None] / np.abs(below.slope)) * (1 + gamma(4))
    slop = gamma(4) * np.maximum(np.abs(regions.lower), np.abs(regions.upper)) + TINY
    upper = np.where(below.slope > 0, np.fmin(regions.upper, regions.lower + reach + slop), regions.upper)
    lower = np.where(below.slope < 0, np.fmax(regions.lower, regions.upper - reach - slop), regions.lower)
    return replace(regions, lower=lower, upper=upper)
