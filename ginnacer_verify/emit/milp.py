"""A Query as a linear program with units to branch on, as a mixed-integer one, and as an MPS file.

Columns: z, then y per unstable ReLU, then `excess` (the largest of the unsafe rows, to be minimised: at most 0 is a
solution), then for each kept subset its own columns. Programs come in blocks that can be added to a living model; a
block only mentions columns of itself and of the blocks before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ginnacer_verify.arrays import Array
from ginnacer_verify.emit.scaling import power_of_two
from ginnacer_verify.query.query import Base, Query, Shared
from ginnacer_verify.rounding import gamma


@dataclass(frozen=True, eq=False)
class Block:
    """New columns and new rows of a program: `row_lower <= rows @ columns <= row_upper`."""

    lower: Array
    upper: Array
    integer: NDArray[np.bool_]
    rows: csr_array
    row_lower: Array
    row_upper: Array


@dataclass
class _Rows:
    """Rows in the making, entry by entry."""

    columns: list[NDArray[np.intp]] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def add(self, entries: Sequence[tuple[ArrayLike, ArrayLike]], lower: float, upper: float) -> None:
        """One row from (columns, coefficients) pairs; zeros are left out."""
        columns = np.concatenate([np.atleast_1d(np.asarray(where, dtype=np.intp)) for where, _ in entries])
        values = np.concatenate([np.atleast_1d(np.asarray(value, dtype=np.float64)) for _, value in entries])
        used = values != 0
        self.columns.append(columns[used])
        self.values.append(values[used])
        self.lower.append(lower)
        self.upper.append(upper)

    def upper_line(self, before: int, after: int, lower: float, upper: float, slack: float) -> None:
        """after <= upper * (before - lower) / (upper - lower), the upper side of the triangle."""
        slope = upper / (upper - lower)
        self.add([(after, 1.0), (before, -slope)], -np.inf, slack - slope * lower)

    def block(self, width: int, lower: ArrayLike, upper: ArrayLike, integer: ArrayLike) -> Block:
        starts = np.cumsum([0] + [len(columns) for columns in self.columns])
        indices = np.concatenate([*self.columns, np.zeros(0, dtype=np.intp)])
        values = np.concatenate([*self.values, np.zeros(0)])
        return Block(
            np.asarray(lower, dtype=np.float64),
            np.asarray(upper, dtype=np.float64),
            np.asarray(integer, dtype=np.bool_),
            csr_array((values, indices, starts), shape=(len(self.lower), width)),
            np.array(self.lower),
            np.array(self.upper),
        )


@dataclass(frozen=True)
class Unit:
    """A ReLU of the program, from column `before` to column `after`, whose phase a solver may decide.

    `difference` is the row `after - before`: free above until the unit is known to be active."""

    before: int
    after: int
    difference: int
    lower: float
    upper: float
    slack: float


def excess_column(base: Base) -> int:
    """The column to be minimised."""
    return base.size + len(base.relus)


def base_block(base: Base) -> Block:
    """Everything relaxed: the triangles, the property and the input constraints.

    The rows of unstable ReLU i are 3i (its y), 3i + 1 (`x' - y`) and 3i + 2 (its upper line)."""
    relus, rows = base.relus, _Rows()
    z, width = np.arange(base.size), excess_column(base) + 1
    for i in range(len(relus)):
        x, y = base.free + i, base.size + i
        rows.add([(z, -relus.weight[i]), (y, 1.0)], relus.bias[i], relus.bias[i])
        rows.add([(x, 1.0), (y, -1.0)], -relus.slack[i], np.inf)
        rows.upper_line(y, x, relus.lower[i], relus.upper[i], relus.slack[i])
    for row, offset in zip(base.unsafe.matrix, base.unsafe.offset, strict=True):
        rows.add([(z, row), (width - 1, -1.0)], -np.inf, offset)
    for row, offset in zip(base.inputs.matrix, base.inputs.offset, strict=True):
        rows.add([(z, row)], -np.inf, offset)
    least, most = excess_range(base)
    return rows.block(
        width,
        np.concatenate([base.lower, relus.lower - relus.slack, [least]]),
        np.concatenate([base.upper, relus.upper + relus.slack, [most]]),
        np.zeros(width, dtype=np.bool_),
    )


def excess_range(base: Base) -> tuple[float, float]:
    """An interval around all values that the unsafe rows can take, so that the program is bounded."""
    ends = base.unsafe.matrix * base.lower, base.unsafe.matrix * base.upper
    least = np.minimum(*ends).sum(axis=1) - base.unsafe.offset
    most = np.maximum(*ends).sum(axis=1) - base.unsafe.offset
    return float(2 * least.min(initial=0.0) - 1.0), float(2 * most.max(initial=0.0) + 1.0)


def kept_unit(base: Base, shared: Shared, columns: int, rows: int) -> tuple[Block, Unit]:
    """A kept subset's ReLU and what it adds to a program of so many columns and rows: nothing for a singleton."""
    if shared.is_singleton:
        (i,), relus = shared.members, base.relus
        ends = float(relus.lower[i]), float(relus.upper[i]), float(relus.slack[i])
        return _Rows().block(columns, [], [], []), Unit(base.size + i, base.free + i, 3 * i + 1, *ends)
    slack = float(base.relus.slack[list(shared.members)].max())
    return _subset(base, shared, columns, slack), Unit(
        columns, columns + 1, rows + 1, shared.lower - slack, shared.upper + slack, slack
    )


