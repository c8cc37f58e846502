"""The oracle: onnxruntime on the CPU, as the competition's scorer runs it."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ginnacer_verify.errors import NetworkError
from ginnacer_verify.network import Array


class Runtime:
    """An ONNX model that maps flat inputs to flat outputs in the model's own element type."""

    def __init__(self, model: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # onnxruntime has no public base class for its exceptions
            raise NetworkError(f"onnxruntime cannot read the network: {_first_line(problem)}") from problem
        if len(self._session.get_inputs()) != 1:
            raise NetworkError(f"the network has {len(self._session.get_inputs())} inputs; we read networks with one")
        (self._input,) = self._session.get_inputs()
        self._shape = tuple(size if isinstance(size, int) and size > 0 else 1 for size in self._input.shape)
        kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
        if self._input.type not in kinds:
            raise NetworkError(f"the network takes {self._input.type}; we read floating-point inputs")
        self.dtype: np.dtype[Any] = np.dtype(kinds[self._input.type])

    def __call__(self, x: ArrayLike) -> Array:
        """The first output for one flat input, exact in float64."""
        with np.errstate(over="ignore"):
            values: NDArray[Any] = np.asarray(x).astype(self.dtype).reshape(self._shape)
        try:
            outputs = self._session.run(None, {self._input.name: values})
        except Exception as problem:  # as above
            raise NetworkError(f"onnxruntime cannot run the network: {_first_line(problem)}") from problem
        return np.asarray(outputs[0], dtype=np.float64).reshape(-1)


def _first_line(problem: Exception) -> str:
    return (str(problem).splitlines() or [type(problem).__name__])[0]
