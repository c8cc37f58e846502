"""Proofs that an emitted abstraction contains its network: `ginnacer-check --network f=NET --network g=ABSTRACT ...`.

What is proved is a property of two networks, in VNN-LIB 2.0. The proof has the obligations of each layer: what leaves
it lies between the two bounds of the model. They are claims about values beside each other, checked in fractions, as
the domain may be all inputs: a shared ReLU is not below what it stands for where its weights are not, neuron by neuron.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

from ginnacer_check import proof
from ginnacer_check.check import Claim, Closer, Context, Leaf, Problem, Region
from ginnacer_check.network import Unreadable
from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.certificate.tree import cut_value, leaf_bytes, lemma, some_of, whole, write
from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.emit.abstraction import Emitted, abstraction_graph
from ginnacer_verify.emit.pair import abstract_rows
from ginnacer_verify.engines.verdict import Certified
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.graph.graph import Apply
from ginnacer_verify.graph.onnx import graph_model
from ginnacer_verify.properties.property import Polytope, Property
from ginnacer_verify.version import __version__

Place = tuple[int, int]


def containment(domain: Box, outputs: int, rows: Sequence[Polytope] = ()) -> str:
    """Unsafe: an output of f that is not between the bounds that g gives it; or rows of outputs below those of g."""
    n, count = domain.inputs, sum(map(len, rows)) if rows else 2 * outputs
    lines = ["; g contains f: unsat means that its outputs are bounds of those of f.", "(vnnlib-version <2.0>)"]
    lines.append(f"(declare-network f (declare-input X real [{n}]) (declare-output Y real [{outputs}]))")
    lines.append(f"(declare-network g (declare-input V real [{n}]) (declare-output W real [{count}]))")
    lines += [f"(assert (== V[{i}] X[{i}]))" for i in range(n)]
    for sign, ends in ((">=", domain.lower), ("<=", domain.upper)):
        lines += [f"(assert ({sign} X[{i}] {_number(end)}))" for i, end in enumerate(ends) if np.isfinite(end)]
    unsafe = [f"({sign} W[{start + i}] Y[{i}])" for sign, start in ((">", 0), ("<", outputs)) for i in range(outputs)]
    if rows:
        given = [row for polytope in rows for row in map(polytope.row, range(len(polytope)))]
        texts = [" ".join(f"(* {_number(c)} Y[{k}])" for k, c in some.items()) for some, _ in given]
        offsets = [_number(-offset) for _, offset in given]
        unsafe = [
            f"(> W[{j}] (+ {text} {offset}))" for j, (text, offset) in enumerate(zip(texts, offsets, strict=True))
        ]
    return "\n".join([*lines, "(assert (or", *unsafe, "))", ""])


def _number(value: float | Fraction) -> str:
    """In decimal, to the last digit, with a point."""
    exact = Fraction(value)
    with localcontext(prec=2000):
        number = Decimal(exact.numerator) / Decimal(exact.denominator)
    if Fraction(number) != exact:
        raise AbstractionError("a number of the property has no end in decimal")
    text = format(number.normalize() + 0 if number == 0 else number, "f")
    return text if "." in text else f"{text}.0"


def contain(models: Mapping[str, bytes], text: str, emitted: Emitted, path: Path, deadline: Deadline) -> Certified:
    """Write a proof for the network f, the emitted abstraction g and what `containment` says of them."""
    try:
        problem = Problem(models, text.encode())
        layers = Layers(problem, emitted, deadline)
        records = [*layers.records(), proof.END]
    except Unreadable as refusal:
        return Certified(None, f"no certificate: {refusal}")
    except NoProof as refusal:
        return Certified(None, f"no certificate: {refusal}")
    said = {"exact": True, "tensors": layers.tensors}
    write(path, "unsat", problem.hashes, records[:-1], said=said, remarks={"made by": f"ginnacer-verify {__version__}"})
    return Certified(path)


def certify_abstraction(
    abstraction: Abstraction, prop: Property | None, network: bytes, model: bytes, folder: Path
) -> Certified:
    """Write `containment.gcert` and `containment.vnnlib` for an abstraction that was emitted as this ONNX model."""
    rows = None if prop is None else abstract_rows(abstraction, prop)
    emitted = abstraction_graph(abstraction, abstraction.network.dtype, rows)
    if graph_model(emitted.graph) != model:
        return Certified(None, "no certificate: abstract.onnx is another abstraction than this one")
    polytopes = [disjunct.outputs for disjunct in prop.disjuncts] if prop else []
    text = containment(abstraction.domain, abstraction.network.outputs, polytopes)
    (folder / "containment.vnnlib").write_text(text, encoding="utf-8")
    return contain({"f": network, "g": model}, text, emitted, folder / "containment.gcert", FOREVER)


class NoProof(Exception):
    """An obligation that is not found to follow, or no time for it."""


@dataclass(frozen=True)
class Obligation:
    """A claim, and the values that may be decided to show it: none, or a ReLU's argument in f or g."""

    claim: Claim
    record: bytes
    places: tuple[Place | None, ...]


