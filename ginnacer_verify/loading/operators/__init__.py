"""What each ONNX operator becomes."""

from collections.abc import Callable

from ginnacer_verify.loading.composer import Tensor
from ginnacer_verify.loading.node import Node
from ginnacer_verify.loading.operators.linear import LINEAR
from ginnacer_verify.loading.operators.nonlinear import NONLINEAR
from ginnacer_verify.loading.operators.resize import RESIZE
from ginnacer_verify.loading.operators.shape import SHAPE
from ginnacer_verify.loading.operators.windows import WINDOWS

Handler = Callable[[Node], Tensor | tuple[Tensor, ...]]
OPERATORS: dict[str, Handler] = {**SHAPE, **LINEAR, **WINDOWS, **RESIZE, **NONLINEAR}
"""Everything that may take computed values."""

CONSTANT = {"Constant", "ConstantOfShape", "Range", "Shape", "Size"}
"""Evaluated while reading, as is every operator whose inputs are all constants."""
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
"""Never evaluated while reading: their values differ from run to run."""
CONTROL = {"If", "Loop", "Scan", "SequenceMap"}
"""Never evaluated while reading: what they do is in graphs of their own."""
