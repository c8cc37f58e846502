"""The instances on the workers of a Dask scheduler.

A worker that is lost takes no result with it: Dask gives its instances to another one. Only this process writes rows,
and each key once. The files of the instances must be at the same paths on all machines.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from ginnacer_verify.bench.local import Work
from ginnacer_verify.bench.machine import now
from ginnacer_verify.bench.measure import Limits, measure
from ginnacer_verify.bench.results import Row
from ginnacer_verify.engines.budget import cores
from ginnacer_verify.errors import InputError

PATIENCE, WORKER_PATIENCE = 5.0, 60.0
"""Seconds to wait for the scheduler, and for its first worker."""


def rows_on_cluster(work: Sequence[Work], limits: Limits, address: str) -> Generator[Row, None, None]:
    """The rows as they come. Leaving the loop ends what is under way on the workers."""
    client = connect(address)
    try:
        wait_for_a_worker(client, address)
        yield from _collect(client, work, limits)
    finally:
        client.close()  # the scheduler forgets what nobody waits for, and the workers see that


def connect(address: str) -> Any:
    try:
        from distributed import Client
    except ModuleNotFoundError as problem:
        raise InputError("--dask needs Dask: pip install dask distributed") from problem
    try:
        return Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as problem:
        raise InputError(f"no Dask scheduler answers at {address}: start one with `dask scheduler`") from problem


def wait_for_a_worker(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKER_PATIENCE)
    except TimeoutError as problem:
        raise InputError(f"no worker has come to {address}: start some with `dask worker {address}`") from problem


def _collect(client: Any, work: Sequence[Work], limits: Limits) -> Generator[Row, None, None]:
    from distributed import as_completed

    waiting = {client.submit(run_there, item, limits, pure=False): item for item in work}
    coming = as_completed(list(waiting))
    for future in coming:
        item = waiting.pop(future)
        yield from _rows(future, item)
        future.release()


def _rows(future: Any, item: Work) -> list[Row]:
    from distributed import KilledWorker

    if future.status == "cancelled":
        raise InputError("the Dask scheduler has gone: start it again and run the same with --resume")
    problem = future.exception()
    match problem:
        case None:
            return list(future.result())
        case KilledWorker():
            return [_lost(item, number) for number in range(len(item.tools))]
        case _:
            raise InputError(
                f"a worker could not run {item.instance.network} with {item.instance.prop} ({problem}): "
                "the same version must be installed and the same files be there on all machines"
            ) from problem


def _lost(item: Work, number: int) -> Row:
    """An instance at which one worker after the other was lost."""
    instance = item.instance
    return Row(
        *instance.key,
        item.tools[number].name,
        "error",
        0.0,
        instance.timeout,
        expected=instance.expected,
        reason="every worker that tried it was lost: is there enough memory?",
        started=now(),
    )


def run_there(item: Work, limits: Limits) -> list[Row]:
    """On a worker: all tools of one instance, one after the other."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def stop() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    share = replace(limits, threads=limits.threads or max(1, cores() // worker.state.nthreads))
    rows = (measure(tool, item.instance, share, stop) for tool in item.tools)
    return [row for row in rows if row is not None]
