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


def warm() -> None:
    """Decide a tiny property in every way that is compiled; what is compiled for that is kept on disk."""
    network = Network.from_arrays(([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0]), ([[1.0, -1.0]], [0.0]))
    box = Box(np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
    prop = Property.of(Disjunct(box, Polytope.everything(2), Polytope.of([[1.0]], [-3.0])))
    for run in (NativeRun, PhaseRun):
        run(Judge(network, prop), Deadline.after(600), threads=1).run()
    (part,) = parts(prop)
    ginnacer(Bounded.of(network, prop, part).relational(prop, 0))


if __name__ == "__main__":
    warm()
