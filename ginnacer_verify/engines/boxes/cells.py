"""Boxes on a tape: what the compiled engine for graphs is given, and the search that halves what it leaves open.

Boxes of parts that vary the same inputs and whose disjuncts are made alike share a tape; they differ in its constants
and in the rows of the property.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import intervals
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.problem import Integers
from ginnacer_verify.engines.boxes.rows import Rows
from ginnacer_verify.engines.boxes.search import Frontier, Halvable
from ginnacer_verify.engines.boxes.tape import Flat, flat_of
from ginnacer_verify.engines.parts import Part
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.native import Cells, Record, Tape, call
from ginnacer_verify.properties.property import Polytope

ABREAST = 8
"""Boxes that the kernel bounds side by side."""
BATCH = 512
"""Boxes of one step; they are taken from the end of the frontier, so that it stays small."""
MOST_DISJUNCTS = 62
"""Disjuncts of a box that are searched together: one bit each."""
MOST_OWNERS, MOST_CONSTANTS = 256, 20_000_000
"""Parts that share a tape, and constants that they have all together."""
WORST = 4
"""Boxes per step that are shown to the judge."""


@dataclass(frozen=True, eq=False)
class OpenCells(Halvable):
    """Boxes over the varying inputs of their parts, with a bit for each disjunct that is open."""

    open: Integers


@dataclass(frozen=True, eq=False)
class Task:
    """Parts on one tape. `parts[owner]` has at most MOST_DISJUNCTS disjuncts."""

    parts: Sequence[Part]
    varying: tuple[int, ...]
    tape: Record

    def whole(self, x: Array, owner: int) -> Array:
        """The inputs of the network for values of the varying ones."""
        point = self.parts[owner].box.lower.copy()
        point[list(self.varying)] = x
        return point

    @property
    def start(self) -> OpenCells:
        """The whole boxes, with every disjunct open."""
        at = list(self.varying)
        lower, upper = (np.array([getattr(part.box, end)[at] for part in self.parts]) for end in ("lower", "upper"))
        every = [(1 << len(part.disjuncts)) - 1 for part in self.parts]
        return OpenCells(np.arange(len(self.parts)), lower, upper, np.array(every, dtype=np.int64))


def tasks(graph: Graph, unsafe: Sequence[Polytope], parts: Sequence[Part]) -> Iterator[Task]:
    """All parts, some at a time, made when they are asked for; every one of them varies an input."""
    pieces = [
        Part(part.box, part.disjuncts[i : i + MOST_DISJUNCTS])
        for part in parts
        for i in range(0, len(part.disjuncts), MOST_DISJUNCTS)
    ]
    flats: dict[tuple[int, ...], Flat] = {}
    rows = {id(part): Rows.of([unsafe[number] for number in part.disjuncts]) for part in pieces}

    def kind(part: Part) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        return tuple(part.box.varying), tuple(tuple(own.tolist()) for own in rows[id(part)].members)

    for (varying, _), members in groupby(sorted(pieces, key=kind), kind):
        if varying not in flats:
            flats[varying] = flat_of(graph, varying)
        flat, own = flats[varying], list(members)
        most = max(1, min(MOST_OWNERS, MOST_CONSTANTS // flat.length))
        for first in range(0, len(own), most):
            chosen = own[first : first + most]
            yield _task(graph, chosen, [rows[id(part)] for part in chosen], varying, flat)


def _task(graph: Graph, parts: Sequence[Part], rows: Sequence[Rows], varying: tuple[int, ...], flat: Flat) -> Task:
    lower, upper = (np.array([getattr(part.box, end) for part in parts]) for end in ("lower", "upper"))
    known = intervals(graph, lower, upper)
    constants, slacks = np.zeros((2, len(parts), flat.length))
    for one in flat.constants:
        constants[:, one.values], slacks[:, one.values] = one.on(known)
    alike = len(parts) == 1 or not any(one.before for one in flat.constants)
    largest = known.largest(len(graph.nodes) - 1)
    offsets = np.array([own.charged(values) for own, values in zip(rows, largest, strict=True)])
    members = rows[0].members
    starts, blocks, firsts, lasts = flat.touches
    tape = Tape(
        inputs=len(varying),
        length=flat.length,
        blocks=len(flat.kinds),
        outputs=len(flat.output),
        rows=len(rows[0]),
        disjuncts=len(members),
        stride=0 if alike else flat.length,
        spread=flat.spread,
        roundings=flat.roundings,
        kinds=flat.kinds,
        starts=flat.starts,
        entries=flat.entries,
        columns=flat.columns,
        weights=flat.weights,
        bends=flat.bends,
        wanted=flat.wanted,
        touches=starts,
        touched_block=blocks,
        touched_from=firsts,
        touched_to=lasts,
        constants=np.ascontiguousarray(constants[:1] if alike else constants),
        slacks=np.ascontiguousarray(slacks[:1] if alike else slacks),
        output=flat.output,
        output_block=flat.block[flat.output],
        row_weights=np.array([own.matrix for own in rows]),
        offsets=offsets,
        first_members=np.cumsum([0, *map(len, members)]).astype(np.int64),
        members=np.concatenate([np.zeros(0, np.int64), *members]).astype(np.int64),
    )
    return Task(parts, varying, tape)


@dataclass(frozen=True, eq=False)
class Nearest:
    """Open boxes that come nearest to being unsafe: the inputs where their bounds are attained and their middles."""

    owner: Integers
    points: Array
    middles: Array
    worst: Integers


class CellSearch:
    """The boxes of one task that are still open. Call `step` until `done`, or as long as there is time."""

    def __init__(self, task: Task, threads: int) -> None:
        self.task = task
        self.frontier = Frontier(task.start)
        self.boxes = self.unstable = 0
        self.stuck: list[OpenCells] = []
        values = task.tape.values
        self.spaces = [
            np.empty(call("cells_room", *(values[name] for name in ("inputs", "length", "blocks", "rows"))))
            for _ in range(threads)
        ]

    @property
    def done(self) -> bool:
        """Whether no box is left to be halved."""
        return not len(self.frontier)

    @property
    def left(self) -> Iterator[tuple[int, Array, Array, list[int]]]:
        """The boxes that are open: the part, the ends, and which of its disjuncts."""
        for cells in (*self.frontier, *self.stuck):
            for owner, low, high, bits in zip(cells.owner, cells.low, cells.high, cells.open, strict=True):
                yield int(owner), low, high, [d for d in range(MOST_DISJUNCTS) if int(bits) >> d & 1]

    @property
    def open_disjuncts(self) -> set[tuple[int, int]]:
        """The disjuncts with open boxes: of which part, and their numbers there."""
        bits: dict[int, int] = {}
        for cells in (*self.frontier, *self.stuck):
            for owner, some in zip(cells.owner.tolist(), cells.open.tolist(), strict=True):
                bits[owner] = bits.get(owner, 0) | some
        return {(owner, d) for owner, some in bits.items() for d in range(MOST_DISJUNCTS) if some >> d & 1}

    def step(self, pool: ThreadPoolExecutor, deadline: Deadline) -> Nearest:
        """Bound one batch. Boxes that the deadline leaves no time for stay open."""
        batch = self.frontier.take(BATCH)
        found = self._bound(batch, pool, deadline)
        self.boxes += batch.size
        self.unstable = max(self.unstable, int(found["unstable"].max()))
        still = np.flatnonzero(batch.open)
        order = still[np.argsort(-found["bounds"][still], kind="stable")]
        wide = (np.nextafter(batch.low[order], np.inf) < batch.high[order]).any(axis=1)
        if not wide.all():
            self.stuck.append(batch.part(order[~wide]))
        if wide.any():
            self.frontier.add(batch.halved(order[wide], found["splits"]))
        worst = order[: -WORST - 1 : -1]
        low, high = batch.low[worst], batch.high[worst]
        return Nearest(batch.owner[worst], found["points"][worst], low + (high / 2 - low / 2), found["worst"][worst])

    def _bound(self, batch: OpenCells, pool: ThreadPoolExecutor, deadline: Deadline) -> dict[str, Any]:
        count = batch.size
        splits, worst, unstable = np.zeros((3, count), dtype=np.int64)
        cells = Cells(
            owner=batch.owner,
            low=batch.low,
            high=batch.high,
            points=batch.low.copy(),
            bounds=np.full(count, -np.inf),
            open=batch.open,
            splits=splits,
            worst=worst,
            unstable=unstable,
        )
        firsts = list(range(0, count, ABREAST))[::-1]

        def work(thread: int) -> None:
            while not deadline.passed:
                try:
                    first = firsts.pop()
                except IndexError:
                    break
                call("bound_cells", self.task.tape, cells, first, min(first + ABREAST, count), self.spaces[thread])

        threads = range(min(len(self.spaces), len(firsts)))
        list(pool.map(work, threads) if len(threads) > 1 else map(work, threads))
        return cells.values
