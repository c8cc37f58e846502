"""The judge of witnesses: float32 onnxruntime, the real box, no tolerance."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import Graph

from ginnacer_verify.arrays import read_only
from ginnacer_verify.box import Box
from ginnacer_verify.errors import PropertyError, WitnessError
from ginnacer_verify.graph.chain import chain_of
from ginnacer_verify.graph.network import Network
from ginnacer_verify.loading import parse_onnx
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable
from ginnacer_verify.replay.judge import Counterexample, Judge, Spurious, check_fit, settle

FLOAT32 = np.dtype(np.float32)
IDENTITY = Network.from_arrays(([[1.0]], [0.0]))


def one_input(lower: float, upper: float, at_least: float, strict: bool = False) -> Property:
    """Unsafe: x in [lower, upper] and y >= at_least (or y > at_least)."""
    return Property.of(
        Disjunct(
            Box(read_only([lower]), read_only([upper])),
            Polytope.everything(1),
            Polytope.of([[-1]], [-at_least], strict),
        )
    )


def test_confirmed_and_spurious() -> None:
    judge = Judge(IDENTITY, one_input(0, 1, 0.5))
    assert isinstance(judge([0.75]), Counterexample)
    assert isinstance(judge([0.25]), Spurious)
    assert isinstance(judge([1.25]), Spurious)


def test_output_tolerance_is_zero() -> None:
    just_below = float(np.nextafter(np.float32(0.5), np.float32(0)))
    judge = Judge(IDENTITY, one_input(0, 1, 0.5))
    assert isinstance(judge([0.5]), Counterexample)
    assert isinstance(judge([just_below]), Spurious)
    assert isinstance(Judge(IDENTITY, one_input(0, 1, 0.5, strict=True))([0.5]), Spurious)


@pytest.mark.parametrize(("lower", "upper", "x"), [(0.0, 1.0, -1e-12), (-1.0, 0.0, 1e-12)])
def test_input_tolerance_is_zero(lower: float, upper: float, x: float) -> None:
    found = Judge(IDENTITY, one_input(lower, upper, -2))([x])
    assert isinstance(found, Spurious)
    assert "outside" in found.reason


def test_the_original_file_is_judged_and_not_what_we_read() -> None:
    graph = Graph([1, 1])
    graph.add("Add", np.array([1.0], "f4"))
    network = replace(IDENTITY, model=graph.model())
    assert isinstance(Judge(network, one_input(0, 1, 1.5))([0.75]), Counterexample)


def test_an_input_that_float32_rounds_out_of_the_box_is_spurious() -> None:
    """float32(0.679857769) is larger than 0.679857769: the scorer's comparison in float32 would let it pass."""
    prop = one_input(0, 0.679857769, 0.6)
    judge = Judge(IDENTITY, prop)
    found = judge([0.679857769])
    assert isinstance(found, Spurious)
    assert "outside" in found.reason
    assert isinstance(judge(settle([0.679857769], prop.boxes[0], FLOAT32)), Counterexample)


def test_a_pinned_input_keeps_the_decimal_of_the_property() -> None:
    found = Judge(IDENTITY, one_input(0.1, 0.1, 0.1))([0.1])
    assert isinstance(found, Counterexample)
    assert found.x.tolist() == [0.1]
    assert found.y.tolist() == [float(np.float32(0.1))]


def test_the_network_is_judged_in_its_own_precision() -> None:
    """1 + 2^-24 is 1 in float32 and more than 1 in float64: only the double network is unsafe."""
    judgements = []
    for dtype in ("f4", "f8"):
        graph = Graph([1, 1], dtype=dtype)
        graph.add("Add", np.array([2.0**-24], dtype))
        judgements.append(Judge(parse_onnx(graph.model()), one_input(0, 2, 1, strict=True))([1.0]))
    assert isinstance(judgements[0], Spurious)
    assert isinstance(judgements[1], Counterexample)


