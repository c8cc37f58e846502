"""Inputs as pictures: rows and columns of values, and PNG files of them without any other package."""

import base64
import math
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.errors import InputError

Pixels = NDArray[np.uint8]


def original(box: Box) -> Array:
    """The point that a box was made around: its middle, but for the sides that were clipped to a range of values."""
    radius, width = box.width.max(initial=0.0) / 2, box.width
    clipped = width < 2 * radius * (1 - 1e-6)
    low, high = clipped & (box.lower == box.lower.min()), clipped & (box.upper == box.upper.max())
    return np.where(low, box.upper - radius, np.where(high, box.lower + radius, box.middle))


def image(values: Array, shape: tuple[int, ...]) -> NDArray[Any]:
    """Values as rows and columns, with colours last if there are three of them; InputError if they are no image."""
    sides = [size for size in shape if size != 1] or [values.size]
    if len(sides) == 1 and math.isqrt(values.size) ** 2 == values.size:
        sides = [math.isqrt(values.size)] * 2
    if len(sides) == 2:
        return values.reshape(sides)
    if len(sides) == 3 and 3 in (sides[0], sides[2]):
        colours = values.reshape(sides)
        return colours.transpose(1, 2, 0) if sides[0] == 3 else colours
    raise InputError(f"inputs of shape {list(shape)} are not images; write the counterexample as .npy or text")


def is_image(shape: tuple[int, ...]) -> bool:
    try:
        return image(np.zeros(math.prod(shape)), shape).size > 1
    except InputError:
        return False


def grey(values: NDArray[Any], low: float, high: float) -> Pixels:
    """Values between two ends as shades of grey, or as colours if they have them."""
    scaled = np.clip((values - low) / max(high - low, 1e-30), 0.0, 1.0)
    pixels = np.asarray(np.rint(255 * scaled), dtype=np.uint8)
    return pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=-1)


def signed(values: NDArray[Any], reach: float) -> Pixels:
    """Differences: white is none, red is more, blue is less."""
    flat = values.mean(axis=-1) if values.ndim == 3 else values
    share = np.clip(flat / max(reach, 1e-30), -1.0, 1.0)
    red, blue = np.where(share < 0, 1 + share, 1.0), np.where(share > 0, 1 - share, 1.0)
    return np.asarray(np.rint(255 * np.stack([red, np.minimum(red, blue), blue], axis=-1)), dtype=np.uint8)


def png(pixels: Pixels) -> bytes:
    """The bytes of a PNG file of rows, columns and three colours."""
    rows, columns, _ = pixels.shape
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def data_uri(pixels: Pixels) -> str:
    """For the `src` of an image in a page that needs no other file."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()
