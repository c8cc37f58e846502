"""Discovery of backends: by file, by entry point, and without importing any solver."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from scripted import Scripted

from ginnacer_verify.errors import BackendUnavailable, InputError, InstallationError
from ginnacer_verify.query import backend
from ginnacer_verify.query.backend import Backend, backend_names, get_backend, missing
from ginnacer_verify.query.query import Unsat


class Another(Scripted):
    """A backend of another package."""

    def __init__(self) -> None:
        super().__init__([Unsat()], name="another")


def announce(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint("another", value, backend.GROUP)
    monkeypatch.setattr(backend, "_announced", lambda: {"another": point})
    backend_names.cache_clear()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    backend_names.cache_clear()


def test_our_backends_are_found() -> None:
    assert {"auto_lirpa", "highs", "marabou", "milp"} <= set(backend_names())


@pytest.mark.parametrize("name", ["highs", "milp"])
def test_a_backend_is_one(name: str) -> None:
    found = get_backend(name)
    assert isinstance(found, Backend)
    assert found.name == name


def test_an_entry_point_is_found_and_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, f"{__name__}:Another")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    assert "another" in backend_names()
    assert get_backend("another").name == "another"


def test_a_broken_entry_point_is_a_broken_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, "no_such_module_at_all:Backend")
    with pytest.raises(InstallationError, match="another"):
        get_backend("another")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="highs"):
        get_backend("cplex")


def test_an_absent_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    assert missing("marabou") == ("maraboupy",)
    with pytest.raises(BackendUnavailable, match="needs maraboupy: pip install maraboupy"):
        get_backend("marabou")


def test_looking_imports_no_solver() -> None:
    code = (
        "import sys; from ginnacer_verify.query.backend import backend_names, missing; "
        "[missing(name) for name in backend_names()]; "
        "heavy = {'highspy', 'maraboupy', 'torch', 'auto_LiRPA', 'onnxruntime', 'scipy.optimize'}; "
        "sys.exit(', '.join(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
