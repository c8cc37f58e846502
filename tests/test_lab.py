"""The lab: every experiment on small networks, resuming, determinism, problems that stop nothing, and the page."""

import csv
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import Chromium

from ginnacer_verify.cli import main
from ginnacer_verify.errors import AbstractionError, InputError
from ginnacer_verify.lab import cells
from ginnacer_verify.lab.cells import Cell, compute, explained, run_cells
from ginnacer_verify.lab.claims import findings, times
from ginnacer_verify.lab.experiment import NAMES, experiment
from ginnacer_verify.lab.methods import GLOBAL, STYLES
from ginnacer_verify.lab.refinement import style_of
from ginnacer_verify.lab.run import run as run_experiments
from ginnacer_verify.lab.setting import Setting


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick run of all experiments on two small networks of ours, in a process with one thread as the command has."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("lab")
    command = [sys.executable, "-m", "ginnacer_verify", *words("all", folder), *SMALL]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder


SMALL = ("--networks", "pade,advisory", "--timeout", "0.5")


def words(name: str, folder: Path) -> list[str]:
    return ["lab", name, "--quick", "-o", str(folder), "-j", "1"]


def run(name: str, folder: Path, *more: str) -> int:
    return main([*words(name, folder), "--quiet", *more])


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    first, *rest = (folder / f"{name}.csv").read_text().splitlines()
    assert first.startswith(f"# ginnacer lab {name} ")
    assert json.loads(first[first.index("{") :])["seed"] == 0
    return list(csv.DictReader(rest))


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_writes_its_files(lab: Path, name: str) -> None:
    found = rows(lab, name)
    assert found
    images = [file for file in lab.glob(f"{name}*.png") if file.read_bytes().startswith(b"\x89PNG")]
    assert images
    assert all(file.with_suffix(".pdf").read_bytes().startswith(b"%PDF") for file in images)


def test_bounds_of_the_motivating_example_hold(lab: Path) -> None:
    """At every grid point and for every method, up to the printed network's own float64 rounding."""
    found = rows(lab, "motivating")
    truth = {(row["view"], row["x"]): float(row["lower"]) for row in found if row["method"] == "original"}
    assert {row["method"] for row in found} == set(STYLES)
    for row in found:
        y = truth[row["view"], row["x"]]
        assert float(row["lower"]) - 1e-9 <= y <= float(row["upper"]) + 1e-9, row
    at = [float(r["upper"]) - float(r["lower"]) for r in found if r["method"] == "ginnacer" and float(r["x"]) == 2.0]
    assert at == [0.0, 0.0]


def test_global_methods_have_the_same_number_of_relus(lab: Path) -> None:
    found = rows(lab, "margins")
    for network in ("pade", "advisory"):
        assert len({row["relus"] for row in found if row["network"] == network and row["method"] in GLOBAL}) == 1


def test_margins_grow_from_zero_at_the_centroid(lab: Path) -> None:
    for row in rows(lab, "margins"):
        if row["method"] in {"ginnacer", "ginnacer-ours"} and float(row["distance"]) == 0:
            assert float(row["largest"]) == 0
        assert float(row["median"]) <= float(row["largest"]) < math.inf


def test_no_strategy_goes_below_the_limit(lab: Path) -> None:
    found = rows(lab, "limit")
    bound = {(r["network"], r["layer"]): int(r["subsets"]) for r in found if r["series"] == "bound"}
    assert bound
    assert all(int(row["subsets"]) >= bound[row["network"], row["layer"]] for row in found)


def test_shares_and_verdicts_are_what_they_can_be(lab: Path) -> None:
    assert all(0 < float(row["share"]) <= 1 for row in rows(lab, "compression"))
    verdicts = rows(lab, "refinement")
    assert {row["verdict"] for row in verdicts} <= {"unsat", "timeout", "unknown"}  # all of these properties hold
    assert {row["method"] for row in verdicts} >= {"split", "recentre", "prabhakar", "elboher", "fastlin"}
    assert sum(row["verdict"] == "unsat" for row in verdicts) > len(verdicts) / 2


def test_a_refinement_that_is_added_is_drawn() -> None:
    assert style_of("split").label == "GINNACER, split"
    assert style_of("a_new_one").label == "GINNACER, a new one"


def test_abstracting_fewer_layers_is_tighter(lab: Path) -> None:
    found = [row for row in rows(lab, "tradeoff") if row["network"] == "advisory" and float(row["distance"]) == 0.1]
    margins = [float(row["largest"]) for row in found]
    assert len(margins) == 4
    assert margins == sorted(margins, reverse=True)


def test_timed_rows_are_complete(lab: Path) -> None:
    found = rows(lab, "abstraction-time")
    assert {(row["method"], row["layer"]) for row in found if row["network"] == "advisory"} == {
        (method, str(layer)) for method in ("ginnacer", "prabhakar", "elboher", "fastlin") for layer in range(1, 5)
    }
    assert all(float(row["seconds"]) > 0 for row in found)
    assert all(float(row["mean"]) > 0 for row in rows(lab, "inference-time"))


