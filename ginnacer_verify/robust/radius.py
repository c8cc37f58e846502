"""radius(model, x, label): how far an input can be moved before its label changes, from below and from above."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ginnacer_verify.arrays import Array
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError
from ginnacer_verify.loading.model import Model, as_network, shapes_for, values_of
from ginnacer_verify.properties.build import Norm
from ginnacer_verify.replay.judge import Counterexample
from ginnacer_verify.robust.robustness import RANGE, predicted, property_of
from ginnacer_verify.shown import Shown

SHARE = 0.2
"""No single question takes more of the time that is left, unless nothing is proved yet."""


@dataclass(frozen=True, eq=False, repr=False)
class Radius(Shown):
    """`proved`: within this distance the label never changes. `refuted`: a counterexample is this near, or infinite.

    `steps` are the radii that were asked about and what was said, in order."""

    proved: float
    refuted: float
    counterexample: Counterexample | None
    seconds: float
    steps: tuple[tuple[float, str], ...] = ()

    def facts(self) -> dict[str, object]:
        return {
            "proved": f"{self.proved:.6g}",
            "refuted": f"{self.refuted:.6g}",
            "questions": len(self.steps),
            "seconds": f"{self.seconds:.2f}",
        }


def radius(
    model: Model,
    x: ArrayLike,
    label: int | None = None,
    *,
    norm: Norm = "inf",
    targets: Iterable[int] | None = None,
    within: tuple[float, float] | None = RANGE,
    largest: float = 1.0,
    precision: float = 0.01,
    timeout: float = 60.0,
    observe: "Callable[[Radius], None] | None" = None,
    **options: Any,
) -> Radius:
    """The largest proved and the smallest refuted radius around an input, brought nearer to each other by halving.

    Args:
        model: A file, an ONNX model, its bytes, a torch module or a network that was read.
        x: The input, in the network's shape or flat.
        label: The class that inputs must have; by default the one that `x` has.
        norm: How distances are measured: "inf" (the largest change of a value), 2 or 1.
        targets: The classes that must not be chosen instead; by default all others.
        within: The range of values that inputs can have, or None for any.
        largest: The radius to begin with.
        precision: It ends when both radii differ by less than this share of the refuted one.
        timeout: Seconds for everything.
        observe: Called with what is known after each question.
        options: Those of `verify`.
    """
    if not (0 < largest < np.inf and 0 < precision < 1):
        raise InputError("largest must be a positive number, and precision a share between 0 and 1")
    deadline = Deadline.after(timeout)
    network = as_network(model, shapes_for(values_of(x).shape), deadline)
    point = values_of(x).ravel()
    label = predicted(network, point) if label is None else int(label)
    if predicted(network, point) != label:
        return Radius(0.0, 0.0, None, deadline.spent)
    chosen = None if targets is None else list(targets)
    proved, refuted, stuck, found, steps = 0.0, np.inf, np.inf, None, list[tuple[float, str]]()

    def state() -> Radius:
        return Radius(proved, refuted, found, deadline.spent, tuple(steps))

    while not deadline.passed:
        end = min(refuted, stuck, 2 * largest)
        if end - proved <= precision * end:
            break
        eps = (proved + end) / 2 if proved or end < largest else end / 2
        left = deadline.left if not proved else max(SHARE * deadline.left, 0.05)
        prop = property_of(network, point, label, eps, norm=norm, targets=chosen, within=within)
        verdict = verify(network, prop, timeout=left, **options)
        steps.append((eps, verdict.word))
        if verdict.holds:
            proved = eps
        elif verdict.counterexample is not None:
            refuted, found = min(eps, distance(verdict.counterexample.x, point, norm)), verdict.counterexample
        else:
            stuck = eps
        if observe:
            observe(state())
    return state()


def distance(x: Array, centre: Array, norm: Norm) -> float:
    """How far apart two inputs are, rounded up."""
    far = float(np.linalg.norm(x - centre, ord=np.inf if norm == "inf" else norm))
    return far * (1 + 1e-12)
