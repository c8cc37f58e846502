"""What the pages show works as it is printed; links resolve; notebooks run; the site builds without a warning."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ginnacer_verify.cli import main

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
RUN = [DOCS / f"{name}.md" for name in ("index", "tutorial", "recipes", "schema", "extend/operator", "extend/engine")]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the pages' paths exist and files can be written."""
    for name in ("vnnlib", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_python_on_pages_runs(page: Path, checkout: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)
    if page.stem == "engine":
        assert names["outcome"] is None
    if page.stem == "operator":
        check_operator(names["double"], checkout)


def check_operator(handler: Any, folder: Path) -> None:
    """The page's handler reads what it says: we name it for an operator that onnxruntime can run as `x + x`."""
    import onnx
    from onnx import TensorProto, helper

    import ginnacer_verify as gv
    from ginnacer_verify.loading.operators import OPERATORS

    node = helper.make_node("Add", ["x", "x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2]) for name in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, folder / "double.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(OPERATORS, "Add", handler)
        assert np.allclose(gv.load(folder / "double.onnx")([1.0, -2.0]), [2.0, -4.0])


@pytest.mark.parametrize("page", [*RUN, ROOT / "README.md"], ids=lambda page: page.stem)
def test_commands_on_pages_run(page: Path, checkout: Path) -> None:
    for block in blocks(page, "bash"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                assert words[0] == "ginnacer"
                assert main(words[1:]) == 0, line


def test_the_first_lines_of_the_readme(checkout: Path) -> None:
    first, *_ = blocks(ROOT / "README.md", "python")
    names: dict[str, Any] = {}
    exec(first, names)
    assert len(first.strip().splitlines()) <= 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("file", sorted((DOCS / "notebooks").glob("*.ipynb")), ids=lambda file: file.stem)
def test_notebooks_run(file: Path, checkout: Path) -> None:
    """All code cells in one namespace; a last expression is evaluated as a prompt would."""
    import matplotlib as mpl

    mpl.use("agg")
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in json.loads(file.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), file.name, "exec"), names)
            assert not [one for one in cell["outputs"] if one["output_type"] == "error"]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'mkdocs-material'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    page = (tmp_path / "site" / "api.html").read_text()
    assert all(f">{name}<" in page or name in page for name in ("verify", "robustness", "certify", "bounds"))
    assert not re.search(r'(?:src|href)="https?://[^"]*\.(?:js|css|woff2?)"', page)  # works offline
