"""Chains of affine layers and ReLUs, and graphs: from one to the other."""

from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import linear_map
from ginnacer_verify.network import Network


def graph_of(network: Network | Graph) -> Graph:
    """A chain as a graph; its weights are the chain's own."""
    if isinstance(network, Graph):
        return network
    builder = Builder()
    value = builder.input(network.inputs)
    for number, layer in enumerate(network.layers):
        if number:
            value = builder.apply(Relu(), value)
        value = builder.affine((value, linear_map(layer.weight)), bias=layer.bias)
    kind = network.dtype.name
    x, y = Tensor("X", network.input_shape, kind), Tensor("Y", network.output_shape, kind)
    return builder.graph(value, [x], [y], network.model)


def chain_of(network: Network | Graph) -> Network:
    """A graph as a chain, or why it is none."""
    if isinstance(network, Network):
        return network
    raise NetworkError("this network is not a chain of affine layers and ReLUs")
