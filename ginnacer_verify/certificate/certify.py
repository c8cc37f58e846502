"""certify(...): from a verdict to a certificate, or a sentence why there is none."""

import io
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np

from ginnacer_check.__main__ import content
from ginnacer_check.check import Closer, Models, Problem, Region, check
from ginnacer_check.formula import read_formula
from ginnacer_check.functions import RELU
from ginnacer_check.network import Unreadable
from ginnacer_check.proof import Refused
from ginnacer_verify.certificate.boxes import Boxes, OutOfTime, TooNear
from ginnacer_verify.certificate.phases import Phases
from ginnacer_verify.certificate.told import Told, same_relus
from ginnacer_verify.certificate.tree import Tree, write
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.record import Record
from ginnacer_verify.engines.verdict import Certified, Undecided, Verdict, Violated
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.write import to_vnnlib
from ginnacer_verify.version import __version__

FEW_INPUTS = 12
"""Up to so many varying inputs boxes are halved; beyond, ReLUs are decided."""


def certify_of(
    network: Network | Graph,
    source: Property | str | Path | bytes,
    verdict: Verdict,
    path: Path,
    deadline: Deadline,
    record: Record | None,
) -> Certified:
    """Write a certificate for a verdict about a network that was read, and a property or its file."""
    originals: list[Network | Graph] = [one.network for one in network.originals] if isinstance(network, Graph) else []
    models = [one.model for one in originals or [network] if isinstance(one, Graph) and one.model]
    if not models or len(models) < len(originals):
        return Certified(None, "no certificate: a network did not come from an ONNX model")
    if isinstance(source, Property):
        text = to_vnnlib(source).encode()
        path.with_suffix(".vnnlib").write_bytes(text)
    else:
        text = source if isinstance(source, bytes) else content(Path(source))
    try:
        named = dict(zip((one.name for one in read_formula(text.decode()).networks), models, strict=False))
    except Unreadable as refusal:
        return Certified(None, f"no certificate: {refusal}")
    return certify(named, text, verdict, path, deadline, record)


def certify(
    models: Models, text: bytes, verdict: Verdict, path: Path, deadline: Deadline, record: Record | None = None
) -> Certified:
    """Write a certificate for a verdict about the networks and the property of these files.

    `record` is what the engine that found the verdict has told."""
    if isinstance(verdict, Undecided):
        return Certified(None, "nothing was decided, so there is nothing to certify")
    try:
        problem = Problem(models, text)
        said = {"twins": twins_of(problem)}
        problem = Problem(models, text, said["twins"]) if said["twins"] else problem
    except Unreadable as refusal:
        return Certified(None, f"no certificate: {refusal}")
    remarks = {"made by": f"ginnacer-verify {__version__}", "engine": verdict.statistics.engine}
    if isinstance(verdict, Violated):
        write(path, "sat", problem.hashes, witness=verdict.counterexample.x, remarks=remarks)
        return Certified(path)
    if record and retold(problem, record, path, remarks):
        try:
            check(models, text, io.BytesIO(path.read_bytes()))
            return Certified(path)
        except Refused:  # what was told does not suffice: look for a proof of our own
            path.unlink()
    tree, closer = Tree(), Closer(problem)
    try:
        roots = list(_prove(problem, tree, closer, deadline, record or Record()))
    except OutOfTime:
        return Certified(
            None, "no certificate: the time limit was reached after the verdict; give it more with --timeout"
        )
    except TooNear:
        return Certified(None, "no certificate: the bounds of the checker are too coarse for this proof")
    write(path, "unsat", problem.hashes, (r for root in roots for r in tree.bytes_of(root)), said=said, remarks=remarks)
    return Certified(path)


def twins_of(problem: Problem) -> list[tuple[int, int]]:
    """The ReLU nodes of the second of two networks of one form, each with that of the first that it leans on."""
    network, names = problem.network, [one.name for one in problem.formula.networks]
    if len(names) != 2:
        return []
    place = {number: k for k, number in enumerate(network.functions)}
    first, second = (
        sorted({place[n] for name, n in network.named.items() if name.startswith(f"{one}:") and n in place})
        for one in names
    )
    sizes = [[network.nodes[network.functions[k]].size for k in some] for some in (first, second)]
    relus = all(network.nodes[network.functions[k]].function is RELU for k in (*first, *second))
    return list(zip(second, first, strict=True)) if relus and sizes[0] == sizes[1] else []


def retold(problem: Problem, record: Record, path: Path, remarks: Mapping[str, str]) -> bool:
    """Write what the engine for phases has told, if it has told of all boxes and of ReLUs that the checker knows."""
    if not all(part.disjuncts in record.stories for part in problem.parts) or not same_relus(problem, record):
        return False
    stories = (
        Told(problem, number).records(record.stories[part.disjuncts], part.disjuncts)
        for number, part in enumerate(problem.parts)
    )
    write(path, "unsat", problem.hashes, chain.from_iterable(stories), remarks=remarks)
    return True


def _prove(problem: Problem, tree: Tree, closer: Closer, deadline: Deadline, record: Record) -> Iterator[int]:
    """The root of each part's proof."""
    boxes = Boxes(closer, tree, deadline, record)
    phases: Phases | None = None
    for number, part in enumerate(problem.parts):
        root = tree.new()
        region = Region(number, part.lower, part.upper, part.disjuncts)
        if np.count_nonzero(part.lower < part.upper) <= FEW_INPUTS:
            boxes.prove(root, region)
        else:
            phases = phases or Phases(closer, tree, deadline)
            phases.prove(root, region)
        yield root
