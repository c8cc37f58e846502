"""What people see: one sentence after each verdict, exit codes, documents that fit their schema, witness files."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from scripted import Scripted

import ginnacer_verify as gv
from ginnacer_verify.bench.own import own_instances
from ginnacer_verify.box import Box
from ginnacer_verify.cli import main
from ginnacer_verify.commands.sentence import sentence, shortened
from ginnacer_verify.engines.verdict import Holds, Statistics, Undecided, Violated
from ginnacer_verify.errors import InputError, UnsupportedOperator
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.lab.cells import source_files
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.query.query import Sat, Unknown
from ginnacer_verify.robust.images import image, original, png, signed

ROOT = Path(__file__).resolve().parent.parent
SETS = own_instances()
NET, FAILS, HOLDS = (
    str(SETS / "digits" / name) for name in ("digits_32x2.onnx", "image_003_0.04.vnnlib", "image_077_0.05.vnnlib")
)
HARD = str(SETS / "digits" / "image_188_0.1.vnnlib")
SCHEMA = json.loads((ROOT / "docs/schema/output.json").read_text())


def program(*words: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([sys.executable, "-m", "ginnacer_verify", *words], capture_output=True, **options)


def fits(text: str, kind: str) -> Any:
    """The document, if it fits its part of the schema."""
    document = json.loads(text)
    jsonschema.validate(document, {**SCHEMA, "$ref": f"#/$defs/{kind}"})
    return document


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (("verify", NET, HOLDS), 0, "verify"),
        (("verify", NET, FAILS), 0, "verify"),
        (("verify", NET, HOLDS, "--timeout", "0"), 1, "verify"),
        (("verify", NET, HOLDS, "--engine", "cegar"), 0, "verify"),
        (("verify", FAILS, NET), 2, "error"),
        (("check", NET, HOLDS), 0, "check"),
        (("check", FAILS), 2, "error"),
        (("replay", NET, FAILS, str(SETS.joinpath("absent"))), 2, "error"),
        (("doctor", "--fast"), 0, "doctor"),
    ],
)
def test_documents_fit_the_schema(
    words: tuple[str, ...], code: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--json"]) == code
    document = fits(capsys.readouterr().out, kind)
    assert document.get("exit_code", code) == code


def test_a_data_set_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = [np.clip(original(gv.read_vnnlib(file).boxes[0]), 0, 1) for file in (FAILS, HOLDS)]
    np.save(tmp_path / "x.npy", np.array(images).reshape(2, 8, 8))
    np.save(tmp_path / "y.npy", gv.load(NET)(np.array(images)).argmax(axis=1))
    words = ["robust", NET, str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), "--eps", "0.01", "0.05"]
    documents = []
    for _ in range(2):
        assert main([*words, "-o", str(tmp_path / "out"), "--json"]) == 0
        documents.append(fits(capsys.readouterr().out, "robust"))
    assert documents[0] == documents[1]
    assert [row["certified"] for row in documents[0]["table"]] == [1.0, 0.5]
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert "2 becomes 1" in page
    assert (tmp_path / "out/results.csv").read_text().count("\n") == 5
    assert np.load(tmp_path / "out/adversarial.npz")["0_0.05"].shape == gv.load(NET).input_shape
    assert main([*words[:2], NET, *words[3:], "-o", str(tmp_path / "out")]) == 2
    assert "is not an array" in capsys.readouterr().err


def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "unsat: never. Proved by" in shown
    assert "sat: no. Counterexample: output 1" in shown
    assert (tmp_path / "counterexample.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "abstraction.svg").read_text().startswith("<svg")
    assert main(["demo", "-o", str(tmp_path), "--json"]) == 0
    fits(capsys.readouterr().out, "demo")


def test_pictures_are_read_by_others() -> None:
    from io import BytesIO

    from matplotlib.image import imread

    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert (np.rint(imread(BytesIO(png(pixels))) * 255) == pixels).all()
    assert (signed(np.array([[0.0, 1.0, -1.0]]), 1.0) == [[[255] * 3, [255, 0, 0], [0, 0, 255]]]).all()


def test_the_schema_refuses_other_documents() -> None:
    with pytest.raises(jsonschema.ValidationError):
        fits('{"verdict": "unsat"}', "verify")


def test_a_spurious_witness_has_an_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    witness = tmp_path / "w.json"
    for prop, code, word in ((FAILS, 0, "counterexample"), (HOLDS, 1, "spurious")):
        main(["verify", NET, FAILS, "--witness", str(tmp_path / "w.txt"), "--quiet"])
        witness.write_text(json.dumps({"x": gv.verify(gv.load(NET), gv.read_vnnlib(FAILS)).counterexample.x.tolist()}))  # type: ignore[union-attr]
        capsys.readouterr()
        assert main(["replay", NET, prop, str(witness), "--json"]) == code
        assert fits(capsys.readouterr().out, "replay")["verdict"] == word


def test_a_reader_that_has_had_enough_is_no_broken_installation() -> None:
    """`verify ... | head -1`: our end of the pipe is closed before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [sys.executable, "-m", "ginnacer_verify", "verify", NET, FAILS], stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    _, err = process.communicate()
    assert process.returncode == 0
    assert b"Exception" not in err
    assert b"Counterexample" in err