def test_every_disjunct_counts_and_the_nearest_is_reported() -> None:
    """Only the last disjunct, or only the first, is never enough."""
    boxes = [Box(read_only([low]), read_only([low + 1])) for low in (0.0, 2.0, 4.0)]
    disjuncts = [Disjunct(box, Polytope.everything(1), Polytope.of([[-1.0]], [-0.5])) for box in boxes]
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        judge = Judge(IDENTITY, Property.of(*(disjuncts[i] for i in order)))
        for low, expected in ((0.0, Spurious), (0.75, Counterexample), (2.5, Counterexample), (4.5, Counterexample)):
            found = judge([low])
            assert isinstance(found, expected)
            assert expected is Spurious or order[found.disjunct] == int(low // 2)


def test_the_nearest_disjunct_is_reported() -> None:
    disjuncts = [one_input(0, 1, threshold).disjuncts[0] for threshold in (0.75, 0.5, 1.0)]
    found = Judge(IDENTITY, Property.of(*disjuncts))([0.25])
    assert isinstance(found, Spurious)
    assert (found.disjunct, found.slacks.tolist()) == (1, [-0.25])


def test_without_a_disjunct_nothing_is_unsafe() -> None:
    found = Judge(IDENTITY, replace(one_input(0, 1, 0), disjuncts=()))([0.5])
    assert isinstance(found, Spurious)
    assert "nothing is unsafe" in found.reason


def test_a_conjunction_needs_every_row() -> None:
    unsafe = Polytope.of([[-1.0], [1.0]], [-0.25, 0.75])
    prop = Property.of(Disjunct(Box(read_only([0]), read_only([1])), Polytope.everything(1), unsafe))
    judge = Judge(IDENTITY, prop)
    assert [isinstance(judge([x]), Counterexample) for x in (0.125, 0.5, 0.875)] == [False, True, False]


def test_linear_input_constraints_are_part_of_the_property() -> None:
    network = Network.from_arrays(([[1.0, 1.0]], [0.0]))
    box = Box(read_only([0, 0]), read_only([1, 1]))
    prop = Property.of(Disjunct(box, Polytope.of([[1.0, -1.0]], [0.0]), Polytope.of([[-1.0]], [-1.0])))
    judge = Judge(network, prop)
    assert isinstance(judge([0.5, 0.75]), Counterexample)
    found = judge([0.75, 0.5])
    assert isinstance(found, Spurious)
    assert "input constraint" in found.reason


def test_outputs_that_are_no_numbers_prove_nothing() -> None:
    graph = Graph([1, 1])
    graph.add("Mul", np.array([1e30], "f4"))
    network = chain_of(parse_onnx(graph.model()))
    judge = Judge(network, one_input(0, 1e30, 1))
    found = judge([1e20])
    assert isinstance(found, Spurious)
    assert "finite" in found.reason


def test_comparison_of_two_outputs_is_exact() -> None:
    """y0 <= y1 where the two differ by far less than float64 resolves after adding: decided by exact arithmetic."""
    row = Polytope.of([[1.0, -1.0, 1e-30]], [0.0])
    assert [1e16, 1e16, 0.0] in row
    assert [1e16, 1e16, 1.0] not in row
    assert row.slacks([1e16, 1e16, 1.0]) == [-Fraction(1e-30)]


@pytest.mark.parametrize("witness", [[0.5, 0.5], [np.nan], []])
def test_witnesses_that_do_not_fit_are_refused(witness: list[float]) -> None:
    with pytest.raises(WitnessError):
        Judge(IDENTITY, one_input(0, 1, 0.5))(witness)


def test_property_must_fit_the_network() -> None:
    with pytest.raises(PropertyError, match="1 inputs and 1 outputs, but the network has 2 and 1"):
        Judge(Network.from_arrays(([[1.0, 1.0]], [0.0])), one_input(0, 1, 0.5))
    with pytest.raises(PropertyError, match="1 inputs and 1 outputs, but the network has 1 and 2"):
        Judge(Network.from_arrays(([[1.0], [1.0]], [0.0, 0.0])), one_input(0, 1, 0.5))
    with pytest.raises(PropertyError, match="declares float64 inputs, but the network takes float32"):
        Judge(IDENTITY, replace(one_input(0, 1, 0.5), x=Variable("X", (1,), "float64")))


def shaped(input_shape: tuple[int, ...], output_shape: tuple[int, ...]) -> Network:
    return replace(
        Network.from_arrays((np.eye(6), np.zeros(6))), input_shape=input_shape, output_shape=output_shape, model=b""
    )


def test_shapes_and_types_must_fit_the_network() -> None:
    box = Box(np.zeros(6), np.ones(6))
    flat = Property.of(Disjunct(box, Polytope.everything(6), Polytope.everything(6)))
    network = shaped((1, 2, 3), (2, 3))
    for x, y in (((6,), (6,)), ((1, 2, 3), (2, 3)), ((2, 3), (1, 2, 3, 1)), ((1, 6), (6, 1))):
        check_fit(network, replace(flat, x=Variable("X", x), y=Variable("Y", y)))
    with pytest.raises(PropertyError, match=r"inputs of shape \[1, 3, 2\], but the network takes \[1, 2, 3\]"):
        check_fit(network, replace(flat, x=Variable("X", (1, 3, 2))))
    with pytest.raises(PropertyError, match=r"outputs of shape \[3, 2\], but the network gives \[2, 3\]"):
        check_fit(network, replace(flat, y=Variable("Y", (3, 2))))
    with pytest.raises(PropertyError, match="declares float64 outputs, but the network gives float32"):
        check_fit(network, replace(flat, y=Variable("Y", (6,), "float64")))


def test_a_box_without_a_number_of_the_type_has_no_counterexample() -> None:
    for prop in (one_input(1e-46, 2e-46, -1), one_input(0.1, 0.1 + 1e-12, -1)):
        for x in (0.0, 0.1, 1e-46, float(np.float32(0.1))):
            found = Judge(IDENTITY, prop)([x])
            assert isinstance(found, Spurious)
            assert found.reason == "the box holds no float32"
    assert isinstance(Judge(IDENTITY, one_input(1e-46, 1e-46, 0))([1e-46]), Counterexample)  # a pin, rounded to 0
    doubles = replace(IDENTITY, dtype=np.dtype(np.float64))
    assert isinstance(Judge(doubles, one_input(1e-46, 2e-46, -1))([1e-46]), Counterexample)
    assert isinstance(
        Judge(IDENTITY, one_input(-1e308, 1e308, 1))(settle([1e308], one_input(-1e308, 1e308, 1).boxes[0], FLOAT32)),
        Counterexample,
    )
    beyond = Judge(IDENTITY, one_input(1e300, 2e300, 1))([1e300])
    assert isinstance(beyond, Spurious)
    assert beyond.reason == "the box holds no float32"


@settings(max_examples=500)
@given(st.floats(-1e6, 1e6), st.floats(0, 1e-3) | st.floats(0, 1e3) | st.just(0.0), st.floats(-1e7, 1e7))
def test_settled_points_are_in_the_box_and_float32_where_that_exists(lower: float, width: float, x: float) -> None:
    box = Box(read_only([lower]), read_only([lower + width]))
    (value,) = settle([x], box, FLOAT32)
    assert [value] in box
    inside = np.float32(lower)
    inside = inside if float(inside) >= lower else np.nextafter(inside, np.float32(np.inf))
    if float(inside) <= lower + width:
        assert value == float(np.float32(value))


def test_settling_changes_little() -> None:
    box = Box(read_only([-0.3, 0.1]), read_only([0.7, 0.2]))
    points = box.sample(np.random.default_rng(0), 200)
    for point in points:
        np.testing.assert_allclose(settle(point, box, FLOAT32), point, atol=1e-7)
