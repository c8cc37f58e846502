"""Engines in pairs on random questions: what one proves no other may refute, nor a sample, nor a run.

    python benchmarks/disputes.py graphs|tiny|pairs|fooling [--count 10000] [--results FILE] [--seconds 1]

`graphs`: random models of every kind that is read (`tests/random_models.py`), next to what sampling finds. `tiny`:
networks whose truth is enumerated in rationals; `pairs`: two of them, by how much their outputs differ. `fooling`:
networks made to fool verifiers (`tests/fooling.py`). Each is asked in both arithmetics of every engine that takes it,
without its attack, and of `verify`. One line per question is appended to the results; the next run goes on behind the
last one, so this can run overnight and be stopped at any time. Disputes are printed, and make the exit code 1."""

import argparse
import csv
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from disputes import by_enumeration, disputed, made_to_fool, of_two, on_graph

ARITHMETICS = ("real", "float32")
QUESTIONS = {"graphs": on_graph, "tiny": by_enumeration, "pairs": of_two, "fooling": made_to_fool}


def asked(kind: str, seed: int, seconds: float) -> list[list[str]]:
    """A line for each arithmetic: seed, arithmetic, what is wrong, and what every engine said."""
    question, lines = QUESTIONS[kind](seed), []
    for arithmetic in ARITHMETICS:
        dispute = disputed(question, arithmetic, seconds)
        said = [f"{name}={word}" for name, word in dispute.words.items()]
        lines.append([str(seed), arithmetic, "; ".join(dispute.wrong), *said])
    return lines


def summary(lines: list[list[str]]) -> str:
    """How many questions there were, how many are decided and disputed, and what each engine said how often."""
    words, decided = Counter[tuple[str, str]](), 0
    for line in lines:
        said = [text.rpartition("=")[::2] for text in line[3:]]
        decided += any(word in {"sat", "unsat"} for _, word in said)
        words.update((name, word if word in {"sat", "unsat"} else "open") for name, word in said)
    disputes, networks = sum(bool(line[2]) for line in lines), len({line[0] for line in lines})
    rows = [f"{networks} networks, {len(lines)} questions, {decided} decided, {disputes} disputes"]
    for name in dict.fromkeys(name for name, _ in words):
        counts = "".join(f"{word} {words[name, word]:6d}  " for word in ("unsat", "sat", "open"))
        rows += [f"  {name:16}{counts}"]
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=QUESTIONS)
    parser.add_argument("--count", type=int, default=10_000, help="networks, from seed 0 on")
    parser.add_argument("--results", type=Path, help="default: disputes-KIND.csv")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each engine and question")
    args = parser.parse_args()
    file = args.results or Path(f"disputes-{args.kind}.csv")
    lines = list(csv.reader(file.open(newline=""))) if file.exists() else []
    done = {int(line[0]) for line in lines if line[1] == ARITHMETICS[-1]}
    with file.open("a", newline="") as out:
        for seed in (seed for seed in range(args.count) if seed not in done):
            new = asked(args.kind, seed, args.seconds)
            csv.writer(out).writerows(new)
            out.flush()
            lines += new
            for line in new:
                if line[2]:
                    print(f"DISPUTE: seed {seed}, {line[1]}: {line[2]}", flush=True)
    print(summary(lines))
    return 1 if any(line[2] for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