def _subset(base: Base, shared: Shared, first: int, slack: float) -> Block:
    """rhat and s, at most rhat's upper line; and x' <= active * y + s for every member."""
    rows, rhat, s = _Rows(), first, first + 1
    rows.add([(np.arange(base.size), -shared.weight), (rhat, 1.0)], shared.bias, shared.bias)
    rows.add([(s, 1.0), (rhat, -1.0)], -np.inf, np.inf)
    if shared.lower < 0 < shared.upper:
        rows.upper_line(rhat, s, shared.lower, shared.upper, slack)
    elif shared.lower >= 0:
        rows.add([(s, 1.0), (rhat, -1.0)], -np.inf, slack)
    for i, active in zip(shared.members, shared.active, strict=True):
        entries: list[tuple[ArrayLike, ArrayLike]] = [(base.free + i, 1.0), (s, -1.0)]
        rows.add(entries + ([(base.size + i, -1.0)] if active else []), -np.inf, base.relus.slack[i])
    lower, upper = [shared.lower - slack, 0.0], [shared.upper + slack, max(shared.upper, 0.0) + slack]
    return rows.block(first + 2, lower, upper, [False, False])


def phase_block(unit: Unit, first: int) -> Block:
    """A binary that says whether the unit is active: after <= upper * phase, after <= before - lower * (1 - phase)."""
    rows = _Rows()
    rows.add([(unit.after, 1.0), (first, -unit.upper)], -np.inf, unit.slack)
    rows.add([(unit.after, 1.0), (unit.before, -1.0), (first, -unit.lower)], -np.inf, unit.slack - unit.lower)
    return rows.block(first + 1, [0.0], [1.0], [True])


def milp_blocks(query: Query) -> Iterator[Block]:
    """The whole program with a binary per unstable unit; a solution has an excess of at most 0."""
    base = query.base
    first = base_block(base)
    first.upper[excess_column(base)] = 0.0
    yield first
    columns, rows = len(first.lower), len(first.row_lower)
    for shared in query.kept:
        block, unit = kept_unit(base, shared, columns, rows)
        parts = [block, phase_block(unit, columns + len(block.lower))] if unit.lower < 0 < unit.upper else [block]
        yield from parts
        columns += sum(len(part.lower) for part in parts)
        rows += sum(len(part.row_lower) for part in parts)


