"""Between which values the derivatives of a ReLU graph lie on boxes: an interval for every entry of its Jacobian.

A row is carried backwards as an interval; behind a ReLU that may be active or not it is widened to hold 0. A piecewise
linear function moves between two inputs as an average of such derivatives (Clarke) says: so the intervals bound how
fast it rises, and falls, along every input.
"""

import numpy as np
from scipy.sparse import csr_array

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Affine, Apply, Graph, Input
from ginnacer_verify.rounding import TINY, UNIT, gamma

LEAST = 1e-100
"""Products of numbers that are no smaller do not underflow."""
FEW = 6
"""So many ReLUs that may be active or not are looked at in all their phases."""


@np.errstate(all="ignore")
def slopes(graph: Graph, rows: Array, known: Known) -> tuple[Array, Array]:
    """The least and the largest derivative of each row of the output by each input: (batch, rows, inputs) twice.

    What is not a number is infinite."""
    shape = (known.batch, len(rows), graph.inputs)
    least, most = np.zeros(shape), np.zeros(shape)
    start = np.broadcast_to(rows, (known.batch, *rows.shape))
    held = {len(graph.nodes) - 1: (start, start)}
    for number in range(len(graph.nodes) - 1, -1, -1):
        if number not in held:
            continue
        low, high = held.pop(number)
        node = graph.nodes[number]
        match node:
            case Input():
                at = slice(node.start, node.start + node.size)
                least[..., at], most[..., at] = _sum((least[..., at], most[..., at]), (low, high))
                continue
            case Affine():
                parts = [_pulled(node, k, low, high) for k in range(len(node.maps))]
            case Apply(function=Relu()):
                (source,) = node.sources
                inactive, active = known.upper[source][:, None] <= 0, known.lower[source][:, None] >= 0
                ends = np.where(active, low, np.minimum(low, 0.0)), np.where(active, high, np.maximum(high, 0.0))
                parts = [(np.where(inactive, 0.0, ends[0]), np.where(inactive, 0.0, ends[1]))]
            case _:
                raise InputError(f"derivatives of {type(node.function).__name__} are not bounded yet: only of ReLUs")
        for source, part in zip(node.sources, parts, strict=True):
            held[source] = _sum(held[source], part) if source in held else part
    return np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)


def slopes_by_phase(graph: Graph, rows: Array, known: Known) -> Array:
    """The least derivatives of rows on boxes with at most FEW ReLUs that may be active or not, found phase by phase;
    minus infinity for other boxes. Wherever there is a derivative each ReLU is in a phase: at kinks nothing is lost."""
    sources = [graph.nodes[number].sources[0] for number in graph.applied]
    open_ = [(known.lower[source] < 0) & (known.upper[source] > 0) for source in sources]
    count = sum((some.sum(axis=1) for some in open_), np.zeros(known.batch, dtype=np.intp))
    owner = np.repeat(np.arange(known.batch), np.where(count <= FEW, 2 ** np.minimum(count, FEW), 0))
    first = np.searchsorted(owner, np.arange(known.batch))
    phase, each = np.arange(len(owner)) - first[owner], known.part(owner)
    place = np.zeros(len(owner), dtype=np.intp)
    for source, some in zip(sources, open_, strict=True):
        row, j = np.nonzero(some[owner])
        nth = place[row] + np.cumsum(some[owner], axis=1)[row, j] - 1
        active = phase[row] >> nth & 1 == 1
        each.lower[source][row[active], j[active]] = 0.0
        each.upper[source][row[~active], j[~active]] = 0.0
        place = place + some[owner].sum(axis=1)
    found = np.full((known.batch, len(rows), graph.inputs), np.inf)
    np.minimum.at(found, owner, slopes(graph, rows, each)[0])
    found[count > FEW] = -np.inf
    return found


def _pulled(node: Affine, k: int, low: Array, high: Array) -> tuple[Array, Array]:
    """An interval of rows, pulled back through one map of a node, outwards by more than its rounding.

    What cannot be negative stays so: where a derivative is 0 its bound is 0."""
    one, many = node.maps[k], low.shape[:2]
    matrix = one.matrix()
    plus, minus = csr_array(matrix.maximum(0.0)), csr_array((-matrix).maximum(0.0))
    a, b = (_away(ends.reshape(-1, node.size)) for ends in (low, -high))
    room = gamma(one.terms + node.size + 8)
    tiny = 0.0 if np.abs(matrix.data[matrix.data != 0.0]).min(initial=1.0) >= LEAST else TINY

    def least(a: Array, b: Array) -> Array:
        """Below `a @ plus + b @ minus`."""
        above = (np.maximum(a, 0.0) @ plus + np.maximum(b, 0.0) @ minus) * (1 - room)
        under = (np.minimum(a, 0.0) @ plus + np.minimum(b, 0.0) @ minus) * (1 + room)
        return np.asarray((above + under) - 2 * UNIT * np.abs(above + under) - tiny).reshape(*many, one.inputs)

    return least(a, b), -least(b, a)


def _away(rows: Array) -> Array:
    """Negative numbers that are next to 0 a little lower: their products with weights do not underflow."""
    return np.where((rows < 0) & (rows > -LEAST), -LEAST, rows)


def _sum(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = a[0] + b[0], a[1] + b[1]
    return low - 2 * UNIT * np.abs(low), high + 2 * UNIT * np.abs(high)
