"""Disjuncts on their boxes as the kernel wants them: folded, flat, without fixed inputs, and with rounding errors."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, islice, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ginnacer_verify.abstraction.fold import rows_error
from ginnacer_verify.arrays import Array, Weight, dense
from ginnacer_verify.bounds.chain import absolute
from ginnacer_verify.graph.network import Layer, Network, then
from ginnacer_verify.graph.twins import twins
from ginnacer_verify.native import Net, Record
from ginnacer_verify.properties.property import Disjunct, stacked
from ginnacer_verify.rounding import HUGE, TINY, UNDERFLOW, UNIT, gamma

STEPS = 4
"""How often the slopes of a row's bound are improved."""
ALTERNATIVES = 64
"""At most so many disjuncts of one row are searched together."""
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Problem:
    """Unsafe: an input between `low[d]` and `high[d]`, over the varying inputs only, where every row of disjunct d is
    at most 0. `largest[d]` bounds the absolute value of each neuron's input on its box."""

    disjuncts: Sequence[Disjunct]
    net: Record
    low: Array
    high: Array
    largest: Array
    errors: Array
    varying: tuple[int, ...]
    members: Sequence[Disjunct] = ()
    """If every row of the one disjunct is a disjunct by itself: these, in the order of the rows."""

    def whole(self, x: Array, owner: int = 0) -> Array:
        """The inputs of the network for values of a disjunct's varying ones."""
        point = self.disjuncts[owner].box.lower.copy()
        point[list(self.varying)] = x
        return point


def is_plain(network: Network) -> bool:
    """Whether the kernel can bound the network in its arithmetic. Executed, the layers between the first and the last
    must be what was stored, not several operators multiplied out."""
    if network.arithmetic.is_real:
        return True
    between = network.layers[1:-1]
    weights = all(np.array_equal(dense(one.absolute.weight), np.abs(dense(one.weight))) for one in between)
    floor = network.arithmetic.floor * (1 + 1e-9)
    biases = all((one.absolute.bias <= np.abs(one.bias) * (1 + UNIT) + floor).all() for one in between)
    return len(network.layers) > 1 and weights and biases


