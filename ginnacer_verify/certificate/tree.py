"""The tree of a proof on its way to a file: records, parents first, compressed as docs/certificate.md says."""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from ginnacer_check import proof
from ginnacer_verify.arrays import Array


class Tree:
    """Nodes by number: each is a record, and the numbers of its children once it has some."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.children: list[tuple[int, ...]] = []

    def new(self) -> int:
        self.records.append(b"")
        self.children.append(())
        return len(self.records) - 1

    def close(self, number: int, record: bytes) -> None:
        """Make a node a leaf."""
        self.records[number] = record

    def cut(self, number: int, record: bytes, count: int = 2) -> tuple[int, ...]:
        """Give a node children."""
        self.records[number] = record
        self.children[number] = tuple(self.new() for _ in range(count))
        return self.children[number]

    def bytes_of(self, root: int) -> Iterator[bytes]:
        stack = [root]
        while stack:
            number = stack.pop()
            yield self.records[number]
            stack.extend(reversed(self.children[number]))


def whole(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    found = bytearray()
    while True:
        value, low = value >> 7, value & 127
        found.append(low | (128 if value else 0))
        if not value:
            return bytes(found)


def halve(index: int) -> bytes:
    return proof.HALVE + whole(index)


def phase(relu: int, index: int) -> bytes:
    return proof.PHASE + whole(relu) + whole(index)


def slopes_bytes(slopes: Mapping[int, Array]) -> bytes:
    return b"".join(np.rint(255 * slopes[k]).astype(np.uint8).tobytes() for k in sorted(slopes))


def mixed(shares: Array, weights: Array, slopes: Mapping[int, Array] | None, *, tighten: bool = False) -> bytes:
    """A leaf with multipliers."""
    numbers = np.concatenate([shares, weights]).astype("<f4").tobytes()
    return proof.MIXED + whole((2 if slopes else 0) + tighten) + numbers + (slopes_bytes(slopes) if slopes else b"")


def write(
    path: Path,
    status: str,
    hashes: tuple[str, str],
    trees: Iterable[bytes] = (),
    *,
    witness: Array | None = None,
    remarks: Mapping[str, str] | None = None,
) -> None:
    """Write a certificate; nothing is left behind under its name if that fails."""
    header: dict[str, object] = {"status": status, "network": hashes[0], "property": hashes[1]}
    if witness is not None:
        header["witness"] = np.asarray(witness, np.float64).reshape(-1).tolist()
    header["remarks"] = dict(remarks or {})
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(proof.MAGIC + json.dumps(header).encode() + b"\n")
        if status == "unsat":
            pack = zlib.compressobj(6)
            for record in trees:
                file.write(pack.compress(record))
            file.write(pack.compress(proof.END) + pack.flush())
    part.replace(path)
