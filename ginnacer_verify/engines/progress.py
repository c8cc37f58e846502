"""What can be seen of a running loop: a trace file with one JSON line per round, and a live line on a terminal."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ginnacer_verify.box import Box
from ginnacer_verify.engines.refinement.sharing import Exploited, Sharing, Split
from ginnacer_verify.errors import InputError, plainly

EVERY = 0.1
"""Seconds between two updates of the live line."""


@dataclass(frozen=True)
class Progress:
    """How far a native engine has come: boxes, or regions of them with decided ReLUs, that were bounded and are open.

    `unstable` is the largest number of unstable ReLUs so far, `rule` why this engine was chosen."""

    engine: str
    boxes: int
    open_boxes: int
    unstable: int
    open_disjuncts: int
    left: float
    rule: str = ""


@dataclass(frozen=True, eq=False)
class Round:
    """What one round of the loop did, for traces and progress. `kept` and `unstable` count ReLUs per layer.

    `sharing` is the partition of each layer, `exploited` what a spurious witness made most of, `split` what was refined
    then, by `refine`. `rule` is why the loop was chosen."""

    number: int
    disjunct: int
    kept: tuple[int, ...]
    unstable: tuple[int, ...]
    answer: str
    seconds: float
    deviation: float
    bound: float
    box: Box
    open_boxes: int
    left: float
    sharing: tuple[Sharing, ...] = ()
    exploited: tuple[Exploited, ...] = ()
    split: tuple[Split, ...] = ()
    refine: str = ""
    rule: str = ""


Moment: TypeAlias = Round | Progress
Observer: TypeAlias = Callable[[Moment], None]


@contextmanager
def observer(trace: Path | None, *, live: bool) -> Iterator[Observer]:
    """An observer that writes the trace, shows the live line, both or nothing."""
    with ExitStack() as stack:
        sinks: list[Observer] = []
        if trace:
            sinks.append(stack.enter_context(_trace(trace)))
        if live and sys.stderr.isatty():
            sinks.append(stack.enter_context(_live()))
        yield lambda moment: [sink(moment) for sink in sinks].clear()


@contextmanager
def _trace(path: Path) -> Iterator[Observer]:
    try:
        file = path.open("w")
    except OSError as problem:
        raise InputError(f"the trace {path} cannot be written: {problem.strerror}") from problem
    with file:

        def write(moment: Moment) -> None:
            file.write(json.dumps(record(moment)) + "\n")
            file.flush()

        yield write


@contextmanager
def _live() -> Iterator[Observer]:
    last = 0.0

    def update(moment: Moment) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            print(f"\r\x1b[K{line(moment)}", end="", file=sys.stderr, flush=True)

    yield update
    print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def line(moment: Moment) -> str:
    """The state of a run in one line."""
    if isinstance(moment, Progress):
        return (
            f"{moment.engine} ({moment.rule})  {moment.boxes} bounded, {moment.open_boxes} open in "
            f"{moment.open_disjuncts} disjuncts  {moment.unstable} unstable ReLUs  {moment.left:.0f} s left"
        )
    return (
        f"loop ({moment.rule})  round {moment.number}  disjunct {moment.disjunct}  "
        f"ReLUs kept {sum(moment.kept)} of {sum(moment.unstable)} unstable  open boxes {moment.open_boxes}  "
        f"{moment.left:.0f} s left"
    )


def record(moment: Moment) -> dict[str, Any]:
    """A round of the loop, or a batch of the native engine, as one line of a trace."""
    if isinstance(moment, Progress):
        return asdict(moment)
    return {
        "round": moment.number,
        "disjunct": moment.disjunct,
        "kept_per_layer": list(moment.kept),
        "unstable_per_layer": list(moment.unstable),
        "answer": moment.answer,
        "seconds": round(moment.seconds, 6),
        "deviation": moment.deviation,
        "bound": moment.bound if math.isfinite(moment.bound) else None,
        "box": {"lower": moment.box.lower.tolist(), "upper": moment.box.upper.tolist()},
        "open_boxes": moment.open_boxes,
        "left": round(moment.left, 3),
        "refine": moment.refine,
        "sharing": [asdict(here) for here in moment.sharing],
        "exploited": [asdict(one) | {"layer": one.layer + 1} for one in moment.exploited],
        "split": [asdict(one) | {"layer": one.layer + 1} for one in moment.split],
    }


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The records of a trace file."""
    try:
        return [json.loads(text) for text in path.read_text().splitlines() if text.strip()]
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {plainly(problem)}") from problem
    except ValueError as problem:  # neither text nor JSON
        raise InputError(f"{path} is not a trace: `ginnacer verify --trace FILE` writes one") from problem
