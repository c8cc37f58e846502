"""Every network and property of the public sets: are they read, do they agree, do bounds hold, what is decided?

    python benchmarks/families.py read READ.jsonl SAMPLES [FOLDER/instances.csv ...]
    python benchmarks/families.py table READ.jsonl RESULTS.jsonl ... > docs/results/families.md

`read` takes each list's networks, each in a process of its own, and appends a line for each: what it is made of, how
far it is from onnxruntime, its peak memory once its nodes are bounded on its first property's box, and how many of
SAMPLES inputs of that box take some node out of its bounds (there must be none). Then it reads every property. What
READ.jsonl has is not done again. `table` joins that with the results of `ginnacer bench run`."""

import json
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ginnacer_verify.bench.instances import Instance, found, read_instances
from ginnacer_verify.bench.results import Row, is_wrong, read_rows
from ginnacer_verify.bounds.intervals import Known
from ginnacer_verify.bounds.substitution import tightened
from ginnacer_verify.box import Box
from ginnacer_verify.deadline import FOREVER
from ginnacer_verify.graph.chain import graph_of
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.loading import load, operators_of
from ginnacer_verify.loading.agree import both, in_box, relative_error, work_of
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.replay.joint import subject

SETS = Path(__file__).resolve().parent.parent.parent / "shared" / "benchmarks"
WORK = 1e9
"""Nodes whose rows take more multiplications than this keep their intervals."""
VALUES = 4_000_000
"""So many values of the widest node are held at once."""
PRODUCTS = 1_000_000_000
"""About so many products are computed to compare a network with onnxruntime."""
SLACK = 1e-9
"""What evaluation in float64 itself may be off, relatively: bounds are of exact values."""


def main() -> int:
    match sys.argv[1:]:
        case ["read", output, samples, *lists]:
            chosen = [Path(one) for one in lists] or sorted(SETS.glob("*/instances.csv"))
            return read_all(Path(output), int(samples), chosen)
        case ["network", path, number, samples]:
            print(json.dumps(network_facts(read_instances(Path(path))[int(number)], int(samples))))
        case ["property", path, number, _]:
            print(json.dumps(property_facts(read_instances(Path(path))[int(number)])))
        case ["table", facts, *results]:
            rows = [row for file in results for row in read_rows(Path(file))[0]]
            print(page([json.loads(line) for line in Path(facts).read_text().splitlines()], rows), end="")
        case _:
            sys.exit(__doc__)
    return 0


def read_all(output: Path, samples: int, lists: Sequence[Path]) -> int:
    """A line for every network and every property that has none yet; 1 if anything failed."""
    known = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    done = {(one["family"], one["kind"], one["name"]) for one in known}
    failed = 0
    for path in lists:
        instances = read_instances(path)
        for kind in ("network", "property"):
            for number, instance in enumerate(instances):
                name = instance.network if kind == "network" else instance.prop
                if (instance.category, kind, name) in done:
                    continue
                done.add((instance.category, kind, name))
                own = [sys.executable, __file__, kind, str(path), str(number), str(samples)]
                run = subprocess.run(own, capture_output=True, text=True, check=False)
                line = {"family": instance.category, "kind": kind, "name": name}
                said = (run.stderr.splitlines() or ["it was killed"])[-1].replace(f"{path.parent}/", "")
                line |= {"error": said.rpartition("errors.")[2]} if run.returncode else json.loads(run.stdout)
                failed += "error" in line or bool(line.get("outside"))
                with output.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    return 1 if failed else 0


