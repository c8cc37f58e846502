"""Where a property only compares outputs with each other, a last function that keeps their order is left out.

Softmax, LogSoftmax, Sigmoid and Tanh change no comparison of two outputs in real arithmetic, but they make bounds loose
and gradients vanish. Counterexamples are replayed on the original network all the same.
"""

import numpy as np

from ginnacer_verify.graph.elementary import Exp, Sigmoid, Tanh
from ginnacer_verify.graph.graph import Affine, Apply, Graph
from ginnacer_verify.graph.linear import Scale, Select
from ginnacer_verify.properties.property import Property


def without_last(graph: Graph, prop: Property) -> Graph:
    """The graph up to the scores that its last function orders, if the property asks for no more than their order."""
    if not compares_only(prop):
        return graph
    scores = _scores(graph)
    if scores is None:
        return graph
    return Graph(graph.nodes[: scores + 1], graph.x, graph.y, graph.model)


def compares_only(prop: Property) -> bool:
    """Whether every row is a multiple of `Y_i - Y_j` with nothing added."""
    for disjunct in prop.disjuncts:
        rows = disjunct.outputs
        two = np.count_nonzero(rows.matrix, axis=1) == 2
        if rows.exact or not (two.all() and (rows.matrix.sum(axis=1) == 0).all() and (rows.offset == 0).all()):
            return False
    return bool(prop.disjuncts)


def _scores(graph: Graph) -> int | None:
    """The number of the node whose values the last function keeps in order; None if there is no such function."""
    number = len(graph.nodes) - 1
    node, sign = graph.nodes[number], 1.0
    while isinstance(node, Affine) and len(node.maps) == 1 and not node.bias.any():
        one = node.maps[0]
        if isinstance(one, Scale) and (one.factor == one.factor[0]).all() and one.factor[0] != 0:
            sign *= float(np.sign(one.factor[0]))
        elif not (isinstance(one, Select) and one.is_identity):
            return None
        number = node.sources[0]
        node = graph.nodes[number]
    if not isinstance(node, Apply):
        return None
    if isinstance(node.function, Sigmoid | Tanh) and sign > 0:
        return node.sources[0]
    wanted = {"SoftmaxReciprocal": 1.0, "SoftmaxLog": -1.0}.get(type(node.function).__name__)
    return _compared(graph, node.sources[0]) if wanted == sign else None


def _compared(graph: Graph, total: int) -> int | None:
    """The node z, if the value `total` is `1 + sum over j != i of exp(z_j - z_i)` for each of its entries i."""
    adding = graph.nodes[total]
    if not (isinstance(adding, Affine) and len(adding.maps) == 1 and (adding.bias == 1).all()):
        return None
    raised = graph.nodes[adding.sources[0]]
    if not (isinstance(raised, Apply) and isinstance(raised.function, Exp)):
        return None
    differing = graph.nodes[raised.sources[0]]
    if not (isinstance(differing, Affine) and len(differing.maps) == 1 and not differing.bias.any()):
        return None
    scores, size = differing.sources[0], graph.nodes[total].size
    if graph.nodes[scores].size != size:
        return None
    sums, differences = adding.maps[0].matrix().toarray(), differing.maps[0].matrix().toarray()
    units = np.eye(size)
    for i in range(size):
        terms = differences[sums[i] == 1.0]
        wanted = np.delete(units - units[i], i, axis=0)
        same = terms.shape == wanted.shape and sorted(map(tuple, terms)) == sorted(map(tuple, wanted))
        if not (same and np.isin(sums[i], (0.0, 1.0)).all()):
            return None
    return scores
