"""One tool on one instance, in its own process: a Row."""

import gzip
import os
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ginnacer_verify.bench.instances import Instance
from ginnacer_verify.bench.limits import Outcome, run_limited
from ginnacer_verify.bench.machine import now
from ginnacer_verify.bench.results import Row
from ginnacer_verify.bench.tools import Tool, seconds_for
from ginnacer_verify.errors import InputError

TRIES = 3
"""How often a process that somebody else has killed is started before its instance is given up."""
GB = 1 << 30


@dataclass(frozen=True)
class Limits:
    """What one process may use; `memory` in bytes, `threads` 0 for its share of the machine's cores."""

    memory: int | None = None
    threads: int = 0


def measure(tool: Tool, instance: Instance, limits: Limits, stop: Callable[[], bool] = lambda: False) -> Row | None:
    """The row, or None when it was stopped. Wall time from before the process starts until after it has ended."""
    started, load = now(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="ginnacer-bench-") as folder:
        try:
            places = _places(tool, instance, limits, Path(folder))
        except InputError as problem:
            outcome, text = Outcome("", 2, "", str(problem), 0.0, 0), ""
        else:
            outcome = _run(tool, places, instance.timeout, limits, stop)
            text = _result(Path(places["result"]))
    if outcome.ended == "stopped" or stop():
        return None
    verdict, reason, details, trace = tool.read(outcome, text)
    if outcome.ended == "timeout" or (outcome.seconds > instance.timeout and not outcome.ended):
        verdict, reason = "timeout", f"killed after {instance.timeout:g} s"
    elif outcome.ended == "memory":
        verdict, reason = "error", f"killed with more than {(limits.memory or 0) / GB:g} GB of memory"
    elif outcome.killed:
        verdict, reason = "error", f"killed {TRIES} times by signal {-outcome.exit_code}: is there enough memory?"
    return Row(
        category=instance.category,
        network=instance.network,
        property=instance.prop,
        tool=tool.name,
        verdict=verdict,
        seconds=round(outcome.seconds, 6),
        timeout=instance.timeout,
        expected=instance.expected,
        reason=reason,
        exit_code=outcome.exit_code,
        memory=outcome.memory,
        load=round(load, 2),
        started=started,
        host=socket.gethostname(),
        details=details,
        trace=trace,
    )


def _run(tool: Tool, places: dict[str, str], timeout: float, limits: Limits, stop: Callable[[], bool]) -> Outcome:
    """Run it, and again when somebody else has killed it: that says nothing about the instance."""
    for _ in range(TRIES):
        command = tool.filled(places | {"since": f"{time.time():.3f}"})
        outcome = run_limited(command, timeout=timeout, memory=limits.memory, stop=stop)
        if not outcome.killed or stop():
            break
    return outcome


def _places(tool: Tool, instance: Instance, limits: Limits, folder: Path) -> dict[str, str]:
    """What is filled into the command; other tools than ours get compressed files unpacked, before the clock runs."""
    networks, prop = instance.network_files, instance.property_file
    if not tool.is_ours:
        networks = {name: _unpacked(file, folder) for name, file in networks.items()}
        prop = _unpacked(prop, folder)
    listed = str([(name, str(file)) for name, file in networks.items()])
    return {
        "network": listed if len(networks) > 1 else _word(next(iter(networks.values()))),
        "property": _word(prop),
        "timeout": seconds_for(tool, instance.timeout),
        "category": instance.category,
        "threads": str(limits.threads),
        "result": str(folder / "result.txt"),
        "certificate": "_".join([instance.category, *instance.key[1:]]).replace("/", "_") + ".gcert",
    }


def _word(file: Path) -> str:
    """The file as a word of a command, which no tool can take for an option."""
    return f"./{file}" if str(file).startswith("-") else str(file)


def _unpacked(file: Path, folder: Path) -> Path:
    if file.suffix != ".gz":
        return file
    plain = folder / file.stem
    plain.write_bytes(gzip.decompress(file.read_bytes()))
    return plain


def _result(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
