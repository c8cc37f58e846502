"""Marabou: the functional form, the child process, and every way in which it can fail."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
from cases import box_of, one_disjunct, random_case
from test_milp import relationals
from test_relational import solution_at

from ginnacer_verify.abstraction.relational import Relational
from ginnacer_verify.adapters.highs import HighsBackend
from ginnacer_verify.adapters.marabou import ANSWERS, MarabouBackend
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.emit.chain import chain
from ginnacer_verify.emit.marabou import NUDGE, FunctionalForm, functional_form, live_query, outwards, save_ipq
from ginnacer_verify.emit.scaling import SIZE, scaled
from ginnacer_verify.engines.parts import Bounded, Part
from ginnacer_verify.engines.refinement.relational import exact, ginnacer
from ginnacer_verify.graph.network import Network
from ginnacer_verify.query.process import Child
from ginnacer_verify.query.query import Query, Sat, Unknown, Unsat

OPEN = [seed for seed in range(60) if relationals(seed)][:12]


def child(code: str) -> tuple[str, ...]:
    """A stand-in for the child process."""
    return sys.executable, "-c", code


def query_of(seed: int = OPEN[0]) -> Query:
    relational = relationals(seed)[0]
    return relational.query(exact(relational))


def values_of(form: FunctionalForm, relational: Relational, z: np.ndarray, query: Query) -> np.ndarray:
    """A value for every variable of the form, found by going through its equations in order."""
    values = np.full(len(form.lower), np.nan)
    values[form.z] = z
    pre = relational.base.pre_activations(z)
    values[form.z[relational.base.free :] - 1] = pre
    for equation in form.equations:
        unknown = [k for k, v in enumerate(equation.variables) if np.isnan(values[v])]
        if equation.kind == "EQ" and len(unknown) == 1:
            known = [k for k in range(len(equation.variables)) if k != unknown[0]]
            rest = equation.coefficients[known] @ values[equation.variables[known]]
            values[equation.variables[unknown[0]]] = (equation.scalar - rest) / equation.coefficients[unknown[0]]
    for before, after in form.relus:
        values[after] = max(values[before], 0.0) if np.isnan(values[after]) else values[after]
    return values


@pytest.mark.parametrize("seed", OPEN)
def test_every_run_satisfies_the_form(seed: int) -> None:
    """Each concrete run gives values within all bounds, equations and ReLUs of the form, except the unsafe rows."""
    for relational in relationals(seed):
        for kept in ((), exact(relational), ginnacer(relational)):
            query = relational.query(kept)
            form = functional_form(query)
            for x in relational.box.sample(np.random.default_rng(seed), 20):
                values = values_of(form, relational, solution_at(relational, x), query)
                assert not np.isnan(values).any()
                inner = np.arange(len(values)) < form.outputs.start
                assert (values >= form.lower - 1e-9).all()
                assert (values[inner] <= form.upper[inner] + 1e-9).all()
                for equation in form.equations:
                    left = equation.coefficients @ values[equation.variables]
                    assert left <= equation.scalar + 1e-9
                    assert equation.kind == "LE" or left >= equation.scalar - 1e-9
                for before, after in form.relus:
                    assert values[after] == pytest.approx(max(values[before], 0.0), abs=1e-6)


@pytest.mark.parametrize("seed", OPEN)
def test_the_scaled_form_says_the_same_in_other_units(seed: int) -> None:
    """v = shift + scale * v' turns bounds, equations and ReLUs into each other, and every range into one of SIZE."""
    for relational in relationals(seed):
        for kept in ((), exact(relational), ginnacer(relational)):
            form = functional_form(relational.query(kept))
            other = scaled(form)
            new = np.random.default_rng(seed).normal(size=len(form.lower)) * SIZE
            old = other.shift + other.scale * new
            for given, units in ((form.lower, other.form.lower), (form.upper, other.form.upper)):
                back = other.shift + other.scale * units
                assert (np.abs(back - given) <= 1e-15 * np.maximum(other.scale * SIZE, np.abs(given))).all()
            for a, b in zip(form.equations, other.form.equations, strict=True):
                residual = a.coefficients @ old[a.variables] - a.scalar
                units = np.abs(a.coefficients * other.scale[a.variables]).max() / np.abs(b.coefficients).max()
                assert units * (b.coefficients @ new[b.variables] - b.scalar) == pytest.approx(residual, abs=1e-6)
                assert 0.5 < np.abs(b.coefficients).max() <= 1
            for before, after in form.relus:
                assert other.shift[before] == other.shift[after] == 0
                assert other.scale[before] == other.scale[after]
            size = np.maximum(np.abs(other.form.lower), np.abs(other.form.upper))
            assert (size <= SIZE).all()
            after_relus = [after for _, after in form.relus]
            assert (np.delete(size, after_relus) > SIZE / 2).all()
            np.testing.assert_allclose(other.z(new[form.z]), old[form.z])


