"""Properties of networks, and VNN-LIB, the text that they are written in."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ginnacer_verify.properties import build as build


def __getattr__(name: str) -> Any:
    """`build` is imported at its first use."""
    if name == "build":
        return import_module("ginnacer_verify.properties.build")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