class Folding:
    """A network whose hidden layers are laid out for the kernel once, whatever is folded into its first and last."""

    def __init__(self, network: Network) -> None:
        *hidden, self.last = network.layers
        self.network, self.hidden = network, hidden
        self.weight = _flat([_across(dense(layer.weight)) for layer in hidden[1:]])
        self.bias = _flat([layer.bias for layer in hidden[1:]])
        self.weights = _starts([layer.inputs * layer.outputs for layer in hidden[1:]])
        self.biases = _starts([layer.outputs for layer in hidden[1:]])
        self.absolute = [absolute(layer.weight) for layer in hidden]
        self.first_weight = cache(self._first_weight)
        self.twins: Integers | None = None

    def _first_weight(self, varying: tuple[int, ...]) -> Array:
        return _across(dense(self.hidden[0].weight)[:, list(varying)]) if self.hidden else np.zeros(0)

    def problems(self, disjuncts: Iterable[Disjunct], together: int) -> Iterator[Problem]:
        """Made one by one, as they are asked for; neighbours that vary the same inputs in as many rows share one."""
        if len(self.network.originals) > 1:
            yield from self._joint_problems(disjuncts)
            return
        for _, members in groupby(disjuncts, lambda disjunct: (disjunct.box.varying, len(disjunct.outputs))):
            while chosen := tuple(islice(members, together)):
                yield self.problem(chosen)

    def _joint_problems(self, disjuncts: Iterable[Disjunct]) -> Iterator[Problem]:
        """Of several networks: that any of their outputs differ much is a question about one box, in many rows."""
        for (_, rows, *_), members in groupby(
            disjuncts, lambda disjunct: (disjunct.box, len(disjunct.outputs), disjunct.inner, len(disjunct.inputs))
        ):
            while chosen := tuple(islice(members, ALTERNATIVES if rows == 1 else 1)):
                yield self.alternatives(chosen) if len(chosen) > 1 else self.problem(chosen)

    def alternatives(self, disjuncts: Sequence[Disjunct]) -> Problem:
        """Disjuncts of one row each on one box, searched together: their rows share all that lies before them."""
        first = disjuncts[0]
        return self.problem([replace(first, outputs=stacked([d.outputs for d in disjuncts]))], members=disjuncts)

    def problem(self, disjuncts: Sequence[Disjunct], members: Sequence[Disjunct] = ()) -> Problem:
        """The unsafe rows in the last layer, fixed inputs in the first biases.

        All of them vary the same inputs, in as many rows. Boxes and coefficients that they share are there once."""
        boxes, box_of = _distinct(disjuncts, lambda disjunct: disjunct.box)
        if self.twins is None:
            self.twins = twins(self.network, boxes[0].box)
        sets, last_of = _distinct(
            disjuncts, lambda disjunct: (disjunct.outputs.matrix.tobytes(), disjunct.outputs.slop.tobytes())
        )
        matrices = [disjunct.outputs.matrix for disjunct in sets]
        offset = np.stack([disjunct.outputs.offset for disjunct in disjuncts])
        lower, upper = (np.stack([getattr(d.box, end) for d in boxes]) for end in ("lower", "upper"))
        varying = tuple(boxes[0].box.varying)
        fixed = lower.copy()
        fixed[:, varying] = 0.0
        rows = [np.asarray(matrix @ self.last.weight) for matrix in matrices]
        bias = np.stack([matrix @ self.last.bias for matrix in matrices])[last_of] - offset
        largest, errors = self._rounding(np.maximum(np.abs(lower), np.abs(upper)), box_of, rows, last_of, bias)
        entering = largest[-1]
        for number, matrix in enumerate(matrices):
            own = last_of == number
            slop = sets[number].outputs.slop if sets[number].outputs.exact else None
            lost = rows_error(self.last, matrix, offset[own], entering[box_of[own]], slop)
            errors[own, -1] += lost.max(axis=1, initial=0.0)
        if not self.hidden:
            bias = bias + np.stack([rows[s] @ fixed[b] for s, b in zip(last_of, box_of, strict=True)])
            rows = [row[:, varying] for row in rows]
        first_biases, first_of = np.unique(fixed, axis=0, return_inverse=True)
        if self.hidden:
            first_biases = _times(self.hidden[0].weight, first_biases) + self.hidden[0].bias
        shares, limits, first_offs, last_sizes, last_floors, last_limits = self._execution(
            np.maximum(np.abs(lower), np.abs(upper))[box_of], matrices, last_of
        )
        sizes = np.array([len(varying), *self.network.relus_per_layer, offset.shape[1]], dtype=np.int64)
        net = Net(
            layers=len(sizes) - 1,
            inputs=len(varying),
            rows=offset.shape[1],
            relus=self.network.relus,
            widest=int(sizes.max()),
            steps=STEPS,
            each=int(bool(members)),
            sizes=sizes,
            weights=self.weights,
            biases=self.biases,
            weight=self.weight,
            bias=self.bias,
            first_weight=self.first_weight(varying),
            first_biases=np.ascontiguousarray(first_biases),
            last_weights=_flat([_across(row) for row in rows]),
            first_of=first_of.reshape(-1)[box_of].astype(np.int64),
            last_of=last_of,
            last_biases=bias,
            errors=errors,
            shares=shares,
            limits=limits,
            first_offs=first_offs,
            last_sizes=last_sizes,
            last_floors=last_floors,
            last_limits=last_limits,
            twins=self.twins,
        )
        neurons = np.concatenate([np.zeros((len(boxes), 0)), *largest[1:]], axis=1)
        low, high = lower[:, varying][box_of], upper[:, varying][box_of]
        return Problem(disjuncts, net, low, high, neurons[box_of], errors, varying, members)

    @property
    def _twins_entering(self) -> list[Integers]:
        """The twins of the values that enter each layer, by their numbers in that layer; inputs have none."""
        assert self.twins is not None
        starts = np.cumsum([0, *self.network.relus_per_layer])
        layers = [self.twins[a:b] - a for a, b in pairwise(starts)]
        return [np.full(self.network.inputs, -1), *(np.maximum(twin, -1) for twin in layers)]

    def _execution(
        self, size: Array, matrices: Sequence[Array], last_of: Integers
    ) -> tuple[Array, Array, Array, Array, Array, Array]:
        """What the kernel needs to know of the arithmetic in which the network is executed; `size` bounds the absolute
        values of each disjunct's inputs."""
        arithmetic, layers = self.network.arithmetic, self.network.layers
        shares = np.array([arithmetic.share(layer.roundings) for layer in layers])
        limits = np.array([arithmetic.largest / 2, arithmetic.floor])
        if arithmetic.is_real:
            nothing = np.zeros(0)
            return shares, limits, nothing, nothing, nothing, nothing
        folded = [then([self.last], Layer(matrix, np.zeros(len(matrix))))[-1] for matrix in matrices]
        wholes = [layer.absolute for layer in folded]
        first_offs = self.hidden[0].off(self.hidden[0].absolute(size)) * (1 + 1e-9)
        floors = np.stack([whole.bias for whole in wholes])[last_of] + arithmetic.floor
        highest = np.stack([layer.limit for layer in folded])[last_of] / 2
        sums = _flat([_across(dense(whole.weight)) for whole in wholes])
        return shares, limits, np.ascontiguousarray(first_offs), sums, floors, highest

    @np.errstate(over="ignore", invalid="ignore")
    def _rounding(
        self, size: Array, box_of: Integers, rows: Sequence[Array], last_of: Integers, bias: Array
    ) -> tuple[list[Array], Array]:
        """How large a value that enters each layer can be, per box; and per disjunct and layer, how far a computed
        bound can be from that of real arithmetic: nothing is proved if any size is HUGE."""
        terms, largest, errors, ordinary = Terms.of(size), [size], [], np.ones(len(size), dtype=np.bool_)
        for weight, layer, twin in zip(self.absolute, self.hidden, self._twins_entering, strict=False):
            terms = terms.leaning(twin).through(weight, layer.bias, self.network.relus)
            largest.append(terms.size)
            errors.append(terms.error)
            ordinary &= terms.ordinary
        found = np.column_stack([*(error[box_of] for error in errors), np.zeros(len(box_of))])
        for number, weight in enumerate(rows):
            own = np.flatnonzero(last_of == number)
            last = terms.leaning(self._twins_entering[-1]).chosen(box_of[own])
            last = last.through(np.abs(weight), bias[own], self.network.relus)
            found[own, -1] = last.error
            found[own[~(last.ordinary & ordinary[box_of[own]])]] = np.inf
        return largest, found


