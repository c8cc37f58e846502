"""Functions with jumps, tables, and inputs that matter as whole numbers only: all real ones are decided."""

import pickle
from itertools import combinations, product

import numpy as np
import onnx
import pytest
from cases import box_of, one_disjunct
from deciding import word_of
from models import Graph as Model
from models import ints

from ginnacer_verify.arrays import Array
from ginnacer_verify.bounds.intervals import intervals
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engines.boxes.graph import GraphRun
from ginnacer_verify.engines.budget import Budget
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import UnsupportedOperator
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense, Select
from ginnacer_verify.graph.steps import ArgMax, Floor, Truncate
from ginnacer_verify.graph.table import Table, stepped
from ginnacer_verify.loading import parse_onnx
from ginnacer_verify.properties.property import Property
from ginnacer_verify.replay.attack import everything
from ginnacer_verify.replay.judge import Judge


def patched(size: int = 5) -> bytes:
    """A small network on an image with one cell taken out, at a place that two inputs say: cell 3, 0 for (3.2, 0.9).

    Inputs: the place, then the image."""
    model = Model((1, 2 + size * size), seed=3)
    image = model.add("Slice", ints(2), ints(2 + size * size), ints(1))
    model.last = "input"
    place = model.add("Slice", ints(0), ints(2), ints(1))
    model.add("Cast", to=7)
    model.add("Reshape", ints(1, 2))
    mask = model.add("ScatterND", np.ones((size, size), "f4"), model.last, np.zeros(1, "f4"), first=False)
    model.last = image
    model.add("Reshape", ints(size, size))
    model.add("Mul", mask)
    model.add("Reshape", ints(1, size * size))
    model.add("MatMul", model.weight(size * size, 6))
    model.add("Relu")
    model.add("MatMul", model.weight(6, 2))
    assert place
    return model.model()


def box_for(image: Array, lower: tuple[float, float], upper: tuple[float, float]) -> tuple[Array, Array]:
    return np.concatenate([lower, image]), np.concatenate([upper, image])


def asking(lower: Array, upper: Array, sign: float, level: float) -> Property:
    """Whether the first output gets to the level, from below or from above."""
    return one_disjunct(box_of(list(lower), list(upper)), [[-sign, 0.0]], [-sign * level])


@pytest.fixture(scope="module")
def network() -> Graph:
    return parse_onnx(patched())


def test_the_inputs_that_are_cut_are_found(network: Graph) -> None:
    assert stepped(network) == {0: np.trunc, 1: np.trunc}


def test_an_input_that_is_also_used_as_it_is_does_not_count() -> None:
    def graph(*weight: float) -> Graph:
        builder = Builder()
        x = builder.input(3)
        one = builder.apply(Floor(), builder.affine((x, Select([0, 1], 3))))
        other = builder.apply(Truncate(), builder.affine((x, Select([1, 2], 3))))
        last = builder.affine((one, Dense(np.ones((1, 2)))), (other, Dense(np.ones((1, 2)))), (x, Dense([weight])))
        return builder.graph(last, [Tensor("X", (1, 3))], [Tensor("Y", (1, 1))])

    assert stepped(graph(0.0, 0.0, 0.0)) == {0: np.floor, 2: np.trunc}  # input 1 is cut in two ways
    assert stepped(graph(1.0, 0.0, 0.0)) == {2: np.trunc}
    assert stepped(graph(0.0, 0.0, 1e-300)) == {0: np.floor}


@pytest.mark.parametrize("ends", [((0.0, 0.0), (4.0, 4.0)), ((0.5, 1.9), (3.999, 1.95)), ((0.0, 2.5), (2.0, 2.5))])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_all_real_places_are_decided(
    network: Graph, ends: tuple[tuple[float, float], tuple[float, float]], sign: float
) -> None:
    """The extreme over all whole places is found, and that nothing between them is beyond it is proved."""
    image = np.random.default_rng(1).normal(size=25)
    lower, upper = box_for(image, *ends)
    whole = [range(int(a), int(b) + 1) for a, b in zip(*ends, strict=True)]
    points = np.array([np.concatenate([place, image]) for place in product(*whole)])
    extreme = float((sign * network.evaluate(points)[:, 0]).max()) * sign
    for shift, expected in ((1e-3, "unsat"), (-1e-3, "sat")):
        prop = asking(lower, upper, sign, extreme + sign * shift)
        assert verify(network, prop, timeout=30).word == expected
        run = GraphRun(Judge(network, prop), Budget(Deadline.after(30), restarts=0))
        assert word_of(run) == expected


