"""choose(network, prop) -> Choice: which engine decides a property.

Rules, the first that fits: linear input constraints on chains go to the abstraction-refinement loop; few varying inputs
to halving boxes, compiled for chains of moderate size and on the graph for everything else; few ReLUs to the loop with
all of them kept, which is one exact program; one hidden layer to an engine of its own, with one exact program as the
finisher; networks whose matrices fit into memory to the native engine that decides phases, with the loop as the
finisher; every graph that is no chain, or whose convolutions are better left as they are, to the same on graphs; linear
input constraints on those, and everything where the native engines were not built, to branch and bound on the graph.
"""

from dataclasses import dataclass

from ginnacer_verify import native
from ginnacer_verify.bounds.substitution import cost_of
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.problem import is_plain
from ginnacer_verify.errors import InputError, NativeUnavailable, UnsupportedOperator
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.graph.graph import Affine, Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Property

ENGINES = ("auto", "native", "boxes", "phases", "shallow", "regions", "cegar")
"""`native` is boxes or phases, whichever fits; `auto` may choose any."""
FEW_INPUTS = 12
"""Halving boxes pays up to about so many varying inputs."""
MANY_RELUS = 2000
"""The compiled engine for boxes has room for square matrices of this size, and touches what is unstable of them."""
FEW_RELUS = 24
"""A tree over so few phases is one exact program for an LP solver."""
MANY_WEIGHTS = 10_000_000
"""The engine for phases keeps all matrices dense, several times."""
MANY_MAPPED = 40_000_000
"""Graphs whose maps, multiplied out, would have more entries than this are not looked at as chains."""
MANY_TIMES = 3
"""So many times as many entries as multiplications are not worth being multiplied out."""


@dataclass(frozen=True)
class Choice:
    """An engine, why it was chosen, and which ReLUs the loop starts with, with which solver, if it is the loop or if
    the loop is its finisher."""

    engine: str
    rule: str
    initial: str = "relaxed"
    backend: str = "highs"


def choose(network: Network | Graph, prop: Property, engine: str = "auto") -> Choice:
    """The engine for a property."""
    if engine not in ENGINES:
        raise InputError(f"{engine!r} is none of {', '.join(ENGINES)}")
    varying = max((len(disjunct.box.varying) for disjunct in prop.disjuncts), default=0)
    if any(disjunct.ball is not None for disjunct in prop.disjuncts):
        if engine not in {"auto", "regions"}:
            raise InputError(f"the engine {engine} takes boxes only, not balls: use --engine regions")
        return Choice("regions", "inputs in a ball")
    if isinstance(network, Graph):
        if engine not in {"auto", "boxes", "phases", "regions"}:
            raise InputError(f"the engine {engine} takes chains of ReLU layers only: use --engine phases or regions")
        if engine == "boxes" or (engine == "auto" and varying <= FEW_INPUTS):
            return Choice("boxes", f"a graph, {varying} varying inputs")
        if any(len(disjunct.inputs) for disjunct in prop.disjuncts):
            if engine == "phases":
                raise InputError("the native engines do not know linear input constraints: use --engine regions")
            return Choice("regions", "linear input constraints")
        return Choice("regions" if engine == "regions" else "phases", f"a graph, {varying} varying inputs")
    weights = sum(layer.inputs * layer.outputs for layer in network.layers)
    if any(len(disjunct.inputs) for disjunct in prop.disjuncts):
        if engine in {"native", "phases", "shallow"}:
            raise InputError("the native engines do not know linear input constraints: use --engine regions or cegar")
        return Choice("cegar", "linear input constraints") if engine == "auto" else Choice(engine, "as asked for")
    if engine == "shallow" and not network.arithmetic.is_real:
        raise InputError(f"the engine {engine} knows real arithmetic only: use --engine phases, regions or cegar")
    if engine in {"boxes", "phases", "native"} and not native.available():
        raise NativeUnavailable(native.MISSING)
    if engine == "shallow":
        if len(network.layers) != 2:
            raise InputError("the engine shallow is for one hidden layer: use --engine phases")
        return Choice("shallow", "as asked for", "needed", "milp")
    if engine in {"boxes", "phases", "regions", "cegar"}:
        return Choice(engine, "as asked for")
    if varying <= FEW_INPUTS and native.available():
        return Choice("boxes", f"{varying} varying inputs, at most {FEW_INPUTS}")
    if engine == "auto" and network.relus <= FEW_RELUS:
        return Choice("cegar", f"{network.relus} ReLUs, at most {FEW_RELUS}: one exact program", "exact")
    if engine == "auto" and network.arithmetic.is_real and len(network.layers) == 2 and weights <= MANY_WEIGHTS:
        return Choice("shallow", f"one hidden layer, {varying} varying inputs", "needed", "milp")
    if not native.available():
        return Choice("regions", "the native engines are not installed")
    if engine == "native" or weights <= MANY_WEIGHTS:
        return Choice("phases", f"{varying} varying inputs")
    return Choice("regions", f"{weights} weights, more than {MANY_WEIGHTS}")


def form_for(network: Network | Graph, prop: Property, engine: str, deadline: Deadline) -> Network | Graph:
    """A chain where an engine for chains was asked for, or where the graph is one of moderate size, or nearly so.

    With many varying inputs convolutions stay what they are where their matrices would be much larger."""
    if isinstance(network, Network) or engine == "regions":
        return network
    if engine not in {"auto", "boxes", "phases"}:
        return as_chain(network, deadline)
    few = engine == "boxes" or all(len(disjunct.box.varying) <= FEW_INPUTS for disjunct in prop.disjuncts)
    if few and network.neurons > MANY_RELUS:
        return network
    maps = [one for node in network.nodes if isinstance(node, Affine) for one in node.maps]
    most = MANY_WEIGHTS if few else min(MANY_MAPPED, MANY_TIMES * sum(map(cost_of, maps)))
    if sum(float(one.inputs) * one.outputs for one in maps) > most:
        return network
    try:
        chain = as_chain(network, deadline)
    except UnsupportedOperator:
        return network
    return chain if chain.relus <= 2 * network.neurons else network


def has_kernel(network: Network | Graph, prop: Property) -> bool:
    """Whether the compiled engine for boxes takes it: a chain of moderate size, without linear input constraints."""
    if isinstance(network, Graph) or network.relus > MANY_RELUS or not is_plain(network):
        return False
    return not any(len(disjunct.inputs) for disjunct in prop.disjuncts)
