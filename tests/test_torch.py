"""torch modules become the same network, with an ONNX model to replay on."""

from typing import Any

import numpy as np
import pytest

from ginnacer_verify.errors import InputError, NetworkError
from ginnacer_verify.loading.oracle import Runtime

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
from torch import nn  # noqa: E402 (torch is optional)

from ginnacer_verify.loading import torch as torch_module  # noqa: E402 (as above)
from ginnacer_verify.loading.torch import from_torch  # noqa: E402 (as above)

MODULES = {
    "fc": (
        nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 3, bias=False)),
        (1, 2, 3),
    ),
    "nested": (
        nn.Sequential(nn.Sequential(nn.Linear(4, 5), nn.LeakyReLU(0.2)), nn.Hardtanh(-1, 2), nn.Identity()),
        (1, 4),
    ),
    "conv": (
        nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU6(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, padding="same", groups=2),
            nn.ReLU(),
            nn.AvgPool2d(2, padding=1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 2),
        ),
        (1, 2, 8, 8),
    ),
    "conv 1-D": (
        nn.Sequential(nn.Unflatten(1, (2, 6)), nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.MaxPool1d(2)),
        (1, 12),
    ),
    "same": (nn.Sequential(nn.Conv2d(2, 3, (4, 3), padding="same", dilation=(1, 2)), nn.ReLU()), (1, 2, 7, 8)),
    "large epsilon": (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, eps=0.5)), (1, 3)),
    "pools": (
        nn.Sequential(
            nn.MaxPool1d(2, stride=1, dilation=2), nn.MaxPool1d(2, ceil_mode=True), nn.AvgPool1d(2, stride=1)
        ),
        (1, 2, 9),
    ),
    "double": (nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double(), (1, 3)),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("name", MODULES)
def test_modules_are_read(name: str) -> None:
    torch.manual_seed(0)
    module, shape = MODULES[name]
    network = from_torch(module.train(), shape)
    assert module.training  # the user's module is left as it was
    x = np.random.default_rng(0).normal(size=network.inputs).astype(network.dtype)
    with torch.no_grad():
        theirs = module.eval()(torch.as_tensor(x).reshape(shape)).numpy().reshape(-1)
    np.testing.assert_allclose(network(x), theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(Runtime(network.model)(x), theirs, rtol=1e-4, atol=1e-5)
    assert network.dtype == (np.float64 if name == "double" else np.float32)


def test_a_fault_of_the_exporter_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    other = torch_module._traced(nn.Linear(2, 2), torch.zeros(1, 2))
    monkeypatch.setattr(torch_module, "_traced", lambda module, x: other)
    monkeypatch.setattr(torch_module, "_exported", lambda module, x: other)
    with pytest.raises(NetworkError, match="differs from the module"):
        from_torch(nn.Sequential(nn.Linear(2, 2)), (1, 2))


class Residual(nn.Module):  # type: ignore[misc]
    """What people write: a class with a forward of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 1), nn.Linear(32, 3)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.first(x))
        y = y + torch.sigmoid(self.second(y))
        return self.last(y.reshape(-1, 32))


class Undecided(nn.Module):  # type: ignore[misc]
    """Its branch depends on values: no single graph is this module."""

    def forward(self, x: Any) -> Any:
        return x if x.sum() > -100 else -x


Twice = type("Twice", (nn.Linear,), {"forward": lambda self, x: 2 * nn.Linear.forward(self, x)})
"""A layer of another name, whatever it is derived from, may do anything."""


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (Residual(), (1, 1, 4, 4)),
        (nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Tanh(), nn.Softmax(dim=1)), (1, 4)),
        (Twice(4, 4), (1, 4)),
        (nn.AdaptiveAvgPool1d(2), (1, 1, 4)),
        (nn.Sequential(nn.ConvTranspose2d(1, 2, 3), nn.GELU(), nn.Flatten(2)), (1, 1, 4, 4)),
    ],
)
def test_classes_with_a_forward_are_read(module: nn.Module, shape: tuple[int, ...]) -> None:
    network = from_torch(module, shape)
    x = np.random.default_rng(0).normal(size=network.inputs).astype("f4")
    with torch.no_grad():
        theirs = module(torch.as_tensor(x).reshape(shape)).numpy().reshape(-1)
    np.testing.assert_allclose(network(x), theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(Runtime(network.model)(x), theirs, rtol=1e-4, atol=1e-5)


def test_a_module_that_branches_on_values_is_refused() -> None:
    with pytest.raises(NetworkError, match="torch cannot export this module"):
        from_torch(Undecided(), (1, 4))


def test_a_shape_that_the_module_does_not_take() -> None:
    with pytest.raises(InputError, match="cannot be run on inputs of shape"):
        from_torch(nn.Linear(4, 4), (1, 5))


def test_a_tuple_is_no_output() -> None:
    with pytest.raises(InputError, match="gives a tuple"):
        from_torch(nn.LSTM(4, 4), (1, 4))