def test_other_inputs_may_vary_as_well(network: Graph) -> None:
    image = np.random.default_rng(1).normal(size=25)
    lower, upper = box_for(image, (0.0, 0.0), (4.0, 4.0))
    lower[10], upper[10] = -1.0, 1.0
    points = np.random.default_rng(2).uniform(lower, upper + 0.99, (4000, 27))
    points[:, 2:] = np.clip(points[:, 2:], lower[2:], upper[2:])
    points[::2, 10] = np.where(np.arange(2000) % 2, -1.0, 1.0)
    most = float(network.evaluate(points)[:, 0].max())
    assert verify(network, asking(lower, upper, 1.0, most + 0.01), timeout=30).word == "unsat"
    assert verify(network, asking(lower, upper, 1.0, most - 0.01), timeout=30).word == "sat"


def test_everything_that_the_network_can_tell_apart(network: Graph) -> None:
    image = np.zeros(25)
    points = everything(network, box_of(*map(list, box_for(image, (0.5, 1.9), (3.0, 2.0)))))
    assert points is not None
    assert points[:, :2].tolist() == [[0.5, 1.9], [0.5, 2], [1, 1.9], [1, 2], [2, 1.9], [2, 2], [3, 1.9], [3, 2]]
    wide = box_of(*map(list, box_for(image, (0.0, 0.0), (1e6, 4.0))))
    assert everything(network, wide) is None
    lower, upper = box_for(image, (0.0, 0.0), (4.0, 4.0))
    upper[5] = 1.0
    assert everything(network, box_of(list(lower), list(upper))) is None


def test_bounds_hold_between_whole_numbers(network: Graph) -> None:
    image = np.random.default_rng(4).normal(size=25)
    random = np.random.default_rng(5)
    for _ in range(50):
        ends = np.sort(random.uniform(0, 4.99, (2, 2)), axis=0)
        lower, upper = box_for(image, tuple(ends[0]), tuple(ends[1]))
        known = intervals(network, lower[None], upper[None])
        y = network.evaluate(random.uniform(lower, upper, (100, 27)))
        assert ((known.lower[-1] <= y + 1e-9) & (y - 1e-9 <= known.upper[-1])).all()


def test_a_table_says_nothing_where_it_has_no_entry(network: Graph) -> None:
    """A place outside of the image cannot be scattered to."""
    lower, upper = box_for(np.ones(25), (3.0, 0.0), (7.0, 0.0))
    assert np.isnan(network.evaluate(upper[None])).all()
    known = intervals(network, lower[None], upper[None])
    assert np.isinf(known.upper[-1]).all()
    assert verify(network, asking(lower, upper, 1.0, 1e9), timeout=5).word == "unknown"


def test_a_table_is_kept_in_pickles(network: Graph) -> None:
    x = np.random.default_rng(0).uniform(0, 4, (3, 27))
    assert np.array_equal(pickle.loads(pickle.dumps(network)).evaluate(x), network.evaluate(x))


def test_many_whole_numbers_are_no_table() -> None:
    model = Model((1, 9))
    model.add("Cast", to=7)
    model.add("Gather", np.arange(5, dtype="f4"), model.last, first=False)
    with pytest.raises(UnsupportedOperator, match="9 whole numbers"):
        parse_onnx(model.model())


def test_a_table_that_cannot_be_evaluated_is_refused() -> None:
    model = Model((1, 2))
    model.add("Cast", to=7)
    model.add("Add", ints(9))
    model.add("Gather", np.arange(5, dtype="f4"), model.last, first=False)
    with pytest.raises(UnsupportedOperator, match="cannot be evaluated"):
        parse_onnx(model.model())


def test_whole_numbers_as_outputs() -> None:
    """What is cut, and what is looked up, may be the network's output."""
    model = Model((1, 2))
    model.add("Cast", to=6)
    assert parse_onnx(model.model(gives=6))([1.9, -1.9]).tolist() == [1.0, -1.0]
    model.add("Add", np.array([1, 2], dtype=np.int32))
    found = parse_onnx(model.model(gives=6))
    assert found([1.9, -1.9]).tolist() == [2.0, 1.0]
    assert found.y[0].shape == (1, 2)
    assert onnx.load_model_from_string(found.model).graph.node[0].op_type == "Cast"


