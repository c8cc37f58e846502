"""`ginnacer bench report DIR... -o report.html`: the results as one page to look at."""

import argparse
from pathlib import Path

from ginnacer_verify.bench.report import about, page, read_folders
from ginnacer_verify.bench.results import write_file
from ginnacer_verify.commands.output import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="results of `bench run`, shares included")
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"), help="(default: report.html)")
    parser.add_argument("--title", default="Verification results", help="the page's heading")


def run(args: argparse.Namespace) -> int:
    rows = read_folders(args.folders)
    write_file(args.output, page(rows, title=args.title, subtitle=about(args.folders)))
    show(args, {"file": str(args.output), "rows": len(rows)}, [str(args.output)])
    return 0
