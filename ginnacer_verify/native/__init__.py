"""The compiled kernels: where their file is, the records that they take, and how they are called.

The extension is built with the package. It is loaded through ctypes, which lets go of the global interpreter lock
during a call. `records.h` says what the fields of a record are; sizes are compared when the file is loaded."""

import ctypes
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.errors import NativeUnavailable

OPEN, PROVED = 0, 1
"""The states of a box."""
MISSING = (
    "the compiled engines are not installed: install a wheel of ginnacer-verify, or install a C compiler and then "
    "ginnacer-verify again; until then use --engine cegar"
)
LONG, ADDRESS = ctypes.c_int64, ctypes.c_void_p
KINDS: dict[str, tuple[Any, type[np.generic] | None]] = {
    "long": (LONG, None),
    "float": (ctypes.c_float, None),
    "long*": (ADDRESS, np.int64),
    "double*": (ADDRESS, np.float64),
    "float*": (ADDRESS, np.float32),
    "byte*": (ADDRESS, np.int8),
}
"""What a field of a record is in C, and the elements of the array whose address it is."""


class Record(ctypes.Structure):
    """A C struct, made of numbers and numpy arrays by name. It keeps its arrays alive."""

    elements: ClassVar[dict[str, type[np.generic] | None]] = {}

    def __init__(self, **values: Any) -> None:
        if values.keys() != self.elements.keys():
            raise TypeError(f"{type(self).__name__} has other fields: {sorted(values.keys() ^ self.elements.keys())}")
        self.values = values
        super().__init__(**{name: self._field(name, value) for name, value in values.items()})

    @classmethod
    def of(cls, name: str, text: str) -> "type[Record]":
        """The record with the fields of lines such as `long rows, steps` and `double* weight, bias`."""
        lines = [line.strip().split(" ", 1) for line in text.strip().splitlines()]
        fields = {field: KINDS[kind] for kind, names in lines for field in names.split(", ")}
        elements = {field: element for field, (_, element) in fields.items()}
        return type(
            name, (cls,), {"_fields_": [(field, kind) for field, (kind, _) in fields.items()], "elements": elements}
        )

    @classmethod
    def _field(cls, name: str, value: Any) -> Any:
        element = cls.elements[name]
        return value if element is None else address(value, element, name)


def address(array: NDArray[Any], element: type[np.generic], name: str = "an array") -> int:
    """Where an array lies, which must be contiguous and of the given element type."""
    if array.dtype != element or not array.flags.c_contiguous:
        raise TypeError(f"{name} of {array.dtype} with strides {array.strides} is not {np.dtype(element)}, contiguous")
    return int(array.ctypes.data)


