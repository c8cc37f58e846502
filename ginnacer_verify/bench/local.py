"""The instances on this machine: so many at a time, each with one tool after the other."""

import queue
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from ginnacer_verify.bench.instances import Instance
from ginnacer_verify.bench.measure import Limits, measure
from ginnacer_verify.bench.results import Row
from ginnacer_verify.bench.tools import Tool
from ginnacer_verify.engines.budget import cores


@dataclass(frozen=True)
class Work:
    """An instance and the tools that have still to run on it, in this order."""

    instance: Instance
    tools: tuple[Tool, ...]


def rows_here(work: Sequence[Work], limits: Limits, jobs: int) -> Generator[Row, None, None]:
    """The rows as they come. Leaving the loop, for whatever reason, ends all processes that are under way."""
    share = replace(limits, threads=limits.threads or max(1, cores() // jobs))
    waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
    done: queue.SimpleQueue[Row | BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()
    for item in work:
        waiting.put(item)
    threads = [threading.Thread(target=_serve, args=(waiting, done, stop, share)) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            match done.get():
                case None:
                    running -= 1
                case Row() as row:
                    yield row
                case BaseException() as problem:
                    raise problem
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _serve(
    waiting: "queue.SimpleQueue[Work]",
    done: "queue.SimpleQueue[Row | BaseException | None]",
    stop: threading.Event,
    limits: Limits,
) -> None:
    try:
        while not stop.is_set():
            item = waiting.get_nowait()
            for tool in item.tools:
                if (row := measure(tool, item.instance, limits, stop.is_set)) is None:
                    break
                done.put(row)
    except queue.Empty:
        pass
    except BaseException as problem:
        done.put(problem)
    done.put(None)
