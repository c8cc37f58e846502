"""Files as commands name them: `-` is stdin; a counterexample is written as text, as an array or as a picture."""

import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import InputError, plainly
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


def read_array(path: Path) -> NDArray[Any]:
    """The numbers of a file that numpy.save wrote."""
    try:
        values = np.asarray(np.load(path, allow_pickle=False))
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {plainly(problem)}") from problem
    except (ValueError, EOFError, AttributeError) as problem:
        raise InputError(f"{path} is not an array that numpy.save wrote") from problem
    if values.dtype.kind not in "fiub":
        raise InputError(f"{path} holds {values.dtype} values, not numbers")
    return values


def write_witness(path: Path, prop: Property, found: Counterexample) -> None:
    """What the suffix asks for: `.npy`, a picture, or else the competition's text."""
    match path.suffix.lower():
        case ".npy":
            np.save(path, found.input)
        case ".png" if find_spec("matplotlib") is None:
            from ginnacer_verify.commands.picture import tiles

            path.write_bytes(tiles(prop.disjuncts[found.disjunct].box, found))
        case ".png" | ".svg" | ".pdf":
            from ginnacer_verify.commands.picture import draw_counterexample, save_figure

            save_figure(draw_counterexample(prop.disjuncts[found.disjunct].box, found), path)
        case _:
            path.write_text(witness_text(prop, found.x, found.y))
