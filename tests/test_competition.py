"""Our scripts against the competition's contract, with the part of the organisers played by `organisers`."""

import csv
import gzip
import subprocess
import time
from pathlib import Path

import pytest
from organisers import SCRIPTS, accepts, play, script

from benchmarks import benchmark

ROOT = SCRIPTS.parent
ADVISORY = ROOT / "vnnlib" / "advisory"


def expected(folder: Path) -> list[tuple[str, str, str]]:
    with (folder / "expected.csv").open(newline="") as lines:
        return [(network, prop, verdict) for network, prop, verdict in list(csv.reader(lines))[1:]]


BUNDLED = [
    (ADVISORY, network, prop, verdict)
    for network, prop, verdict in expected(ADVISORY)
    if prop.startswith(("prop_02", "prop_03", "prop_06", "prop_07"))
]


@pytest.mark.parametrize(("folder", "network", "prop", "verdict"), BUNDLED)
def test_bundled_instances(folder: Path, network: str, prop: str, verdict: str, tmp_path: Path) -> None:
    """Both versions of the language, both verdicts."""
    ruling = play("advisory", str(folder / network), folder / prop, tmp_path / "results.txt", 100)
    assert (ruling.verdict, ruling.accepted) == (verdict, verdict == "sat")


@pytest.mark.parametrize("line", [45 + 1, 90 + 7, 179])
def test_acasxu(line: int, tmp_path: Path) -> None:
    folder = benchmark("acasxu")
    network, prop, verdict = expected(folder)[line]
    ruling = play("acasxu", str(folder / network), folder / prop, tmp_path / "results.txt", 100)
    assert (ruling.verdict, ruling.accepted) == (verdict, verdict == "sat")


@pytest.fixture
def packed(tmp_path: Path) -> tuple[Path, Path]:
    """A network and a property of which only the compressed files are there, in a folder with a space."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    for name in ("advisory_25x4.onnx", "prop_02.vnnlib"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((ADVISORY / name).read_bytes()))
    return folder / "advisory_25x4.onnx", folder / "prop_02.vnnlib"


def test_compressed_files_by_their_plain_names_and_by_their_own(packed: tuple[Path, Path], tmp_path: Path) -> None:
    network, prop = packed
    results = tmp_path / "results.txt"
    own = network.with_suffix(".onnx.gz"), prop.with_suffix(".vnnlib.gz")
    assert script("prepare_instance.sh", "v1", "c", str(network), str(prop), seconds=60).returncode == 0
    ruling = play("c", str(own[0]), own[1], results, 60)
    assert (ruling.verdict, ruling.accepted) == ("sat", True)
    results.unlink()
    script("run_instance.sh", "v1", "c", str(network), str(prop), str(results), "60", seconds=120)
    assert accepts(own[0], own[1], results.read_text().partition("\n")[2])


def test_networks_as_a_list(tmp_path: Path) -> None:
    file, results = ADVISORY / "advisory_25x4.onnx", tmp_path / "results.txt"
    one = f"[('N', '{file}')]"
    prop = ADVISORY / "prop_03_v2.vnnlib"
    assert play("c", one, prop, results, 60).verdict == "unsat"
    two = f"[('f','{file}'),('g','{file}')]"
    assert play("c", two, prop, results, 60).verdict == "unknown"
    script("run_instance.sh", "v1", "c", two, str(prop), str(results), "60", seconds=120)
    assert results.read_text() == "unknown\n"


def test_the_time_limit_includes_the_start_up(tmp_path: Path) -> None:
    """An instance that nobody is known to have decided, with a limit of 2 s; the answer comes before that."""
    results = tmp_path / "results.txt"
    network, prop = benchmark("mnistfc", "mnist-net_256x6.onnx"), benchmark("mnistfc", "prop_1_0.03.vnnlib")
    start = time.monotonic()
    ruling = play("mnistfc", str(network), prop, results, 2)
    assert ruling.verdict in ("timeout", "unknown")
    assert time.monotonic() - start < 2 + 30


@pytest.mark.parametrize(
    ("text", "word"), [("(assert (<= X_0 X_9))", "unknown"), ("no vnnlib", "unknown"), (None, "unknown")]
)
def test_what_cannot_be_read_is_unknown_with_exit_code_0(text: str | None, word: str, tmp_path: Path) -> None:
    prop, results = tmp_path / "prop.vnnlib", tmp_path / "results.txt"
    if text is not None:
        prop.write_text(text)
    done = script(
        "run_instance.sh", "v1", "c", str(ADVISORY / "advisory_25x4.onnx"), str(prop), str(results), "20", seconds=80
    )
    assert (done.returncode, results.read_text()) == (0, f"{word}\n")
    assert "ginnacer:" in done.stderr
    assert not results.with_suffix(".txt.part").exists()


@pytest.mark.parametrize("name", ["install_tool.sh", "prepare_instance.sh", "run_instance.sh"])
def test_another_version_of_the_contract_is_refused(name: str) -> None:
    done = script(name, "v2", seconds=60)
    assert done.returncode == 1
    assert "v1" in done.stderr


def test_install_tool() -> None:
    if subprocess.run(["make", "-q", ".venv/core.done"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("this environment was not made by `make`, and a test does not install")
    assert script("install_tool.sh", "v1", seconds=60).returncode == 0
