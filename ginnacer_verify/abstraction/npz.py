"""An Abstraction as one `.npz` file and back: the network, the centroid, the settings and the partitions.

Everything else is computed again when it is loaded; the trace of the centroid does not depend on the machine."""

import zipfile
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array

from ginnacer_verify.abstraction.abstraction import Abstraction, abstract
from ginnacer_verify.abstraction.icf import ICF
from ginnacer_verify.abstraction.inputs import Mode
from ginnacer_verify.abstraction.partition import Partition
from ginnacer_verify.arrays import Weight
from ginnacer_verify.box import Box
from ginnacer_verify.errors import AbstractionError, plainly
from ginnacer_verify.graph.network import Layer, Network
from ginnacer_verify.properties.property import Property
from ginnacer_verify.properties.vnnlib import parse_vnnlib
from ginnacer_verify.properties.write import to_vnnlib

FORMAT = 1


def save(abstraction: Abstraction, path: str | Path, prop: Property | None = None) -> None:
    """Write the file, with the property that the abstraction is for, if any; a name without `.npz` is kept as it is."""
    network, entry = abstraction.network, abstraction.entry
    arrays: dict[str, Any] = {
        "format": FORMAT,
        "centroid": abstraction.centroid,
        "mode": entry.mode,
        "domain": np.stack([entry.domain.lower, entry.domain.upper]),
        "clip": abstraction.clip,
        "input_shape": network.input_shape,
        "output_shape": network.output_shape,
        "dtype": str(network.dtype),
        "model": np.frombuffer(network.model, dtype=np.uint8),
        "layers": len(network.layers),
    }
    for number, layer in enumerate(network.layers, start=1):
        arrays |= {f"{name}{number}": part for name, part in _parts(layer.weight).items()}
        arrays[f"bias{number}"] = layer.bias
    for number, partition in abstraction.partitions.items():
        arrays[f"partition{number}"] = partition.subset_of
        arrays[f"concrete{number}"] = np.array(sorted(abstraction.concrete[number]), dtype=np.intp)
    if prop is not None:
        arrays["property"] = to_vnnlib(prop)
    with Path(path).open("wb") as file:
        np.savez_compressed(file, **arrays)


def load_abstraction(path: str | Path) -> Abstraction:
    """What `save` wrote."""
    return load_both(path)[0]


def load_both(path: str | Path) -> tuple[Abstraction, Property | None]:
    """The abstraction and the property that it is for, if that was saved."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = dict(stored)
        if int(arrays["format"]) != FORMAT:
            raise AbstractionError(f"{path} has format {int(arrays['format'])}; this version reads format {FORMAT}")
        prop = parse_vnnlib(str(arrays["property"]), source=str(path)) if "property" in arrays else None
        return _rebuilt(arrays), prop
    except OSError as problem:
        raise AbstractionError(f"{path} cannot be read: {plainly(problem)}") from problem
    except (ValueError, KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile) as problem:
        raise AbstractionError(f"{path} is not an abstraction that `ginnacer abstract` saved") from problem


def _rebuilt(arrays: dict[str, Any]) -> Abstraction:
    numbers = range(1, int(arrays["layers"]) + 1)
    network = Network(
        tuple(Layer(_weight(arrays, number), arrays[f"bias{number}"]) for number in numbers),
        tuple(int(size) for size in arrays["input_shape"]),
        tuple(int(size) for size in arrays["output_shape"]),
        np.dtype(str(arrays["dtype"])),
        arrays["model"].tobytes(),
    )
    chosen = {
        number: Partition.of(arrays[f"partition{number}"]) for number in numbers if f"partition{number}" in arrays
    }
    found = abstract(
        network,
        arrays["centroid"],
        strategy=[partial(_given, partition) for partition in chosen.values()],
        layers=list(chosen),
        inputs=cast(Mode, str(arrays["mode"])),
        box=Box(*arrays["domain"]),
        clip=bool(arrays["clip"]),
    )
    for number, partition in chosen.items():
        found = found.with_partition(number, partition, arrays.get(f"concrete{number}", np.zeros(0, np.intp)).tolist())
    return found


def _given(partition: Partition, icf: ICF) -> Partition:
    return partition


def _parts(weight: Weight) -> dict[str, Any]:
    if isinstance(weight, np.ndarray):
        return {"weight": weight}
    return {"data": weight.data, "indices": weight.indices, "indptr": weight.indptr, "shape": weight.shape}


def _weight(arrays: dict[str, Any], number: int) -> Weight:
    if f"weight{number}" in arrays:
        return cast(Weight, arrays[f"weight{number}"])
    data, indices, indptr, shape = (arrays[f"{name}{number}"] for name in ("data", "indices", "indptr", "shape"))
    return csr_array((data, indices, indptr), shape=tuple(int(size) for size in shape))
