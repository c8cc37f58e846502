"""Problem: a network and a property that belong together, in the form that an engine takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.choice import form_for, has_kernel
from ginnacer_verify.engines.execution import as_executed
from ginnacer_verify.engines.order import without_last
from ginnacer_verify.engines.reading import check_reading
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.graph.folds import folded
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading.model import Model, as_network, shapes_for
from ginnacer_verify.properties.property import Property
from ginnacer_verify.replay.joint import subject
from ginnacer_verify.replay.judge import Judge

ARITHMETICS = ("real", "float32")
"""What a proof is about: real numbers, or the network as it is executed in its own precision."""


@dataclass(frozen=True, eq=False)
class Problem:
    """`whole` is what was asked about, and what certificates are about; `given` is the same, folded; `network` is the
    form of it that the engine takes, a chain where it is one."""

    whole: Network | Graph
    given: Network | Graph
    network: Network | Graph
    prop: Property

    @classmethod
    def of(
        cls,
        model: Model | Mapping[str, Model],
        prop: Property,
        deadline: Deadline,
        *,
        engine: str = "auto",
        arithmetic: str = "real",
        foldable: bool = True,
    ) -> "Problem":
        """Read the networks, compare them with onnxruntime in the property's boxes, join them if there are several, and
        fold once. Raises OutOfTime."""
        whole = subject(_networks(model, prop, deadline), prop)
        check_reading(whole, prop, deadline)
        if arithmetic != "real":
            whole, prop = as_executed(whole, prop)
        elif isinstance(whole, Graph) and not whole.originals:
            whole = without_last(whole, prop)
        given = folded(whole) if foldable and isinstance(whole, Graph) else whole
        return cls(whole, given, form_for(given, prop, engine, deadline), prop)

    @cached_property
    def chain(self) -> Network:
        """The network as a chain of affine layers and ReLUs, for the loop."""
        return as_chain(self.network)

    def on_graph(self, engine: str) -> bool:
        """Whether an engine works on the graph itself, not on a chain."""
        if engine == "boxes":
            return not has_kernel(self.network, self.prop)
        return engine == "regions" or (engine == "phases" and isinstance(self.network, Graph))

    def judge(self, engine: str) -> Judge:
        """Who replays what an engine finds."""
        judge = Judge(self.given if self.on_graph(engine) else self.network, self.prop)
        if self.on_graph(engine) and judge.graph.arithmetic != self.network.arithmetic:
            raise InputError(
                "layers that were multiplied out are not what is executed: give the network as it was read"
            )
        return judge


def _networks(
    model: Model | Mapping[str, Model], prop: Property, deadline: Deadline
) -> Network | Graph | Mapping[str, Network | Graph]:
    shapes = shapes_for(prop.x.shape)
    if isinstance(model, Mapping):
        return {name: as_network(one, shapes, deadline) for name, one in model.items()}
    return as_network(model, shapes, deadline)
