"""The checker as a distribution of its own, with numpy and onnx only, and short enough to be read."""

import ast
import io
import os
import shutil
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

from forging import below, lowest, network, proved

from ginnacer_verify.version import __version__

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "ginnacer_check"
ALONE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"ginnacer_verify", "scipy", "onnxruntime", "highspy", "vnnlib", "torch", "rich"}:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from ginnacer_check.__main__ import main
import ginnacer_check
assert ginnacer_check.__file__.startswith(sys.argv[1]), ginnacer_check.__file__
sys.exit(main(sys.argv[2:]))
"""
SIZES = {
    "the argument": ("functions", "maps", "bounds", "proof", "check", "__main__"),
    "readers": ("formula", "network"),
}


def test_it_is_installed_and_works_alone(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(FOLDER, source, ignore=shutil.ignore_patterns("__pycache__"))
    install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(target),
        str(source),
    ]
    done = subprocess.run([sys.executable, *install], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    model = network(0)
    text = below(lowest(model) - 0.1)
    assert proved(model, text, tmp_path / "proof.gcert")
    (tmp_path / "net.onnx").write_bytes(model)
    (tmp_path / "prop.vnnlib").write_bytes(text)
    files = [str(tmp_path / name) for name in ("net.onnx", "prop.vnnlib", "proof.gcert")]
    run = subprocess.run(
        [sys.executable, "-P", "-c", ALONE, str(target), *files, "--exact"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(target)},
    )  # fmt: skip
    assert (run.returncode, run.stdout.split("\n")[0]) == (0, "accepted: unsat"), run.stderr


def test_its_dependencies_are_numpy_and_onnx() -> None:
    alone = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(alone["dependencies"]) <= set(whole["dependencies"])
    assert {line.split(">")[0] for line in alone["dependencies"]} == {"numpy", "onnx"}
    assert alone["version"] == __version__
    assert alone["scripts"].items() <= whole["scripts"].items()


def lines_of_code(file: Path) -> int:
    """Lines that hold anything but blanks, comments and docstrings."""
    text, left = file.read_text(), {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in left | {tokenize.ENDMARKER}:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(found)


def test_it_stays_short() -> None:
    """The argument is what has to be read to believe a proof; the readers are compared with onnxruntime."""
    counted = {file.stem: lines_of_code(file) for file in FOLDER.glob("*.py")}
    assert counted.keys() == {name for names in SIZES.values() for name in names} | {"__init__"}
    argument, readers = (sum(counted[name] for name in names) for names in SIZES.values())
    assert argument <= 954
    assert readers <= 660
