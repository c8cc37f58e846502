"""Certificates that are tampered with: for the tests, and at length for `benchmarks/certificates.py attack`."""

import hashlib
import io
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from exhaustive import least
from models import Graph

from ginnacer_check import proof
from ginnacer_check.check import Problem, Walk, check
from ginnacer_check.proof import MAGIC, Refused, Stream
from ginnacer_verify import load
from ginnacer_verify.certificate.certify import certify
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.record import Record
from ginnacer_verify.engines.verdict import Holds
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.properties.vnnlib import parse_vnnlib

LETTERS = b"HIRVDBLCME"
ODD = (np.nan, np.inf, -np.inf, 1e300, -1e300, 3e38, 0.0, -0.0, 1e-320)


def network(seed: int, layers: int = 2, width: int = 4) -> bytes:
    """Two inputs, some layers of ReLUs, one output."""
    graph = Graph([1, 2], seed=seed)
    graph.add("Gemm", graph.weight(width, 2), graph.weight(width), transB=1)
    graph.add("Relu")
    for _ in range(layers - 1):
        graph.add("MatMul", graph.weight(width, width))
        graph.add("Add", graph.weight(width))
        graph.add("Relu")
    graph.add("Gemm", graph.weight(width, 1), graph.weight(1))
    return graph.model()


