"""Training small ReLU networks with torch, and writing them as plain ONNX that old readers accept.

Everything runs on one thread with fixed seeds, so that one torch build always gives the same bytes.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

OPSET, IR_VERSION = 13, 7  # of 2020-2021: every reader of VNN-COMP networks knows them
Loss = Callable[[Tensor, Tensor], Tensor]


def fully_connected(*widths: int) -> nn.Sequential:
    """Linear layers of these widths, inputs first and outputs last, with a ReLU between any two."""
    modules: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        modules += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def be_deterministic(seed: int) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)


def train(model: nn.Sequential, x: Tensor, y: Tensor, loss: Loss, *, epochs: int, batch: int, rate: float) -> None:
    """Adam with a cosine schedule down to zero, on shuffled batches."""
    batches = -(-len(x) // batch)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * batches)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(batch):
            optimiser.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimiser.step()
            schedule.step()


def write_onnx(path: Path, model: nn.Sequential, input_shape: tuple[int, ...]) -> None:
    """One node per module, float32, no metadata; the file is compared with torch before we believe in it."""
    nodes, weights, name = [], [], "X"
    for index, module in enumerate(model):
        last = index == len(model) - 1
        parameters = {f"{kind}_{index}": value for kind, value in module.named_parameters()}
        weights += [numpy_helper.from_array(value.detach().numpy(), key) for key, value in parameters.items()]
        operator, attributes = _operator(module)
        output = "Y" if last else f"{operator.lower()}_{index}"
        nodes.append(helper.make_node(operator, [name, *parameters], [output], f"node_{index}", **attributes))
        name = output
    shapes = {"X": input_shape, "Y": tuple(model(torch.zeros(input_shape)).shape)}
    x, y = (helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in shapes.items())
    graph = helper.make_graph(nodes, path.stem, [x], [y], weights)
    written = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(written, full_check=True)
    path.write_bytes(written.SerializeToString(deterministic=True))
    _compare(path, model, input_shape)


def _operator(module: nn.Module) -> tuple[str, dict[str, Any]]:
    """The ONNX operator that computes `module`, with its attributes."""
    match module:
        case nn.Linear():
            return "Gemm", {"transB": 1}
        case nn.ReLU():
            return "Relu", {}
        case nn.Flatten():
            return "Flatten", {"axis": 1}
        case nn.Conv2d(kernel_size=kernel, stride=stride, padding=(int(rows), int(columns))):
            pads = [rows, columns, rows, columns]
            return "Conv", {"kernel_shape": list(kernel), "strides": list(stride), "pads": pads}
    raise NotImplementedError(f"no ONNX operator is known for {module}")


def _compare(path: Path, model: nn.Sequential, input_shape: tuple[int, ...]) -> None:
    points = np.random.default_rng(0).uniform(-1, 1, (100, *input_shape)).astype(np.float32)
    with torch.no_grad():
        for point in points:
            np.testing.assert_allclose(evaluate(path, point), model(torch.tensor(point)).numpy(), rtol=1e-5, atol=1e-5)


def evaluate(path: Path, points: NDArray[np.float32]) -> NDArray[np.float32]:
    """The outputs of a network file, as onnxruntime computes them; a batch goes in point by point."""
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    rows = [session.run(None, {"X": point.reshape(shape)})[0] for point in points.reshape(-1, int(np.prod(shape)))]
    return np.concatenate(rows)
