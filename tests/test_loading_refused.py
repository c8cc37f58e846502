"""Networks that cannot be read are refused with a sentence that says why."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from loaded import agrees, edited, float_input, refused
from models import Graph, convolutional, dense, ints, ones
from onnx import helper, numpy_helper
from operator_cases import FLAT, SHAPE_1D, SHAPE_2D

from ginnacer_verify.errors import NetworkError, UnsupportedOperator
from ginnacer_verify.loading import load, load_chain, operators, parse_onnx
from ginnacer_verify.loading.oracle import Runtime


@pytest.mark.parametrize(
    ("operator", "shape", "values", "attributes"),
    [
        ("ArgMax", (1, 65), (), {"axis": 1}),
        ("ArgMax", FLAT, (), {"axis": 1, "select_last_index": 1}),
        ("RandomNormalLike", FLAT, (), {}),
        ("If", FLAT, (), {}),
        ("Pow", FLAT, (np.arange(6, dtype="f4"),), {}),
        ("MatMul", FLAT, (ones(5, 2),), {}),
        ("Gemm", FLAT, (ones(6),), {"transB": 1}),
        ("Div", FLAT, (np.arange(6, dtype="f4"),), {}),
        ("Clip", FLAT, (np.float32(1), np.float32(0)), {}),
        ("Cast", FLAT, (), {"to": 9}),
        ("Dropout", FLAT, (np.float32(0.5), np.array(True)), {}),
        ("BatchNormalization", SHAPE_1D, (ones(4),) * 4, {"training_mode": 1}),
        ("MaxPool", SHAPE_1D, (), {"kernel_shape": [2], "dilations": [2], "auto_pad": "SAME_UPPER"}),
        ("AveragePool", SHAPE_1D, (), {"kernel_shape": [2], "dilations": [2], "auto_pad": "SAME_LOWER"}),
        ("BatchNormalization", SHAPE_1D, (ones(4),) * 4, {"spatial": 0}),
        ("Resize", SHAPE_2D, ("", np.array([1, 1, 2, 2], "f4")), {"mode": "cubic"}),
        ("Pad", FLAT, (ints(0, 1, 0, 1),), {"mode": "strange"}),
        ("MaxPool", SHAPE_1D, (), {"kernel_shape": [2], "pads": [2, 0]}),
        ("Shape", FLAT, (), {"start": 1}),
    ],
)
def test_unsupported_operators_are_named(
    operator: str, shape: tuple[int, ...], values: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    problem = refused(lambda graph: graph.add(operator, *values, **attributes), shape)
    assert isinstance(problem, UnsupportedOperator)
    assert (problem.operator, problem.node) == (operator, "node0")


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("Div", (ints(2),)),
        ("Pow", (ints(2),)),
        ("Pow", (np.array(0.5, "f4"),)),
        ("Mul", (ints(2**62),)),
        ("Add", (ints(2**62),)),
        ("ReduceMean", ()),
    ],
)
@pytest.mark.parametrize("first", ["ArgMax", "Equal"])
def test_arithmetic_that_differs_for_whole_numbers_is_refused(
    first: str, operator: str, values: tuple[Any, ...]
) -> None:
    """onnxruntime divides 3 by 2 and gets 1; what overflows turns around."""

    def build(graph: Graph) -> None:
        if first == "Equal":
            graph.add(first, ones(1))
        else:
            graph.add(first, axis=1)
        graph.add("Cast", to=7)
        graph.add(operator, *values)
        graph.add("Cast", to=1)

    assert "whole numbers" in str(refused(build))


@pytest.mark.parametrize(
    ("operator", "values", "attributes", "reason"),
    [
        ("Conv", (ones(6, 3, 3),), {"group": 2}, "does not fit 4 channels"),
        ("Conv", (ones(5, 2, 3),), {"group": 2}, "does not fit 4 channels"),
        ("Conv", (ones(2, 4, 3),), {"strides": [0]}, "stride or dilation below 1"),
        ("Conv", (ones(2, 4, 10),), {}, "10 cells does not fit an axis of 9"),
        ("Conv", (ones(2, 4, 3),), {"pads": [-1, 0]}, "does not fit an axis of 9"),
        ("Conv", (ones(2, 4, 3),), {"auto_pad": "SAME"}, "auto_pad 'SAME'"),
        (
            "Conv",
            (ones(2, 4, 3),),
            {"auto_pad": "SAME_UPPER", "dilations": [2]},
            "onnxruntime cannot run the network: .* Dilation",
        ),
        ("MaxPool", (), {}, r"node 'node0' \(MaxPool\) .* 'kernel_shape' is missing"),
        ("Reshape", (ints(-1, -1),), {}, r"node 'node0' \(Reshape\) is not well-formed"),
        ("Add", ("absent",), {}, "its input 'absent' is not an output that we read"),
        ("Slice", (ints(1), ints(1), ints(2)), {}, r"shape \[1, 4, 0\] and so no values"),
    ],
)
def test_nodes_that_make_no_sense_are_refused(
    operator: str, values: tuple[Any, ...], attributes: dict[str, Any], reason: str
) -> None:
    assert re.search(reason, str(refused(lambda graph: graph.add(operator, *values, **attributes), SHAPE_1D)))


def replace_input(*shape: Any, kind: int = 1) -> Callable[[onnx.GraphProto], object]:
    return lambda graph: graph.input[0].CopyFrom(float_input("input", list(shape), kind))


def leave_out_the_output(graph: onnx.GraphProto) -> None:
    del graph.node[1].output[:]


def weigh_sparsely(graph: onnx.GraphProto) -> None:
    values, indices = numpy_helper.from_array(ones(1), "sparse"), numpy_helper.from_array(ints(0), "indices")
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [6]))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda graph: graph.output[0].CopyFrom(float_input("c0", [6, 3])), "does not depend on its input"),
        (replace_input("N", "M"), "more open than the batch"),
        (replace_input(1, 0), "more open than the batch"),
        (replace_input(1, 3, kind=7), "not floating-point"),
        (replace_input(1, 2**40), "larger than we handle"),
        (weigh_sparsely, "sparse initializers"),
        (leave_out_the_output, r"node 'node1' \(Relu\) .* no output"),
        (lambda graph: graph.node[1].ClearField("input"), "node1"),
    ],
)
def test_graphs_that_we_do_not_read_are_refused(edit: Callable[[onnx.GraphProto], object], reason: str) -> None:
    with pytest.raises(NetworkError, match=reason):
        parse_onnx(edited(edit))


def test_what_onnxruntime_cannot_read_is_refused() -> None:
    graph = Graph(FLAT)
    graph.add("Relu")
    with pytest.raises(NetworkError, match="onnxruntime cannot read the network"):
        parse_onnx(graph.model(opset=99))


def test_the_oracle_takes_floating_point_inputs() -> None:
    graph = Graph([1, 3], dtype="i8")
    graph.add("Identity")
    with pytest.raises(NetworkError, match=r"tensor\(int64\); we read floating-point inputs"):
        Runtime(graph.model())


def test_operators_of_other_domains_are_refused() -> None:
    content = edited(lambda graph: setattr(graph.node[1], "domain", "com.example"))
    with pytest.raises(UnsupportedOperator, match=r"operator com\.example\.Relu"):
        parse_onnx(content)


def test_outputs_beside_the_first_are_refused() -> None:
    def ask_for_indices(graph: onnx.GraphProto) -> None:
        (pool,) = (node for node in graph.node if node.op_type == "MaxPool")
        pool.output.append("indices")
        graph.output.append(helper.make_tensor_value_info("indices", 7, None))

    with pytest.raises(NetworkError, match=r"an output that no node gives"):
        parse_onnx(edited(ask_for_indices, convolutional))


def test_no_operator_is_silently_skipped() -> None:
    """Every operator of ONNX that we have no rule for is refused by name, wherever it stands."""
    known = {*operators.OPERATORS, *operators.CONSTANT}
    names = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""} - known
    assert len(names) > 100
    for name in names:
        graph = Graph(FLAT)
        graph.add("Relu")
        graph.add(name)
        graph.add("Relu")
        with pytest.raises(UnsupportedOperator, match=f"operator {name} "):
            parse_onnx(graph.model())


def test_unsupported_operator_names_the_file(tmp_path: Path) -> None:
    graph = Graph(FLAT)
    graph.add("Hardmax")
    file = tmp_path / "net.onnx"
    file.write_bytes(graph.model())
    with pytest.raises(UnsupportedOperator, match=r"net\.onnx: operator Hardmax \(node 'node0'\)"):
        load(file)


DAMAGED = gzip.compress(dense(), mtime=0)[:10] + b"\xff" * 50


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x1f\x8bgarbage", b"\x00" * 100, DAMAGED, DAMAGED[:10]])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(content)
    with pytest.raises(NetworkError, match=r"net\.onnx: (not an ONNX model|damaged gzip data|the file is empty)"):
        load(file)


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="No such file"):
        load(tmp_path / "absent.onnx")
    with pytest.raises(NetworkError, match="Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(value: float) -> None:
    assert "finite" in str(refused(lambda graph: graph.add("Add", np.full(6, value, "f4"))))


def test_a_negative_variance_is_refused() -> None:
    def normalize(graph: Graph) -> None:
        graph.add("BatchNormalization", ones(4), ones(4), ones(4), -ones(4))

    assert "finite" in str(refused(normalize, SHAPE_1D))


def test_outputs_that_overflow_are_refused() -> None:
    def overflow(graph: Graph) -> None:
        graph.add("Mul", np.full(6, 1e30, "f4"))
        graph.add("Mul", np.full(6, 1e30, "f4"))

    assert "an output is not a finite number" in str(refused(overflow))


def test_compressed_networks_are_read(tmp_path: Path) -> None:
    for name in ("net.onnx.gz", "net.onnx"):
        file = tmp_path / name
        file.write_bytes(gzip.compress(dense()))
        assert load_chain(file).relus_per_layer == (6, 6)


def test_weights_in_a_file_beside_the_network_are_read(tmp_path: Path) -> None:
    model = onnx.load_model_from_string(dense())
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert agrees(load(tmp_path / "net.onnx"))
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(NetworkError, match=r"net\.onnx: its weights are in another file"):
        load(tmp_path / "net.onnx")
