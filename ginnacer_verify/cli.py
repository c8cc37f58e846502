"""The command line: which command, its result words and exit codes; no logic.

Exit codes: 0 answered, 1 undecided (`unknown`, `timeout`) or a spurious witness, 2 bad input, 3 broken installation or
a fault of ours, 130 interrupted, 141 nobody reads the output any more. Result lines go to stdout, the rest to stderr.
"""

import json
import os
import sys
import warnings
from importlib import import_module

from ginnacer_verify.commands.arguments import Parser, add_common
from ginnacer_verify.commands.output import silence
from ginnacer_verify.errors import GinnacerError, InputError
from ginnacer_verify.version import __version__

NAME = "ginnacer-verify"

COMMANDS = {
    "demo": "show a proof, a counterexample and an abstraction, and leave the files for trying more",
    "verify": "decide a property: unsat (it holds), sat with a counterexample, unknown or timeout",
    "robust": "certify a data set: how many inputs keep their label, with images of those that do not",
    "compare": "bound how far two networks are apart, or show an input where they differ",
    "monotone": "decide whether an output never falls, or never rises, while one input rises",
    "check": "list what a network and a property consist of, and whether both can be read",
    "replay": "judge a counterexample of any tool on the original network",
    "certificate": "show what a proof consists of, and draw how it divides the inputs",
    "abstract": "replace a network by one with fewer ReLUs that contains it and is exact at a centroid",
    "refine": "make a saved abstraction finer where a spurious counterexample exploits it",
    "margins": "measure how far apart the bounds of an abstraction are, by distance from the centroid",
    "plot-trace": "draw a recorded run: who shares a ReLU in each round, the bound and the time",
    "bench": "run lists of instances, fetch official ones, report the results",
    "lab": "repeat the experiments of the paper, and ours: figures, tables and one page",
    "doctor": "tell which solvers are installed, and how to install the others",
    "supports": "answer the VNN-LIB standard's questions about what this tool can do",
}
"""Each is a module of `ginnacer_verify.commands`, imported only when it is called."""

BAD_INPUT, BROKEN, INTERRUPTED, CLOSED = 2, 3, 130, 141


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # our matrices are small: threads inside of BLAS only get in the way
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return _run(words)
    except KeyboardInterrupt:
        return _fail(words, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        silence(sys.stdout)
        return CLOSED
    except Exception as problem:
        if "--debug" in words:
            raise
        return _explain(words, problem)


def _run(words: list[str]) -> int:
    """The command, without the warnings of packages, which are for developers: --debug and -W show them."""
    parser = _parser(words)
    if not words:
        parser.print_help()
        return 0
    args = parser.parse_args(words)
    with warnings.catch_warnings():
        if not (args.debug or sys.warnoptions):
            warnings.simplefilter("ignore")
        return int(args.run(args))


def _parser(words: list[str]) -> Parser:
    """The parser, with the arguments of the one command that is asked for: importing all of them would take long."""
    parser = Parser(
        prog="ginnacer",
        description="Verify neural networks: prove that they keep a property, or find an input that breaks it.",
        epilog="Begin with `ginnacer demo`; `ginnacer COMMAND --help` explains a command.\n"
        "Exit codes: 0 answered, 1 undecided or spurious, 2 bad input, 3 broken installation.",
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
            command.epilog = f"example: {module.EXAMPLE}"
            command.set_defaults(run=module.run)
            add_common(command)
    return parser


def _explain(words: list[str], problem: Exception) -> int:
    """One sentence for whatever went wrong."""
    match problem:
        case InputError():
            return _fail(words, str(problem), BAD_INPUT)
        case GinnacerError():
            return _fail(words, str(problem), BROKEN)
        case ModuleNotFoundError():
            text = f"the package {problem.name!r} is missing; `ginnacer doctor` tells how to install it"
            return _fail(words, text, BROKEN)
        case FileExistsError(filename=file) if file:
            return _fail(words, f"{file} is a file, where a folder is needed", BAD_INPUT)
        case OSError(filename=file, strerror=reason) if file and reason:
            return _fail(words, f"{file}: {reason}", BAD_INPUT)
        case MemoryError():
            return _fail(words, "out of memory; try a smaller network or a machine with more memory", BROKEN)
        case _:
            text = f"this is a fault of ours ({type(problem).__name__}: {problem}); please report it with --debug"
            return _fail(words, text, BROKEN)


def _fail(words: list[str], message: str, code: int) -> int:
    if "--json" in words:
        print(json.dumps({"error": message, "exit_code": code}))
    print(f"ginnacer: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
