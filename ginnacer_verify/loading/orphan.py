"""Processes of ours that must not outlive the one that asked them, whatever ends that one."""

import ctypes
import os
import signal
import sys
import threading
import time


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
