"""The command line: which command, its result words and exit codes; no logic.

Exit codes: 0 answered, 1 undecided (`unknown`, `timeout`) or a spurious witness, 2 bad input, 3 broken installation or
a fault of ours, 130 interrupted, 141 nobody reads the output any more. Result lines go to stdout, the rest to stderr.
"""

import argparse
import json
import os
import sys
import warnings
from importlib import import_module
from typing import Any

from ginnacer_verify.commands.output import add_common, silence
from ginnacer_verify.errors import GinnacerError, InputError
from ginnacer_verify.version import __version__

NAME = "ginnacer-verify"

COMMANDS = {
    "verify": "decide a property: unsat, sat with a counterexample, unknown or timeout",
    "compare": "how far two networks are apart: prove it, or show an input where they differ",
    "monotone": "whether an output never falls, or never rises, while one input rises",
    "robust": "certified accuracy of a data set: how many inputs keep their label, with images of those that do not",
    "demo": "a proof, a counterexample and an abstraction of bundled networks, in half a minute",
    "abstract": "replace a network by one with fewer ReLUs that contains it and is exact at a centroid",
    "refine": "split what a spurious witness exploits in a saved abstraction, and write the next one",
    "margins": "how far apart the bounds of an abstraction are, by distance from the centroid",
    "lab": "the experiments of the paper and ours: figures, tables and one page",
    "check": "what a network and a property consist of, and whether we can read them",
    "replay": "judge a witness on the original network",
    "certificate": "what a certificate consists of, and a picture of how it divides the inputs",
    "plot-trace": "draw ReLUs kept, bound and time of each round of a trace",
    "supports": "answer the capability questions of the VNN-LIB standard",
    "bench": "run lists of instances, fetch the official ones, report the results",
    "doctor": "which solvers are installed, and how to install the others",
}
"""Each is a module of `ginnacer_verify.commands`, imported only when it is called."""

BAD_INPUT, BROKEN, INTERRUPTED, CLOSED = 2, 3, 130, 141


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # our matrices are small: threads inside of BLAS only get in the way
    words = sys.argv[1:] if arguments is None else arguments
    parser = _parser(words)
    if not words:
        parser.print_help()
        return 0
    args = parser.parse_args(words)
    try:
        return _run(args)
    except KeyboardInterrupt:
        return _fail(args, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        silence(sys.stdout)
        return CLOSED
    except Exception as problem:
        if args.debug:
            raise
        return _explain(args, problem)


def _run(args: argparse.Namespace) -> int:
    """The command, without the warnings of packages, which are for developers: --debug and -W show them."""
    with warnings.catch_warnings():
        if not (args.debug or sys.warnoptions):
            warnings.simplefilter("ignore")
        return int(args.run(args))


def _parser(words: list[str]) -> argparse.ArgumentParser:
    """The parser, with the arguments of the one command that is asked for: importing all of them would take long."""
    parser = argparse.ArgumentParser(
        prog="ginnacer",
        description="Verify neural networks: prove that they keep a property, or find an input that breaks it.",
        epilog="Exit codes: 0 answered, 1 undecided or spurious, 2 bad input, 3 broken installation. "
        "`ginnacer demo` shows what it does; `ginnacer COMMAND --help` explains a command.",
    )
    parser.add_argument("--name", action="version", version=NAME, help="print the tool's name")
    parser.add_argument("--version", action="version", version=__version__, help="print the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    asked = next((word for word in words if word in COMMANDS), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == asked:
            module = import_module(f"ginnacer_verify.commands.{name.replace('-', '_')}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
            add_common(command)
    return parser


def _explain(args: argparse.Namespace, problem: Exception) -> int:
    """One sentence for whatever went wrong."""
    match problem:
        case InputError():
            return _fail(args, str(problem), BAD_INPUT)
        case GinnacerError():
            return _fail(args, str(problem), BROKEN)
        case ModuleNotFoundError():
            return _fail(
                args, f"the package {problem.name!r} is missing; `ginnacer doctor` tells how to install it", BROKEN
            )
        case OSError(filename=file, strerror=reason) if file and reason:
            return _fail(args, f"{file}: {reason}", BAD_INPUT)
        case MemoryError():
            return _fail(args, "out of memory; try a smaller network or a machine with more memory", BROKEN)
        case _:
            text = f"this is a fault of ours ({type(problem).__name__}: {problem}); please report it with --debug"
            return _fail(args, text, BROKEN)


def _fail(args: argparse.Namespace, message: str, code: int) -> int:
    if args.json:
        document: dict[str, Any] = {"error": message, "exit_code": code}
        print(json.dumps(document))
    print(f"ginnacer: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
