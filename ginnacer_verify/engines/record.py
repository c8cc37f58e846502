"""What an engine tells those who want a certificate: how it cut regions. Nothing of it is believed."""

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.properties.property import Disjunct, Property


class Record:
    """By disjunct of a property, the input at which each box was halved. A box is known by the ends of its inputs."""

    def __init__(self, prop: Property | None = None) -> None:
        self.number = {id(disjunct): k for k, disjunct in enumerate(prop.disjuncts if prop else ())}
        self.halved: dict[tuple[int, bytes], int] = {}

    def halve(self, disjunct: Disjunct, low: Array, high: Array, index: int) -> None:
        self.halved[self.number[id(disjunct)], low.tobytes() + high.tobytes()] = index

    def cut_of(self, disjunct: int, low: Array, high: Array) -> int | None:
        """The input at which a box of a disjunct was halved, if it was."""
        return self.halved.get((disjunct, np.asarray(low).tobytes() + np.asarray(high).tobytes()))
