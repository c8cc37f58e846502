"""Coverage-guided fuzzing of everything that reads files: properties, networks, witnesses, certificates, TOML, results.

    python benchmarks/fuzz.py [TARGET ...] [--seconds 67] [--work fuzz]

Each target gets a process and so many seconds (`make fuzz`: all of them, ten minutes). What it learns stays in the work
folder, where the next run goes on. A crash, a hang or too much memory ends the target's run: the input is printed and
kept in tests/corpus/TARGET, where the tests try it from then on."""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def one(target: str, options: list[str]) -> None:
    """Fuzz one target in this process; never returns."""
    import atheris

    with atheris.instrument_imports(include=["ginnacer_verify", "ginnacer_check", "fuzz_targets"]):
        from fuzz_targets import TARGETS, seeds

    start = Path(options[-1])
    start.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(target)):
        (start / f"seed-{number}").write_bytes(data)
    atheris.Setup([sys.argv[0], *options], TARGETS[target])
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=67)
    parser.add_argument("--work", type=Path, default=Path("fuzz"))
    args = parser.parse_args()
    from fuzz_targets import CORPUS, TARGETS

    failed = []
    for target in args.targets or TARGETS:
        kept = CORPUS / target
        kept.mkdir(parents=True, exist_ok=True)
        limits = [f"-max_total_time={args.seconds}", "-timeout=30", "-rss_limit_mb=3000", "-max_len=20000"]
        options = [*limits, "-print_final_stats=1", f"-artifact_prefix={kept}/", str(args.work / target)]
        done = subprocess.run([sys.executable, __file__, "--one", target, *options], check=False)
        print(f"{target}: {'nothing' if done.returncode == 0 else f'something, see {kept}'} was found", flush=True)
        failed += [target] if done.returncode else []
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], sys.argv[3:])
    sys.exit(main())
