"""VNN-LIB texts for tests: random formulas rendered in both versions, and seeded mutations of texts."""

import random
import re
from decimal import Decimal

from hypothesis import strategies as st
from sexpr import Form

INPUTS, OUTPUTS = 3, 2

DECIMALS = ("0", "1", "-1", "0.5", "-0.25", "0.1", "-0.1", "0.3", "0.30000000000000004", "1.75", "-2", "2.5e-1")
WORDS = ("(", ")", "and", "or", "<=", ">=", "<", ">", "=", "+", "-", "*", "assert", "X_0", "X_1", "Y_0", "Y_1", "X_9")
NUMBERS = ("0.5", "-1", "1e999", "nan", "inf", "-0.0", "1e-400", "0.1", "7", "X[0,0]", "Y[0,1]", "X[0,0.5]", "==", "!=")
CHARACTERS = "()<>=+-*;. \t\r\n\x000123456789eXY_[],\"'|\xe9\u2264"
KINDS = ("and|or", "[<>]=?|=|==|!=", r"[-+*]", r"X[_\[].*", r"Y[_\[].*", r"-?[0-9].*")


def _numbers() -> st.SearchStrategy[Form]:
    return st.one_of(
        st.sampled_from(DECIMALS), st.decimals(-4, 4, places=3, allow_nan=False, allow_infinity=False).map(str)
    )


def _terms(letter: str, size: int) -> st.SearchStrategy[Form]:
    """Linear terms of one tensor: at most one factor of a product has a variable."""
    variables = st.sampled_from([f"{letter}_{i}" for i in range(size)])
    leaves: st.SearchStrategy[Form] = st.one_of(variables, variables, _numbers())
    return st.recursive(
        leaves,
        lambda terms: st.one_of(
            st.lists(terms, min_size=1, max_size=3).map(lambda parts: ["+", *parts]),
            st.lists(terms, min_size=1, max_size=3).map(lambda parts: ["-", *parts]),
            st.tuples(_numbers(), terms).map(lambda pair: ["*", *pair]),
            st.tuples(terms, _numbers(), _numbers()).map(lambda parts: ["*", *parts]),
        ),
        max_leaves=4,
    )


def _comparisons(operators: tuple[str, ...]) -> st.SearchStrategy[Form]:
    sides = [st.tuples(_terms(letter, size), _terms(letter, size)) for letter, size in (("X", INPUTS), ("Y", OUTPUTS))]
    bounds = st.tuples(st.sampled_from([f"X_{i}" for i in range(INPUTS)]), _numbers())
    return st.tuples(st.sampled_from(operators), st.one_of(bounds, *sides)).map(lambda c: [c[0], *c[1]])


def formulas(operators: tuple[str, ...] = ("<=", ">=", "<", ">", "=")) -> st.SearchStrategy[Form]:
    """Conjunctions of assertions that bound every input, and of random nestings of and/or."""
    nested = st.recursive(
        _comparisons(operators),
        lambda parts: st.tuples(st.sampled_from(("and", "or")), st.lists(parts, min_size=1, max_size=3)).map(
            lambda connective: [connective[0], *connective[1]]
        ),
        max_leaves=8,
    )
    bounds = st.tuples(*(st.tuples(_numbers(), _numbers()) for _ in range(INPUTS)))
    return st.tuples(bounds, st.lists(nested, max_size=3)).map(lambda drawn: ["and", *_box(drawn[0]), *drawn[1]])


def _box(bounds: tuple[tuple[Form, Form], ...]) -> list[Form]:
    ends = [sorted(map(str, pair), key=Decimal) for pair in bounds]
    lower: list[Form] = [["<=", low, f"X_{i}"] for i, (low, _) in enumerate(ends)]
    upper: list[Form] = [["<=", f"X_{i}", high] for i, (_, high) in enumerate(ends)]
    return lower + upper


def text1(formula: Form) -> str:
    """In VNN-LIB 1.0, one assertion for each part of the outermost `and`."""
    names = [f"X_{i}" for i in range(INPUTS)] + [f"Y_{j}" for j in range(OUTPUTS)]
    declared = [f"(declare-const {name} Real)" for name in names]
    return "\n".join([*declared, *(f"(assert {_render(part)})" for part in formula[1:]), ""])


def text2(formula: Form, shape: str = f"[1,{INPUTS}]") -> str:
    """The same in VNN-LIB 2.0, over an input of that shape."""
    header = (
        "(vnnlib-version <2.0>)\n(declare-network N\n"
        f"  (declare-input X real {shape})\n  (declare-output Y real [{OUTPUTS},1])\n)\n"
    )
    return header + "\n".join(f"(assert {_render(_renamed(part))})" for part in formula[1:]) + "\n"


def _render(form: Form) -> str:
    return form if isinstance(form, str) else f"({' '.join(map(_render, form))})"


def _renamed(form: Form) -> Form:
    if isinstance(form, list):
        return ["==" if form[0] == "=" else form[0], *map(_renamed, form[1:])]
    if form[0] in "XY":
        return f"X[0,{form[2:]}]" if form[0] == "X" else f"Y[{form[2:]},0]"
    plain = format(Decimal(form), "f")
    return plain if "." in plain else f"{plain}.0"


def mutated(text: str, rng: random.Random) -> str:
    """The text after one to three changes: to a word of the same kind (still well-formed), any word, any character."""
    change = rng.choice((_alike_mutated, _alike_mutated, _words_mutated, _characters_mutated))
    for _ in range(rng.randint(1, 3)):
        text = change(text, rng)
    return text


def _alike_mutated(text: str, rng: random.Random) -> str:
    parts = re.split(r"([\s()]+)", text)
    kinds = [next((k for k, kind in enumerate(KINDS) if re.fullmatch(kind, part)), None) for part in parts]
    i = rng.choice([i for i, kind in enumerate(kinds) if kind is not None])
    others = sorted({part for part, kind in zip(parts, kinds, strict=True) if kind == kinds[i]} - {parts[i]})
    more = {0: ["and", "or"], 1: ["<=", ">=", "<", ">"], 2: ["+", "-"]}.get(kinds[i] or 0, [])
    parts[i] = rng.choice(others + more or [parts[i]])
    return "".join(parts)


def _words_mutated(text: str, rng: random.Random) -> str:
    words = re.findall(r"\s+|[()]|[^\s()]+", text)
    i, j = (rng.randrange(len(words)) for _ in range(2))
    match rng.randrange(4):
        case 0:
            del words[i]
        case 1:
            words.insert(i, words[j])
        case 2:
            words[i], words[j] = words[j], words[i]
        case _:
            words[i] = rng.choice(WORDS + NUMBERS)
    return "".join(words)


def _characters_mutated(text: str, rng: random.Random) -> str:
    i = rng.randrange(len(text))
    match rng.randrange(3):
        case 0:
            return text[:i] + text[i + 1 :]
        case 1:
            return text[:i] + rng.choice(CHARACTERS) + text[i:]
        case _:
            return text[:i] + rng.choice(CHARACTERS) + text[i + 1 :]
