"""`ginnacer demo`: a proof, a counterexample and an abstraction, on networks that come with the package."""

import argparse
import shutil
from pathlib import Path

import numpy as np

from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.arrays import Array
from ginnacer_verify.bench.own import own_instances
from ginnacer_verify.commands.output import show
from ginnacer_verify.commands.picture import tiles
from ginnacer_verify.commands.sentence import sentence
from ginnacer_verify.engines.verdict import Verdict, Violated
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.loading import load
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.robust.images import image, original

SHADES = " ░▒▓█"
CENTROID = 2.0
"""Where the paper's motivating example is exact."""
FILES = {
    "advisory.onnx": "advisory/advisory_25x4.onnx",
    "head-on.vnnlib": "advisory/prop_03.vnnlib",
    "head-on-v2.vnnlib": "advisory/prop_03_v2.vnnlib",
    "digits.onnx": "digits/digits_32x2.onnx",
    "digits-int8.onnx": "twins/digits_int8.onnx",
    "two.vnnlib": "digits/image_003_0.04.vnnlib",
    "seven.vnnlib": "digits/image_077_0.05.vnnlib",
    "images.npy": "digits/images.npy",
    "labels.npy": "digits/labels.npy",
    "pade.onnx": "pade/pade_64x2.onnx",
}

EXAMPLE = "ginnacer demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("ginnacer-demo"),
        metavar="DIR",
        help="folder for pictures and files (default: ginnacer-demo)",
    )


def run(args: argparse.Namespace) -> int:
    folder: Path = args.output
    folder.mkdir(parents=True, exist_ok=True)
    copy_files(folder)
    proof = _decided(folder / "advisory.onnx", folder / "head-on.vnnlib")
    refuted = _decided(folder / "digits.onnx", folder / "two.vnnlib")
    abstraction = abstract(load(folder / "pade.onnx"), [CENTROID])
    files = [folder / "counterexample.png", folder / "abstraction.svg"]
    if isinstance(refuted[1], Violated):
        files[0].write_bytes(tiles(refuted[0].boxes[0], refuted[1].counterexample))
    files[1].write_text(curves(abstraction), encoding="utf-8")
    kept, total = sum(abstraction.relus_per_layer), abstraction.network.relus
    document = {
        "proof": proof[1].word,
        "counterexample": refuted[1].word,
        "relus": {"original": total, "abstract": kept},
    }
    lines = [
        "1. A proof. An intruder comes head-on: does this network ever choose to do nothing?",
        f"   {proof[1].word}: never. {sentence(proof[1], proof[0])}",
        "",
        "2. A counterexample. Is this 2 still a 2 when each pixel may change by 0.04?",
        *(f"   {row}" for row in _beside(*refuted)),
        f"   {refuted[1].word}: no. {sentence(refuted[1], refuted[0])}",
        "",
        f"3. An abstraction. A network with {total} ReLUs inside of one with {kept}, exact at x = {CENTROID:g}:",
        *(f"   {row}" for row in _values(abstraction)),
        "",
        "Pictures: " + ", ".join(str(file) for file in files),
        f"Next, with the networks that are now in {folder}:",
        *(f"   {command}" for command in _next(folder)),
    ]
    show(args, {**document, "files": [str(file) for file in files]}, lines)
    return 0


def copy_files(folder: Path) -> None:
    """The bundled files that `--help`, the tutorial and the README use, under simple names."""
    for name, source in FILES.items():
        shutil.copyfile(own_instances() / source, folder / name)
    (folder / "instances.csv").write_text("advisory.onnx,head-on.vnnlib,60\ndigits.onnx,two.vnnlib,60\n")


def _next(folder: Path) -> list[str]:
    return [
        f"ginnacer verify {folder}/digits.onnx {folder}/seven.vnnlib",
        f"ginnacer robust {folder}/digits.onnx {folder}/images.npy {folder}/labels.npy --eps 0.03 --first 20 -o robust",
    ]


def _decided(network: Path, prop: Path) -> tuple[Property, Verdict]:
    unsafe = read_vnnlib(prop)
    return unsafe, verify(network, unsafe)


def _beside(prop: Property, verdict: Verdict) -> list[str]:
    """The image and the counterexample as characters."""
    if verdict.counterexample is None:
        return []
    pair = image(original(prop.boxes[0]), (8, 8)), image(verdict.counterexample.x, (8, 8))
    levels = [np.clip(np.rint(one * (len(SHADES) - 1)), 0, len(SHADES) - 1).astype(int) for one in pair]
    return ["     ".join("".join(2 * SHADES[v] for v in one[k]) for one in levels).rstrip() for k in range(8)]


def _values(abstraction: Abstraction) -> list[str]:
    points = np.array([[CENTROID - 1], [CENTROID - 0.1], [CENTROID], [CENTROID + 0.1], [CENTROID + 1]])
    lower, upper = abstraction(points)
    values = abstraction.network(points)
    rows = zip(points[:, 0], lower[:, 0], values[:, 0], upper[:, 0], strict=True)
    return [f"x = {x:4.1f}   {low:9.4f} <= {value:8.4f} <= {high:9.4f}" for x, low, value, high in rows]


def curves(abstraction: Abstraction) -> str:
    """The network between the bounds of its abstraction, as an SVG picture."""
    grid = np.linspace(CENTROID - 0.5, CENTROID + 0.5, 201)[:, None]
    (lower, upper), values = abstraction(grid), abstraction.network(grid)
    low, high = float(lower.min()), float(upper.max())

    def line(y: Array) -> str:
        across = 40 + 620 * (grid[:, 0] - grid[0, 0]) / (grid[-1, 0] - grid[0, 0])
        down = 350 - 320 * (y[:, 0] - low) / (high - low)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))

    area = line(upper) + " " + " ".join(reversed(line(lower).split()))
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 400" font-family="sans-serif" font-size="16">'
        '<rect width="700" height="400" fill="white"/>'
        f'<polygon points="{area}" fill="#cfe3f7"/>'
        f'<polyline points="{line(values)}" fill="none" stroke="#1f2328" stroke-width="2.5"/>'
        f'<text x="40" y="390">x = {grid[0, 0]:.1f}</text><text x="600" y="390">x = {grid[-1, 0]:.1f}</text>'
        '<text x="250" y="390">network (black) and its abstraction</text></svg>\n'
    )