def test_a_second_run_computes_nothing(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (lab / "margins.csv").read_bytes()
    (lab / "margins.csv").unlink()
    monkeypatch.setattr(cells, "compute", lambda *_: pytest.fail("computed again"))
    assert run("margins", lab, *SMALL) == 0
    assert (lab / "margins.csv").read_bytes() == before


def test_a_cut_off_cell_is_computed_again(tmp_path: Path) -> None:
    assert run("limit", tmp_path, "--networks", "pade") == 0
    (kept,) = (tmp_path / "cells" / "limit").iterdir()
    whole, table = kept.read_text(), (tmp_path / "limit.csv").read_text()
    kept.write_text(whole[:40])
    assert run("limit", tmp_path, "--networks", "pade") == 0
    assert json.loads(kept.read_text())["rows"] == json.loads(whole)["rows"]
    assert (tmp_path / "limit.csv").read_text() == table


def test_the_same_seed_gives_the_same_rows_in_any_number_of_processes(lab: Path, tmp_path: Path) -> None:
    setting = Setting.of(networks="pade")
    work = [Cell.of("margins", network="pade", method=method) for method in ("ginnacer", "prabhakar")]
    found = run_cells(work, setting, tmp_path, 2, lambda done, total: None)
    kept = [r for r in rows(lab, "margins") if r["network"] == "pade" and r["method"] in {"ginnacer", "prabhakar"}]
    assert [float(r["largest"]) for r in kept] == [r["largest"] for outcome in found.values() for r in outcome.rows]
    other = compute(work[1], Setting.of(seed=1, networks="pade"))
    assert [row["largest"] for row in other.rows] != [row["largest"] for row in found[work[1]].rows]


def test_a_missing_folder_is_a_sentence_and_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lab", "limit", "--quick", "-o", str(tmp_path), "-j", "1", "--networks", "pade,acasxu,toyadmos"]
    assert main([*arguments, "--benchmarks", str(tmp_path / "nowhere")]) == 1
    problems = capsys.readouterr().err
    assert problems.count("not measured: limit") == 2
    assert "GINNACER_BENCHMARKS" in problems
    assert "Traceback" not in problems
    assert {row["network"] for row in rows(tmp_path, "limit")} == {"pade"}
    assert "Not measured: limit acasxu" in (tmp_path / "limit.html").read_text()


def test_nothing_measured_is_a_page_all_the_same(tmp_path: Path) -> None:
    arguments = ("--networks", "acasxu", "--benchmarks", str(tmp_path / "nowhere"))
    assert run("limit", tmp_path, *arguments) == 1
    assert "Not measured" in (tmp_path / "limit.html").read_text()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["magic"], "no experiment 'magic'"),
        (["limit", "--networks", "pade,magic"], "no network 'magic'"),
        (["limit", "--networks", ""], "no network ''"),
        (["limit", "-j", "0"], "1 or more"),
        (["limit", "--seed", "-1"], "0 or more"),
        (["limit", "--timeout", "0"], "above 0"),
    ],
)
def test_bad_input_is_explained(
    asked: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", *asked, "-o", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err


def test_a_file_in_the_way_of_one_experiment_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "limit").write_text("in the way")
    (tmp_path / "compression.png").mkdir()
    setting = Setting.of(networks="pade")
    limit, compression = run_experiments(["limit", "compression"], setting, tmp_path, 1, lambda done, total: None)
    assert "measured, but not kept for another run" in limit.problems[0]
    assert rows(tmp_path, "limit")
    assert list(limit.figures) == ["limit"]
    assert "compression.png: Is a directory" in compression.problems[0]
    assert rows(tmp_path, "compression")
    assert compression.tables
    (tmp_path / "file").write_text("no folder")
    assert run("limit", tmp_path / "file", "--networks", "pade") == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[]", '{"rows": [1], "seconds": 1}', '{"rows": [{}], "seconds": "soon"}', "\0"])
def test_a_broken_cell_is_computed_again(tmp_path: Path, text: str) -> None:
    setting, cell = Setting.of(networks="pade"), Cell.of("compression", network="pade", part="all")
    file = cell.file(tmp_path, setting)
    file.parent.mkdir(parents=True)
    file.write_text(text)
    found = run_cells([cell], setting, tmp_path, 1, lambda done, total: None)[cell]
    assert found.rows[0]["network"] == "pade"
    assert json.loads(file.read_text())["rows"] == list(found.rows)


