"""How long it takes to start, to read a property and to load a network, as ratios to something on the same machine.

    python benchmarks/reading.py

Needs the public benchmark sets (GINNACER_BENCHMARKS, default ../shared/benchmarks).
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.vnnlib import parse_vnnlib, read_vnnlib
from ginnacer_verify.properties.write import to_vnnlib

ROOT = Path(__file__).resolve().parent.parent
SETS = Path(os.environ.get("GINNACER_BENCHMARKS", ROOT.parent / "shared" / "benchmarks"))


def best(work: Callable[[], object], times: int = 7) -> float:
    """The shortest of several runs: the one that was disturbed least."""
    durations = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        durations.append(time.perf_counter() - start)
    return min(durations)


def started(*words: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True)


def main() -> None:
    numpy = best(started("-c", "import numpy"))
    version = best(started("-m", "ginnacer_verify", "--version"))
    print(f"ginnacer --version takes {version / numpy:.2f} times as long as importing numpy")

    file = SETS / "mnistfc" / "prop_0_0.03.vnnlib"
    parse = best(lambda: read_vnnlib(file))
    other = to_vnnlib(read_vnnlib(file), "2.0")
    official = best(lambda: parse_vnnlib(other))
    print(f"an MNIST property, 784 inputs: {1000 * parse:.0f} ms; as VNN-LIB 2.0 {official / parse:.1f} times as long")

    for name in ("acasxu/ACASXU_run2a_1_1_batch_2000.onnx", "mnistfc/mnist-net_256x6.onnx", "vww/vww_96.onnx"):
        seconds = best(lambda name=name: load_chain(SETS / name), 1)  # type: ignore[misc]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{name}: loaded and compared with onnxruntime in {seconds:.1f} s, at most {memory:.0f} MB so far")


if __name__ == "__main__":
    main()
