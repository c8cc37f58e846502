"""What is built is what is on the disk, and the top level is as it was agreed."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from ginnacer_verify.commands import doctor

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = {"ginnacer_verify.adapters": "adapters", "ginnacer_verify.properties": "properties"}
SETS = {f"ginnacer_verify.instances.{name}": f"vnnlib/{name}" for name in ("advisory", "digits", "pade", "twins")}


def test_packages_are_those_on_the_disk() -> None:
    core = {path.parent for path in (ROOT / "ginnacer_verify").rglob("__init__.py") if not _linked(path)}
    names = {".".join(folder.relative_to(ROOT).parts) for folder in core} | {"ginnacer_check"}
    assert set(PYPROJECT["tool"]["setuptools"]["packages"]) == names | set(FOLDERS) | set(SETS)
    assert PYPROJECT["tool"]["setuptools"]["package-dir"] == FOLDERS | SETS


def _linked(path: Path) -> bool:
    return any(parent.is_symlink() for parent in path.parents)


def test_doctor_looks_at_every_dependency() -> None:
    wanted = {re.split("[<>=]", line)[0] for line in PYPROJECT["project"]["dependencies"]}
    assert set(doctor.CORE) == wanted


def test_links_are_relative() -> None:
    for folder in FOLDERS.values():
        assert (ROOT / "ginnacer_verify" / folder).readlink() == Path("..") / folder


def test_top_level_is_complete() -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", ".ci/run"):
        assert (ROOT / name).is_file()
    assert not list((ROOT / "vnnlib").rglob("__init__.py"))


def test_the_wheel_has_the_package_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ginnacer_check", "ginnacer_verify"}
    for needed in (
        "cli.py",
        "py.typed",
        "adapters/highs.py",
        "properties/vnnlib.py",
        "loading/onnx.py",
        "bench/page/page.js",
        "bench/sets/acasxu.toml",
    ):
        assert f"ginnacer_verify/{needed}" in names
    assert [name for name in names if name.startswith("ginnacer_verify/native/kernels.")]
    assert "-cp311-abi3-" in wheel.name
    assert "ginnacer_verify/instances/digits/digits_32x2.onnx" in names
    outside = [name for name in names if not name.startswith("ginnacer_verify/instances/")]
    assert not [name for name in outside if "test" in name or name.endswith((".onnx", ".vnnlib", ".csv", ".c", ".h"))]
