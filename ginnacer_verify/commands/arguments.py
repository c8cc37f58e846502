"""The words of a command: a parser that explains mistakes in one sentence, and the types of arguments."""

import argparse
import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from ginnacer_verify.errors import InputError

COMMON = {
    "--json": "print the result as one JSON document",
    "--quiet": "print nothing but the result",
    "--debug": "show a traceback when something fails",
}
INVALID = re.compile(r"argument (.+): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)
"""What argparse says of a word that is none of the choices."""


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Lines of the epilog stay as they are; names have room beside what they mean."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=28)


class Parser(argparse.ArgumentParser):
    """Mistakes become an InputError that names the option which was probably meant."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _formatter, **settings})

    def error(self, message: str) -> NoReturn:
        if match := INVALID.fullmatch(message):
            what, word, listed = match.groups()
            choices = re.findall(r"[^\s',]+", listed)
            message = f"{what} cannot be {word!r}: choose from {', '.join(choices)}{_meant(word, choices)}"
        message = (
            message.removeprefix("argument ")
            .replace(": must be", " must be")
            .replace(": not allowed with argument", " is not allowed with")
        )
        raise InputError(f"{message}; see `{self.prog} --help`")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As argparse, but what no option or argument takes is refused by the command that it was said to."""
        found, extra = super().parse_known_args(args, namespace)
        if extra:
            self.error(self._unknown(extra[0]))
        return found, extra

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"{word!r} is one argument too many"
        name = word.partition("=")[0]
        return f"there is no option {name}{_meant(name, re.findall(r'--[a-z-]+', self.format_usage()))}"


def _meant(word: str, choices: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(choices), 1)
    return f"; did you mean {near[0]}?" if near else ""


def add_common(command: argparse.ArgumentParser, *, default: Any = False) -> None:
    """The flags that every command has."""
    for flag, text in COMMON.items():
        command.add_argument(flag, action="store_true", default=default, help=text)


def add_seed(command: argparse.ArgumentParser, text: str = "random seed") -> None:
    command.add_argument("--seed", type=whole(0), default=0, metavar="N", help=f"{text} (default: 0)")


def add_timeout(command: argparse.ArgumentParser, text: str = "time limit in seconds, reading included") -> None:
    command.add_argument("--timeout", type=seconds, default=60.0, metavar="S", help=f"{text} (default: 60)")


def whole(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number of at least so much."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\s*[+-]?\d+\s*", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number, {least} or more, not {text}")
        return int(text)

    return read


def seconds(text: str) -> float:
    return _finite(text, "must be a number of seconds, 0 or more, not", 0.0)


def positive(text: str) -> float:
    return _finite(text, "must be a number above 0, not", math.ulp(0.0))


def distance(text: str) -> float:
    return _finite(text, "must be a number, 0 or more, not", 0.0)


def _finite(text: str, wrong: str, least: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value >= least and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{wrong} {text}")
    return value
