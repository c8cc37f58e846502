"""Unpacking gzip in pieces, with an end to the size and to the time that it may take."""

import gzip
import io
import zlib

from ginnacer_verify.deadline import FOREVER, Deadline

MAX_BYTES = 500_000_000
"""More is not unpacked: a file of 2 MB can hold 2 GB of nothing."""
PIECE = 1 << 20


class Damaged(Exception):
    """Data that begins like gzip and is not."""


class TooLarge(Exception):
    """Data that unpacks to more than MAX_BYTES."""


def unpacked(data: bytes, deadline: Deadline = FOREVER, limit: int = MAX_BYTES) -> bytes:
    """The data, unpacked if it is gzip's, whatever the file is called."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    found = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while piece := file.read(PIECE):
                found += piece
                if len(found) > limit:
                    raise TooLarge(f"it unpacks to more than {limit} bytes: unpack and split it")
                deadline.check("the file was unpacked")
    except (OSError, EOFError, zlib.error) as problem:
        raise Damaged(str(problem)) from None
    return bytes(found)
