"""One command in its own session with hard limits on time and memory.

Memory is watched, not limited by the kernel: RLIMIT_AS counts address space, which compiled code, thread arenas and
onnxruntime reserve by the gigabyte without using it, and counts each process alone. We add up the resident memory of
the whole session ten times a second and end it when it has too much. Shared pages are counted in each process.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ginnacer_verify.bench.guardian import LINUX, end_session, session, tell_guardian

STEP = 0.1
"""Seconds between two looks at the clock and at the memory."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Outcome:
    """How a command ended: by itself (`ended` is empty), or by `timeout`, `memory` or `stopped`."""

    ended: str
    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    memory: int

    @property
    def killed(self) -> bool:
        """Whether somebody else ended it, the kernel for instance."""
        return not self.ended and self.exit_code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)


def run_limited(
    command: Sequence[str],
    *,
    timeout: float,
    memory: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run the command to its end, to `timeout` seconds, to `memory` bytes or until `stop()`."""
    start = time.monotonic()
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as problem:
        return Outcome("", 127, "", f"{command[0]}: {problem.strerror}", time.monotonic() - start, 0)
    tell_guardian(f"+{child.pid}")
    ended, peak = "", 0
    while True:
        try:
            left = start + timeout - time.monotonic()
            out, err = child.communicate(timeout=min(STEP, left) if left > 0 else STEP)
            break
        except subprocess.TimeoutExpired:
            used = resident(child.pid)
            peak = max(peak, used)
            ended = ended or _reason(time.monotonic() - start >= timeout, memory is not None and used > memory, stop())
            if ended or child.poll() is not None:  # a process that it left behind may hold its output open
                end_session(child.pid)
    seconds = time.monotonic() - start
    end_session(child.pid)
    tell_guardian(f"-{child.pid}")
    return Outcome(ended, child.returncode, _text(out), _text(err), seconds, peak)


def _reason(late: bool, large: bool, stopped: bool) -> str:
    return "stopped" if stopped else "memory" if large else "timeout" if late else ""


def _text(output: bytes) -> str:
    return output.decode(errors="replace")


def resident(leader: int) -> int:
    """Bytes of memory that a session holds; 0 where that cannot be seen."""
    pages = 0
    for process in session(leader) if LINUX else ():
        with suppress(OSError, IndexError):
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * _PAGE
