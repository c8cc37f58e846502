"""`ginnacer bench report DIR... -o report.html`: the results as one page to look at."""

import argparse
from pathlib import Path

from ginnacer_verify.bench.report import about, page, read_folders
from ginnacer_verify.bench.results import write_file
from ginnacer_verify.commands.output import show

EXAMPLE = "ginnacer bench report results -o report.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="what `bench run -o` wrote, with its shares"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        default=Path("report.html"),
        help="the page to write (default: report.html)",
    )
    parser.add_argument("--title", default="Verification results", metavar="TEXT", help="heading of the page")


def run(args: argparse.Namespace) -> int:
    rows = read_folders(args.folders)
    write_file(args.output, page(rows, title=args.title, subtitle=about(args.folders)))
    show(args, {"file": str(args.output), "rows": len(rows)}, [str(args.output)])
    return 0
