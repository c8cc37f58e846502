"""The C extension: that it is there and fits, what is said where it is not, and that numpy partitions likewise."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import box_of, one_disjunct, random_network
from numpy.typing import NDArray

from ginnacer_verify import native
from ginnacer_verify.abstraction.icf import ICF, Anchor, canonical_form
from ginnacer_verify.abstraction.partitioning import strategies
from ginnacer_verify.engines.choice import choose
from ginnacer_verify.engines.verify import verify
from ginnacer_verify.errors import NativeUnavailable
from ginnacer_verify.graph.network import Layer
from ginnacer_verify.native import RECORDS, Record, call
from ginnacer_verify.rivals.greedy import merge

NETWORK = random_network(np.random.default_rng(1), (3, 8, 8, 1))
PROPERTY = one_disjunct(box_of([-1.0] * 3, [1.0] * 3), [[1.0]], [-100.0])


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where there was no compiler."""
    monkeypatch.setattr(native, "_file", lambda: None)
    native.library.cache_clear()


def test_the_extension_is_built_and_fits() -> None:
    native.library.cache_clear()
    assert native.available()
    sizes = (ctypes.c_int64 * (len(RECORDS) + 1)).in_dll(native.library(), "ginnacer_sizes")
    assert list(sizes) == [*map(ctypes.sizeof, RECORDS), 0]


def test_fields_are_those_of_the_header() -> None:
    """Names and order, as `records.h` has them."""
    text = (Path(native.__file__).parent / "records.h").read_text()
    names = {"Batch": "Boxes", "Layers": "Reduced"}
    for record in RECORDS:
        end = text.index(f"}} {names.get(record.__name__, record.__name__)};")
        body = text[text.rindex("typedef struct {", 0, end) + 16 : end]
        lines = [line.split("/*")[0] for line in body.splitlines()]
        fields = [name for line in lines for name in line.replace(";", "").replace("*", "").replace(",", "").split()]
        types = {"const", "int64_t", "double", "float", "int8_t"}
        assert [name for name in fields if name not in types] == list(record.elements)


def test_records_of_another_size_are_refused() -> None:
    with pytest.raises(NativeUnavailable, match="install ginnacer-verify again"):
        native._compare_sizes([8, 8, 0])


@pytest.mark.parametrize("values", [np.ones(4, np.float32), np.ones(8)[::2], np.ones(4, np.int64)])
def test_arrays_of_another_kind_are_refused(values: NDArray[Any]) -> None:
    given = {name: np.ones(4, element) if element else 4 for name, element in native.Rows.elements.items()}
    native.Rows(**given)
    with pytest.raises(TypeError, match="value of"):
        native.Rows(**{**given, "value": values})
    with pytest.raises(TypeError, match="other fields"):
        native.Rows(value=values)


def test_a_record_keeps_its_arrays() -> None:
    given = {name: np.ones(4, element) if element else 4 for name, element in native.Rows.elements.items()}
    record: Record = native.Rows(**given)
    assert record.values["value"] is given["value"]


@pytest.mark.usefixtures("absent")
@pytest.mark.parametrize("engine", ["boxes", "phases", "native"])
def test_an_engine_that_was_not_built_says_how_to_get_it(engine: str) -> None:
    with pytest.raises(NativeUnavailable, match=r"C compiler.*--engine cegar"):
        verify(NETWORK, PROPERTY, engine=engine)
    with pytest.raises(NativeUnavailable, match="C compiler"):
        call("choose", 4)


@pytest.mark.usefixtures("absent")
def test_without_it_the_graph_engine_decides() -> None:
    wide = random_network(np.random.default_rng(2), (3, 20, 20, 1))
    assert choose(wide, PROPERTY).engine == "regions"
    assert "not installed" in choose(wide, PROPERTY).rule
    for network in (NETWORK, wide):
        assert verify(network, PROPERTY).word == "unsat"


def form(seed: int) -> ICF:
    """The ICF of a layer, dense or sparse."""
    random = np.random.default_rng(seed)
    weight = random.normal(size=(120, 60)) * (random.random((120, 60)) < (0.1 if seed % 2 else 1.0))
    layer, x = Layer(weight, random.normal(size=120)), np.abs(random.normal(size=60))
    return canonical_form(layer, x, layer(x), Anchor.zero(60))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "found",
    [
        strategies.first_fit,
        strategies.cosine,
        strategies.best_fit,
        strategies.budget(20),
        strategies.lower_bound_on_subsets,
    ],
)
def test_partitions_are_the_same_in_c_and_in_numpy(
    found: Callable[[ICF], Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    icf = form(seed)
    first = found(icf)
    monkeypatch.setattr(native, "_file", lambda: None)
    second = found(icf)
    if isinstance(first, int):
        assert first == second
    else:
        assert first.subsets == second.subsets


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("count", [1, 4, 15])
def test_merging_is_the_same_in_c_and_in_numpy(seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(20, 40)) * (random.random((20, 40)) < (0.1 if seed % 2 else 1.0))
    kind = np.sort(random.integers(0, 3, size=20))
    here, there = rows.copy(), rows.copy()
    first = merge(here, kind, count)
    monkeypatch.setattr(native, "_file", lambda: None)
    assert first.tolist() == merge(there, kind, count).tolist()
    assert (here == there).all()
    assert len(set(first)) == max(count, len(set(kind)))
