"""A torch module as a Network, by way of an ONNX model made of the module's layers.

Going through ONNX keeps one reader and one check, and gives witnesses something to be replayed on. torch's own
exporter is not used: it needs more packages and writes operators that differ from release to release.
"""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from ginnacer_verify.errors import NetworkError, UnsupportedOperator
from ginnacer_verify.graph.chain import chain_of
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.onnx import constant, model_bytes
from ginnacer_verify.loading import parse_onnx
from ginnacer_verify.loading.agree import TOLERANCE, relative_error

if TYPE_CHECKING:
    import onnx
    import torch


def from_torch(module: "torch.nn.Module", input_shape: tuple[int, ...]) -> Network:
    """The network that `module` computes in evaluation mode on inputs of `input_shape`, the batch of one included.

    Reads Sequential containers, nested as deep as you like, of Linear, ReLU, LeakyReLU, Hardtanh, ReLU6, Conv1d,
    Conv2d, BatchNorm, average and maximum pools, Flatten, Unflatten, Dropout and Identity."""
    import torch

    module = deepcopy(module).eval()
    writer = _Writer()
    for name, layer in _layers(module):
        writer.write(name, layer)
    with torch.no_grad():
        shape = tuple(module(torch.zeros(input_shape, dtype=writer.dtype)).shape)
    dtype = np.dtype("f8" if writer.dtype == torch.float64 else "f4")
    content = model_bytes(writer.nodes, writer.constants, {"input": input_shape}, {writer.last: shape}, dtype)
    network = chain_of(parse_onnx(content))
    _check_agreement(network, module)
    return network


def _layers(module: "torch.nn.Module", name: str = "") -> "list[tuple[str, torch.nn.Module]]":
    import torch

    if not isinstance(module, torch.nn.Sequential):
        return [(name or type(module).__name__, module)]
    return [found for child, part in module.named_children() for found in _layers(part, f"{name}.{child}".strip("."))]


