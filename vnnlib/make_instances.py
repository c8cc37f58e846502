"""Train the networks and write the properties and instance lists of this folder.

    python vnnlib/make_instances.py [--keep-networks] [SET ...]

`--keep-networks` leaves the ONNX files as they are and writes only the rest. Afterwards `decide_instances.py` has to
run: another torch build gives other weights, and then other verdicts may be true.
"""

import argparse
import csv
from pathlib import Path

import advisory_set
import digits_set
import pade_set

SETS = {"pade": pade_set, "digits": digits_set, "advisory": advisory_set}


def make(name: str, folder: Path, *, keep_networks: bool) -> None:
    folder.mkdir(exist_ok=True)
    if not keep_networks:
        SETS[name].make_networks(folder)
    for stale in folder.glob("*.vnnlib"):
        stale.unlink()
    instances = SETS[name].make_instances(folder)
    for instance in instances:
        (folder / f"{instance.name}.vnnlib").write_text(instance.text)
    with (folder / "instances.csv").open("w", newline="") as lines:
        rows = ((instance.network, f"{instance.name}.vnnlib", instance.timeout) for instance in instances)
        csv.writer(lines, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="SET", help=", ".join(SETS))
    parser.add_argument("--keep-networks", action="store_true", help="write only properties and lists")
    arguments = parser.parse_args()
    for chosen in arguments.sets:
        make(chosen, Path(__file__).parent / chosen, keep_networks=arguments.keep_networks)
