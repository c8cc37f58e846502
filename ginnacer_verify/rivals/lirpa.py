"""FastLin, CROWN and alpha-CROWN as the library auto_LiRPA computes them, behind the interface of the other rivals.

The library does not account for the rounding of its own float64 sums, so these bounds hold up to rounding errors only;
the verifier never proves anything by them alone (see `adapters.auto_lirpa`)."""

import numpy as np

from ginnacer_verify.adapters.auto_lirpa import lirpa_planes
from ginnacer_verify.bounds.chain import Form
from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Network
from ginnacer_verify.rivals.fastlin import LinearAbstraction


def lirpa(network: Network, box: Box, method: str = "FastLin") -> LinearAbstraction:
    """The library's planes on a box; `method` is FastLin, CROWN or alpha-CROWN."""
    below, below_constant, above, above_constant = lirpa_planes(network.layers, box, method)
    nothing = np.zeros(network.outputs)
    return LinearAbstraction(
        network,
        box,
        Form(below, below_constant, nothing),
        Form(-above, -above_constant, nothing),
        rebuild=lambda same, half: lirpa(same, half, method),
    )
