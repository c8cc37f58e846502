"""How commands are given networks: NET PROP, a list as the competition writes it, or the standard's --network N=NET."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ginnacer_verify.bench.instances import found, networks
from ginnacer_verify.commands.files import STDIN, read_network
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.graph import Graph


def add_networks(parser: argparse.ArgumentParser) -> None:
    text = "a network by the name that the property gives it, instead of NET; once for each network"
    parser.add_argument("--network", action="append", default=[], metavar="NAME=NET.onnx", help=text)


def split_files(
    files: Sequence[Path], named: Sequence[str], others: int, usage: str
) -> tuple[dict[str, Path], list[Path]]:
    """The networks by name, and the other files, of which there are so many; a network without a name is ''."""
    if len(files) == others + 1 and not named:
        if files[0] == files[1] == STDIN:
            raise InputError("only one of the network and the property can be read from stdin")
        text = str(files[0])
        listed = {name: found(Path(file)) for name, file in networks(text)}
        return (listed if text.lstrip().startswith("[") else {"": files[0]}), list(files[1:])
    pairs = [text.partition("=")[::2] for text in named]
    if len(files) != others or not pairs or not all(file for _, file in pairs):
        raise InputError(usage)
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise InputError(f"two files for one network: {', '.join(names)}")
    return {name: Path(file) for name, file in pairs}, list(files)


def load_all(files: dict[str, Path], deadline: Deadline = FOREVER) -> dict[str, Graph]:
    """The networks; a file that is given twice is read once."""
    graphs = {file: read_network(file, deadline) for file in dict.fromkeys(files.values())}
    return {name: graphs[file] for name, file in files.items()}
