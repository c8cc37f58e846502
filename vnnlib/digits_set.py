"""Classifiers of the 8x8 digits that ship with scikit-learn, and their robustness around test images.

Pixels are scaled from 0..16 to [0, 1]. Every fourth image is a test image, the others are for training.
"""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import torch
from networks import be_deterministic, evaluate, fully_connected, train, write_onnx
from numpy.typing import NDArray
from texts import Case, Instance
from torch import nn

# The network, the place of the image among the test images, and the radius in the L-infinity norm.
AROUND: tuple[tuple[str, int, str], ...] = (
    ("digits_32x2.onnx", 3, "0.02"),
    ("digits_32x2.onnx", 3, "0.04"),
    ("digits_32x2.onnx", 151, "0.04"),
    ("digits_32x2.onnx", 262, "0.06"),
    ("digits_32x2.onnx", 299, "0.08"),
    ("digits_32x2.onnx", 77, "0.08"),
    ("digits_32x2.onnx", 188, "0.1"),
    ("digits_32x2.onnx", 447, "0.15"),
    ("digits_48x4.onnx", 3, "0.02"),
    ("digits_48x4.onnx", 3, "0.04"),
    ("digits_48x4.onnx", 3, "0.05"),
    ("digits_48x4.onnx", 40, "0.04"),
    ("digits_48x4.onnx", 77, "0.05"),
    ("digits_48x4.onnx", 336, "0.06"),
    ("digits_48x4.onnx", 40, "0.1"),
    ("digits_conv.onnx", 114, "0.02"),
    ("digits_conv.onnx", 151, "0.04"),
    ("digits_conv.onnx", 188, "0.06"),
    ("digits_conv.onnx", 262, "0.08"),
    ("digits_conv.onnx", 225, "0.1"),
    ("digits_conv.onnx", 188, "0.1"),
    ("digits_conv.onnx", 447, "0.15"),
)


def images(*, test: bool) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Flat images in [0, 1] and their digits."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    chosen = (np.arange(len(digits)) % 4 == 0) == test
    return (pixels[chosen] / 16).astype(np.float32), digits[chosen].astype(np.int64)


def save_images(folder: Path) -> None:
    """All test images and their digits, to certify and to try things with."""
    x, digits = images(test=True)
    np.save(folder / "images.npy", x.reshape(-1, 8, 8))
    np.save(folder / "labels.npy", digits)


def make_networks(folder: Path) -> None:
    save_images(folder)

    def convolutional() -> nn.Sequential:
        first, second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, stride=2, padding=1)
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(128, 10))

    _make(folder / "digits_32x2.onnx", lambda: fully_connected(64, 32, 32, 10), (1, 64))
    _make(folder / "digits_48x4.onnx", lambda: fully_connected(64, 48, 48, 48, 48, 10), (1, 64))
    _make(folder / "digits_conv.onnx", convolutional, (1, 1, 8, 8))


def _make(path: Path, build: Callable[[], nn.Sequential], shape: tuple[int, ...]) -> None:
    be_deterministic(seed=2)
    model = build()
    x, digits = (torch.tensor(values) for values in images(test=False))
    loss = torch.nn.functional.cross_entropy
    train(model, x.reshape(-1, *shape[1:]), digits, loss, epochs=40, batch=64, rate=3e-3)
    write_onnx(path, model, shape)


def make_instances(folder: Path) -> list[Instance]:
    return [_instance(folder, *where) for where in AROUND]


def _instance(folder: Path, network: str, place: int, radius: str) -> Instance:
    """Unsafe: some other digit scores at least as high as the right one."""
    x, digits = images(test=True)
    image, digit = x[place], int(digits[place])
    if int(evaluate(folder / network, image).argmax()) != digit:
        raise ValueError(f"{network} does not recognise test image {place}: choose another one")
    box = tuple(_around(Decimal(float(pixel)), Decimal(radius)) for pixel in image)
    cases = tuple(Case(box, ((">=", other, digit),)) for other in range(10) if other != digit)
    meaning = f"Test image {place}, a {digit}, keeps its digit if no pixel changes by more than {radius}."
    return Instance(network, f"image_{place:03}_{radius}", meaning, cases, outputs=10)


def _around(pixel: Decimal, radius: Decimal) -> tuple[Decimal, Decimal]:
    """Exact: pixels are multiples of 1/16."""
    return max(pixel - radius, Decimal(0)), min(pixel + radius, Decimal(1))
