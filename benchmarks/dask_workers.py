"""How much faster two Dask workers finish a list of short instances than one: `python benchmarks/dask_workers.py`.

Starts a scheduler and workers with one thread each on this machine and runs the bundled `pade` and `advisory` lists on
one worker and on two, in turns. Prints the ratio of each turn and the load, without which it means little: on a machine
whose cores are busy with other work a second worker gives nothing. `--waiting S` lets each instance wait instead of
verifying, which measures what the distribution itself costs, on a busy machine too.
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


def seconds(workers: int, first: int, waiting: float, folder: Path) -> float:
    """Wall time of the rows, from the first start to the last end, on so many workers that are ready."""
    file = folder / "scheduler.json"
    processes = [start("scheduler", "--port", "0", "--scheduler-file", str(file))]
    try:
        time.sleep(4)  # until it is ready, and then until all workers are
        address = json.loads(file.read_text())["address"]
        words = (address, "--nthreads", "1", "--no-nanny", "--memory-limit", "0")
        processes += [start("worker", *words) for _ in range(workers)]
        time.sleep(6)
        tools = folder / "tools.toml"
        tools.write_text(
            f"[waiting]\ncommand = '''sh -c \"sleep {waiting}; echo unknown\" {{network}} {{property}}'''\n"
        )
        bench = ("bench", "run", *LISTS, "--first", str(first), "--threads", "1", "--dask", address, "--quiet")
        command = [sys.executable, "-m", "ginnacer_verify", *bench, "-o", str(folder / "out")]
        command += ["--only-peers", "--tools", str(tools)] if waiting else []
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
    parser.add_argument("--waiting", type=float, default=0.0, metavar="S", help="wait so long instead of verifying")
    args = parser.parse_args()
    for _ in range(args.turns):
        load = os.getloadavg()[0]
        times = []
        for workers in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                times.append(seconds(workers, args.first, args.waiting, Path(folder)))
        ratio = f"one worker {times[0]:.1f} s, two {times[1]:.1f} s: ratio {times[0] / times[1]:.2f}"
        print(f"{ratio} (load before: {load:.1f})", flush=True)


if __name__ == "__main__":
    main()
