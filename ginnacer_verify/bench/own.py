"""Where our own instances are: beside the code in a checkout, inside of the package when it is installed."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def own_instances() -> Path:
    """The folder with `pade`, `digits` and `advisory`."""
    installed = PACKAGE / "instances"
    return installed if installed.is_dir() else PACKAGE.parent / "vnnlib"
