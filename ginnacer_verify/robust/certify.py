"""certify(model, inputs, labels, eps): certified, attacked and open accuracy of a data set, resumable and in parallel.

Each result is a line of a journal as soon as it is there. A result belongs to a digest of the network, the input, its
label, the radius, the norm and the options, so a second run takes up what a first one left, whatever was changed."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import load
from ginnacer_verify.loading.model import Model, as_network, shapes_for, values_of
from ginnacer_verify.loading.workers import workers
from ginnacer_verify.properties.build import Norm
from ginnacer_verify.robust.lines import Lines
from ginnacer_verify.robust.radius import radius
from ginnacer_verify.robust.robustness import RANGE, content_of, predicted, property_of
from ginnacer_verify.shown import Shown
from ginnacer_verify.version import __version__

STATES = ("certified", "attacked", "open", "misclassified")
"""Proved robust, refuted by a counterexample, neither in the time limit, and wrong before anything is moved."""


@dataclass(frozen=True)
class Result:
    """What is known of one input at one radius; `radius` and `refuted` only where radii were asked for."""

    index: int
    label: int
    predicted: int
    eps: float
    state: str
    seconds: float
    digest: str
    reason: str = ""
    adversarial: tuple[float, ...] = ()
    becomes: int = -1
    radius: float = -1.0
    refuted: float = -1.0


@dataclass(frozen=True, eq=False, repr=False)
class Certified(Shown):
    """All results, by radius and index."""

    results: tuple[Result, ...] = field(default=())

    @property
    def table(self) -> list[dict[str, float]]:
        """For each radius: how many inputs, and the shares that are right, certified, attacked and open."""
        rows = []
        for eps in dict.fromkeys(result.eps for result in self.results):
            states = [result.state for result in self.results if result.eps == eps]
            count = len(states)
            shares = {state: states.count(state) / count for state in STATES}
            row = {"eps": eps, "inputs": count, "accuracy": 1.0 - shares["misclassified"]}
            rows.append(row | {name: shares[name] for name in STATES[:3]})
        return rows

    def facts(self) -> dict[str, object]:
        return {
            f"eps {row['eps']:g}": f"{row['certified']:.1%} certified, {row['attacked']:.1%} attacked, "
            f"{row['open']:.1%} open of {row['inputs']}"
            for row in self.table
        }


@dataclass(frozen=True, eq=False)
class Task:
    """One input to be certified, with everything that the answer depends on."""

    index: int
    x: Array
    label: int
    eps: float
    norm: Norm
    within: tuple[float, float] | None
    timeout: float
    radii: bool
    options: Mapping[str, Any]
    digest: str


def certify(
    model: Model,
    inputs: ArrayLike,
    labels: ArrayLike,
    eps: float | Sequence[float],
    *,
    norm: Norm = "inf",
    within: tuple[float, float] | None = RANGE,
    timeout: float = 60.0,
    folder: str | Path | None = None,
    jobs: int = 1,
    radii: bool = False,
    progress: Callable[[int, int, Result | None], None] | None = None,
    **options: Any,
) -> Certified:
    """Whether each input of a data set keeps its label.

    Args:
        model: A file, an ONNX model, its bytes, a torch module or a network that was read.
        inputs: One input per row.
        labels: One class per input.
        eps: How far inputs may be moved: a number, or several for as many rows of the result's `table`.
        norm: How distances are measured: "inf" (the largest change of a value), 2 or 1.
        within: The range of values that inputs can have, or None for any.
        timeout: Seconds for one input and radius.
        folder: Where results are kept, in `results.jsonl`: a second call takes up what the first one left.
        jobs: How many inputs at a time, in processes of their own.
        radii: Also look for the largest radius of each input.
        progress: Called with the number of results that are there, of all, and the last one.
        options: Those of `verify`.
    """
    points, wanted = np.atleast_1d(values_of(inputs)), np.ravel(values_of(labels))
    if not len(wanted) or len(points) != len(wanted):
        raise InputError(f"{len(points)} inputs and {len(wanted)} labels do not fit together")
    network = as_network(model, shapes_for(points.shape[1:]))
    if points.size != len(wanted) * network.inputs:
        raise InputError(f"inputs of shape {list(points.shape[1:])} do not fit a network with {network.inputs} inputs")
    distances = [float(one) for one in np.atleast_1d(values_of(eps))]
    if not all(0 <= one < np.inf for one in distances):
        raise InputError("eps must be one or several finite numbers, 0 or more")
    _check_values(points, wanted, network.outputs, within)
    common = {"norm": norm, "within": within, "timeout": timeout, "radii": radii, "options": options}
    content = content_of(network)
    tasks = [
        _task(content, index, row, int(label), one, common)
        for one in distances
        for index, (row, label) in enumerate(zip(points.reshape(len(wanted), -1), wanted, strict=True))
    ]
    tell = progress or (lambda done, total, result: None)
    with closing(Journal(None if folder is None else Path(folder))) as journal:
        asked = {task.digest for task in tasks}
        found = {digest: result for digest, result in journal.read().items() if digest in asked}
        tell(len(found), len(tasks), None)
        for result in _computed(network, [task for task in tasks if task.digest not in found], jobs):
            found[result.digest] = result
            journal.add(result)
            tell(len(found), len(tasks), result)
    return Certified(tuple(found[task.digest] for task in tasks))


def _check_values(points: Array, labels: Array, classes: int, within: tuple[float, float] | None) -> None:
    """Refuse what would silently count as misclassified."""
    low, high = within or (-np.inf, np.inf)
    if not low <= high:
        raise InputError(f"the range of values must have a lower and an upper end, not {low:g} and {high:g}")
    if not np.isfinite(points).all():
        raise InputError("an input holds a value that is not a finite number")
    if points.min() < low or points.max() > high:
        reach = f"the inputs reach from {points.min():g} to {points.max():g}, outside of the range {low:g} to {high:g}"
        raise InputError(f"{reach}: scale them, or give the range that they have")
    if not np.isin(labels, np.arange(classes)).all():
        raise InputError(f"labels must be class numbers from 0 to {classes - 1}")


def _task(content: bytes, index: int, x: Array, label: int, eps: float, common: dict[str, Any]) -> Task:
    text = json.dumps([__version__, index, label, eps, common], sort_keys=True, default=str)
    digest = hashlib.sha256(content + x.tobytes() + text.encode()).hexdigest()[:24]
    return Task(index, x, label, eps, **common, digest=digest)


class Journal:
    """The results of a folder, one JSON line each; without a folder, nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.lines: Lines | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self.lines = Lines(folder / "results.jsonl")

    def read(self) -> dict[str, Result]:
        """By digest; a line that is not ours counts as not there."""
        found = {}
        for line in self.lines.path.read_text().splitlines() if self.lines else ():
            try:
                values = json.loads(line)
                found[values["digest"]] = Result(**{**values, "adversarial": tuple(values["adversarial"])})
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def add(self, result: Result) -> None:
        if self.lines:
            self.lines.append(json.dumps(asdict(result)), "run the same again")

    def close(self) -> None:
        if self.lines:
            self.lines.close()


