"""The rows of disjuncts that share a box, each of them once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.linear import Indices
from ginnacer_verify.properties.property import Polytope
from ginnacer_verify.rounding import up


@dataclass(frozen=True, eq=False)
class Rows:
    """`matrix @ y <= offset`: disjunct k is unsafe where all of its rows, `members[k]`, are.

    `slop` is how far each coefficient can be from the exact one."""

    matrix: Array
    offset: Array
    slop: Array
    members: tuple[Indices, ...]

    @classmethod
    def of(cls, unsafe: Sequence[Polytope]) -> "Rows":
        places: dict[bytes, int] = {}
        found: list[tuple[Array, float, Array]] = []
        members = []
        for polytope in unsafe:
            own, slop = [], polytope.slop if polytope.exact else np.zeros(polytope.matrix.shape)
            for row, offset, off in zip(polytope.matrix, polytope.offset, slop, strict=True):
                key = row.tobytes() + offset.tobytes() + off.tobytes()
                if places.setdefault(key, len(found)) == len(found):
                    found.append((row, float(offset), off))
                own.append(places[key])
            members.append(np.array(own, dtype=np.intp))
        outputs = unsafe[0].dimension
        matrix = np.array([row for row, _, _ in found]).reshape(-1, outputs)
        slop = np.array([off for _, _, off in found]).reshape(-1, outputs)
        return cls(matrix, np.array([offset for _, offset, _ in found]), slop, tuple(members))

    def __len__(self) -> int:
        return len(self.offset)

    def charged(self, largest: Array) -> Array:
        """The offsets, raised by what exact coefficients can differ by where outputs are at most so large."""
        if not self.slop.any():
            return self.offset
        raised = up(self.offset + up(self.slop @ largest, 2 + len(largest)))
        return np.where(np.isnan(raised), np.inf, raised)
