"""Is what was read what onnxruntime runs, where a property asks?

A network is compared with onnxruntime when it is loaded, at random points. What those do not show, far out or behind a
ReLU that is inactive at all of them, may be in the property's boxes.
"""

import numpy as np

from ginnacer_verify.bounds.intervals import intervals
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.graph import Graph, Original
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading.agree import FEWEST, TOLERANCE, WORK, both, differs, in_box, relative_error, work_of
from ginnacer_verify.loading.onnx import parse_model, read_graph
from ginnacer_verify.properties.property import Property

POINTS, BOXES = 64, 8
"""So many points, in at most so many boxes, are tried."""


def check_reading(whole: Network | Graph, prop: Property, deadline: Deadline = FOREVER) -> None:
    """Refuse a network, or one of several, that differs from its own ONNX model in the property's boxes."""
    finite = (box for box in prop.boxes[:BOXES] if np.isfinite([box.lower, box.upper]).all())
    boxes = [box for box in finite if not box.is_empty]
    originals = whole.originals or (Original(graph_of(whole), tuple(range(whole.inputs))),)
    for original in originals:
        if original.network.model and boxes:
            own = list(original.inputs)
            _check(original.network, [Box(box.lower[own], box.upper[own]) for box in boxes], deadline)


def _check(graph: Graph, boxes: list[Box], deadline: Deadline) -> None:
    """Values that nearly cancel differ by more than TOLERANCE because they are rounded: that is no difference."""
    random, count = np.random.default_rng(0), max(FEWEST // 4, min(POINTS, WORK // 4 // work_of(graph)))
    with np.errstate(over="ignore"):
        found = np.concatenate([in_box(box, -(-count // len(boxes)), random).astype(graph.dtype) for box in boxes])
    points = found[np.isfinite(found).all(axis=1)][:count]
    if not len(points):
        return
    theirs, ours = both(graph, points, deadline)
    apart = np.abs(ours - theirs) > TOLERANCE * np.maximum(np.abs(theirs), np.abs(ours))
    finite = np.isfinite(theirs).all(axis=1) & np.isfinite(ours).all(axis=1)
    suspects = np.flatnonzero(finite & apart.any(axis=1))
    if not len(suspects):
        return
    error = relative_error(ours[finite], theirs[finite])
    if executed := _executed(graph):
        x = points[suspects].astype(np.float64)
        known = intervals(executed, x, x)
        inside = (known.lower[-1] <= theirs[suspects]) & (theirs[suspects] <= known.upper[-1])
        if not inside.all():
            raise differs(error)
    elif not error <= TOLERANCE:  # how much is rounded is not known: outputs are measured by how large they get
        raise differs(error)


def _executed(graph: Graph) -> Graph | None:
    """The model, read again, as it is executed, as far as that is known: what was given may be several of its operators
    multiplied out."""
    try:
        return read_graph(parse_model(graph.model), content=graph.model).executed()
    except NetworkError:
        return None