@dataclass(frozen=True, eq=False)
class Units:
    """Inputs in units in which none is narrower than one half: `x = shift + scale * x'`.

    Solvers take a column for fixed whose range is below their absolute tolerance; weights may be large enough for it to
    matter. Wide columns stay as they are."""

    shift: Array
    scale: Array

    @classmethod
    def of(cls, base: Base) -> "Units":
        width = base.box.upper - base.box.lower
        narrow = width < 1
        return cls(np.where(narrow, base.box.lower, 0.0), np.where(narrow, power_of_two(width), 1.0))

    def inputs(self, values: Array) -> Array:
        """The inputs themselves, for the first columns of a solution in these units."""
        return self.shift + self.scale * values[: len(self.shift)]

    def blocks(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Blocks of a program in these units; the ends of rows are moved outwards by the rounding of that."""
        shift, scale = self.shift, self.scale
        for block in blocks:
            new = block.rows.shape[1] - len(shift)
            shift, scale = np.append(shift, np.zeros(new)), np.append(scale, np.ones(new))
            own = slice(len(shift) - len(block.lower), None)
            rows = csr_array(block.rows * scale[None, :])
            moved, size = block.rows @ shift, abs(block.rows) @ np.abs(shift)
            ends = block.row_lower - moved, block.row_upper - moved
            off = [gamma(len(shift) + 4) * (size + np.where(np.isfinite(end), np.abs(end), 0.0)) for end in ends]
            yield replace(
                block,
                lower=(block.lower - shift[own]) / scale[own],
                upper=(block.upper - shift[own]) / scale[own] * np.where(scale[own] == 1, 1.0, 1 + 1e-15),
                rows=rows,
                row_lower=ends[0] - off[0],
                row_upper=ends[1] + off[1],
            )


def without_small(blocks: Iterable[Block], smallest: float) -> Iterator[Block]:
    """The blocks without coefficients up to `smallest`, which solvers take for zeros.

    What these can add to a row moves its ends outwards, so that no solution is lost."""
    largest = np.zeros(0)
    for block in blocks:
        largest = np.append(largest, np.maximum(np.abs(block.lower), np.abs(block.upper)))
        rows, small = block.rows, np.abs(block.rows.data) <= smallest
        lost = np.where(small, np.abs(rows.data) * largest[rows.indices], 0.0)
        moved = csr_array((lost, rows.indices, rows.indptr), rows.shape).sum(axis=1)
        kept = csr_array((np.where(small, 0.0, rows.data), rows.indices, rows.indptr), rows.shape, copy=True)
        kept.eliminate_zeros()
        yield replace(block, rows=kept, row_lower=block.row_lower - moved, row_upper=block.row_upper + moved)


def to_mps(query: Query, name: str = "ginnacer") -> str:
    """The program in free MPS, which every MILP solver reads."""
    parts = list(milp_blocks(query))
    lower, upper = (np.concatenate([getattr(part, end) for part in parts]) for end in ("lower", "upper"))
    integer = np.concatenate([part.integer for part in parts])
    row_ends = [ends for part in parts for ends in zip(part.row_lower, part.row_upper, strict=True)]
    rows = _stacked(parts, len(lower)).tocsc()
    text = [f"NAME {name}", "ROWS", " N cost"]
    text += [f" {_sense(*ends)} r{number}" for number, ends in enumerate(row_ends)]
    text.append("COLUMNS")
    for column in range(len(lower)):
        if column == excess_column(query.base):
            text.append(f" c{column} cost 1")
        span = slice(rows.indptr[column], rows.indptr[column + 1])
        text += [
            f" c{column} r{row} {value!r}"
            for row, value in zip(rows.indices[span], rows.data[span].tolist(), strict=True)
        ]
    text.append("RHS")
    text += [f" rhs r{n} {float(low if np.isfinite(low) else high)!r}" for n, (low, high) in enumerate(row_ends)]
    text.append("BOUNDS")
    for column in range(len(lower)):
        text += [f" LO b c{column} {float(lower[column])!r}", f" UP b c{column} {float(upper[column])!r}"]
        if integer[column]:
            text[-2:] = [f" BV b c{column}"]
    return "\n".join([*text, "ENDATA", ""])


def _sense(lower: float, upper: float) -> str:
    if lower == upper:
        return "E"
    return "G" if np.isfinite(lower) else "L"


def _stacked(parts: Sequence[Block], width: int) -> csr_array:
    from scipy.sparse import vstack

    return csr_array(
        vstack([csr_array((p.rows.data, p.rows.indices, p.rows.indptr), (p.rows.shape[0], width)) for p in parts])
    )
