"""What commands print: one JSON document or plain lines on stdout, remarks on stderr."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO


def show(args: argparse.Namespace, document: Mapping[str, Any], lines: Iterable[str]) -> None:
    """The result: the document with --json, otherwise the lines. A reader that has had enough is no problem."""
    try:
        print(json.dumps(document) if args.json else "\n".join(lines), flush=True)
    except BrokenPipeError:
        silence(sys.stdout)


def silence(stream: TextIO) -> None:
    """Let what is still written to a closed pipe go nowhere."""
    with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def remark(args: argparse.Namespace, text: str) -> None:
    """Something beside the result; --quiet leaves it out."""
    if not args.quiet:
        print(text, file=sys.stderr)


def table(rows: Sequence[Sequence[object]]) -> list[str]:
    """The rows with their columns aligned: numbers to the right, words to the left."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    numeric = [all(isinstance(row[column], int | float) for row in rows) for column in range(len(widths))]
    return ["  ".join(map(_aligned, row, widths, numeric)).rstrip() for row in cells]


def _aligned(cell: str, width: int, numeric: bool) -> str:
    return cell.rjust(width) if numeric else cell.ljust(width)
