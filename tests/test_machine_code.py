"""Machine code without its compiler: the same numbers, no numba, and no trust in what lies on the disk."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ginnacer_verify.engine import machine_code
from ginnacer_verify.engine.machine_code import Entry

SOURCE = """
import numpy as np
from numba import carray

def total(count, values):
    result = 0
    for value in carray(values, (count,)):
        result += int(value)
    return result

def allocates(count, values):
    return int((carray(values, (count,)) * 2.0).sum())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of its own, and a cache of its own."""
    (tmp_path / "summing.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "summing", raising=False)
    monkeypatch.setattr(machine_code, "_folders", lambda: [tmp_path / "cache"])
    machine_code._function.cache_clear()
    machine_code._name.cache_clear()
    return tmp_path / "cache"


def entry(name: str) -> Entry:
    return Entry("summing", name, "long double*", ("summing",))


def fresh(name: str) -> Entry:
    """As a new process would see it."""
    machine_code._function.cache_clear()
    return entry(name)


def test_loaded_code_computes_what_compiled_code_does(folder: Path) -> None:
    values = np.array([1.0, 2.0, 39.0])
    assert entry("total")(3, values) == 42
    assert len(list(folder.iterdir())) == 1
    assert fresh("total")(3, values) == 42
    assert entry("total")(2, values) == 3


@pytest.mark.parametrize("damage", [b"", b"no header", b'{"symbol": "x"}\nnonsense'])
def test_a_damaged_file_is_made_anew(folder: Path, damage: bytes) -> None:
    entry("total")(1, np.ones(1))
    (file,) = folder.iterdir()
    file.write_bytes(damage)
    assert fresh("total")(2, np.ones(2)) == 2
    assert file.read_bytes() != damage


def test_one_changed_byte_is_noticed(folder: Path) -> None:
    entry("total")(1, np.ones(1))
    (file,) = folder.iterdir()
    good = file.read_bytes()
    bad = good[:-1] + bytes([good[-1] ^ 1])
    file.write_bytes(bad)
    assert fresh("total")(2, np.ones(2)) == 2
    assert file.read_bytes() != bad


def test_other_source_has_another_name(folder: Path) -> None:
    first = machine_code._name(entry("total"))
    source = folder.parent / "summing.py"
    source.write_text(source.read_text() + "\n")
    machine_code._name.cache_clear()
    assert machine_code._name(entry("total")) != first


def test_changes_of_called_functions_are_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of those in other files, which numba's own cache does not look at."""
    inner, outer = folder.parent / "inner.py", folder.parent / "outer.py"
    outer.write_text(
        "from ginnacer_verify.engine.memory import compiled\nfrom inner import number\n"
        "@compiled\ndef twice(x):\n    return 2 * number(x)\n\ndef entry(x):\n    return twice(x)\n"
    )
    found = []
    for text in ("x", "x + 10"):
        inner.write_text(
            f"from ginnacer_verify.engine.memory import compiled\n@compiled\ndef number(x):\n    return {text}\n"
        )
        for module in ("inner", "outer"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        machine_code._name.cache_clear()
        machine_code._function.cache_clear()
        found.append(Entry("outer", "entry", "long", ("outer", "inner"))(1))
    assert found == [2, 22]


def test_code_that_allocates_is_not_kept(folder: Path) -> None:
    assert entry("allocates")(2, np.ones(2)) == 4
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_costs_only_time(folder: Path) -> None:
    folder.write_text("a file where the folder should be")
    assert entry("total")(2, np.ones(2)) == 2


@pytest.mark.parametrize("values", [np.ones(4, np.float32), np.ones(8)[::2], np.ones(4, np.int64)])
def test_arrays_of_another_kind_are_refused(folder: Path, values: NDArray[Any]) -> None:
    with pytest.raises(TypeError, match="is no double"):
        entry("total")(4, values)


def test_the_engines_do_without_numba_once_they_are_compiled() -> None:
    code = "import sys; from ginnacer_verify.engine.warm import warm; warm(); print('numba' in sys.modules)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[1].stdout == "False\n"


@pytest.mark.parametrize("first", ["warm()", "numba_at_work()"])
def test_numba_itself_works_before_and_after(first: str) -> None:
    """The names of its runtime belong to the process: code of ours must not take them from it."""
    code = f"""
import numpy as np
from ginnacer_verify.engine.warm import warm

def numba_at_work():
    from numba import njit

    @njit
    def doubled(values):
        if len(values) > 3:
            raise ValueError("too many")
        return (values * 2.0).reshape((1, len(values))).copy()

    assert doubled(np.ones(3)).tolist() == [[2.0, 2.0, 2.0]]
    try:
        doubled(np.ones(4))
    except ValueError as problem:
        print(problem)

{first}
warm()
numba_at_work()
warm()
numba_at_work()
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split("\n")[-2] == "too many"
