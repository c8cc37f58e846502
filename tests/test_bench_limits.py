"""Hard limits of one process, measured from outside."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ginnacer_verify.bench.guardian import session
from ginnacer_verify.bench.limits import run_limited
from ginnacer_verify.deadline import Deadline

PYTHON = (sys.executable, "-S", "-c")


def test_output_exit_code_and_time() -> None:
    outcome = run_limited(["sh", "-c", "echo out; echo err >&2; sleep 0.2; exit 3"], timeout=20)
    assert (outcome.ended, outcome.exit_code, outcome.stdout, outcome.stderr) == ("", 3, "out\n", "err\n")
    assert 0.2 <= outcome.seconds < 20
    assert not outcome.killed


def test_much_output_does_not_block() -> None:
    outcome = run_limited([*PYTHON, "print('x' * 3_000_000)"], timeout=20)
    assert len(outcome.stdout) == 3_000_001


def test_the_time_limit_ends_the_whole_session() -> None:
    # The inner shell makes a process group of its own and ignores what can be ignored.
    script = "trap '' TERM INT; set -m; (trap '' TERM INT; sleep 60) & echo $$; sleep 60"
    outcome = run_limited(["sh", "-c", script], timeout=0.5)
    assert outcome.ended == "timeout"
    assert 0.5 <= outcome.seconds < 20
    assert session(int(outcome.stdout)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="memory is watched through /proc")
def test_the_memory_limit_counts_all_processes() -> None:
    # Two processes of 80 MB each: neither is above the limit of 120 MB alone.
    script = "import os, time; os.fork(); x = b'x' * 80_000_000; time.sleep(60)"
    outcome = run_limited([*PYTHON, script], timeout=60, memory=120_000_000)
    assert outcome.ended == "memory"
    assert outcome.memory > 120_000_000
    assert run_limited([*PYTHON, "x = b'x' * 80_000_000"], timeout=60, memory=120_000_000).exit_code == 0


def test_a_process_left_behind_does_not_hold_us_up() -> None:
    outcome = run_limited(["sh", "-c", "sleep 60 & echo done"], timeout=30)
    assert (outcome.ended, outcome.stdout) == ("", "done\n")
    assert outcome.seconds < 20


def test_stopping_and_being_killed_are_told_apart() -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    outcome = run_limited(["sleep", "60"], timeout=60, stop=stop.is_set)
    assert outcome.ended == "stopped"
    assert not outcome.killed
    assert run_limited(["sh", "-c", "kill -9 $$"], timeout=60).killed


def test_a_command_that_is_not_there_is_an_outcome() -> None:
    outcome = run_limited(["/no/such/verifier"], timeout=5)
    assert outcome.exit_code == 127
    assert "/no/such/verifier" in outcome.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
def test_a_killed_runner_leaves_nothing_behind(tmp_path: Path) -> None:
    note = tmp_path / "process"
    script = (
        "from ginnacer_verify.bench.limits import run_limited\n"
        f"run_limited(['sh', '-c', 'sleep 60 & echo $$ > {note}; wait'], timeout=60)"
    )
    runner = subprocess.Popen([sys.executable, "-c", script])
    _wait_until(lambda: note.exists() and note.read_text().endswith("\n"))
    child = int(note.read_text())
    assert len(session(child)) == 2
    time.sleep(0.5)  # the guardian hears of a process a moment after it has begun
    runner.kill()
    runner.wait()
    _wait_until(lambda: session(child) == [])


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = Deadline.after(30)
    while not condition():
        assert not deadline.passed
        time.sleep(0.02)
