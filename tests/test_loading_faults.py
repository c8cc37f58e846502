"""A fault of the reader or of a file is caught: a bias dropped, an operator skipped, bits flipped."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from loaded import agrees, refused
from models import convolutional, dense, residual, two_sided
from onnx import helper, numpy_helper
from operator_cases import CASES

from ginnacer_verify.errors import GinnacerError, NetworkError
from ginnacer_verify.graph.linear import Dense
from ginnacer_verify.loading import agree, operators, parse_onnx
from ginnacer_verify.loading.agree import relative_error
from ginnacer_verify.loading.node import Node
from ginnacer_verify.loading.operators.linear import gemm
from ginnacer_verify.loading.operators.shape import identity


def drop_bias(node: Node) -> Any:
    return node.tensor()


def transposed(node: Node) -> Any:
    return node.make.mapped(node.tensor(), Dense(node.numbers(1)), (1, 6))


def a_little_off(node: Node) -> Any:
    return node.make.scaled(gemm(node), 1.0005)


@pytest.mark.parametrize(
    ("operator", "fault"),
    [("Add", drop_bias), ("MatMul", transposed), ("Relu", drop_bias), ("Gemm", a_little_off)],
)
def test_a_fault_in_the_reader_is_caught(monkeypatch: pytest.MonkeyPatch, operator: str, fault: Any) -> None:
    monkeypatch.setitem(operators.OPERATORS, operator, fault)
    with pytest.raises(NetworkError, match="differs from onnxruntime"):
        parse_onnx(dense())


@pytest.mark.parametrize(
    ("operator", "values", "fault"),
    [("Relu", (), identity), ("Clip", (np.float32(-12), np.float32(12)), identity)],
)
def test_a_fault_at_negative_or_few_inputs_is_caught(
    monkeypatch: pytest.MonkeyPatch, operator: str, values: tuple[Any, ...], fault: Any
) -> None:
    monkeypatch.setitem(operators.OPERATORS, operator, fault)
    assert "differs from onnxruntime" in str(refused(lambda graph: graph.add(operator, *values)))


def test_a_lost_output_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operators.OPERATORS, "Relu", lambda node: node.tensor().moved(np.array([[0]])))
    assert "onnxruntime gives 6 outputs where we read 1" in str(refused(lambda graph: graph.add("Relu")))


def test_networks_are_compared_point_by_point_if_they_are_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single row of points has the shape of an input."""
    monkeypatch.setattr(agree, "BATCH_VALUES", 1)
    assert agrees(parse_onnx(dense()))


def test_relative_error_sees_one_wrong_small_output() -> None:
    theirs = np.array([[1000.0, 1.0], [900.0, 20.0]])
    assert relative_error(theirs + np.array([[0, 0], [0, 0.1]]), theirs) == pytest.approx(0.1 / 20)
    assert relative_error(theirs - 1, theirs) == pytest.approx(1 / 20)
    assert relative_error(np.zeros((2, 2)), np.zeros((2, 2))) == 0
    assert relative_error(np.ones((2, 2)), np.zeros((2, 2))) == np.inf
    assert not relative_error(np.full((2, 2), np.nan), theirs) <= 1


@pytest.mark.parametrize("seed", range(10))
def test_mutated_files_are_read_right_or_refused(seed: int) -> None:
    """56 mutants a seed: either one of our exceptions, or a network that onnxruntime agrees with."""
    random = np.random.default_rng(seed)
    originals = [dense(seed=seed), convolutional(seed=seed), residual(), CASES["max pool"](), CASES["clip, old"]()]
    outcomes = {"read": 0, "refused": 0}
    for number in range(56):
        content = bytearray(originals[number % len(originals)])
        for _ in range(random.integers(1, 4)):
            mutate(content, random)
        try:
            network = parse_onnx(bytes(content))
        except GinnacerError:
            outcomes["refused"] += 1
        else:
            assert agrees(network)
            outcomes["read"] += 1
    assert min(outcomes.values()) > 0