Net = Record.of(
    "Net",
    """
    long layers, inputs, rows, relus, widest, steps, each
    long* sizes, weights, biases
    double* weight, bias, first_weight, first_biases, last_weights
    long* first_of, last_of
    double* last_biases, errors
    double* shares, limits, first_offs, last_sizes, last_floors, last_limits
    long* twins
    """,
)
Batch = Record.of(
    "Batch",
    """
    long* owner
    double* low, high, lower, upper, points, bounds, slacks, gains
    long* states, unstable
    """,
)
Layers = Record.of(
    "Layers",
    """
    long layers, neurons, widest
    long* sizes, ends, starts
    float* down, up, bias, slope, intercept, middle, radius
    """,
)
Climb = Record.of(
    "Climb",
    """
    long rows, wanted, steps
    float rate, shorter, least_rate, keep, hold
    float* weight, constant, start
    byte* phase
    float* bound, best, gain
    long* neuron
    byte* corner, flat
    """,
)
Rows = Record.of(
    "Rows",
    """
    long neurons, columns
    long* start, column
    double* value, bias, distance, potential, slack
    """,
)
Packing = Record.of(
    "Packing",
    """
    long* label, size
    double* V, bias, slack, cost, above, norm_above
    """,
)
Table = Record.of(
    "Table",
    """
    long count, columns, room
    double* rows, distance
    long* first, last, peak, stored, column, nearest, label
    byte* alive
    """,
)
Windows = Record.of(
    "Windows",
    """
    long groups, inputs, outputs, height, width, rows, columns, high, wide
    long stride_down, stride_across, dilation_down, dilation_across, above, left
    """,
)
Tape = Record.of(
    "Tape",
    """
    long inputs, length, blocks, outputs, rows, disjuncts
    long stride, spread, roundings
    long* kinds, starts, entries, columns
    double* weights, bends
    long* wanted, touches, touched_block, touched_from, touched_to
    double* constants, slacks
    long* output, output_block
    double* row_weights, offsets
    long* first_members, members
    """,
)
Cells = Record.of(
    "Cells",
    """
    long* owner
    double* low, high, points, bounds
    long* open, splits, worst, unstable
    """,
)
RECORDS = (Net, Batch, Layers, Climb, Rows, Packing, Table, Windows, Tape, Cells)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "choose": (LONG, [LONG]),
    "boxes_room": (LONG, [LONG] * 4),
    "bound_boxes": (None, [ADDRESS, ADDRESS, LONG, LONG, ADDRESS]),
    "worst_row": (ctypes.c_double, [ADDRESS, LONG, ADDRESS, ADDRESS]),
    "climb_room": (LONG, [LONG] * 3),
    "climb": (None, [ADDRESS] * 3),
    "grow": (None, [ADDRESS, LONG, ADDRESS, LONG, ADDRESS, ADDRESS]),
    "fit": (None, [ADDRESS, ADDRESS, LONG, ADDRESS, ADDRESS, ADDRESS]),
    "conflicts": (None, [ADDRESS] * 3),
    "place": (None, [ADDRESS] * 3),
    "gains": (None, [ADDRESS] * 6),
    "move": (None, [ADDRESS, ADDRESS, LONG, ADDRESS, ADDRESS, ADDRESS]),
    "merge": (None, [ADDRESS, LONG]),
    "windows_room": (LONG, [ADDRESS]),
    "windows_places": (LONG, [ADDRESS]),
    "push_float": (None, [ADDRESS, LONG, *[ADDRESS] * 5]),
    "pull_float": (None, [ADDRESS, LONG, *[ADDRESS] * 5]),
    "push_double": (None, [ADDRESS, LONG, *[ADDRESS] * 5]),
    "pull_double": (None, [ADDRESS, LONG, *[ADDRESS] * 5]),
    "cells_room": (LONG, [LONG] * 4),
    "bound_cells": (None, [ADDRESS, ADDRESS, LONG, LONG, ADDRESS]),
}
"""What the extension exports, each behind `ginnacer_`: its result and its arguments."""


def available() -> bool:
    """Whether the extension was built."""
    return _file() is not None


@cache
def library() -> ctypes.CDLL:
    """The extension, with the kernels for this processor chosen."""
    file = _file()
    if file is None:
        raise NativeUnavailable(MISSING)
    found = ctypes.CDLL(str(file))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(found, f"ginnacer_{name}")
        function.restype, function.argtypes = result, arguments
    _compare_sizes(list((LONG * (len(RECORDS) + 1)).in_dll(found, "ginnacer_sizes")))
    found.ginnacer_choose(4)
    return found


def level() -> str:
    """The kind of processor that the kernels were chosen for."""
    return {4: "AVX-512", 3: "AVX2"}.get(call("choose", 4), "any processor of its kind")


def call(name: str, *arguments: Any) -> Any:
    """One of FUNCTIONS; records and float arrays are given by their addresses."""
    return getattr(library(), f"ginnacer_{name}")(*map(_argument, arguments))


def _argument(value: Any) -> Any:
    if isinstance(value, Record):
        return ctypes.addressof(value)
    return address(value, value.dtype.type) if isinstance(value, np.ndarray) else value


def _compare_sizes(sizes: list[int]) -> None:
    if sizes != [*map(ctypes.sizeof, RECORDS), 0]:
        raise NativeUnavailable(
            f"the compiled engines are of another version: install ginnacer-verify again (records of {sizes} bytes)"
        )


@cache
def _file() -> Path | None:
    folder = Path(__file__).parent
    return next((file for suffix in EXTENSION_SUFFIXES if (file := folder / f"kernels{suffix}").is_file()), None)
