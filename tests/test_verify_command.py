"""`verify`, `supports` and `plot-trace` as commands: arguments, output, exit codes, traces."""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from cases import BY_HAND, Case

from ginnacer_verify.cli import main
from ginnacer_verify.commands import plot_trace, supports, verify
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.progress import read_trace
from ginnacer_verify.errors import InputError, OutOfTime
from ginnacer_verify.graph.onnx import network_model
from ginnacer_verify.loading import load
from ginnacer_verify.properties.property import Variable
from ginnacer_verify.properties.write import to_vnnlib

CASES = {case.name: case for case in BY_HAND}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """A network, a property that holds and one that does not."""
    missed, reached = CASES["corners missed"], CASES["corners reached"]
    network = written(tmp_path / "net.onnx", missed)
    return network, text(tmp_path / "holds.vnnlib", missed), text(tmp_path / "fails.vnnlib", reached)


def written(path: Path, case: Case) -> str:
    path.write_bytes(network_model(case.network))
    return str(path)


def text(path: Path, case: Case) -> str:
    path.write_text(to_vnnlib(case.prop))
    return str(path)


def call(module: ModuleType, *words: str) -> int:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    for flag in ("--json", "--quiet", "--debug"):
        parser.add_argument(flag, action="store_true")
    return int(module.run(parser.parse_args(words)))


def test_unsat(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(verify, files[0], files[1], "--quiet") == 0
    assert capsys.readouterr().out == "unsat\n"


def test_sat_prints_the_witness_and_writes_it(
    files: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(verify, files[0], files[2], "--witness", str(tmp_path / "w"), "--quiet") == 0
    first, rest = capsys.readouterr().out.split("\n", 1)
    assert first == "sat"
    assert rest == (tmp_path / "w").read_text()
    assert "X_1" in rest


def test_the_standards_way_of_calling(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(verify, files[1], "--network", f"N={files[0]}", "--timeout", "20", "--quiet") == 0
    assert capsys.readouterr().out == "unsat\n"


def test_no_time_is_undecided(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(verify, files[0], files[1], "--timeout", "0") == 1
    shown = capsys.readouterr()
    assert shown.out == "timeout\n"
    assert "Time limit reached" in shown.err


def test_json_has_all_its_fields(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    call(verify, files[0], files[1], "--engine", "cegar", "--json")
    document = json.loads(capsys.readouterr().out)
    assert {"verdict", "reason", "seconds", "engine", "rounds", "relus", "counterexample"} <= set(document)
    assert document["verdict"] == "unsat"
    assert document["counterexample"] is None
    assert document["relus"]["total"] == document["relus"]["unstable"] == 4
    assert 0 < document["relus"]["kept"] <= 4
    call(verify, files[0], files[2], "--json")
    found = json.loads(capsys.readouterr().out)["counterexample"]
    assert len(found["x"]) == 2
    assert found["y"][0] <= -0.99


def test_running_out_of_time_in_the_standards_words(
    files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(verify, files[1], "--network", f"N={files[0]}", "--timeout", "0") == 1
    assert capsys.readouterr().out == "timed-out\n"


@pytest.mark.parametrize(("declared", "fits"), [("real", True), ("float32", True), ("float64", False)])
def test_an_element_type_that_the_network_has_not_is_refused(
    files: tuple[str, str, str], tmp_path: Path, declared: str, fits: bool
) -> None:
    prop = replace(CASES["corners missed"].prop, x=Variable("X", (2,), declared), y=Variable("Y", (1,), declared))
    (tmp_path / "two.vnnlib").write_text(to_vnnlib(prop, "2.0"))
    if fits:
        assert call(verify, str(tmp_path / "two.vnnlib"), "--network", f"N={files[0]}") == 0
    else:
        with pytest.raises(InputError, match="declares float64 inputs, but the network takes float32"):
            call(verify, str(tmp_path / "two.vnnlib"), "--network", f"N={files[0]}")


@pytest.mark.parametrize(
    "words",
    [("one",), ("one", "two", "three"), ("one", "two", "--network", "N=three"), ("one", "--network", "N=")],
)
def test_too_few_or_too_many_files(words: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="one network and one property"):
        call(verify, *words)


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "soon"])
def test_no_number_of_seconds(files: tuple[str, str, str], seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call(verify, files[0], files[1], f"--timeout={seconds}")
    assert f"must be a number of seconds, 0 or more, not {seconds}" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--threads", "0"), ("--threads=-3",), ("--seed=-1",), ("--per-round", "0")])
def test_numbers_that_make_no_sense(
    files: tuple[str, str, str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        call(verify, files[0], files[1], *words)
    assert "or more, not " in capsys.readouterr().err


def test_a_trace_is_written_read_and_drawn(
    files: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    trace = tmp_path / "run.jsonl"
    call(verify, files[0], files[1], "--engine", "cegar", "--per-round", "1", "--trace", str(trace), "--quiet")
    rounds = read_trace(trace)
    assert len(rounds) > 1
    for field in ("round", "kept_per_layer", "answer", "seconds", "deviation", "bound", "box"):
        assert all(field in record for record in rounds)
    assert rounds[-1]["answer"] == "unsat"
    capsys.readouterr()
    assert call(plot_trace, str(trace), "-o", str(tmp_path / "run.png")) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("content", ["", "no json", '{"round": 1}', "[1]", "3"])
def test_what_is_no_trace_is_refused(tmp_path: Path, content: str) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "t").write_text(content)
    with pytest.raises(InputError):
        call(plot_trace, str(tmp_path / "t"), "-o", str(tmp_path / "t.png"))


def test_a_trace_that_cannot_be_written_is_refused(files: tuple[str, str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="trace"):
        call(verify, files[0], files[1], "--trace", str(tmp_path / "no" / "folder"), "--engine", "cegar")


@pytest.mark.parametrize("name", supports.CAPABILITIES)
def test_supports_answers_every_question(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(supports, f"--{name}") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert len(lines) == 2 or not name.endswith("versions"), "the oldest and the newest"
    if name in {"optimised-disjunctive-reasoning", "serialise-assignments"}:
        assert lines[0] in {"true", "false"}


def test_supports_needs_a_question() -> None:
    with pytest.raises(InputError, match="--onnx-operators"):
        call(supports)


def test_the_deadline_covers_reading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[1] / "vnnlib" / "advisory"
    files = [str(folder / "advisory_25x4.onnx"), str(folder / "prop_03.vnnlib")]
    assert main(["verify", *files, "--timeout", "0"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "timeout"
    assert "Time limit reached before the property was read" in err
    with pytest.raises(OutOfTime, match="the network was read"):
        load(files[0], deadline=Deadline.after(0))