def test_the_form_is_functional() -> None:
    """Every variable is an input or defined by one equation or ReLU from earlier ones, which Marabou insists on."""
    relational = relationals(OPEN[0])[0]
    for kept in ((), ginnacer(relational), exact(relational)):
        form = functional_form(relational.query(kept))
        defined = set(range(form.inputs))
        for equation in form.equations:
            if equation.kind == "EQ":
                new = set(equation.variables.tolist()) - defined - {after for _, after in form.relus}
                assert len(new) == 1
                defined |= new
        assert defined | {after for _, after in form.relus} == set(range(len(form.lower)))


def test_a_saved_query_is_the_live_one(tmp_path: Path) -> None:
    core = pytest.importorskip("maraboupy.MarabouCore")
    for seed in OPEN[:4]:
        query = query_of(seed)
        save_ipq(query, tmp_path / "query.ipq")
        options = core.Options()
        options._verbosity = 0
        saved = core.solve(core.loadQuery(str(tmp_path / "query.ipq")), options, "")[0]
        live = core.solve(live_query(scaled(functional_form(query)).form), options, "")[0]
        assert saved == live
        assert saved in {"sat", "unsat"}


def test_the_child_stays_and_answers_again() -> None:
    pytest.importorskip("maraboupy")
    backend = MarabouBackend()
    first = backend.solve(query_of(), timeout=20)
    process = backend.child.process
    assert type(backend.solve(query_of(), timeout=20)) is type(first)
    assert backend.child.process is process
    backend.child.close()


def test_a_child_that_is_killed_between_questions_is_replaced() -> None:
    pytest.importorskip("maraboupy")
    backend = MarabouBackend()
    first = backend.solve(query_of(), timeout=20)
    assert backend.child.process
    killed = backend.child.process
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert type(backend.solve(query_of(), timeout=20)) is type(first)
    assert backend.child.process is not killed
    assert killed.stdin
    assert killed.stdin.closed
    backend.child.close()


SLEEPS = (
    "import time; from ginnacer_verify.query.process import serve; "
    "serve(lambda question, seconds: time.sleep(question) or {'word': 'unsat'})"
)


def test_a_child_that_is_killed_over_a_question_is_unknown_and_the_next_one_is_answered() -> None:
    asked = Child("Marabou", child(SLEEPS))
    deadline = Deadline.after(20)
    assert asked.ask(0, deadline) == {"word": "unsat"}
    assert asked.process
    Timer(0.3, asked.process.kill).start()
    answer = asked.ask(15, deadline)
    assert isinstance(answer, Unknown)
    assert "without an answer" in answer.reason
    assert not answer.timeout
    assert asked.ask(0, deadline) == {"word": "unsat"}
    asked.close()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; sys.exit(3)", "without an answer"),
        ("import sys; sys.stdin.buffer.read(8); sys.stdout.write('unsat'); sys.stdout.flush()", "without an answer"),
        ("import os; os.abort()", "without an answer"),
        ("import sys, struct; sys.stdin.buffer.read(8); w = sys.stdout.buffer; b = b'UNSAT'; "
         "w.write(struct.pack('!Q', len(b)) + b); w.flush(); sys.stdin.buffer.read()", "without an answer"),
        ("import sys, struct; sys.stdin.buffer.read(8); w = sys.stdout.buffer; b = b'{\"word\": \"UNSAT\"}'; "
         "w.write(struct.pack('!Q', len(b)) + b); w.flush(); sys.stdin.buffer.read()", "'UNSAT'"),
        ("import sys, struct; sys.stdin.buffer.read(8); w = sys.stdout.buffer; b = b'{\"word\": \"sat\", \"z\": [1]}'; "
         "w.write(struct.pack('!Q', len(b)) + b); w.flush(); sys.stdin.buffer.read()", "violates its own query"),
        ("import sys, struct; sys.stdin.buffer.read(8); w = sys.stdout.buffer; b = b'[]'; "
         "w.write(struct.pack('!Q', len(b)) + b); w.flush(); sys.stdin.buffer.read()", "without an answer"),
    ],
)  # fmt: skip
def test_garbage_from_the_child_is_unknown(code: str, reason: str) -> None:
    backend = MarabouBackend(command=child(code))
    answer = backend.solve(query_of(), timeout=20)
    assert isinstance(answer, Unknown)
    assert reason in answer.reason
    backend.child.close()


SAYS_UNSAT = (
    "import sys; from ginnacer_verify.query.process import serve; "
    "serve(lambda question, seconds: {'word': 'unsat', 'z': None})"
)


@pytest.mark.parametrize("seed", OPEN)
def test_an_unsat_is_believed_only_if_highs_has_no_solution(seed: int) -> None:
    backend = MarabouBackend(command=child(SAYS_UNSAT))
    answer, truth = backend.solve(query_of(seed), timeout=20), HighsBackend().solve(query_of(seed), timeout=20)
    match truth:
        case Sat():
            assert isinstance(answer, Unknown)
            assert "HiGHS has a solution" in answer.reason
        case _:
            assert isinstance(answer, Unsat)
    backend.child.close()


