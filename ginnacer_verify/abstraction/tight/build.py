"""Network + trace + tiers -> the kept ReLUs of every layer and the forms of the outputs, layer by layer.

A *tier* is one choice of bounds for all neurons; its forms bound the outputs by themselves, and the bounds of all tiers
are intersected. Tiers share the variables v, and a ReLU that two of them choose is kept once: in layer 1 they see the
same rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array, hstack

from ginnacer_verify.abstraction.icf import Mask, scaled
from ginnacer_verify.abstraction.tight.forms import Forms, Step, substitute
from ginnacer_verify.abstraction.tight.kept import Choice, Integers, Kept, Unit
from ginnacer_verify.arrays import Array, Weight, compact, read_only
from ginnacer_verify.bounds.chain import absolute
from ginnacer_verify.graph.network import Network
from ginnacer_verify.rounding import TINY


@dataclass(frozen=True, eq=False)
class Rows:
    """The kept ReLUs of one layer: relu(potential + weight @ v)."""

    weight: Array
    potential: Array


@dataclass
class _Tier:
    """A tier in the making: what was chosen so far, and samples of v at which it is to be tight."""

    choose: Choice
    samples: Array
    steps: list[Step] = field(default_factory=list)
    size: Array = field(default_factory=lambda: np.empty(0))
    reach: Array = field(default_factory=lambda: np.empty(0))


@np.errstate(all="ignore")
def build(
    network: Network,
    trace: Sequence[Array],
    relus: Sequence[int],
    tiers: Sequence[tuple[Choice, Array]],
    one_sided: bool = False,
) -> tuple[tuple[Rows, ...], tuple[Forms, ...]]:
    """At most `relus` kept in each layer, by the first tier as many as it wants. A tier comes with deviations of the
    input, one sample per row, at which it is to be tight. A form that overflows ends as an infinite bound."""
    making = [_Tier(choose, np.hstack([np.maximum(d, 0.0), np.maximum(-d, 0.0)])) for choose, d in tiers]
    layers = []
    for number, (y, most, influence) in enumerate(zip(trace, relus, _influence(network), strict=True)):
        active = y >= 0
        chosen = _choose(network, number, np.where(active, -y, y), active, most, making, influence)
        rows, places = _together([kept for _, kept in chosen], merge=not number)
        for tier, (forms, kept), place in zip(making, chosen, places, strict=True):
            upper = _beside(kept.upper, kept.upper_relus, place, len(rows.potential))
            lower = _beside(kept.lower, kept.lower_relus, place, len(rows.potential))
            lower = csr_array(upper.shape) if one_sided else lower
            tier.steps.append(Step(network.layers[number], active, upper, lower, tier.size, tier.reach))
            tier.size, tier.reach = forms.sizes()
            values = np.maximum(rows.potential + tier.samples @ rows.weight.T, 0.0)
            tier.samples = np.hstack([tier.samples, values])
        layers.append(rows)
    last = network.layers[-1].weight
    return tuple(layers), tuple(substitute(last, tier.steps, network.inputs) for tier in making)


def _choose(
    network: Network, number: int, potential: Array, active: Mask, most: int, tiers: list[_Tier], influence: Array
) -> list[tuple[Forms, Kept]]:
    """The tiers choose in turn, each from what is left; in layer 1 they see the same forms and share own ReLUs."""
    layer = network.layers[number]
    signed = scaled(layer.weight, np.where(active, -1.0, 1.0), np.ones(layer.inputs))
    chosen: list[tuple[Forms, Kept]] = []
    given, left = np.zeros(len(potential), dtype=np.bool_), most
    for tier in tiers:
        forms = chosen[0][0] if chosen and not number else substitute(signed, tier.steps, network.inputs)
        kept = tier.choose(Unit(potential, forms, tier.samples, influence, left, given))
        left -= len(kept.potential) - int(given[kept.own].sum())
        given[kept.own] = not number
        chosen.append((forms, kept))
    return chosen


def _together(kept: Sequence[Kept], *, merge: bool) -> tuple[Rows, list[Integers]]:
    """The ReLUs of all tiers, and where those of each went; own ones of the same neuron are the same with `merge`."""
    weight: list[Array] = []
    potential: list[float] = []
    found: dict[tuple[int, int], int] = {}
    places: list[Integers] = []
    for number, one in enumerate(kept):
        place = []
        for index, (row, at_centroid) in enumerate(zip(one.weight, one.potential, strict=True)):
            neuron = int(one.own[index]) if index < len(one.own) else -1 - number
            key = (neuron, 0 if merge else number)
            if key not in found:
                found[key] = len(weight)
                weight.append(row)
                potential.append(at_centroid)
            place.append(found[key])
        places.append(np.array(place, dtype=np.intp))
    return Rows(read_only(np.reshape(weight, (-1, kept[0].upper.shape[1]))), read_only(potential)), places


def _beside(bound: Weight, own: Array, place: Integers, relus: int) -> Weight:
    """Coefficients of v, and beside them those of a tier's ReLUs at their places among all."""
    moved = np.zeros((len(own), relus))
    moved[:, place] = own
    if isinstance(bound, np.ndarray):
        return compact(np.hstack([bound, moved]))
    return compact(hstack([bound, csr_array(moved)], format="csr"))


def _influence(network: Network) -> list[Array]:
    """How much an excess of each neuron can count for the outputs, relative to others of its layer."""
    found, weight = [], np.ones(network.outputs)
    for layer in reversed(network.layers[1:]):
        weight = np.asarray(weight @ absolute(layer.weight))
        weight = weight / max(float(weight.max(initial=0.0)), TINY)
        found.append(weight)
    return found[::-1]
