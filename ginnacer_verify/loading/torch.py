"""A torch module of any class as a Graph, by way of the ONNX model that torch itself exports.

Going through ONNX keeps one reader and one check, and gives counterexamples something to be replayed on. Tracing is
tried first: it is fast and needs no other package; but it would follow only one side of an `if` about values, so a
warning of the tracer ends it, and torch.export, which refuses such modules, has the last word.
"""

import io
import logging
import warnings
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from ginnacer_verify.errors import InputError, NetworkError
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.loading import parse_onnx
from ginnacer_verify.loading.agree import TOLERANCE, relative_error

if TYPE_CHECKING:
    import torch


def from_torch(module: "torch.nn.Module", input_shape: Sequence[int]) -> Graph:
    """The network that a torch module computes in evaluation mode.

    Args:
        module: Of any class whose `forward` takes and gives one tensor and does the same whatever the values.
        input_shape: The shape of its input, with a batch of one: `(1, 3, 32, 32)`.
    """
    import torch

    module = deepcopy(module).eval().cpu()
    x = torch.zeros(tuple(input_shape), dtype=dtype_of(module))
    try:
        with torch.no_grad():
            y = module(x)
    except Exception as problem:  # whatever the user's code raises
        raise InputError(f"the module cannot be run on inputs of shape {list(input_shape)}: {problem}") from problem
    if not isinstance(y, torch.Tensor):
        raise InputError(f"the module gives a {type(y).__name__}; wrap it in one whose forward gives a tensor")
    if traced := _traced(module, x):
        with suppress(NetworkError):  # onnxruntime does not run all that the tracer writes
            return _checked(parse_onnx(traced), module, x)
    return _checked(parse_onnx(_exported(module, x)), module, x)


def is_module(model: object) -> bool:
    """Whether it is a torch module; without importing torch, which is there if it is one."""
    return any(one.__module__.startswith("torch.nn.") and one.__name__ == "Module" for one in type(model).__mro__)


def dtype_of(module: Any) -> Any:
    """The element type of its first floating-point parameter."""
    import torch

    floating = (one.dtype for one in module.parameters() if one.dtype.is_floating_point)
    return next(floating, torch.float32)


def _traced(module: Any, x: Any) -> bytes:
    """The ONNX model that torch's tracer writes; nothing if it has any doubt."""
    import torch

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", torch.jit.TracerWarning)
        try:
            torch.onnx.export(module, (x,), file, dynamo=False, do_constant_folding=False)
        except Exception:  # tracers fail in many ways; torch.export says what the trouble is
            return b""
    return file.getvalue()


def _exported(module: Any, x: Any) -> bytes:
    """The ONNX model of torch.export, which takes some seconds and the package onnxscript."""
    import torch

    try:
        import onnxscript  # noqa: F401 (torch asks for it)
    except ModuleNotFoundError as problem:
        raise InputError("this module needs torch's newer exporter: pip install onnxscript") from problem
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
        except Exception as problem:
            first = next((line for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
            raise NetworkError(f"torch cannot export this module: {first}") from problem
    content: bytes = program.model_proto.SerializeToString()
    return content


def _checked(graph: Graph, module: Any, x: Any) -> Graph:
    """Refuse a network that differs from the module itself; that it agrees with its ONNX model is known already."""
    import torch

    points = np.random.default_rng(1).standard_normal((64, graph.inputs))
    batch = torch.as_tensor(points, dtype=x.dtype).reshape(64, *x.shape)
    with torch.no_grad():
        theirs = np.array([module(point).numpy().reshape(-1) for point in batch], dtype=np.float64)
    error = relative_error(graph(points), theirs)
    if not error <= TOLERANCE:
        raise NetworkError(f"what we read differs from the module by {error:.1e} (relative); please report it")
    return graph
