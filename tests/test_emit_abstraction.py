"""What is emitted bounds the network: in rational arithmetic without tolerance, and in onnxruntime and Marabou."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from strategies import batch_around, exact, networks, points

from benchmarks import benchmark
from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.abstraction.icf import Anchor
from ginnacer_verify.abstraction.npz import load_abstraction, save
from ginnacer_verify.abstraction.partitioning import strategies as chosen
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.emit.abstraction import abstraction_model
from ginnacer_verify.emit.rounding import DOWN, UP, bound_rows, rounded
from ginnacer_verify.emit.vnnlib import abstract_property
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.loading import load_chain
from ginnacer_verify.loading.oracle import Runtime
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.properties.vnnlib import parse_vnnlib, read_vnnlib
from ginnacer_verify.properties.write import to_vnnlib

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def in_rationals(model: bytes, x: Array) -> list[Fraction]:
    """The model's output in exact arithmetic: what a solver that makes no rounding error would reason about."""
    graph = onnx.load_from_string(model).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    values = {graph.input[0].name: [Fraction(float(value)) for value in x]}
    for node in graph.node:
        first = values[node.input[0]]
        match node.op_type:
            case "Reshape":
                result = first
            case "Gemm":
                weight, bias = constants[node.input[1]], constants[node.input[2]]
                result = [
                    sum((Fraction(float(w)) * v for w, v in zip(row, first, strict=True) if w), Fraction(float(b)))
                    for row, b in zip(weight, bias, strict=True)
                ]
            case "Relu":
                result = [max(value, Fraction(0)) for value in first]
            case "Add":
                result = [a + b for a, b in zip(first, values[node.input[1]], strict=True)]
            case other:
                raise AssertionError(f"an operator that readers may not know: {other}")
        values[node.output[0]] = result
    return values[graph.output[0].name]


@st.composite
def abstractions(draw: st.DrawFn) -> Abstraction:
    network = draw(networks())
    if draw(st.booleans()):  # weights that float32 has not
        network = Network(tuple(Layer(layer.weight * (1 + 1e-9), layer.bias / 3) for layer in network.layers))
    centroid = draw(points(network.inputs))
    mode = draw(st.sampled_from(["pre-layer", "centred", "shift", "nearest"]))
    return abstract(
        network,
        centroid,
        strategy=draw(st.sampled_from([chosen.first_fit, chosen.best_fit])),
        layers=draw(st.sampled_from([None, [1], sorted({1, len(network.layers) - 1})])),
        inputs=mode,  # type: ignore[arg-type]
        box=Box(centroid - np.resize([1.5, 0.75], len(centroid)), centroid + 1.0),
        clip=draw(st.booleans()),
    )


@settings(max_examples=80)
@given(abstractions(), st.integers(0, 2**32 - 1), st.sampled_from([FLOAT32, FLOAT64]))
def test_the_emitted_model_is_sound(abstraction: Abstraction, seed: int, dtype: np.dtype[Any]) -> None:
    model, outputs = abstraction_model(abstraction, dtype), abstraction.network.outputs
    for x in abstraction.domain.clip(batch_around(abstraction.centroid, seed, 6)):
        bounds, true = in_rationals(model, x), exact(abstraction.network, x)
        assert all(low <= y for low, y in zip(bounds[:outputs], true, strict=True))
        assert all(y <= high for y, high in zip(true, bounds[outputs:], strict=True))


@settings(max_examples=40)
@given(abstractions(), st.integers(0, 2**32 - 1))
def test_the_emitted_model_agrees_with_the_evaluation(abstraction: Abstraction, seed: int) -> None:
    model, outputs = abstraction_model(abstraction, FLOAT64), abstraction.network.outputs
    batch = abstraction.domain.clip(batch_around(abstraction.centroid, seed, 4))
    lower, upper = abstraction(batch)
    for x, low, high in zip(batch, lower, upper, strict=True):
        bounds = np.array([float(value) for value in in_rationals(model, x)])
        scale = 1e-8 * (1 + np.abs(low) + np.abs(high) + np.abs(abstraction.centroid).sum() ** 3) + 1e-6 * (high - low)
        assert (np.abs(bounds[:outputs] - low) <= scale).all()
        assert (np.abs(bounds[outputs:] - high) <= scale).all()


