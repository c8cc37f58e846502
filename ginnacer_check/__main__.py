"""`ginnacer-check NET PROP proof.gcert`: prints `accepted`, or `refused` and the first thing that is wrong.

Exit codes: 0 accepted, 1 refused, 2 a file that cannot be read.
"""

import argparse
import gzip
import os
import sys
import time
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # --jobs uses the cores; threads inside of BLAS only get in the way

from ginnacer_check.check import Report, check  # noqa: E402
from ginnacer_check.network import Unreadable  # noqa: E402
from ginnacer_check.proof import Refused  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="ginnacer-check", description="Check a certificate, trusting nobody.")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="the ONNX, VNN-LIB and .gcert files")
    text = "a network under the name that the property gives it, instead of NET; once for each network"
    parser.add_argument("--network", action="append", default=[], metavar="NAME=NET", help=text)
    parser.add_argument(
        "--exact", type=_share, nargs="?", const=1.0, default=0.0, metavar="SHARE",
        help="calculate all leaves, or a random share of them, in fractions as well",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    args = parser.parse_args(arguments)
    if len(args.files) != (2 if args.network else 3):
        parser.error("give NET PROP proof.gcert, or PROP proof.gcert and --network NAME=NET for each network")
    started, live = time.perf_counter(), sys.stderr.isatty() and not args.quiet

    def progress(report: Report) -> None:
        print(f"\r{report.leaves} leaves", end="", file=sys.stderr, flush=True)

    try:
        *one, formula, certificate = args.files
        named = dict(text.split("=", 1) for text in args.network)
        models = content(one[0]) if one else {name: content(Path(file)) for name, file in named.items()}
        with certificate.open("rb") as file:
            report = check(
                models, content(formula), file,
                exact=args.exact, jobs=args.jobs, progress=progress if live else None,
            )  # fmt: skip
    except Refused as problem:
        print(f"refused: {problem}")
        return 1
    except (Unreadable, OSError, ValueError) as problem:
        print(f"ginnacer-check: {problem}", file=sys.stderr)
        return 2
    finally:
        if live:
            print("\r", end="", file=sys.stderr)
    print(f"accepted: {report.status}")
    if report.status == "unsat" and not args.quiet:
        print(
            f"{report.leaves} leaves ({report.exact} also in exact arithmetic), depth {report.depth}, smallest margin "
            f"{report.margin:.3g}, {time.perf_counter() - started:.2f} s"
        )
    return 0


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("a share is between 0 and 1")
    return value


def content(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


if __name__ == "__main__":
    sys.exit(main())
