"""`ginnacer lab EXPERIMENT|all`: the paper's figures and tables, and ours, with a page that holds all of them."""

import argparse
import os
from pathlib import Path

from ginnacer_verify.commands.arguments import add_seed, positive, whole
from ginnacer_verify.commands.bar import Bar
from ginnacer_verify.commands.output import remark, show
from ginnacer_verify.lab.experiment import NAMES, experiment
from ginnacer_verify.lab.page import page
from ginnacer_verify.lab.run import run as run_experiments
from ginnacer_verify.lab.setting import NETWORKS, Setting

EXAMPLE = "ginnacer lab motivating --quick -o lab"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help=f"all, or one of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="fewer samples, runs and networks: minutes, not hours")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("lab"),
        metavar="DIR",
        help="folder for tables, figures and page (default: lab)",
    )
    add_seed(parser)
    parser.add_argument(
        "-j", "--jobs", type=whole(1), default=os.cpu_count() or 1, metavar="N", help="processes (default: all cores)"
    )
    parser.add_argument("--timeout", type=positive, metavar="S", help="seconds per verification (default: 60, quick 5)")
    parser.add_argument("--networks", metavar="A,B,...", help=f"only these networks, of {', '.join(NETWORKS)}")
    parser.add_argument(
        "--benchmarks", type=Path, metavar="DIR", help="folder of the public sets (default: $GINNACER_BENCHMARKS)"
    )
    parser.add_argument(
        "--own", type=Path, metavar="DIR", help="folder of our own sets (default: those of the package)"
    )


def run(args: argparse.Namespace) -> int:
    names = NAMES if args.experiment == "all" else (experiment(args.experiment).name,)
    setting = Setting.of(
        quick=args.quick,
        seed=args.seed,
        networks=args.networks,
        timeout=args.timeout,
        benchmarks=args.benchmarks,
        own=args.own,
    )
    if setting.absent:
        names_ = ", ".join(setting.absent)
        where = "set GINNACER_BENCHMARKS or --benchmarks to the public sets, or leave them out with --networks"
        remark(args, f"not found in {setting.benchmarks}: {names_}; {where}")
    with Bar("experimenting", quiet=args.quiet) as bar:
        reports = run_experiments(names, setting, args.output, args.jobs, bar.update)
    index = args.output / ("lab.html" if args.experiment == "all" else f"{args.experiment}.html")
    index.write_text(page(reports, setting), encoding="utf-8")
    files = [str(file) for report in reports for file in report.files] + [str(index)]
    problems = [problem for report in reports for problem in report.problems]
    for problem in problems:
        remark(args, f"not measured: {problem}")
    show(args, {"files": files, "problems": problems, "setting": setting.as_json()}, files)
    return 1 if problems else 0
