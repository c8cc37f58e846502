"""What users stumbled over in the first version; those that have no other home among the tests.

The others: verdicts, options, reprs, batches, strategies, refinements, `help(gv)` and `properties.build` in
`test_people.py`; witnesses, stdin, swapped arguments, `| head`, `replay`, the README's abstraction, `prop_10` and
Marabou's solution, the digest of cells in `test_output.py`; torch modules in `test_calls.py`."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ginnacer_verify as gv
from ginnacer_verify.bench import own
from ginnacer_verify.cli import main
from ginnacer_verify.commands import plot_trace
from ginnacer_verify.engines.progress import read_trace

ROOT = Path(__file__).resolve().parent.parent
SETS = ROOT / "vnnlib"


def test_nothing_is_compiled_on_the_first_run(tmp_path: Path) -> None:
    """No compiler in reach, an empty home and a few seconds: the compiled engine answers and leaves no code."""
    files = [str(SETS / "advisory" / name) for name in ("advisory_25x4.onnx", "prop_03.vnnlib")]
    command = [sys.executable, "-m", "ginnacer_verify", "verify", *files, "--engine", "boxes", "--timeout", "20"]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {"HOME": str(tmp_path), "PATH": str(tmp_path), "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "unsat\n"), done.stderr
    left = {path.suffix for path in tmp_path.rglob("*")}  # onnxruntime keeps a database of its own
    assert not left & {".so", ".o", ".nbi", ".nbc", ".pyc"}


def test_an_old_wheel_is_a_sentence_and_not_a_command_that_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marabou has wheels up to Python 3.11."""
    spec = importlib.util.spec_from_file_location("marabou_again", ROOT / "adapters" / "marabou.py")
    assert spec
    assert spec.loader
    advice = {}
    for version in ((3, 11, 7), (3, 12, 1)):
        monkeypatch.setattr(sys, "version_info", version)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        advice[version] = module.MarabouBackend.install
    assert advice[3, 11, 7].startswith("pip install maraboupy")
    assert "Python 3.11" in advice[3, 12, 1]
    assert "pip install" not in advice[3, 12, 1]


def test_an_installed_package_finds_its_own_instances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "PACKAGE", tmp_path / "site-packages" / "ginnacer_verify")
    (tmp_path / "site-packages" / "vnnlib").mkdir(parents=True)  # somebody else's package, beside ours
    (tmp_path / "site-packages" / "ginnacer_verify" / "instances" / "pade").mkdir(parents=True)
    assert own.examples("pade") == tmp_path / "site-packages" / "ginnacer_verify" / "instances" / "pade"
    assert gv.examples is own.examples


def test_the_lab_says_what_is_missing_before_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def run(*_: object) -> list[object]:
        said.append(capsys.readouterr().err)
        return []

    monkeypatch.setattr("ginnacer_verify.commands.lab.run_experiments", run)
    words = ["lab", "margins", "--networks", "acasxu", "--benchmarks", str(tmp_path), "-o", str(tmp_path)]
    assert main(words) == 0
    assert f"not found in {tmp_path}: acasxu; set GINNACER_BENCHMARKS" in said[0]


@pytest.mark.parametrize("abstraction", [None, "paper"])
def test_a_trace_has_a_picture_whatever_the_engine(abstraction: str | None, tmp_path: Path) -> None:
    """Also of the engine that is chosen by default, which has no rounds; and no legend is cut off."""
    pytest.importorskip("matplotlib")
    files = [str(SETS / "advisory" / name) for name in ("advisory_25x4.onnx", "prop_03.vnnlib")]
    more = ["--abstraction", abstraction] if abstraction else []
    assert main(["verify", *files, *more, "--no-attack", "--trace", str(tmp_path / "t"), "--quiet"]) == 0
    records = read_trace(tmp_path / "t")
    figure = plot_trace.draw(records) if abstraction else plot_trace.draw_regions(records)
    figure.canvas.draw()
    whole = figure.bbox
    legends = [found for axes in figure.axes if (found := axes.get_legend())]
    assert bool(legends) == bool(abstraction)
    for found in legends:
        box = found.get_window_extent()
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1
        assert whole.y0 <= box.y0 <= box.y1 <= whole.y1


def test_type_checkers_see_an_editable_installation() -> None:
    """The marker is there, the linked folders are links, and the extension of setuptools that hides them is off."""
    assert (ROOT / "ginnacer_verify" / "py.typed").exists()
    assert all((ROOT / "ginnacer_verify" / name).is_symlink() for name in ("adapters", "properties"))
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "--editable" in line]
    assert len(installs) == 2
    assert all("editable_mode=compat" in line for line in installs)


def test_the_doctors_advice_can_be_followed() -> None:
    """Every name that it tells pip to install is one that pyproject or the README of the backend names as well."""
    from ginnacer_verify.commands.doctor import OPTIONAL
    from ginnacer_verify.query.backend import backend_names, install_command

    known = (ROOT / "pyproject.toml").read_text() + (ROOT / "Makefile").read_text()
    advice = [*OPTIONAL.values(), *(install_command(name).replace("pip install", "") for name in backend_names())]
    names = [word.split("==")[0] for text in advice for word in text.split() if word[0].isalpha()]
    assert names
    if sys.version_info < (3, 12):  # above, Marabou's advice is a sentence
        assert [name for name in names if name not in known] == []
