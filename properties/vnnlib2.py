"""VNN-LIB 2.0 through the parser of the standard (the package `vnnlib`): text -> its tree -> ours -> Property."""

import json
import math
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ginnacer_verify.deadline import FOREVER, Deadline
from ginnacer_verify.errors import OutOfTime, PropertyError, UnsupportedProperty, VnnlibSyntaxError
from ginnacer_verify.loading.workers import die_with_parent
from ginnacer_verify.properties.disjuncts import property_of
from ginnacer_verify.properties.property import Declared, Property, Variable
from ginnacer_verify.properties.terms import And, Curve, Formula, Node, Or, Row, combine, conjunction, number

LARGE = 1_000_000
"""Characters that the standard's parser reads in half a second; more of them where there is a deadline are given to a
process of their own."""
OPERATORS = {
    "And": "and",
    "Or": "or",
    "LessEqual": "<=",
    "LessThan": "<",
    "GreaterEqual": ">=",
    "GreaterThan": ">",
    "Equal": "=",
    "NotEqual": "!=",
    "Plus": "+",
    "Minus": "-",
    "Negate": "-",
    "Multiply": "*",
}
ELEMENT_TYPES = {"Real": "real", "F32": "float32", "F64": "float64"}

MAX_DEPTH = 1000
"""The parser recurses, and takes the process down with it somewhere above 20 000 nested forms."""

MANY_INPUTS = 100_000
"""Of a network that shares a property with others."""

SCAN = re.compile(r';[^\n]*|"(?:[^"\\]|\\.)*"|[()]|\[[^\]\n]*\]?|[^\0-\x7f]', re.DOTALL)
INFIX = re.compile(r"\(\s*([^\s()]+)\s*(<=|>=|==|!=|<|>)\s*([^\s()]+)\s*\)")
INDICES = re.compile(r"\[[ \t]*(?:[0-9]+[ \t]*(?:,[ \t]*[0-9]+[ \t]*)*)?\]")


def parse_vnnlib2(text: str, source: str, deadline: Deadline = FOREVER) -> Property:
    """The property of a VNN-LIB 2.0 text whose lines end with a line feed."""
    _refuse_misread(text, source)
    deadline.check("the property was read")
    if len(text) > LARGE and math.isfinite(deadline.end):
        return _elsewhere(text, source, deadline)
    return _parsed(text, source, deadline)


def _elsewhere(text: str, source: str, deadline: Deadline) -> Property:
    """Read by a process that can be ended, as the standard's parser cannot be while it is at work."""
    command, pipe = (sys.executable, "-m", "ginnacer_verify.properties.vnnlib2", source), subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as child:
        try:
            reply, _ = child.communicate(text.encode(), timeout=deadline.left)
        except subprocess.TimeoutExpired:
            child.kill()
            raise OutOfTime("time limit reached before the property was read: try a larger --timeout") from None
    if child.returncode:
        raise PropertyError(f"{source}: the parser of the standard ended with code {child.returncode}")
    found = pickle.loads(reply)
    if isinstance(found, Property):
        return found
    kind, values = found
    raise VnnlibSyntaxError(**values) if kind == "syntax" else UnsupportedProperty(values)


def serve(source: str) -> None:
    """That process: the text comes in, a property or what is wrong with the text goes out."""
    die_with_parent()
    text, out = sys.stdin.buffer.read().decode(), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    found: object
    try:
        found = _parsed(text, source, FOREVER)
    except VnnlibSyntaxError as error:
        found = "syntax", {"problem": error.problem, "source": source, "line": error.line, "hint": error.hint}
    except UnsupportedProperty as error:
        found = "unsupported", str(error)
    out.write(pickle.dumps(found))
    out.close()


