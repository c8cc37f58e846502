"""What people type: verdicts that cannot be misread, options that are checked, values that show themselves briefly."""

import pydoc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import BY_HAND

import ginnacer_verify as gv
from ginnacer_verify.engines.progress import Moment
from ginnacer_verify.engines.refinement.abstracted import Situation
from ginnacer_verify.engines.refinement.relational import Kept, split
from ginnacer_verify.engines.verdict import Holds, Undecided, Violated
from ginnacer_verify.errors import GinnacerError, InputError, NetworkError
from ginnacer_verify.graph.network import Network

CASES = {case.name: case for case in BY_HAND}
HOLDS, FAILS = CASES["corners missed"], CASES["corners reached"]
SETS = Path(__file__).resolve().parent.parent / "vnnlib"


def test_a_verdict_has_no_truth_value() -> None:
    for verdict in (Holds(), Undecided("hard"), gv.verify(FAILS.network, FAILS.prop)):
        with pytest.raises(TypeError, match=r"ask for \.holds"):
            bool(verdict)


def test_questions_that_every_verdict_answers() -> None:
    verdicts = [
        gv.verify(HOLDS.network, HOLDS.prop),
        gv.verify(FAILS.network, FAILS.prop),
        gv.verify(HOLDS.network, HOLDS.prop, timeout=0),
    ]
    assert [(one.holds, one.violated, one.undecided) for one in verdicts] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert [one.counterexample is None for one in verdicts] == [True, False, True]


def test_a_counterexample_has_the_networks_shape_and_type() -> None:
    network = gv.load(SETS / "digits/digits_32x2.onnx")
    verdict = gv.verify(network, gv.read_vnnlib(SETS / "digits/image_003_0.04.vnnlib"))
    assert isinstance(verdict, Violated)
    found = verdict.counterexample
    assert (found.input.shape, found.input.dtype) == (network.input_shape, network.dtype)
    assert found.output.shape == network.output_shape
    assert (np.asarray(found) == found.input).all()
    assert np.allclose(network(found.input), found.y, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "box"},
        {"backend": 3},
        {"threads": 0},
        {"threads": True},
        {"threads": 1.5},
        {"timeout": float("nan")},
        {"timeout": -1},
        {"timeout": "10"},
        {"per_round": 0},
        {"seed": -1},
        {"restarts": -1},
        {"initial": "nothing"},
        {"refine": "nothing"},
        {"engine": "nothing"},
        {"engine": "boxes", "backend": "highs"},
        {"engine": "regions", "refine": "split"},
    ],
)
def test_options_that_make_no_sense(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        gv.verify(HOLDS.network, HOLDS.prop, **options)  # type: ignore[arg-type]


def test_an_option_of_the_loop_chooses_the_loop() -> None:
    assert gv.verify(HOLDS.network, HOLDS.prop).statistics.engine == "boxes"
    assert gv.verify(HOLDS.network, HOLDS.prop, backend="highs").statistics.engine == "highs"


def test_a_refinement_can_be_a_function() -> None:
    calls = []

    def mine(situation: Situation[Kept]) -> Kept:
        calls.append(situation)
        return split(situation)

    assert gv.verify(HOLDS.network, HOLDS.prop, refine=mine, per_round=1).holds
    assert calls


@pytest.mark.parametrize("engine", ["boxes", "phases", "regions", "cegar"])
@pytest.mark.parametrize("case", [HOLDS, FAILS], ids=lambda case: case.name)
def test_observe_sees_every_engine(engine: str, case: object) -> None:
    moments: list[Moment] = []
    one = HOLDS if case is HOLDS else FAILS
    assert gv.verify(one.network, one.prop, engine=engine, observe=moments.append).word == one.expected
    assert moments
    assert all(moment.rule == "as asked for" for moment in moments)


def test_values_show_themselves_in_one_line() -> None:
    graph = gv.load(SETS / "digits/digits_32x2.onnx")
    prop = gv.read_vnnlib(SETS / "digits/image_003_0.04.vnnlib")
    abstraction = gv.abstract(graph, np.zeros(64))
    verdict = gv.verify(graph, prop)
    for value in (
        graph,
        abstraction.network,
        prop,
        abstraction,
        verdict,
        verdict.counterexample,
        Holds(),
        Undecided("<"),
    ):
        assert len(repr(value)) < 240, repr(value)
        assert "\n" not in repr(value)
        assert value._repr_html_().startswith("<table>")  # type: ignore[union-attr]
    assert "<td>&lt;</td>" in Undecided("<")._repr_html_()
    assert "64 (32-32)" in repr(abstraction.network)


def test_help_lists_the_functions() -> None:
    text = pydoc.plain(pydoc.render_doc(gv))
    for name in (
        "abstract",
        "along",
        "certify",
        "radius",
        "robustness",
        "from_torch",
        "load",
        "parse_vnnlib",
        "read_vnnlib",
        "verify",
    ):
        assert f"    {name}(" in text


def test_build_needs_no_other_import() -> None:
    code = "import ginnacer_verify as gv; print(gv.properties.build.robustness.__name__)"
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert program.stdout == "robustness\n"


@pytest.mark.parametrize("graph", [True, False])
def test_images_as_a_batch(graph: bool) -> None:
    read = gv.load(SETS / "digits/digits_32x2.onnx")
    network = read if graph else gv.abstract(read, np.zeros(64)).network
    images = np.random.default_rng(0).random((4, 8, 8))
    expected = np.array([network(image.reshape(64)) for image in images])
    for batch in (images, images.reshape(4, 64), images.reshape(4, 1, 8, 8)):
        assert np.allclose(network(batch), expected)
    assert network(images[0]).shape == (10,)
    with pytest.raises(NetworkError, match="does not fit"):
        network(images.reshape(2, 2, 8, 8))


def test_axes_in_another_order_are_refused() -> None:
    network = Network(Network.from_arrays((np.ones((1, 12)), [0.0])).layers, input_shape=(1, 3, 2, 2))
    assert network(np.zeros((5, 3, 2, 2))).shape == (5, 1)
    for shape in ((2, 2, 3), (5, 2, 2, 3)):
        with pytest.raises(NetworkError, match="does not fit"):
            network(np.zeros(shape))


def test_a_strategy_by_its_name() -> None:
    network = gv.load(SETS / "digits/digits_32x2.onnx")
    from ginnacer_verify.abstraction.partitioning.strategies import best_fit

    named, given = (
        gv.abstract(network, np.zeros(64), strategy="best_fit"),
        gv.abstract(network, np.zeros(64), strategy=best_fit),
    )
    assert named.relus_per_layer == given.relus_per_layer
    with pytest.raises(GinnacerError, match="no strategy 'best'"):
        gv.abstract(network, np.zeros(64), strategy="best")


def test_an_abstraction_is_saved_and_loaded(tmp_path: Path) -> None:
    network, x = gv.load(SETS / "digits/digits_32x2.onnx"), np.full(64, 0.3)
    abstraction = gv.abstract(network, np.zeros(64))
    abstraction.save(tmp_path / "a.npz")
    assert np.array_equal(gv.Abstraction.load(tmp_path / "a.npz")(x), abstraction(x))