class Terms(NamedTuple):
    """The terms that make up the rows of a layer, per box: what their roundings can add up to.

    `size` bounds the sum of the absolute values of all terms of a row: |W| size + |b| from layer to layer.
    Eliminating a ReLU replaces `s` by at most its row plus slope * |lower|, a constant of at most half its size, so
    `total` bounds the terms of a row after elimination. Each term has passed, in each layer, a sum over that layer
    (composition), a sum over all unstable ReLUs (elimination) and a handful of products; a chain of n roundings moves
    a term by at most gamma(n) of itself (Higham, Accuracy and Stability of Numerical Algorithms, Lemma 3.1), in
    whatever order sums are taken. The outputs of a layer are counted for the combination of rows at the end.

    Underflow takes from each of as many products at most UNDERFLOW times the value whose coefficient it is: one for
    inputs and constants, a neuron's size for a ReLU. `least`, far above that divided by a unit of rounding, is added to
    the sizes instead. Differences of values from HUGE on may overflow."""

    size: Array
    total: Array
    least: Array
    roundings: int = 8
    first: bool = True
    more: Array | float = 0.0

    @classmethod
    def of(cls, inputs: Array) -> "Terms":
        """One row per box."""
        return cls(inputs, inputs, np.full((len(inputs), 1), UNDERFLOW / gamma(1) * (1.0 + inputs.shape[1])))

    def leaning(self, twin: Integers) -> "Terms":
        """The same where values lean on twins: `s` is replaced by its twin's line and at most the rows of both, and by
        at most the sum of their sizes. That is twice the twin's terms and one and a half times its size more."""
        leaning = np.flatnonzero(twin >= 0)
        if not len(leaning):
            return self._replace(more=0.0)
        more, other = np.zeros_like(self.total), twin[leaning]
        more[:, leaning] = 2 * self.total[:, other] + 1.5 * self.size[:, other] + self.size[:, leaning] / 2
        return self._replace(more=more, roundings=self.roundings + 8)

    def through(self, weight: Weight, bias: Array, relus: int) -> "Terms":
        """Behind a layer whose weights have these absolute values."""
        carried = self.total + self.more if self.first else self.total + self.size / 2 + self.more
        size = (_times(weight, self.size) + np.abs(bias)) * (1 + 1e-12) + self.least
        total = (_times(weight, carried) + np.abs(bias)) * (1 + 1e-12) + self.least
        least = self.least + UNDERFLOW / gamma(1) * size.sum(axis=1, keepdims=True)
        return Terms(size, total, least, self.roundings + sum(weight.shape) + relus + 12, False)

    def chosen(self, which: Integers) -> "Terms":
        more = self.more[which] if isinstance(self.more, np.ndarray) else self.more
        return self._replace(size=self.size[which], total=self.total[which], least=self.least[which], more=more)

    @property
    def error(self) -> Array:
        return np.asarray(gamma(self.roundings) * self.total.max(axis=1, initial=0.0) + TINY)

    @property
    def ordinary(self) -> NDArray[np.bool_]:
        return np.asarray((self.size < HUGE).all(axis=1) & (self.total < HUGE).all(axis=1))


def problem(network: Network, *disjuncts: Disjunct) -> Problem:
    """Some disjuncts that vary the same inputs in as many rows."""
    return Folding(network).problem(disjuncts)


def _distinct(disjuncts: Sequence[Disjunct], key: Callable[[Disjunct], Hashable]) -> tuple[list[Disjunct], Integers]:
    """The first disjunct with each key, and for every disjunct which of these has its key."""
    found: dict[Hashable, tuple[int, Disjunct]] = {}
    numbers = [found.setdefault(key(disjunct), (len(found), disjunct))[0] for disjunct in disjuncts]
    return [disjunct for _, disjunct in found.values()], np.array(numbers, dtype=np.int64)


def _times(weight: Weight, rows: Array) -> Array:
    """The matrix times each row."""
    return np.asarray(weight @ rows.T).T


def _across(matrix: Array) -> Array:
    return matrix.T.reshape(-1)


def _flat(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0), *parts])


def _starts(lengths: Sequence[int]) -> Integers:
    """Where each part begins in the sequence of them all; the first layer is not among them."""
    return np.cumsum([0, 0, *lengths]).astype(np.int64)
