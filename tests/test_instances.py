"""The instances in vnnlib/: well-formed lists and files, networks that follow their data, verdicts that stand up.

What is recomputed here uses the readers in vnnlib/ and onnxruntime, not the package; one test compares the two.
"""

import csv
import importlib
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray

from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib

VNNLIB = Path(__file__).resolve().parent.parent / "vnnlib"
SETS = ("pade", "digits", "advisory")
Points = NDArray[np.float32]


def script(name: str) -> Any:
    """A module of the folder, which is data and no package; those of the sets train with torch."""
    if name.endswith("_set"):
        pytest.importorskip("torch")
    sys.path.insert(0, str(VNNLIB))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(VNNLIB))


reading, searching = script("reading"), script("searching")


def table(name: str, file: str) -> list[list[str]]:
    with (VNNLIB / name / file).open(newline="") as lines:
        return list(csv.reader(lines))


LISTED = [(name, *row) for name in SETS for row in table(name, "expected.csv")[1:]]
every_instance = pytest.mark.parametrize(("name", "network", "prop", "expected"), LISTED)
every_set = pytest.mark.parametrize("name", SETS)
NETWORKS = sorted({(name, network) for name, network, _, _ in LISTED})
every_network = pytest.mark.parametrize(("name", "network"), NETWORKS)


def forward(name: str, network: str, x: Any) -> NDArray[np.float64]:
    """The outputs for a batch of flat inputs in float64, from our own reading of the file."""
    layers = reading.read_layers(VNNLIB / name / network)
    return np.asarray(searching.forward(layers, np.asarray(x, dtype=np.float64)))


def outputs_of(path: Path, x: Points) -> Points:
    """The outputs for one flat input as onnxruntime computes them, in float32."""
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    result = session.run(None, {"X": x.reshape(session.get_inputs()[0].shape)})[0]
    return np.asarray(result, dtype=np.float32).flatten()


@every_set
def test_lists_are_well_formed_and_in_the_same_order(name: str) -> None:
    header, *expected = table(name, "expected.csv")
    instances = table(name, "instances.csv")
    assert header == ["onnx", "vnnlib", "expected"]
    assert [row[:2] for row in expected] == [row[:2] for row in instances]
    assert all(len(row) == 3 and float(row[2]) > 0 for row in instances)
    assert len({tuple(row[:2]) for row in instances}) == len(instances)
    assert len(instances) >= 12


@every_set
def test_no_file_is_missing_or_left_over(name: str) -> None:
    folder = VNNLIB / name
    listed = {entry for row in table(name, "instances.csv") for entry in row[:2]}
    assert {path.name for path in folder.iterdir() if path.suffix in (".onnx", ".vnnlib")} == listed
    witnesses = {reading.witness_path(folder, *row[:2]) for row in table(name, "expected.csv")[1:] if row[2] == "sat"}
    assert set((folder / "witnesses").iterdir()) == witnesses


@every_network
def test_every_network_is_decided_both_ways(name: str, network: str) -> None:
    assert {row[3] for row in LISTED if row[:2] == (name, network)} == {"sat", "unsat"}


@every_set
def test_the_verdicts_are_those_decided_by_two_programs_with_a_margin(name: str) -> None:
    header, *rows = table(name, "decided.csv")
    for row, expected in zip(rows, table(name, "expected.csv")[1:], strict=True):
        decided = dict(zip(header, row, strict=True))
        assert [decided["onnx"], decided["vnnlib"], decided["highs"]] == expected
        assert decided["marabou"] in (expected[2], "timeout")
        slack = float(decided["slack"])
        assert slack >= 1e-4 if expected[2] == "sat" else slack <= -1e-4


