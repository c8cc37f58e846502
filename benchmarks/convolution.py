"""What convolutions cost: `python benchmarks/convolution.py [PART ...]`, ratios from one run.

    rows    rows pulled back through convolutions, and images pushed through them, against one dense product of BLAS
            with as many multiplications
    cores   a region of a random residual network tightened by two threads against one

Runs take turns, and the fastest of each counts: other work on the machine slows all of them down."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from ginnacer_verify.bounds.intervals import intervals
from ginnacer_verify.deadline import FOREVER
from ginnacer_verify.engines.graphs.relaxed import Singles
from ginnacer_verify.engines.graphs.tighten import Effort, Region, Tightening
from ginnacer_verify.graph.convolution import Convolution, Geometry
from ginnacer_verify.graph.function import Relu
from ginnacer_verify.graph.graph import Builder, Graph, Tensor
from ginnacer_verify.graph.linear import Dense, Select

ROWS = 64
LAYERS = (
    (16, 3, 32, 4, 2),
    (32, 16, 16, 4, 2),
    (32, 32, 8, 3, 1),
    (64, 64, 8, 3, 1),
    (16, 16, 52, 3, 1),
)
"""Channels out and in, the width of the image, the kernel and the stride: as in networks for CIFAR-10 and TinyYOLO."""


def main() -> None:
    parts = {"rows": rows, "cores": cores}
    for name in sys.argv[1:] or parts:
        if name not in parts:
            sys.exit(f"there is no part {name!r}; there are: {', '.join(parts)}")
        with threadpool_limits(1, "blas"):
            parts[name]()


def convolution(out: int, into: int, width: int, kernel: int, stride: int, kind: type) -> Convolution:
    random = np.random.default_rng(0)
    weight = random.normal(size=(1, out, into, kernel, kernel)).astype(kind) / (into * kernel**2) ** 0.5
    count = (width + 2 - kernel) // stride + 1
    pairs = [(size, size) for size in (width, kernel, stride, 1, 1, count)]
    return Convolution(weight.astype(kind), Geometry(*pairs))


def fastest(runs: list[Callable[[], object]], times: int = 12) -> list[float]:
    """Seconds of processor time of each run, the least of several, in turn."""
    seconds = [float("inf")] * len(runs)
    for _ in range(times):
        for number, run in enumerate(runs):
            start = time.process_time()
            run()
            seconds[number] = min(seconds[number], time.process_time() - start)
    return seconds


def rows() -> None:
    """1 is the speed of BLAS."""
    for kind in (np.float32, np.float64):
        for layer in LAYERS:
            one, random = convolution(*layer, kind), np.random.default_rng(0)
            given, images = (random.normal(size=(ROWS, size)).astype(kind) for size in (one.outputs, one.inputs))
            work = ROWS * one.outputs * layer[1] * layer[3] ** 2
            square = random.normal(size=(round(work ** (1 / 3)),) * 2).astype(kind)
            dense, back, ahead = fastest(
                [
                    lambda square=square: square @ square,
                    lambda one=one, given=given: one.pull_back(given),
                    lambda one=one, images=images: one.apply(images),
                ]
            )
            print(
                f"{np.dtype(kind).name}  {layer[1]:2d} -> {layer[0]:2d} channels, {layer[2]:2d} x {layer[2]:2d}, "
                f"kernel {layer[3]}, stride {layer[4]}: {ROWS / back:8.0f} rows/s back, "
                f"{dense / back:.2f} of BLAS; {dense / ahead:.2f} of BLAS ahead"
            )


def residual_network() -> Graph:
    """Two convolutions, a block with a skip, and two dense layers, for images of 3 x 32 x 32."""
    random, builder = np.random.default_rng(0), Builder()
    value = builder.input(3 * 32 * 32)
    for layer in ((16, 3, 32, 4, 2), (32, 16, 16, 4, 2)):
        value = builder.apply(Relu(), builder.affine((value, convolution(*layer, np.float64)), bias=0.05))
    skipped = value
    value = builder.apply(Relu(), builder.affine((value, convolution(32, 32, 8, 3, 1, np.float64)), bias=0.05))
    again = (value, convolution(32, 32, 8, 3, 1, np.float64))
    value = builder.apply(Relu(), builder.affine(again, (skipped, Select.identity(32 * 64)), bias=0.05))
    for size in (100, 10):
        weight = random.normal(size=(size, builder.size(value))) / builder.size(value) ** 0.5
        value = builder.affine((value, Dense(weight)))
        value = builder.apply(Relu(), value) if size > 10 else value
    return builder.graph(value, [Tensor("X", (1, 3, 32, 32))], [Tensor("Y", (1, 10))])


def cores() -> None:
    graph = residual_network()
    x = np.random.default_rng(1).random((1, graph.inputs))
    region = Region(Singles(graph), intervals(graph, x - 0.004, x + 0.004))
    seconds = {1: float("inf"), 2: float("inf")}
    for _ in range(2):
        for threads in seconds:
            with ThreadPoolExecutor(threads) as pool:
                start = time.perf_counter()
                tight = Tightening(region, Effort(4, 0), pool, FOREVER).run()
                seconds[threads] = min(seconds[threads], time.perf_counter() - start)
    print(f"{tight.unstable} ReLUs stay unstable; one thread {seconds[1]:.2f} s, two {seconds[2]:.2f} s")
    print(f"two threads are {seconds[1] / seconds[2]:.2f} times as fast as one")


if __name__ == "__main__":
    main()
