"""Local methods by name: linear bounds on a box, ours and those of the library auto_LiRPA.

Of FastLin there are three readings (docs/results/paper.md): as its authors define it, with ranges from intervals, and
layer by layer without any substitution."""

from collections.abc import Callable
from functools import partial

from ginnacer_verify.box import Box
from ginnacer_verify.graph.network import Network
from ginnacer_verify.rivals.fastlin import crown, fastlin, fastlin_with_intervals
from ginnacer_verify.rivals.layerwise import layerwise_lines
from ginnacer_verify.rivals.lirpa import lirpa
from ginnacer_verify.rivals.rival import Rival

LOCAL: dict[str, Callable[[Network, Box], Rival]] = {
    "fastlin": fastlin,
    "fastlin-interval": fastlin_with_intervals,
    "fastlin-layerwise": layerwise_lines,
    "crown": crown,
    "lirpa-fastlin": partial(lirpa, method="FastLin"),
    "lirpa-crown": partial(lirpa, method="CROWN"),
    "alpha-crown": partial(lirpa, method="alpha-CROWN"),
}