def mutate(content: bytearray, random: np.random.Generator) -> None:
    """Change, drop, double or insert some bytes; half of the time among the node descriptions at the front."""
    at = int(random.integers(len(content) if random.random() < 0.5 else min(len(content), 400)))
    match random.integers(5):
        case 0:
            content[at] ^= 1 << int(random.integers(8))
        case 1:
            content[at] = int(random.integers(256))
        case 2:
            del content[at : at + int(random.integers(1, 9))]
        case 3:
            content[at:at] = content[at : at + int(random.integers(1, 30))]
        case _:
            content[at:at] = random.bytes(int(random.integers(1, 5)))


ORIGINALS: list[Callable[[], bytes]] = [dense, convolutional, residual, two_sided, *CASES.values()]


def test_mutated_graphs_are_read_right_or_refused() -> None:
    """600 mutants, all of them well-formed protobuf, so that it is our reader that has to judge them."""
    random = np.random.default_rng(0)
    outcomes = {"read": 0, "refused": 0}
    for number in range(600):
        model = onnx.load_model_from_string(ORIGINALS[number % len(ORIGINALS)]())
        mutate_graph(model.graph, random)
        try:
            network = parse_onnx(model.SerializeToString())
        except GinnacerError:
            outcomes["refused"] += 1
        else:
            assert agrees(network)
            outcomes["read"] += 1
    assert outcomes["read"] > 80
    assert outcomes["refused"] > 200


def mutate_graph(graph: onnx.GraphProto, random: np.random.Generator) -> None:
    """Change an operator, an attribute, the inputs of a node, a constant or the input, or drop or double a node."""
    node = graph.node[random.integers(len(graph.node))]
    names = [
        "input",
        "",
        *(tensor.name for tensor in graph.initializer),
        *(n.output[0] for n in graph.node if n.output),
    ]
    match random.integers(10):
        case 0:
            node.op_type = str(random.choice(list(operators.OPERATORS)))
        case 1 | 2 if node.attribute:
            mutate_attribute(node.attribute[random.integers(len(node.attribute))], random)
        case 3 if node.input:
            node.input[random.integers(len(node.input))] = str(random.choice(names))
        case 4:
            node.input.append(str(random.choice(names)))
        case 5 | 8 | 9 if graph.initializer:
            mutate_constant(graph.initializer[random.integers(len(graph.initializer))], random)
        case 6:
            extents = graph.input[0].type.tensor_type.shape.dim
            extents[random.integers(len(extents))].dim_value = int(random.integers(-1, 5))
        case 7 if len(graph.node) > 1:
            graph.node.remove(node)
        case _:
            node.attribute.append(helper.make_attribute("axis", int(random.integers(-3, 4))))


def mutate_attribute(attribute: onnx.AttributeProto, random: np.random.Generator) -> None:
    match helper.get_attribute_value(attribute):
        case int():
            attribute.i = int(random.integers(-3, 5))
        case float():
            attribute.f = float(random.choice([-1.0, 0.0, 0.5, np.inf, np.nan]))
        case bytes():
            attribute.s = random.choice([b"VALID", b"SAME_UPPER", b"SAME_LOWER", b"NOTSET", b"", b"\xff"])
        case _:
            values = [int(value) for value in random.integers(-2, 5, random.integers(5))]
            attribute.CopyFrom(helper.make_attribute(attribute.name, values, attr_type=onnx.AttributeProto.INTS))


def mutate_constant(tensor: onnx.TensorProto, random: np.random.Generator) -> None:
    values = numpy_helper.to_array(tensor)
    match random.integers(5):
        case 0:
            values = values.T
        case 1:
            values = values[None]
        case 2:
            values = values.reshape(-1)[: random.integers(values.size + 1)]
        case 3:
            values = values.astype(random.choice(["f4", "f8", "i8", "?"]))
        case _:
            values = np.where(random.random(values.shape) < 0.2, random.choice([0, -1, 3, 1000]), values)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values), tensor.name))
