"""The abstraction-refinement loop of this project on a rival: same judge, same backends, same statistics.

Interval Networks and Network Abstractions start with everything merged that can be; each query has all of the
abstraction's ReLUs, so a solver decides the abstraction completely, and a spurious witness is answered by the rival's
own refinement step. FastLin has no ReLUs and no witnesses: its refinement is to halve the box.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ginnacer_verify.abstraction.fold import fold_error, fold_rows
from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.chain import interval_bounds, linear_bounds
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.parts import Part, parts
from ginnacer_verify.engines.progress import Round
from ginnacer_verify.engines.refinement.loop import OUT_OF_TIME, Loop, Settings
from ginnacer_verify.engines.refinement.refine import exact, relaxed, split
from ginnacer_verify.engines.verdict import Holds, Undecided, Verdict, Violated, combine
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.properties.property import Disjunct, Property
from ginnacer_verify.query.backend import Backend, get_backend
from ginnacer_verify.query.query import Query, Sat
from ginnacer_verify.replay.judge import Counterexample, Judge, settle
from ginnacer_verify.rivals.elboher import NetworkAbstraction, network_abstraction
from ginnacer_verify.rivals.fastlin import fastlin
from ginnacer_verify.rivals.interval_query import interval_relational
from ginnacer_verify.rivals.prabhakar import IntervalNetwork, interval_network

Merging = IntervalNetwork | NetworkAbstraction


def verify(
    network: Network,
    prop: Property,
    rival: str,
    *,
    timeout: float = 60.0,
    backend: str | Backend = "highs",
    per_round: int = 8,
    seed: int = 0,
    restarts: int = 24,
    observe: Callable[[Round], None] | None = None,
) -> Verdict:
    """As `cegar.verify`, with the abstraction of a rival: prabhakar, elboher or fastlin."""
    if rival not in {*STARTS, "fastlin"}:
        raise InputError(f"{rival!r} is none of {', '.join(STARTS)}, fastlin")
    solver = get_backend(backend) if isinstance(backend, str) else backend
    settings = Settings(relaxed, split, per_round, restarts, Deadline.after(timeout), observe)
    judge, random = Judge(network, prop), np.random.default_rng(seed)
    run: _Merged | _FastLin
    if rival == "fastlin":
        run = _FastLin(judge, parts(prop), solver, settings, random)
    else:
        run = _Merged(judge, parts(prop), solver, settings, random)
        run.merge = STARTS[rival]
    return replace(run.verdict(), statistics=replace(run.statistics(), engine=f"{rival}, {solver.name}"))


def _interval_start(network: Network, random: np.random.Generator) -> Merging:
    counts = [1] * (len(network.layers) - 1)
    return interval_network(network, counts, seed=int(random.integers(2**32)))


def _copies_start(network: Network, random: np.random.Generator) -> Merging:
    """Elboher et al. call this abstraction to saturation."""
    return network_abstraction(network, [1] * (len(network.layers) - 1), sides="lower")


STARTS: dict[str, Callable[[Network, np.random.Generator], Merging]] = {
    "prabhakar": _interval_start,
    "elboher": _copies_start,
}


def one_output(network: Network, disjunct: Disjunct, box: Box) -> tuple[Network, Array]:
    """A network that is unsafe where its one output is at most 0, up to the error that comes with it.

    Elboher et al. ask for one output: with several rows r it is the sum of all relu(r), which is 0 where all rows are
    unsafe together and positive elsewhere."""
    bounds = interval_bounds(network.layers, box)
    largest = np.maximum(bounds.upper[-2], 0.0) if len(bounds) > 1 else np.maximum(-box.lower, box.upper)
    error = fold_error(network, [disjunct], largest)
    layers = fold_rows(network, [disjunct])
    if len(error) == 1:
        return Network(layers), error
    return Network((*layers, Layer(np.ones((1, len(error))), np.zeros(1)))), error.sum(keepdims=True) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class Merged:
    """A disjunct of a network on a box; what is kept is the abstraction itself, as the only one of a tuple."""

    network: Network
    box: Box
    disjunct: Disjunct
    error: Array

    def query(self, kept: tuple[Any, ...]) -> Query:
        """All unstable ReLUs of the abstraction, exactly."""
        (merging,) = kept
        match merging:
            case NetworkAbstraction():
                network = merging.lower_network(nonnegative=bool((self.box.lower >= 0).all()))
                bounds = linear_bounds(network.layers, self.box)
                relational = Relational.of(
                    network.layers, self.box, bounds, inputs=self.disjunct.inputs, row_error=self.error
                )
            case IntervalNetwork():
                relational = interval_relational(merging, self.box, self.disjunct.inputs, self.error)
            case _:
                raise TypeError(f"{merging!r} is no merging")
        return relational.query(exact(relational))

    def witness(self, z: Array) -> Array:
        """The inputs come first among the variables, those that vary."""
        x, varying = self.box.lower.copy(), list(self.box.varying)
        x[varying] = z[: len(varying)]
        return self.box.clip(x)


class _Merged(Loop[Merged]):
    """Interval Networks or Network Abstractions in the loop."""

    merge: Callable[[Network, np.random.Generator], Merging]

    def part(self, part: Part) -> Verdict:
        """Disjunct by disjunct; bounds of ours prove nothing beforehand."""
        self.boxes += 1
        verdicts: list[Verdict] = []
        for number in part.disjuncts:
            if self.deadline.passed:
                return combine([*verdicts, OUT_OF_TIME])
            disjunct = self.prop.disjuncts[number]
            network, error = one_output(self.network, disjunct, part.box)
            verdict = self.loop(number, Merged(network, part.box, disjunct, error))
            if not isinstance(verdict, Holds | Violated | Undecided):
                raise TypeError(f"a rival's loop ended in {verdict!r}")
            if isinstance(verdict, Violated):
                return verdict
            verdicts.append(verdict)
        return combine(verdicts)

    def start(self, abstracted: Merged) -> tuple[Merging]:
        return (self.merge(abstracted.network, self.random),)

    def refine(self, abstracted: Merged, kept: tuple[Any, ...], answer: Sat) -> tuple[Any, ...]:
        """Half as many again, as in our own loop."""
        (merging,) = kept
        finer = merging.refined(
            abstracted.witness(answer.z), max(self.settings.per_round, sum(merging.relus_per_layer) // 2)
        )
        return kept if finer is merging else (finer,)


class _FastLin(Loop[Merged]):
    """FastLin on boxes: proved, violated at the middle, or halved."""

    def part(self, part: Part) -> Verdict:
        self.boxes += 1
        self.rounds += 1
        left: list[int] = []
        for number in part.disjuncts:
            disjunct = self.prop.disjuncts[number]
            if len(disjunct.inputs):
                return Undecided("FastLin does not know linear input constraints")
            network = Network(fold_rows(self.network, [disjunct]))
            _, error = one_output(self.network, disjunct, part.box)
            linear = fastlin(network, part.box)
            if not (linear.ranges()[0] > error.max()).any():
                left.append(number)
        if not left:
            return Holds()
        judgement = self.judge(settle(part.box.middle, self.prop.disjuncts[left[0]].witnesses, self.network.dtype))
        if isinstance(judgement, Counterexample):
            return Violated(judgement)
        halves = [half.domain for half in linear.halves()]
        if any((half.lower == part.box.lower).all() and (half.upper == part.box.upper).all() for half in halves):
            return Undecided("FastLin cannot tell the network from the unsafe set on a box that cannot be halved")
        self.open += [Part(half, tuple(left)) for half in halves]
        return Holds()