def test_the_folder_is_small() -> None:
    files = (path for path in VNNLIB.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert sum(path.stat().st_size for path in files) < 1_500_000


@every_network
def test_networks_are_plain_onnx_that_old_readers_accept(name: str, network: str) -> None:
    model = onnx.load(VNNLIB / name / network)
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version <= 8
    assert [(entry.domain, entry.version <= 13) for entry in model.opset_import] == [("", True)]
    assert {node.op_type for node in model.graph.node} <= {"Gemm", "Relu", "Conv", "Flatten"}
    assert {tensor.data_type for tensor in model.graph.initializer} == {onnx.TensorProto.FLOAT}
    assert [*model.metadata_props, model.producer_name, model.doc_string] == ["", ""]


@every_network
def test_our_reading_of_a_network_is_that_of_onnxruntime(name: str, network: str) -> None:
    path = VNNLIB / name / network
    inputs = reading.read_layers(path)[0][0].shape[1]
    points = np.random.default_rng(0).uniform(-1, 1, (50, inputs)).astype(np.float32)
    theirs = np.array([outputs_of(path, point) for point in points])
    np.testing.assert_allclose(forward(name, network, points), theirs, rtol=1e-4, atol=1e-5)


@every_instance
def test_shapes_of_the_property_and_the_network_fit(name: str, network: str, prop: str, expected: str) -> None:
    layers, cases = reading.read_layers(VNNLIB / name / network), reading.read_cases(VNNLIB / name / prop)
    assert cases
    for case in cases:
        assert len(case.lower) == len(case.upper) == layers[0][0].shape[1]
        assert all(low <= high for low, high in zip(case.lower, case.upper, strict=True))
        assert case.rows
        assert {index for factors, _ in case.rows for index in factors} <= set(range(len(layers[-1][1])))


@pytest.mark.parametrize(("name", "network", "prop"), [row[:3] for row in LISTED if row[3] == "sat"])
def test_the_stored_witness_of_a_sat_is_confirmed_with_zero_tolerance(name: str, network: str, prop: str) -> None:
    folder = VNNLIB / name
    inputs, outputs = reading.read_witness(reading.witness_path(folder, network, prop))
    x = np.array(inputs, dtype=np.float32)
    assert [float(text) for text in inputs] == x.tolist()  # each is a float32 value
    y = outputs_of(folder / network, x)
    np.testing.assert_allclose(y, np.array(outputs, dtype=np.float32), rtol=1e-4, atol=1e-5)
    assert any(case.contains(x) and case.slack(y) >= 0 for case in reading.read_cases(folder / prop))


@pytest.mark.parametrize(("name", "network", "prop"), [row[:3] for row in LISTED if row[3] == "unsat"])
def test_a_quick_search_gets_no_further_than_the_proved_slack_of_an_unsat(name: str, network: str, prop: str) -> None:
    (proved,) = [float(row[3]) for row in table(name, "decided.csv") if row[:2] == [network, prop]]
    assert searched(name, network, prop) <= proved + 1e-5 < 0  # decided.csv has five digits


def test_the_quick_search_is_worth_its_name() -> None:
    """It finds nearly all the counterexamples that exist, so its silence about the unsat instances says something."""
    slacks = [searched(*row[:3]) for row in LISTED if row[3] == "sat"]
    assert sum(slack >= 0 for slack in slacks) >= 0.9 * len(slacks)


def searched(name: str, network: str, prop: str) -> float:
    layers = reading.read_layers(VNNLIB / name / network)
    slacks: list[float] = [searching.largest_slack(layers, case) for case in reading.read_cases(VNNLIB / name / prop)]
    return max(slacks)


def test_the_pade_network_follows_the_function_of_the_paper() -> None:
    x = np.linspace(-10, 10, 201)
    reached = forward("pade", "pade_64x2.onnx", x[:, None])[:, 0]
    assert np.abs(reached - script("pade_set").rational(x)).max() < 0.03


@pytest.mark.parametrize("network", [network for name, network in NETWORKS if name == "digits"])
def test_digits_are_recognised(network: str) -> None:
    x, digits = script("digits_set").images(test=True)
    assert (forward("digits", network, x).argmax(axis=1) == digits).mean() > 0.95


@pytest.mark.parametrize(("network", "agreement"), [("advisory_15x3.onnx", 0.9), ("advisory_25x4.onnx", 0.95)])
def test_advisories_are_those_of_the_table(network: str, agreement: float) -> None:
    """On a grid of 13 x 12 x 12 x 3 x 3 states; to say always `clear of conflict` would not do where turns are due."""
    table_of = script("advisory_table")
    grid = np.array(list(product(*(np.linspace(-0.46, 0.46, count) for count in (13, 12, 12, 3, 3)))))
    right = table_of.costs(table_of.unscaled(grid)).argmin(axis=1)
    advised = forward("advisory", network, grid).argmin(axis=1)
    assert (advised == right).mean() > agreement
    assert (advised[right > 0] > 0).mean() > 0.9


def test_costs_of_the_table_by_hand() -> None:
    """Head-on at 600 m with 10 m/s each: straight on they meet after 30 s, a strong turn is a quarter of a circle."""
    table_of = script("advisory_table")
    head_on, behind = [600.0, 0.0, np.pi, 10.0, 10.0], [2000.0, np.pi, 0.0, 60.0, 10.0]
    costs = table_of.costs(np.array([head_on, behind]))
    radius, angles = 600 / np.pi, np.radians(3) * np.arange(31)
    apart = np.hypot(600 - 10 * np.arange(31) - radius * np.sin(angles), radius * (1 - np.cos(angles)))
    turn = 1 - apart.min() / 600 + 0.1
    np.testing.assert_allclose(costs[0, [0, 3, 4]], [1.0, turn, turn])
    np.testing.assert_allclose(costs[1], [0.0, 0.05, 0.05, 0.1, 0.1])


def test_the_table_turns_away_from_an_intruder_that_crosses_from_the_left() -> None:
    """Left is positive: with the intruder ahead to the left on our way, right is cheaper than left."""
    table_of = script("advisory_table")
    (costs,) = table_of.costs(np.array([[500.0, 0.3, 0.0, 50.0, 10.0]]))
    assert costs[4] < costs[0]
    assert costs[4] < costs[3]


def test_properties_are_what_the_script_writes() -> None:
    for name in SETS:
        for instance in script(f"{name}_set").make_instances(VNNLIB / name):
            assert (VNNLIB / name / f"{instance.name}.vnnlib").read_text() == instance.text


@every_instance
def test_the_package_reads_the_same_property(name: str, network: str, prop: str, expected: str) -> None:
    mine, ours = reading.read_cases(VNNLIB / name / prop), read_vnnlib(VNNLIB / name / prop)
    assert unsafe_sets(ours) == [
        (
            [at_or_beyond(low, +1) for low in case.lower],
            [at_or_beyond(high, -1) for high in case.upper],
            {(tuple(sorted(factors.items())), offset) for factors, offset in case.rows},
        )
        for case in mine
    ]


def at_or_beyond(end: Fraction, direction: int) -> float:
    """The float64 nearest to `end` on its inner side."""
    value = float(end)
    return value if (Fraction(value) - end) * direction >= 0 else float(np.nextafter(value, direction * np.inf))


def unsafe_sets(prop: Property) -> list[Any]:
    return [
        (
            disjunct.witnesses.lower.tolist(),
            disjunct.witnesses.upper.tolist(),
            {
                (tuple(sorted(factors.items())), offset)
                for factors, offset in map(disjunct.outputs.row, range(len(disjunct.outputs)))
            },
        )
        for disjunct in prop.disjuncts
    ]


@pytest.mark.parametrize("prop", sorted({row[2] for row in LISTED if row[2].endswith("_v2.vnnlib")}))
def test_both_versions_of_a_property_say_the_same(prop: str) -> None:
    import vnnlib

    folder = VNNLIB / "advisory"
    vnnlib.parse_query_file(str(folder / prop))  # the reference parser takes it
    assert reading.read_cases(folder / prop) == reading.read_cases(folder / prop.replace("_v2", ""))