def _parsed(text: str, source: str, deadline: Deadline) -> Property:
    query = _query(text, source)
    networks = _networks(query, source)
    reader = _Reader.of(networks)
    try:
        asserted = []
        for assertion in query.assertions:
            deadline.check("the property was read")
            asserted.append(reader.formula(assertion.expr))
        reader.line = 0  # what is wrong from here on is not the fault of a single line
        formula = conjunction(asserted)
        if len(networks) == 1:
            (only,) = networks
            return replace(property_of(formula, only.x, only.y, "2.0", deadline), network=only.name)
        inputs, outputs = max(max(one.inputs) for one in networks) + 1, sum(one.y.size for one in networks)
        return property_of(
            formula, Variable("X", (inputs,)), Variable("Y", (outputs,)), "2.0", deadline, networks=networks
        )
    except VnnlibSyntaxError as error:
        raise VnnlibSyntaxError(error.problem, source=source, line=reader.line, hint=error.hint) from None
    except UnsupportedProperty as error:
        place = f"{source}:{reader.line}" if reader.line else source
        raise UnsupportedProperty(f"{place}: {error}") from None


def _refuse_misread(text: str, source: str) -> None:
    """Raise for what the parser would take for something else, or crash on.

    It stops at a NUL, reads `X[0.9]` as `X[0]` and a dimension of 2.7 as 2, and cannot report letters beyond ASCII."""
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise VnnlibSyntaxError("a NUL character", source=source, line=line, hint="VNN-LIB is plain text")
    depth = 0
    for token in SCAN.finditer(text):
        first = token[0][0]
        depth += (first == "(") - (first == ")")
        if depth > MAX_DEPTH:
            problem, hint = f"forms nested more than {MAX_DEPTH} deep", "'and', 'or' and '+' take any number of parts"
        elif first == "[" and INDICES.fullmatch(token[0]) is None:
            problem, hint = f"{token[0][:40]!r} is neither a shape nor an index", "write whole numbers, as in [0,3]"
        elif first > "\x7f":
            problem, hint = f"the letter {first!r} outside of a comment", "names and numbers are written in ASCII"
        else:
            continue
        raise VnnlibSyntaxError(problem, source=source, line=text.count("\n", 0, token.start()) + 1, hint=hint)


def _query(text: str, source: str) -> Any:
    import vnnlib

    try:
        return vnnlib.parse_query_string(text)
    except vnnlib.VNNLibException as error:
        raise _syntax_error(str(error), source, text) from None
    except (IndexError, ValueError):  # how it reports a number that its own types cannot hold
        hint = "the parser of the standard reads 2.3e-308 to 1.7e308"
        raise VnnlibSyntaxError("a number out of range", source=source, hint=hint) from None


def _syntax_error(message: str, source: str, text: str) -> VnnlibSyntaxError:
    """The parser reports either "Parse error: ... at line 3, column 9: 'x'" or a JSON list of diagnostics."""
    try:
        first = json.loads(message)["errors"][0]
        problem, hint = f"{first['message']} {first['offendingSymbol']}".strip(), first["hint"].rstrip(".")
        if "IntConstant" in hint:
            hint = f"write {first['offendingSymbol']}.0"
        return VnnlibSyntaxError(problem, source=source, line=int(first["line"]), hint=hint)
    except (ValueError, LookupError, TypeError):
        found = re.search(r"at line (\d+), column \d+: (.*)", message, re.DOTALL)
        if found is None:
            return VnnlibSyntaxError(message, source=source)
        what = f"unexpected {found[2]}" if found[2] != "''" else "the text ends too early"
        return VnnlibSyntaxError(what, source=source, line=int(found[1]), hint=_infix(text, int(found[1])))


def _infix(text: str, line: int) -> str:
    """What to write instead of a comparison between its two sides, as in `(Y[0] < Y[1])`; else nothing."""
    found = INFIX.search(text.split("\n")[line - 1])
    return f"write ({found[2]} {found[1]} {found[3]})" if found else ""


