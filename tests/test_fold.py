"""Folding: what stable neurons and rows become, against exact rationals, with the error that is claimed for it."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from cases import box_of

from ginnacer_verify.abstraction.fold import Affine, Expressions, fold_error, fold_rows
from ginnacer_verify.arrays import Array, dense
from ginnacer_verify.bounds.chain import linear_bounds
from ginnacer_verify.engines.parts import Bounded, Part
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.properties.vnnlib import parse_vnnlib

Exact = list[Fraction]


def exact(layer: Layer, x: Exact) -> Exact:
    rows = zip(dense(layer.weight).tolist(), layer.bias.tolist(), strict=True)
    return [sum((Fraction(w) * v for w, v in zip(row, x, strict=True)), Fraction(bias)) for row, bias in rows]


def off(form: Affine, z: Array, truth: Exact) -> list[bool]:
    """Where the form differs from the truth by more than it says."""
    values = exact(Layer(form.matrix, form.offset), [Fraction(float(v)) for v in z])
    return [abs(a - b) > Fraction(float(e)) for a, b, e in zip(values, truth, form.error, strict=True)]


def cancelling(seed: int) -> Network:
    """All neurons active on the unit square, and behind them sums of 1e12 that leave about 1."""
    random = np.random.default_rng(seed)
    first = random.normal(size=(4, 2)), np.full(4, 10.0)
    large = 1e12 * random.normal(size=(3, 4))
    layers = (
        (np.vstack([first[0], first[0]]), np.concatenate([first[1], first[1]])),
        (np.hstack([large, -large]), [1e3] * 3),
    )
    return Network.from_arrays(*layers, (random.normal(size=(2, 3)), random.normal(size=2)))


@pytest.mark.parametrize("seed", range(10))
def test_the_error_covers_the_rounding_of_composed_layers(seed: int) -> None:
    network, box = cancelling(seed), box_of([-1.0, -1.0], [1.0, 1.0])
    form, x = Affine(np.eye(2), np.zeros(2), np.zeros(2), np.ones(2)), box.sample(np.random.default_rng(seed), 1)[0]
    truth, rounded = [Fraction(float(v)) for v in x], False
    for layer in network.layers:
        form, truth = form.then(layer, 2.0), exact(layer, truth)
        assert not any(off(form, x, truth))
        rounded |= any(off(Affine(form.matrix, form.offset, 0 * form.error, form.size), x, truth))
    assert rounded, "without rounding the test would show nothing"


@pytest.mark.parametrize("seed", range(10))
def test_every_value_is_the_expression_that_stands_for_it(seed: int) -> None:
    """With ReLUs that are stable, unstable, and stable but for a negligible amount, which is an error term."""
    random = np.random.default_rng(seed)
    small = np.concatenate([random.normal(size=4), 1e-13 * random.normal(size=2)])[:, None]
    network = Network.from_arrays(
        (small * random.normal(size=(6, 2)), np.concatenate([random.normal(size=4), [0.0, 0.0]])),
        (1e12 * random.normal(size=(3, 6)), random.normal(size=3)),
        (random.normal(size=(1, 3)), [0.5]),
    )
    box = box_of([-1.0, -1.0], [1.0, 1.0])
    bounds = linear_bounds(network.layers, box)
    forms = Expressions.of(network.layers, box, bounds)
    for x in box.sample(random, 5):
        value, run = [Fraction(float(v)) for v in x], list[Exact]()
        for layer in network.layers:
            run.append(exact(layer, value))
            value = [max(y, Fraction(0)) for y in run[-1]]
        unstable = [float(max(run[layer][neuron], 0)) for layer, neuron in zip(forms.layer, forms.neuron, strict=True)]
        z = np.concatenate([x, unstable])
        for number, form in enumerate(forms.leaving):
            if number == 0 or not len(unstable):
                assert not any(off(form, z, run[number]))
        slack = [abs(v) * 2.0**-52 for v in z]  # z itself is rounded
        last = forms.leaving[-1]
        allowed = last.error + np.abs(last.matrix) @ slack
        assert not any(off(Affine(last.matrix, last.offset, allowed, last.size), z, run[-1]))


def test_what_an_active_relu_cuts_off_is_an_error() -> None:
    """Its input may be negative by a negligible amount, which the next layer makes 0.5."""
    network, box = Network.from_arrays(([[1.0]], [0.0]), ([[1e12]], [0.0])), box_of([-5e-13], [1.0])
    forms = Expressions.of(network.layers, box, linear_bounds(network.layers, box))
    assert not len(forms.layer)
    assert not any(off(forms.leaving[-1], box.lower, [Fraction(0)]))


@pytest.mark.parametrize("seed", range(10))
def test_fixed_inputs_and_three_layers_of_relus(seed: int) -> None:
    """And `size` is at least the sum of what an expression adds up."""
    random = np.random.default_rng(seed)
    widths = (3, 6, 5, 4, 2)
    network = Network.from_arrays(*((random.normal(size=(b, a)), random.normal(size=b)) for a, b in pairwise(widths)))
    box = box_of([-2.0, 0.7, -1.0], [0.5, 0.7, 0.25])
    forms = Expressions.of(network.layers, box, linear_bounds(network.layers, box))
    assert forms.varying.tolist() == [0, 2]
    assert set(forms.layer) == {0, 1, 2}
    for x in box.sample(random, 10):
        values = list(network.pre_activations(x))
        unstable = [max(values[layer][neuron], 0.0) for layer, neuron in zip(forms.layer, forms.neuron, strict=True)]
        z = np.concatenate([x[[0, 2]], unstable])
        for form, value in zip(forms.leaving, values, strict=True):
            np.testing.assert_allclose(form.matrix @ z + form.offset, value, rtol=0, atol=1e-11)
            assert (np.abs(form.matrix) @ np.abs(z) + np.abs(form.offset) <= form.size * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("large", range(3))
def test_folded_rows_are_the_propertys_own_up_to_the_error(seed: int, large: int) -> None:
    """With large weights, biases or offsets, in two disjuncts."""
    random = np.random.default_rng(seed)
    scale = np.where(np.arange(3) == large, 1e9, 1.0)
    network = Network.from_arrays((random.normal(size=(5, 4)) * scale[0], random.normal(size=5) * scale[1]))
    rows, offset = random.normal(size=(3, 5)), random.normal(size=3) * scale[2]
    box = box_of([-1.0] * 4, [1.0] * 4)
    outputs = (Polytope.of(rows[:1], offset[:1]), Polytope.of(rows[1:], offset[1:]))
    disjuncts = [Disjunct(box, Polytope.everything(4), polytope) for polytope in outputs]
    (folded,) = fold_rows(network, disjuncts)
    error = fold_error(network, disjuncts, np.ones(4))
    for x in box.sample(random, 5):
        point = [Fraction(float(v)) for v in x]
        truth = exact(Layer(rows, -offset), exact(network.layers[0], point))
        for value, real, allowed in zip(exact(folded, point), truth, error, strict=True):
            assert abs(value - real) <= Fraction(float(allowed))
            assert value != real


@pytest.mark.parametrize("seed", range(10))
def test_slacks_and_shared_weights_cover_the_rounding(seed: int) -> None:
    """Layer 2 is a sum of 1e12 that leaves about 1 and may be negative: its rounding is far above any tolerance."""
    random = np.random.default_rng(seed)
    first, small, large = random.normal(size=(4, 2)), random.normal(size=(3, 4)), 1e12 * random.normal(size=(3, 4))
    network = Network.from_arrays(
        (np.vstack([first, first]), np.full(8, 10.0)),
        (np.hstack([large + small, -large]), -10 * small.sum(axis=1)),
        (np.ones((1, 3)), [0.0]),
    )
    box = box_of([-1.0, -1.0], [1.0, 1.0])
    prop = Property.of(Disjunct(box, Polytope.everything(2), Polytope.of([[1.0]], [1e9])))
    relational = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0)
    relus = relational.base.relus
    assert len(relus)
    shared = relational.shared(range(len(relus)), relational.trace(box.middle))
    for x in box.sample(random, 20):
        y = exact(network.layers[1], [max(v, Fraction(0)) for v in exact(network.layers[0], list(map(Fraction, x)))])
        z = [*map(Fraction, x), *(max(y[neuron], Fraction(0)) for (neuron,) in relus.neurons)]
        folded = exact(Layer(relus.weight, relus.bias), z)
        for value, (neuron,), slack in zip(folded, relus.neurons, relus.slack, strict=True):
            assert abs(value - y[neuron]) <= Fraction(float(slack))
        if not shared.is_singleton:
            (above,) = exact(Layer(shared.weight[None], np.array([shared.bias])), z)
            for (neuron,), active in zip(relus.neurons, shared.active, strict=True):
                assert above >= (-y[neuron] if active else y[neuron])


def test_rows_are_moved_outwards_beyond_the_tolerance_of_solvers() -> None:
    network, box = Network.from_arrays(([[1.0], [-1.0]], [0, 0]), ([[1.0, 1.0]], [0])), box_of([-1.0], [1.0])
    prop = Property.of(Disjunct(box, Polytope.everything(1), Polytope.of([[1.0]], [0.5])))
    slack = Bounded.of(network, prop, Part(box, (0,))).relational(prop, 0).base.relus.slack
    assert len(slack) == 2
    assert (slack >= 1e-8).all()


def test_rows_that_float64_cannot_hold_are_charged() -> None:
    """At y = (1e6, 1e6) the exact row 0.1 y0 - 0.3 y1 is below the folded one by more than rounding takes."""
    network = Network.from_arrays((np.eye(2), [0.0, 0.0]))
    text = "".join(f"(declare-const {name} Real)" for name in ("X_0", "X_1", "Y_0", "Y_1"))
    text += "".join(f"(assert (and (>= X_{i} 0) (<= X_{i} 1)))" for i in range(2))
    (disjunct,) = parse_vnnlib(f"{text}(assert (<= (- (* 0.1 Y_0) (* 0.3 Y_1)) 0.7))").disjuncts
    plain = replace(disjunct, outputs=replace(disjunct.outputs, exact={}))
    largest = np.full(2, 1e6)
    charge = fold_error(network, [disjunct], largest) - fold_error(network, [plain], largest)
    assert charge[0] >= float(abs(Fraction(0.1) - Fraction(1, 10)) + abs(Fraction(0.3) - Fraction(3, 10))) * 1e6 * 0.999
