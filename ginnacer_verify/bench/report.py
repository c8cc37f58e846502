"""Results of one or more runs as one page that needs nothing else: no network, no server, no other file."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from ginnacer_verify.bench.results import JOURNAL, Row, read_rows, row_key
from ginnacer_verify.bench.run import META
from ginnacer_verify.bench.scores import by_tool, competition, score
from ginnacer_verify.errors import InputError

POINTS = 200_000
"""Points of traces that a page holds in all; the more traces there are, the fewer points each keeps."""
WITNESSES = 400_000
"""Inputs of counterexamples that a page holds in all; where all do not fit, those that are too large are left out."""
KEPT = ("engine", "rule", "rounds", "boxes", "seconds", "sentence")
"""Details of our verifier that are shown."""


def read_folders(folders: Sequence[Path]) -> list[Row]:
    """The rows of all journals below the folders; where two folders have the same tool, its name gets theirs."""
    read = [_read(folder) for folder in folders]
    counts = Counter(key for rows in read for key in {row_key(row) for row in rows})
    double = {tool for (_, _, _, tool), count in counts.items() if count > 1}
    return [
        replace(row, tool=f"{row.tool} ({folder.resolve().name})") if row.tool in double else row
        for folder, rows in zip(folders, read, strict=True)
        for row in rows
    ]


def _read(folder: Path) -> list[Row]:
    journals = sorted(folder.rglob(JOURNAL))
    if not journals:
        raise InputError(f"{folder} has no results: `ginnacer bench run ... -o {folder}` makes them")
    rows = {row_key(row): row for path in reversed(journals) for row in read_rows(path)[0]}
    return list(rows.values())


def about(folders: Sequence[Path]) -> str:
    """Machines, versions and days of the runs, in one line."""
    found = [json.loads(path.read_text()) for folder in folders for path in sorted(folder.rglob(META))]
    runs = [run for meta in found for run in meta.get("runs", [])]
    facts = [f"{run['processor']}, {run['cores']} cores" for run in runs]
    facts += [f"ginnacer-verify {run['ginnacer-verify']}" for run in runs]
    facts += sorted({run["started"][:10] for run in runs})
    return " · ".join(dict.fromkeys(facts))


def page(rows: Sequence[Row], *, title: str, subtitle: str = "") -> str:
    """The page as HTML."""
    folder = files("ginnacer_verify.bench") / "page"
    data = json.dumps(document(rows, subtitle), separators=(",", ":"), allow_nan=False)
    parts = {
        "TITLE": title.replace("&", "&amp;").replace("<", "&lt;"),
        "STYLE": (folder / "page.css").read_text(),
        "SCRIPT": (folder / "plots.js").read_text() + (folder / "page.js").read_text(),
        "DATA": data.replace("<", "\\u003c"),  # so that no text of ours can end the script
    }
    text = (folder / "page.html").read_text()
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


def document(rows: Sequence[Row], subtitle: str) -> dict[str, Any]:
    """What the page shows: one entry per instance with the runs of all tools in the same order."""
    tools = by_tool(rows)
    places = {tool: number for number, tool in enumerate(tools)}
    room = WITNESSES // max(1, sum(bool(row.details.get("counterexample")) for row in rows))
    points = max(12, min(120, POINTS // max(1, sum(bool(row.trace) for row in rows))))
    instances: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        entry = instances.setdefault(row_key(row)[:3], _instance(row, len(instances) + 1, len(tools)))
        entry["expected"] = entry["expected"] or row.expected
        entry["runs"][places[row.tool]] = _run(row, points, room)
    totals = competition(rows)
    scores = [
        asdict(score(tool, found)) | {"count": len(found), "competition": totals[tool]} for tool, found in tools.items()
    ]
    return {
        "about": subtitle,
        "tools": list(tools),
        "categories": sorted({row.category for row in rows}),
        "scores": scores,
        "rows": list(instances.values()),
    }


def _instance(row: Row, position: int, tools: int) -> dict[str, Any]:
    return {
        "position": position,
        "category": row.category,
        "network": row.network,
        "property": row.property,
        "timeout": row.timeout,
        "expected": row.expected,
        "runs": [None] * tools,
    }


def _run(row: Row, points: int, room: int) -> dict[str, Any]:
    details = {name: row.details[name] for name in KEPT if row.details.get(name) not in (None, "")}
    if relus := row.details.get("relus"):
        details["ReLUs"] = f"{relus['kept']} kept of {relus['unstable']} unstable of {relus['total']}"
    return {
        "verdict": row.verdict,
        "seconds": row.seconds,
        "memory": row.memory,
        "reason": row.reason,
        "load": row.load,
        "host": row.host,
        "details": details,
        "trace": trace_plots(row.trace, points),
        "witness": _witness(row.details.get("counterexample"), room),
    }


def _witness(found: Any, room: int) -> dict[str, Any] | None:
    """A counterexample, if the page has room for so many numbers."""
    if not isinstance(found, dict) or not found.get("x") or len(found["x"]) > room:
        return None
    return {"x": found["x"], "y": found.get("y", [])}


def trace_plots(records: Sequence[dict[str, Any]], points: int) -> list[dict[str, Any]]:
    """The diagrams of a trace: what the loop kept and how far the witness was off, or the boxes of the engine.

    A trace of one step has none: the details say all of it."""
    step = -(-len(records) // points) or 1
    rounds = [record for record in records if "kept_per_layer" in record][::step]
    batches = [record for record in records if "boxes" in record][::step]
    plots = []
    if len(rounds) > 1:
        kept = _series("ReLUs kept", [_total(record, "kept_per_layer") for record in rounds])
        unstable = _series("unstable", [_total(record, "unstable_per_layer") for record in rounds])
        plots += [{"label": "round", "series": [kept, unstable]}]
        plots += [
            {"label": "round", "series": [_series("excess at the witness", [_number(r, "bound") for r in rounds])]}
        ]
        plots += [{"label": "round", "series": [_series("seconds", [_number(r, "seconds") for r in rounds])]}]
    if len(batches) > 1:
        names = {"boxes": "boxes so far", "open_boxes": "open boxes"}
        plots += [
            {"label": "batch", "series": [_series(text, [_number(r, n) for r in batches]) for n, text in names.items()]}
        ]
        plots += [{"label": "batch", "series": [_series("unstable ReLUs", [_number(r, "unstable") for r in batches])]}]
    return plots


def _series(name: str, values: list[Any]) -> dict[str, Any]:
    return {"name": name, "values": values}


def _number(record: dict[str, Any], name: str) -> float | None:
    value = record.get(name)
    return value if isinstance(value, int | float) else None


def _total(record: dict[str, Any], name: str) -> float | None:
    values = record.get(name)
    numbers = isinstance(values, list) and all(isinstance(value, int | float) for value in values)
    return sum(values) if numbers else None  # type: ignore[arg-type]
