"""Reading VNN-LIB of either version: the one way from a file or a text to a Property."""

import re
from pathlib import Path

from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import PropertyError, VnnlibSyntaxError, plainly
from ginnacer_verify.loading.unpack import Damaged, TooLarge, unpacked
from ginnacer_verify.properties.plain import parse_plain
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib1 import parse_vnnlib1
from ginnacer_verify.properties.vnnlib2 import parse_vnnlib2

VERSION = re.compile(r"(?:\s|;[^\n]*)*+\(\s*vnnlib-version\b")


def read_vnnlib(source: str | Path | bytes, *, deadline: Deadline = FOREVER) -> Property:
    """The property in a VNN-LIB file of version 1.0 or 2.0.

    Args:
        source: A file, plain or compressed with gzip, whatever its name; or the bytes of one.
        deadline: Raises OutOfTime when it passes.
    """
    path = "<bytes>" if isinstance(source, bytes) else source
    try:
        data = unpacked(source if isinstance(source, bytes) else Path(source).read_bytes(), deadline)
    except Damaged as error:
        raise VnnlibSyntaxError(f"damaged gzip data: {error}", source=path, hint="download it again") from None
    except TooLarge as error:
        raise PropertyError(f"{path}: {error}") from None
    except OSError as error:
        raise PropertyError(f"{path} cannot be read: {plainly(error)}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise VnnlibSyntaxError("not a text file; are the arguments swapped?", source=path, line=line) from None
    del data
    if not text.strip():
        raise PropertyError(f"{path}: the file is empty")
    deadline.check("the property was read")
    return parse_vnnlib(text, source=path, deadline=deadline)


def parse_vnnlib(text: str, *, source: str | Path = "<text>", deadline: Deadline = FOREVER) -> Property:
    """The property that a text of VNN-LIB 1.0 or 2.0 describes; which of them, the text itself says."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if (plain := parse_plain(text, deadline)) is not None:
        return plain
    return parse_general(text, source=source, deadline=deadline)


def parse_general(text: str, *, source: str | Path = "<text>", deadline: Deadline = FOREVER) -> Property:
    """As `parse_vnnlib`, for a text whose lines end with a line feed and without the fast way."""
    deadline.check("the property was read")
    parse = parse_vnnlib2 if VERSION.match(text) else parse_vnnlib1
    return parse(text, str(source), deadline)
