"""The oracle: onnxruntime on the CPU, as the competition's scorer runs it."""

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.errors import NetworkError

KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


@lru_cache(maxsize=2)
def runtime_of(model: bytes) -> "Runtime":
    """The runtime of a model, made once: a file that was read is what witnesses are replayed on next, and a property
    may speak about two of them."""
    return Runtime(model)


class Runtime:
    """An ONNX model that maps flat inputs to flat outputs in the model's own element types; several inputs or outputs
    follow each other in the order of the file."""

    def __init__(self, model: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # onnxruntime has no public base class for its exceptions
            raise NetworkError(f"onnxruntime cannot read the network: {_first_line(problem)}") from problem
        self._inputs: list[tuple[str, tuple[int, ...], np.dtype[Any]]] = []
        for one in self._session.get_inputs():
            if one.type not in KINDS:
                raise NetworkError(f"the network takes {one.type}; we read floating-point inputs")
            shape = tuple(size if isinstance(size, int) and size > 0 else 1 for size in one.shape)
            self._inputs.append((one.name, shape, np.dtype(KINDS[one.type])))
        if not self._inputs:
            raise NetworkError("the network has no input")
        self.dtype = self._inputs[0][2]

    def __call__(self, x: ArrayLike) -> Array:
        """All outputs for one flat input, exact in float64."""
        values: NDArray[Any] = np.asarray(x).reshape(-1)
        feeds, at = {}, 0
        for name, shape, dtype in self._inputs:
            with np.errstate(over="ignore"):
                feeds[name] = values[at : at + prod(shape)].astype(dtype).reshape(shape)
            at += prod(shape)
        try:
            outputs = self._session.run(None, feeds)
        except Exception as problem:  # as above
            raise NetworkError(f"onnxruntime cannot run the network: {_first_line(problem)}") from problem
        return np.concatenate([np.asarray(output, dtype=np.float64).reshape(-1) for output in outputs])


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
