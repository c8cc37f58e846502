"""Processes of ours, which must not outlive the one that asked them, whatever ends that one."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any


def die_with_parent() -> None:
    """Called by a child. One at work reads no end of input, so the kernel has to end it: Linux does, and elsewhere we
    look every second."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def workers(count: int, begin: Callable[..., None] | None = None, *given: Any) -> Iterator[ProcessPoolExecutor]:
    """So many processes, each of which calls `begin` first. What they are at work on ends with them where we do not
    get to the end: on Ctrl-C, on an exception, and when this process is killed."""
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    before = set(multiprocessing.active_children())
    arguments = (os.getpid(), begin, given)
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=arguments)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.kill()
        raise
    finally:
        pool.shutdown()


def _begin(parent: int, begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    die_with_parent()
    if os.getppid() != parent:  # it ended before the kernel knew
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker; as an exception it would be a result
    if begin is not None:
        begin(*given)
