"""How much faster two Dask workers finish a list of short instances than one: `python benchmarks/dask_workers.py`.

Starts a scheduler and workers with one thread each on this machine and runs the bundled `pade` and `advisory` lists on
one worker and on two, in turns. Prints the ratio of each turn, and the load, without which it means little.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = [str(ROOT / "vnnlib" / name / "instances.csv") for name in ("pade", "advisory")]


def start(*words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1", "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def seconds(workers: int, first: int, folder: Path) -> float:
    """Wall time of the rows, from the first start to the last end, on so many workers that are ready."""
    file = folder / "scheduler.json"
    processes = [start("scheduler", "--port", "0", "--scheduler-file", str(file))]
    try:
        words = ("--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--memory-limit", "0")
        processes += [start("worker", *words) for _ in range(workers)]
        time.sleep(8)  # until all of them are ready
        address = json.loads(file.read_text())["address"]
        bench = ("bench", "run", *LISTS, "--first", str(first), "--threads", "1", "--dask", address, "--quiet")
        command = [sys.executable, "-m", "ginnacer_verify", *bench, "-o", str(folder / "out")]
        begin = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begin
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=44, help="instances (default: 44)")
    parser.add_argument("--turns", type=int, default=2)
    args = parser.parse_args()
    for _ in range(args.turns):
        load = os.getloadavg()[0]
        times = []
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                times.append(seconds(workers, args.first, Path(folder)))
        ratio = f"one worker {times[0]:.1f} s, two {times[1]:.1f} s: ratio {times[0] / times[1]:.2f}"
        print(f"{ratio} (load before: {load:.1f})", flush=True)


if __name__ == "__main__":
    main()
