"""What people type wrong: one plain sentence and exit code 2, whatever the command; and what `--help` shows works."""

# ruff: noqa: E501 (one invocation after the other reads better than one on each line)

import json
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ginnacer_verify.cli import COMMANDS, main

ADVISORY, DIGITS = "demo/advisory.onnx demo/head-on.vnnlib", "demo/digits.onnx demo/two.vnnlib"
IMAGES = "demo/digits.onnx demo/images.npy demo/labels.npy"
NETWORKS = ("absent", "folder", "empty", "text", "binary", "demo/two.vnnlib", "demo/images.npy")
"""What is no network."""
PROPERTIES = (
    "absent",
    "folder",
    "empty",
    "text",
    "binary",
    "demo/two.vnnlib",
    "demo/pade.onnx",
    "unbounded",
    "unclosed",
)
"""What is no property of the network that steers an aircraft."""
WRONG = {
    "demo": ["more", "-o empty", "-o", "--timeout 3", "--otput x", "-o /proc/x"],
    "verify": [
        *(f"{file} demo/head-on.vnnlib" for file in NETWORKS),
        *(f"demo/advisory.onnx {file}" for file in PROPERTIES),
        "",
        "demo/advisory.onnx",
        "- -",
        "demo/head-on.vnnlib --network f",
        "demo/head-on.vnnlib --network f=demo/advisory.onnx --network f=demo/pade.onnx",
        *(f"{ADVISORY} {words}" for words in (
            "demo/two.vnnlib", "--timeout -3", "--timeout nan", "--timeout soon", "--engine fast", "--threads 0",
            "--threads two", "--backend gurobi", "--backend absent.toml", "--backend text.toml", "--seed -1",
            "--engine boxes --backend highs", "--abstraction absent.npz", "--abstraction thing", "--refine all",
            "--strategy best-fit", "--abstraction paper --strategy best", "--abstraction paper --layers 9",
            "--abstraction paper --layers x", "--abstraction paper --centroid demo/images.npy", "--trace absent/t",
            "--certificate absent/c", "--certificate c --arithmetic float32", "--arithmetic float16", "--tiemout 3",
        )),
        f"{DIGITS} --witness absent/w", f"{DIGITS} --witness folder", f"{DIGITS} --witness absent/w.png",
    ],
    "robust": [
        "", IMAGES, f"{IMAGES} --eps 0.1",
        *(f"{file} demo/images.npy demo/labels.npy --eps 0.1 -o out" for file in NETWORKS),
        *(f"demo/digits.onnx {file} demo/labels.npy --eps 0.1 -o out" for file in (
            "absent", "text", "demo/labels.npy", "nan.npy", "large.npy", "words.npy", "objects.npy", "number.npy")),
        *(f"demo/digits.onnx demo/images.npy {file} --eps 0.1 -o out" for file in (
            "absent", "text", "demo/images.npy", "halves.npy", "words.npy", "number.npy", "few.npy", "high.npy")),
        *(f"{IMAGES} {words}" for words in (
            "--eps -o out", "--eps -1 -o out", "--eps nan -o out", "--eps 0.1 -o empty", "--eps 0.1 --norm 3 -o out",
            "--eps 0.1 -o out --range 1 0", "--eps 0.1 -o out --range 0", "--eps 0.1 -o out -j 0",
            "--eps 0.1 -o out --first 0", "--eps 0.1 -o out --timeout -1", "--eps 0.1 -o out --raduis")),
    ],
    "compare": [
        "", "demo/digits.onnx", "demo/digits.onnx demo/digits-int8.onnx",
        *(f"demo/digits.onnx {file} --domain 0,1" for file in (*NETWORKS, "demo/pade.onnx")),
        *(f"demo/digits.onnx demo/digits-int8.onnx {words}" for words in (
            "--domain 0", "--domain 1,0", "--domain a,b", "--domain 0,inf", "--box demo/head-on.vnnlib", "--box absent",
            "--domain 0,1 --box demo/two.vnnlib", "--domain 0,1 --epsilon -1", "--domain 0,1 --epsilon x",
            "--domain 0,1 --norm 2", "--domain 0,1 --timeout nan", "--domain 0,1 --timeout -1", "--domain 0,1 --seed x")),
    ],
    "monotone": [
        "", "demo/advisory.onnx", "demo/advisory.onnx --input 0 --output 0",
        *(f"{file} --input 0 --output 0 --domain 0,1" for file in NETWORKS),
        *(f"demo/advisory.onnx --domain 0,1 {words}" for words in (
            "--input 9 --output 0", "--input 0 --output 9", "--input -1 --output 0", "--input x --output 0",
            "--input 0.5 --output 0", "--input 0 --output 0 --timeout nan", "--input 0 --output 0 --timeout -1",
            "--input 0 --output 0 --direction left", "--input 0 --output 0 --box demo/head-on.vnnlib",
            "--input 0 --output 0 more", "--input 0 --output 0 --seed -1")),
        "demo/advisory.onnx --input 0 --output 0 --domain 1,0", "demo/advisory.onnx --input 0 --output 0 --box absent",
    ],
    "check": [
        "", *NETWORKS, *(f"demo/advisory.onnx {file}" for file in PROPERTIES), f"{ADVISORY} more", "--jsno x",
    ],
    "replay": [
        "", "demo/advisory.onnx", ADVISORY, "- - witness", "demo/head-on.vnnlib witness --network x",
        *(f"{file} demo/head-on.vnnlib witness" for file in NETWORKS),
        *(f"demo/advisory.onnx {file} witness" for file in PROPERTIES),
        *(f"{ADVISORY} {file}" for file in (
            "absent", "folder", "empty", "text", "binary", "short", "words.npy", "demo/images.npy", "demo/advisory.onnx")),
    ],
    "certificate": [
        "", "show", f"hide {ADVISORY} proof", f"show {DIGITS} proof",
        *(f"show {file} demo/head-on.vnnlib proof" for file in NETWORKS),
        *(f"show demo/advisory.onnx {file} proof" for file in PROPERTIES),
        *(f"show {ADVISORY} {file}" for file in ("absent", "folder", "empty", "text", "binary")),
        *(f"show {ADVISORY} proof {words}" for words in (
            "--inputs 0", "--inputs 0 -1", "--inputs 0 9 --picture p.png", "--picture p.thing", "--picture absent/p.png")),
    ],
    "abstract": [
        "", "demo/advisory.onnx", "demo/advisory.onnx -o empty",
        *(f"{file} -o out" for file in NETWORKS),
        *(f"demo/advisory.onnx -o out --property {file}" for file in PROPERTIES),
        *(f"demo/advisory.onnx -o out {words}" for words in (
            "--centroid absent", "--centroid text", "--centroid demo/images.npy", "--centroid box", "--strategy thing",
            "--strategy budget=x", "--strategy budget=0", "--strategy budget=1,2", "--layers 0", "--layers 9", "--layers x",
            "--inputs thing", "--inputs shift", "--emit thing", "--emit vnnlib", "--emit ipq", "--form tight --clip",
            "--form loose", "--seed -1", "--centroid box demo/head-on.vnnlib more")),
    ],
    "refine": [
        "", "out/abstract.npz", "out/abstract.npz --witness witness", "out/abstract.npz --witness far -o next",
        *(f"{file} --witness witness -o next" for file in ("absent", "folder", "empty", "text", "demo/images.npy")),
        *(f"out/abstract.npz --witness {file} -o next" for file in ("absent", "folder", "empty", "text", "binary", "short")),
        *(f"out/abstract.npz --witness witness -o next {words}" for words in (
            "--property absent", "--property demo/two.vnnlib", "--refine all", "--per-round 0", "--emit thing",
            "--seed x", "more")),
    ],
    "margins": [
        "", *NETWORKS,
        *(f"demo/advisory.onnx --samples 5 {words}" for words in (
            "--method thing", "--method", "--distances x", "--distances -1", "--distances nan", "--distances ,",
            "--samples 0", "--samples x", "--plot m.doc", "--plot absent/m.png", "--csv absent/m.csv", "--strategy thing",
            "--property demo/two.vnnlib", "--centroid demo/images.npy", "--centroid box", "--layers 9", "--seed -1")),
    ],
    "plot-trace": [
        "", *(["absent", "folder", "empty", "text", "binary", "demo/advisory.onnx", "demo/images.npy", "list"]),
        "trace -o absent/p.png", "trace -o p.thing", "trace more", "trace --ouput p.png",
    ],
    "bench": [
        "", "thing", "run", "run list", "report", "report absent", "report folder", "report text", "fetch thing",
        "fetch --set absent", "fetch --set text", "fetch --set text.toml", "fetch a b", "fetch acasxu --from absent -o out",
        *(f"run {file} -o new" for file in ("absent", "folder", "empty", "text", "binary", "lost")),
        *(f"run list -o new {words}" for words in (
            "--timeout -1", "--timeout x", "--memory 0", "-j 0", "--every 0", "--first 0", "--shard 3/2", "--shard x",
            "--expected absent", "--peer thing", "--tools absent", "--tools text.toml", "--only-peers", "--options=\"'\"",
            "--threads 0", "--resmue")), "run list -o empty",
    ],
    "lab": [
        "", "thing", "motivating more", "motivating -j 0", "motivating --seed -1", "motivating --timeout 0",
        "motivating --timeout nan", "motivating --networks thing", "motivating --networks ,", "motivating -o empty --quick",
    ],
    "doctor": ["more", "--fats", "--fast more"],
    "supports": ["", "more", "--thing", "--onnx-operators more"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the invocations name: the files of the demonstration, and damaged ones."""
    place = tmp_path_factory.mktemp("wrong")
    (place / "folder").mkdir()
    files = {
        "empty": b"",
        "text": b"hello\n",
        "text.toml": b"[[[",
        "binary": bytes(range(256)) * 9,
        "unbounded": b"".join(b"(declare-const X_%d Real)" % i for i in range(5))
        + b"".join(b"(declare-const Y_%d Real)" % i for i in range(5)),
        "unclosed": b"(declare-const X_0 Real",
        "short": b"((X_0 0.1) (X_1 0.2))",
        "far": json.dumps({"x": [9.0] * 5}).encode(),
        "list": b"demo/advisory.onnx,demo/head-on.vnnlib,60\n",
        "lost": b"absent.onnx,demo/head-on.vnnlib,60\n",
    }
    for name, content in files.items():
        (place / name).write_bytes(content)
    arrays: dict[str, Any] = {
        "nan": np.full((450, 64), np.nan),
        "large": np.full((450, 64), 255.0),
        "words": np.array(["a"] * 450),
        "objects": np.array([None] * 450),
        "number": np.float64(3),
        "halves": np.full(450, 0.5),
        "few": np.zeros(449),
        "high": np.full(450, 10),
    }
    for name, values in arrays.items():
        np.save(place / f"{name}.npy", values, allow_pickle=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["demo", "-o", "demo"]) == 0
        assert main(f"verify {ADVISORY} --certificate proof --trace trace --engine cegar".split()) == 0
        assert main(["verify", *ADVISORY.split(), "--certificate", "proof"]) == 0
        assert main(["abstract", "demo/advisory.onnx", "--property", "demo/head-on.vnnlib", "-o", "out"]) == 0
        (place / "witness").write_text(json.dumps({"x": [0.0] * 5}))
    return place


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def test_every_command_has_wrong_words() -> None:
    assert set(WRONG) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_words_are_one_sentence(command: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for line in WRONG[command]:
        code = main([command, *shlex.split(line), "--quiet"])
        answers.append((line, code, capsys.readouterr().err))
    assert [answer for answer in answers if not is_plain(*answer[1:])] == []


def is_plain(code: int, error: str) -> bool:
    """One sentence of ours, without the words of Python or of a library."""
    foreign = ("Errno", "codec", "pickle", "None", "Error", "argument --", "Traceback", "fault of ours")
    one = code == 2 and error.count("\n") == 1 and error.startswith("ginnacer: ")
    return one and not any(phrase in error for phrase in foreign)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("verify a b --timeuot 3", "did you mean --timeout?"),
        ("verfy a b", "did you mean verify?"),
        ("verify a b --engine boxs", "did you mean boxes?"),
        ("demo more", "'more' is one argument too many; see `ginnacer demo --help`"),
    ],
)
def test_the_word_that_was_meant(words: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert meant in capsys.readouterr().err
    assert main([*words.split(), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2


def test_the_examples_of_help_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order in which one makes what the next one reads."""
    monkeypatch.chdir(tmp_path)
    modules = [f"ginnacer_verify.commands.{name.replace('-', '_')}" for name in COMMANDS]
    modules += [f"ginnacer_verify.commands.bench_{name}" for name in ("run", "report")]
    examples = [import_module(module).EXAMPLE for module in modules]
    before = {
        "replay": "verify ginnacer-demo/digits.onnx ginnacer-demo/two.vnnlib --witness witness.txt",
        "certificate": "verify ginnacer-demo/advisory.onnx ginnacer-demo/head-on.vnnlib --certificate proof.gcert",
        "plot-trace": "verify ginnacer-demo/digits.onnx ginnacer-demo/seven.vnnlib --engine cegar --trace trace.jsonl",
    }
    for example in examples:
        name, *words = shlex.split(example)
        assert name == "ginnacer"
        if words[0] in before:
            assert main(before[words[0]].split()) == 0
        if words[0] == "refine":
            middle = np.clip(np.load("ginnacer-demo/images.npy")[77].ravel(), 0, 1)
            Path("witness.txt").write_text(json.dumps({"x": middle.tolist()}))
        if words[:2] == ["bench", "run"]:
            words += ["--resume"] if Path("results").exists() else []
        assert main(words) == 0, example
