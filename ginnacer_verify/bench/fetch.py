"""Official benchmark sets from their public repositories, file by file, each compared with its known hash.

A set is a small TOML file: repository, commit and folder, the name of its list, and the SHA-256 of every file. What is
already there and right is not fetched again, so that an interrupted fetch goes on where it was.
"""

import hashlib
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from ginnacer_verify.errors import InputError, plainly

RAW = "https://raw.githubusercontent.com"
LIST = "instances.csv"
PATIENCE = 30.0
"""Seconds to wait for a server."""
TRIES = 3


@dataclass(frozen=True)
class Set:
    """A benchmark set; `hashes` maps file names in the repository's folder to SHA-256."""

    name: str
    title: str
    repository: str
    commit: str
    folder: str
    instances: str
    hashes: dict[str, str]

    def saved_as(self, file: str) -> str:
        return LIST if file == self.instances else file


def known_sets() -> dict[str, Set]:
    """The sets that we have hashes of, by name."""
    folder = files("ginnacer_verify.bench") / "sets"
    names = sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {name: parse_set(name, (folder / f"{name}.toml").read_text()) for name in names}


def read_set(path: Path) -> Set:
    """A set from a file of the user's."""
    try:
        return parse_set(path.stem, path.read_text())
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} cannot be read: {plainly(problem)}") from problem


def parse_set(name: str, text: str) -> Set:
    """A set from its TOML text."""
    try:
        table = tomllib.loads(text)
        hashes = {str(file): str(value) for file, value in table.pop("sha256").items()}
        found = Set(name, hashes=hashes, **{key: str(value) for key, value in table.items()})
    except (tomllib.TOMLDecodeError, AttributeError, KeyError, TypeError) as problem:
        raise InputError(
            f"{name} does not describe a benchmark set ({problem}): "
            "write title, repository, commit, folder, instances and [sha256]"
        ) from problem
    for file in hashes:
        if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
            raise InputError(f"{name}: {file} is outside of the set's folder")
    if found.instances not in hashes:
        raise InputError(f"{name}: {found.instances} has no hash")
    return found


def cache_folder() -> Path:
    """Where sets are kept: `ginnacer-verify` in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ginnacer-verify" / "benchmarks"


def fetch(
    wanted: Set,
    folder: Path,
    *,
    origin: str | None = None,
    observe: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Complete the folder and return how many files had to be fetched; `origin` is a copy of the repository."""
    fetched = 0
    for done, (file, known) in enumerate(wanted.hashes.items()):
        observe(done, len(wanted.hashes))
        target = folder / wanted.saved_as(file)
        if not (target.exists() and _hash(target.read_bytes()) == known):
            _save(_read(wanted, file, origin), known, target)
            fetched += 1
    return fetched


def _save(data: bytes, known: str, target: Path) -> None:
    if _hash(data) != known:
        raise InputError(f"{target.name} is not what it should be (its SHA-256 is {_hash(data)}): fetch it again later")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.part")
    draft.write_bytes(data)
    draft.replace(target)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(wanted: Set, file: str, origin: str | None) -> bytes:
    """The file from the copy or from the public repository; a server is asked up to three times."""
    if origin and "://" not in origin:
        path = Path(origin) / wanted.folder / file
        try:
            return path.read_bytes()
        except OSError as problem:
            raise InputError(f"{path}: {problem.strerror}; --from names a copy of {wanted.repository}") from problem
    address = f"{origin or f'{RAW}/{wanted.repository}/{wanted.commit}'}/{wanted.folder}/{quote(file)}"
    for attempt in range(1, TRIES + 1):
        try:
            with urlopen(address, timeout=PATIENCE) as reply:
                return bytes(reply.read())
        except (OSError, ValueError) as problem:
            final = isinstance(problem, HTTPError) and problem.code < 500
            if final or attempt == TRIES:
                raise InputError(_advice(wanted, address, problem)) from problem
    raise AssertionError("the last try returns or raises")


def _advice(wanted: Set, address: str, problem: Exception) -> str:
    return (
        f"{address} cannot be fetched ({problem}): where there is a network, run "
        f"`git clone https://github.com/{wanted.repository}` and check out {wanted.commit[:10]}; "
        f"then, here, `ginnacer bench fetch {wanted.name} --from FOLDER`"
    )