def test_a_terminal_gets_the_ends_of_a_witness_and_a_pipe_all_of_it() -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ginnacer_verify", "verify", NET, FAILS, "--quiet"], stdout=follower
    )
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 65536):
            shown += part
    except OSError:  # the other end is closed
        pass
    assert process.wait() == 0
    assert len(shown.splitlines()) == 12
    assert b"64 more lines" in shown
    assert len(program("verify", NET, FAILS).stdout.splitlines()) == 75


@pytest.mark.parametrize("first", [True, False])
def test_files_from_stdin(first: bool) -> None:
    words = ("-", FAILS) if first else (NET, "-")
    done = program("verify", *words, input=Path(NET if first else FAILS).read_bytes())
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, b"sat")


def test_not_both_from_stdin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-", "-"]) == 2
    assert "only one of the network and the property" in capsys.readouterr().err


def test_swapped_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["verify", FAILS, NET], ["check", FAILS], ["replay", FAILS, NET, NET]):
        assert main(words) == 2
        assert "are the arguments swapped?" in capsys.readouterr().err


def test_witness_files(tmp_path: Path) -> None:
    for suffix in ("txt", "npy", "png"):
        assert main(["verify", NET, FAILS, "--quiet", "--witness", str(tmp_path / f"w.{suffix}")]) == 0
    values = np.load(tmp_path / "w.npy")
    network = gv.load(NET)
    assert (values.shape, values.dtype) == (network.input_shape, network.dtype)
    assert main(["replay", NET, FAILS, str(tmp_path / "w.txt"), "--quiet"]) == 0
    assert (tmp_path / "w.png").read_bytes()[:4] == b"\x89PNG"


def test_the_original_of_a_clipped_box() -> None:
    centre = np.array([0.0, 0.01, 0.5, 0.98, 1.0])
    assert np.allclose(original(Box.around(centre, 0.05, (0.0, 1.0))), centre)


def test_what_is_no_image_is_refused() -> None:
    assert image(np.zeros(12), (1, 3, 2, 2)).shape == (2, 2, 3)
    assert image(np.zeros(9), (9,)).shape == (3, 3)
    with pytest.raises(InputError, match="not images"):
        image(np.zeros(5), (5,))


def numbers(**values: Any) -> Statistics:
    return Statistics(total=100, unstable=22, **values)


@pytest.mark.parametrize(
    ("statistics", "words"),
    [
        (
            numbers(engine="boxes", boxes=27),
            "Proved by splitting the input into 27 boxes; 22 of 100 ReLUs were undecided.",
        ),
        (numbers(engine="phases", boxes=1), "Proved by bounds on the whole input box; 22 of 100 ReLUs were undecided."),
        (
            numbers(engine="highs", rounds=3, kept=8),
            "Proved by abstraction and refinement: 3 queries to highs, at most 8 ReLUs kept; "
            "22 of 100 ReLUs were undecided.",
        ),
        (Statistics(engine="regions"), "Proved by bounds on the whole input box; no ReLU was undecided."),
    ],
)
def test_how_it_was_proved(statistics: Statistics, words: str) -> None:
    assert sentence(Holds((), statistics)) == words


def test_who_wins() -> None:
    prop = gv.read_vnnlib(FAILS)
    verdict = gv.verify(gv.load(NET), prop)
    assert isinstance(verdict, Violated)
    y = verdict.counterexample.y
    assert sentence(verdict, prop) == f"Counterexample: output 1 is {y[1] - y[2]:.3g} above output 2 (part 2 of 9)."


