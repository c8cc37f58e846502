"""`verify --dask` with a real scheduler and real workers: verdicts, a lost worker, a counterexample that stops all."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from cases import box_of, one_disjunct

from ginnacer_verify.bench import spread
from ginnacer_verify.bench.spread import Piece, verify_on_cluster
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.progress import Moment
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.graph.network import Network
from ginnacer_verify.properties.property import Property

pytest.importorskip("distributed", reason="Dask is not installed: pip install dask distributed")
from test_bench_dask import Cluster, cluster


def ridge(margin: float, inputs: int = 4) -> tuple[Graph, Property]:
    """Random ReLUs over a few inputs; unsafe from so far above the largest output that sampling and descent find."""
    random = np.random.default_rng(3)
    shapes = [(40, inputs), (40, 40), (1, 40)]
    network = Network.from_arrays(
        *((random.normal(size=s) / np.sqrt(s[1]), random.normal(size=s[0]) / 4) for s in shapes)
    )
    box = box_of([-1.0] * inputs, [1.0] * inputs)
    best = float(np.max(network(box.sample(random, 20000))))
    return graph_of(network), one_disjunct(box, [[-1.0]], [-(best + margin)])


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decided here, and tasks are short."""
    monkeypatch.setattr(spread, "FIRST", 0.0)
    monkeypatch.setattr(spread, "SLICE", 0.5)


@pytest.mark.usefixtures("at_once")
def test_verdicts_come_from_workers_and_a_lost_one_changes_nothing(tmp_path: Path) -> None:
    graph, safe = ridge(0.12)
    with cluster(tmp_path, 2) as found:
        seen: list[Moment] = []

        def observe(moment: Moment) -> None:
            seen.append(moment)
            if len(seen) == 2:
                lose_one(found)

        verdict = verify_on_cluster(
            {"": graph}, safe, found.address, Deadline.after(120.0), restarts=0, observe=observe
        )
        assert (verdict.word, verdict.statistics.engine) == ("unsat", "dask")
        assert len(seen) > 2
        assert verdict.statistics.boxes > 0
        _, unsafe = ridge(-0.3)
        verdict = verify_on_cluster({"": graph}, unsafe, found.address, Deadline.after(120.0))
        assert verdict.word == "sat"
        assert verdict.counterexample is not None
        assert verdict.counterexample.x in unsafe.disjuncts[0].box


def lose_one(found: Cluster) -> None:
    os.kill(found.workers[0].pid, signal.SIGKILL)


@pytest.mark.usefixtures("at_once")
def test_the_deadline_holds(tmp_path: Path) -> None:
    graph, near = ridge(0.3, inputs=10)
    with cluster(tmp_path, 1) as found:
        start = time.monotonic()
        verdict = verify_on_cluster({"": graph}, near, found.address, Deadline.after(4.0), restarts=0)
        assert verdict.word == "timeout"
        assert time.monotonic() - start < 30.0


def test_halves_cover_the_whole_and_end() -> None:
    piece = Piece(np.array([0.0, 0.0]), np.array([1.0, 8.0]), (0,))
    left, right = piece.halves(np.array([1.0, 16.0]))
    assert (left.upper.tolist(), right.lower.tolist()) == ([0.5, 8.0], [0.5, 0.0])
    point = Piece(np.ones(2), np.ones(2), (0,))
    assert point.halves(np.ones(2)) == ()


@pytest.mark.usefixtures("at_once")
def test_no_scheduler_gets_a_sentence() -> None:
    graph, near = ridge(0.3, inputs=10)
    with pytest.raises(InputError, match="no Dask scheduler"):
        verify_on_cluster({"": graph}, near, "tcp://127.0.0.1:9", Deadline.after(8.0), restarts=0)
