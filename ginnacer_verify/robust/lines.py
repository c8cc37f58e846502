"""A file of lines that outlives its writer: what was appended is on the disk, and a torn last line is taken away."""

import errno
import fcntl
import os
from pathlib import Path

from ginnacer_verify.errors import InputError


class Lines:
    """Open for appending by one process at a time. `torn` says whether there was half a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(self._file)
            raise InputError(f"another run writes to {path.parent}: wait for it, or choose another folder") from problem
        data = path.read_bytes()
        self.torn = bool(data) and not data.endswith(b"\n")
        if self.torn:
            os.ftruncate(self._file, data.rfind(b"\n") + 1)

    def append(self, text: str, advice: str) -> None:
        """Write a line and wait for the disk; where it is full, leave the file as it was and say what to do."""
        end, data = os.fstat(self._file).st_size, text.encode() + b"\n"
        try:
            if os.write(self._file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as problem:
            os.ftruncate(self._file, end)  # half a line would spoil the next one
            raise InputError(f"{self.path} cannot be written ({problem.strerror}): make room and {advice}") from problem

    def close(self) -> None:
        os.close(self._file)
