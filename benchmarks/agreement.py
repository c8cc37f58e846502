"""Every network of the public sets: is it read, does it agree with onnxruntime, how long does it take?

    python benchmarks/agreement.py FOLDER [PATTERN]

One line per file: seconds to read and compare it, its nodes and neurons, the layers of its chain of ReLUs if asked for
with --chain, and the peak memory of the process so far."""

import argparse
import resource
import sys
import time
from pathlib import Path

from ginnacer_verify.errors import NetworkError
from ginnacer_verify.graph.chain import chain_of
from ginnacer_verify.loading import load


def line(file: Path, chain: bool) -> tuple[str, bool]:
    """What there is to say about a file, and whether it was read."""
    start = time.perf_counter()
    try:
        graph = load(file)
    except NetworkError as problem:
        return f"refused: {str(problem).removeprefix(f'{file}: ')}", False
    text = f"{time.perf_counter() - start:6.2f} s, {len(graph.nodes):3d} nodes, {graph.neurons:6d} neurons"
    if chain:
        try:
            text += f", {chain_of(graph).relus} ReLUs in a chain"
        except NetworkError as problem:
            text += f", no chain ({problem})"
    return f"{text}, peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB", True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pattern", nargs="?", default="*.onnx*")
    parser.add_argument("--chain", action="store_true")
    args = parser.parse_args()
    refused = 0
    for file in sorted(args.folder.rglob(args.pattern)):
        text, read = line(file, args.chain)
        refused += not read
        print(f"{file.relative_to(args.folder)}: {text}", flush=True)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
