"""auto_LiRPA: linear bounds of the emitted abstraction. It proves or says Unknown; it has no witnesses.

`METHODS` are the library's own: FastLin is CROWN with lower slopes that equal the upper ones, alpha-CROWN optimises
them. Everything runs in float64 on the CPU; a bound counts only if it clears the slacks of the query, which are far
above the library's rounding errors. In a child process, because the library knows no deadline. Run as a program, this
module is the child.
"""

import sys
import types
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ginnacer_verify.arrays import Array, dense, read_only
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.emit.chain import chain
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.query.process import Child, out_of_time, serve
from ginnacer_verify.query.query import Answer, Query, Unknown, Unsat

METHODS = {
    "interval": ("IBP", "adaptive"),
    "FastLin": ("CROWN", "same-slope"),
    "CROWN": ("CROWN", "adaptive"),
    "alpha-CROWN": ("CROWN-Optimized", "adaptive"),
}
"""Our name -> the library's method and its option for ReLUs."""
STEPS = 20
"""Of alpha-CROWN's optimiser."""
SPARSE = dict.fromkeys(
    (
        "sparse_intermediate_bounds",
        "sparse_conv_intermediate_bounds",
        "sparse_features_alpha",
        "sparse_spec_alpha",
    ),
    False,
)
"""Release 0.3 trips over its own short cuts for stable neurons when it optimises: shapes of alpha do not match."""


class AutoLirpaBackend:
    """CROWN first, then alpha-CROWN if time is left."""

    name = "auto_lirpa"
    requires = ("auto_LiRPA", "torch")
    install = "pip install torch==2.13.0 appdirs packaging tqdm && pip install --no-deps auto_LiRPA==0.3"
    complete = False

    def __init__(self, methods: Sequence[str] = ("CROWN", "alpha-CROWN")) -> None:
        self._methods = tuple(methods)
        self.child = Child("auto_LiRPA", (sys.executable, "-m", "ginnacer_verify.adapters.auto_lirpa"))

    def solve(self, query: Query, *, timeout: float) -> Answer:
        deadline = Deadline.after(timeout)
        if deadline.passed:
            return out_of_time("auto_LiRPA")
        reply = self.child.ask((query, self._methods), deadline)
        if isinstance(reply, Unknown):
            return reply
        if "problem" in reply:
            return Unknown(f"auto_LiRPA stopped with {reply['problem']}: try --backend highs")
        if reply["proved"] is True:
            return Unsat()
        return Unknown("auto_LiRPA's bounds do not prove it: try --refine bisect or --backend highs")


def run(question: tuple[Query, Sequence[str]], seconds: float) -> dict[str, Any]:
    """Try one method after the other in this process."""
    query, methods = question
    emitted = chain(query)
    try:
        bounds = (lirpa_bounds(emitted.layers, emitted.box, method)[0] for method in methods)
        return {"proved": any(bool((lower > 0).any()) for lower in bounds)}  # a NaN is not
    except Exception as problem:  # its assertions, for one, which fail on chains whose ReLUs are nearly all stable
        return {"problem": f"{type(problem).__name__} {problem}".strip()}


def lirpa_bounds(layers: Sequence[Layer], box: Box, method: str = "CROWN") -> tuple[Array, Array]:
    """The library's bounds of the last layer's outputs on the box."""
    lower, upper, *_ = _computed(layers, box, method)
    return read_only(lower.detach().numpy()[0]), read_only(upper.detach().numpy()[0])


def lirpa_planes(layers: Sequence[Layer], box: Box, method: str = "CROWN") -> tuple[Array, Array, Array, Array]:
    """The planes that the library's bounds come from: coefficients and constants below the outputs, then above them."""
    if method == "interval":
        raise InputError("interval bounds have no planes: choose FastLin, CROWN or alpha-CROWN")
    *_, planes = _computed(layers, box, method, return_A=True)
    (found,) = (each for by_input in planes.values() for each in by_input.values())
    parts = (found[name].detach().numpy()[0] for name in ("lA", "lbias", "uA", "ubias"))
    below, below_constant, above, above_constant = (read_only(part) for part in parts)
    return below, below_constant, above, above_constant


def _computed(layers: Sequence[Layer], box: Box, method: str, **asked: Any) -> Any:
    """What the library's `compute_bounds` returns."""
    if method not in METHODS:
        raise InputError(f"{method!r} is none of {', '.join(METHODS)}")
    import torch

    library, slopes = METHODS[method]
    with _float64(), warnings.catch_warnings():
        lirpa = _library()
        warnings.simplefilter("ignore")  # of torch's tracer, about what the library does to it
        module = _module(layers)
        ends = [torch.tensor(np.array(end)[None, :], dtype=torch.float64) for end in (box.lower, box.upper)]
        steps = {"ob_iteration": STEPS, "iteration": STEPS}  # the option's name in 0.3 and in newer releases
        options = {"relu": slopes, "activation_bound_option": slopes, "optimize_bound_args": steps, **SPARSE}
        bounded = lirpa.BoundedModule(module, torch.zeros_like(ends[0]), bound_opts=options, device="cpu")
        perturbation = lirpa.PerturbationLpNorm(norm=np.inf, x_L=ends[0], x_U=ends[1])
        point = lirpa.BoundedTensor((ends[0] + ends[1]) / 2, perturbation)
        if asked:
            asked["needed_A_dict"] = {bounded.output_name[0]: [bounded.input_name[0]]}
        return bounded.compute_bounds(x=(point,), method=library, **asked)


def _module(layers: Sequence[Layer]) -> Any:
    """The layers as a torch module in float64."""
    import torch

    parts: list[Any] = []
    for layer in layers:
        linear = torch.nn.Linear(layer.inputs, layer.outputs, dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(np.array(dense(layer.weight))))
            linear.bias.copy_(torch.tensor(np.array(layer.bias)))
        parts += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


@contextmanager
def _float64() -> Iterator[None]:
    """The library's constants take torch's default type, which is the caller's again afterwards."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _library() -> Any:
    """auto_LiRPA, made importable beside a current torch and numpy.

    Release 0.3, the last one on PyPI, imports three names that are gone. Newer releases do not, and lose nothing by it:
    1. numpy.lib.arraysetops.isin has moved to numpy.isin;
    2. torch.onnx.symbolic_helper._set_opset_version is gone: the tracer's opset is set elsewhere now;
    3. a node of a traced graph answered node["name"]: torch._C.Node now has typed getters only."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about itself
        import torch.onnx.symbolic_helper as helper
    if "numpy.lib.arraysetops" not in sys.modules:
        moved = types.ModuleType("numpy.lib.arraysetops")
        moved.isin = np.isin  # type: ignore[attr-defined]
        sys.modules["numpy.lib.arraysetops"] = moved
    if not hasattr(helper, "_set_opset_version"):
        helper._set_opset_version = lambda version: None
    if not hasattr(torch._C.Node, "__getitem__"):
        torch._C.Node.__getitem__ = lambda node, name: getattr(node, node.kindOf(name))(name)
    with warnings.catch_warnings(record=True):  # it sets filters of its own, so ignoring is not enough
        import auto_LiRPA
        from auto_LiRPA import perturbations

    return types.SimpleNamespace(
        BoundedModule=auto_LiRPA.BoundedModule,
        BoundedTensor=auto_LiRPA.BoundedTensor,
        PerturbationLpNorm=perturbations.PerturbationLpNorm,
    )


BACKEND = AutoLirpaBackend

if __name__ == "__main__":
    serve(run)
