"""Instance lists in the layout of VNN-COMP: `instances.csv`, `expected.csv` beside it, and parts of a list."""

import ast
import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ginnacer_verify.errors import InputError, plainly

DECIDED = ("sat", "unsat")
TIMEOUT = 60.0
"""Seconds for a line that gives no timeout."""
Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True)
class Instance:
    """One line of a list. Paths are as they are written there, relative to `folder`; `category` is its name."""

    category: str
    network: str
    prop: str
    timeout: float
    folder: Path
    expected: str = ""

    @property
    def key(self) -> Key:
        """Whole paths, not file names: the same property file name is used with many networks."""
        return self.category, self.network, self.prop

    @property
    def network_files(self) -> dict[str, Path]:
        """The networks by name; a plain path has none."""
        return {name: found(self.folder / file) for name, file in networks(self.network)}

    @property
    def property_file(self) -> Path:
        return found(self.folder / self.prop)


def found(path: Path) -> Path:
    """The file, or the same compressed with gzip: the competition ships them so."""
    packed = path.with_name(path.name + ".gz")
    return packed if packed.exists() and not path.exists() else path


def networks(text: str) -> list[tuple[str, str]]:
    """Names and files of the networks: a plain path has no name, a list is written as [('f', 'a.onnx'), ...]."""
    if not text.lstrip().startswith("["):
        return [("", text)]
    try:
        pairs = [(name, file) for name, file in ast.literal_eval(text.strip())]
    except (ValueError, SyntaxError, TypeError) as problem:
        raise InputError(
            f"{text} is not a list of networks: write it as [('f', 'a.onnx'), ('g', 'b.onnx')]"
        ) from problem
    if not pairs or not all(isinstance(word, str) for pair in pairs for word in pair):
        raise InputError(f"{text} is not a list of networks: write it as [('f', 'a.onnx'), ('g', 'b.onnx')]")
    return pairs


def read_instances(path: Path, *, timeout: float | None = None, expected: Path | None = None) -> list[Instance]:
    """The lines of a list, each once; `timeout` replaces theirs."""
    category = path.resolve().parent.name
    verdicts = read_expected(expected or path.with_name("expected.csv"), needed=expected is not None)
    instances: dict[Key, Instance] = {}
    for number, (network, prop, seconds) in enumerate(_lines(path), 1):
        place = f"{path}, line {number}"
        limit = timeout if timeout is not None else _seconds(seconds, place)
        instance = Instance(category, network, prop, limit, path.parent, verdicts.get((network, prop), ""))
        _check_files(instance, place)
        instances.setdefault(instance.key, instance)
    if not instances:
        raise InputError(f"{path} has no instances: each line is network,property,timeout")
    return list(instances.values())


def read_expected(path: Path, *, needed: bool = False) -> dict[tuple[str, str], str]:
    """Network and property to `sat` or `unsat`; other words are no knowledge."""
    if not (needed or path.exists()):
        return {}
    verdicts = {(row[0], row[1]): row[2].strip() for row in _rows(path) if len(row) >= 3}
    known = {pair: verdict for pair, verdict in verdicts.items() if verdict in DECIDED}
    if needed and not known:
        raise InputError(f"{path} knows no verdict: each line is network,property,sat or network,property,unsat")
    return known


def select(
    instances: Sequence[Instance], *, every: int = 1, shard: tuple[int, int] = (1, 1), first: int | None = None
) -> list[Instance]:
    """Every so many-th line beginning with the first, of these the i-th of n equal shares, of these the first few."""
    part, parts = shard
    return list(instances[::every][part - 1 :: parts][:first])


def _lines(path: Path) -> list[tuple[str, str, str]]:
    lines = []
    for number, row in enumerate(_rows(path), 1):
        if not 2 <= len(row) <= 3:
            raise InputError(f"{path}, line {number}: write network,property,timeout")
        network, prop, seconds = (*row, "")[:3]
        lines.append((network.strip(), prop.strip(), seconds.strip()))
    return lines


def _rows(path: Path) -> list[list[str]]:
    try:
        lines = [line for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} cannot be read: {plainly(problem)}") from problem
    # A list of networks has commas of its own, and its quotes are Python's.
    return [line.rsplit(",", 2) if line.startswith("[") else next(csv.reader([line])) for line in lines]


def _seconds(text: str, place: str) -> float:
    try:
        value = float(text or TIMEOUT)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{place}: the time limit must be a number of seconds above 0, not {text!r}")
    return value


def _check_files(instance: Instance, place: str) -> None:
    names = [file for _, file in networks(instance.network)] + [instance.prop]
    for name in names:
        if not found(instance.folder / name).exists():
            raise InputError(f"{place}: {name} is not in {instance.folder}")
