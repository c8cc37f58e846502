"""`python -m ginnacer_verify.engine.warm`: compile everything now, so that no later run has to wait for it."""

import numpy as np

from ginnacer_verify.box import Box
from ginnacer_verify.deadline import Deadline
from ginnacer_verify.engine.native import NativeRun
from ginnacer_verify.engine.phases.run import PhaseRun
from ginnacer_verify.network import Network
from ginnacer_verify.parts import Bounded, parts
from ginnacer_verify.properties.property import Disjunct, Polytope, Property
from ginnacer_verify.refine import ginnacer
from ginnacer_verify.replay import Judge

NETWORK = Network.from_arrays(([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0]), ([[1.0, -1.0]], [0.0]))
BOX = Box(np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
PROPERTY = Property.of(Disjunct(BOX, Polytope.everything(2), Polytope.of([[1.0]], [-3.0])))


def warm() -> None:
    """Decide a tiny property with both engines; their machine code is kept on disk."""
    for run in (NativeRun, PhaseRun):
        run(Judge(NETWORK, PROPERTY), Deadline.after(600), threads=1).run()


def warm_partition() -> None:
    """Partition a tiny network; numba keeps what it compiles for that on disk."""
    (part,) = parts(PROPERTY)
    ginnacer(Bounded.of(NETWORK, PROPERTY, part).relational(PROPERTY, 0))


if __name__ == "__main__":
    warm()
    warm_partition()
