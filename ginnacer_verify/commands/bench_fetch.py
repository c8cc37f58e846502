"""`ginnacer bench fetch NAME`: an official benchmark set, ready for `bench run`."""

import argparse
from pathlib import Path

from ginnacer_verify.bench.fetch import LIST, cache_folder, fetch, known_sets, read_set
from ginnacer_verify.commands.bar import Bar
from ginnacer_verify.commands.output import remark, show, table
from ginnacer_verify.errors import InputError

EXAMPLE = "ginnacer bench fetch acasxu"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="the set to fetch; without a name, the known sets are listed")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder for the files (default: a cache folder)"
    )
    parser.add_argument(
        "--from", dest="origin", metavar="PLACE", help="a copy of its repository: a folder or an address"
    )
    parser.add_argument("--set", type=Path, metavar="FILE.toml", help="a file that describes another set")


def run(args: argparse.Namespace) -> int:
    known = known_sets()
    if args.name is None and args.set is None:
        rows = [(found.name, found.title) for found in known.values()]
        show(args, {found.name: found.title for found in known.values()}, table(rows))
        return 0
    if args.set is None and args.name not in known:
        raise InputError(f"{args.name} is not known; known are {', '.join(known)}, others need --set FILE.toml")
    wanted = read_set(args.set) if args.set else known[args.name]
    folder: Path = args.output or cache_folder() / wanted.name
    with Bar(f"fetching {wanted.name}", quiet=args.quiet) as bar:
        fetched = fetch(wanted, folder, origin=args.origin, observe=bar.update)
    remark(args, f"{fetched} of {len(wanted.hashes)} files fetched, all as they should be")
    show(args, {"instances": str(folder / LIST), "fetched": fetched}, [str(folder / LIST)])
    return 0
