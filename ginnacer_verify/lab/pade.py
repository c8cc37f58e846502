"""The paper's motivating example, trained here when the checked-in network is not at hand.

Paper: Motivating Example; 201 samples on [-10, 10] in steps of 0.1, two hidden layers of 64 ReLUs. Adam on the mean
squared error in plain numpy, so the same seed gives the same network without torch."""

import numpy as np

from ginnacer_verify.arrays import Array
from ginnacer_verify.graph.network import Network

STEPS, RATE, WIDTH = 3000, 3e-3, 64


def rational(x: Array) -> Array:
    """Paper: the equation of y."""
    return np.asarray((-0.035 * x**5 - 0.12 * x**3 + x) / (0.021 * x**6 - 0.10 * x**4 + 0.55 * x**2 + 1))


def trained(seed: int = 0, steps: int = STEPS) -> Network:
    """A network that follows the function."""
    random = np.random.default_rng(seed)
    sizes = ((1, WIDTH), (WIDTH, WIDTH), (WIDTH, 1))
    weights = [random.normal(0, np.sqrt(2 / inputs), (inputs, outputs)) for inputs, outputs in sizes]
    parameters = [*weights, *(random.uniform(-1, 1, outputs) for _, outputs in sizes)]
    x = np.linspace(-10, 10, 201)[:, None]
    y = rational(x)
    mean, square = ([np.zeros_like(each) for each in parameters] for _ in range(2))
    for step in range(1, steps + 1):
        rate = RATE * (1 - step / (steps + 1))
        for k, slope in enumerate(_gradient(parameters, x, y)):
            mean[k] += 0.1 * (slope - mean[k])
            square[k] += 0.001 * (slope**2 - square[k])
            parameters[k] -= rate * (mean[k] / (1 - 0.9**step)) / (np.sqrt(square[k] / (1 - 0.999**step)) + 1e-8)
    return Network.from_arrays(*((w.T, b) for w, b in zip(parameters[:3], parameters[3:], strict=True)))


def _gradient(parameters: list[Array], x: Array, y: Array) -> list[Array]:
    """Of the mean squared error, by back-propagation."""
    weights, biases = parameters[:3], parameters[3:]
    values = [x]
    for number, (w, b) in enumerate(zip(weights, biases, strict=True)):
        z = values[-1] @ w + b
        values.append(z if number == 2 else np.maximum(z, 0.0))
    back = 2 * (values[-1] - y) / len(x)
    slopes: list[tuple[Array, Array]] = []
    for number in (2, 1, 0):
        slopes.append((values[number].T @ back, back.sum(axis=0)))
        back = (back @ weights[number].T) * (values[number] > 0)
    return [w for w, _ in reversed(slopes)] + [b for _, b in reversed(slopes)]