def _computed(network: Network | Graph, tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    if jobs <= 1 or len(tasks) <= 1:
        yield from (_result(network, task) for task in tasks)
        return
    with workers(min(jobs, len(tasks)), _start, content_of(network)) as pool:
        for future in as_completed([pool.submit(_in_worker, task) for task in tasks]):
            yield future.result()


_network: Graph | None = None
"""Of a worker: read once, used for all its tasks."""


def _start(content: bytes) -> None:
    global _network
    _network = load(content)


def _in_worker(task: Task) -> Result:
    assert _network is not None
    return _result(_network, task)


def _result(network: Network | Graph, task: Task) -> Result:
    now = predicted(network, task.x)
    same = {"index": task.index, "label": task.label, "predicted": now, "eps": task.eps, "digest": task.digest}
    if now != task.label:
        return Result(**same, state="misclassified", seconds=0.0)  # type: ignore[arg-type]
    prop = property_of(network, task.x, task.label, task.eps, norm=task.norm, within=task.within)
    verdict = verify(network, prop, timeout=task.timeout, **{"threads": 1, **task.options})
    more: dict[str, Any] = {}
    if (found := verdict.counterexample) is not None:
        more = {"adversarial": tuple(found.x.tolist()), "becomes": int(np.argmax(found.y))}
    if task.radii:
        settings = {"norm": task.norm, "within": task.within, "timeout": task.timeout, **task.options}
        known = radius(network, task.x, task.label, largest=max(2 * task.eps, 1e-6), **settings)
        more |= {"radius": known.proved, "refuted": known.refuted if np.isfinite(known.refuted) else -1.0}
    state = "certified" if verdict.holds else "attacked" if verdict.violated else "open"
    reason = getattr(verdict, "reason", "")
    return Result(**same, state=state, seconds=round(verdict.statistics.seconds, 4), reason=reason, **more)  # type: ignore[arg-type]
