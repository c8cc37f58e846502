"""The certificate: a line `GCERT 3`, a line of JSON, and a compressed stream of records; see docs/certificate.md.

The stream is read as it is needed. A record is a letter and its fields; a tree is written parents first.
"""

import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ginnacer_check.maps import Array

MAGIC = b"GCERT 3\n"
LONGEST_HEADER = 50_000_000
HALVE, CUT, PHASE, VALUE, SOME, BOUNDS = b"H", b"I", b"R", b"V", b"D", b"B"
LEMMA, COMPARED, LEAF, END = b"L", b"C", b"M", b"E"
TIGHTEN, MIXED, SLOPES = 1, 2, 4
"""Flags of a leaf."""


class Refused(Exception):
    """The certificate proves nothing; the sentence says where and why."""


@dataclass(frozen=True)
class Header:
    status: str
    networks: tuple[str, ...]
    formula: str
    witness: tuple[float, ...] = ()
    exact: bool = False
    twins: tuple[tuple[int, int], ...] = ()
    tensors: tuple[str, ...] = ()


class Stream:
    """The records of a file, decompressed bit by bit."""

    def __init__(self, file: BinaryIO) -> None:
        if file.read(len(MAGIC)) != MAGIC:
            raise Refused("the file is not a certificate of version 3")
        self.header = _header(file.readline(LONGEST_HEADER))
        self.file, self.inflate, self.held, self.at = file, zlib.decompressobj(), b"", 0
        self.read = 0

    def take(self, count: int) -> bytes:
        while len(self.held) - self.at < count:
            packed = self.inflate.unconsumed_tail or self.file.read(1 << 16)
            if not packed:
                raise Refused(f"the file ends in the middle of the proof, after {self.read} bytes of records")
            try:
                more = self.inflate.decompress(packed, 1 << 20)
            except zlib.error as problem:
                raise Refused(f"the records after byte {self.read} are damaged ({problem})") from problem
            self.held, self.at = self.held[self.at :] + more, 0
        taken = self.held[self.at : self.at + count]
        self.at, self.read = self.at + count, self.read + count
        return taken

    def whole(self, most: int) -> int:
        """A number below `most`, seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
            if shift > 63:
                raise Refused(f"a number before byte {self.read} is too long")
        if value >= most:
            raise Refused(f"the number {value} before byte {self.read} is not below {most}")
        return value

    def number(self) -> float:
        (value,) = struct.unpack("<d", self.take(8))
        return float(value)

    def singles(self, count: int, least: float) -> Array:
        """float32, finite and not less than some number."""
        values = np.frombuffer(self.take(4 * count), "<f4").astype(float)
        if not (np.isfinite(values) & (values >= least)).all():
            raise Refused(f"a multiplier or slope before byte {self.read} is negative or not a number")
        return values

    def shares(self, count: int) -> Array:
        """Slopes of lower lines of ReLUs: a byte each, 128 for 1."""
        values = np.frombuffer(self.take(count), np.uint8) / 128.0
        if (values > 1).any():
            raise Refused(f"a slope before byte {self.read} is above 1")
        return values

    @property
    def over(self) -> bool:
        """Whether nothing follows."""
        tail = self.inflate.unconsumed_tail or self.inflate.unused_data or self.file.read(1)
        return self.at == len(self.held) and not tail and self.inflate.eof


def _header(line: bytes) -> Header:
    try:
        given: dict[str, Any] = json.loads(line)
        header = Header(
            str(given["status"]), tuple(map(str, given["networks"])), str(given["property"]),
            tuple(map(float, given.get("witness", ()))), bool(given.get("exact", False)),
            tuple((int(one), int(other)) for one, other in given.get("twins", ())),
            tuple(map(str, given.get("tensors", ()))),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as problem:
        raise Refused(f"the second line of the file is not a header ({type(problem).__name__}: {problem})") from problem
    if header.status not in {"unsat", "sat"} or not np.isfinite(header.witness).all():
        raise Refused("the header names no status that can be proved, or a witness that is not a number")
    return header