def _networks(query: Any, source: str) -> tuple[Declared, ...]:
    """The networks of a query; inputs that it asserts to be equal are one input of the property."""
    declared: list[Declared] = []
    for network in query.networks:
        for definitions, kind in ((network.inputs, "inputs"), (network.outputs, "outputs")):
            if len(definitions) != 1:
                raise UnsupportedProperty(f"{source}: a network with {len(definitions)} {kind}: only one is supported")
        if network.hidden:
            raise UnsupportedProperty(
                f"{source}: the hidden node {network.hidden[0].name}: only input and output may occur"
            )
        x, y = _variable(network.inputs[0], source), _variable(network.outputs[0], source)
        if len(query.networks) > 1 and x.size > MANY_INPUTS:
            raise UnsupportedProperty(f"{source}: {x.name} has more than {MANY_INPUTS} inputs, beside other networks")
        declared.append(Declared(network.name, x, y, (), network.equal_to))
    if len(declared) == 1:
        return tuple(declared)
    starts = np.cumsum([0, *(one.x.size for one in declared)]).tolist()
    one_of = list(range(starts[-1]))
    places = {one.x.name: (one.x, start) for one, start in zip(declared, starts, strict=False)}
    for a, b in _equal_inputs(query, places):
        kept, other = sorted((one_of[a], one_of[b]))
        one_of = [kept if place == other else place for place in one_of] if kept != other else one_of
    number = {place: i for i, place in enumerate(sorted(set(one_of)))}
    return tuple(
        replace(one, inputs=tuple(number[place] for place in one_of[start : start + one.x.size]))
        for one, start in zip(declared, starts, strict=False)
    )


def _equal_inputs(query: Any, places: Mapping[str, tuple[Variable, int]]) -> Iterator[tuple[int, int]]:
    """The pairs of inputs that the query asserts to be equal, by their places in all of its inputs."""
    todo = [assertion.expr for assertion in query.assertions]
    while todo:
        node = todo.pop()
        kind = type(node).__name__
        if kind == "And":
            todo.extend(node.children())
        elif kind == "Equal":
            sides = [one for one in node.children() if type(one).__name__ == "Var" and one.name in places]
            if len(sides) == 2:
                a, b = (places[one.name][1] + _flat_index(one.indices, places[one.name][0].shape) for one in sides)
                yield a, b


def _flat_index(indices: Sequence[int], shape: tuple[int, ...]) -> int:
    index = 0
    for i, size in zip(indices, shape, strict=True):
        index = index * size + i
    return index


def _variable(definition: Any, source: str) -> Variable:
    if definition.dtype.name not in ELEMENT_TYPES:
        known = ", ".join(ELEMENT_TYPES.values())
        raise UnsupportedProperty(
            f"{source}: the element type in {str(definition).strip()}: only {known} are supported"
        )
    return Variable(definition.name, tuple(definition.shape), ELEMENT_TYPES[definition.dtype.name])


@dataclass(eq=False)
class _Reader:
    """From the parser's tree to ours; `line` is the one that an error would be about."""

    variables: Mapping[str, tuple[Variable, Sequence[int]]]
    """By name, each with the numbers of its values: `i` for inputs, `~j` for outputs."""
    line: int = 0

    @classmethod
    def of(cls, networks: Sequence[Declared]) -> "_Reader":
        variables: dict[str, tuple[Variable, Sequence[int]]] = {}
        outputs = 0
        for one in networks:
            variables[one.x.name] = one.x, one.inputs or range(one.x.size)
            variables[one.y.name] = one.y, range(~outputs, ~(outputs + one.y.size), -1)
            outputs += one.y.size
        return cls(variables)

    def formula(self, root: Any) -> Formula:
        """From the leaves up, without recursion."""
        done: list[Node] = []
        todo: list[Any] = [root]  # nodes to be read, and (operator, number of arguments) to be applied to `done`
        while todo:
            item = todo.pop()
            kind = type(item).__name__
            if isinstance(item, tuple):
                operator, count = item
                done[-count:] = [combine(operator, done[-count:])]
            elif kind in OPERATORS:
                children = item.children()
                todo.append((OPERATORS[kind], len(children)))
                todo.extend(reversed(children))
            else:
                done.append(self._leaf(item, kind))
        (node,) = done
        assert isinstance(node, (Row, Curve, And, Or))
        return node

    def _leaf(self, item: Any, kind: str) -> Node:
        if kind in ("Float", "Int"):
            self.line = item.line
            return number(item.lexeme)
        if kind != "Var" or item.name not in self.variables:
            raise UnsupportedProperty(f"{item} is neither a number nor a value of {' or '.join(self.variables)}")
        self.line = item.line
        variable, numbers = self.variables[item.name]
        return numbers[_flat_index(item.indices, variable.shape)]


if __name__ == "__main__":
    serve(sys.argv[1])
