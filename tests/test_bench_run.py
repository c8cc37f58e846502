"""`bench run`: its files, what it compares, and that nothing is lost or double whatever happens to it."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from bench_lists import bench, call, journal, write_list, write_tool

from ginnacer_verify.bench.results import Journal, Row, read_rows
from ginnacer_verify.bench.scores import conflicts, in_common, score
from ginnacer_verify.deadline import Deadline

VNNLIB = Path(__file__).resolve().parent.parent / "vnnlib"
SIXTY = [("sat", "unsat", "unknown")[number % 3] for number in range(60)]
SLOW = "sh -c 'sleep 0.03; tail -q -n 1 $0 $1'"


def row(tool: str, verdict: str, *, seconds: float = 1.0, expected: str = "", prop: str = "p", **more: Any) -> Row:
    return Row("c", "n", prop, tool, verdict, seconds, 60.0, expected, **more)


def test_our_verifier_and_marabou_on_bundled_instances(tmp_path: Path) -> None:
    pytest.importorskip("maraboupy")
    words = (
        VNNLIB / "pade" / "instances.csv",
        "-o",
        tmp_path,
        "--first",
        2,
        "--peer",
        "marabou",
        "--json",
        "--memory",
        4,
    )
    done = call(*words)
    assert done.returncode == 0, done.stderr
    rows = journal(tmp_path)
    assert [(row["tool"], row["verdict"]) for row in rows] == [
        ("ginnacer", "unsat"),
        ("marabou", "unsat"),
        ("ginnacer", "sat"),
        ("marabou", "sat"),
    ]
    assert all(row["verdict"] == row["expected"] for row in rows)
    assert rows[0]["details"]["relus"]["total"] == 128
    assert rows[0]["trace"][-1]["open_boxes"] == 0
    assert rows[0]["memory"] > 10_000_000
    assert len(rows[2]["details"]["counterexample"]["x"]) == 1
    with (tmp_path / "results.csv").open(newline="") as lines:
        table = list(csv.reader(lines))
    assert [line[:5] for line in table] == [
        ["pade", "pade_64x2.onnx", f"prop_0{number}.vnnlib", "0.0", verdict]
        for number, verdict in ((1, "unsat"), (2, "sat"))
    ]
    assert [float(line[5]) for line in table] == [rows[0]["seconds"], rows[2]["seconds"]]
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert {"host", "processor", "cores", "load", "packages"} <= set(meta["runs"][0])
    (own, peer) = json.loads(done.stdout)["tools"]
    assert (own["solved"], peer["solved"], own["points"]) == (2, 2, 20)


def test_limits_are_kept_and_told(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", ["unsat"])
    tools = tmp_path / "tools.toml"
    tools.write_text(
        "[sleeper]\ncommand = 'sh -c \"echo unsat; sleep 60\" {network} {property}'\n"
        "[eater]\ncommand = '''python3 -c \"x = b'x' * 200_000_000; print('unsat', flush=True); "
        "import time; time.sleep(60)\" {network} {property}'''\n"
    )
    call(path, "-o", tmp_path / "out", "--tools", tools, "--only-peers", "--timeout", 2, "--memory", 0.1)
    late, large = journal(tmp_path / "out")
    assert (late["verdict"], late["reason"]) == ("timeout", "killed after 2 s")
    assert 2 <= late["seconds"] < 20
    assert (large["verdict"], large["reason"]) == ("error", "killed with more than 0.1 GB of memory")


def test_a_wrong_verdict_stops_the_run_loudly(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", ["sat", "unsat", "sat"], expected=["sat", "sat", "sat"])
    words = (path, "-o", tmp_path / "out", "--tools", write_tool(tmp_path), "--only-peers")
    stopped = call(*words)
    assert stopped.returncode == 3
    assert "WRONG VERDICT: reader says unsat on net.onnx with prop_1.vnnlib, but sat is known" in stopped.stderr
    assert len(journal(tmp_path / "out")) == 2
    assert call(*words, "--resume").returncode == 3
    assert len(journal(tmp_path / "out")) == 2
    went_on = call(*words, "--resume", "--keep-going")
    assert (went_on.returncode, len(journal(tmp_path / "out"))) == (3, 3)
    assert "1 wrong verdicts" in went_on.stderr


def test_tools_that_contradict_each_other_stop_the_run(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", ["sat", "sat"])
    tools = write_tool(tmp_path)
    tools.write_text(
        tools.read_text() + "[other]\ncommand = 'echo {network} {property}'\nverdict = '(prop)'\n"
        "words = { prop = 'unsat' }\n"
    )
    stopped = call(path, "-o", tmp_path / "out", "--tools", tools, "--only-peers")
    assert stopped.returncode == 3
    assert "CONFLICT: other says unsat" in stopped.stderr
    assert len(journal(tmp_path / "out")) == 2


def test_results_of_another_run_are_not_touched(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", ["sat"])
    words = (path, "-o", tmp_path / "out", "--tools", write_tool(tmp_path), "--only-peers")
    assert call(*words).returncode == 0
    before = (tmp_path / "out" / "results.jsonl").read_text()
    again, other = call(*words), call(*words, "--resume", "--timeout", 9)
    assert (again.returncode, other.returncode) == (2, 2)
    assert "--resume" in again.stderr
    assert "begun with timeout None, not 9.0" in other.stderr
    assert call(*words, "--resume").returncode == 0
    assert (tmp_path / "out" / "results.jsonl").read_text() == before


def test_a_run_that_never_began_needs_no_resume(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    path = write_list(tmp_path / "list", ["sat"])
    words = (path, "-o", tmp_path / "out", "--tools", write_tool(tmp_path), "--only-peers")
    lost = call(*words, "--timeout", 3, "--dask", "tcp://127.0.0.1:9")
    assert lost.returncode == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in lost.stderr
    assert call(*words).returncode == 0


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", ["sat"])
    (tmp_path / "out").mkdir()
    held = Journal(tmp_path / "out")
    done = call(path, "-o", tmp_path / "out", "--tools", write_tool(tmp_path), "--only-peers", "--resume")
    held.close()
    assert done.returncode == 2
    assert "another run" in done.stderr


def test_shards_have_folders_of_their_own_and_cover_the_list(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", SIXTY[:7])
    for part in (1, 2, 3):
        call(path, "-o", tmp_path / "out", "--tools", write_tool(tmp_path), "--only-peers", "--shard", f"{part}/3")
    rows = [row for part in (1, 2, 3) for row in journal(tmp_path / "out" / f"shard-{part}-of-3")]
    assert sorted(row["property"] for row in rows) == [f"prop_{number}.vnnlib" for number in range(7)]


# What can happen in the middle of a run.


@pytest.fixture
def sixty(tmp_path: Path) -> tuple[Path, tuple[object, ...]]:
    """The folder of results and the words of a run of sixty short instances."""
    path = write_list(tmp_path / "list", SIXTY)
    return tmp_path / "out", (path, "--tools", write_tool(tmp_path, SLOW), "--only-peers", "-j", 2, "--resume")


def started(folder: Path, words: tuple[object, ...]) -> "subprocess.Popen[bytes]":
    """The run, when a third of it is done."""
    run = subprocess.Popen(bench(*words, "-o", folder), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_until(lambda: lines(folder) >= 20)
    return run


def lines(folder: Path) -> int:
    file = folder / "results.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = Deadline.after(60)
    while not condition():
        assert not deadline.passed
        time.sleep(0.005)


def check_complete(folder: Path, words: tuple[object, ...]) -> None:
    """After one more start there are exactly sixty rows with the right verdicts."""
    before = lines(folder)
    assert 20 <= before < 60, "the interruption came in the middle"
    done = call(*words, "-o", folder)
    assert done.returncode == 0, done.stderr
    check_rows(folder)


def check_rows(folder: Path) -> None:
    verdicts = {row["property"]: row["verdict"] for row in journal(folder)}
    assert len(journal(folder)) == 60
    assert verdicts == {f"prop_{number}.vnnlib": verdict for number, verdict in enumerate(SIXTY)}
    assert len((folder / "results-reader.csv").read_text().splitlines()) == 60


def test_ctrl_c_in_the_middle(sixty: tuple[Path, tuple[object, ...]]) -> None:
    folder, words = sixty
    run = started(folder, words)
    run.send_signal(signal.SIGINT)
    assert run.wait(30) == 130
    assert len((folder / "results-reader.csv").read_text().splitlines()) == lines(folder)
    check_complete(folder, words)


def test_sigterm_in_the_middle(sixty: tuple[Path, tuple[object, ...]]) -> None:
    folder, words = sixty
    run = started(folder, words)
    run.terminate()
    assert run.wait(30) == 130
    check_complete(folder, words)


def test_kill_of_the_runner_in_the_middle(sixty: tuple[Path, tuple[object, ...]]) -> None:
    folder, words = sixty
    run = started(folder, words)
    run.kill()
    run.wait()
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"category": "list", "network": "net.on')  # a line that was torn by the crash
    check_complete(folder, words)


def workers(runner: int) -> list[int]:
    """The processes of a runner that are alive, without its guardian."""
    found = []
    for thread in Path(f"/proc/{runner}/task").iterdir():
        with suppress(OSError):  # one of them has just ended
            for child in (thread / "children").read_text().split():
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                found += [int(child)] if command and b"guardian" not in command else []
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found through /proc")
def test_kill_of_workers_in_the_middle(sixty: tuple[Path, tuple[object, ...]]) -> None:
    """The run goes on: what was killed is started again."""
    folder, words = sixty
    run = started(folder, words)
    for rows in (20, 40):
        wait_until(lambda rows=rows: lines(folder) >= rows and bool(workers(run.pid)))  # type: ignore[misc]
        for process in workers(run.pid)[:1]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    assert run.wait(60) == 0
    check_rows(folder)


def test_a_process_that_is_always_killed_is_an_error_in_the_end(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", ["sat"])
    tools = write_tool(tmp_path, "sh -c 'kill -9 $$'")
    call(path, "-o", tmp_path / "out", "--tools", tools, "--only-peers")
    (row,) = journal(tmp_path / "out")
    assert (row["verdict"], row["exit_code"]) == ("error", -9)
    assert "killed 3 times by signal 9" in row["reason"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 kB, which is a third of what a run of sixty needs."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be made here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_in_the_middle(small_disk: Path, sixty: tuple[Path, tuple[object, ...]]) -> None:
    folder, words = small_disk / "out", sixty[1]
    full = call(*words, "-o", folder)
    assert full.returncode == 2
    assert "make room and run the same with --resume" in full.stderr
    rows, torn = read_rows(folder / "results.jsonl")
    assert len(rows) >= 20
    assert torn == 0
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    check_complete(folder, words)


def test_the_live_table_on_a_terminal(tmp_path: Path) -> None:
    path = write_list(tmp_path / "list", ["sat", "unsat"], expected=["sat", "sat"])
    words = (path, "-o", tmp_path / "out", "--tools", write_tool(tmp_path), "--only-peers", "--keep-going")
    terminal, end = os.openpty()
    run = subprocess.Popen(bench(*words), stderr=end, stdout=subprocess.DEVNULL, env=os.environ | {"COLUMNS": "100"})
    os.close(end)
    shown = b""
    with suppress(OSError):  # the other end is closed when the run is over
        while piece := os.read(terminal, 1 << 16):
            shown += piece
    os.close(terminal)
    assert run.wait() == 3
    for word in (b"PAR-2", b"reader", b"prop_1.vnnlib", b"ends", "━".encode()):
        assert word in shown


# The journal and the scores by themselves.


def test_a_journal_leaves_out_what_is_torn_and_writes_nothing_twice(tmp_path: Path) -> None:
    book = Journal(tmp_path)
    assert book.append(row("a", "sat"))
    assert not book.append(row("a", "unsat"))
    book.close()
    path = tmp_path / "results.jsonl"
    path.write_text(path.read_text() + "garbage\n" + path.read_text()[:30])
    book = Journal(tmp_path)
    assert (len(book.rows), book.torn) == (1, 2)
    assert book.append(row("b", "sat"))
    book.close()
    rows, torn = read_rows(path)
    assert [row.tool for row in rows] == ["a", "b"]
    assert torn == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": float("nan")},
        {"seconds": "1"},
        {"seconds": True},
        {"verdict": None},
        {"details": []},
        {"trace": [1]},
        {"tool": ["a"]},
        {"memory": float("inf")},
        {"memory": 10**400},
        {"exit_code": -(10**30)},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_a_row_with_values_of_other_kinds_is_none(wrong: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(asdict(row("a", "sat"))) + "\n" + json.dumps(asdict(row("b", "sat")) | wrong) + "\n")
    rows, torn = read_rows(path)
    assert ([row.tool for row in rows], torn) == (["a"], 1)


def test_files_whose_names_look_like_options(tmp_path: Path) -> None:
    for name, file in (("-n.onnx", "advisory_15x3.onnx"), ("-x.vnnlib", "prop_03.vnnlib")):
        (tmp_path / name).write_bytes((VNNLIB / "advisory" / file).read_bytes())
    (tmp_path / "instances.csv").write_text("-n.onnx,-x.vnnlib,60\n")
    command = [sys.executable, "-m", "ginnacer_verify", "bench", "run", "instances.csv", "-o", "results"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert [found.verdict for found in read_rows(tmp_path / "results" / "results.jsonl")[0]] == ["unsat"]


def test_scores_by_hand() -> None:
    rows = [
        row("a", "sat", seconds=1.0, expected="sat", prop="1"),
        row("a", "unsat", seconds=3.0, prop="2"),
        row("a", "unsat", seconds=5.0, expected="sat", prop="3"),
        row("a", "timeout", seconds=60.0, prop="4"),
        row("a", "error", seconds=0.5, prop="5"),
    ]
    found = score("a", rows)
    assert (found.solved, found.wrong, found.median) == (2, 1, 2.0)
    assert found.par2 == 1 + 3 + 120 + 120 + 120
    assert found.points == 2 * 10 - 150
    assert Counter(found.verdicts) == Counter(sat=1, unsat=2, timeout=1, error=1)


def test_only_instances_in_common_are_compared_and_conflicts_are_found() -> None:
    rows = [
        row("a", "sat", prop="1"),
        row("b", "unsat", prop="1"),
        row("a", "sat", prop="2"),
        row("b", "timeout", prop="3"),
    ]
    assert [(row.tool, row.property) for row in in_common(rows)] == [("a", "1"), ("b", "1")]
    assert [[row.tool for row in said] for said in conflicts(rows)] == [["a", "b"]]
