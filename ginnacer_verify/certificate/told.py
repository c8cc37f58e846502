"""Proofs as the engine for phases has told them: its lemmas, its trees of decisions and its multipliers."""

from collections.abc import Iterator, Sequence

import numpy as np

from ginnacer_check import proof
from ginnacer_check.check import Problem
from ginnacer_check.functions import RELU
from ginnacer_verify.arrays import Array
from ginnacer_verify.certificate.tree import cut_value, lemma, some_of, whole
from ginnacer_verify.engines.record import Claims, Closed, Grown, Halved, Record, Story

Place = tuple[int, int]
TRIES, NEAR = 4, 1e-4
"""At so many inputs the values that enter ReLUs are compared, relative to the largest of a layer."""


def same_relus(problem: Problem, record: Record) -> bool:
    """Whether the hidden layers of the engine's chain are the ReLU nodes of the checker, one by one."""
    network = problem.network
    nodes = [network.nodes[number] for number in network.functions]
    plain = len(network.arguments) == len(nodes) and all(node.function is RELU for node in nodes)
    if not plain or record.network is None or list(record.network.relus_per_layer) != [node.size for node in nodes]:
        return False
    for x in np.random.default_rng(0).uniform(
        problem.parts[0].lower, problem.parts[0].upper, (TRIES, network.nodes[0].size)
    ):
        theirs, ours = network.values(x), x
        for number, layer in zip(network.functions, record.network.layers, strict=False):
            entering = np.asarray(layer.weight @ ours + layer.bias)
            other = theirs[network.nodes[number].sources[0]]
            if not np.abs(entering - other).max() <= NEAR * (1e-30 + np.abs(other).max()):
                return False
            ours = np.maximum(entering, 0.0)
    return True


class Told:
    """The records of one part."""

    def __init__(self, problem: Problem, number: int) -> None:
        self.problem, self.part = problem, problem.parts[number]
        self.sizes = [problem.network.nodes[one].size for one in problem.network.functions]

    def records(self, story: Story, open_: Sequence[int], decided: tuple[Place, ...] = ()) -> Iterator[bytes]:
        """What happened on a region, parents first."""
        left = list(open_)
        if not decided and not any(isinstance(event, Claims) for event in story.events):
            yield lemma(())
        for event in story.events:
            match event:
                case Claims(layer, claims, grown):
                    yield lemma([(layer, neuron, sign, at) for neuron, sign, at, _ in claims])
                    rows = int((self.part.owner == left[0]).sum()) if len(left) == 1 else 0
                    for *_, row in claims:  # without the property's rows
                        yield from self._tree(grown, row, decided, np.zeros(rows), len(self.sizes) if rows else layer)
                case Closed(disjunct, row, tree, grown):
                    if len(left) > 1:
                        yield some_of([left.index(disjunct)])
                    left.remove(disjunct)
                    mine = np.flatnonzero(self.part.owner == disjunct)
                    yield from self._tree(grown, tree, decided, (mine == row).astype(float), len(self.sizes))
                case Halved(layer, neuron, active, inactive):
                    yield cut_value(layer, neuron, 0.0)
                    for child in (active, inactive):
                        yield from self.records(child, tuple(left), (*decided, (layer, neuron)))

    def _tree(self, grown: Grown, root: int, decided: tuple[Place, ...], shares: Array, layers: int) -> Iterator[bytes]:
        stack = [(root, decided)]
        while stack:
            node, places = stack.pop()
            if node in grown.splits:
                position, child = grown.splits[node]
                place = grown.place(position)
                yield cut_value(*place, 0.0)
                stack += [(child + 1, (*places, place)), (child, (*places, place))]
            else:
                yield self._leaf(grown, node, places, shares, layers)

    def _leaf(self, grown: Grown, node: int, decided: tuple[Place, ...], shares: Array, layers: int) -> bytes:
        levels, positions, multipliers = grown.leaves[node]
        weight_of = {grown.place(int(at)): value for at, value in zip(positions, multipliers, strict=True)}
        weights = [weight_of.get(place, 0.0) for place in decided]
        slopes, start = np.frombuffer(levels, np.uint8), 0
        found = []
        for k, size in enumerate(self.sizes[:layers]):
            full = np.zeros(size, np.uint8)
            if k < len(grown.kept):
                full[grown.kept[k]] = slopes[start : start + len(grown.kept[k])]
                start += len(grown.kept[k])
            found.append(full.tobytes())
        numbers = np.concatenate([shares, weights]).astype("<f4").tobytes()
        return proof.LEAF + whole(proof.MIXED + proof.SLOPES) + numbers + b"".join(found)
