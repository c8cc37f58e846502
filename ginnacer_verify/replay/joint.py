"""The networks of a property as the one graph that it is decided on."""

from collections.abc import Mapping
from dataclasses import replace

from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.graph import Graph, Original
from ginnacer_verify.graph.joint import joined
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Declared, Property
from ginnacer_verify.replay.judge import check_fit


def subject(networks: Network | Graph | Mapping[str, Network | Graph], prop: Property) -> Network | Graph:
    """What a property is decided on: its only network, or one graph of all its networks and of what it multiplies."""
    if not isinstance(networks, Mapping):
        if networks.originals or not (prop.networks or prop.monomials):
            return networks
        networks = {prop.network: networks}
    if not prop.networks:
        (network,) = _only(networks, prop).values()
        check_fit(network, replace(prop, disjuncts=(), monomials=()))
        if not prop.monomials:
            return network
        return joined([Original(graph_of(network), tuple(range(prop.inputs)))], prop.inputs, prop.monomials)
    originals = [Original(graph_of(_fitting(networks, one)), one.inputs) for one in prop.networks]
    _refuse_unlike(networks, prop)
    return joined(originals, prop.inputs, prop.monomials)


def _only(networks: Mapping[str, Network | Graph], prop: Property) -> Mapping[str, Network | Graph]:
    if len(networks) != 1:
        raise InputError(f"the property speaks of one network, but {len(networks)} are given")
    if prop.network and next(iter(networks)) not in {"", prop.network}:
        raise InputError(f"the property speaks of network {prop.network!r}, not {next(iter(networks))}")
    return networks


def _fitting(networks: Mapping[str, Network | Graph], declared: Declared) -> Network | Graph:
    if declared.name not in networks:
        raise InputError(
            f"the property speaks of network {declared.name!r}, which is not given: add --network {declared.name}=FILE"
        )
    try:
        check_fit(networks[declared.name], Property((), declared.x, declared.y))
    except InputError as problem:
        raise type(problem)(f"network {declared.name}: {problem}") from None
    return networks[declared.name]


def _refuse_unlike(networks: Mapping[str, Network | Graph], prop: Property) -> None:
    """Refuse networks that the property does not know, of several element types, or other than it says they are."""
    names = [one.name for one in prop.networks]
    for name in networks:
        if name not in names:
            raise InputError(f"the property does not speak of network {name!r}, only of {', '.join(names)}")
    kinds = {networks[name].dtype.name for name in names}
    if len(kinds) > 1:
        raise InputError(f"the networks take inputs of different element types: {', '.join(sorted(kinds))}")
    for one in prop.networks:
        if one.equal_to and networks[one.name].model != networks[one.equal_to].model:
            raise InputError(f"the property says that {one.name} is equal to {one.equal_to}, but the two files differ")
