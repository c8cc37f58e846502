"""Refinement with files alone: `abstract`, somebody else's verifier, `replay`, `refine`, and round again."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ginnacer_verify.abstraction.npz import load_both
from ginnacer_verify.cli import main
from ginnacer_verify.loading import load

ADVISORY = "vnnlib/advisory/advisory_15x3.onnx", "vnnlib/advisory/prop_03.vnnlib"
PADE = "vnnlib/pade/pade_64x2.onnx", "vnnlib/pade/prop_05.vnnlib"
DIGITS = "vnnlib/digits/digits_32x2.onnx", "vnnlib/digits/image_003_0.02.vnnlib"


def marabou(*words: object) -> str:
    """What Marabou's own program prints."""
    pytest.importorskip("maraboupy")
    command = [sys.executable, "-m", "maraboupy", *map(str, words), "--timeout", "300", "--verbosity", "0"]
    return subprocess.run(command, capture_output=True, text=True, timeout=330, check=False).stdout


def on_the_pair(folder: Path) -> str:
    return marabou(folder / "abstract.onnx", folder / "abstract.vnnlib")


def verdict(text: str) -> str:
    (word,) = {line.strip() for line in text.splitlines()} & {"sat", "unsat"}
    return word


def test_the_pair_proves_the_property(tmp_path: Path) -> None:
    """The example of the README; `unsat` on the pair is `unsat` on the network."""
    assert main(["abstract", DIGITS[0], "--centroid", "box", DIGITS[1], "-o", str(tmp_path), "--quiet"]) == 0
    assert verdict(on_the_pair(tmp_path)) == "unsat"
    assert main(["verify", str(tmp_path / "abstract.onnx"), str(tmp_path / "abstract.vnnlib"), "--quiet"]) == 0


def test_marabou_refutes_refine_splits_and_marabou_proves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Marabou says sat on the first pair, `replay` calls that spurious, `refine` splits; at last Marabou proves it."""
    net, prop = PADE
    assert main(["abstract", net, "--centroid", "box", prop, "-o", str(tmp_path / "0"), "--quiet"]) == 0
    relus, number = load(tmp_path / "0" / "abstract.onnx").relus, 0
    while verdict(said := on_the_pair(tmp_path / str(number))) == "sat":
        witness = tmp_path / f"witness{number}.txt"
        witness.write_text(said[said.index("sat\n") :])
        capsys.readouterr()
        assert main(["replay", net, prop, str(witness), "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["verdict"] == "spurious"
        now, after = tmp_path / str(number), tmp_path / str(number + 1)
        assert main(["refine", str(now / "abstract.npz"), "--witness", str(witness), "-o", str(after), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["verdict"] == "refined"
        assert document["split"]
        number += 1
        assert number < 20
    assert number > 0
    assert load(tmp_path / str(number) / "abstract.onnx").relus > relus


def test_marabou_answers_the_query_file(tmp_path: Path) -> None:
    words = ["abstract", *ADVISORY[:1], "--centroid", "box", ADVISORY[1], "--quiet", "--emit", "ipq,mps"]
    assert main([*words, "-o", str(tmp_path / "first")]) == 0
    assert {file.name for file in (tmp_path / "first").iterdir()} == {"abstract.ipq", "abstract.mps"}
    assert "y0 =" in marabou("--input-query", tmp_path / "first" / "abstract.ipq"), "an assignment: sat"
    assert main([*words, "-o", str(tmp_path / "finer"), "--strategy", "singletons", "--clip"]) == 0
    assert "unsat" in marabou("--input-query", tmp_path / "finer" / "abstract.ipq").split()
    import highspy

    for folder, status in (("first", "kOptimal"), ("finer", "kInfeasible")):
        model = highspy.Highs()
        model.setOptionValue("output_flag", False)
        model.readModel(str(tmp_path / folder / "abstract.mps"))
        model.run()
        assert model.getModelStatus().name == status


def test_a_disjunct_has_a_query_of_its_own(tmp_path: Path) -> None:
    words = ["abstract", DIGITS[0], "--property", DIGITS[1], "-o", str(tmp_path), "--quiet", "--emit", "mps,npz"]
    assert main(words) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"abstract.npz", *(f"abstract.{n}.mps" for n in range(9))}
    _, prop = load_both(tmp_path / "abstract.npz")
    assert prop is not None
    assert len(prop.disjuncts) == 9


def test_what_cannot_be_refined_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, prop = DIGITS[0], "vnnlib/digits/image_003_0.04.vnnlib"
    assert main(["verify", net, prop, "--witness", str(tmp_path / "w.txt"), "--quiet"]) == 0
    assert main(["abstract", net, "--property", prop, "-o", str(tmp_path), "--quiet"]) == 0
    refine = ["refine", str(tmp_path / "abstract.npz"), "-o", str(tmp_path / "next"), "--witness"]
    capsys.readouterr()
    assert main([*refine, str(tmp_path / "w.txt")]) == 1
    assert capsys.readouterr().out.strip() == "counterexample"
    assert not (tmp_path / "next").exists()
    (tmp_path / "far.json").write_text(json.dumps({"x": np.full(64, 99.0).tolist()}))
    assert main([*refine, str(tmp_path / "far.json")]) == 2
    assert "no box" in capsys.readouterr().err
    assert main(["abstract", net, "-o", str(tmp_path / "plain"), "--quiet"]) == 0
    assert main(["refine", str(tmp_path / "plain" / "abstract.npz"), *refine[2:], str(tmp_path / "w.txt")]) == 2
    assert "--property" in capsys.readouterr().err
    assert main(["abstract", net, "-o", str(tmp_path / "plain"), "--emit", "ipq"]) == 2
