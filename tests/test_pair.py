"""Pairs of files for other tools: what they say about a query, and the loop through them."""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cases import BY_HAND, Case, random_case
from test_conformance import queries
from test_emit_abstraction import in_rationals
from test_paper import started

import ginnacer_verify as gv
from ginnacer_verify.abstraction.abstraction import abstract
from ginnacer_verify.adapters.highs import HighsBackend
from ginnacer_verify.bench.tool_backend import ToolBackend
from ginnacer_verify.bench.tools import Tool
from ginnacer_verify.emit.abstraction import abstraction_graph, abstraction_model
from ginnacer_verify.emit.pair import FLOAT32, abstract_rows, query_pair, rows_property
from ginnacer_verify.engines.refinement.loop import verify
from ginnacer_verify.errors import InputError
from ginnacer_verify.properties.vnnlib import parse_vnnlib
from ginnacer_verify.properties.write import to_vnnlib
from ginnacer_verify.query.query import Query, Sat, Unknown, Unsat

SELF = (
    sys.executable,
    "-m",
    "ginnacer_verify",
    "verify",
    "{network}",
    "{property}",
    "--timeout",
    "{timeout}",
    "--quiet",
)
CASES = [*BY_HAND, *map(random_case, range(24))]


def asked(case: Case) -> list[Query]:
    """Relaxed, with subsets of several, exact, and the paper's."""
    return [*queries(case), *(now.query for now in started(case))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_solution_of_the_query_is_one_of_the_pair(dtype: type) -> None:
    """In rationals, whatever the weights are rounded to: the outputs stay below their numbers."""
    seen = 0
    for case in CASES:
        for query in asked(case):
            answer = HighsBackend().solve(query, timeout=60)
            if not isinstance(answer, Sat):
                continue
            seen += 1
            pair = query_pair(query, np.dtype(dtype))
            base, relus = query.base, query.base.relus
            y, line = base.pre_activations(answer.z), relus.upper / (relus.upper - relus.lower)
            below = line * (y - relus.lower) + relus.slack - answer.z[base.free :]
            box = pair.prop.boxes[0]
            x = np.zeros(box.inputs)
            x[: base.free + len(pair.relaxed)] = [*answer.z[: base.free], *below[pair.relaxed]]
            assert np.abs(box.clip(x) - x).max() <= 1e-6, "where the solver's own tolerance leaves it"
            outputs = in_rationals(pair.model, box.clip(x))
            limits = pair.prop.disjuncts[0].outputs.offset
            assert all(
                value <= Fraction(float(limit)) + Fraction(1e-6) for value, limit in zip(outputs, limits, strict=True)
            )
            assert query.violation(pair.z(box.clip(x))) <= 1e-5 + pair.room
    assert seen > 40


def test_the_pair_has_the_querys_answer() -> None:
    """Our own verifier on the pair, through its text, and HiGHS on the query."""
    words, decided, count = {Unsat: "unsat", Sat: "sat"}, 0, 0
    for case in CASES[::2]:
        for query in asked(case):
            pair = query_pair(query)
            expected = words[type(HighsBackend().solve(query, timeout=60))]
            found = gv.verify(gv.load(pair.model), parse_vnnlib(to_vnnlib(pair.prop)), timeout=1)
            assert found.undecided or found.word == expected, case.name
            decided, count = decided + (not found.undecided), count + 1
    assert decided >= 0.9 * count


def test_the_rows_of_a_property_are_what_is_emitted() -> None:
    """Below the property's own rows at every input, in rationals; and fewer copies than rows of outputs would need."""
    random = np.random.default_rng(4)
    for case in map(random_case, range(8)):
        box = case.prop.boxes[0]
        abstraction = abstract(case.network, box.middle, inputs="pre-layer")
        model = abstraction_model(abstraction, rows=abstract_rows(abstraction, case.prop))
        stated = parse_vnnlib(to_vnnlib(rows_property(case.prop)))
        assert gv.load(model).relus == abstraction_graph(abstraction, FLOAT32).graph.relus
        for x in box.sample(random, 8):
            outputs = in_rationals(model, x)
            rows = case.prop.disjuncts[0].outputs.slacks(case.network(x))
            assert all(value <= -slack + Fraction(1e-9) for value, slack in zip(outputs, rows, strict=True))
            if case.prop.is_unsafe_at(x, case.network(x)):
                assert stated.is_unsafe_at(x, [float(value) for value in outputs])


@pytest.mark.parametrize("abstraction", ["paper", "relational"])
def test_the_loop_through_a_command_line(abstraction: str) -> None:
    backend = ToolBackend(Tool("self", SELF))
    for case in (BY_HAND[0], BY_HAND[1], random_case(2)):
        found = verify(case.network, case.prop, abstraction=abstraction, backend=backend, restarts=0, timeout=120)
        assert found.word == case.expected, case.name


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("print('sat')", "gives no counterexample"),
        ("print('unknown')", "says unknown"),
        ("print('hello')", "says error"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import time; time.sleep(60)", "time"),
    ],
)
def test_a_tool_that_does_not_help_is_unknown(program: str, expected: str) -> None:
    backend = ToolBackend(Tool("odd", (sys.executable, "-c", program, "{network}", "{property}")))
    answer = backend.solve(queries(BY_HAND[1])[0], timeout=3.0)
    assert isinstance(answer, Unknown)
    assert expected in answer.reason


def test_a_backend_is_one_tool(tmp_path: Path) -> None:
    file = tmp_path / "tools.toml"
    file.write_text('[a]\ncommand = "a {network} {property}"\n[b]\ncommand = "b {network} {property}"\n')
    with pytest.raises(InputError, match="2 tools"):
        ToolBackend.read(file)
