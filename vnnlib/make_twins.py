"""Make and decide the set `twins`: properties about two networks, one of which is made from the other.

    python vnnlib/make_twins.py

The originals are networks of the other sets. A twin is perturbed (every weight by a thousandth of itself, normally
distributed), quantised (weights in 255 equal steps), or pruned (the smallest tenth of each matrix is 0). HiGHS finds
the largest difference, and one that no input exceeds: a mixed-integer program about both networks, by `milp.py`. Each
property is asked below the former and above the latter, so both verdicts are known. A `sat` is replayed by onnxruntime
on both files. Monotonicity is asked with a tolerance, so that the truth does not hang on the last digit.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from decide_instances import MARGIN, inside
from milp import INFINITY, Program
from numpy.typing import NDArray
from onnx import numpy_helper
from reading import Array, Case, read_layers
from texts import number

HERE = Path(__file__).parent
FOLDER = HERE / "twins"
SECONDS = 60.0
Points = NDArray[np.float32]


def perturbed(weight: Array, random: np.random.Generator) -> Array:
    return np.asarray(weight * (1 + 1e-3 * random.normal(size=weight.shape)))


def quantised(weight: Array, random: np.random.Generator) -> Array:
    step = np.abs(weight).max() / 127
    return np.asarray(np.round(weight / step) * step)


def pruned(weight: Array, random: np.random.Generator) -> Array:
    return np.asarray(np.where(np.abs(weight) < np.quantile(np.abs(weight), 0.1), 0.0, weight))


@dataclass(frozen=True)
class Twins:
    """Two networks on a box; with `rising` the second one gets a larger value of that input."""

    name: str
    first: str
    second: str
    lower: tuple[Decimal, ...]
    upper: tuple[Decimal, ...]
    rising: int | None = None

    def joint(self, ends: tuple[Decimal, ...]) -> tuple[Fraction, ...]:
        """The ends of all inputs; that of the second network which rises comes last."""
        more = () if self.rising is None else (ends[self.rising],)
        return tuple(Fraction(end) for end in (*ends, *more))


def written(path: str, change: Callable[[Array, np.random.Generator], Array], name: str) -> str:
    """A copy of a network with all its matrices changed; its name in the list."""
    model, random = onnx.load(HERE / path), np.random.default_rng(0)
    for tensor in model.graph.initializer:
        weight = numpy_helper.to_array(tensor)
        if weight.ndim > 1:
            tensor.CopyFrom(numpy_helper.from_array(change(weight, random).astype(np.float32), tensor.name))
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))
    return f"{name}.onnx"


def make_all() -> list[Twins]:
    advisory, digits = "advisory/advisory_15x3.onnx", "digits/digits_32x2.onnx"
    box = tuple(Decimal(word) for word in ("0.1", "-0.1", "0.05", "0.3", "-0.3"))
    wide, narrow = Decimal("0.01"), Decimal("0.01")
    around = tuple(x - wide for x in box), tuple(x + wide for x in box)
    random = np.random.default_rng(1)
    image = tuple(Decimal(int(pixel)) / 16 for pixel in random.integers(0, 17, 64))
    near = tuple(max(x - narrow, Decimal(0)) for x in image), tuple(min(x + narrow, Decimal(1)) for x in image)
    made = []
    for name, change in (("perturbed", perturbed), ("int8", quantised), ("pruned", pruned)):
        made.append(Twins(f"advisory_{name}", f"../{advisory}", written(advisory, change, f"advisory_{name}"), *around))
        made.append(Twins(f"digits_{name}", f"../{digits}", written(digits, change, f"digits_{name}"), *near))
    alone = (f"../{advisory}", f"../{advisory}")
    return [*made, *(Twins(f"monotone_{rising}", *alone, *around, rising) for rising in (0, 3))]


def product_of(twins: Twins) -> tuple[list[tuple[Array, Array]], int]:
    """Both networks as the layers of one, and how many outputs each has; the input that rises comes last."""
    layers = []
    both = zip(read_layers(FOLDER / twins.first), read_layers(FOLDER / twins.second), strict=True)
    for number_, ((a, c), (b, d)) in enumerate(both):
        if number_ == 0 and twins.rising is None:
            matrix = np.vstack([a, b])
        elif number_ == 0:
            last = b[:, [twins.rising]]
            b = b.copy()
            b[:, twins.rising] = 0.0
            matrix = np.block([[a, np.zeros((len(a), 1))], [b, last]])
        else:
            matrix = np.block([[a, np.zeros((len(a), b.shape[1]))], [np.zeros((len(b), a.shape[1])), b]])
        layers.append((matrix, np.concatenate([c, d])))
    return layers, len(layers[-1][1]) // 2


def rows_of(twins: Twins, outputs: int, epsilon: Decimal) -> list[tuple[dict[int, int], Fraction]]:
    """Each is unsafe by itself: `row <= offset`."""
    offset = -Fraction(epsilon)
    if twins.rising is not None:
        return [({0: -1, outputs: 1}, offset)]
    return [({i: s, outputs + i: -s}, offset) for i in range(outputs) for s in (1, -1)]


def text_of(twins: Twins, outputs: int, epsilon: Decimal) -> str:
    size, relation = len(twins.lower), "equal-to" if twins.rising is not None else "isomorphic-to"
    lines = [
        "; The constraints describe the unsafe behaviour: unsat means that the networks stay together.",
        "(vnnlib-version <2.0>)",
        f"(declare-network f (declare-input X float32 [{size}]) (declare-output Y float32 [{outputs}]))",
        f"(declare-network g ({relation} f) (declare-input V float32 [{size}]) (declare-output W float32 [{outputs}]))",
    ]
    for i, (low, high) in enumerate(zip(twins.lower, twins.upper, strict=True)):
        lines.append(f"(assert (and (>= X[{i}] {number(low)}) (<= X[{i}] {number(high)})))")
        rises = f"(and (>= V[{i}] X[{i}]) (<= V[{i}] {number(high)}))"
        lines.append(f"(assert {rises if i == twins.rising else f'(== V[{i}] X[{i}])'})")
    if twins.rising is not None:
        return "\n".join([*lines, f"(assert (<= W[0] (- Y[0] {number(epsilon)})))", ""])
    parts = [
        f"    (>= W[{i}] (+ Y[{i}] {number(epsilon)})) (<= W[{i}] (- Y[{i}] {number(epsilon)}))" for i in range(outputs)
    ]
    return "\n".join([*lines, "(assert (or", *parts, "))", ""])


def values(twins: Twins, x: Points) -> Array:
    """The outputs of both networks at a joint input, as onnxruntime computes them in float32."""
    first = x[: len(twins.lower)]
    second = first.copy()
    if twins.rising is not None:
        second[twins.rising] = x[-1]
    found = []
    for file, point in ((twins.first, first), (twins.second, second)):
        session = onnxruntime.InferenceSession((FOLDER / file).read_bytes(), providers=["CPUExecutionProvider"])
        found.append(session.run(None, {"X": point.reshape(session.get_inputs()[0].shape)})[0].flatten())
    return np.concatenate(found).astype(np.float64)


def largest_difference(twins: Twins) -> tuple[float, float, Array]:
    """The largest difference that HiGHS finds, one that no input exceeds, and where the largest is."""
    layers, outputs = product_of(twins)
    lower, upper = (twins.joint(ends) for ends in (twins.lower, twins.upper))
    program = Program(np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64))
    if twins.rising is not None:
        program.row(-INFINITY, 0.0, {program.inputs[twins.rising]: 1.0, program.inputs[-1]: -1.0})
    for matrix, bias in layers[:-1]:
        program.relu_layer(matrix, bias)
    best, bound, point = -INFINITY, -INFINITY, np.zeros(0)
    for row in rows_of(twins, outputs, Decimal(0)):
        slack, limit, where = program.maximise_slack(Case(lower, upper, (row,)), *layers[-1], SECONDS)
        bound = max(bound, limit)
        if slack > best:
            best, point = slack, where
    return best, bound, point


def confirm(twins: Twins, epsilon: Decimal, point: Array) -> None:
    """Raise unless onnxruntime confirms that the networks differ by epsilon there."""
    ends = zip(twins.joint(twins.lower), point, twins.joint(twins.upper), strict=True)
    x = np.array([inside(low, float(value), high) for low, value, high in ends], dtype=np.float32)
    y, (_, outputs) = values(twins, x), product_of(twins)
    rows = rows_of(twins, outputs, epsilon)
    if not any(sum(factor * y[i] for i, factor in row.items()) <= float(offset) for row, offset in rows):
        raise RuntimeError(f"onnxruntime does not confirm {twins.name} with {epsilon}")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    rows = []
    for twins in make_all():
        _, outputs = product_of(twins)
        seen, bound, point = largest_difference(twins)
        wanted = [("unsat", Decimal(f"{1.3 * bound + 0.001:.4f}"), bound)]
        if seen > 10 * MARGIN:
            wanted.insert(0, ("sat", Decimal(f"{0.7 * seen:.4f}"), seen))
            confirm(twins, wanted[0][1], point)
        for verdict, epsilon, limit in wanted:
            name = f"{twins.name}_{epsilon}.vnnlib"
            (FOLDER / name).write_text(text_of(twins, outputs, epsilon))
            listed = str([("f", twins.first), ("g", twins.second)])
            rows.append((listed, name, verdict, f"{limit - float(epsilon):.5f}"))
            print(*rows[-1], flush=True)
    with (FOLDER / "instances.csv").open("w", newline="") as lines:
        csv.writer(lines, lineterminator="\n").writerows((network, name, 100) for network, name, *_ in rows)
    with (FOLDER / "expected.csv").open("w", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerows([("onnx", "vnnlib", "expected"), *(row[:3] for row in rows)])
    with (FOLDER / "decided.csv").open("w", newline="") as lines:
        csv.writer(lines, lineterminator="\n").writerows([("onnx", "vnnlib", "highs", "slack"), *rows])


if __name__ == "__main__":
    main()
