"""The networks that are measured, and the centroids at which they are.

pade       1-64-64-1, the paper's motivating example           centroid x = 2
digits     64-48-48-48-48-10, 8x8 digits, one of ours          the middles of its properties' boxes
advisory   5-25-25-25-25-5, collision advisories, one of ours  the same
acasxu     ACAS Xu 1_1 of VNN-COMP 2021                        the middle of property 1's box (property 2 has the same)
mnistfc    MNIST 256x6 of VNN-COMP 2021                        the 15 images of its properties
toyadmos   the ToyCar autoencoder of MLPerf Tiny               40 windows of one real clip
vww        the last 16 layers of MLPerf Tiny's Visual Wake Words, two images
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ginnacer_verify.abstraction.inputs import Mode
from ginnacer_verify.arrays import Array
from ginnacer_verify.box import Box
from ginnacer_verify.errors import InputError
from ginnacer_verify.graph.network import Network
from ginnacer_verify.lab.pade import trained
from ginnacer_verify.lab.setting import Setting
from ginnacer_verify.loading import load_chain
from ginnacer_verify.properties.vnnlib import read_vnnlib

TITLES = {
    "pade": "Padé (ours)",
    "digits": "Digits 48x4 (ours)",
    "advisory": "Advisory 25x4 (ours)",
    "acasxu": "ACAS Xu 1_1",
    "mnistfc": "MNIST-fc 256x6",
    "toyadmos": "ToyADMOS",
    "vww": "Visual Wake Words",
}
IMAGES = ("digits", "mnistfc", "vww")
"""Networks whose inputs are never negative."""
RADIUS = 0.03
"""Of the MNIST properties whose images are taken: their boxes were clipped to [0, 1]."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A network with centroids, one per row; `domain` is where inputs of this network lie for all methods alike."""

    name: str
    network: Network
    centroids: Array

    @property
    def centroid(self) -> Array:
        return np.asarray(self.centroids[0])

    @property
    def inputs(self) -> Mode:
        """How the paper's GINNACER takes them: as they are, or through its pre-layer."""
        return "nonnegative" if self.name in IMAGES else "pre-layer"

    @property
    def domain(self) -> Box:
        """Not negative for images, as GINNACER then asks for."""
        low = 0.0 if self.name in IMAGES else -np.inf
        return Box(np.full(self.network.inputs, low), np.full(self.network.inputs, np.inf))

    def box(self, distance: float) -> Box:
        """The cube around the centroid, inside of the domain."""
        return Box(*(self.domain.clip(end) for end in (self.centroid - distance, self.centroid + distance)))


@cache
def subject(name: str, setting: Setting) -> Subject:
    """The network and its centroids, read once per process."""
    return Subject(name, *READERS[name](setting))


def middles(folder: Path, pattern: str) -> Array:
    """The middle of every box of the properties, in the order of their numbers."""
    files = sorted(folder.glob(pattern), key=lambda path: (len(path.stem), path.stem))
    if not files:
        raise InputError(f"{folder} has no {pattern}; set GINNACER_BENCHMARKS or --benchmarks to the public sets")
    return np.array([box.middle for file in files for box in read_vnnlib(file).boxes])


def _file(*parts: str) -> Path:
    path = Path(*parts)
    if not path.exists():
        raise InputError(f"{path} is not there; set GINNACER_BENCHMARKS or --benchmarks to the public sets")
    return path


def _pade(setting: Setting) -> tuple[Network, Array]:
    file = Path(setting.own, "pade", "pade_64x2.onnx")
    return load_chain(file) if file.exists() else trained(), np.array([[2.0]])


def _digits(setting: Setting) -> tuple[Network, Array]:
    folder = Path(setting.own, "digits")
    return load_chain(_file(str(folder), "digits_48x4.onnx")), middles(folder, "image_*.vnnlib")


def _advisory(setting: Setting) -> tuple[Network, Array]:
    folder = Path(setting.own, "advisory")
    return load_chain(_file(str(folder), "advisory_25x4.onnx")), middles(folder, "prop_0[1-9].vnnlib")


def _acasxu(setting: Setting) -> tuple[Network, Array]:
    return acas(setting, "1_1"), middles(Path(setting.benchmarks, "acasxu"), "prop_*.vnnlib")


def acas(setting: Setting, number: str) -> Network:
    """One of the 45 networks, `1_1` to `5_9`."""
    return load_chain(_file(setting.benchmarks, "acasxu", f"ACASXU_run2a_{number}_batch_2000.onnx"))


def _mnistfc(setting: Setting) -> tuple[Network, Array]:
    network = load_chain(_file(setting.benchmarks, "mnistfc", "mnist-net_256x6.onnx"))
    boxes = [read_vnnlib(_file(setting.benchmarks, "mnistfc", f"prop_{n}_{RADIUS}.vnnlib")).boxes[0] for n in range(15)]
    images = [np.where(b.lower > 0, b.lower + RADIUS, np.maximum(b.upper - RADIUS, 0.0)) for b in boxes]
    return network, np.array(images)


def _toyadmos(setting: Setting) -> tuple[Network, Array]:
    windows = np.load(_file(setting.benchmarks, "toyadmos", "inputs.npy")).astype(np.float64)
    return load_chain(_file(setting.benchmarks, "toyadmos", "ad01.onnx")), windows


def _vww(setting: Setting) -> tuple[Network, Array]:
    images = np.load(_file(setting.benchmarks, "vww", "tail16_inputs.npy")).astype(np.float64)
    return load_chain(_file(setting.benchmarks, "vww", "vww_96_tail16.onnx")), images.reshape(len(images), -1)


READERS: dict[str, Callable[[Setting], tuple[Network, Array]]] = {
    "pade": _pade,
    "digits": _digits,
    "advisory": _advisory,
    "acasxu": _acasxu,
    "mnistfc": _mnistfc,
    "toyadmos": _toyadmos,
    "vww": _vww,
}
