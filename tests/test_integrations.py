"""Adapters for other tools, and the entry of a solver database, are used as those tools use them."""

import configparser
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from ginnacer_verify.bench.own import own_instances
from ginnacer_verify.version import __version__

ROOT = Path(__file__).resolve().parent.parent
SETS = own_instances()
NET, FAILS, HOLDS = (
    SETS / "digits" / name for name in ("digits_32x2.onnx", "image_003_0.04.vnnlib", "image_077_0.05.vnnlib")
)
ENTRY = ROOT / "solvers" / "ginnacer" / __version__


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "integrations" / f"{name}.py")
    assert spec
    assert spec.loader
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


def test_auto_verify() -> None:
    verifier = module("ada_verona").Ginnacer(timeout=30)
    proved, refuted = (verifier.verify_property(NET, prop) for prop in (HOLDS, FAILS))
    assert (proved.result, proved.counter_example) == ("UNSAT", None)
    assert refuted.result == "SAT"
    assert refuted.counter_example.startswith("((X_0")
    instance = SimpleNamespace(network=NET, property=HOLDS, timeout=30)
    assert verifier.verify_instance(instance).result == "UNSAT"
    assert verifier.verify_property(HOLDS, NET).result == "ERR"


def test_dnnv() -> None:
    verify = module("dnnv_style").verify
    assert verify(HOLDS, N=NET) == ("unsat", None)
    word, x = verify(FAILS, N=NET)
    assert (word, x.size) == ("sat", 64)


def test_the_solver_entry_says_what_the_program_does() -> None:
    """Its commands, with the placeholders filled in, are run as a driver would."""
    entry = tomllib.loads((ENTRY / "solver.toml").read_text())
    assert entry["solver"]["version"] == __version__
    commands = entry["commands"]

    def run(which: str, **values: object) -> "subprocess.CompletedProcess[str]":
        words = shlex.split(commands[which].format(**values))
        assert words[0] == "ginnacer"
        return subprocess.run([sys.executable, "-m", "ginnacer_verify", *words[1:]], capture_output=True, text=True)

    assert run("name").stdout.strip() == entry["solver"]["name"]
    assert run("version").stdout.strip() == __version__
    query = SETS / "advisory" / "prop_03_v2.vnnlib"
    done = run("verify", query=query, name="N", network=SETS / "advisory" / "advisory_25x4.onnx", timeout=60)
    assert done.stdout.splitlines()[0] == entry["output"]["words"]["unsat"]
    assert str(done.returncode) in entry["output"]["exit_codes"]
    assert run("supports", question="--onnx-operators").returncode == 0


def test_the_official_driver(tmp_path: Path) -> None:
    """Where the `vnnlib` package offers one."""
    driver = pytest.importorskip("vnnlib.driver", reason="this release of vnnlib has no driver")
    assert driver


def test_the_installer_is_a_program() -> None:
    script = ENTRY / "install.sh"
    assert script.stat().st_mode & 0o100
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0


def test_caisar_detects_the_program() -> None:
    """The switch and the expression for the version, as Why3 uses them, find our version."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "integrations" / "caisar-detection-autodetect.conf")
    (section,) = parser.sections()
    values = {name: value.strip('"') for name, value in parser[section].items()}
    shown = subprocess.run(
        [sys.executable, "-m", "ginnacer_verify", values["version_switch"]], capture_output=True, text=True
    ).stdout
    expression = values["version_regexp"].replace("\\\\(", "(").replace("\\\\)", ")")
    found = re.search(expression, shown)
    assert found
    assert found[1] == values["version_ok"] == __version__
    assert "verify" in values["command"]
