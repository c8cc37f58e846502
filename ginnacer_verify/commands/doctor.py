"""`ginnacer doctor`: every package and backend, its version, whether it answers, or the command that installs it."""

import argparse
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

from ginnacer_verify import native
from ginnacer_verify.commands.output import remark, show, table
from ginnacer_verify.errors import GinnacerError
from ginnacer_verify.query.backend import backend_names, get_backend, install_command, missing, packages
from ginnacer_verify.version import __version__

CORE = ("numpy", "scipy", "onnx", "onnxruntime", "highspy", "rich", "threadpoolctl", "vnnlib")
OPTIONAL = {"matplotlib": "matplotlib", "torch": "torch==2.13.0", "distributed": "dask distributed"}
"""Packages that some commands need, and what pip is asked for."""
SECONDS = 60.0


@dataclass(frozen=True)
class Finding:
    """What is known about one package or backend."""

    name: str
    kind: str
    found: bool
    version: str
    state: str


EXAMPLE = "ginnacer doctor"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fast", action="store_true", help="only look for the solvers, do not try them")


def run(args: argparse.Namespace) -> int:
    remark(args, f"ginnacer-verify {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores")
    findings = [_package(name) for name in CORE] + [_package(name, wanted) for name, wanted in OPTIONAL.items()]
    findings += [_native()]
    findings += [_backend(name, ask=not args.fast) for name in backend_names()]
    rows = [(finding.kind, finding.name, finding.version or "-", finding.state) for finding in findings]
    show(args, {"findings": [asdict(finding) for finding in findings]}, table(rows))
    return 0 if all(finding.found for finding in findings if finding.kind == "package") else 3


def _package(name: str, wanted: str = "") -> Finding:
    found = _version(name)
    state = "found" if found else f"missing: pip install {wanted or name}"
    return Finding(name, "optional" if wanted else "package", bool(found), found, state)


def _native() -> Finding:
    """The compiled engines, which fit this processor to some degree."""
    try:
        level = native.level()
    except GinnacerError as problem:
        return Finding("native engines", "optional", False, "", f"missing: {problem}")
    return Finding("native engines", "optional", True, __version__, f"found, for {level}")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _backend(name: str, *, ask: bool) -> Finding:
    """A backend's packages and, if asked for, its answer to a question with a known answer."""
    absent = missing(name)
    if absent:
        return Finding(name, "backend", False, "", f"missing: {install_command(name)}")
    found = _version(packages(name)[0]) if packages(name) else ""
    return Finding(name, "backend", True, found, _question(name) if ask else "found")


def _question(name: str) -> str:
    """Ask whether relu(x) + relu(-x) can reach 2 on [-1, 1]; it cannot."""
    from ginnacer_verify.arrays import read_only
    from ginnacer_verify.box import Box
    from ginnacer_verify.engines.parts import Bounded, Part
    from ginnacer_verify.engines.refinement.relational import exact
    from ginnacer_verify.graph.network import Network
    from ginnacer_verify.properties.property import Disjunct, Polytope, Property
    from ginnacer_verify.query.query import Sat, Unsat

    network = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[1.0, 1.0]], [0.0]))
    box = Box(read_only([-1.0]), read_only([1.0]))
    prop = Property.of(Disjunct(box, Polytope.everything(1), Polytope.of([[-1.0]], [-2.0])))
    relational = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)
    try:
        answer = get_backend(name).solve(relational.query(exact(relational)), timeout=SECONDS)
    except GinnacerError as problem:
        return f"broken: {problem}"
    match answer:
        case Unsat():
            return "works"
        case Sat():
            return "broken: it gave a wrong answer to a test question"
        case _:
            return f"undecided on a test question: {answer.reason}"
