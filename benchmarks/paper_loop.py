"""The paper's abstraction in the loop on instances of ours that hold, with each kind of solver and with traces.

    python benchmarks/paper_loop.py [BACKEND,... [TRACES]]        (highs,milp,marabou,program)

`program` is Marabou's own command line, asked about pairs of ONNX and VNN-LIB; the attack is switched off. TRACES is a
folder for the traces; a table says how many queries there were, the largest subset of the first one, how many subsets
and neurons were split, and how many subsets of several were left in the last one.
"""

import sys
import time
from pathlib import Path

from ginnacer_verify.bench.tool_backend import ToolBackend
from ginnacer_verify.bench.tools import marabou
from ginnacer_verify.engines.progress import Round, observer
from ginnacer_verify.engines.refinement.loop import verify
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.query.backend import Backend, get_backend

FOLDER = Path(__file__).resolve().parent.parent / "vnnlib"
INSTANCES = (
    ("pade", "pade_64x2", (1, 3, 5, 6, 8, 10)),
    ("advisory", "advisory_15x3", (3, 4, 7, 9, 10)),
    ("advisory", "advisory_25x4", (3, 10)),
)
LIMIT = 120.0


def backend_named(name: str) -> Backend:
    return ToolBackend(marabou()) if name == "program" else get_backend(name)


def main() -> None:
    given = dict(enumerate(sys.argv[1:]))
    backends = given.get(0, "highs,milp,marabou,program").split(",")
    traces = Path(given[1]) if 1 in given else None
    print("backend | instance | verdict | queries | largest subset | split | shared at the end | s")
    for backend in backends:
        proved = 0
        for folder, network, numbers in INSTANCES:
            for number in numbers:
                proved += one(backend, folder, network, f"prop_{number:02d}", traces) == "unsat"
        print(f"{backend}: {proved} proved", flush=True)


def one(backend: str, folder: str, name: str, prop: str, traces: Path | None) -> str:
    network = load_chain(FOLDER / folder / f"{name}.onnx")
    asked, start = read_vnnlib(FOLDER / folder / f"{prop}.vnnlib"), time.monotonic()
    seen: list[Round] = []
    path = traces / f"{backend}_{name}_{prop}.jsonl" if traces else None
    if traces:
        traces.mkdir(parents=True, exist_ok=True)
    with observer(path, live=False) as tell:

        def observe(moment: Round) -> None:
            seen.append(moment)
            if tell:
                tell(moment)

        verdict = verify(
            network,
            asked,
            abstraction="paper",
            backend=backend_named(backend),
            restarts=0,
            timeout=LIMIT,
            observe=observe,
        )
    largest = max((len(subset) for layer in seen[0].sharing for subset in layer.shared), default=0)
    split = sum(len(moment.split) for moment in seen)
    left = sum(len(subset) > 1 for layer in seen[-1].sharing for subset in layer.shared)
    cells = (backend, f"{name} {prop}", verdict.word, len(seen), largest, split, left)
    print(*cells, f"{time.monotonic() - start:.1f}", sep=" | ", flush=True)
    return verdict.word


if __name__ == "__main__":
    main()
