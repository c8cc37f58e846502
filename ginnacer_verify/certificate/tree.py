"""The tree of a proof on its way to a file: records, parents first, compressed as docs/certificate.md says."""

import json
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ginnacer_check import proof
from ginnacer_check.check import Leaf, Region
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

    def apart(self, number: int, region: Region, groups: Iterable[Collection[int]]) -> Iterator[tuple[int, Region]]:
        """Give a node a branch for each group of open disjuncts; they are all that are open."""
        for some in groups:
            places = [k for k, disjunct in enumerate(region.open) if disjunct in some]
            if len(places) < len(region.open):
                own, rest = self.cut(number, some_of(places))
                yield own, replace(region, open=tuple(n for n in region.open if n in some))
                number, region = rest, replace(region, open=tuple(n for n in region.open if n not in some))
            else:
                yield number, region

    def each(self, number: int, region: Region) -> list[tuple[int, Region]]:
        """Give a node a branch for each open disjunct."""
        return list(self.apart(number, region, [(disjunct,) for disjunct in region.open]))

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


def some_of(places: Sequence[int]) -> bytes:
    """The open disjuncts at these places, and all others."""
    return proof.SOME + whole(len(places)) + b"".join(map(whole, places))


def halve(index: int) -> bytes:
    return proof.HALVE + whole(index)


def cut_value(argument: int, index: int, at: float) -> bytes:
    """A value that enters a function is at least, or at most, so much."""
    place = whole(argument) + whole(index)
    return proof.VALUE + place + struct.pack("<d", at) if at else proof.PHASE + place


def lemma(claims: Sequence[tuple[int, int, int, float]]) -> bytes:
    """Bounds (argument, index, sign, at): each has a tree of its own, and then they are known."""
    said = (whole(k) + whole(i) + whole(0 if sign > 0 else 1) + struct.pack("<d", at) for k, i, sign, at in claims)
    return proof.LEMMA + whole(len(claims)) + b"".join(said)


def rounded(multipliers: Array) -> Array:
    """Multipliers as a file holds them: eight bits each, which any are sound with."""
    bits = np.asarray(multipliers, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32).astype(float)


def levels(slopes: Array) -> Array:
    """Slopes as a file holds them."""
    return np.rint(128 * np.clip(slopes, 0, 1)) / 128


def leaf_bytes(leaf: Leaf) -> bytes:
    """The record of a leaf."""
    flags = proof.TIGHTEN * leaf.tighten + proof.MIXED * (leaf.shares is not None) + proof.SLOPES * bool(leaf.slopes)
    numbers = [] if leaf.shares is None else [leaf.shares, leaf.weights]
    slopes = [(128 * one).astype(np.uint8) if one.ndim == 1 else one.astype("<f4") for one in leaf.slopes]
    found = *(np.asarray(one, "<f4").tobytes() for one in numbers), *(one.tobytes() for one in slopes)
    return proof.LEAF + whole(flags) + b"".join(found)


def write(
    path: Path,
    status: str,
    hashes: tuple[list[str], str],
    trees: Iterable[bytes] = (),
    *,
    witness: Array | None = None,
    said: Mapping[str, object] | None = None,
    remarks: Mapping[str, str] | None = None,
) -> None:
    """Write a certificate; nothing is left behind under its name if that fails."""
    header: dict[str, object] = {"status": status, "networks": hashes[0], "property": hashes[1], **(said or {})}
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
