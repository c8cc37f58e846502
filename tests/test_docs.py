"""What the pages show works as it is printed, without a checkout; notebooks run; the links of the built site hold."""

import json
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import Chromium

import ginnacer_verify as gv
from ginnacer_check.__main__ import main as check
from ginnacer_verify.cli import COMMANDS, main
from ginnacer_verify.commands.demo import copy_files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
EXTEND = {DOCS / "extend" / f"{name}.md" for name in ("function", "backend", "refinement")}
"""Run by `test_extend.py`, which also looks at what they define."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """What can be run: the language and the text, in the order of the page."""
    return re.findall(r"^```(bash|python)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


RUN = [page for page in PAGES if blocks(page) and page not in EXTEND]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, but for what the demonstration leaves: the pages do not need a checkout."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ginnacer-demo").mkdir()
    copy_files(tmp_path / "ginnacer-demo")
    return tmp_path


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_pages_run_as_they_are_printed(page: Path, folder: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    programs = {"ginnacer": main, "ginnacer-check": check}
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, str(page), "exec"), names)
            continue
        for line in text.splitlines():
            name, *words = shlex.split(line, comments=True)
            assert programs[name](words) == 0, line
    if page.stem == "engine":
        assert names["outcome"] is None
    if page.stem == "operator":
        check_operator(names["double"], folder)


def check_operator(handler: Any, folder: Path) -> None:
    """The page's handler reads what it says: we name it for an operator that onnxruntime can run as `x + x`."""
    import onnx
    from onnx import TensorProto, helper

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


def test_the_first_lines_of_the_readme(folder: Path) -> None:
    language, first = blocks(ROOT / "README.md")[0]
    exec(first, {})
    assert language == "python"
    assert len(first.strip().splitlines()) <= 5


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "vnnlib/README.md"])
def test_links_of_other_pages_resolve(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("file", sorted((DOCS / "notebooks").glob("*.ipynb")), ids=lambda file: file.stem)
def test_notebooks_run(file: Path, folder: Path) -> None:
    """All code cells in one namespace; a last expression is evaluated as a prompt would."""
    import matplotlib as mpl

    mpl.use("agg")
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in json.loads(file.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), file.name, "exec"), names)
            assert not [one for one in cell["outputs"] if one["output_type"] == "error"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'mkdocs-material'")
    place = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return place


class Page(HTMLParser):
    """What a page refers to, and what can be referred to on it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links, self.loaded, self.names = list[str](), list[str](), set[str]()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        links = [link for name in ("href", "src") if (link := values.get(name))]
        self.links += links
        self.loaded += links if tag in {"img", "link", "script"} else []
        self.names.update(name for key in ("id", "name") if (name := values.get(key)))


def test_every_link_of_the_site_resolves(site: Path) -> None:
    """Pages, files and places on pages; nothing is loaded from elsewhere."""
    pages = {file: Page(file) for file in sorted(site.rglob("*.html")) if file.name != "404.html"}
    assert len(pages) > 20
    lost = []
    for file, page in pages.items():
        assert not [link for link in page.loaded if re.match(r"(https?:)?//", link)]
        for link in page.links:
            target, _, place = link.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            there = (file.parent / target).resolve() if target else file
            if not there.exists() or (place and there in pages and place not in pages[there].names):
                lost.append((file.name, link))
    assert lost == []


def test_the_site_has_what_it_should(site: Path) -> None:
    reference, commands = (site / "api.html").read_text(), (site / "commands.html").read_text()
    for name in gv.__all__:
        assert name == "properties" or f">{name}<" in reference, name
    for command in COMMANDS:
        assert f"usage: ginnacer {command}" in commands


def test_the_site_in_a_browser(site: Path) -> None:
    """From a disk, on a narrow screen: nothing is wider than it, no script fails, and the search finds something."""
    with Chromium(width=500) as browser:
        for page in sorted(site.rglob("*.html")):
            browser.open(page.as_uri())
            assert browser.run("document.documentElement.scrollWidth") <= browser.run("innerWidth"), page.name
        browser.open(f"{(site / 'index.html').as_uri()}?q=certificate")
        found = "document.querySelectorAll('.md-search-result__item').length"
        assert browser.run(f"new Promise((done) => setInterval(() => {{ if ({found}) done({found}); }}, 50))") > 2
        assert browser.problems == []
