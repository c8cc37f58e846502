"""Witness files: the competition's 1.0 and 2.0 texts and our JSON, written and read; what Marabou prints, read."""

import io
import json
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ginnacer_verify.arrays import Array, read_only
from ginnacer_verify.errors import WitnessError, plainly
from ginnacer_verify.loading.unpack import Damaged, TooLarge, unpacked
from ginnacer_verify.properties.property import Property, Variable

NPY = b"\x93NUMPY"
"""How a file of numpy.save begins."""
BRACKETS = 100
"""Far more than a witness has. JSON that is nested without end can take the process down."""
_AS_JSON = 'write JSON as {"x": [0.1, 0.2]}'
_ASSIGNED = re.compile(r"^\s*x(\d+) = (\S+)\s*$", re.MULTILINE)
"""An input as Marabou's program prints it."""
_PAIR = re.compile(r"\(\s*([XY])_(\d+)\s+([^\s()]+)\s*\)")


def witness_text(prop: Property, x: Array, y: Array) -> str:
    """The witness in the property's own VNN-LIB version, as the competition's scorer reads it."""
    if prop.networks:
        ends = np.cumsum([one.y.size for one in prop.networks])
        return "".join(
            _block(one.x, x[list(one.inputs)]) + _block(one.y, y[end - one.y.size : end])
            for one, end in zip(prop.networks, ends, strict=True)
        )
    if prop.version.startswith("2"):
        return _block(prop.x, x) + _block(prop.y, y)
    pairs = [f"(X_{i} {decimal(v)})" for i, v in enumerate(x)] + [f"(Y_{i} {decimal(v)})" for i, v in enumerate(y)]
    return "(" + "\n".join(pairs) + ")\n"


def witness_json(x: Array, y: Array) -> str:
    return json.dumps({"x": x.tolist(), "y": y.tolist()}) + "\n"


def decimal(value: float) -> str:
    """The shortest decimal that reads back as the same float64, never with an exponent."""
    return str(np.format_float_positional(value, unique=True, trim="0"))


def _block(variable: Variable, values: Array) -> str:
    shape = ",".join(str(size) for size in variable.shape)
    return f"{variable.name} {variable.dtype} [{shape}]\n" + "".join(f"{decimal(value)}\n" for value in values)


def read_witness(path: Path, prop: Property) -> Array:
    """The input of a witness file: any of the three texts, or an array; what it says about outputs is ignored."""
    try:
        content = unpacked(path.read_bytes())
        if content.startswith(NPY):
            return _values(_array(content, path), prop.inputs, str(path))
        text = content.decode()
    except (OSError, Damaged, TooLarge, UnicodeDecodeError) as problem:
        raise WitnessError(f"{path} cannot be read: {plainly(problem)}") from problem
    return parse_witness(text, prop, source=str(path))


def _array(content: bytes, path: Path) -> Any:
    try:
        return np.load(io.BytesIO(content), allow_pickle=False).ravel()
    except (ValueError, EOFError) as problem:
        raise WitnessError(f"{path} is not an array of numbers that numpy.save wrote") from problem


def parse_witness(text: str, prop: Property, *, source: str = "<text>") -> Array:
    """As `read_witness`. A first line with the word `sat`, as in the competition's result files, is skipped."""
    body = re.sub(r"^sat(?=\s*[\n({]|$)", "", text.strip()).strip()
    if body.startswith("{"):
        words = _json_inputs(body, source)
    elif body.startswith("("):
        words = _pairs(body, source)
    elif "Input assignment:" in body:
        words = [value for _, value in sorted(_ASSIGNED.findall(body), key=lambda pair: int(pair[0]))]
    elif prop.networks:
        return _shared(body, prop, source)
    else:
        words = _block_of(body, prop.x.name, (prop.y.name,), source)
    return _values(words, prop.inputs, source)


def _values(words: Iterable[Any], wanted: int, source: str) -> Array:
    try:
        values = read_only([float(word) for word in words])
    except (TypeError, ValueError) as problem:
        raise WitnessError(f"{source}: {problem}; every input must be a number") from problem
    if len(values) != wanted:
        raise WitnessError(f"{source} gives {len(values)} inputs, the property has {wanted}")
    return values


def _shared(body: str, prop: Property, source: str) -> Array:
    """The inputs of all networks; those that the property says are equal must be."""
    names = [variable.name for one in prop.networks for variable in (one.x, one.y)]
    found = np.full(prop.inputs, np.nan)
    for one in prop.networks:
        place = re.search(rf"^{re.escape(one.x.name)}\s", body, re.MULTILINE)
        if place is None:
            raise WitnessError(f"{source} is not a witness of this property: it does not give {one.x.name}")
        words = _block_of(body[place.start() :], one.x.name, names, source)
        for i, value in zip(one.inputs, _values(words, one.x.size, source), strict=True):
            if not (np.isnan(found[i]) or found[i] == value):
                raise WitnessError(f"{source} gives {found[i]} and {value} for inputs that the property says are equal")
            found[i] = value
    return read_only(found)


def _json_inputs(body: str, source: str) -> list[str]:
    if body.count("[") + body.count("{") > BRACKETS:
        raise WitnessError(f"{source} is not a witness: {_AS_JSON}")
    try:
        values = json.loads(body, parse_int=float)["x"]
    except (ValueError, KeyError, TypeError) as problem:
        raise WitnessError(f"{source} is not a witness: {_AS_JSON}") from problem
    if not isinstance(values, list):
        raise WitnessError(f"{source} is not a witness: {_AS_JSON}")
    return [str(value) for value in values]


def _pairs(body: str, source: str) -> list[str]:
    if re.sub(r"[\s()]", "", _PAIR.sub("", body)):
        raise WitnessError(f"{source} is not a witness: write it as ((X_0 0.1) (X_1 0.2) ... (Y_0 0.3))")
    inputs = [(index, value) for name, index, value in _PAIR.findall(body) if name == "X"]
    if [index for index, _ in inputs] != [str(i) for i in range(len(inputs))]:
        raise WitnessError(f"{source}: the inputs must be X_0, X_1, ... in order and without gaps")
    return [value for _, value in inputs]


def _block_of(body: str, name: str, others: Collection[str], source: str) -> list[str]:
    """The values that follow the line of a variable, up to the line of another one."""
    header, *values = [line for line in body.splitlines() if line.strip()] or [""]
    if header.split()[:1] != [name]:
        raise WitnessError(f"{source} is not a witness of this property: its first line must begin with {name!r}")
    ends = [number for number, line in enumerate(values) if line.split()[0] in others]
    return [value.strip() for value in values[: ends[0] if ends else None]]