@pytest.mark.parametrize("direction", [UP, DOWN])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
def test_rounded_rows_stay_bounds_on_the_side_of_the_anchor(direction: Any, dtype: np.dtype[Any]) -> None:
    random = np.random.default_rng(2)
    weight, bias, error = random.normal(size=(6, 5)), random.normal(size=6) * 1e-9, np.full(6, 1e-12)
    anchor = Anchor(random.normal(size=5) * [1, 1, 0, 1, 1], np.array([1.0, -1.0, 1.0, -1.0, 1.0]))
    rows = bound_rows(weight, bias, error, anchor, direction, dtype)
    for steps in np.abs(random.normal(size=(50, 5))) * 10.0 ** random.integers(-3, 4, size=(50, 1)):
        x = anchor.point + anchor.side * steps
        for new, new_bias, old, old_bias in zip(rows.weight, rows.bias, weight, bias, strict=True):
            wrong = Fraction(float(old_bias)) + direction * Fraction(1e-12)
            difference = sum(
                (
                    (Fraction(float(a)) - Fraction(float(b))) * Fraction(float(v))
                    for a, b, v in zip(new, old, x, strict=True)
                ),
                Fraction(float(new_bias)) - wrong,
            )
            assert direction * difference >= 0


@pytest.mark.parametrize("mode", ["centred", "shift", "nearest"])
@pytest.mark.parametrize("seed", range(8))
def test_the_emitted_bias_covers_its_own_rounding(seed: int, mode: Any) -> None:
    """All neurons active: lower and upper bound are one affine function, and its bias W c + b is no float64."""
    random = np.random.default_rng(seed)
    network = Network.from_arrays((random.normal(size=(4, 20)), np.full(4, 100.0)), (np.eye(4), np.zeros(4)))
    c = random.normal(size=20)
    box = Box(c - np.resize([1.0, 0.5], 20), c + np.resize([0.5, 1.0], 20))
    model = abstraction_model(abstract(network, c, strategy=chosen.singletons, inputs=mode, box=box), FLOAT64)
    for x in (c, c + 0.25 * random.uniform(-1, 1, 20)):
        bounds, true = in_rationals(model, x), exact(network, x)
        assert all(low <= y <= high for low, y, high in zip(bounds[:4], true, bounds[4:], strict=True))
        assert max(high - low for low, high in zip(bounds[:4], bounds[4:], strict=True)) < Fraction(1, 10**10)


@given(st.floats(-1e38, 1e38), st.sampled_from([UP, DOWN]))
def test_rounding_goes_outwards_by_one_step_at_most(value: float, direction: Any) -> None:
    (result,) = rounded(np.array([value]), direction, FLOAT32)
    assert direction * (result - value) >= 0
    assert np.float32(result) == result
    inwards = float(np.nextafter(np.float32(result), np.float32(-direction * np.inf)))
    assert direction * (inwards - value) < 0


def test_weights_too_large_for_float32_are_refused() -> None:
    network = Network.from_arrays(([[1e39]], [0]), ([[1.0]], [0]))
    with pytest.raises(AbstractionError, match="float64"):
        abstraction_model(abstract(network, [1.0]))
    assert abstraction_model(abstract(network, [1.0]), FLOAT64)


def test_inexact_weights_without_a_known_side_are_refused() -> None:
    network = Network.from_arrays(([[0.1]], [0]), ([[1.0]], [0]), ([[1.0]], [0]))
    with pytest.raises(AbstractionError, match="pre-layer"):
        abstraction_model(abstract(network, [1.0], layers=[2]))