class _Writer:
    """The ONNX nodes of the layers seen so far."""

    def __init__(self) -> None:
        import torch

        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.last = "input"
        self.dtype = torch.float32

    def write(self, name: str, layer: "torch.nn.Module") -> None:
        """Append the node of one layer; every class ends up here or in UnsupportedOperator."""
        for kind, method in _METHODS.items():
            if type(layer).__name__ == kind:
                getattr(self, method)(name, layer)
                return
        raise UnsupportedOperator(type(layer).__name__, name, "we read Sequential modules of the layers we know")

    def _node(self, operator: str, name: str, weights: dict[str, Any] | None = None, **attributes: Any) -> None:
        from onnx import helper

        names = []
        for label, values in (weights or {}).items():
            names.append(f"{name}.{label}")
            self.constants.append(constant(names[-1], _array(values)))
        self.nodes.append(helper.make_node(operator, [self.last, *names], [f"{name}.out"], name=name, **attributes))
        self.last = f"{name}.out"

    def linear(self, name: str, layer: Any) -> None:
        self.dtype = layer.weight.dtype
        bias = {} if layer.bias is None else {"bias": layer.bias}
        self._node("Gemm", name, {"weight": layer.weight, **bias}, transB=1)

    def conv(self, name: str, layer: Any) -> None:
        if layer.padding_mode != "zeros":
            raise UnsupportedOperator(type(layer).__name__, name, f"padding mode {layer.padding_mode!r}")
        self.dtype = layer.weight.dtype
        bias = {} if layer.bias is None else {"bias": layer.bias}
        attributes = {"strides": layer.stride, "dilations": layer.dilation, "group": layer.groups}
        match layer.padding:
            case "same":  # with an odd one behind, and in numbers: onnxruntime knows no SAME_UPPER with a dilation
                totals = [step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
                attributes["pads"] = [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]
            case "valid":
                attributes["auto_pad"] = "VALID"
            case numbers:
                attributes["pads"] = [*numbers, *numbers]
        self._node("Conv", name, {"weight": layer.weight, **bias}, **attributes)

    def batch_norm(self, name: str, layer: Any) -> None:
        if layer.running_mean is None:
            raise UnsupportedOperator(type(layer).__name__, name, "it keeps no running mean")
        ones, zeros = np.ones(layer.num_features, "f4"), np.zeros(layer.num_features, "f4")
        scale, bias = (layer.weight, layer.bias) if layer.affine else (ones, zeros)
        statistics = {"mean": layer.running_mean, "variance": layer.running_var}
        self._node("BatchNormalization", name, {"scale": scale, "bias": bias, **statistics}, epsilon=layer.eps)

    def pool(self, name: str, layer: Any) -> None:
        axes = int(type(layer).__name__[-2])
        kernel, stride, pads = (_tuple(value, axes) for value in (layer.kernel_size, layer.stride, layer.padding))
        shared: dict[str, Any] = {
            "kernel_shape": kernel,
            "strides": stride,
            "pads": [*pads, *pads],
            "ceil_mode": int(layer.ceil_mode),
        }
        if type(layer).__name__.startswith("Max"):
            self._node("MaxPool", name, dilations=_tuple(layer.dilation, axes), **shared)
        elif getattr(layer, "divisor_override", None):
            raise UnsupportedOperator(type(layer).__name__, name, "divisor_override")
        else:
            self._node("AveragePool", name, count_include_pad=int(layer.count_include_pad), **shared)

    def global_pool(self, name: str, layer: Any) -> None:
        if set(_tuple(layer.output_size, 1)) != {1}:
            raise UnsupportedOperator(type(layer).__name__, name, "we read it with an output size of 1")
        self._node("GlobalAveragePool", name)

    def flatten(self, name: str, layer: Any) -> None:
        if (layer.start_dim, layer.end_dim) != (1, -1):
            raise UnsupportedOperator(type(layer).__name__, name, "we read it from axis 1 to the last")
        self._node("Flatten", name)

    def unflatten(self, name: str, layer: Any) -> None:
        if layer.dim != 1:
            raise UnsupportedOperator(type(layer).__name__, name, "we read it along axis 1")
        self._node("Reshape", name, {"shape": np.array([1, *layer.unflattened_size])})

    def relu(self, name: str, layer: Any) -> None:
        self._node("Relu", name)

    def leaky_relu(self, name: str, layer: Any) -> None:
        self._node("LeakyRelu", name, alpha=layer.negative_slope)

    def hardtanh(self, name: str, layer: Any) -> None:
        bounds = {"low": np.float32(layer.min_val), "high": np.float32(layer.max_val)}
        self._node("Clip", name, bounds)

    def identity(self, name: str, layer: Any) -> None:
        self._node("Identity", name)


_METHODS = {
    "Linear": "linear",
    "Conv1d": "conv",
    "Conv2d": "conv",
    "BatchNorm1d": "batch_norm",
    "BatchNorm2d": "batch_norm",
    "AvgPool1d": "pool",
    "AvgPool2d": "pool",
    "MaxPool1d": "pool",
    "MaxPool2d": "pool",
    "AdaptiveAvgPool1d": "global_pool",
    "AdaptiveAvgPool2d": "global_pool",
    "Flatten": "flatten",
    "Unflatten": "unflatten",
    "ReLU": "relu",
    "LeakyReLU": "leaky_relu",
    "Hardtanh": "hardtanh",
    "ReLU6": "hardtanh",
    "Dropout": "identity",
    "Identity": "identity",
}


def _array(values: Any) -> "np.ndarray[Any, Any]":
    return np.asarray(values.detach().cpu().numpy() if hasattr(values, "detach") else values)


def _tuple(value: Any, axes: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,) * axes


def _check_agreement(network: Network, module: Any) -> None:
    """Refuse a network that differs from the module itself; that it agrees with its ONNX model is known already."""
    import torch

    points = np.random.default_rng(1).standard_normal((64, network.inputs))
    dtype = next((parameter.dtype for parameter in module.parameters()), torch.float32)
    batch = torch.as_tensor(points, dtype=dtype).reshape(64, *network.input_shape)
    with torch.no_grad():
        theirs = np.array([module(point).numpy().reshape(-1) for point in batch], dtype=np.float64)
    error = relative_error(network(points), theirs)
    if not error <= TOLERANCE:
        raise NetworkError(f"what we read differs from the module by {error:.1e} (relative); please report it")
