"""The working memory of the compiled part of the engine, and how its functions are compiled."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ginnacer_verify.network import Array


class Memory(NamedTuple):
    """Working memory of one thread, made once for all of its boxes."""

    columns: Array  # the layer before and the one at hand, one value per neuron in each column
    rows: Array  # rows of the layer at hand
    active: NDArray[np.int64]  # the active neurons of the layer before
    unstable: Array  # rows of the unstable ReLUs, all layers
    known: NDArray[np.int64]  # how many unstable ReLUs lie in the layers before each of them
    lower: Array  # per unstable ReLU: its interval,
    upper: Array
    slope: Array  # the slope of its upper line,
    line: Array  # and of its lower line
    chosen: Array  # the lower slopes under optimisation
    work: Array  # the row under elimination
    coefficients: Array  # what each unstable ReLU's coefficient was when it was eliminated
    solution: Array  # the value of each unstable ReLU at the minimum of a bound
    spread: Array  # per neuron: how far each input moves it
    reach: Array  # the same per unstable ReLU
    planes: Array  # per property row, and their combination last: constant and slopes of its best bound
    blame: Array  # the coefficients that belong to each plane
    mixture: Array  # the weights of the rows in their combination
    values: Array  # the rows' values at the minimum of the combination
    centroid: Array  # of the box
    radius: Array
    low: Array  # what is left of the box after cuts, in units of the radius
    high: Array
    gain: Array  # per input: what halving it promises,
    loss: Array  # and its share in what the lines give away
    middle: Array  # of what is left of the box


def compiled(function: Any) -> Any:
    """Compiled for the types it is first called with; the global interpreter lock is let go of.

    Not kept by numba: its cache sees changes of a function's own file only, not of what it calls in others."""
    return njit(nogil=True, fastmath={"contract"}, error_model="numpy")(function)


@compiled
def copy(values, to, count):  # type: ignore[no-untyped-def]
    """The first `count` values. Assigning slices could allocate memory, which entries must not (`machine_code`)."""
    for i in range(count):
        to[i] = values[i]


@compiled
def part(numbers, at, length):  # type: ignore[no-untyped-def]
    return numbers[at : at + length], at + length


@compiled
def memory_in(columns, layer, unstable, spread, reach, planes, blame, numbers, counts, rows):  # type: ignore[no-untyped-def]
    """The working memory that a `Scratch` holds, for a network with so many rows of the property."""
    relus, inputs, width = reach.shape[0], reach.shape[1], unstable.shape[1]
    lower, at = part(numbers, 0, relus)
    upper, at = part(numbers, at, relus)
    slope, at = part(numbers, at, relus)
    line, at = part(numbers, at, relus)
    chosen, at = part(numbers, at, relus)
    work, at = part(numbers, at, width)
    coefficients, at = part(numbers, at, relus)
    solution, at = part(numbers, at, relus)
    mixture, at = part(numbers, at, rows)
    values, at = part(numbers, at, rows)
    centroid, at = part(numbers, at, inputs)
    radius, at = part(numbers, at, inputs)
    low, at = part(numbers, at, inputs)
    high, at = part(numbers, at, inputs)
    gain, at = part(numbers, at, inputs)
    loss, at = part(numbers, at, inputs)
    middle, at = part(numbers, at, inputs)
    return Memory(
        columns, layer, counts[relus:], unstable, counts[:relus], lower, upper, slope, line, chosen, work, coefficients,
        solution, spread, reach, planes, blame, mixture, values, centroid, radius, low, high, gain, loss, middle,
    )  # fmt: skip
