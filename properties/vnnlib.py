"""Reading VNN-LIB of either version: the one way from a file or a text to a Property."""

import gzip
import re
import zlib
from pathlib import Path

from ginnacer_verify.errors import PropertyError, VnnlibSyntaxError
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib1 import parse_vnnlib1
from ginnacer_verify.properties.vnnlib2 import parse_vnnlib2

GZIP = b"\x1f\x8b"
VERSION = re.compile(r"(?:\s|;[^\n]*)*+\(\s*vnnlib-version\b")


def read_vnnlib(path: str | Path) -> Property:
    """The property in a VNN-LIB file, plain or compressed with gzip; name and suffix do not matter."""
    try:
        data = Path(path).read_bytes()
        data = gzip.decompress(data) if data.startswith(GZIP) else data
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise VnnlibSyntaxError(f"damaged gzip data: {error}", source=path, hint="download it again") from None
    except OSError as error:
        raise PropertyError(f"cannot read the property {path}: {error.strerror}") from None
    try:
        return parse_vnnlib(data.decode("utf-8-sig"), source=path)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = "VNN-LIB is plain text in UTF-8"
        raise VnnlibSyntaxError("bytes that are no text", source=path, line=line, hint=hint) from None


def parse_vnnlib(text: str, *, source: str | Path = "<text>") -> Property:
    """The property that a text of VNN-LIB 1.0 or 2.0 describes; which of them, the text itself says."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    parse = parse_vnnlib2 if VERSION.match(text) else parse_vnnlib1
    return parse(text, str(source))
