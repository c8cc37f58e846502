"""Where the public benchmark sets are: `GINNACER_BENCHMARKS`, or `../shared/benchmarks` beside the repository."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("GINNACER_BENCHMARKS", ROOT.parent / "shared" / "benchmarks"))


def benchmark(*parts: str) -> Path:
    """A file or folder of the public sets; skips the test where they are not there."""
    path = FOLDER.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(parts)} is not there: set GINNACER_BENCHMARKS to a folder with the public benchmarks")
    return path
