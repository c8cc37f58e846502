"""Marabou 2.0, in a child process that is killed at the deadline and cannot take more memory than it is given.

Why a child: Marabou forgets its timeout inside its DeepPoly analysis (Marabou#859), can abort the process, and prints
what we do not want. Whatever happens to the child is an `Unknown` with a reason. The child stays for the next query;
run as a program, this module is the child.
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
from contextlib import suppress
from typing import IO, Any

import numpy as np

from ginnacer_verify.deadline import Deadline
from ginnacer_verify.emit.marabou import FunctionalForm, contradiction, functional_form, live_query
from ginnacer_verify.emit.scaling import ScaledForm, scaled
from ginnacer_verify.network import read_only
from ginnacer_verify.query import Answer, Query, Sat, Unknown, Unsat

TIMEOUT = Unknown("Marabou ran out of time: raise --timeout", timeout=True)
ANSWERS: dict[str, Answer] = {
    "unsat": Unsat(),
    "TIMEOUT": TIMEOUT,
    "ERROR": Unknown("Marabou stopped with an error: try --backend highs"),
    "UNKNOWN": Unknown("Marabou could not tell: try --backend highs"),
    "QUIT_REQUESTED": Unknown("Marabou was asked to quit"),
}
"""Marabou's word -> ours; `sat` comes with values. Compared as a whole: "unsat" contains "sat"."""
MEMORY = 4 << 30
"""Bytes of address space that the child may use."""
COMMAND = (sys.executable, "-m", "ginnacer_verify.adapters.marabou")
LENGTH = struct.Struct("!Q")


class MarabouBackend:
    """Sends functional forms to the child and waits for its answer, but never beyond the deadline."""

    name = "marabou"
    requires = ("maraboupy",)
    install = "pip install 'ginnacer-verify[marabou]' (wheels up to Python 3.11)"
    complete = True

    def __init__(self, *, memory: int = MEMORY, command: tuple[str, ...] = COMMAND) -> None:
        self._memory, self._command = memory, command
        self._child: subprocess.Popen[bytes] | None = None

    def solve(self, query: Query, *, timeout: float) -> Answer:
        deadline = Deadline.after(timeout)
        if deadline.passed:
            return TIMEOUT
        if contradiction(query):
            return Unsat()
        try:
            form = scaled(functional_form(query))
            reply = self._ask(form.form, deadline)
        except (OSError, EOFError, ValueError) as problem:
            self.close()
            return Unknown(f"Marabou's process ended without an answer ({problem}): try --backend highs")
        if reply is None:
            self.close()
            return TIMEOUT
        return _answer(reply, form)

    def close(self) -> None:
        """End the child, if there is one."""
        if self._child:
            self._end()
            self._child = None

    def _ask(self, form: FunctionalForm, deadline: Deadline) -> dict[str, Any] | None:
        """The child's reply, or None when time ran out."""
        if self._child is None:
            words = [*self._command, str(self._memory)]
            self._child = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._end = weakref.finalize(self, _end, self._child)  # also when nobody closes us, or Python ends
        assert self._child.stdin
        assert self._child.stdout
        message = pickle.dumps((form, math.ceil(deadline.left)))
        self._child.stdin.write(LENGTH.pack(len(message)) + message)
        self._child.stdin.flush()
        head = _read(self._child.stdout, LENGTH.size, deadline)
        body = head and _read(self._child.stdout, LENGTH.unpack(head)[0], deadline)
        if body is None:
            return None
        reply = json.loads(body)
        if not isinstance(reply, dict):
            raise ValueError("it sent something else than an answer")
        return reply


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    for stream in (child.stdin, child.stdout):
        with suppress(OSError):  # what was still to be written has no reader any more
            assert stream
            stream.close()
    child.wait()


def _answer(reply: dict[str, Any], form: ScaledForm) -> Answer:
    """What the reply says; anything that is not exactly an answer is none."""
    word = reply.get("word")
    if word == "sat":
        try:
            z = np.array(reply["z"], dtype=np.float64)
        except (KeyError, TypeError, ValueError):
            z = np.zeros(0)
        if z.shape == form.form.z.shape and np.isfinite(z).all():
            return Sat(read_only(form.z(z)))
        return Unknown("Marabou gave a solution that is none: try --backend highs")
    if isinstance(word, str) and word in ANSWERS:
        return ANSWERS[word]
    return Unknown(f"Marabou answered {word!r}: try --backend highs")


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


def serve(memory: int) -> None:
    """The child: read forms, solve them, write answers, until the input ends."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # Marabou prints; our answers have a channel of their own
    while head := requests.read(LENGTH.size):
        form, seconds = pickle.loads(requests.read(LENGTH.unpack(head)[0]))
        signal.alarm(seconds + 5)  # ends this process even inside of Marabou, should nobody be left to kill it
        reply = json.dumps(run(form, seconds)).encode()
        signal.alarm(0)
        replies.write(LENGTH.pack(len(reply)) + reply)
        replies.flush()


def run(form: FunctionalForm, seconds: int) -> dict[str, Any]:
    """Solve one form in this process."""
    from maraboupy import MarabouCore

    options = MarabouCore.Options()
    options._timeoutInSeconds, options._verbosity, options._numWorkers = seconds, 0, 1
    options._tighteningStrategy, options._milpTightening = "deeppoly", "none"
    try:
        word, values, _ = MarabouCore.solve(live_query(form), options, "")
    except Exception as problem:  # "map::at", for one, of whatever type the binding makes of it
        return {"word": "ERROR", "detail": str(problem)}
    return {"word": word, "z": [values[variable] for variable in form.z] if word == "sat" else None}


BACKEND = MarabouBackend

if __name__ == "__main__":
    serve(int(sys.argv[1]))
