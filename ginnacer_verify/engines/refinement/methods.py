"""Which abstractions the loop knows, and how each can be refined: by name, here or from other packages.

Another package announces a refinement, a function of a `Situation`, as an entry point of the group
`ginnacer_verify.refinements`, and an abstraction, a `Method`, of the group `ginnacer_verify.abstractions`.
"""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ginnacer_verify.engines.refinement import leaning, linear, merged, paper, relational
from ginnacer_verify.engines.refinement.abstracted import Method, Refine
from ginnacer_verify.errors import InputError, InstallationError

METHODS = {
    method.name: method for method in (relational.METHOD, leaning.METHOD, paper.METHOD, linear.METHOD, *merged.METHODS)
}
ABSTRACTIONS_GROUP = "ginnacer_verify.abstractions"
REFINEMENTS_GROUP = "ginnacer_verify.refinements"


@cache
def _announced(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def _loaded(group: str, name: str) -> Any:
    try:
        return _announced(group)[name].load()
    except Exception as problem:  # whatever another package raises while it is imported
        raise InstallationError(f"{name!r} cannot be loaded: {problem}") from problem


def method_names() -> tuple[str, ...]:
    """Every abstraction that the loop knows."""
    return (*METHODS, *(name for name in _announced(ABSTRACTIONS_GROUP) if name not in METHODS))


def refinement_names() -> tuple[str, ...]:
    """Every refinement of any abstraction."""
    ours = (name for method in METHODS.values() for name in method.refinements)
    return tuple(dict.fromkeys((*ours, *_announced(REFINEMENTS_GROUP))))


def method_named(name: str) -> Method:
    if name in METHODS:
        return METHODS[name]
    if name not in method_names():
        raise InputError(f"abstraction={name!r} is unknown; choose one of {', '.join(method_names())}")
    found: Method = _loaded(ABSTRACTIONS_GROUP, name)
    return found


def refinement_named(method: Method, refine: str | Refine | None) -> Refine:
    """A refinement of an abstraction: its usual one, one of its own by name, an announced one, or a function."""
    if refine is None:
        return next(iter(method.refinements.values()))
    if callable(refine):
        return refine
    if refine in method.refinements:
        return method.refinements[refine]
    if refine in _announced(REFINEMENTS_GROUP):
        found: Refine = _loaded(REFINEMENTS_GROUP, refine)
        return found
    names = dict.fromkeys((*method.refinements, *_announced(REFINEMENTS_GROUP)))
    known = f"choose one of {', '.join(names)}, or give a function"
    raise InputError(f"refine={refine!r} is unknown to the {method.name} abstraction; {known}")