CASES = {
    "acasxu": ("acasxu/ACASXU_run2a_1_1_batch_2000.onnx", "acasxu/prop_1.vnnlib", 1e-4),
    "mnistfc": ("mnistfc/mnist-net_256x6.onnx", "mnistfc/prop_0_0.03.vnnlib", 1e-4),
    "toyadmos": ("toyadmos/ad01.onnx", None, 0.05),
}
"""The last number: what float32 itself may be off in onnxruntime, on outputs of about 1e-2, 1 and 60."""


def case(name: str) -> tuple[Abstraction, float]:
    net, prop, tolerance = CASES[name]
    network = load_chain(benchmark(net))
    if prop is None:
        return abstract(network, np.load(benchmark("toyadmos", "inputs.npy"))[0]), tolerance
    return abstract(network, read_vnnlib(benchmark(prop)).boxes[0].middle), tolerance


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_contains_the_network_at_10000_points(name: str) -> None:
    """In float64 with the weights rounded to float32, to the rounding of float64; in float32 to that of float32."""
    abstraction, tolerance = case(name)
    network, model = abstraction.network, abstraction_model(abstraction, FLOAT32)
    random = np.random.default_rng(1)
    radius = 10.0 ** random.uniform(-6, -1, size=(10_000, 1))
    batch = abstraction.centroid + radius * random.uniform(-1, 1, (10_000, network.inputs))
    batch = abstraction.domain.clip(batch).astype(np.float32).astype(np.float64)
    true = network(batch)
    for run, slack in ((batched(as_double(model)), 1e-9), (batched(model), tolerance)):
        lower, upper = np.split(run(batch), 2, axis=1)
        scale = slack * (1 + np.abs(true))
        assert (lower <= true + scale).all()
        assert (true <= upper + scale).all()
    low, high = abstraction(batch[:200])
    lower, upper = np.split(batched(as_double(model))(batch[:200]), 2, axis=1)
    assert (np.abs(lower - low) <= 1e-6 * (high - low) + 1e-6).all()
    assert (np.abs(upper - high) <= 1e-6 * (high - low) + 1e-6).all()


def as_double(model: bytes) -> bytes:
    """The same numbers, computed with in float64."""
    proto = onnx.load_from_string(model)
    for tensor in proto.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.float32:
            tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float64), tensor.name))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return bytes(proto.SerializeToString())


def batched(model: bytes) -> Any:
    """onnxruntime on rows of inputs: the leading 1 of every shape is made free."""
    import onnxruntime

    proto = onnx.load_from_string(model)
    for tensor in proto.graph.initializer:
        if tensor.name == "flat":
            tensor.CopyFrom(numpy_helper.from_array(np.array([-1, *numpy_helper.to_array(tensor)[1:]]), "flat"))
    sizes = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].Clear()
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    kind = np.float64 if "double" in session.get_inputs()[0].type else np.float32

    def run(batch: Array) -> Array:
        (result,) = session.run(None, {"input": batch.astype(kind).reshape(-1, *sizes[1:])})
        return np.asarray(result, dtype=np.float64)

    return run


def test_our_own_reader_and_runtime_read_it() -> None:
    abstraction, _ = case("acasxu")
    model = abstraction_model(abstraction)
    bounds = Runtime(model)(abstraction.centroid)
    np.testing.assert_allclose(bounds, np.tile(abstraction.network(abstraction.centroid), 2), atol=1e-5)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_an_unsafe_output_stays_unsafe(seed: int) -> None:
    """If y between lower and upper is unsafe then (lower, upper) is, also after writing and reading the text."""
    random = np.random.default_rng(seed)
    network = Network.from_arrays(
        (random.normal(size=(3, 2)), random.normal(size=3)), (random.normal(size=(2, 3)), [0, 0])
    )
    outputs = Polytope.of(
        np.round(random.normal(size=(3, 2)), 1), np.round(random.normal(size=3), 1), [True, False, False]
    )
    box = Box(np.zeros(2), np.ones(2))
    prop = Property.of(Disjunct(box, Polytope.everything(2), outputs))
    weaker = parse_vnnlib(to_vnnlib(abstract_property(prop, abstract(network, [0.5, 0.5]))))
    x, y = random.random(2), random.normal(size=2)
    bounds = np.concatenate([y - random.random(2), y + random.random(2)])
    assert weaker.is_unsafe_at(x, bounds) or not prop.is_unsafe_at(x, y)
    assert weaker.is_unsafe_at(x, np.tile(y, 2)) == prop.is_unsafe_at(x, y)