def test_a_small_query_that_gets_no_answer_is_asked_in_other_forms() -> None:
    code = (
        "import time; from ginnacer_verify.query.process import serve; "
        "serve(lambda question, seconds: time.sleep(60) if question[1] == 'auto' else {'word': 'UNKNOWN'})"
    )
    backend = MarabouBackend(command=child(code))
    assert backend.solve(query_of(), timeout=20) == ANSWERS["UNKNOWN"]
    backend.child.close()


def test_inputs_are_nudged_outwards_by_very_little_and_nothing_else_is() -> None:
    for seed in OPEN:
        query = query_of(seed)
        plain, nudged = functional_form(query, 0.0), functional_form(query)
        width = plain.upper - plain.lower
        assert (nudged.lower <= plain.lower).all()
        assert (nudged.upper >= plain.upper).all()
        assert (nudged.upper - nudged.lower <= width * (1 + 2 * NUDGE)).all()
        np.testing.assert_array_equal(nudged.lower[plain.inputs :], plain.lower[plain.inputs :])
        np.testing.assert_array_equal(nudged.upper[plain.inputs :], plain.upper[plain.inputs :])


def test_a_child_that_hangs_is_killed_in_time() -> None:
    backend = MarabouBackend(command=child("import time; time.sleep(60)"))
    start = time.monotonic()
    answer = backend.solve(query_of(), timeout=0.5)
    assert isinstance(answer, Unknown)
    assert answer.timeout
    assert time.monotonic() - start < 1.5
    assert backend.child.process is None


def test_too_little_memory_is_unknown() -> None:
    pytest.importorskip("maraboupy")
    backend = MarabouBackend(memory=60 << 20)
    assert isinstance(backend.solve(query_of(), timeout=20), Unknown)
    backend.child.close()


def test_a_timeout_of_zero_starts_no_child() -> None:
    backend = MarabouBackend(command=child("raise SystemExit(1)"))
    answer = backend.solve(query_of(), timeout=0)
    assert isinstance(answer, Unknown)
    assert answer.timeout
    assert backend.child.process is None


def test_witnesses_satisfy_the_query() -> None:
    pytest.importorskip("maraboupy")
    backend, found = MarabouBackend(), 0
    for seed in OPEN:
        for relational in relationals(seed):
            for kept in ((), ginnacer(relational), exact(relational)):
                query = relational.query(kept)
                answer = backend.solve(query, timeout=20)
                assert isinstance(answer, Sat | Unsat)
                if isinstance(answer, Sat):
                    found += 1
                    assert query.violation(answer.z) <= 1e-5
    assert found > 5
    backend.child.close()


def test_the_child_ends_quietly_with_its_backend_or_with_python() -> None:
    pytest.importorskip("maraboupy")
    backend = MarabouBackend(command=child("import time; time.sleep(60)"))
    backend.solve(query_of(), timeout=0.1)
    backend = MarabouBackend()
    backend.solve(query_of(), timeout=20)
    process = backend.child.process
    del backend
    assert process
    assert process.poll() is not None
    code = (
        "from test_marabou import MarabouBackend, query_of; kept = MarabouBackend(); "
        "kept.solve(query_of(), timeout=20); print(kept.child.process.pid)"
    )
    folder = Path(__file__).parent
    program = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert program.stderr == ""
    assert not Path("/proc", program.stdout.strip()).exists()


def test_the_module_imports_without_the_solver() -> None:
    code = (
        "import sys; sys.modules['maraboupy'] = None; "
        "from ginnacer_verify.adapters.marabou import MarabouBackend; MarabouBackend()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_cases_have_open_disjuncts() -> None:
    assert len(OPEN) == 12
    assert random_case(OPEN[0]).network.relus > 0


def test_only_unsat_is_unsat() -> None:
    assert [word for word, answer in ANSWERS.items() if isinstance(answer, Unsat)] == ["unsat"]


def test_exact_relus_without_slack_move_the_unsafe_rows() -> None:
    """x' = relu(y) is written exactly, in the form and in the chain: a slack of 1/2 per ReLU goes to the rows."""
    network = Network.from_arrays(([[1.0], [-1.0]], [0.0, 0.0]), ([[3.0, -2.0]], [0.5]), ([[5.0]], [0.0]))
    box = box_of([-1.0], [1.0])
    prop = one_disjunct(box, [[1.0]], [1.0])
    relational = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)
    base = relational.base
    loose = replace(base, relus=replace(base.relus, slack=np.full(3, 0.5)))
    assert outwards(loose) == pytest.approx([0.5 * 5 + 0.5 * 5 * 3 + 0.5 * 5 * 2])
    query = Query(loose, tuple(relational.singleton(i) for i in range(3)))
    assert functional_form(query).upper[-1] == pytest.approx(loose.unsafe.offset[0] + 12.5 + 2.5)
    found = chain(query)
    z = solution_at(relational, np.array([0.25]))
    row = loose.unsafe.matrix[0] @ z - loose.unsafe.offset[0] - 15.0
    assert Network(found.layers)(0.25 - box.lower + found.box.lower) == pytest.approx([row])