def _differences(scores: Array) -> tuple[Array, ...]:
    return tuple(scores[..., i] - scores[..., j] for i, j in combinations(range(scores.shape[-1]), 2))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_argmax_of_differences(count: int) -> None:
    random = np.random.default_rng(count)
    function = ArgMax(count)
    scores = np.round(random.normal(size=(500, count)), 1)  # with ties
    assert np.array_equal(function.apply(*_differences(scores)), scores.argmax(axis=-1))
    for _ in range(200):
        middle, width = random.normal(size=(1, count)), random.random((1, count)) * 10 ** random.uniform(-2, 0.5)
        inside = np.clip(random.uniform(middle - width, middle + width, (300, count)), middle - width, middle + width)
        apart = np.stack(_differences(inside))
        lower, upper = (tuple(ends) for ends in (apart.min(axis=1)[:, None], apart.max(axis=1)[:, None]))
        least, most = function.range(lower, upper)
        seen = inside.argmax(axis=-1)
        assert least <= seen.min()
        assert seen.max() <= most
        lines = function.lines(lower, upper)
        assert (lines.lower_intercept == least).all()
        assert (lines.upper_intercept == most).all()


@pytest.mark.parametrize("count", [2, 4])
def test_cuts_of_argmax_end(count: int) -> None:
    """A few cuts leave one place, or a sliver next to a tie."""
    random = np.random.default_rng(0)
    function = ArgMax(count)
    for _ in range(100):
        scores = random.normal(size=(20, count))
        apart = np.stack(_differences(scores))
        boxes = [(apart.min(axis=1), apart.max(axis=1))]
        for _ in range(2 * function.arity):
            after = []
            for lower, upper in boxes:
                which, at = function.cut(tuple(lower[:, None]), tuple(upper[:, None]))
                if np.isnan(at[0]):
                    after.append((lower, upper))
                    continue
                left, right = upper.copy(), lower.copy()
                left[which[0]] = right[which[0]] = at[0]
                after += [(lower, left), (right, upper)]
            boxes = after
        for lower, upper in boxes:
            least, most = function.range(tuple(lower[:, None]), tuple(upper[:, None]))
            sliver = ((upper - lower) < 1e-200).any()
            assert sliver or (least == most).all()


def test_a_class_as_output_is_decided() -> None:
    """A last ArgMax is no reason to refuse: where a class wins on a box, no other one is possible there."""
    model = Model((1, 2), seed=1)
    model.add("MatMul", model.weight(2, 8))
    model.add("Relu")
    scores = model.add("MatMul", model.weight(8, 3))
    model.add("ArgMax", axis=1, keepdims=0)
    network = parse_onnx(model.model(gives=7))
    assert scores
    x = np.array([0.7, -0.4])
    winner = float(network(x)[0])
    around = box_of(list(x - 0.01), list(x + 0.01))
    assert verify(network, one_disjunct(around, [[1.0]], [winner - 0.5]), timeout=20).word == "unsat"
    assert verify(network, one_disjunct(around, [[-1.0]], [-winner - 0.5]), timeout=20).word == "unsat"
    everywhere = box_of([-1.0, -1.0], [1.0, 1.0])
    others = {float(y) for y in network.evaluate(np.random.default_rng(0).uniform(-1, 1, (500, 2)))[:, 0]} - {winner}
    assert others
    other = others.pop()
    row = [[1.0], [-1.0]], [other + 0.5, 0.5 - other]
    assert verify(network, one_disjunct(everywhere, *row), timeout=20).word == "sat"


def test_table_entries_are_per_element() -> None:
    table = Table(lambda t: np.array([10.0, 20.0, 30.0]) + t[0])
    y = np.array([[1.5, 2.5, -0.5], [0.0, 0.0, 0.0]])
    assert table.apply(y).tolist() == [[11.0, 22.0, 30.0], [10.0, 20.0, 30.0]]
    least, most = table.range((y,), (y + 1,))
    assert least.tolist() == [[11.0, 22.0, 30.0], [10.0, 20.0, 30.0]]
    assert most.tolist() == [[12.0, 23.0, 30.0], [11.0, 21.0, 31.0]]


def test_what_no_whole_number_type_holds_is_not_known() -> None:
    """onnxruntime makes the least number of the type out of it."""
    cut, lower, upper = Truncate(2.0**31), np.array([-1e3, 0.0, -3e9]), np.array([2.0**31 - 1, 2.0**31, 3.0])
    least, most = cut.range((lower,), (upper,))
    assert (least == [-1e3, -np.inf, -np.inf]).all()
    assert (most == [2.0**31 - 1, np.inf, np.inf]).all()
    lines = cut.lines((lower,), (upper,))
    assert (np.isfinite(lines.lower_intercept) == [True, False, False]).all()
    assert (np.isfinite(lines.upper_intercept) == [True, False, False]).all()
