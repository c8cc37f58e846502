"""One property on the workers of a Dask scheduler: what an engine leaves open are the next tasks.

A task is a few regions, boxes with the disjuncts that are open on them, and a slice of time. It comes back with a
counterexample, with nothing, or with the regions that are still open; those that no engine divides are halved. A worker
that is lost takes no result with it: Dask gives its task to another one. Every counterexample is replayed here again.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.bench.cluster import connect, wait_for_a_worker
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import REACHED, Deadline
from ginnacer_verify.engines.budget import RESTARTS, Budget
from ginnacer_verify.engines.choice import choose
from ginnacer_verify.engines.parts import parts
from ginnacer_verify.engines.problem import Problem
from ginnacer_verify.engines.progress import Moment, Observer, Progress
from ginnacer_verify.engines.run import Run
from ginnacer_verify.engines.search import run_of
from ginnacer_verify.engines.verdict import Holds, Statistics, Undecided, Verdict, Violated
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError
from ginnacer_verify.loading.model import Model
from ginnacer_verify.properties.property import Property
from ginnacer_verify.replay.judge import Counterexample, Judge

FIRST, SLICE = 2.0, 4.0
"""Seconds that are spent here before anybody else is asked, and that a task may take."""
EACH = 3
"""So many tasks per thread of a worker are wanted, so that nobody waits."""
MOST = 256
"""Regions of one task."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A box inside of a disjunct's, and the numbers of the disjuncts that are open on it."""

    lower: Array
    upper: Array
    disjuncts: tuple[int, ...]

    def halves(self, whole: Array) -> "tuple[Piece, ...]":
        """Halved where it is widest, measured by the whole; nothing if no number lies between its ends."""
        wide = np.nextafter(self.lower, np.inf) < self.upper
        share = np.where(wide & (whole > 0), (self.upper - self.lower) / np.maximum(whole, 1e-300), -1.0)
        j = int(share.argmax())
        if not share[j] > 0:
            return ()
        left, right = self.upper.copy(), self.lower.copy()
        left[j] = right[j] = self.lower[j] + (self.upper[j] / 2 - self.lower[j] / 2)
        return replace(self, upper=left), replace(self, lower=right)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a task found: an unsafe input, or the pieces that are still open; `whole` if nothing divided them."""

    unsafe: Array | None
    open: tuple[Piece, ...]
    whole: bool
    boxes: int


class _Stopped(Exception):
    """Nobody waits for this task any more."""


def verify_on_cluster(
    networks: Mapping[str, Model],
    prop: Property,
    address: str,
    deadline: Deadline,
    *,
    engine: str = "auto",
    seed: int = 0,
    restarts: int = RESTARTS,
    observe: Observer | None = None,
) -> Verdict:
    """Decide a property on the workers of the scheduler at an address."""
    first = min(FIRST, deadline.left / 4)
    verdict = verify(networks, prop, timeout=first, engine=engine, seed=seed, restarts=restarts)
    if not isinstance(verdict, Undecided):
        return verdict
    client = connect(address)
    try:
        wait_for_a_worker(client, address)
        return _Spread(client, networks, prop, deadline, engine, restarts, observe).verdict()
    finally:
        client.close()  # the scheduler forgets what nobody waits for, and the workers see that


class _Spread:
    """The pieces that are open: waiting here, or on their way."""

    def __init__(
        self,
        client: Any,
        networks: Mapping[str, Model],
        prop: Property,
        deadline: Deadline,
        engine: str,
        restarts: int,
        observe: Observer | None,
    ) -> None:
        self.client, self.prop, self.deadline, self.observe = client, prop, deadline, observe
        self.settings = (engine, restarts)
        self.judge = Judge(Problem.of(networks, prop, deadline).whole, prop)
        self.given = pickle.dumps(
            (dict(networks), prop)
        )  # goes with every task: what is lost with a worker is not this
        self.waiting = [Piece(part.box.lower, part.box.upper, part.disjuncts) for part in parts(prop)]
        self.way: dict[Any, list[Piece]] = {}
        self.boxes = self.tasks = 0
        self.stuck: list[Piece] = []

    def verdict(self) -> Verdict:
        from distributed import as_completed

        coming = as_completed()
        while self.waiting or self.way:
            for future in self._submit():
                coming.add(future)
            try:
                future = next(iter(_until(coming, self.deadline)))
            except (StopIteration, TimeoutError):
                return Undecided(REACHED, timeout=True, statistics=self._numbers())
            if found := self._take(future):
                return Violated(found, self._numbers())
            if self.observe:
                self.observe(self._progress())
            if self.deadline.passed and (self.waiting or self.way):
                return Undecided(REACHED, timeout=True, statistics=self._numbers())
        if self.stuck:
            return Undecided("some boxes stay open that cannot be halved", statistics=self._numbers())
        return Holds((), self._numbers())

    def _submit(self) -> Iterator[Any]:
        """Tasks for everybody, made of what waits; halves where there is too little of it."""
        wanted = EACH * max(1, sum(self.client.nthreads().values())) - len(self.way)
        while self.waiting and len(self.waiting) < wanted:
            halved = [self._halved(piece) for piece in self.waiting]
            self.waiting = [half for halves in halved for half in halves]
        size = min(MOST, -(-len(self.waiting) // max(1, wanted)))
        while wanted > 0 and self.waiting:
            pieces, self.waiting = self.waiting[:size], self.waiting[size:]
            seconds = min(SLICE, self.deadline.left)
            self.tasks, wanted = self.tasks + 1, wanted - 1
            future = self.client.submit(explore, self.given, pieces, *self.settings, seconds, self.tasks, pure=False)
            self.way[future] = pieces
            yield future

    def _halved(self, piece: Piece) -> tuple[Piece, ...]:
        halves = piece.halves(self.prop.disjuncts[piece.disjuncts[0]].box.width)
        if not halves:
            self.stuck.append(piece)
        return halves

    def _take(self, future: Any) -> Counterexample | None:
        """What a task found; the pieces of one at which workers were lost are halved."""
        pieces = self.way.pop(future)
        if future.status == "cancelled":
            if self.client.status != "running":
                raise InputError("the Dask scheduler has gone: start it, and run the same command again")
            self.waiting += pieces
            return None
        problem = future.exception()
        if problem is not None:
            if type(problem).__name__ != "KilledWorker":
                raise InputError(f"a worker could not run a task ({problem}): is the same version installed there?")
            self.waiting += [half for piece in pieces for half in self._halved(piece)]
            return None
        answer: Answer = future.result()
        self.boxes += answer.boxes
        if answer.unsafe is not None:
            judgement = self.judge(answer.unsafe)
            if isinstance(judgement, Counterexample):
                return judgement
        opened = [self._halved(piece) for piece in answer.open] if answer.whole else [(one,) for one in answer.open]
        self.waiting = [half for halves in opened for half in halves] + self.waiting
        return None

    def _numbers(self) -> Statistics:
        disjuncts = len(self.prop.disjuncts)
        return Statistics(
            seconds=self.deadline.spent,
            engine="dask",
            boxes=self.boxes,
            total=self.judge.graph.relus,
            parts=disjuncts,
            proved=disjuncts - len(self._open),
        )

    @property
    def _open(self) -> set[int]:
        pieces = [*self.waiting, *self.stuck, *(piece for some in self.way.values() for piece in some)]
        return {number for piece in pieces for number in piece.disjuncts}

    def _progress(self) -> Progress:
        count = len(self.waiting) + sum(map(len, self.way.values()))
        return Progress("dask", self.boxes, count, 0, len(self._open), self.deadline.left, "on a cluster")


def _until(coming: Any, deadline: Deadline) -> Iterator[Any]:
    """The next future that is done, or TimeoutError."""
    coming.timeout = deadline.left + SLICE
    yield from coming


@lru_cache(maxsize=2)
def _read(given: bytes) -> tuple[Mapping[str, Model], Property]:
    """The networks and the property, once per worker."""
    found: tuple[Mapping[str, Model], Property] = pickle.loads(given)
    return found


def explore(
    given: bytes,
    pieces: Sequence[Piece],
    engine: str,
    restarts: int,
    seconds: float,
    seed: int,
) -> Answer:
    """On a worker: what an engine makes of some pieces in some seconds."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def told(moment: Moment) -> None:
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            raise _Stopped

    networks, whole = _read(given)
    deadline = Deadline.after(seconds)
    numbers = [number for piece in pieces for number in piece.disjuncts]
    prop = replace(
        whole, disjuncts=tuple(_within(whole, piece, number) for piece in pieces for number in piece.disjuncts)
    )
    problem = Problem.of(networks, prop, Deadline.after(10 * SLICE), engine=engine)
    chosen = choose(problem.network, prop, engine).engine
    if chosen == "cegar":
        chosen = "regions"
    judge = problem.judge(chosen)
    budget = Budget(deadline, 1, seed, restarts, told)
    run: Run = run_of(chosen, judge, problem.on_graph(chosen))(judge, budget)
    try:
        outcome = run.run()
    except _Stopped:
        return Answer(None, (), False, 0)
    boxes = run.progress().boxes
    match outcome:
        case None:
            return Answer(None, (), False, boxes)
        case Counterexample():
            return Answer(np.asarray(outcome.x), (), False, boxes)
    if chosen != "boxes" or outcome != REACHED:
        return Answer(None, tuple(pieces), True, boxes)
    left = tuple(
        Piece(part.box.lower, part.box.upper, tuple(sorted({numbers[k] for k in part.disjuncts})))
        for part in run.remaining
    )
    return Answer(None, left, False, boxes)


def _within(prop: Property, piece: Piece, number: int) -> Any:
    """A disjunct on a piece of its box."""
    disjunct = prop.disjuncts[number]
    inner = disjunct.inner
    if inner is not None:
        inner = Box(np.maximum(inner.lower, piece.lower), np.minimum(inner.upper, piece.upper))
    return replace(disjunct, box=Box(piece.lower, piece.upper), inner=inner)
