"""The command line: result lines, JSON, exit codes, one sentence for every error, and a quick start."""

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from models import Graph, dense

from ginnacer_verify.cli import COMMANDS, main
from ginnacer_verify.version import __version__

HEAVY = {"numpy", "torch", "onnx", "onnxruntime", "matplotlib", "pandas", "scipy", "highspy"}

PROPERTY = """
(declare-const X_0 Real) (declare-const X_1 Real) (declare-const X_2 Real)
(declare-const Y_0 Real) (declare-const Y_1 Real)
(assert (and (>= X_0 0) (<= X_0 1) (>= X_1 0) (<= X_1 1) (>= X_2 0.5) (<= X_2 0.5)))
(assert (or (<= Y_0 Y_1) (>= Y_0 1000)))
"""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    file.write_bytes(dense(seed=1))
    return file


@pytest.fixture
def prop(tmp_path: Path) -> Path:
    file = tmp_path / "prop.vnnlib"
    file.write_text(PROPERTY)
    return file


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_check_as_json(capsys: pytest.CaptureFixture[str], network: Path, prop: Path) -> None:
    code, out, err = run(capsys, "check", network, prop, "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert (document["inputs"], document["outputs"], document["varying_inputs"]) == (3, 2, 2)
    assert (document["relus"], document["disjuncts"], document["boxes"]) == (12, 2, 1)
    assert document["functions"] == [{"function": "Relu", "values": 6}] * 2
    assert document["operators"]["Gemm"] == {"count": 2, "status": "supported"}


def test_check_as_text(capsys: pytest.CaptureFixture[str], network: Path, prop: Path) -> None:
    code, out, _ = run(capsys, "check", network, prop)
    assert code == 0
    assert "varying inputs  2 of 3" in out
    assert "Relu 6, Relu 6" in out


def test_check_without_a_property(capsys: pytest.CaptureFixture[str], network: Path) -> None:
    code, out, _ = run(capsys, "check", network, "--json")
    assert code == 0
    assert json.loads(out)["disjuncts"] is None


def test_check_shows_all_operators_before_it_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    graph = Graph([1, 2])
    graph.add("Abs")
    graph.add("Hardmax")
    graph.add("Relu")
    file = tmp_path / "other.onnx"
    file.write_bytes(graph.model())
    code, out, err = run(capsys, "check", file)
    assert code == 2
    assert [line.split()[-1] for line in out.splitlines()] == ["supported", "unsupported", "supported"]
    assert "other.onnx: operator Hardmax (node 'node1')" in err


def test_replay(capsys: pytest.CaptureFixture[str], network: Path, prop: Path, tmp_path: Path) -> None:
    witness = tmp_path / "witness.json"
    verdicts = set()
    for x in (0.0, 0.25, 0.5, 0.75, 1.0):
        for y in (0.0, 0.25, 0.5, 0.75, 1.0):
            witness.write_text(json.dumps({"x": [x, y, 0.5]}))
            code, out, _ = run(capsys, "replay", network, prop, witness, "--json")
            document = json.loads(out)
            assert code == (0 if document["verdict"] == "counterexample" else 1)
            assert (document["verdict"] == "counterexample") == (document["y"][0] <= document["y"][1])
            verdicts.add(document["verdict"])
    assert verdicts == {"counterexample", "spurious"}
    witness.write_text(json.dumps({"x": [0.5, 0.5, 0.75]}))
    code, out, _ = run(capsys, "replay", network, prop, witness)
    assert out.startswith("spurious: input 2 is 0.75, outside of [0.5, 0.5]")


def test_replay_of_a_tie_and_of_what_overflows(
    capsys: pytest.CaptureFixture[str], network: Path, prop: Path, tmp_path: Path
) -> None:
    """A strict row is safe at equality; JSON has no infinity."""
    witness = tmp_path / "witness.json"
    witness.write_text(json.dumps({"x": [0.0, 0.0, 0.5]}))
    y = json.loads(run(capsys, "replay", network, prop, witness, "--json")[1])["y"]
    for relation, word in (("<", "safe"), ("<=", "unsafe")):
        prop.write_text(PROPERTY.replace("(or (<= Y_0 Y_1) (>= Y_0 1000))", f"({relation} Y_0 {Decimal(y[0]):f})"))
        assert run(capsys, "replay", network, prop, witness)[1].split()[-1] == word
    graph = Graph([1, 3])
    graph.add("Gemm", np.full((3, 2), 1e30, dtype="f4"), np.zeros(2, dtype="f4"))
    network.write_bytes(graph.model())
    witness.write_text(json.dumps({"x": [1e30, 1e30, 1e30]}))
    document = json.loads(run(capsys, "replay", network, prop, witness, "--json")[1], parse_constant=pytest.fail)
    assert document["verdict"] == "spurious"
    assert document["slacks"] == [None]


@pytest.mark.parametrize("command", ["check", "replay", "verify"])
def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    absent = tmp_path / "absent.onnx"
    words = {"check": [absent], "replay": [absent] * 3, "verify": [absent] * 2}[command]
    for options in ([], ["--json"], ["--quiet"]):
        code, out, err = run(capsys, command, *words, *options)
        assert code == 2
        assert err.startswith("ginnacer: ")
        assert err.count("\n") == 1
        assert "absent.onnx" in err
        assert bool(out) == ("--json" in options)
    assert json.loads(run(capsys, command, *words, "--json")[1])["exit_code"] == 2


def test_warnings_of_packages_do_not_reach_the_user(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An infinite weight makes numpy warn before we refuse it."""
    graph = Graph([1, 2])
    graph.add("Gemm", np.array([[np.inf, 1.0], [0.0, 1.0]], dtype="f4"), np.zeros(2, dtype="f4"))
    file = tmp_path / "infinite.onnx"
    file.write_bytes(graph.model())
    code, _, err = run(capsys, "check", file, "--quiet")
    assert code == 2
    assert err == f"ginnacer: {file}: a weight or bias is not a finite number; retrain or repair the network\n"


def test_a_property_of_another_network(capsys: pytest.CaptureFixture[str], tmp_path: Path, prop: Path) -> None:
    file = tmp_path / "wide.onnx"
    file.write_bytes(dense(inputs=5))
    code, _, err = run(capsys, "check", file, prop)
    assert code == 2
    assert "3 inputs and 2 outputs, but the network has 5 and 2" in err


def test_a_fault_of_ours_is_a_sentence_unless_debugging(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, network: Path
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("ginnacer_verify.commands.check.load", fail)
    code, _, err = run(capsys, "check", network)
    assert code == 3
    assert "fault of ours (ZeroDivisionError: by nothing)" in err
    with pytest.raises(ZeroDivisionError):
        main(["check", str(network), "--debug"])


def test_interruption_is_not_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, network: Path
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ginnacer_verify.commands.check.load", interrupt)
    assert run(capsys, "check", network) == (130, "", "ginnacer: interrupted\n")


@pytest.mark.parametrize(("option", "text"), [("--version", __version__), ("--name", "ginnacer-verify")])
def test_name_and_version(option: str, text: str) -> None:
    program = subprocess.run([sys.executable, "-m", "ginnacer_verify", option], capture_output=True, text=True)
    assert (program.returncode, program.stdout, program.stderr) == (0, f"{text}\n", "")


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["--name"]])
def test_start_up_imports_nothing_heavy(words: list[str]) -> None:
    code = f"import sys\nfrom ginnacer_verify.cli import main\ntry: main({words})\nexcept SystemExit: pass\n"
    code += "print(*sys.modules)"
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & {name.partition(".")[0] for name in program.stdout.splitlines()[-1].split()}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "--json" in out
    assert "--quiet" in out


def test_no_command_prints_help_and_an_unknown_one_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "verify" in capsys.readouterr().out
    assert main(["frobnicate"]) == 2
    assert "choose from demo, verify" in capsys.readouterr().err
