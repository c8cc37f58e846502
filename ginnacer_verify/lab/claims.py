"""What the paper claims, beside what was measured: one finding per claim and network."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from ginnacer_verify.lab.abstraction_time import total
from ginnacer_verify.lab.cells import Row
from ginnacer_verify.lab.experiment import groups
from ginnacer_verify.lab.subjects import TITLES

MUCH = 10.0
"""How many times tighter counts as an order of magnitude; and up to how many times looser counts as on par."""
FAR = 0.1
"""Up to this distance of the centroid `MUCH` is asked for."""
RIVALS = (
    ("prabhakar", "Interval Networks"),
    ("elboher", "Network Abstractions"),
    ("elboher-max-first", "Network Abstractions with maxima summed"),
)
Rows = Mapping[str, Sequence[Row]]


@dataclass(frozen=True)
class Finding:
    """A claim of the paper on one network, what we measured, and whether that agrees."""

    claim: str
    network: str
    measured: str
    holds: bool


def findings(rows: Rows) -> list[Finding]:
    """All that the rows of the experiments, by name, can tell."""
    found: list[Finding] = []
    for name, judge in JUDGES:
        for (network,), some in groups(rows.get(name, ()), "network").items():
            found += judge(TITLES[network], some)
    order = list(dict.fromkeys(finding.claim for finding in found))
    return sorted(found, key=lambda finding: order.index(finding.claim))


def _at(rows: Sequence[Row], method: str) -> dict[float, float]:
    return {row["distance"]: row["largest"] for row in rows if row["method"] == method}


def _tighter(network: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Paper: "several orders of magnitude tighter ... even far away from the centroid"."""
    ours = _at(rows, "ginnacer")
    for rival, name in RIVALS:
        theirs = _at(rows, rival)
        ratios = {d: theirs[d] / max(ours[d], 1e-300) for d in ours if d in theirs and d > 0}
        if ratios:
            near, last = min(ratio for d, ratio in ratios.items() if d <= FAR), max(ratios)
            text = f"at least {times(near)} tighter up to {FAR:g}, {times(ratios[last])} at {last:g}"
            yield Finding(f"GINNACER is orders of magnitude tighter than {name}", network, text, near >= MUCH)


def _exact(network: str, rows: Sequence[Row]) -> Iterator[Finding]:
    if 0.0 in (ours := _at(rows, "ginnacer")):
        yield Finding("GINNACER is exact at the centroid", network, f"margin {ours[0.0]:g}", ours[0.0] == 0)


def _on_par(network: str, rows: Sequence[Row], method: str, name: str) -> Iterator[Finding]:
    """Paper: "on par with the local FastLin algorithm, while producing better margins for smaller deviations"."""
    ours, theirs = _at(rows, "ginnacer"), _at(rows, method)
    near = [d for d in ours if d in theirs and 0 < d <= FAR]
    if near:
        worst = max(near, key=lambda d: _ratio(ours[d], theirs[d]))
        both = sorted(d for d in ours if d in theirs and d > 0)
        better = [d for d in both if _ratio(ours[d], theirs[d]) <= 1]
        text = (
            f"no wider at {len(better)} of {len(both)} distances"
            + (f", the last of them {better[-1]:g}" if better else "")
            + f"; up to {FAR:g} at worst {times(_ratio(ours[worst], theirs[worst]))} its margin, at {worst:g}"
        )
        holds = _ratio(ours[worst], theirs[worst]) <= MUCH
        yield Finding(f"GINNACER is on par with {name} near the centroid", network, text, holds)


def times(ratio: float) -> str:
    """A ratio for readers."""
    if ratio < 100:
        return f"{ratio:.2g} times"
    return f"{ratio:,.0f} times" if ratio < 1e6 else f"{ratio:.0e} times"


def _ratio(ours: float, theirs: float) -> float:
    """Of two margins; below 1e-12 they are rounding errors."""
    return max(ours, 1e-12) / max(theirs, 1e-12)


def _time(network: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Paper: "GINNACER is roughly the second fastest one, after the Interval Networks"."""
    seconds = {method: total(own) for (method,), own in groups(rows, "method").items()}
    if {"ginnacer", "prabhakar", "elboher"} <= set(seconds):
        low, high = (seconds[name] / seconds["ginnacer"] for name in ("prabhakar", "elboher"))
        text = f"Interval Networks take {times(low)}, Network Abstractions {times(high)} as long as GINNACER"
        claim = "GINNACER's abstraction time lies between Interval Networks' and Network Abstractions'"
        yield Finding(claim, network, text, low <= 1 <= high)


def _last_layers(network: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Paper: "bottleneck layers with high-dimensional input and low-dimensional output yield fewer ReLUs"."""
    layers = sorted({row["layer"] for row in rows})
    medians = [float(np.median([100 * row["share"] for row in rows if row["layer"] == layer])) for layer in layers]
    if network == TITLES["toyadmos"] and len(medians) == 9:
        others = min(medians[:4] + medians[5:])
        text = f"layer 5 (the bottleneck) keeps {medians[4]:.0f} %, the others {others:.0f} % or more"
        yield Finding(BOTTLENECK, network, text, medians[4] < others)
    elif len(layers) > 2:
        text = f"the last layer keeps {medians[-1]:.0f} %, the one before it {medians[-2]:.0f} %"
        yield Finding(BOTTLENECK, network, text, medians[-1] < medians[-2])


BOTTLENECK = "Fewer ReLUs remain in bottleneck layers, most of all the last one"


def _monotonic(network: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Paper: "a monotonic relationship", with a few exceptions from sampling."""
    by_distance = groups(rows, "distance").values()
    margins = [[row["largest"] for row in sorted(some, key=lambda row: int(row["first"]))] for some in by_distance]
    steps = [b <= a * 1.05 + 1e-12 for values in margins for a, b in pairwise(values)]
    text = f"{sum(steps)} of {len(steps)} steps to fewer abstract layers do not widen the margin"
    yield Finding("Abstracting fewer layers gives smaller margins", network, text, sum(steps) >= 0.95 * len(steps))


def _slower(network: str, rows: Sequence[Row]) -> Iterator[Finding]:
    median = {row["method"]: row["median"] for row in rows}
    rivals = [name for name in median if name != "original"]
    if "original" in median and rivals:
        ratios = {name: median[name] / median["original"] for name in rivals}
        slowest = max(ratios, key=lambda name: ratios[name])
        text = f"{min(ratios.values()):.2g} to {ratios[slowest]:.2g} times the original; slowest: {slowest}"
        yield Finding(
            "Abstractions take longer for an input than the original", network, text, min(ratios.values()) > 1
        )
        claim = "Network Abstractions take longest for an input"
        yield Finding(claim, network, text, slowest == "elboher")


Judge = Callable[[str, Sequence[Row]], Iterator[Finding]]
JUDGES: tuple[tuple[str, Judge], ...] = (
    ("margins", _tighter),
    ("margins", _exact),
    ("margins", partial(_on_par, method="fastlin-layerwise", name="FastLin on intervals, layer by layer,")),
    ("margins", partial(_on_par, method="fastlin-interval", name="FastLin on intervals, substituted,")),
    ("margins", partial(_on_par, method="fastlin", name="FastLin as its authors define it")),
    ("abstraction-time", _time),
    ("inference-time", _slower),
    ("compression", _last_layers),
    ("tradeoff", _monotonic),
)
