"""`ginnacer bench run INSTANCES.csv -o DIR`: one process per instance, one fsynced line per result."""

import argparse
import math
import signal
import sys
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path

from ginnacer_verify.bench.guardian import LINUX
from ginnacer_verify.bench.instances import Instance, read_instances, select
from ginnacer_verify.bench.local import Work, rows_here
from ginnacer_verify.bench.measure import GB, Limits
from ginnacer_verify.bench.results import Row
from ginnacer_verify.bench.run import Plan, open_folder, record
from ginnacer_verify.bench.scores import Score, by_tool, conflicts, in_common, score
from ginnacer_verify.bench.tools import BUILT_IN, Tool, ours, read_tools
from ginnacer_verify.commands.arguments import positive, whole
from ginnacer_verify.commands.board import board
from ginnacer_verify.commands.output import remark, show, table
from ginnacer_verify.errors import InputError

WRONG = 3
"""Exit code of a run with a wrong or conflicting verdict."""

EXAMPLE = "ginnacer bench run ginnacer-demo/instances.csv -o results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "instances", type=Path, nargs="+", metavar="INSTANCES.csv", help="a list with lines network,property,timeout"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the results")
    parser.add_argument("--resume", action="store_true", help="go on with the results in DIR")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a wrong verdict")
    limits = parser.add_argument_group("limits of each process")
    limits.add_argument(
        "--timeout", type=positive, metavar="S", help="seconds, start-up included (default: what the list says)"
    )
    limits.add_argument("--memory", type=positive, metavar="GB", help="memory of an instance with all of its processes")
    limits.add_argument(
        "-j", "--jobs", type=whole(1), default=1, metavar="N", help="how many instances at a time (default: 1)"
    )
    limits.add_argument(
        "--threads", type=whole(1), default=0, metavar="N", help="threads of each (default: its share of the cores)"
    )
    limits.add_argument(
        "--dask", metavar="ADDRESS", help="run on the workers of a Dask scheduler, such as tcp://host:8786"
    )
    which = parser.add_argument_group("which instances")
    which.add_argument("--every", type=whole(1), default=1, metavar="N", help="only every N-th line")
    which.add_argument("--first", type=whole(1), metavar="N", help="only the first N of them")
    which.add_argument(
        "--shard",
        type=_shard,
        default=(1, 1),
        metavar="I/N",
        help="only the I-th of N shares, for array jobs of a cluster",
    )
    which.add_argument(
        "--expected", type=Path, metavar="FILE", help="what is known (default: expected.csv beside the list)"
    )
    tools = parser.add_argument_group("which tools")
    tools.add_argument(
        "--options", default="", metavar="TEXT", help="further options of `ginnacer verify`, in one text"
    )
    tools.add_argument("--certificates", type=Path, metavar="DIR", help="folder for a proof of each verdict")
    tools.add_argument(
        "--peer", action="append", default=[], choices=list(BUILT_IN), help="also run this tool, on the same instances"
    )
    tools.add_argument("--tools", type=Path, metavar="FILE.toml", help="also run the tools that this file describes")
    tools.add_argument("--only-peers", action="store_true", help="run the other tools alone")


def run(args: argparse.Namespace) -> int:
    instances, tools = _instances(args), _tools(args)
    if args.certificates:
        args.certificates.mkdir(parents=True, exist_ok=True)
    if args.memory and not LINUX:
        raise InputError("--memory needs Linux: leave it out here")
    settings = {"timeout": args.timeout, "memory": args.memory, "options": args.options}
    plan = Plan(instances, tools, settings, args.resume, args.keep_going)
    limits = Limits(int(args.memory * GB) if args.memory else None, args.threads)
    folder = _folder(args)
    journal = open_folder(folder, plan)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: Slurm says so before it kills
    try:
        if journal.torn:
            remark(args, f"{journal.torn} torn line in {journal.path} left out: its instance runs again")
        work = plan.missing(journal)
        total = sum(len(item.tools) for item in work)
        with board(total, journal.rows, quiet=args.quiet) as observe:
            record(plan, journal, folder, _rows(args, work, limits), observe)
        return _summary(args, folder, journal.rows)
    finally:
        journal.close()


def _rows(args: argparse.Namespace, work: list[Work], limits: Limits) -> Generator[Row, None, None]:
    if args.dask and work:
        from ginnacer_verify.bench.cluster import rows_on_cluster

        return rows_on_cluster(work, limits, args.dask)
    return rows_here(work, limits, args.jobs)


def _instances(args: argparse.Namespace) -> list[Instance]:
    found: list[Instance] = []
    for path in args.instances:
        instances = read_instances(path, timeout=args.timeout, expected=args.expected)
        if instances[0].category in {instance.category for instance in found}:
            raise InputError(f"two lists are in folders of the name {instances[0].category}: run them one by one")
        found += instances
    chosen = select(found, every=args.every, shard=args.shard, first=args.first)
    if not chosen:
        raise InputError("no instance is left: look at --every, --shard and --first")
    return chosen


def _tools(args: argparse.Namespace) -> list[Tool]:
    tools = [] if args.only_peers else [ours(args.options, args.certificates)]
    tools += [BUILT_IN[name]() for name in dict.fromkeys(args.peer)]
    tools += read_tools(args.tools) if args.tools else []
    names = [tool.name for tool in tools]
    if not names or len(set(names)) < len(names):
        raise InputError("every tool needs a name of its own" if names else "--only-peers needs --peer or --tools")
    return tools


def _folder(args: argparse.Namespace) -> Path:
    """DIR, and in it a folder of its own for each share, so that they can run at the same time."""
    part, parts = args.shard
    output: Path = args.output
    return output if parts == 1 else output / f"shard-{part}-of-{parts}"


def _summary(args: argparse.Namespace, folder: Path, rows: list[Row]) -> int:
    scores = [score(tool, found) for tool, found in by_tool(in_common(rows)).items()]
    clashes = conflicts(rows)
    document = {"folder": str(folder), "rows": len(rows), "conflicts": len(clashes), "tools": list(map(asdict, scores))}
    show(args, document, table(summary_rows(scores)))
    remark(args, f"{len(rows)} rows in {folder}")
    wrong = sum(score.wrong for score in scores)
    if wrong or clashes:
        print(f"ginnacer: {wrong} wrong verdicts, {len(clashes)} conflicts between tools", file=sys.stderr)
    return WRONG if wrong or clashes else 0


def summary_rows(scores: list[Score]) -> list[list[object]]:
    """A table with a heading; the ratio is of PAR-2 to that of the first tool."""
    rows: list[list[object]] = [
        [
            "tool",
            "solved",
            *(scores[0].verdicts if scores else ()),
            "wrong",
            "median",
            "solving",
            "PAR-2",
            "ratio",
            "points",
        ]
    ]
    for item in scores:
        ratio = item.par2 / scores[0].par2 if scores[0].par2 > 0 else math.nan
        median = "-" if item.median is None else f"{item.median:.2f}"
        seconds = [median, f"{item.solving:.2f}", f"{item.par2:.1f}", f"{ratio:.2f}"]
        rows.append([item.tool, item.solved, *item.verdicts.values(), item.wrong, *seconds, item.points])
    return rows


def _shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text} is not a share: write I/N with I from 1 to N")
    return int(part), int(parts)
