"""The Inactive Canonical Form: equal to the layer everywhere, inactive at the centroid, from every anchor."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import layers, points

from ginnacer_verify.abstraction.icf import Anchor, activation, canonical_form
from ginnacer_verify.arrays import dense
from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Layer


def test_centroid_activation_matrices() -> None:
    active, sign = activation(np.array([-1.0, 0.0, 2.0]))
    assert active.tolist() == [False, True, True]  # W x_c + b >= 0 counts as active
    assert sign.tolist() == [1.0, -1.0, -1.0]  # S = I - 2A


def anchors(centroid: np.ndarray) -> list[Anchor]:
    box = Box(centroid - 1.0, centroid + 0.25)
    return [Anchor.zero(len(centroid)), Anchor.corner(box), Anchor.nearest(box, centroid)]


@settings(max_examples=60)
@given(st.data())
def test_inactive_canonical_form(data: st.DataObject) -> None:
    layer = data.draw(layers(4, 6))
    centroid = np.abs(data.draw(points(4)))
    y = layer(centroid)
    for anchor in anchors(centroid):
        icf = canonical_form(layer, centroid, y, anchor)
        assert (icf.potential <= 0).all()
        x = anchor.point + anchor.side * np.abs(data.draw(points(4)))
        r = icf.bias + dense(icf.rows) @ np.abs(x - anchor.point)
        t = np.where(icf.active, layer(x), 0.0)
        np.testing.assert_allclose(np.maximum(r, 0) + t, np.maximum(layer(x), 0), rtol=1e-9, atol=1e-9)


def test_nearest_anchor_is_the_end_next_to_the_centroid() -> None:
    anchor = Anchor.nearest(Box(np.zeros(2), np.ones(2)), np.array([0.1, 0.9]))
    assert anchor.point.tolist() == [0.0, 1.0]
    assert anchor.side.tolist() == [1.0, -1.0]


def test_slack_covers_a_trace_that_is_not_ours() -> None:
    layer, centroid = Layer(np.array([[1.0, 2.0]]), np.array([0.5])), np.array([1.0, 1.0])
    icf = canonical_form(layer, centroid, layer(centroid) + 1e-3, Anchor.zero(2))
    assert icf.slack[0] >= 1e-3
