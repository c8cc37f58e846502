"""What planes leave of boxes: where a plane below a row is positive the row is, so the box is cut to the rest."""

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.substitution import Planes
from ginnacer_verify.rounding import TINY, UNIT, gamma

PASSES = 2
"""One plane's cut helps another."""
MARGIN = 1e-9
"""Cuts are this share of a box's half width wider than they are computed to be."""


@np.errstate(all="ignore")
def clipped(found: Planes, offset: Array, lower: Array, upper: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Boxes shrunk to where all of their rows may be at most their offset, and which of them have nothing left.

    Lower and upper are (boxes, inputs), the planes (boxes, rows, inputs), offsets (boxes, rows). What is not a number
    cuts nothing."""
    centre, slopes, error = found.centred(lower, upper)
    centre = centre - offset
    size = np.abs(centre) + np.abs(offset) + np.abs(slopes).sum(axis=2)
    centre = centre - error - 2 * gamma(2 * slopes.shape[2] + 16) * size - TINY
    low, high = np.full(lower.shape, -1.0), np.full(lower.shape, 1.0)
    none = np.zeros(len(lower), dtype=np.bool_)
    for row in [*range(slopes.shape[1])] * PASSES:
        slope = slopes[:, row]
        terms = np.minimum(slope * low, slope * high)
        lowest = centre[:, row] + terms.sum(axis=1)
        none |= lowest > 0
        end = (terms - lowest[:, None]) / slope  # from where on the plane is positive, the others at their least
        high = np.where((slope > 0) & (end + MARGIN < high), end + MARGIN, high)
        low = np.where((slope < 0) & (end - MARGIN > low), end - MARGIN, low)
        none |= (low > high).any(axis=1)
    middle = lower + (upper / 2 - lower / 2)
    radius = np.maximum(upper - middle, middle - lower) * (1 + 4 * UNIT)
    guard = 8 * UNIT * (np.abs(middle) + radius)
    ends = np.fmax(lower, middle + low * radius - guard), np.fmin(upper, middle + high * radius + guard)
    return *ends, none