class Layers:
    """The obligations of all layers, and what they are shown with."""

    def __init__(self, problem: Problem, emitted: Emitted, deadline: Deadline) -> None:
        self.problem, self.emitted, self.deadline = problem, emitted, deadline
        self.network, self.closer = problem.network, Closer(problem, strict=True)
        names = {number: name for name, number in problem.network.named.items()}
        self.of_f = [n for n in self.network.functions if names.get(n, "").startswith("f:")]
        self.of_g = [n for n in self.network.functions if names.get(n, "").startswith("g:")]
        self.leaving = [self.network.named.get(f"g:{_tensor(emitted, number)}") for number in emitted.leaving]
        if None in self.leaving or len(self.of_f) != len(self.leaving) or len(self.of_g) != len(emitted.served):
            raise NoProof("the layers of the network are not those of its abstraction")
        self.tensors = [names[number] for number in (*self.of_f, *self.leaving) if number is not None]

    def records(self) -> Iterator[bytes]:
        """The proof, parents first."""
        part = self.problem.parts[0]
        region = Region(0, part.lower, part.upper, part.disjuncts)
        yield lemma(())
        region = replace(region, context=Context(1, region, (), 1))
        for layer in range(len(self.leaving)):
            some = list(self._obligations(layer))
            yield proof.COMPARED + whole(len(some)) + b"".join(one.record for one in some)
            yield from self._shown(region, some, layer)
            claims = tuple(one.claim for one in some)
            region = replace(region, context=Context(layer + 2, region, claims, layer + 2))
        while len(region.open) > 1:
            yield some_of([0])
            yield self._last(replace(region, open=region.open[:1]))
            region = replace(region, open=region.open[1:])
        yield self._last(region)

    def _obligations(self, layer: int) -> Iterator[Obligation]:
        f, g = self.of_f[layer], self.leaving[layer]
        assert g is not None
        size, parted = self.network.nodes[f].size, self.emitted.parted[layer]
        (entering,) = self.network.nodes[f].sources
        own: dict[int, list[Place]] = {}
        for number, served in zip(self.of_g, self.emitted.served.values(), strict=True):
            for k, (of, neurons) in enumerate(served):
                if of == layer and len(neurons) == 1:
                    own.setdefault(neurons[0], []).append((self.network.nodes[number].sources[0], k))
        sides = [(i, i, 1) for i in range(size)]  # above, then below
        sides += [(i, size + i if parted else i, -1) for i in range(size)]
        for i, k, sign in sides:
            pair = ((g, k), (f, i)) if sign > 0 else ((f, i), (g, k))
            claim = Claim(((*pair[0], 1), (*pair[1], -1)))
            said = b"".join(whole(self.tensors.index(self._name(node))) + whole(at) for node, at in pair)
            first: tuple[Place | None, ...] = ((entering, i), None) if sign > 0 else (None, (entering, i))
            yield Obligation(claim, said, (*first, *own.get(i, ())))

    def _name(self, node: int) -> str:
        return next(name for name in self.tensors if self.network.named[name] == node)

    def _shown(self, region: Region, some: Sequence[Obligation], layer: int) -> Iterator[bytes]:
        """The tree of each claim: a value is decided if need be, and lower lines of ReLUs are 0 or the value itself."""
        found: dict[int, bytes] = {}
        for turn in range(max(len(one.places) for one in some)):
            left = [i for i, one in enumerate(some) if i not in found and turn < len(one.places)]
            trees = [self._sides(region, some[i], some[i].places[turn]) for i in left]
            leaves = [leaf for _, sides in trees for leaf in sides]
            closed = dict(zip(leaves, self._closed(leaves, layer), strict=True)) if leaves else {}
            for i, (record, sides) in zip(left, trees, strict=True):
                done = [closed[leaf] for leaf in sides]
                if all(done):
                    found[i] = record + b"".join(leaf_bytes(leaf) for leaf in done if leaf is not None)
        if len(found) < len(some):
            raise NoProof(
                f"{len(some) - len(found)} bounds of layer {layer + 1} were not shown to follow; abstract with "
                "--inputs nonnegative, shift or nearest, as a pre-layer takes more than one line for each ReLU"
            )
        yield from (found[i] for i in range(len(some)))

    def _sides(self, region: Region, one: Obligation, place: Place | None) -> tuple[bytes, list[Leaf]]:
        region = replace(region, claim=one.claim)
        if place is None:
            return b"", [Leaf(region)]
        argument = self.network.arguments.index(place[0])
        sides = [replace(region, decisions=((*place, sign, 0.0),)) for sign in (1, -1)]
        return cut_value(argument, place[1], 0.0), [Leaf(side) for side in sides]

    def _closed(self, leaves: Sequence[Leaf], layer: int) -> list[Leaf | None]:
        """Each leaf with slopes that close it, or None."""
        done: list[Leaf | None] = [None] * len(leaves)
        for above, own in product((1.0, 0.0), repeat=2):
            left = [i for i, leaf in enumerate(done) if leaf is None]
            for kind in {leaves[i].kind for i in left}:
                if self.deadline.passed:
                    raise NoProof("the time limit was reached")
                mine = [i for i in left if leaves[i].kind == kind]
                tried = [replace(leaves[i], slopes=self._slopes(leaves[i], above, own, layer)) for i in mine]
                for i, leaf, fine in zip(mine, tried, self.closer.close(tried, exact=True)[0], strict=True):
                    done[i] = leaf if fine else None
        return done

    def _slopes(self, leaf: Leaf, above: float, own: float, layer: int) -> tuple[Array, ...]:
        claim = leaf.region.claim
        last = max(node for node, *_ in claim.terms) if claim else len(self.network.nodes)
        before = self.leaving[layer - 1] if layer else 0
        slopes = {n: above if before is not None and n > before else 0.0 for n in self.of_g} | {self.of_f[layer]: own}
        return tuple(
            np.full(self.network.nodes[n].size, slopes.get(n, 0.0)) for n in self.network.functions if n <= last
        )

    def _last(self, region: Region) -> bytes:
        """A bound of one output, by those of the last layer."""
        leaf = Leaf(region, shares=np.ones(1), slopes=tuple(
            np.zeros(self.network.nodes[n].size) for n in self.network.functions
        ))  # fmt: skip
        if not self.closer.close([leaf], exact=True)[0].all():
            raise NoProof("the bounds of an output were not shown")
        return leaf_bytes(leaf)


def _tensor(emitted: Emitted, number: int) -> str:
    """The name in the ONNX file."""
    return f"{'relu' if isinstance(emitted.graph.nodes[number], Apply) else 'affine'}{number}"
