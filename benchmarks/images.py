"""Images and labels of robustness properties, for `ginnacer robust`: `python benchmarks/images.py DIR PROP...`

writes `DIR/images.npy` and `DIR/labels.npy`. The label is the output that each part compares with another one."""

import sys
from pathlib import Path

import numpy as np

from ginnacer_verify.properties.vnnlib import read_vnnlib
from ginnacer_verify.robust.images import original


def main(folder: Path, files: list[Path]) -> None:
    images, labels = [], []
    for prop in map(read_vnnlib, files):
        rows = np.vstack([disjunct.outputs.matrix for disjunct in prop.disjuncts])
        labels.append(int(np.abs(rows).sum(axis=0).argmax()))
        images.append(np.clip(original(prop.boxes[0]), 0.0, 1.0))
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "images.npy", np.array(images))
    np.save(folder / "labels.npy", np.array(labels))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit((__doc__ or "").splitlines()[0])
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