def test_a_property_beyond_the_domain_is_refused() -> None:
    network = Network.from_arrays((np.eye(2), [0, 0]), (np.eye(2), [0, 0]))
    prop = Property.of(Disjunct(Box(-np.ones(2), np.ones(2)), Polytope.everything(2), Polytope.everything(2)))
    with pytest.raises(AbstractionError, match="beyond the domain"):
        abstract_property(prop, abstract(network, [0.5, 0.5]))
    assert abstract_property(prop, abstract(network, [0.5, -0.5])).outputs == 4
    other = Property.of(Disjunct(Box(np.zeros(3), np.ones(3)), Polytope.everything(3), Polytope.everything(2)))
    with pytest.raises(AbstractionError, match="does not fit"):
        abstract_property(other, abstract(network, [0.5, 0.5]))


@settings(max_examples=30)
@given(abstraction=abstractions(), seed=st.integers(0, 2**32 - 1))
def test_save_and_load(tmp_path_factory: pytest.TempPathFactory, abstraction: Abstraction, seed: int) -> None:
    path = tmp_path_factory.mktemp("npz") / "abstract.npz"
    save(abstraction, path)
    again = load_abstraction(path)
    batch = abstraction.domain.clip(batch_around(abstraction.centroid, seed))
    for saved, loaded in zip(abstraction(batch), again(batch), strict=True):
        np.testing.assert_array_equal(saved, loaded)
    assert again.partitions == abstraction.partitions
    assert (again.entry.mode, again.clip) == (abstraction.entry.mode, abstraction.clip)
    assert again.network.input_shape == abstraction.network.input_shape


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04broken"])
def test_a_file_that_is_no_abstraction_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "abstract.npz"
    path.write_bytes(content)
    with pytest.raises(AbstractionError, match="not an abstraction"):
        load_abstraction(path)
    np.savez(tmp_path / "other.npz", format=1, centroid=[1.0])
    with pytest.raises(AbstractionError, match="not an abstraction"):
        load_abstraction(tmp_path / "other.npz")
    with pytest.raises(AbstractionError, match="cannot be read: No such file"):
        load_abstraction(tmp_path / "absent.npz")


@pytest.mark.parametrize(("threshold", "word"), [(1.5, "unsat"), (0.5, "sat")])
def test_marabou_reads_the_pair(tmp_path: Path, threshold: float, word: str) -> None:
    """`y >= threshold` times the largest upper bound seen on the box: out of reach of the abstraction, or not."""
    pytest.importorskip("maraboupy")
    random = np.random.default_rng(3)
    network = Network.from_arrays(
        (random.normal(size=(12, 3)), random.normal(size=12)),
        (random.normal(size=(12, 12)), random.normal(size=12)),
        (random.normal(size=(1, 12)), [0.0]),
    )
    box = Box(-np.ones(3), np.ones(3))
    abstraction = abstract(network, [0.1, -0.2, 0.3])
    largest = abstraction(box.sample(random, 10_000))[1].max()
    unsafe = Polytope.of([[-1.0]], [-threshold * largest])
    prop = abstract_property(Property.of(Disjunct(box, Polytope.everything(3), unsafe)), abstraction)
    (tmp_path / "abstract.onnx").write_bytes(abstraction_model(abstraction))
    (tmp_path / "abstract.vnnlib").write_text(to_vnnlib(prop))
    program = "import sys; from maraboupy.MarabouMain import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "abstract.onnx", "abstract.vnnlib", "--timeout", "60"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert word in done.stdout.split()
