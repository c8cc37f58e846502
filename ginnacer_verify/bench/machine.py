"""Where and with what a run was made: machine, load, versions."""

import os
import platform
import socket
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ginnacer_verify.engines.budget import cores
from ginnacer_verify.version import __version__

PACKAGES = ("numpy", "scipy", "onnx", "onnxruntime", "highspy", "maraboupy", "torch", "distributed")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def machine() -> dict[str, Any]:
    """Hardware, load and versions at this moment."""
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": cores(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "load": list(os.getloadavg()),
        "python": platform.python_version(),
        "ginnacer-verify": __version__,
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _field(file: str, name: str) -> str:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")
