"""The page about families is made of what was read and of what a run decided, and of nothing else."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from ginnacer_verify.bench.results import Row

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def families() -> Any:
    spec = importlib.util.spec_from_file_location("families", ROOT / "benchmarks" / "families.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_list_is_read_once_and_bounds_hold(families: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    for name in ("pade_64x2.onnx", "prop_05.vnnlib", "prop_14.vnnlib"):
        (tmp_path / "tiny" / name).write_bytes((ROOT / "vnnlib" / "pade" / name).read_bytes())
    (tmp_path / "tiny" / "instances.csv").write_text(
        "pade_64x2.onnx,prop_05.vnnlib,10\npade_64x2.onnx,prop_14.vnnlib,10\n"
    )
    output = tmp_path / "read.jsonl"
    assert families.read_all(output, 300, [tmp_path / "tiny" / "instances.csv"]) == 0
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(one["kind"], one["name"]) for one in lines] == [
        ("network", "pade_64x2.onnx"),
        ("property", "prop_05.vnnlib"),
        ("property", "prop_14.vnnlib"),
    ]
    assert lines[0]["samples"] == 300
    assert lines[0]["outside"] == 0
    assert lines[0]["off"] < 1e-4
    before = output.read_text()
    assert families.read_all(output, 300, [tmp_path / "tiny" / "instances.csv"]) == 0
    assert output.read_text() == before


def test_the_page(families: Any) -> None:
    network = {
        "operators": ["Relu"],
        "neurons": 7,
        "off": 2e-7,
        "load": 0.5,
        "bound": 0.25,
        "memory": 90_000,
        "samples": 50,
    }
    facts = [
        {"family": "one", "kind": "network", "name": "a.onnx", **network, "outside": 0},
        {"family": "one", "kind": "network", "name": "b.onnx", "error": "cannot be read"},
        {"family": "one", "kind": "property", "name": "p", "disjuncts": 1, "seconds": 0.1, "bytes": 9},
    ]
    rows = [
        Row("one", "a.onnx", "p", "ginnacer", "unsat", 2.0, 20.0, "unsat"),
        Row("one", "a.onnx", "q", "ginnacer", "sat", 4.0, 20.0, "unsat"),
        Row("one", "a.onnx", "r", "ginnacer", "timeout", 20.0, 20.0),
    ]
    text = families.page(facts, rows)
    assert "| one | 1 of 2 | 1 of 1 | 7 | Relu | 2e-07 | 0.5 + 0.2 | 0 of 50 | 87 |" in text
    assert "- one, b.onnx: cannot be read" in text
    assert "| one | 3 | 1 | 1 | 1 | 1 | 3.0 | 4.0 |" in text
    assert "Within 20 s" in text


def test_a_value_outside_is_counted(families: Any) -> None:
    import numpy as np

    from ginnacer_verify.bounds.intervals import intervals
    from ginnacer_verify.loading import load

    graph = load(ROOT / "vnnlib" / "pade" / "pade_64x2.onnx")
    low, high = np.full(graph.inputs, 0.2), np.full(graph.inputs, 0.4)
    known = intervals(graph, low[None], high[None])
    inside = np.random.default_rng(0).uniform(low, high, (50, graph.inputs))
    assert families.outside(graph, known, inside) == 0
    assert families.outside(graph, known, inside + 1.0) == 50
