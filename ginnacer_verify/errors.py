"""Every exception that this package raises on purpose.

    GinnacerError
    ├── InputError                 what the user gave is wrong; the message says what to do
    │   ├── NetworkError           a network file is not well-formed
    │   │   └── UnsupportedOperator    an operator that we cannot turn into affine maps and ReLUs
    │   ├── PropertyError          a property is not well-formed
    │   │   ├── VnnlibSyntaxError      text that is no VNN-LIB, with file, line and a hint
    │   │   └── UnsupportedProperty    well-formed, but outside of what we decide
    │   ├── WitnessError           a witness file is not well-formed
    │   └── AbstractionError       an abstraction that cannot be built as asked
    ├── OutOfTime                  the deadline passed while something was read; `verify` answers `timeout`
    └── InstallationError          something on this machine is missing or broken
        ├── BackendUnavailable     a backend whose package is not installed
        └── NativeUnavailable      the compiled engines were not built, or do not fit

Outcomes (`unknown`, a spurious witness) are values, not exceptions.
"""

from pathlib import Path

NOT_SUPPORTED = " is not supported; `ginnacer check` shows all operators of the network"


def plainly(problem: Exception) -> str:
    """What the operating system or a library says is wrong, without its codes and without advice for programmers."""
    match problem:
        case UnicodeDecodeError():
            return "it is not a text file"
        case OSError(strerror=str(reason)):
            return reason
        case _:
            return str(problem) or type(problem).__name__


class GinnacerError(Exception):
    """The root: catch this to catch everything that we raise on purpose."""


class InputError(GinnacerError):
    """What the user gave is wrong."""


class NetworkError(InputError):
    """A network file or module is not well-formed."""


class UnsupportedOperator(NetworkError):
    """An operator that we cannot turn into affine maps and ReLUs."""

    def __init__(self, operator: str, node: str, why: str = "") -> None:
        self.operator, self.node, self.why = operator, node, why
        super().__init__(f"operator {operator} (node {node!r})" + (f": {why}" if why else NOT_SUPPORTED))


class PropertyError(InputError):
    """A property is not well-formed, or does not fit the network."""


class VnnlibSyntaxError(PropertyError):
    """Text that is no VNN-LIB."""

    def __init__(self, problem: str, *, source: str | Path = "<text>", line: int = 0, hint: str = "") -> None:
        self.problem, self.source, self.line, self.hint = problem, source, line, hint
        place = f"{source}:{line}" if line else f"{source}"
        super().__init__(f"{place}: {problem}" + (f" ({hint})" if hint else ""))


class UnsupportedProperty(PropertyError):
    """A well-formed property that is outside of what we decide."""


class WitnessError(InputError):
    """A witness file is not well-formed, or does not fit the property."""


class AbstractionError(InputError):
    """An abstraction that cannot be built as asked."""


class OutOfTime(GinnacerError):
    """The deadline passed before there was anything to decide."""


class InstallationError(GinnacerError):
    """Something on this machine is missing or broken."""


class BackendUnavailable(InstallationError):
    """A backend whose package is not installed."""


class NativeUnavailable(InstallationError):
    """The compiled engines were not built, or do not fit the Python code."""
