"""`bench run --dask` with a real scheduler and real workers, on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench_lists import bench, call, journal, write_list, write_tool

from ginnacer_verify.bench import cluster as cluster_module
from ginnacer_verify.bench.guardian import session
from ginnacer_verify.bench.measure import Limits
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.errors import InputError

pytest.importorskip("distributed", reason="Dask is not installed: pip install dask distributed")
VNNLIB = Path(__file__).resolve().parent.parent / "vnnlib"
VERDICTS = [("sat", "unsat", "unknown")[number % 3] for number in range(60)]


def start(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Cluster:
    """A scheduler and its workers, each a process of its own."""

    def __init__(self, folder: Path, workers: int) -> None:
        file = folder / "scheduler.json"
        self.scheduler = dask("scheduler", "--port", "0", "--scheduler-file", str(file))
        wait_until(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
        self.address = str(json.loads(file.read_text())["address"])
        words = (self.address, "--nthreads", "1", "--no-nanny", "--memory-limit", "0")
        self.workers = [dask("worker", *words) for _ in range(workers)]

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def dask(*words: str) -> "subprocess.Popen[bytes]":
    return start([sys.executable, "-m", "dask", *words, "--host", "127.0.0.1", "--no-dashboard"])


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    found = Cluster(folder, workers)
    try:
        yield found
    finally:
        found.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = Deadline.after(30)
    while not condition():
        assert not deadline.passed
        time.sleep(0.01)


def lines(folder: Path) -> int:
    file = folder / "results.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def test_a_killed_worker_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", VERDICTS)
    tools = write_tool(tmp_path, "sh -c 'sleep 0.1; tail -q -n 1 $0 $1'")
    with cluster(tmp_path, workers=3) as found:
        words = (path, "-o", tmp_path / "out", "--tools", tools, "--only-peers", "--dask", found.address)
        run = start(bench(*words))
        wait_until(lambda: lines(tmp_path / "out") >= 10)
        found.workers[0].kill()
        assert run.wait(60) == 0
    rows = {row["property"]: row["verdict"] for row in journal(tmp_path / "out")}
    assert rows == {f"prop_{number}.vnnlib": verdict for number, verdict in enumerate(VERDICTS)}
    assert lines(tmp_path / "out") == 60


def test_ctrl_c_ends_what_runs_on_the_workers_and_the_rest_is_resumed(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", ["sat", "unsat", "sat"])
    note, go = tmp_path / "process", tmp_path / "go"
    tools = write_tool(tmp_path, f"sh -c 'if ! test -e {go}; then echo $$ > {note}; sleep 60; fi; tail -q -n 1 $0 $1'")
    with cluster(tmp_path, workers=1) as found:
        words = (
            path,
            "-o",
            tmp_path / "out",
            "--tools",
            tools,
            "--only-peers",
            "--timeout",
            60,
            "--dask",
            found.address,
        )
        run = start(bench(*words))
        wait_until(lambda: note.exists() and note.read_text().endswith("\n"))
        process = int(note.read_text())
        assert session(process)
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == 130
        wait_until(lambda: not session(process))
        go.touch()
        assert call(*words, "--resume").returncode == 0
    assert sorted(row["property"] for row in journal(tmp_path / "out")) == [f"prop_{n}.vnnlib" for n in range(3)]


def test_our_verifier_on_a_worker(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=1) as found:
        words = (VNNLIB / "pade" / "instances.csv", "-o", tmp_path / "out", "--first", 2, "--dask", found.address)
        assert call(*words).returncode == 0
    assert [(row["verdict"], row["expected"]) for row in journal(tmp_path / "out")] == [
        ("unsat", "unsat"),
        ("sat", "sat"),
    ]


def test_a_scheduler_that_is_lost_is_told(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", ["sat"])
    tools = write_tool(tmp_path, "sh -c 'sleep 60'")
    words = (path, "-o", tmp_path / "out", "--tools", tools, "--only-peers")
    with cluster(tmp_path, workers=1) as found:
        run = subprocess.Popen(bench(*words, "--dask", found.address), stderr=subprocess.PIPE, text=True)
        wait_until(lambda: (tmp_path / "out" / "meta.json").exists())
        time.sleep(3)
        os.kill(found.scheduler.pid, signal.SIGKILL)
        _, problem = run.communicate(timeout=60)
    assert run.returncode == 2
    assert "--resume" in problem


def test_no_worker_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "WORKER_PATIENCE", 0.5)
    with cluster(tmp_path, workers=0) as found, pytest.raises(InputError, match=r"dask worker tcp://"):
        list(cluster_module.rows_on_cluster([], Limits(), found.address))
