"""The abstractions that are compared, by name; and the one colour, marker and label of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.abstraction.inputs import Mode
from ginnacer_verify.abstraction.partitioning import strategies
from ginnacer_verify.abstraction.tight.tight import tight_abstraction
from ginnacer_verify.lab.subjects import Subject
from ginnacer_verify.rivals.elboher import network_abstraction
from ginnacer_verify.rivals.fastlin import fastlin
from ginnacer_verify.rivals.local import LOCAL as LOCAL_METHODS
from ginnacer_verify.rivals.prabhakar import interval_network
from ginnacer_verify.rivals.rival import Progress, Rival


@dataclass(frozen=True)
class Style:
    """How a method is drawn. Colours: Okabe and Ito's, which all readers can tell apart; markers for grey prints.

    Another reading of a method has a shade of its colour and a broken line."""

    label: str
    colour: str
    marker: str
    line: str = "-"


STYLES = {
    "original": Style("original network", "#000000", "x"),
    "ginnacer": Style("GINNACER (paper)", "#0072B2", "o"),
    "ginnacer-ours": Style("GINNACER, our subsets and clip", "#56B4E9", "D"),
    "tight": Style("GINNACER, tight form", "#003B5C", "h"),
    "prabhakar": Style("Interval Networks (Prabhakar 2019)", "#D55E00", "s"),
    "elboher": Style("Network Abstractions (Elboher 2020)", "#E69F00", "^"),
    "elboher-max-first": Style("Network Abstractions, maxima summed", "#A67300", ">", "--"),
    "fastlin": Style("FastLin (Weng 2018)", "#009E73", "v"),
    "fastlin-interval": Style("FastLin on intervals", "#5FB49C", "<", "--"),
    "fastlin-layerwise": Style("FastLin on intervals, layer by layer", "#00563F", "1", ":"),
    "crown": Style("CROWN (Zhang 2018)", "#CC79A7", "P"),
    "alpha-crown": Style("alpha-CROWN (auto_LiRPA)", "#7A5195", "*"),
}
GLOBAL = ("ginnacer", "ginnacer-ours", "tight", "prabhakar", "elboher", "elboher-max-first")
LOCAL = ("fastlin", "fastlin-interval", "fastlin-layerwise", "crown", "alpha-crown")
OF_THE_PAPER = ("ginnacer", "prabhakar", "elboher", "fastlin")


def ginnacer(subject: Subject, progress: Progress | None = None) -> Abstraction:
    """Exactly the paper's: first fit, and the pre-layer where inputs can be negative."""
    return abstract(subject.network, subject.centroid, inputs=subject.inputs, progress=progress)


def ours(subject: Subject, counts: Sequence[int]) -> Abstraction:
    """As many ReLUs in each layer, in subsets chosen for their margin; centred where the paper needs a pre-layer."""
    best = [strategies.budget(count) for count in counts]
    inputs: Mode = "nonnegative" if subject.inputs == "nonnegative" else "centred"
    return abstract(subject.network, subject.centroid, strategy=best, inputs=inputs, clip=True)


def global_method(name: str, subject: Subject, *, seed: int = 0, progress: Progress | None = None) -> Rival:
    """A global abstraction with as many ReLUs per layer as GINNACER has, as the paper compares them."""
    if name == "ginnacer":
        return ginnacer(subject, progress)
    counts = ginnacer(subject).relus_per_layer
    return with_counts(name, subject, counts, seed=seed, progress=progress)


def with_counts(
    name: str, subject: Subject, counts: Sequence[int], *, seed: int = 0, progress: Progress | None = None
) -> Rival:
    """A global abstraction with a given number of ReLUs in each layer."""
    match name:
        case "ginnacer-ours":
            return ours(subject, counts)
        case "tight":
            return tight_abstraction(subject.network, subject.centroid, counts)
        case "prabhakar":
            return interval_network(subject.network, counts, seed=seed, progress=progress)
        case "elboher":
            return network_abstraction(subject.network, counts, progress=progress)
        case "elboher-max-first":
            return network_abstraction(subject.network, counts, order="max-first", progress=progress)
        case _:
            raise ValueError(f"{name!r} is no global method")


def local_method(name: str, subject: Subject, distance: float, *, progress: Progress | None = None) -> Rival:
    """A local abstraction on the cube of the given radius around the centroid."""
    box = subject.box(distance)
    if name == "fastlin":
        return fastlin(subject.network, box, progress=progress)
    return LOCAL_METHODS[name](subject.network, box)
