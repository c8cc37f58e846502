"""`ginnacer bench run|fetch|report`: lists of instances."""

import argparse
from importlib import import_module

from ginnacer_verify.commands.arguments import add_common

COMMANDS = {
    "run": "run every instance of a list in its own process, with hard limits; resumable",
    "fetch": "get an official benchmark set from its public repository",
    "report": "make one self-contained page of the results of one or several runs",
}
"""Each is a module `bench_NAME` beside this one."""

EXAMPLE = "ginnacer bench run ginnacer-demo/instances.csv -o results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        module = import_module(f"ginnacer_verify.commands.bench_{name}")
        module.add_arguments(command)
        command.epilog = f"example: {module.EXAMPLE}"
        command.set_defaults(run_bench=module.run)
        add_common(command, default=argparse.SUPPRESS)  # what was said before the name of the command stands


def run(args: argparse.Namespace) -> int:
    return int(args.run_bench(args))
