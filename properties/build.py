"""The usual properties, without a file: local robustness, ranges of an output, an order among outputs.

Each describes the *bad* behaviour, as VNN-LIB does. What has to hold is closed (`>=`) in a range or an order, so the
unsafe outputs are strict there; a robust label has to win outright, so a tie is unsafe, as in VNN-COMP's files.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Ball, Box
from ginnacer_verify.errors import PropertyError
from ginnacer_verify.properties.property import Disjunct, Polytope, Property

Norm = Literal["inf", 2, 1]


def robustness(
    centroid: ArrayLike,
    radius: ArrayLike,
    label: int,
    outputs: int,
    targets: Iterable[int] | None = None,
    within: tuple[float, float] = (0.0, 1.0),
    norm: Norm = "inf",
) -> Property:
    """Every input within `radius` of the centroid and in the range `within` is classified as `label`.

    In the maximum norm, `radius` can be one number per input. Norms 2 and 1 are the Euclidean and the taxicab distance.
    Unsafe: another class, or one of `targets` if given, scores at least as high; one disjunct each."""
    point, reach = np.ravel(np.asarray(centroid, dtype=np.float64)), np.asarray(radius, dtype=np.float64)
    if not ((reach >= 0).all() and np.isfinite(reach).all() and np.isfinite(point).all()):
        raise PropertyError(f"a finite centroid and radius are needed, not a radius of {reach}")
    if reach.size != 1 and (norm != "inf" or reach.size != point.size):
        raise PropertyError(f"a radius of {reach.size} numbers fits no ball of norm {norm} around {point.size} inputs")
    if not ((within[0] <= point) & (point <= within[1])).all():
        raise PropertyError(f"the centroid has values outside of {within}: scale it, or give the range as `within`")
    rivals = [i for i in range(outputs) if i != label] if targets is None else list(dict.fromkeys(targets))
    if label in rivals or not rivals:
        raise PropertyError(f"label {label} needs at least one other class among {outputs} as its target")
    rows = [(_difference(label, rival, outputs), 0.0) for rival in rivals]
    if norm == "inf":
        return _union(Box.around(point, reach.reshape(-1), within), rows, strict=False)
    ball = Ball(point, float(reach.reshape(())), norm)
    box = Box(np.clip(ball.box.lower, *within), np.clip(ball.box.upper, *within))
    return _union(box, rows, strict=False, ball=ball)


def output_range(box: Box, output: int, outputs: int, lower: float = -np.inf, upper: float = np.inf) -> Property:
    """On the box, this output stays in [lower, upper]. Unsafe: strictly below, or strictly above."""
    if not lower <= upper or lower == np.inf or upper == -np.inf:
        raise PropertyError(f"an output cannot stay in [{lower}, {upper}]")
    value = _unit(output, outputs)
    rows = [(row, offset) for row, offset in ((value, lower), (-value, -upper)) if np.isfinite(offset)]
    if not rows:
        raise PropertyError("a range without ends says nothing: give lower, upper or both")
    return _union(box, rows, strict=True)


def ordered(box: Box, chain: Sequence[int], outputs: int) -> Property:
    """On the box, the outputs never increase along the chain: y[chain[0]] >= y[chain[1]] >= ...

    So `ordered(box, (i, j), outputs)` keeps output i at least as high as output j. Unsafe: a strict increase."""
    pairs = list(pairwise(chain))
    if not pairs or any(i == j for i, j in pairs):
        raise PropertyError(f"an order needs at least two different outputs, not {list(chain)}")
    return _union(box, [(_difference(i, j, outputs), 0.0) for i, j in pairs], strict=True)


def _unit(output: int, outputs: int) -> Array:
    """The row of one output."""
    if not 0 <= output < outputs:
        raise PropertyError(f"there is no output {output} among {outputs}: they are numbered from 0")
    row = np.zeros(outputs)
    row[output] = 1.0
    return row


def _difference(i: int, j: int, outputs: int) -> Array:
    """The row of `y[i] - y[j]`."""
    return _unit(i, outputs) - _unit(j, outputs)


def _union(box: Box, rows: Sequence[tuple[Array, float]], strict: bool, ball: Ball | None = None) -> Property:
    """One disjunct for each row `row @ y <= offset`, or `<`."""
    everywhere = Polytope.everything(box.inputs)
    unsafe = [Polytope.of([row], [offset], strict) for row, offset in rows]
    return Property.of(*(Disjunct(box, everywhere, one, ball=ball) for one in unsafe))
