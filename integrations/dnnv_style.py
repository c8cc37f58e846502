"""A verifier in DNNV's manner: a function from a property and networks by name to a result and a counterexample.

DNNV writes its reduced problems as ONNX and VNN-LIB files; this takes them from there."""

from pathlib import Path
from typing import Any

import ginnacer_verify as gv

UNSAT, SAT, UNKNOWN = "unsat", "sat", "unknown"


def verify(phi: Path, *, timeout: float = 60.0, **networks: Any) -> tuple[str, Any]:
    """The result word of a property file, and the input that violates it or None. Networks are files or models."""
    (model,) = networks.values() if len(networks) == 1 else (networks,)
    verdict = gv.verify(model, phi, timeout=timeout)
    if verdict.counterexample is not None:
        return SAT, verdict.counterexample.input
    return (UNSAT if verdict.holds else UNKNOWN), None
