"""`ginnacer verify NET PROP`, and the same as the VNN-LIB standard writes it: `verify QUERY --network N=NET`."""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ginnacer_verify.abstraction.npz import load_abstraction
from ginnacer_verify.bench.tool_backend import ToolBackend
from ginnacer_verify.commands.abstract import add_partition_arguments, parse_layers, parse_strategy, read_centroid
from ginnacer_verify.commands.arguments import add_seed, add_timeout, seconds, whole
from ginnacer_verify.commands.files import content, read_property, write_witness
from ginnacer_verify.commands.networks import add_networks, load_all, split_files
from ginnacer_verify.commands.output import remark, show
from ginnacer_verify.commands.sentence import sentence, shortened
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.budget import RESTARTS
from ginnacer_verify.engines.choice import ENGINES
from ginnacer_verify.engines.problem import ARITHMETICS
from ginnacer_verify.engines.progress import Observer, observer
from ginnacer_verify.engines.record import Record
from ginnacer_verify.engines.refinement.abstracted import Options
from ginnacer_verify.engines.refinement.methods import method_names, refinement_names
from ginnacer_verify.engines.refinement.relational import INITIAL
from ginnacer_verify.engines.verdict import Statistics, Undecided, Verdict, Violated
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError, OutOfTime
from ginnacer_verify.graph.chain import as_chain
from ginnacer_verify.graph.graph import Graph
from ginnacer_verify.properties.property import Property
from ginnacer_verify.query.backend import backend_names
from ginnacer_verify.replay.witness import witness_text

USAGE = "give one network and one property, `verify NET PROP`, or networks by name, `verify PROP --network N=NET ...`"
LOOP = ("backend", "abstraction", "initial", "refine", "per_round")
"""Options of the loop, by their names in `verify`."""

EXAMPLE = "ginnacer verify ginnacer-demo/advisory.onnx ginnacer-demo/head-on.vnnlib --timeout 60"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="NET.onnx PROP.vnnlib, or PROP.vnnlib --network; - is stdin"
    )
    add_networks(parser)
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="who decides: boxes for few inputs that vary, phases, shallow "
        "and regions for many, cegar for the loop with a solver (default: auto)",
    )
    parser.add_argument(
        "--arithmetic",
        choices=ARITHMETICS,
        default="real",
        help="what a proof is about: real numbers (default), or runs in float32 with sums in any order",
    )
    parser.add_argument("--threads", type=whole(1), metavar="N", help="threads to use (default: all cores)")
    loop = parser.add_argument_group("the loop of abstraction and refinement", "any of these chooses --engine cegar")
    loop.add_argument(
        "--backend",
        metavar="NAME|TOOL.toml",
        help=f"the solver: {', '.join(backend_names())}, or a command line as in `bench run --tools` (default: highs)",
    )
    loop.add_argument(
        "--abstraction",
        metavar="NAME|FILE.npz",
        help=f"what the solver is asked about: {', '.join(method_names())}, or what `ginnacer abstract` saved "
        "(default: relational)",
    )
    loop.add_argument(
        "--initial", choices=list(INITIAL), help="which ReLUs the first query keeps exact (default: relaxed, none)"
    )
    loop.add_argument(
        "--refine",
        choices=refinement_names(),
        help="how a spurious counterexample refines the abstraction (default: split, or bisect for linear)",
    )
    loop.add_argument("--per-round", type=whole(1), metavar="N", help="how many ReLUs to refine at once (default: 8)")
    paper = parser.add_argument_group("with --abstraction paper", "how it begins, as in `ginnacer abstract`")
    paper.add_argument(
        "--centroid",
        metavar="FILE|zeros|box",
        help="where it is exact (default: box, the middle of the property's box)",
    )
    add_partition_arguments(paper)
    add_timeout(parser)
    parser.add_argument(
        "--since", type=seconds, metavar="T", help="count the time limit from T, in seconds since 1970, not from now"
    )
    add_seed(parser)
    parser.add_argument(
        "--no-attack", action="store_true", help="do not look for counterexamples by gradients, to test the prover"
    )
    parser.add_argument(
        "--dask", metavar="ADDRESS", help="spread what stays open over the workers of a scheduler, tcp://host:8786"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="record the run, one JSON line per step, for `ginnacer plot-trace`"
    )
    parser.add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="write a proof, which `ginnacer-check NET PROP FILE` accepts or refuses",
    )
    parser.add_argument(
        "--witness",
        type=Path,
        metavar="FILE",
        help="write the counterexample, if there is one: as VNN-LIB text, .npy, or a picture as .png",
    )


