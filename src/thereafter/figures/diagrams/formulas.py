"""A value that was read off the code, as a formula: sigmoid(W x + U h + b)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from thereafter.figures.diagrams.reading import TracedValue

_WEIGHTS = {"weight_ih": "W", "weight_hh": "U", "weight_hr": "P"}
_FUNCTIONS = {"sigmoid": "σ", "logsigmoid": "log σ", "layer_norm": "norm", "sqrt": "√", "neg": "−"}
_PRODUCTS = {"linear": " ", "conv2d": " ∗ "}
_LETTERS = {"update": "z"}  # as the literature calls it; any other gate has its first letter
SIGNS = {"mul": "×", "add": "+", "sub": "−", "rsub": "1−", "linear": "P", "conv2d": "∗", "lerp": "mix"}


def operation_name(node: TracedValue) -> str:
    """What is written on an operation: ×, +, tanh.

    >>> operation_name(TracedValue("mul")), operation_name(TracedValue("tanh"))
    ('×', 'tanh')
    """
    return SIGNS.get(node.operation) or _FUNCTIONS.get(node.operation, node.operation)


def formula(node: TracedValue, named: Mapping[TracedValue, str]) -> str:
    """The formula of a value in terms of the named ones; the value itself is always written out.

    >>> x, w = TracedValue("named", ("x",)), TracedValue("named", ("weight_ih",))
    >>> formula(TracedValue("sigmoid", (TracedValue("linear", (x, w)),)), {x: "x"})
    'σ(W x)'
    """
    inside = {one: name for one, name in named.items() if one != node}
    return " + ".join(_terms(node, inside))


def indexed(text: str, index: str) -> str:
    """The formula of a gate with its own weights: every gate has other rows of the same matrices.

    >>> indexed("σ(W x + U h + b)", "f")
    'σ(W<sub>f</sub> x + U<sub>f</sub> h + b<sub>f</sub>)'
    """
    return re.sub(r"(?<![\w<>])([WUbp])(?![\w<>])", rf"\1<sub>{index}</sub>", text) if index else text


def indices(gates: Iterable[str]) -> dict[str, str]:
    """The index of each gate's weights: a letter, the whole name where another has it, none where there is one gate.

    >>> indices(["reset", "update", "new"]), indices(["hidden"])
    ({'reset': 'r', 'update': 'z', 'new': 'n'}, {'hidden': ''})
    """
    names = list(gates)
    letters = [_LETTERS.get(name, name[0]) for name in names]
    if len(names) == 1:
        return {names[0]: ""}
    return {name: letter if letters.count(letter) == 1 else name for name, letter in zip(names, letters, strict=True)}


def _terms(node: TracedValue, named: Mapping[TracedValue, str]) -> list[str]:
    """The summands. A bias is one, however many vectors it is kept in."""
    if node in named:
        return [named[node]]
    if node.operation == "part":
        return _terms(node.made_of[0], named)
    if node.operation == "add":
        both = [term for part in node.made_of for term in _terms(part, named)]
        return [term for term in dict.fromkeys(both) if term != "b"] + ["b"] * ("b" in both)
    if node.operation in _PRODUCTS:
        given, weight, *bias = node.made_of
        read = _factor(given, named)
        read = f"({read})" if given.operation == "mul" and given not in named else read
        return [f"{_factor(weight, named)}{_PRODUCTS[node.operation]}{read}", *(["b"] if bias else [])]
    return [_single(node, named)]


def _single(node: TracedValue, named: Mapping[TracedValue, str]) -> str:
    if node.operation == "named":
        name = str(node.parts[0])
        kind = name.partition("_")[0]
        return _WEIGHTS.get(name) or {"bias": "b", "peephole": "p"}.get(kind, name)
    parts = [_factor(part, named) if isinstance(part, TracedValue) else f"{float(part):g}" for part in node.parts]
    if node.operation == "mul":
        return " ".join(sorted(parts, key=lambda part: part != "p" and part[-1] not in "0123456789"))
    if node.operation in ("sub", "rsub"):
        first, second = parts if node.operation == "sub" else parts[::-1]
        return f"{first} − {second}"
    if node.operation == "neg":
        return f"−{parts[0]}"
    return f"{_FUNCTIONS.get(node.operation, node.operation)}({formula_of_argument(node, named)})"


def formula_of_argument(node: TracedValue, named: Mapping[TracedValue, str]) -> str:
    """What stands between the brackets of a function."""
    return " + ".join(_terms(node.made_of[0], named))


def _factor(node: TracedValue, named: Mapping[TracedValue, str]) -> str:
    terms = _terms(node, named)
    alone = len(terms) == 1 and " − " not in terms[0]
    return terms[0] if alone else f"({' + '.join(terms)})"
