"""Properties about several networks and with products of variables: reading, deciding, witnesses, bad input."""

import gzip
import random
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cases import box_of, one_disjunct, random_network
from exhaustive import is_sat, least
from scipy.sparse import block_diag

from benchmarks import benchmark
from ginnacer_verify.bounds.intervals import intervals
from ginnacer_verify.cli import main
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.run import NativeRun
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.compare import difference
from ginnacer_verify.engines.regions import RegionRun
from ginnacer_verify.engines.verdict import Holds, Undecided
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import InputError, PropertyError, WitnessError
from ginnacer_verify.graph.chain import as_chain, graph_of
from ginnacer_verify.graph.network import Network
from ginnacer_verify.graph.onnx import network_model
from ginnacer_verify.graph.twins import twins
from ginnacer_verify.properties.property import Declared, Disjunct, Polytope, Property, Variable
from ginnacer_verify.properties.vnnlib import parse_vnnlib
from ginnacer_verify.properties.write import to_vnnlib
from ginnacer_verify.replay.joint import subject
from ginnacer_verify.replay.judge import Counterexample, Judge, Spurious
from ginnacer_verify.replay.witness import parse_witness, witness_text

ONE = "(vnnlib-version <2.0>)\n(declare-network f (declare-input X real [2]) (declare-output Y real [2]))\n"
BOX = "(assert (and (>= X[0] -1.0) (<= X[0] 2.0) (>= X[1] 0.5) (<= X[1] 3.0)))\n"
IDENTITY = Network.from_arrays((np.eye(2), np.zeros(2)))


def two(inputs: int = 1, outputs: int = 1, relation: str = "") -> str:
    return (
        "(vnnlib-version <2.0>)\n"
        f"(declare-network f (declare-input X real [{inputs}]) (declare-output Y real [{outputs}]))\n"
        f"(declare-network g {relation} (declare-input V real [{inputs}]) (declare-output W real [{outputs}]))\n"
    )


SHARED = "(assert (and (>= X[0] -1.0) (<= X[0] 2.0)))(assert (== X[0] V[0]))\n"


# Products


def polynomial(random_: random.Random, depth: int) -> str:
    if depth == 0 or random_.random() < 0.2:
        return random_.choice(["X[0]", "X[1]", "Y[0]", "Y[1]", "0.5", "-2.0"])
    operator = random_.choice(["+", "-", "*", "*"])
    return f"({operator} {polynomial(random_, depth - 1)} {polynomial(random_, depth - 1)})"


def value(text: str, point: dict[str, Fraction]) -> Fraction:
    """An expression in prefix form, computed the plain way."""
    words = text.replace("(", " ( ").replace(")", " ) ").split()

    def read() -> Fraction:
        word = words.pop(0)
        if word != "(":
            return point[word] if word in point else Fraction(word)
        operator, left, right = words.pop(0), read(), read()
        words.pop(0)
        return {"+": left + right, "-": left - right, "*": left * right}[operator]

    return read()


@pytest.mark.parametrize("seed", range(60))
def test_products_mean_what_they_say(seed: int) -> None:
    random_ = random.Random(seed)
    left, right = polynomial(random_, 3), polynomial(random_, 2)
    relation = random_.choice(["<=", "<", ">=", ">", "==", "!="])
    prop = parse_vnnlib(f"{ONE}{BOX}(assert ({relation} {left} {right}))")
    for _ in range(40):
        x, y = ([random_.choice([-1, -0.5, 0, 0.5, 1, 2]) for _ in range(2)] for _ in range(2))
        x[1] = abs(x[1]) or 0.5
        point = dict(zip(("X[0]", "X[1]", "Y[0]", "Y[1]"), map(Fraction, [*x, *y]), strict=True))
        a, b = value(left, point), value(right, point)
        holds = {"<=": a <= b, "<": a < b, ">=": a >= b, ">": a > b, "==": a == b, "!=": a != b}[relation]
        assert prop.is_unsafe_at(x, y) == holds


NO_SLACK = {
    "(> (* Y[0] Y[0]) 4.0)",
    "(!= (* X[0] Y[1]) (* Y[0] X[1]))",
    "(and (<= Y[0] 0.0) (>= (* X[1] Y[0]) 0.0))",
}
"""These may stay open, but not get a wrong verdict."""