def run(args: argparse.Namespace) -> int:
    deadline = Deadline.after(args.timeout - (max(0.0, time.time() - args.since) if args.since else 0.0))
    files, (property_file,) = split_files(args.files, args.network, 1, USAGE)
    if args.certificate and args.arithmetic != "real":
        raise InputError("certificates are proofs in real arithmetic: leave out --certificate or --arithmetic")
    try:
        prop = read_property(property_file, deadline)
        networks = load_all(files, deadline)
    except OutOfTime as problem:
        return _late(args, problem, deadline)
    record = Record(prop) if args.certificate else None
    given = {name: value for name in LOOP if (value := getattr(args, name)) is not None}
    given |= _start(args, networks)
    if args.backend and args.backend.endswith(".toml"):
        given["backend"] = ToolBackend.read(Path(args.backend))
    try:
        with observer(args.trace, live=not (args.quiet or args.json)) as observe:
            verdict = (
                spread(args, networks, prop, deadline, given, observe)
                if args.dask
                else verify(
                    networks,
                    prop,
                    timeout=deadline.left,
                    engine=args.engine,
                    threads=args.threads,
                    seed=args.seed,
                    restarts=0 if args.no_attack else RESTARTS,
                    observe=observe,
                    arithmetic=args.arithmetic,
                    record=record,
                    **given,
                )
            )
    except OutOfTime as problem:
        return _late(args, problem, deadline)
    _show(args, prop, verdict)
    if args.witness and isinstance(verdict, Violated):
        write_witness(args.witness, prop, verdict.counterexample)
        remark(args, f"counterexample: {args.witness}")
    if args.certificate:
        _certify(args, files, property_file, verdict, deadline, record)
    if args.trace:
        remark(args, f"trace: {args.trace}")
    return 1 if isinstance(verdict, Undecided) else 0


def spread(
    args: argparse.Namespace,
    networks: dict[str, Graph],
    prop: Property,
    deadline: Deadline,
    given: dict[str, Any],
    observe: Observer,
) -> Verdict:
    """The verdict of the workers of a cluster."""
    from ginnacer_verify.bench.spread import verify_on_cluster

    if given or args.certificate or args.arithmetic != "real" or args.engine == "cegar":
        raise InputError("--dask spreads boxes: leave out --certificate, --arithmetic and the options of the loop")
    restarts = 0 if args.no_attack else RESTARTS
    return verify_on_cluster(
        networks, prop, args.dask, deadline, engine=args.engine, seed=args.seed, restarts=restarts, observe=observe
    )


def _start(args: argparse.Namespace, networks: dict[str, Graph]) -> dict[str, Any]:
    """How the paper's abstraction begins, where that is asked for."""
    own = args.centroid or args.clip or args.inputs or args.strategy != "first-fit" or args.layers != "all"
    saved = args.abstraction is not None and args.abstraction.endswith(".npz")
    if own and (saved or args.abstraction != "paper"):
        raise InputError("--centroid, --strategy, --layers, --inputs and --clip need --abstraction paper")
    if saved:
        return {"abstraction": load_abstraction(args.abstraction)}
    if not own:
        return {}
    if len(networks) != 1:
        raise InputError("--abstraction paper takes one network")
    chain = as_chain(next(iter(networks.values())))
    return {
        "options": Options(
            centroid=None if args.centroid in (None, "box") else read_centroid(args.centroid, chain, None),
            strategy=parse_strategy(args.strategy, args.seed),
            layers=parse_layers(args.layers, len(chain.layers) - 1),
            inputs=args.inputs,
            clip=args.clip,
        )
    }


def _certify(
    args: argparse.Namespace,
    networks: Mapping[str, Path],
    property_file: Path,
    verdict: Verdict,
    deadline: Deadline,
    record: Record | None,
) -> None:
    from ginnacer_verify.certificate.certify import certify

    models = {name: content(file) for name, file in networks.items()}
    given = models if len(models) > 1 else next(iter(models.values()))
    written = certify(given, content(property_file), verdict, args.certificate, deadline, record)
    remark(args, f"certificate: {written.path}" if written.path else written.reason)


def _late(args: argparse.Namespace, problem: OutOfTime, deadline: Deadline) -> int:
    """The answer when time ran out before there was anything to decide."""
    _show(args, None, Undecided(str(problem), timeout=True, statistics=Statistics(seconds=deadline.spent)))
    return 1


def _show(args: argparse.Namespace, prop: Property | None, verdict: Verdict) -> None:
    lines = ["timed-out" if args.network and verdict.word == "timeout" else verdict.word]  # the standard's word for it
    if isinstance(verdict, Violated) and prop is not None:
        witness = witness_text(prop, verdict.counterexample.x, verdict.counterexample.y).rstrip("\n").split("\n")
        lines += shortened(witness) if sys.stdout.isatty() else witness
    words = sentence(verdict, prop)
    show(args, {**document(verdict), "sentence": words}, lines)
    remark(args, f"{words} ({verdict.statistics.seconds:.2f} s)")


def document(verdict: Verdict) -> dict[str, Any]:
    """The verdict as a JSON document."""
    numbers = verdict.statistics
    found = verdict.counterexample if isinstance(verdict, Violated) else None
    return {
        "verdict": verdict.word,
        "reason": verdict.reason if isinstance(verdict, Undecided) else "",
        "seconds": round(numbers.seconds, 6),
        "engine": numbers.engine,
        "rule": numbers.rule,
        "rounds": numbers.rounds,
        "boxes": numbers.boxes,
        "parts": {"total": numbers.parts, "proved": numbers.proved},
        "relus": {"total": numbers.total, "unstable": numbers.unstable, "kept": numbers.kept},
        "counterexample": {"x": found.x.tolist(), "y": found.y.tolist()} if found else None,
    }
