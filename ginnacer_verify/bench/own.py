"""Where our own instances are: beside the code in a checkout, inside of the package when it is installed."""

from pathlib import Path

from ginnacer_verify.errors import InputError

PACKAGE = Path(__file__).resolve().parents[1]


def own_instances() -> Path:
    """The folder with `pade`, `digits`, `advisory` and `twins`."""
    installed = PACKAGE / "instances"
    return installed if installed.is_dir() else PACKAGE.parent / "vnnlib"


def examples(name: str = "digits") -> Path:
    """The folder with bundled networks and properties: "digits" (with images), "advisory", "pade" or "twins"."""
    folder = own_instances() / name
    if not folder.is_dir():
        raise InputError(f"there are no examples {name!r}; choose digits, advisory, pade or twins")
    return folder
