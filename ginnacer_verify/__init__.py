"""ginnacer-verify: a neural network verifier that abstracts first.

    import ginnacer_verify as gv

    network = gv.load("net.onnx")
    prop = gv.read_vnnlib("prop.vnnlib")
    verdict = gv.verify(network, prop, timeout=60)

    gv.robustness("net.onnx", image, label, eps=0.03)
    gv.certify("net.onnx", images, labels, eps=[0.01, 0.03], folder="results", jobs=2).table

    abstraction = gv.abstract(network, centroid)
    lower, upper = abstraction(x)

The abstraction is that of Edoardo Manino, Iury Bessa and Lucas C. Cordeiro, "Towards Global Neural Network
Abstractions with Locally-Exact Reconstruction", arXiv 2210.12054. "Paper" in a docstring means this one; its
definitions are named by their titles, because their numbers differ between versions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ginnacer_verify.version import __version__ as __version__

if TYPE_CHECKING:
    from ginnacer_verify import properties as properties
    from ginnacer_verify.abstraction.abstraction import Abstraction as Abstraction
    from ginnacer_verify.abstraction.abstraction import abstract as abstract
    from ginnacer_verify.bench.own import examples as examples
    from ginnacer_verify.bounds.call import bounds as bounds
    from ginnacer_verify.box import Box as Box
    from ginnacer_verify.engines.compare import compare as compare
    from ginnacer_verify.engines.refinement.abstracted import Options as Options
    from ginnacer_verify.engines.slopes import lipschitz as lipschitz
    from ginnacer_verify.engines.slopes import monotone as monotone
    from ginnacer_verify.engines.verify import verify as verify
    from ginnacer_verify.loading import load as load
    from ginnacer_verify.loading.torch import from_torch as from_torch
    from ginnacer_verify.properties.vnnlib import parse_vnnlib as parse_vnnlib
    from ginnacer_verify.properties.vnnlib import read_vnnlib as read_vnnlib
    from ginnacer_verify.robust.certify import certify as certify
    from ginnacer_verify.robust.radius import radius as radius
    from ginnacer_verify.robust.robustness import along as along
    from ginnacer_verify.robust.robustness import robustness as robustness

_HOMES = {
    "Abstraction": "ginnacer_verify.abstraction.abstraction",
    "Box": "ginnacer_verify.box",
    "Options": "ginnacer_verify.engines.refinement.abstracted",
    "abstract": "ginnacer_verify.abstraction.abstraction",
    "along": "ginnacer_verify.robust.robustness",
    "bounds": "ginnacer_verify.bounds.call",
    "certify": "ginnacer_verify.robust.certify",
    "compare": "ginnacer_verify.engines.compare",
    "examples": "ginnacer_verify.bench.own",
    "from_torch": "ginnacer_verify.loading.torch",
    "lipschitz": "ginnacer_verify.engines.slopes",
    "load": "ginnacer_verify.loading",
    "monotone": "ginnacer_verify.engines.slopes",
    "radius": "ginnacer_verify.robust.radius",
    "robustness": "ginnacer_verify.robust.robustness",
    "parse_vnnlib": "ginnacer_verify.properties.vnnlib",
    "read_vnnlib": "ginnacer_verify.properties.vnnlib",
    "verify": "ginnacer_verify.engines.verify",
}
"""Where each public function lives: imported at its first use, because `ginnacer --version` needs none of them."""


__all__ = [
    "Abstraction",
    "Box",
    "Options",
    "abstract",
    "along",
    "bounds",
    "certify",
    "compare",
    "examples",
    "from_torch",
    "lipschitz",
    "load",
    "monotone",
    "parse_vnnlib",
    "properties",
    "radius",
    "read_vnnlib",
    "robustness",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "properties":
        return import_module("ginnacer_verify.properties")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ginnacer_verify' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
