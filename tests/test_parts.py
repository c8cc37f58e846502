"""Parts: what bounds alone may prove, which disjuncts remain, and what halves inherit."""

import numpy as np
import pytest
from cases import CORNERS, SQUARE, box_of, one_disjunct

from ginnacer_verify.bounds.chain import Bounds, linear_bounds
from ginnacer_verify.engines import parts as module
from ginnacer_verify.engines.parts import Bounded, Part, parts
from ginnacer_verify.properties.property import Disjunct, Polytope, Property


def bounded_with(monkeypatch: pytest.MonkeyPatch, lower: list[float], *, strict: bool = False) -> Bounded:
    """The part of a property with as many rows as `lower` has, whose bounds are said to be these."""
    count = len(lower)
    prop = one_disjunct(SQUARE, np.ones((count, 1)), np.zeros(count), strict=strict)

    def claim(*args: object, **options: object) -> Bounds:
        true = linear_bounds(*args, **options)  # type: ignore[arg-type]
        return Bounds((*true.lower[:-1], np.array(lower)), (*true.upper[:-1], np.full(count, 9.0)))

    monkeypatch.setattr(module, "linear_bounds", claim)
    monkeypatch.setattr(module, "fold_error", lambda *_: np.zeros(count))
    return Bounded.of(CORNERS, prop, Part(SQUARE, (0,)))


@pytest.mark.parametrize(
    ("lower", "strict", "proved"),
    [
        ([1e-300], False, True),
        ([0.0], False, False),
        ([0.0], True, True),
        ([-1e-300], True, False),
        ([np.nan], False, False),
        ([np.nan], True, False),
        ([-np.inf], False, False),
        ([-1.0, 0.5], False, True),
        ([-1.0, np.nan], False, False),
    ],
)
def test_only_a_bound_above_zero_proves(
    monkeypatch: pytest.MonkeyPatch, lower: list[float], strict: bool, proved: bool
) -> None:
    """A NaN is never a proof (nnv#446); one row out of reach is enough; at 0 only a strict row is out of reach."""
    assert bool(bounded_with(monkeypatch, lower, strict=strict).proved) is proved


def test_the_error_of_folding_counts() -> None:
    """The output is exactly the constant 1e16 + 1; folding `y - 1e16` loses the 1, which must not prove anything."""
    from ginnacer_verify.graph.network import Network

    network = Network.from_arrays(([[1.0]], [1e16]))
    prop = one_disjunct(box_of([1.0], [1.0]), [[1.0]], [1e16])
    assert Bounded.of(network, prop, Part(prop.boxes[0], (0,))).proved == ()


def test_disjuncts_are_told_apart() -> None:
    offsets = (-0.5, -3.0, -1.5)
    prop = Property.of(*(Disjunct(SQUARE, Polytope.everything(2), Polytope.of([[1.0]], [o])) for o in offsets))
    (part,) = parts(prop)
    bounded = Bounded.of(CORNERS, prop, part)
    assert bounded.proved == (1,)
    assert bounded.open_disjuncts == [2, 0], "the nearest to a proof first"
    for number in (0, 2):
        row = bounded.relational(prop, number).base.unsafe
        assert len(row) == 1
        assert row.offset[0] == pytest.approx(offsets[number], abs=1e-6)


def test_empty_boxes_have_no_part_and_equal_ones_share() -> None:
    empty = box_of([1.0, 0.0], [0.0, 1.0])
    disjuncts = [Disjunct(box, Polytope.everything(2), Polytope.of([[1.0]], [0.0])) for box in (SQUARE, empty, SQUARE)]
    (part,) = parts(Property.of(*disjuncts))
    assert part.disjuncts == (0, 2)


def test_sub_parts_inherit_what_is_known() -> None:
    prop = one_disjunct(SQUARE, [[1.0]], [-1.5])
    bounded = Bounded.of(CORNERS, prop, Part(SQUARE, (0,)))
    half = box_of([-1.0, -1.0], [0.0, 1.0])
    (child,) = bounded.sub_parts([half], [0])
    assert child.disjuncts == (0,)
    assert child.within is not None
    inner = Bounded.of(CORNERS, prop, child)
    for number in range(2):
        assert (inner.bounds.lower[number] >= bounded.bounds.lower[number]).all()
        assert (inner.bounds.upper[number] <= bounded.bounds.upper[number]).all()
