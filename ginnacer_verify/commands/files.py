"""Files as commands name them: `-` is stdin; a counterexample is written as text, as an array or as a picture."""

import sys
from functools import cache
from pathlib import Path

import numpy as np

from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.loading import load
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.replay.judge import Counterexample
from ginnacer_verify.replay.witness import witness_text

STDIN = Path("-")


@cache
def _stdin() -> bytes:
    """Read once: a second reader gets the same."""
    return sys.stdin.buffer.read()


def content(path: Path) -> bytes:
    """The unpacked bytes of a file or of stdin, as the checker of certificates takes them."""
    from ginnacer_check.__main__ import content as of_file
    from ginnacer_verify.loading.unpack import unpacked

    return unpacked(_stdin(), FOREVER) if path == STDIN else of_file(path)


def read_network(path: Path, deadline: Deadline = FOREVER) -> Graph:
    return load(_stdin() if path == STDIN else path, deadline=deadline)


def read_property(path: Path, deadline: Deadline = FOREVER) -> Property:
    return read_vnnlib(_stdin() if path == STDIN else path, deadline=deadline)


def write_witness(path: Path, prop: Property, found: Counterexample) -> None:
    """What the suffix asks for: `.npy`, a picture, or else the competition's text."""
    match path.suffix.lower():
        case ".npy":
            np.save(path, found.input)
        case ".png" | ".svg" | ".pdf":
            from ginnacer_verify.commands.picture import draw_counterexample

            try:
                draw_counterexample(prop.disjuncts[found.disjunct].box, found).savefig(path, dpi=150)
            except OSError as problem:
                raise InputError(f"{path} cannot be written: {problem.strerror or problem}") from problem
        case _:
            path.write_text(witness_text(prop, found.x, found.y))
