"""What commands share: one JSON document or plain lines on stdout, remarks on stderr, whole numbers as arguments."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

COMMON = {
    "--json": "print the result as one JSON document",
    "--quiet": "print nothing but the result",
    "--debug": "show a traceback when something fails",
}


def add_common(command: argparse.ArgumentParser, *, default: Any = False) -> None:
    """The flags that every command has."""
    for flag, text in COMMON.items():
        command.add_argument(flag, action="store_true", default=default, help=text)


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


def whole(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number of at least so much."""

    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be {least} or more, not {text}")
        return value

    read.__name__ = "whole number"  # what argparse calls it when `int` refuses the text
    return read


def table(rows: Sequence[Sequence[object]]) -> list[str]:
    """The rows with their columns aligned: numbers to the right, words to the left."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    numeric = [all(isinstance(row[column], int | float) for row in rows) for column in range(len(widths))]
    return ["  ".join(map(_aligned, row, widths, numeric)).rstrip() for row in cells]


def _aligned(cell: str, width: int, numeric: bool) -> str:
    return cell.rjust(width) if numeric else cell.ljust(width)
