"""Processes that must not outlive their runner.

A killed runner cannot end anything. Its guardian, a process of its own, is told of every session that begins and ends,
and ends those that are left when the runner has gone. Run as a program, this module is the guardian.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LINUX = sys.platform == "linux"
_LOCK = threading.Lock()
_guardians: "dict[int, subprocess.Popen[bytes]]" = {}
"""By the process that they watch: a fork has none."""


def tell_guardian(word: str) -> None:
    """`+N` when session N has begun, `-N` when it has ended."""
    with _LOCK:
        guardian = _guardians.get(os.getpid()) or _start()
    assert guardian.stdin
    with suppress(OSError):  # somebody has killed it: the run goes on
        os.write(guardian.stdin.fileno(), f"{word}\n".encode())


def _start() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "ginnacer_verify.bench.guardian"]
    guardian = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C does not reach it
    )
    _guardians[os.getpid()] = guardian
    atexit.register(guardian.communicate)
    return guardian


def watch(lines: Iterable[str]) -> None:
    """The guardian: read until the runner has gone, then end what is left."""
    left: set[int] = set()
    for line in lines:
        (left.add if line[0] == "+" else left.discard)(int(line[1:]))
    for leader in left:
        end_session(leader)


def session(leader: int) -> list[int]:
    """The processes of a session; without /proc only its leader."""
    if not LINUX:
        return [leader]
    members = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                # After the name in parentheses: state, parent, process group, session.
                fields = Path(f"/proc/{entry}/stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    members.append(int(entry))
    return members


def end_session(leader: int) -> None:
    """Kill every process of the session, also those that have made a process group of their own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for process in session(leader) if LINUX else ():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    watch(sys.stdin)
