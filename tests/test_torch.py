"""torch modules become the same network, with an ONNX model to replay on."""

import numpy as np
import pytest

from ginnacer_verify.errors import NetworkError, UnsupportedOperator
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


def test_a_fault_in_the_writer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_module._METHODS, "LeakyReLU", "relu")
    with pytest.raises(NetworkError, match="differs from the module"):
        from_torch(nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(0.5)), (1, 2))


Twice = type("Twice", (nn.Linear,), {"forward": lambda self, x: 2 * nn.Linear.forward(self, x)})
"""A layer of another name, whatever it is derived from, may do anything."""


@pytest.mark.parametrize(
    "layer",
    [
        nn.Sigmoid(),
        Twice(4, 4),
        nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular"),
        nn.Flatten(2),
        nn.AdaptiveAvgPool1d(2),
        nn.BatchNorm1d(4, track_running_stats=False),
        nn.AvgPool2d(2, divisor_override=3),
    ],
)
def test_other_layers_are_refused(layer: nn.Module) -> None:
    with pytest.raises(UnsupportedOperator, match=type(layer).__name__):
        from_torch(nn.Sequential(layer), (1, 4))
