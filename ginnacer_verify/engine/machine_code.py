"""Compiled functions without their compiler: numba compiles an entry once, later runs load the machine code alone.

Importing numba and waking its type system takes longer than most properties take to verify; loading an object file
with llvmlite, which numba brings along, takes a few milliseconds. An object file is kept beside the compiled Python
files (or in the user's cache folder, where those cannot be written), under a name that holds everything it depends on:
the source, the versions, the processor. A file that is damaged, or not there, is made anew.

Entries allocate nothing and raise nothing, so the functions of numba's runtime that their code mentions are never
called. They are given the address of `abort`: a fault of ours would end the process, and not in a verdict. Code that
mentions any other of them is not kept."""

import ctypes
import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

KINDS: dict[str, tuple[str, Any]] = {
    "double": ("float64", ctypes.c_double),
    "single": ("float32", ctypes.c_float),
    "long": ("int64", ctypes.c_int64),
    "byte": ("int8", ctypes.c_int8),
}
"""Our names of element types: numba's and numpy's name, and the C type of a plain argument."""
RUNTIME = {
    "NRT_Free",
    "NRT_MemInfo_call_dtor",
    "numba_do_raise",
    "numba_gil_ensure",
    "numba_gil_release",
    "numba_runtime_build_excinfo_struct",
    "numba_unpickle",
}
"""What numba's code mentions for arrays that it owns and for exceptions: entries have neither."""
_engines: list[Any] = []
"""Whatever owns loaded code: it must live as long as the process."""
_lock = threading.Lock()


@dataclass(frozen=True)
class Entry:
    """A function of a module. `signature` has a kind per argument, with a star for the address of an array.

    It returns a long. `sources` are the modules that its code comes from."""

    module: str
    function: str
    signature: str
    sources: tuple[str, ...]

    @cached_property
    def arguments(self) -> list[str]:
        return self.signature.split()

    def __call__(self, *values: Any) -> int:
        """Arrays must be contiguous and of the kind that the entry names."""
        with _lock:
            function = _function(self)
        return int(function(*map(_argument, self.arguments, values)))


def _argument(kind: str, value: Any) -> Any:
    if not kind.endswith("*"):
        return value
    if value.dtype != KINDS[kind[:-1]][0] or not value.flags.c_contiguous:
        raise TypeError(f"an array of {value.dtype} with strides {value.strides} is no {kind}")
    return value.ctypes.data


@cache
def _function(entry: Entry) -> Callable[..., int]:
    """The machine code as a callable that lets go of the global interpreter lock."""
    types = [ctypes.c_void_p if kind.endswith("*") else KINDS[kind][1] for kind in entry.arguments]
    prototype: Callable[[int], Callable[..., int]] = ctypes.CFUNCTYPE(ctypes.c_int64, *types)
    for folder in _folders():
        found = _read(folder / _name(entry))
        if found:
            return prototype(_load(*found))
    symbol, runtime, code, compiled = _compile(entry)
    if runtime is not None:
        _write(_name(entry), symbol, runtime, code)
    _engines.append(compiled)
    return prototype(compiled.address)


def _folders() -> list[Path]:
    """Where object files may lie."""
    user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return [Path(__file__).parent / "__pycache__", Path(user) / "ginnacer-verify"]


@cache
def _name(entry: Entry) -> str:
    import llvmlite.binding as llvm

    parts = [version("numba"), version("llvmlite"), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
    digest = hashlib.sha256("\n".join([*parts, *entry.arguments]).encode())
    for module in (*entry.sources, __name__):
        digest.update(Path(str(getattr(find_spec(module), "origin", ""))).read_bytes())
    return f"{entry.function}-{digest.hexdigest()[:24]}.object"


def _read(path: Path) -> tuple[str, list[str], bytes] | None:
    """Symbol, runtime functions and code of a file; None if it is not what was written."""
    try:
        header, code = path.read_bytes().split(b"\n", 1)
        known = json.loads(header)
        if hashlib.sha256(code).hexdigest() == known["sha256"]:
            return known["symbol"], known["runtime"], code
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _load(symbol: str, runtime: list[str], code: bytes) -> int:
    """The address of the symbol once the code is in memory."""
    import llvmlite.binding as llvm

    never = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value
    for name in runtime:
        if llvm.address_of_symbol(name) is None:  # the names belong to the process: numba's own stay numba's
            llvm.add_symbol(name, never)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(symbol))


def _compile(entry: Entry) -> tuple[str, list[str] | None, bytes, Any]:
    """Symbol, functions of numba's runtime that the code mentions, code, and numba's own handle.

    If the code needs anything else that a process without numba lacks, the second is None: then it is not kept."""
    import llvmlite.binding as llvm
    from numba import cfunc, types

    def numba_type(kind: str) -> Any:
        plain = getattr(types, KINDS[kind.rstrip("*")][0])
        return types.CPointer(plain) if kind.endswith("*") else plain

    function = getattr(import_module(entry.module), entry.function)
    signature = types.int64(*map(numba_type, entry.arguments))
    compiled = cfunc(signature, nopython=True, fastmath={"contract"}, error_model="numpy")(function)
    library = compiled._library
    wanted = {
        declared.name
        for declared in library._final_module.functions
        if declared.is_declaration and not declared.name.startswith("llvm.")
    }
    wanted |= {"exp"} if "llvm.exp." in str(library._final_module) else set()  # what LLVM turns that into
    runtime = sorted(wanted & RUNTIME)
    lacking = [
        name for name in wanted - RUNTIME if name.startswith(("NRT_", "numba_")) or llvm.address_of_symbol(name) is None
    ]
    return compiled._wrapper_name, None if lacking else runtime, library._get_compiled_object(), compiled


def _write(name: str, symbol: str, runtime: list[str], code: bytes) -> None:
    """Into the first folder that takes it; under another name first, so that nobody reads half a file."""
    header = json.dumps({"symbol": symbol, "runtime": runtime, "sha256": hashlib.sha256(code).hexdigest()})
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f"{name}.{os.getpid()}"
            part.write_bytes(header.encode() + b"\n" + code)
            part.replace(folder / name)
        except OSError:
            continue
        return
