"""Random small graphs with skips, convolutions, largest values of windows and every function: is anything wrong?

    python benchmarks/random_graphs.py [FIRST LAST]        (0 2000)

Each graph's bounds are held against densely sampled inputs and against intervals on the pieces of its box, and no
engine may prove absent what was sampled (`tests/all_functions.py`)."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from all_functions import any_graph, faults


def main() -> int:
    first, last = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (0, 2000)
    wrong, functions, start = 0, set[str](), time.process_time()
    for seed in range(first, last):
        functions |= {name for name, _ in any_graph(seed).functions}
        for fault in faults(seed):
            wrong += 1
            print(f"seed {seed}: {fault}", flush=True)
    seconds = time.process_time() - start
    print(f"{last - first} graphs with {len(functions)} functions, {wrong} faults, {seconds:.0f} s CPU")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
