"""A network and its property as the network is executed, in its own precision, instead of in real arithmetic."""

import numpy as np

from ginnacer_verify.errors import InputError, UnsupportedProperty
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading.onnx import parse_model, read_graph
from ginnacer_verify.properties.property import Property


def as_executed(network: Network | Graph, prop: Property) -> tuple[Network | Graph, Property]:
    """Both, or an error that says what is in the way.

    A chain may be several operators of its model multiplied out, whose roundings it does not show: the model is read
    again."""
    if isinstance(network, Network) and network.originals:
        raise InputError(
            "layers that were multiplied out are not what is executed: give the networks as they were read"
        )
    if isinstance(network, Network) and network.model:
        network = read_graph(parse_model(network.model), content=network.model)
    executed, seen = network.executed(), prop.as_seen_in(network.dtype)
    if seen is not prop and (prop.monomials or any(disjunct.ball for disjunct in prop.disjuncts)):
        raise UnsupportedProperty("products or balls of inputs that are pinned to numbers which are rounded")
    largest = max((float(np.abs([box.lower, box.upper]).max(initial=0.0)) for box in seen.boxes), default=0.0)
    if np.isfinite(largest) and not largest < executed.arithmetic.largest:
        raise UnsupportedProperty(f"an input of {largest:g}, where executed values may overflow: use real arithmetic")
    return executed, seen
