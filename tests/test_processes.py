"""Children end with their parents, and what cannot be interrupted is given to one: nothing outlives its deadline."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import vnnlib
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.errors import OutOfTime, UnsupportedProperty, VnnlibSyntaxError
from ginnacer_verify.properties import vnnlib2
from ginnacer_verify.properties.vnnlib import parse_vnnlib

DECLARED = "(vnnlib-version <2.0>)\n(declare-network f (declare-input X real [2]) (declare-output Y real [2]))\n"
SLEEPS = """import os, sys, time
from ginnacer_verify.query.process import serve

def answer(question, seconds):
    with open(question, "w") as note:
        print(os.getpid(), file=note)
    time.sleep(600)

serve(answer)"""
ASKS = """import sys
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.query.process import Child

Child("a solver", (sys.executable, "-c", sys.argv[1])).ask(sys.argv[2], Deadline.after(600))"""


def _is_alive(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = Deadline.after(30)
    while not condition():
        assert not deadline.passed
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGKILL", "SIGINT"])
def test_a_solver_at_work_dies_with_who_asked_it(name: str, tmp_path: Path) -> None:
    note = tmp_path / "process"
    with subprocess.Popen([sys.executable, "-c", ASKS, SLEEPS, note], stderr=subprocess.DEVNULL) as parent:
        _wait_until(lambda: note.exists() and note.read_text().endswith("\n"))
        os.kill(parent.pid, signal.Signals[name])
        parent.wait(30)
    _wait_until(lambda: not _is_alive(int(note.read_text())))


POOL = """import os, sys, time
from pathlib import Path
from ginnacer_verify.loading.workers import workers

def note(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)

if __name__ == "__main__":
    with workers(2) as pool:
        list(pool.map(note, [sys.argv[1]] * 6))"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGKILL", "SIGINT"])
def test_workers_die_with_who_asked_them(name: str, tmp_path: Path) -> None:
    notes, program = tmp_path / "notes", tmp_path / "program.py"
    notes.mkdir()
    program.write_text(POOL)
    with subprocess.Popen([sys.executable, program, notes], stderr=subprocess.DEVNULL) as parent:
        _wait_until(lambda: len(list(notes.iterdir())) == 2)
        os.kill(parent.pid, signal.Signals[name])
        parent.wait(30)
    _wait_until(lambda: not any(_is_alive(int(file.name)) for file in notes.iterdir()))


def test_workers_answer_and_are_gone(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(POOL.replace("time.sleep(600)", "return int(os.path.exists(folder))"))
    program.write_text(program.read_text().replace("list(", "print(*").replace("* 6))", "* 6))\n    print('done')"))
    done = subprocess.run([sys.executable, program, tmp_path], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["1"] * 6 + ["done"]


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vnnlib2, "LARGE", 10)


def _text(assertions: str) -> str:
    return f"{DECLARED}(assert (and (>= X[0] 0.0) (<= X[0] 1.0) (>= X[1] 0.0) (<= X[1] 1.0)))\n{assertions}\n"


@pytest.mark.usefixtures("_small")
def test_a_large_property_is_read_as_a_small_one() -> None:
    text = _text("(assert (or (<= Y[0] 0.25) (>= Y[0] Y[1])))")
    here, there = parse_vnnlib(text), parse_vnnlib(text, deadline=Deadline.after(60))
    assert [d.box.lower.tolist() for d in here.disjuncts] == [d.box.lower.tolist() for d in there.disjuncts]
    assert [d.outputs.matrix.tolist() for d in here.disjuncts] == [d.outputs.matrix.tolist() for d in there.disjuncts]
    assert there.disjuncts[0].box is there.disjuncts[1].box


@pytest.mark.usefixtures("_small")
def test_what_is_wrong_with_a_large_property_is_said_with_its_line() -> None:
    deadline = Deadline.after(60)
    with pytest.raises(VnnlibSyntaxError, match="prop:4"):
        parse_vnnlib(_text("(assert (<= Y[0] nothing))"), source="prop", deadline=deadline)
    with pytest.raises(UnsupportedProperty):
        parse_vnnlib(_text("").replace("X real", "X float16"), source="prop", deadline=deadline)


def test_the_deadline_holds_while_the_parser_of_the_standard_is_at_work() -> None:
    many = " ".join(f"(and (<= Y[0] {i}.5) (>= Y[1] {i}.25))" for i in range(200_000))
    text, start = _text(f"(assert (or {many}))"), time.monotonic()
    vnnlib.parse_query_string(text)
    alone, start = time.monotonic() - start, time.monotonic()
    with pytest.raises(OutOfTime, match="the property was read"):
        parse_vnnlib(text, deadline=Deadline.after(alone / 5))
    assert time.monotonic() - start < alone