def below(threshold: float) -> bytes:
    """Unsafe: an output not above the threshold, for inputs between -1 and 1."""
    lines = [f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0")]
    lines += [f"(assert ({sign} X_{i} {end}))" for i in range(2) for sign, end in ((">=", "-1"), ("<=", "1"))]
    return "\n".join([*lines, f"(assert (<= Y_0 {threshold:.17f}))"]).encode()


def lowest(model: bytes) -> float:
    """The least output of the network, by enumeration."""
    prop = parse_vnnlib(below(0.0).decode())
    return float(least(as_chain(load(model)), prop.disjuncts[0]))


def proved(model: bytes, text: bytes, path: Path, engine: str | None = None, seconds: float = 120.0) -> bytes | None:
    """A certificate: by the records of an engine, or by the search that needs none."""
    record, verdict = None, Holds()
    if engine:
        prop = parse_vnnlib(text.decode())
        record = Record(prop)
        if not verify(load(model), prop, engine=engine, restarts=0, record=record, timeout=seconds).holds:
            return None
    found = certify(model, text, verdict, path, Deadline.after(seconds), record).path
    return found.read_bytes() if found else None


def refused(model: bytes, text: bytes, content: bytes, exact: float = 0.0) -> bool:
    try:
        check(model, text, io.BytesIO(content), exact=exact)
    except Refused:
        return True
    return False


def repacked(content: bytes, records: bytes | None = None, formula: bytes | None = None) -> bytes:
    """A certificate with other records, or for another property."""
    header, packed = content[len(MAGIC) :].split(b"\n", 1)
    document = json.loads(header)
    if formula is not None:
        document["property"] = hashlib.sha256(formula).hexdigest()
    body = zlib.compress(records) if records is not None else packed
    return MAGIC + json.dumps(document).encode() + b"\n" + body


def blank(problem: Problem) -> bytes:
    """A certificate for these files without any records."""
    hashes = dict(zip(("networks", "property"), problem.hashes, strict=True))
    return MAGIC + json.dumps({"status": "unsat", **hashes}).encode() + b"\n"


def records_of(content: bytes) -> bytes:
    return zlib.decompress(content[len(MAGIC) :].split(b"\n", 1)[1])


def spans(model: bytes, text: bytes, content: bytes) -> list[tuple[int, int]]:
    """Where each record begins and ends."""
    stream = Stream(io.BytesIO(content))
    walk, starts = Walk(Problem(model, text), stream), list[int]()
    read = walk._walk

    def noted(region):  # type: ignore[no-untyped-def]
        starts.append(stream.read)
        return read(region)

    walk._walk = noted  # type: ignore[method-assign]
    for _ in walk.leaves():
        pass
    return list(zip(starts, [*starts[1:], len(records_of(content)) - 1], strict=True))


def mutated(records: bytes, where: list[tuple[int, int]], random: np.random.Generator) -> bytes:
    """The records with something wrong: a number, a record, their order, or bytes anywhere."""

    def pick() -> tuple[int, int]:
        return where[int(random.integers(len(where)))]

    changed = bytearray(records)
    first, last = pick()
    other, end = pick()
    match int(random.integers(9)):
        case 0:  # another byte in a record: an index, a slope, a multiplier, a claim
            changed[int(random.integers(first, last))] = int(random.integers(256))
        case 1:  # an odd number
            kind = "<d" if random.random() < 0.5 else "<f"
            with np.errstate(over="ignore"):
                number = struct.pack(kind, np.float32(random.choice(ODD)) if kind == "<f" else random.choice(ODD))
            at = int(random.integers(first, last))
            changed[at : at + len(number)] = number
        case 2:  # a record, and with it its children, are missing
            del changed[first:last]
        case 3:  # a record twice
            changed[last:last] = records[first:last]
        case 4:  # one record instead of another
            changed[first:last] = records[other:end]
        case 5:  # all that follows is a leaf
            changed[first:] = random.choice([b"M\0", b"M\1"]) * int(random.integers(1, 9)) + b"E"
        case 6:  # truncated
            del changed[first:]
        case 7:  # another kind of record
            changed[first] = LETTERS[int(random.integers(len(LETTERS)))]
        case _:  # several bytes anywhere
            for _ in range(int(random.integers(1, 6))):
                changed[int(random.integers(len(changed)))] = int(random.integers(256))
    return bytes(changed)


def forged(problem: Problem, random: np.random.Generator) -> bytes:
    """Well-formed records that somebody made up: cuts, claims that would help, and leaves with any multipliers."""
    found, todo = bytearray(), [(int(random.integers(0, 4)), 0)]
    while todo:
        depth, decisions = todo.pop()
        argument = int(random.integers(len(problem.network.arguments)))
        size = problem.network.nodes[problem.network.arguments[argument]].size
        place = bytes([argument, int(random.integers(size))])
        match random.choice(list("HRVLBTPM") if depth else list("TPM")):
            case "H":
                found += proof.HALVE + bytes([int(random.integers(problem.formula.inputs))])
                todo += [(depth - 1, decisions)] * 2
            case "R":
                found += proof.PHASE + place
                todo += [(depth - 1, decisions + 1)] * 2
            case "V":
                found += proof.VALUE + place + struct.pack("<d", random.choice([1e9, -1e9, 0.5]))
                todo += [(depth - 1, decisions + 1)] * 2
            case "B":
                found += proof.BOUNDS
                todo += [(depth - 1, decisions)]
            case "L":  # the value is what suits us
                at = struct.pack("<d", random.choice([1e9, -1e9, 0.0, np.inf, -np.inf]))
                found += proof.LEMMA + b"\1" + place + bytes([int(random.integers(2))]) + at
                todo += [(depth - 1, decisions)] * 2
            case "M":
                numbers = random.choice([0.0, 1.0, 1e30], size=1 + decisions)
                found += proof.LEAF + bytes([2 + int(random.integers(2))]) + numbers.astype("<f4").tobytes()
            case letter:
                found += proof.LEAF + (b"\1" if letter == "T" else b"\0")
    return bytes(found) + proof.END


def wrong_files(model: bytes, text: bytes, content: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Other networks and properties than those that a certificate is for, with their own hashes or not."""
    header = json.loads(content[len(MAGIC) :].split(b"\n", 1)[0])
    for name, other in (("networks", [header["property"]]), ("property", header["networks"][0])):
        swapped = {**header, name: other}
        yield model, text, MAGIC + json.dumps(swapped).encode() + b"\n" + content.split(b"\n", 2)[2]
    yield network(12345), text, content
    yield model, text.replace(b"-1))", b"-3))"), content
