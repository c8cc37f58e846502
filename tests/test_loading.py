"""Networks are read as onnxruntime runs them."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from loaded import agrees, assert_chain_agrees, edited, float_input, runtime_shape
from models import Graph, convolutional, dense, ints, ones, residual, two_sided
from onnx import helper, numpy_helper
from operator_cases import FLAT

from benchmarks import benchmark
from ginnacer_verify.errors import UnsupportedOperator
from ginnacer_verify.graph.chain import chain_of, graph_of
from ginnacer_verify.loading import load, load_chain, parse_onnx
from ginnacer_verify.loading.onnx import parse_model, read_graph


def shaped() -> bytes:
    """A constant in the shape that a tensor has."""
    graph = Graph([1, 3, 4])
    kept = graph.add("Relu")
    graph.add("Shape")
    graph.add("ConstantOfShape", value=numpy_helper.from_array(np.array([2.5], "f4")))
    graph.add("Add", kept)
    return graph.model()


@pytest.mark.parametrize("build", [dense, convolutional, residual, two_sided, shaped])
def test_graphs_agree_with_onnxruntime(build: Callable[[], bytes]) -> None:
    network = parse_onnx(build())
    assert agrees(network)
    assert_chain_agrees(network)
    assert network.output_shape == runtime_shape(network)


def test_weights_may_be_listed_among_the_inputs() -> None:
    def list_weights(graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))

    assert agrees(parse_onnx(edited(list_weights)))


def test_the_output_need_not_be_the_last_node() -> None:
    network = parse_onnx(
        edited(lambda graph: graph.node.append(helper.make_node("Relu", [graph.output[0].name], ["x"])))
    )
    assert chain_of(network).relus_per_layer == (6, 6)
    assert agrees(network)


def test_a_skipped_relu_output_costs_one_relu_a_value() -> None:
    graph = Graph([1, 4])
    graph.add("MatMul", graph.weight(4, 5))
    skip = graph.add("Relu")
    graph.add("MatMul", graph.weight(5, 5))
    graph.add("Relu")
    graph.add("Add", skip)
    assert chain_of(parse_onnx(graph.model())).relus_per_layer == (5, 10)


def test_a_skipped_signed_value_costs_two_relus_a_value() -> None:
    graph = Graph([1, 4])
    skip = graph.add("MatMul", graph.weight(4, 3))
    graph.add("Relu")
    graph.add("Add", skip)
    graph.add("Add", skip)
    network = parse_onnx(graph.model())
    assert chain_of(network).relus_per_layer == (3 + 6,)
    assert agrees(network)


def test_consecutive_affine_maps_are_composed() -> None:
    graph = Graph([1, 4])
    for _ in range(3):
        graph.add("MatMul", graph.weight(4, 4))
        graph.add("Add", graph.weight(4))
    assert chain_of(parse_onnx(graph.model())).relus_per_layer == ()


def test_double_networks_and_open_batches() -> None:
    graph = Graph([1, 3], dtype="f8")
    graph.add("MatMul", graph.weight(3, 4))
    graph.add("Relu")
    network = parse_onnx(graph.model(batch="N"))
    assert network.dtype == np.float64
    assert network.input_shape == (1, 3)
    assert agrees(network)


def test_several_inputs_and_outputs_follow_each_other() -> None:
    """In the order of the file, in the flat vectors of both sides."""

    def add_one_of_each(graph: onnx.GraphProto) -> None:
        graph.input.append(float_input("other", ["N", 2]))
        graph.node.append(helper.make_node("Relu", ["other"], ["bent"]))
        graph.output.append(float_input("bent", [1, 2]))
        graph.output.append(float_input("v1", [1, 6]))

    network = parse_onnx(edited(add_one_of_each))
    assert [tensor.shape for tensor in network.x] == [(1, 3), (1, 2)]
    assert [tensor.name for tensor in network.y] == ["v5", "bent", "v1"]
    assert network([0, 0, 0, -1, 5])[2:4].tolist() == [0, 5]
    assert agrees(network)
    assert_chain_agrees(network)


def test_half_precision_inputs_are_read() -> None:
    graph = Graph([1, 3], dtype="f2")
    graph.add("MatMul", graph.weight(3, 4))
    assert read_graph(parse_model(graph.model())).dtype == np.float16


def test_omitted_attributes_are_float32_numbers() -> None:
    graph = Graph([1, 1])
    graph.add("LeakyRelu")
    assert parse_onnx(graph.model())([-1.0]) == [-float(np.float32(0.01))]
    graph = Graph([1, 1])
    graph.add("BatchNormalization", ones(1), np.zeros(1, "f4"), np.zeros(1, "f4"), np.zeros(1, "f4"))
    assert parse_onnx(graph.model())([1.0]) == [1 / np.sqrt(float(np.float32(1e-5)))]


def test_huge_bounds_of_clip_hold_in_double() -> None:
    graph = Graph([1, 2], dtype="f8")
    graph.add("Clip", np.array(-1e300), np.array(1e39))
    network = parse_onnx(graph.model())
    assert network([1e40, -2e300]).tolist() == [1e39, -1e300]
    with pytest.raises(UnsupportedOperator, match="too large to write it with ReLUs"):
        chain_of(network)


def test_constant_nodes_that_are_random_are_not_folded() -> None:
    graph = Graph(FLAT)
    graph.add("RandomNormal", first=False, shape=[1, 6])
    graph.add("Add", "input")
    with pytest.raises(UnsupportedOperator, match="its values are random"):
        parse_onnx(graph.model())


def test_functions_of_the_model_are_inlined() -> None:
    model = onnx.load_model_from_string(dense())
    body = [helper.make_node("Relu", ["x"], ["y"])]
    made = helper.make_function("own", "Bend", ["x"], ["y"], body, [helper.make_opsetid("", 13)])
    model.functions.append(made)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node[1].op_type, model.graph.node[1].domain = "Bend", "own"
    network = parse_onnx(model.SerializeToString())
    assert network.relus == 12
    assert agrees(network)


def test_moves_cost_no_node() -> None:
    graph = Graph([1, 3, 4])
    graph.add("Transpose", perm=[0, 2, 1])
    graph.add("Relu")
    graph.add("Reshape", ints(2, 6))
    graph.add("Mul", graph.weight(2, 6))
    graph.add("Add", graph.weight(6))
    assert [type(node).__name__ for node in parse_onnx(graph.model()).nodes] == ["Input", "Apply", "Affine", "Affine"]


def test_graph_of_and_chain_of_are_inverse() -> None:
    network = chain_of(parse_onnx(dense()))
    again = chain_of(graph_of(network))
    for one, other in zip(network.layers, again.layers, strict=True):
        assert (one.weight == other.weight).all()
        assert (one.bias == other.bias).all()
    assert again.model == network.model


@pytest.mark.parametrize(
    "file",
    [
        "cctsdb_yolo_2023/onnx/patch-3.onnx.gz",
        "cersyve/onnx/pendulum_finetune_inv.onnx.gz",
        "cgan_2023/onnx/cGAN_imgSz32_nCh_3_nonlinear_activations.onnx.gz",
        "cgan_2023/onnx/cGAN_imgSz32_nCh_3_upsample.onnx.gz",
        "cifar10_resnet_2021/onnx/resnet_4b.onnx.gz",
        "lsnc_relu/onnx/relu_quadrotor2d_state.onnx.gz",
        "ml4acopf_2024/onnx/14_ieee_ml4acopf.onnx.gz",
        "nn4sys/onnx/mscn_128d_dual.onnx.gz",
        "nn4sys/onnx/pensieve_small_parallel.onnx.gz",
        "tllverifybench_2023/onnx/tllBench_n=2_N=M=16_m=1_instance_1_0.onnx.gz",
        "traffic_signs_recognition_2023/onnx/3_30_30_QConv_16_3_QConv_32_2_Dense_43_ep_30.onnx.gz",
        "verivital_2021/Convnet_maxpool.onnx.gz",
        "vit_2023/onnx/pgd_2_3_16.onnx.gz",
        "yolo_2023/onnx/TinyYOLO.onnx.gz",
    ],
)
def test_competition_networks_are_read(file: str) -> None:
    load(benchmark(file))


@pytest.mark.parametrize(
    ("file", "relus"),
    [
        ("acasxu/ACASXU_run2a_1_1_batch_2000.onnx", [50] * 6),
        ("acasxu/ACASXU_run2a_5_9_batch_2000.onnx", [50] * 6),
        ("mnistfc/mnist-net_256x2.onnx", [256] * 2),
        ("mnistfc/mnist-net_256x4.onnx", [256] * 4),
        ("mnistfc/mnist-net_256x6.onnx", [256] * 6),
        ("toyadmos/ad01.onnx", [128, 128, 128, 128, 8, 128, 128, 128, 128]),
        ("vww/vww_96_tail16.onnx", [2304, *[4608] * 11, 1152, 2304, 2304, 2304]),
    ],
)
def test_benchmark_networks(file: str, relus: list[int]) -> None:
    assert list(load_chain(benchmark(file)).relus_per_layer) == relus


def test_all_acas_networks_load() -> None:
    folder = benchmark("acasxu")
    files = sorted(folder.glob("*.onnx"))
    assert len(files) == 45
    for file in files:
        assert load(file).relus == 300


def test_visual_wake_words_gives_the_original_scores() -> None:
    network = load(benchmark("vww", "vww_96.onnx"))
    assert network.relus == 231_552
    images, scores = (np.load(benchmark("vww", name)) for name in ("inputs.npy", "logits.npy"))
    np.testing.assert_allclose(network(images.reshape(2, -1)), scores, atol=1e-5)


def test_toyadmos_gives_the_original_outputs() -> None:
    network = load(benchmark("toyadmos", "ad01.onnx"))
    windows, outputs = (np.load(benchmark("toyadmos", name)) for name in ("inputs.npy", "outputs.npy"))
    np.testing.assert_allclose(network(windows), outputs, atol=1e-2)