def test_a_limit_that_is_passed() -> None:
    box = Box(np.zeros(64), np.zeros(64))
    y = gv.load(NET)(np.zeros(64))
    for sign, words in ((1.0, "beyond the limit"), (-1.0, "beyond the limit")):
        rows = Polytope.of(sign * 2 * np.eye(10)[3:4], [sign * 2 * y[3] + 1.0])
        prop = Property.of(Disjunct(box, Polytope.everything(64), rows))
        said = sentence(gv.verify(gv.load(NET), prop), prop)
        assert said.startswith(f"Counterexample: output 3 is {y[3]:.4g}, 0.5 {words} {y[3] + sign / 2:.4g}")
    rows = Polytope.of([np.ones(10)], [1e6])
    prop = Property.of(Disjunct(box, Polytope.everything(64), rows))
    assert "the unsafe condition holds, by" in sentence(gv.verify(gv.load(NET), prop), prop)


def test_two_conditions_at_once() -> None:
    box = Box(np.zeros(64), np.ones(64))
    rows = Polytope.of(np.eye(10)[:2], [1e6, 1e6])
    prop = Property.of(Disjunct(box, Polytope.everything(64), rows))
    assert "all 2 unsafe conditions hold, by at least" in sentence(gv.verify(gv.load(NET), prop), prop)


@pytest.mark.parametrize("engine", ["boxes", "phases", "regions", "cegar"])
def test_no_time_proves_nothing(engine: str) -> None:
    verdict = gv.verify(as_chain(gv.load(NET)), gv.read_vnnlib(HOLDS), timeout=0, engine=engine)
    assert isinstance(verdict, Undecided)
    assert (verdict.statistics.parts, verdict.statistics.proved) == (9, 0)
    assert sentence(verdict).startswith("Time limit reached")
    assert sentence(verdict).endswith("; 0 of 9 parts proved.")


def test_some_parts_are_proved_before_time_runs_out() -> None:
    """Bounds prove some of nine parts; the solver of the others takes all the time that it is given."""
    slow = Scripted([Unknown("time limit reached in slow", timeout=True)])
    verdict = gv.verify(gv.load(NET), gv.read_vnnlib(HARD), backend=slow, restarts=0)
    assert isinstance(verdict, Undecided)
    assert 0 < verdict.statistics.proved < 9
    assert f"{verdict.statistics.proved} of 9 parts proved" in sentence(verdict)


def test_a_solution_that_violates_its_own_query_is_not_the_end() -> None:
    """As Marabou's sometimes does: HiGHS answers in its place."""
    garbage = Scripted([lambda query: Sat(np.full(query.base.box.inputs + len(query.base.relus), 1e9))])
    assert gv.verify(gv.load(NET), gv.read_vnnlib(HARD), backend=garbage).holds


def test_long_witnesses_are_shortened_and_short_ones_are_not() -> None:
    assert shortened(["a"] * 24) == ["a"] * 24
    assert len(shortened(["a"] * 1000)) == 11


def test_an_unknown_operator_in_plain_words() -> None:
    assert str(UnsupportedOperator("Hardmax", "n")).startswith("operator Hardmax (node 'n') is not supported; ")


def test_the_digest_of_cells_sees_linked_folders() -> None:
    names = {path.parent.name for path in source_files()}
    assert {"adapters", "properties", "lab"} <= names


def test_an_abstraction_chooses_its_pre_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network, prop = (str(SETS / "advisory" / name) for name in ("advisory_25x4.onnx", "prop_10.vnnlib"))
    assert main(["abstract", network, "--centroid", "box", prop, "-o", str(tmp_path)]) == 0
    assert "pre-layer" in capsys.readouterr().out


def test_the_abstract_example_of_the_readme_proves_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line.split() for line in (ROOT / "README.md").read_text().splitlines()]
    write = next(words for words in lines if words[:2] == ["ginnacer", "abstract"])
    decide = next(words for words in lines if words[:3] == ["ginnacer", "verify", "abstract/abstract.onnx"])
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    assert main(write[1:]) == 0
    capsys.readouterr()
    assert main(decide[1:]) == 0
    assert capsys.readouterr().out == "unsat\n"
