"""What an experiment consists of; the experiments are the modules that `NAMES` lists."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ginnacer_verify.errors import InputError
from ginnacer_verify.lab.cells import Cell, Row, module_of
from ginnacer_verify.lab.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = (
    "motivating",
    "margins",
    "abstraction-time",
    "inference-time",
    "compression",
    "tradeoff",
    "frontier",
    "refinement",
    "sharing",
    "limit",
)
"""Each is a module of `ginnacer_verify.lab` with `EXPERIMENT` and `measure(setting, **parameters)`."""


@dataclass(frozen=True)
class Table:
    """Cells of text under a title; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Experiment:
    """`figures` and `tables` are made from the rows of all cells that succeeded. `alone`: cells are timed, so nothing
    of ours runs beside them."""

    name: str
    title: str
    paper: str
    text: str
    cells: Callable[[Setting], list[Cell]]
    figures: Callable[[Sequence[Row]], dict[str, "Figure"]]
    tables: Callable[[Sequence[Row]], list[Table]]
    alone: bool = False


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in NAMES:
        raise InputError(f"there is no experiment {name!r}; choose one of {', '.join(NAMES)} or all")
    return cast(Experiment, module_of(name).EXPERIMENT)


def groups(rows: Sequence[Row], *columns: str) -> dict[tuple[str, ...], list[Row]]:
    """The rows by their values in some columns, in the order of their first appearance."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(str(row[column]) for column in columns), []).append(row)
    return found