def test_a_broken_network_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "toyadmos").mkdir()
    np.save(tmp_path / "toyadmos" / "inputs.npy", np.zeros((1, 640)))
    (tmp_path / "toyadmos" / "ad01.onnx").write_bytes(b"not a network")
    arguments = ("--networks", "pade,toyadmos", "--benchmarks", str(tmp_path))
    assert run("compression", tmp_path, *arguments) == 1
    assert {row["network"] for row in rows(tmp_path, "compression")} == {"pade"}
    page = (tmp_path / "compression.html").read_text()
    assert "Not measured: compression toyadmos" in page
    assert "fault of ours" not in page


def test_what_goes_wrong_in_a_cell_is_one_sentence() -> None:
    assert explained(AbstractionError("too wide")) == "too wide"
    assert "doctor" in explained(ModuleNotFoundError("no", name="torch"))
    assert "memory" in explained(MemoryError())
    outcome = compute(Cell.of("margins", network="nothing", method="ginnacer"), Setting())
    assert "KeyError" in outcome.problem
    assert "\n" not in outcome.problem
    with pytest.raises(InputError, match="margins"):
        experiment("nothing")


def test_the_trained_network_follows_the_function(tmp_path: Path) -> None:
    """In a process with one thread: BLAS threads make small matrices slow on a busy machine."""
    script = (
        "import numpy as np; from pathlib import Path; from ginnacer_verify.lab.pade import rational;"
        "from ginnacer_verify.lab.setting import Setting; from ginnacer_verify.lab.subjects import subject;"
        f"network = subject('pade', Setting.of(own=Path({str(tmp_path)!r}))).network;"
        "x = np.linspace(-10, 10, 201)[:, None];"
        "print(network.relus_per_layer, np.abs(network(x) - rational(x)).max() < 0.1)"
    )
    single = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=single)
    assert done.stdout == "(64, 64) True\n", done.stderr


def margin_rows(**largest: float) -> list[dict[str, Any]]:
    return [
        {"network": "pade", "method": method.replace("_", "-"), "distance": d, "largest": value * (1 + d)}
        for method, value in largest.items()
        for d in (0.01, 0.1, 1.0)
    ]


def test_claims_are_judged_by_the_numbers() -> None:
    good = findings({"margins": margin_rows(ginnacer=1.0, prabhakar=1000.0, elboher=50.0, fastlin=0.5)})
    assert [(f.holds, f.network) for f in good] == [(True, "Padé (ours)")] * 3
    bad = findings({"margins": margin_rows(ginnacer=1.0, prabhakar=5.0, elboher=2.0, fastlin=0.01)})
    assert not any(f.holds for f in bad)
    assert bad[-1].measured.startswith("no wider at 0 of 3 distances; up to 0.1 at worst 100 times its margin, at ")
    near = margin_rows(ginnacer=1.0) + [row | {"largest": 5 - row["distance"] * 9} for row in margin_rows(fastlin=1.0)]
    assert findings({"margins": near})[-1].measured.startswith("no wider at 2 of 3 distances, the last of them 0.1;")
    readings = margin_rows(ginnacer=1.0, elboher_max_first=50.0, fastlin_interval=0.5, fastlin_layerwise=0.5)
    assert [f.holds for f in findings({"margins": readings})] == [True] * 3
    assert [times(ratio) for ratio in (0.52, 35.0, 3600.0, 1.2e8)] == [
        "0.52 times",
        "35 times",
        "3,600 times",
        "1e+08 times",
    ]


def test_the_page_needs_nothing_from_outside(lab: Path) -> None:
    text = (lab / "lab.html").read_text()
    assert "http" not in text.replace("http-equiv", "")
    assert text.count("<img") == text.count('src="data:image/png;base64,') == 11
    assert str(lab) not in text  # no paths of this machine


@pytest.mark.parametrize(("width", "phone"), [(390, True), (1200, False)])
def test_the_page_in_a_real_browser(lab: Path, tmp_path: Path, width: int, phone: bool) -> None:
    """All images are there; the page never scrolls sideways; on a phone figures keep their size and scroll alone."""
    with Chromium() as browser:
        browser.send("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=phone)
        browser.open((lab / "lab.html").as_uri())
        images = browser.run("[...document.images].map(i => [i.naturalWidth, i.width])")
        assert len(images) == 11
        assert all(natural > 500 and shown > 900 for natural, shown in images)
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run("document.querySelectorAll('h2').length") == len(NAMES) + 2
        browser.screenshot(tmp_path / "page.png")
        assert not browser.problems
    assert (tmp_path / "page.png").stat().st_size > 20_000


def test_on_paper_every_table_is_open(lab: Path) -> None:
    with Chromium() as browser:
        browser.open((lab / "lab.html").as_uri())
        shown = "[...document.querySelectorAll('details table')].map(table => table.checkVisibility())"
        on_screen = browser.run(shown)
        assert len(on_screen) > 1
        assert not any(on_screen)
        browser.send("Emulation.setEmulatedMedia", media="print")
        assert all(browser.run(shown))
