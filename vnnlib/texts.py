"""Unsafe sets as VNN-LIB text, in version 1.0 as VNN-COMP writes it and in version 2.0.

The text is written here by hand, not by the package, so that reading it back tests the package's reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from textwrap import wrap

Interval = tuple[Decimal, Decimal]
Atom = tuple[str, int, int | Decimal]
"""`("<=", 0, 3)` is Y_0 <= Y_3 and `("<=", 0, Decimal("0.5"))` is Y_0 <= 0.5."""


@dataclass(frozen=True)
class Case:
    """Inputs in `box` are unsafe where all of `atoms` hold on the outputs."""

    box: tuple[Interval, ...]
    atoms: tuple[Atom, ...]


@dataclass(frozen=True)
class Instance:
    """A network, a property (a union of cases) and what it means in words; `timeout` in seconds."""

    network: str
    name: str
    meaning: str
    cases: tuple[Case, ...]
    outputs: int
    timeout: int = 120
    version: str = field(default="1.0")

    @property
    def text(self) -> str:
        header = [f"; {line}" for line in wrap(self.meaning, 100)]
        header += ["; The constraints describe the unsafe behaviour: unsat means that the network is safe.", ""]
        body = _body_1(self) if self.version == "1.0" else _body_2(self)
        return "\n".join([*header, *body, ""])


def number(value: Decimal) -> str:
    """Plain digits with a point: VNN-LIB 2.0 knows no exponents and no integers where floats are declared."""
    digits = format(value.normalize() + 0, "f")
    return digits if "." in digits else f"{digits}.0"


def _atoms(case: Case, x: str, y: str, *, with_box: bool) -> list[str]:
    """The constraints of a case; `x` and `y` are templates for the names of the variables."""
    lines = []
    for index, (lower, upper) in enumerate(case.box if with_box else ()):
        name = x.format(index)
        lines += [f"(>= {name} {number(lower)})", f"(<= {name} {number(upper)})"]
    for relation, left, right in case.atoms:
        other = number(right) if isinstance(right, Decimal) else y.format(right)
        lines.append(f"({relation} {y.format(left)} {other})")
    return lines


def _asserts(cases: Sequence[Case], x: str, y: str) -> list[str]:
    """A box that all cases share is asserted once; one case is a list of asserts, several are an `or` of `and`s."""
    first = cases[0]
    if len(cases) == 1:
        return [f"(assert {atom})" for atom in _atoms(first, x, y, with_box=True)]
    shared = all(case.box == first.box for case in cases)
    box = _atoms(Case(first.box, ()), x, y, with_box=True) if shared else []
    parts = [f"    (and {' '.join(_atoms(case, x, y, with_box=not shared))})" for case in cases]
    return [*(f"(assert {atom})" for atom in box), "(assert (or", *parts, "))"]


def _body_1(instance: Instance) -> list[str]:
    inputs = len(instance.cases[0].box)
    names = [f"X_{i}" for i in range(inputs)] + [f"Y_{i}" for i in range(instance.outputs)]
    return [*(f"(declare-const {name} Real)" for name in names), "", *_asserts(instance.cases, "X_{}", "Y_{}")]


def _body_2(instance: Instance) -> list[str]:
    return [
        "(vnnlib-version <2.0>)",
        "(declare-network N",
        f"    (declare-input X float32 [1,{len(instance.cases[0].box)}])",
        f"    (declare-output Y float32 [1,{instance.outputs}])",
        ")",
        "",
        *_asserts(instance.cases, "X[0,{}]", "Y[0,{}]"),
    ]
