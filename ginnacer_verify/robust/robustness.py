"""robustness(model, x, label, eps): does the label stay the same around an input? along(): families of inputs."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.engines.verdict import Verdict
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import as_chain, graph_of
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.onnx import network_model
from ginnacer_verify.loading import parse_onnx
from ginnacer_verify.loading.model import Model, as_network, shapes_for, values_of
from ginnacer_verify.properties.build import Norm
from ginnacer_verify.properties.build import robustness as robustness_property
from ginnacer_verify.properties.property import Property

RANGE = (0.0, 1.0)
"""What the values of an image lie in."""


def robustness(
    model: Model,
    x: ArrayLike,
    label: int | None = None,
    eps: ArrayLike = 0.01,
    *,
    norm: Norm = "inf",
    targets: Iterable[int] | None = None,
    within: tuple[float, float] | None = RANGE,
    **options: Any,
) -> Verdict:
    """Whether all inputs near one keep its label.

    Args:
        model: A file, an ONNX model, its bytes, a torch module or a network that was read.
        x: The input, in the network's shape or flat.
        label: The class that inputs must have; by default the one that `x` has.
        eps: How far inputs may be moved; in the maximum norm also one number per value of `x`.
        norm: How distances are measured: "inf" (the largest change of a value), 2 or 1.
        targets: The classes that must not be chosen instead; by default all others.
        within: The range of values that inputs can have, or None for any.
        options: Those of `verify`.
    """
    network = as_network(model, shapes_for(values_of(x).shape))
    prop = property_of(network, x, label, eps, norm=norm, targets=targets, within=within)
    return verify(network, prop, **options)


def property_of(
    network: Network | Graph,
    x: ArrayLike,
    label: int | None,
    eps: ArrayLike,
    *,
    norm: Norm = "inf",
    targets: Iterable[int] | None = None,
    within: tuple[float, float] | None = RANGE,
) -> Property:
    """The property that `robustness` decides."""
    point = values_of(x)
    if point.size != network.inputs:
        raise InputError(f"an input of {point.size} values does not fit a network with {network.inputs}")
    label = predicted(network, point) if label is None else int(label)
    if not 0 <= label < network.outputs:
        raise InputError(f"label {label} is none of the network's classes, 0 to {network.outputs - 1}")
    allowed = within or (-np.inf, np.inf)
    return robustness_property(point.ravel(), values_of(eps), label, network.outputs, targets, allowed, norm)


def predicted(network: Network | Graph, x: ArrayLike) -> int:
    """The class that the network gives an input."""
    return int(np.argmax(network(values_of(x).ravel())))


def content_of(network: Network | Graph) -> bytes:
    """The ONNX model of a network."""
    return network.model or network_model(as_chain(network))


def along(model: Model, x: ArrayLike, *directions: ArrayLike, within: tuple[float, float] | None = RANGE) -> Graph:
    """The network as a function of t alone: its input is `x + t[0] * directions[0] + ...`, clipped to a range.

    One direction of ones is brightness; `x - x.mean()` is contrast. Verify it as any network with so many inputs:
    `gv.robustness(gv.along(model, x, np.ones_like(x)), [0.0], label, 0.2, within=None)`.

    Args:
        model: A file, an ONNX model, its bytes, a torch module or a network that was read.
        x: The input that t = 0 stands for.
        directions: What each t adds, in the shape of `x`.
        within: The range of values that inputs can have, or None for any.
    """
    point, rows = values_of(x), [values_of(one).ravel() for one in directions]
    network = as_network(model, shapes_for(point.shape))
    if not rows or any(len(row) != network.inputs for row in rows) or point.size != network.inputs:
        raise InputError(f"an input and at least one direction with {network.inputs} values are needed")
    graph = graph_of(network)
    if len(graph.x) != 1:
        raise InputError("a network with several inputs has no directions; join them in the model first")
    return parse_onnx(_prefixed(content_of(network), graph, point.ravel(), np.array(rows), within))


def _prefixed(content: bytes, graph: Graph, point: Any, rows: Any, within: tuple[float, float] | None) -> bytes:
    """The ONNX model with `x = clip(t @ rows + point)` in front of it, in the network's own precision."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load_model_from_string(content)
    old, dtype = graph.x[0].name, graph.dtype
    constants = {"rows": rows, "point": point, "low": np.zeros(()), "high": np.zeros(())}
    if within is not None:
        constants |= {"low": np.array(within[0]), "high": np.array(within[1])}
    made = [numpy_helper.from_array(np.asarray(value, dtype), f"along.{name}") for name, value in constants.items()]
    made.append(numpy_helper.from_array(np.array(graph.input_shape, np.int64), "along.shape"))
    nodes = [helper.make_node("Gemm", ["along.t", "along.rows", "along.point"], ["along.x"], name="along.gemm")]
    if within is not None:
        nodes.append(
            helper.make_node("Clip", ["along.x", "along.low", "along.high"], ["along.clipped"], name="along.clip")
        )
    nodes.append(helper.make_node("Reshape", [nodes[-1].output[0], "along.shape"], [old], name="along.reshape"))
    kind = TensorProto.DOUBLE if dtype == np.float64 else TensorProto.FLOAT
    others = [one for one in model.graph.input if one.name != old]
    combined = helper.make_graph(
        [*nodes, *model.graph.node],
        "along",
        [helper.make_tensor_value_info("along.t", kind, [1, len(rows)]), *others],
        list(model.graph.output),
        [*made, *model.graph.initializer],
    )
    new = helper.make_model(combined, opset_imports=list(model.opset_import), functions=list(model.functions))
    new.ir_version = max(model.ir_version, 7)
    return bytes(new.SerializeToString())
