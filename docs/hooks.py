"""For mkdocs: puts what `ginnacer COMMAND --help` prints into the page of commands, so that it cannot grow stale."""

import contextlib
import io
import os
from typing import Any

from ginnacer_verify.cli import COMMANDS, main
from ginnacer_verify.commands.bench import COMMANDS as OF_BENCH


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace("[[help]]", commands()) if "[[help]]" in markdown else markdown


def commands() -> str:
    """One heading and one block of text for each command."""
    names = [*(name for name in COMMANDS if name != "bench"), *(f"bench {name}" for name in OF_BENCH)]
    return "\n\n".join(f"## {name}\n\n```text\n{explained(name)}```" for name in names)


def explained(name: str) -> str:
    shown, width = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "96"
    try:
        with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
            main([*name.split(), "--help"])
    finally:
        os.environ.pop("COLUMNS") if width is None else os.environ.update(COLUMNS=width)
    return shown.getvalue()
