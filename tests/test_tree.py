"""Imports point one way, the root stays small, and CONTRIBUTING shows the tree that is on the disk."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "ginnacer_verify"
ORDER = (
    ("version", "errors", "shown", "deadline"),
    ("arrays",),
    ("rounding", "native"),
    ("box",),
    ("graph",),
    ("loading",),
    ("properties",),
    ("replay",),
    ("bounds",),
    ("query",),
    ("abstraction",),
    ("emit",),
    ("adapters",),
    ("rivals",),
    ("engines",),
    ("certificate", "robust"),
    ("lab", "bench"),
    ("commands",),
    ("cli",),
    ("__main__", "__init__"),
)
"""The pipeline: a module imports from its own line or from those before it."""
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
EXCEPTIONS = {("query.backend", "adapters"), ("engines.verify", "certificate")}
"""They import what is asked for only when it is: a solver by the name of its file, and who writes certificates."""


def modules() -> list[Path]:
    linked = [PACKAGE / "adapters", PACKAGE / "properties"]
    return sorted({*PACKAGE.rglob("*.py"), *(path for folder in linked for path in folder.glob("*.py"))})


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, wherever in it, except for types only."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ginnacer_verify":
            rest = node.module.split(".")[1:]
            yield from [".".join(rest)] if rest else [alias.name for alias in node.names]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    own = name_of(path)
    level = LEVEL[own.split(".")[0]]
    against = [
        other
        for other in imported(path)
        if LEVEL[other.split(".")[0]] > level and (own, other.split(".")[0]) not in EXCEPTIONS
    ]
    assert not against, f"{own} imports {', '.join(against)}, which comes later"


def test_the_error_analysis_has_one_home() -> None:
    """Units of rounding, what underflow can take and gamma are made in rounding.py; everybody else imports them."""
    names = {"UNIT", "TINY", "UNDERFLOW", "HUGE", "gamma"}
    for path in modules():
        tree = ast.parse(path.read_text())
        made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        made |= {
            one.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for one in ast.walk(node)
            if isinstance(one, ast.Name)
        }
        assert name_of(path) == "rounding" or not made & names, name_of(path)


def test_root_is_small() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 10


def test_contributing_shows_the_tree() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    shown = text[text.index("## The tree") : text.index("## How we write")]
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert [name for name in sorted(folders) if f"{name}/" not in shown] == []
    named = {word.strip("`") for word in shown.split() if word.endswith(".py") and "/" not in word}
    assert [name for name in sorted(named) if not list(PACKAGE.rglob(name))] == []
