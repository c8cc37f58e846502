"""A child process for solvers that do not keep a deadline: it is killed when time is up.

Marabou forgets its timeout inside of its DeepPoly analysis (Marabou#859), HiGHS inside of the presolve of large
mixed-integer programs, auto_LiRPA has none; and any of them can take the process down. Whatever happens to the child
is an `Unknown` with a reason. The child stays for the next question; `serve` is what it runs. It dies with the process
that asks, whatever ends that one.
"""

import json
import math
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from ginnacer_verify.deadline import REACHED, Deadline
from ginnacer_verify.loading.workers import die_with_parent
from ginnacer_verify.query.query import Unknown

LENGTH = struct.Struct("!Q")
GRACE = 5
"""Seconds after which a child ends itself, should nobody be left to kill it."""


class Child:
    """Sends questions to a process that runs `serve` and waits for its replies, but never beyond the deadline."""

    def __init__(self, solver: str, command: tuple[str, ...]) -> None:
        self.solver, self.command = solver, command
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, question: object, deadline: Deadline) -> dict[str, Any] | Unknown:
        """The child's reply, or why there is none."""
        try:
            reply = self._ask(question, deadline)
        except (OSError, EOFError, ValueError) as problem:
            self.close()
            return Unknown(f"{self.solver}'s process ended without an answer ({problem}): try --backend highs")
        if reply is None:
            self.close()
            return out_of_time(self.solver)
        return reply

    def close(self) -> None:
        """End the process, if there is one."""
        if self.process:
            self._end()
            self.process = None

    def _ask(self, question: object, deadline: Deadline) -> dict[str, Any] | None:
        if self.process and self.process.poll() is not None:
            self.close()  # it ended between two questions, so no answer is lost
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
            self._end = weakref.finalize(self, _end, self.process)  # also when nobody closes us, or Python ends
        assert self.process.stdin
        assert self.process.stdout
        message = pickle.dumps((question, deadline.left, os.getpid()))
        if not _write(self.process.stdin, LENGTH.pack(len(message)) + message, deadline):
            return None
        head = _read(self.process.stdout, LENGTH.size, deadline)
        body = head and _read(self.process.stdout, LENGTH.unpack(head)[0], deadline)
        if body is None:
            return None
        reply = json.loads(body)
        if not isinstance(reply, dict):
            raise ValueError("it sent something else than an answer")
        return reply


def out_of_time(solver: str) -> Unknown:
    return Unknown(f"{REACHED} in {solver}", timeout=True)


def serve(answer: Callable[[Any, float], dict[str, Any]], memory: int | None = None) -> None:
    """The child: read questions, answer them, until the input ends; with no more than so many bytes of memory."""
    import resource

    die_with_parent()
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # solvers print; our replies have a channel of their own
    while head := requests.read(LENGTH.size):
        question, seconds, asking = pickle.loads(requests.read(LENGTH.unpack(head)[0]))
        if os.getppid() != asking:
            return
        signal.alarm(math.ceil(seconds) + GRACE)
        reply = json.dumps(answer(question, seconds)).encode()
        signal.alarm(0)
        replies.write(LENGTH.pack(len(reply)) + reply)
        replies.flush()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        with suppress(OSError):  # what was still to be written has no reader any more
            assert stream
            stream.close()
    process.wait()


def _write(stream: IO[bytes], content: bytes, deadline: Deadline) -> bool:
    """Write everything, unless the deadline comes first: a child that does not read must not stop us."""
    os.set_blocking(stream.fileno(), False)
    rest = memoryview(content)
    while rest:
        _, ready, _ = select.select([], [stream], [], deadline.left)
        if not ready:
            return False
        rest = rest[os.write(stream.fileno(), rest) :]
    return True


def _read(stream: IO[bytes], size: int, deadline: Deadline) -> bytes | None:
    """Exactly `size` bytes, or None when the deadline comes first."""
    found = b""
    while len(found) < size:
        ready, _, _ = select.select([stream], [], [], deadline.left)
        if not ready:
            return None
        piece = os.read(stream.fileno(), size - len(found))
        if not piece:
            raise EOFError("it closed its output")
        found += piece
    return found