@pytest.mark.parametrize(
    ("asserted", "word"),
    [
        ("(>= (* Y[0] Y[0]) 4.0)", "sat"),
        ("(> (* Y[0] Y[0]) 4.0)", "unsat"),  # the largest square is 4
        ("(<= (* Y[0] Y[1]) -2.9)", "sat"),
        ("(<= (* Y[0] Y[1]) -3.1)", "unsat"),
        ("(<= (* X[0] Y[0] X[1]) -0.1)", "unsat"),  # x0 x0 x1 is never negative
        ("(!= (* X[0] Y[1]) (* Y[0] X[1]))", "unsat"),
        ("(> Y[0] (+ X[0] 0.1))", "unsat"),
        ("(< Y[0] (+ X[0] 0.1))", "sat"),
        ("(and (< Y[0] 0.0) (>= (* X[1] Y[0]) 0.0))", "unsat"),  # only because `<` is strict
        ("(and (<= Y[0] 0.0) (>= (* X[1] Y[0]) 0.0))", "sat"),
        ("(and (> Y[0] 0.0) (<= (- X[1] 0.5) (* 0.1 Y[0])) (>= (* (- X[1] 0.5) (- X[1] 0.5)) Y[0]))", "unsat"),
    ],
)
def test_products_are_decided(asserted: str, word: str) -> None:
    verdict = verify(IDENTITY, parse_vnnlib(f"{ONE}{BOX}(assert {asserted})"), timeout=20)
    assert verdict.word == word or (asserted in NO_SLACK and isinstance(verdict, Undecided))


# Several networks


def pair(seed: int) -> tuple[Network, Network]:
    """Two networks of one shape whose weights differ a little, in multiples of 1/16."""
    random_ = np.random.default_rng(seed)
    shape = ((2, 3, 1), (1, 4, 1), (2, 3, 3, 1), (1, 3, 3, 1))[seed % 4]
    f = random_network(random_, shape)
    arrays = [
        (layer.weight + random_.integers(-2, 3, layer.weight.shape) / 16, layer.bias + random_.integers(-2, 3) / 16)
        for layer in f.layers
    ]
    return f, Network.from_arrays(*arrays)


def product_of(f: Network, g: Network) -> Network:
    """g - f on shared inputs, as one chain that this test builds by itself."""
    arrays = []
    for number, (a, b) in enumerate(zip(f.layers, g.layers, strict=True)):
        weight = np.vstack([a.weight, b.weight]) if number == 0 else block_diag([a.weight, b.weight]).toarray()
        arrays.append((weight, np.concatenate([a.bias, b.bias])))
    weight, bias = arrays.pop()
    return Network.from_arrays(*arrays, (weight[1:] - weight[:1], bias[1:] - bias[:1]))


CRUISE = "adaptive_cruise_control_2026"
STEP = "(* 200.0 (+ X[0,0] (* X[0,1] 0.1) (* Y[0,0] 0.005))) (* (+ X[0,1] (* Y[0,0] 0.1)) (+ X[0,1] (* Y[0,0] 0.1)))"


@pytest.mark.parametrize(
    ("asserted", "word"),
    [
        ("", "sat"),  # as it is published
        (f"(<= {STEP})", "unsat"),  # after one step the car is no longer able to stop
        (f"(>= {STEP})", "sat"),
        ("(or (> (* Y[0,0] X[0,0]) 4001.0) (< (* Y[0,0] X[0,0]) -4001.0))", "unsat"),
    ],
)
def test_cruise_control_is_decided(asserted: str, word: str) -> None:
    """The one public instance, and others about the same inputs."""
    text = gzip.decompress(benchmark(CRUISE, "vnnlib", "instance_1.vnnlib.gz").read_bytes()).decode()
    network = benchmark(CRUISE, "onnx", "acc-2000000-64-64-64-64-retrain-100000-200000-0.9.onnx.gz")
    if asserted:
        text = text[: text.index("; Output Constraints")] + f"(assert {asserted})"
    assert verify(network, parse_vnnlib(text), timeout=60).word == word


