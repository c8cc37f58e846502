"""Instance lists for tests of the runner, and a tool that is fast: it reads its verdict from the property file."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TOOL = """[reader]
command = "{command} {{network}} {{property}}"
"""
QUICK = "tail -q -n 1"
"""Prints the last lines of both files; only that of the property is a verdict."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started with nohup, say: children would not hear Ctrl-C either
    signal.signal(signal.SIGINT, signal.default_int_handler)


def write_list(folder: Path, verdicts: Sequence[str], *, expected: Sequence[str] | None = None) -> Path:
    """A list whose properties consist of the verdict that the tool `reader` will give."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "net.onnx").write_text("no verdict here\n")
    names = [f"prop_{number}.vnnlib" for number in range(len(verdicts))]
    for name, verdict in zip(names, verdicts, strict=True):
        (folder / name).write_text(f"{verdict}\n")
    path = folder / "instances.csv"
    path.write_text("\n".join(f"net.onnx,{name},5" for name in names))  # no newline at the end, as in mnistfc
    if expected is not None:
        lines = [f"net.onnx,{name},{verdict}" for name, verdict in zip(names, expected, strict=True)]
        (folder / "expected.csv").write_text("onnx,vnnlib,expected\n" + "\n".join(lines) + "\n")
    return path


def write_tool(folder: Path, command: str = QUICK) -> Path:
    path = folder / "tools.toml"
    path.write_text(TOOL.format(command=command))
    return path


def bench(*words: object) -> list[str]:
    """The command line of `ginnacer bench run`."""
    return [sys.executable, "-m", "ginnacer_verify", "bench", "run", *map(str, words)]


def call(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(bench(*words), capture_output=True, text=True, timeout=120)


def journal(folder: Path) -> list[dict[str, Any]]:
    """Every line of a journal; each must be whole."""
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
