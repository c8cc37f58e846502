"""How fast properties are read: `python benchmarks/properties.py [FILE ...]`.

Without files: generated ones, an image with 100 352 inputs and 100 000 disjuncts with boxes of their own, in both
versions. Prints MB/s through the fast way where a text is plain, and through the general reader."""

import gzip
import sys
import time
from pathlib import Path
from random import Random

from ginnacer_verify.properties.plain import parse_plain
from ginnacer_verify.properties.vnnlib import parse_general


def declarations(inputs: int, outputs: int, version: str) -> str:
    if version == "2.0":
        return (
            "(vnnlib-version <2.0>)\n(declare-network N\n"
            f"    (declare-input X float32 [1,{inputs}])\n    (declare-output Y float32 [1,{outputs}])\n)\n"
        )
    names = [f"X_{i}" for i in range(inputs)] + [f"Y_{i}" for i in range(outputs)]
    return "".join(f"(declare-const {name} Real)\n" for name in names)


def image(inputs: int, version: str) -> str:
    """Bounds of every input, and another class that wins."""
    random, lines = Random(0), [declarations(inputs, 10, version)]
    for i in range(inputs):
        x = f"X_{i}" if version == "1.0" else f"X[0,{i}]"
        low = random.random()
        lines.append(f"(assert (>= {x} {low:.17f}))\n(assert (<= {x} {low + 0.03:.9f}))\n")
    y = [f"Y_{i}" if version == "1.0" else f"Y[0,{i}]" for i in range(10)]
    return "".join(lines) + "(assert (or " + " ".join(f"(and (>= {y[i]} {y[0]}))" for i in range(1, 10)) + "))\n"


def boxes(disjuncts: int, version: str) -> str:
    """Many small boxes, as in nn4sys."""
    x, y = ("X_0", "Y_0") if version == "1.0" else ("X[0,0]", "Y[0,0]")
    random, parts = Random(0), []
    for _ in range(disjuncts):
        low = random.random()
        parts.append(f"    (and (>= {x} {low:.15f}) (<= {x} {low + 1e-5:.15f}) (<= {y} {random.random():.12f}))\n")
    return declarations(1, 1, version) + "(assert (or\n" + "".join(parts) + "))\n"


def show(name: str, text: str, general: bool = True) -> None:
    start = time.perf_counter()
    plain = parse_plain(text)
    fast = time.perf_counter() - start
    size = len(text) / 1e6
    words = f"{size / fast:6.1f} MB/s" if plain else "  not plain"
    start = time.perf_counter()
    if general:
        parse_general(text)
    slow = f"{size / (time.perf_counter() - start):6.1f} MB/s" if general else ""
    print(f"{name:48} {size:7.2f} MB {words} general {slow}", flush=True)


def main(files: list[str]) -> None:
    for file in map(Path, files):
        data = file.read_bytes()
        show(file.name, (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode())
    if not files:
        for version in ("1.0", "2.0"):
            show(f"image {version}", image(100_352, version))
            show(f"boxes {version}", boxes(100_000, version))


if __name__ == "__main__":
    main(sys.argv[1:])
