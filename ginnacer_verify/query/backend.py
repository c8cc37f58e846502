"""Backends: what a solver must offer, which ones there are, and whether they can run here.

A backend is one file in `ginnacer_verify.adapters` with a class named by `BACKEND`, or a class that another package
announces as an entry point of the group `ginnacer_verify.backends`. Nothing is imported to see whether it is there.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Protocol, runtime_checkable

from ginnacer_verify import adapters
from ginnacer_verify.errors import BackendUnavailable, InputError, InstallationError
from ginnacer_verify.query.query import Answer, Query

GROUP = "ginnacer_verify.backends"


@runtime_checkable
class Backend(Protocol):
    """One object per run: it may keep its model alive between the queries of one base."""

    name: str
    requires: tuple[str, ...]
    """Packages that must be installed, the solver's own first."""
    install: str
    """The command that installs them."""
    complete: bool
    """Whether, given time, it answers every query."""

    def solve(self, query: Query, *, timeout: float) -> Answer:
        """Never raises for a query that is hard: that is an Unknown with its reason."""
        ...


@cache
def _announced() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@cache
def backend_names() -> tuple[str, ...]:
    """Every backend that is known here, installed or not."""
    ours = [module.name for module in iter_modules(adapters.__path__)]
    return tuple(sorted({*ours, *_announced()}))


def backend_class(name: str) -> Callable[[], Backend]:
    """The class of a backend, its own packages not yet imported."""
    if name in _announced():
        try:
            announced: Callable[[], Backend] = _announced()[name].load()
        except Exception as problem:  # whatever another package raises while it is imported
            raise InstallationError(f"backend {name!r} cannot be loaded: {problem}") from problem
        return announced
    if name not in backend_names():
        raise InputError(f"there is no backend {name!r}; there are: {', '.join(backend_names())}")
    ours: Callable[[], Backend] = import_module(f"ginnacer_verify.adapters.{name}").BACKEND
    return ours


def packages(name: str) -> tuple[str, ...]:
    """The packages that a backend needs."""
    return tuple(getattr(backend_class(name), "requires", ()))


def missing(name: str) -> tuple[str, ...]:
    """Those of them that are not installed."""
    return tuple(package for package in packages(name) if find_spec(package) is None)


def install_command(name: str) -> str:
    """How to get them."""
    return str(getattr(backend_class(name), "install", f"pip install {' '.join(packages(name))}"))


def get_backend(name: str) -> Backend:
    """A backend that is ready to solve."""
    if absent := missing(name):
        raise BackendUnavailable(f"backend {name!r} needs {', '.join(absent)}: {install_command(name)}")
    return backend_class(name)()