@pytest.mark.parametrize("block", range(5))
def test_random_pairs_are_decided_as_by_enumeration(block: int) -> None:
    """100 pairs a block, with a threshold next to the exact smallest difference."""
    undecided = 0
    for seed in range(block * 100, block * 100 + 100):
        f, g = pair(seed)
        random_ = np.random.default_rng(seed)
        lower = random_.integers(-8, 5, f.inputs) / 4
        upper = lower + random_.integers(1, 9, f.inputs) / 4
        difference, box = product_of(f, g), box_of(lower, upper)
        lowest = float(least(difference, one_disjunct(box, [[1.0]], [0.0]).disjuncts[0]))
        offset = lowest + float(random_.choice([-0.25, -1e-2, -1e-3, 1e-3, 1e-2, 0.25]))
        expected = "sat" if is_sat(difference, one_disjunct(box, [[1.0]], [offset])) else "unsat"
        bounds = "".join(
            f"(assert (and (>= X[{i}] {a}) (<= X[{i}] {b}) (== X[{i}] V[{i}])))"
            for i, (a, b) in enumerate(zip(lower, upper, strict=True))
        )
        prop = parse_vnnlib(f"{two(f.inputs)}{bounds}(assert (<= (- W[0] Y[0]) {offset:.20f}))")
        engine = ("auto", "regions")[seed % 2]
        verdict = verify({"f": f, "g": g}, prop, timeout=20, restarts=seed % 3, engine=engine)
        undecided += isinstance(verdict, Undecided)
        assert verdict.word == expected or isinstance(verdict, Undecided), f"seed {seed}"
    assert undecided <= 2


@pytest.mark.parametrize("seed", range(12))
def test_bounds_that_lean_on_twins_hold(seed: int) -> None:
    """Wider networks than can be enumerated, thresholds next to what sampling finds: nothing that was seen is proved
    absent, and what lies far beyond is. Some boxes have inputs that do not vary, some networks are copies."""
    random_ = np.random.default_rng(seed)
    shape = ((3, 12, 12, 2), (2, 20, 20, 20, 2), (4, 16, 2))[seed % 3]
    scale = (0.0, 1e-6, 1e-2, 0.1)[seed % 4]
    arrays = [(random_.normal(size=(n, m)) / np.sqrt(m), random_.normal(size=n) / 4) for m, n in pairwise(shape)]
    f, g = (
        Network.from_arrays(*[(w + move * random_.normal(size=w.shape), b) for w, b in arrays]) for move in (0.0, scale)
    )
    lower = random_.normal(size=f.inputs)
    upper = lower + random_.choice([0.0, 1e-9, 0.3, 1.0], size=f.inputs)
    declared = [Declared(n, Variable(n, (f.inputs,)), Variable(n, (2,)), tuple(range(f.inputs))) for n in "fg"]
    points = lower + random_.random((20_000, f.inputs)) * (upper - lower)
    row = np.array([[1.0, 0.0, -1.0, 0.0], [0.0, -1.0, 0.0, 1.0]])
    values = np.hstack([f(points), g(points)]) @ row.T
    for k in range(2):
        for offset, may_hold in ((values[:, k].min() + 1e-12, False), (values[:, k].min() - 0.3, True)):
            outputs = [Polytope.of(row[[i]], [offset if i == k else -9.0]) for i in range(2)]
            box = box_of(lower, upper)
            disjuncts = tuple(Disjunct(box, Polytope.everything(f.inputs), one) for one in outputs)
            prop = Property(disjuncts, Variable("X", (f.inputs,)), Variable("Y", (4,)), "2.0", "", tuple(declared))
            verdict = verify({"f": f, "g": g}, prop, timeout=5 if may_hold else 1, restarts=0, engine="boxes")
            assert isinstance(verdict, Holds) == may_hold


def test_boxes_of_rows_that_are_searched_together_are_handed_over_with_all_of_them() -> None:
    """The loop takes over what is open: a box without its disjuncts once ended the run."""
    f = random_network(np.random.default_rng(3), (2, 6, 6, 2))
    prop = difference(f, f, box_of([-1.0, -1.0], [1.0, 1.0]), 0.0)
    run = NativeRun(Judge(as_chain(subject({"f": f, "g": f}, prop)), prop), Budget(Deadline.after(0.2), restarts=0))
    run.run()
    assert {part.disjuncts for part in run.remaining} == {(0, 1, 2, 3)}


