"""`bench fetch` from a copy of a repository on this disk, as folder and as URL."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from benchmarks import benchmark
from ginnacer_verify.bench.fetch import Set, cache_folder, fetch, known_sets, parse_set
from ginnacer_verify.bench.instances import read_instances
from ginnacer_verify.cli import main
from ginnacer_verify.errors import InputError

FILES = {"some_instances.csv": "a.onnx,p.vnnlib,5\n", "a.onnx": "a network", "p.vnnlib": "a property"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    for name, text in FILES.items():
        (folder / "benchmarks" / "some").mkdir(parents=True, exist_ok=True)
        (folder / "benchmarks" / "some" / name).write_text(text)
    return folder


def some(**changes: str) -> Set:
    hashes = {name: sha256(text.encode()).hexdigest() for name, text in FILES.items()} | changes
    return Set("some", "title", "who/what", "0" * 40, "benchmarks/some", "some_instances.csv", hashes)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_set_is_fetched_once_and_mended(repository: Path, tmp_path: Path, scheme: str) -> None:
    folder, origin = tmp_path / "cache", f"{scheme}{repository}"
    assert fetch(some(), folder, origin=origin) == 3
    assert fetch(some(), folder, origin=origin) == 0
    (folder / "a.onnx").write_text("half a net")
    (folder / "p.vnnlib").unlink()
    assert fetch(some(), folder, origin=origin) == 2
    (instance,) = read_instances(folder / "instances.csv")
    assert instance.network_files[""].read_text() == "a network"
    assert sorted(path.name for path in folder.iterdir()) == ["a.onnx", "instances.csv", "p.vnnlib"]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_an_interrupted_fetch_goes_on(repository: Path, tmp_path: Path, scheme: str) -> None:
    missing = repository / "benchmarks" / "some" / "a.onnx"
    missing.rename(tmp_path / "kept")
    with pytest.raises(InputError):
        fetch(some(), tmp_path / "cache", origin=f"{scheme}{repository}")
    shutil.move(tmp_path / "kept", missing)
    assert fetch(some(), tmp_path / "cache", origin=f"{scheme}{repository}") == 2


def test_a_file_with_another_hash_is_not_kept(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not what it should be"):
        fetch(some(**{"p.vnnlib": "0" * 64}), tmp_path / "cache", origin=str(repository))
    assert not (tmp_path / "cache" / "p.vnnlib").exists()


def test_without_a_network_it_says_what_to_do(tmp_path: Path) -> None:
    # A port of this machine at which nobody listens.
    with pytest.raises(InputError, match=r"git clone https://github.com/who/what.*bench fetch some --from FOLDER"):
        fetch(some(), tmp_path / "cache", origin="http://127.0.0.1:9")


@pytest.mark.parametrize("name", ["acasxu", "mnistfc"])
def test_known_sets_are_the_public_files(name: str, tmp_path: Path) -> None:
    """Our copies are byte-identical to the public ones; only the list has another name there."""
    wanted, copy = known_sets()[name], tmp_path / "repository"
    (copy / "benchmarks").mkdir(parents=True)
    shutil.copytree(benchmark(name), copy / wanted.folder)
    (copy / wanted.folder).chmod(0o755)
    (copy / wanted.folder / "instances.csv").rename(copy / wanted.folder / wanted.instances)
    assert fetch(wanted, tmp_path / "cache", origin=str(copy)) == len(wanted.hashes)
    assert len(read_instances(tmp_path / "cache" / "instances.csv")) == len(
        read_instances(benchmark(name, "instances.csv"))
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no toml", "not describe a benchmark set"),
        ("title = 'x'", "not describe a benchmark set"),
        ("repository='r'\ntitle='t'\ncommit='c'\nfolder='f'\ninstances='i'\n[sha256]\n'../x' = '0'", "outside"),
        ("repository='r'\ntitle='t'\ncommit='c'\nfolder='f'\ninstances='i'\n[sha256]\n'x' = '0'", "i has no hash"),
    ],
)
def test_what_is_no_set_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_set("mine", text)


def test_the_command(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = some()
    head = [
        f"{name} = {json.dumps(getattr(found, name))}"
        for name in ("title", "repository", "commit", "folder", "instances")
    ]
    hashes = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in found.hashes.items()]
    (tmp_path / "some.toml").write_text("\n".join([*head, "[sha256]", *hashes]))
    assert main(["bench", "fetch", "--set", str(tmp_path / "some.toml"), "--from", str(repository)]) == 0
    assert capsys.readouterr().out.strip() == str(cache_folder() / "some" / "instances.csv")
    assert main(["bench", "fetch", "nonsense"]) == 2
    assert "acasxu" in capsys.readouterr().err
    assert main(["bench", "fetch"]) == 0
    assert "186 instances" in capsys.readouterr().out