def network_facts(instance: Instance, samples: int) -> dict[str, Any]:
    """What there is to know about the networks of an instance: mostly one."""
    start, files = time.process_time(), instance.network_files
    graphs = {name: load(file) for name, file in files.items()}
    prop = read_vnnlib(instance.property_file)
    graph = graph_of(subject(graphs[""] if set(graphs) == {""} else graphs, prop))
    box = next((one for one in prop.boxes if not one.is_empty), None)
    facts: dict[str, Any] = {
        "operators": sorted({use.operator for file in files.values() for use in operators_of(file)}),
        "neurons": graph.neurons,
        "inputs": graph.inputs,
        "off": max(off(one, box if len(graphs) == 1 else None) for one in graphs.values()),
        "load": time.process_time() - start,
    }
    if box is None:  # contradictory constraints: nothing is unsafe
        return facts | {"bound": 0.0, "memory": 0, "samples": 0, "outside": 0}
    start = time.process_time()
    known = tightened(graph, box.lower[None], box.upper[None], work=WORK)
    facts |= {"bound": time.process_time() - start, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    return facts | {"samples": samples, "outside": sum(outside(graph, known, x) for x in points(graph, box, samples))}


def off(graph: Graph, box: Box | None) -> float:
    """How far our outputs are from onnxruntime's, relatively: in the box, or where all inputs are between 0 and 1."""
    random, count = np.random.default_rng(0), max(8, min(1000, PRODUCTS // work_of(graph)))
    where = in_box(box, count, random) if box is not None else random.random((count, graph.inputs))
    theirs, ours = both(graph, where.astype(graph.dtype), FOREVER)
    finite = np.isfinite(theirs).all(axis=1) & np.isfinite(ours).all(axis=1)
    return relative_error(ours[finite], theirs[finite])


def points(graph: Graph, box: Box, samples: int) -> Iterator[np.ndarray[Any, np.dtype[np.float64]]]:
    """Inputs of the box in batches: inside, at corners, and with some inputs at their ends."""
    random, size = np.random.default_rng(0), max(1, min(samples, VALUES // graph.widest))
    for first in range(0, samples, size):
        count = min(size, samples - first)
        inside = box.sample(random, count)
        corners = np.where(random.random(inside.shape) < 0.5, box.lower, box.upper)
        share = np.repeat([0.0, 0.5, 1.0], -(-count // 3))[:count, None]
        yield np.where(random.random(inside.shape) < share, corners, inside)


def outside(graph: Graph, known: Known, x: np.ndarray[Any, np.dtype[np.float64]]) -> int:
    """How many inputs take some node out of its bounds."""
    wrong = np.zeros(len(x), dtype=np.bool_)
    with np.errstate(all="ignore"):
        for number, value in enumerate(graph.through(x)):
            room = SLACK * (1 + np.abs(value))
            wrong |= ~((value >= known.lower[number] - room) & (value <= known.upper[number] + room)).all(axis=1)
    return int(wrong.sum())


def property_facts(instance: Instance) -> dict[str, Any]:
    start = time.process_time()
    prop = read_vnnlib(instance.property_file)
    seconds = time.process_time() - start
    return {"disjuncts": len(prop.disjuncts), "seconds": seconds, "bytes": found(instance.property_file).stat().st_size}


HEAD = """# Families

Networks and properties of the public sets, as `benchmarks/families.py` finds them:

    python benchmarks/families.py read read.jsonl 10000
    ginnacer bench run SETS/*/instances.csv -o DIR
    python benchmarks/families.py table read.jsonl DIR/results.jsonl > docs/results/families.md

## What is read

"Off" is the largest difference from onnxruntime, relative to the size of the output, in the box of the first property
that a network comes with; "seconds" is the processor time that loading and comparing took, and bounding all nodes on
that box; "outside" is how many of so many inputs of the box take any node out of its bounds; the memory is the peak of
a process that loads and bounds.

"""


def page(facts: Sequence[dict[str, Any]], rows: Sequence[Row]) -> str:
    """Both tables, and what failed."""
    families: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in facts:
        families[one["family"]].append(one)
    text = HEAD
    titles = ["family", "networks", "properties", "neurons, most", "operators", "off", "seconds", "outside", "MB"]
    text += _table(titles, [_read(name, own) for name, own in sorted(families.items())])
    failures = [one for one in facts if "error" in one]
    text += "".join(f"\n- {one['family']}, {one['name']}: {one['error']}" for one in failures)
    limits = sorted({row.timeout for row in rows})
    text += "\n\n## What is decided\n\n"
    text += f"Within {_range(limits, 's')}, start-up included; wall seconds of what was decided.\n\n"
    titles = ["family", "instances", "unsat", "sat", "open", "wrong", "median s", "most s"]
    names = sorted({row.category for row in rows})
    return text + _table(titles, [_decided(name, [r for r in rows if r.category == name]) for name in names])


def _read(name: str, own: Sequence[dict[str, Any]]) -> list[str]:
    networks = [one for one in own if one["kind"] == "network"]
    read = [one for one in networks if "error" not in one]
    properties = [one for one in own if one["kind"] == "property"]
    whole = [one for one in properties if "error" not in one]
    operators = sorted({operator for one in read for operator in one["operators"]})
    return [
        name,
        f"{len(read)} of {len(networks)}",
        f"{len(whole)} of {len(properties)}",
        str(max((one["neurons"] for one in read), default=0)),
        ", ".join(operators),
        f"{max((one['off'] for one in read), default=0.0):.0e}",
        " + ".join(f"{max((one[part] for one in read), default=0.0):.1f}" for part in ("load", "bound")),
        f"{sum(one['outside'] for one in read)} of {min((one['samples'] for one in read), default=0)}",
        str(max((one["memory"] for one in read), default=0) // 1024),
    ]


def _decided(name: str, rows: Sequence[Row]) -> list[str]:
    words = Counter(row.verdict for row in rows)
    seconds = [row.seconds for row in rows if row.verdict in {"sat", "unsat"}]
    still = len(rows) - words["sat"] - words["unsat"]
    times = [f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}"] if seconds else ["", ""]
    numbers = [len(rows), words["unsat"], words["sat"], still, sum(map(is_wrong, rows))]
    return [name, *(str(number) for number in numbers), *times]


def _range(values: Sequence[float], unit: str) -> str:
    if not values:
        return f"no {unit}"
    first, last = f"{values[0]:g}", f"{values[-1]:g}"
    return f"{first} {unit}" if first == last else f"{first} to {last} {unit}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