@pytest.mark.parametrize("seed", range(8))
def test_bounds_of_a_joint_graph_are_not_taken_for_those_of_its_twins(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaning on twins adds nodes, so what was known of a node once was believed of another."""
    monkeypatch.setattr("ginnacer_verify.engines.regions.FEW_INPUTS", 0)
    f, g = pair(4 * seed + 2)
    box = box_of([-1.0] * f.inputs, [1.0] * f.inputs)
    points = box.sample(np.random.default_rng(seed), 500)
    widest = float(np.abs(f(points) - g(points)).max())
    for epsilon, proved in ((widest - 1e-9, False), (widest + 8.0, True)):
        prop = difference(f, g, box, epsilon)
        judge = Judge(graph_of(subject({"f": f, "g": g}, prop)), prop)
        known = intervals(judge.graph, box.lower[None], box.upper[None])
        run = RegionRun(judge, Budget(Deadline.after(20), restarts=0)).only(range(len(prop.disjuncts)), known)
        assert (run.run() is None) == proved


def test_no_disjunct_is_searched_where_none_is_open() -> None:
    f, g = pair(2)
    box = box_of([-1.0] * f.inputs, [1.0] * f.inputs)
    judge = Judge(graph_of(subject({"f": f, "g": g}, prop := difference(f, g, box, 0.0))), prop)
    run = RegionRun(judge, Budget(Deadline.after(20))).only(
        (), intervals(judge.graph, box.lower[None], box.upper[None])
    )
    assert run.run() is None
    assert run.regions == 0


def test_neurons_are_paired_wherever_they_stand() -> None:
    f = random_network(np.random.default_rng(5), (2, 6, 6, 1))
    order = np.random.default_rng(0).permutation(6)
    (a, b, c) = f.layers
    shuffled = Network.from_arrays(
        (a.weight[order], a.bias[order]), (b.weight[order][:, order], b.bias[order]), (c.weight[:, order], c.bias)
    )
    prop = parse_vnnlib(two(2) + EQUAL2 + "(assert (> W[0] (+ Y[0] 0.1)))")
    joint = as_chain(subject({"f": f, "g": shuffled}, prop))
    found = twins(joint, prop.boxes[0])
    values = list(joint.through(prop.boxes[0].sample(np.random.default_rng(1), 50)))
    varying = [np.ptp(layer, axis=0) > 0 for layer in values[:-1]]
    for layer, start, used in zip(values, (0, 12), varying, strict=False):
        for i in np.flatnonzero(found[start : start + 12] >= 0):
            assert np.allclose(layer[:, i], layer[:, found[start + i] - start])
        assert (found[start : start + 12] >= 0).sum() == used.sum() // 2
    assert verify({"f": f, "g": shuffled}, prop, timeout=20).word == "unsat"


EQUAL2 = "".join(f"(assert (and (>= X[{i}] -1.0) (<= X[{i}] 1.0) (== X[{i}] V[{i}])))" for i in range(2))
SLOPE = Network.from_arrays(([[1.0]], [0.0]), ([[2.0]], [0.0]))
"""2 relu(x)."""
DOUBLE = Network.from_arrays(([[1.0]], [0.25]), ([[2.0]], [0.0]))
"""2 relu(x + 1/4)."""


@pytest.mark.parametrize("engine", ["auto", "regions", "cegar"])
@pytest.mark.parametrize(
    ("text", "word"),
    [
        (SHARED + "(assert (> W[0] (+ Y[0] 0.51)))", "unsat"),
        (SHARED + "(assert (> W[0] (+ Y[0] 0.49)))", "sat"),
        (SHARED + "(assert (or (> W[0] (+ Y[0] 0.51)) (< W[0] (- Y[0] 0.01))))", "unsat"),
        (SHARED + "(assert (and (> W[0] (+ Y[0] 0.05)) (< W[0] (- Y[0] 0.05))))", "unsat"),  # as it was published
        ("(assert (and (>= X[0] 0.0) (<= X[0] V[0]) (<= V[0] 1.0)))(assert (< W[0] (+ Y[0] 0.4)))", "unsat"),
        ("(assert (and (>= X[0] 0.0) (<= X[0] V[0]) (<= V[0] 1.0)))(assert (> W[0] (+ Y[0] 2.4)))", "sat"),
        ("(assert (and (>= X[0] 0.0) (<= X[0] V[0]) (<= V[0] 1.0)))(assert (> W[0] (+ Y[0] 2.6)))", "unsat"),
        ("(assert (and (>= X[0] 0.0) (<= X[0] 1.0) (== V[0] (+ X[0] 0.5))))(assert (< W[0] (+ Y[0] 1.4)))", "unsat"),
    ],
)
def test_relations_of_inputs(text: str, word: str, engine: str) -> None:
    verdict = verify({"f": SLOPE, "g": DOUBLE}, parse_vnnlib(two() + text), timeout=20, engine=engine)
    assert verdict.word == word


def test_inputs_that_are_equal_are_one_input() -> None:
    prop = parse_vnnlib(two() + SHARED + "(assert (> W[0] Y[0]))")
    assert (prop.inputs, prop.outputs, len(prop.disjuncts)) == (1, 2, 1)
    assert [one.inputs for one in prop.networks] == [(0,), (0,)]


def test_witnesses_speak_of_every_variable_and_read_back() -> None:
    prop = parse_vnnlib(two() + SHARED + "(assert (> W[0] (+ Y[0] 0.25)))")
    verdict = verify({"f": SLOPE, "g": DOUBLE}, prop, timeout=20)
    assert verdict.counterexample is not None
    text = witness_text(prop, verdict.counterexample.x, verdict.counterexample.y)
    assert [line.split()[0] for line in text.splitlines() if line[0].isalpha()] == ["X", "Y", "V", "W"]
    judge = Judge(subject({"f": SLOPE, "g": DOUBLE}, prop), prop)
    assert isinstance(judge(parse_witness(text, prop)), Counterexample)
    assert isinstance(judge([-1.0]), Spurious)
    with pytest.raises(WitnessError, match="inputs that the property says are equal"):
        parse_witness("X real [1]\n0.5\nY real [1]\n1.0\nV real [1]\n0.75\nW real [1]\n1.5\n", prop)
    with pytest.raises(WitnessError, match="does not give V"):
        parse_witness("X real [1]\n0.5\nY real [1]\n1.0\n", prop)


def test_every_original_is_replayed() -> None:
    """The second network computes 2 relu(x) in float32 from weights that the first one has rounded."""
    prop = parse_vnnlib(two() + SHARED + "(assert (!= W[0] Y[0]))")
    tiny = Network.from_arrays(([[1.0]], [0.0]), ([[2.0 + 2**-20]], [0.0]))
    verdict = verify({"f": SLOPE, "g": tiny}, prop, timeout=20)
    assert verdict.counterexample is not None
    x, y = verdict.counterexample.x, verdict.counterexample.y
    assert y.tolist() == [float(np.float32(2) * np.float32(x[0])), float(np.float32(2 + 2**-20) * np.float32(x[0]))]


@pytest.mark.parametrize(
    ("networks", "problem"),
    [
        ({"f": SLOPE}, "network 'g', which is not given: add --network g=FILE"),
        ({"f": SLOPE, "g": SLOPE, "h": SLOPE}, "does not speak of network 'h', only of f, g"),
        ({"f": SLOPE, "g": IDENTITY}, "network g: the property has 1 inputs and 1 outputs"),
        (SLOPE, "network 'f', which is not given"),
    ],
)
def test_bad_networks_get_a_sentence(networks: dict[str, Network], problem: str) -> None:
    prop = parse_vnnlib(two() + SHARED + "(assert (> W[0] Y[0]))")
    with pytest.raises(InputError, match=problem):
        verify(networks, prop)


def test_networks_that_are_said_to_be_equal_must_be(tmp_path: Path) -> None:
    prop = tmp_path / "equal.vnnlib"
    prop.write_text(two(relation="(equal-to f)") + SHARED + "(assert (> W[0] Y[0]))")
    for name, network in (("f", SLOPE), ("g", DOUBLE)):
        (tmp_path / f"{name}.onnx").write_bytes(network_model(network))
    f, g = (f"{name}={tmp_path / name}.onnx" for name in "fg")
    assert main(["verify", str(prop), "--network", f, "--network", g]) == 2
    assert main(["verify", str(prop), "--network", f, "--network", f"g={tmp_path}/f.onnx", "--timeout", "1"]) in (0, 1)


def test_other_commands_refuse_them() -> None:
    prop = parse_vnnlib(two() + SHARED + "(assert (> W[0] Y[0]))")
    with pytest.raises(PropertyError, match="cannot be written"):
        to_vnnlib(prop)
    with pytest.raises(PropertyError, match="only `verify` and `replay`"):
        Judge(SLOPE, prop)
    assert isinstance(prop, Property)


def test_commands_take_lists_and_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    f, g, prop = tmp_path / "f.onnx", tmp_path / "g.onnx", tmp_path / "p.vnnlib"
    f.write_bytes(network_model(SLOPE))
    g.write_bytes(network_model(DOUBLE))
    prop.write_text(two(relation="(isomorphic-to f)") + SHARED + "(assert (> W[0] (+ Y[0] 0.25)))")
    listed, named = f"[('f', '{f}'), ('g', '{g}')]", ["--network", f"f={f}", "--network", f"g={g}"]
    witness = tmp_path / "witness.txt"
    assert main(["verify", listed, str(prop), "--witness", str(witness)]) == 0
    assert capsys.readouterr().out.startswith("sat\nX real [1]\n")
    assert main(["verify", str(prop), *named, "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("sat\n")
    assert main(["replay", str(prop), str(witness), *named]) == 0
    assert capsys.readouterr().out.startswith("counterexample")
    assert main(["replay", listed, str(prop), str(witness)]) == 0
    assert main(["verify", str(prop), *named, *named]) == 2
    assert "two files for one network" in capsys.readouterr().err
