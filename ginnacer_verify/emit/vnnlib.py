"""The property of an emitted abstraction: `unsat` there implies `unsat` on the original network."""

from dataclasses import replace

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction
from ginnacer_verify.abstraction.tight.tight import TightAbstraction
from ginnacer_verify.errors import AbstractionError
from ginnacer_verify.properties.property import Disjunct, Polytope, Property, Variable


def abstract_property(prop: Property, abstraction: Abstraction | TightAbstraction) -> Property:
    """The property over the outputs of `abstraction_model`: the lower bounds, then the upper ones; of `tight_model`: so
    for each tier, and all of them have to allow a counterexample.

    If some y between the bounds satisfies `a y <= b`, so does the least value `a+ lower + a- upper` of a y there."""
    if prop.inputs != abstraction.network.inputs or prop.outputs != abstraction.network.outputs:
        raise AbstractionError(
            f"a property over {prop.inputs} inputs and {prop.outputs} outputs does not fit a network with "
            f"{abstraction.network.inputs} and {abstraction.network.outputs}"
        )
    for box in prop.boxes:
        if not box.is_empty and not (box.lower in abstraction.domain and box.upper in abstraction.domain):
            raise AbstractionError(
                "the property goes beyond the domain of the abstraction: abstract with inputs='pre-layer', 'centred', "
                "or with a box that holds the property's"
            )
    tiers = len(abstraction.tiers) if isinstance(abstraction, TightAbstraction) else 1
    disjuncts = tuple(replace(disjunct, outputs=_over_bounds(disjunct, tiers)) for disjunct in prop.disjuncts)
    return Property(disjuncts, prop.x, Variable("Y", (2 * prop.outputs * tiers,)))


def _over_bounds(disjunct: Disjunct, tiers: int) -> Polytope:
    matrix, outputs = disjunct.outputs.matrix, disjunct.outputs.matrix.shape[1]
    both = np.hstack([np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)])
    exact = {
        i + tier * len(matrix): (
            {j + (2 * tier + (value <= 0)) * outputs: value for j, value in coefficients.items()},
            offset,
        )
        for i, (coefficients, offset) in disjunct.outputs.exact.items()
        for tier in range(tiers)
    }
    old = disjunct.outputs
    return Polytope(np.kron(np.eye(tiers), both), np.tile(old.offset, tiers), np.tile(old.strict, tiers), exact)
