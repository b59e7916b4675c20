"""What a cell or a block computes, read off its own code: it runs once, and every torch function it calls is recorded.

So a diagram shows what is computed, and changes when the code does. A value that was read off is also written as a
formula: sigmoid(W x + U h + b).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from thereafter.cells.base import Cell, Record

_SAME = {"__add__": "add", "__radd__": "add", "__mul__": "mul", "__rmul__": "mul", "__sub__": "sub", "neg": "neg"}
_SAME |= {"__rsub__": "rsub", "rsub": "rsub", "log_sigmoid": "logsigmoid", "__neg__": "neg", "__matmul__": "matmul"}
_SAME |= {"__truediv__": "div", "__getitem__": "part", "chunk": "part", "unbind": "part", "split": "part"}
_SHAPING = {"expand_as", "expand", "view", "reshape", "transpose", "permute", "contiguous", "flatten", "dropout"}


@dataclass(frozen=True)
class TracedValue:
    """A value: the operation that made it and what it was made of. Equal operations on equal values are one value."""

    operation: str
    parts: tuple[TracedValue | float | str, ...] = ()

    @property
    def made_of(self) -> tuple[TracedValue, ...]:
        return tuple(part for part in self.parts if isinstance(part, TracedValue))


class CallRecorder(TorchFunctionMode):
    """Inside the block, every value made of the named tensors becomes a `TracedValue`; `node` looks it up."""

    def __init__(self, named: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._nodes = {id(tensor): TracedValue("named", (name,)) for name, tensor in named.items()}
        self._alive: list[object] = list(named.values())  # an id is a tensor's own only while the tensor lives

    def node(self, tensor: Tensor) -> TracedValue:
        return self._nodes[id(tensor)]

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = func(*args, **(kwargs or {}))
        operation = _SAME.get(func.__name__, func.__name__)
        arguments = [*args, *(kwargs or {}).values()]
        if isinstance(result, Tensor):
            self._record(result, operation, arguments, "")
        elif isinstance(result, tuple | list):
            for place, one in enumerate(result):
                if isinstance(one, Tensor):
                    self._record(one, operation, arguments, str(place))
        return result

    def _record(self, result: Tensor, operation: str, arguments: Sequence[object], place: str) -> None:
        parts = tuple(self._known_parts(arguments))
        made_of = [part for part in parts if isinstance(part, TracedValue)]
        self._alive.append(result)
        if not made_of or id(result) in self._nodes:
            return
        if operation in _SHAPING:
            node = made_of[0]
        elif operation == "part":
            asked = place or ", ".join(map(str, arguments[1:]))
            node = TracedValue("part", (made_of[0], asked))
        else:
            node = TracedValue(operation, parts)
        self._nodes[id(result)] = node

    def _known_parts(self, arguments: Iterable[object]) -> Iterator[TracedValue | float]:
        for one in arguments:
            if isinstance(one, Tensor) and id(one) in self._nodes:
                yield self._nodes[id(one)]
            elif isinstance(one, int | float) and not isinstance(one, bool):
                yield float(one)


@dataclass(frozen=True)
class CellReading:
    """A cell's step: what it reads, its gates by name in the order they are recorded, and the new state by field."""

    sources: dict[str, TracedValue]
    gates: dict[str, TracedValue]
    states: dict[str, TracedValue]
    weights: frozenset[TracedValue]

    def seen(self, node: TracedValue) -> list[TracedValue]:
        """The sources, gates and new states that a value is computed from directly."""
        stops = {*self.sources.values(), *self.gates.values(), *self.states.values()} - {node}
        stopped_at: dict[TracedValue, None] = {}

        def walk(one: TracedValue) -> None:
            if one in stops:
                stopped_at[one] = None
            else:
                for part in one.made_of:
                    walk(part)

        walk(node)
        return list(stopped_at)

    def operations(self) -> list[TracedValue]:
        """The steps from gates and old states to the new ones, each after what it is made of."""
        stops = {*self.sources.values(), *self.gates.values(), *self.weights}
        steps: dict[TracedValue, None] = {}

        def walk(one: TracedValue) -> None:
            if one in stops or one in steps or not self.seen(one):
                return
            for part in one.made_of:
                walk(part)
            if one.operation != "part":
                steps[one] = None

        for state in self.states.values():
            walk(state)
        return list(steps)


def read_cell(cell: Cell) -> CellReading:
    """Run one step of a cell on zeros and record what it computes."""
    weights = {name: torch.zeros(shape) for name, shape in cell.shapes().items()}
    x_BTI = torch.zeros(1, 1, cell.input_size)
    before = cell.zero_state(1, x_BTI)
    named = {"x": x_BTI} | {f"{name}_old": tensor for name, tensor in before._asdict().items()} | weights
    record: Record = {}
    with torch.no_grad(), CallRecorder(named) as reader:
        z_BG = cell.project(x_BTI, weights)[:, 0]
        _, after = cell.step(z_BG, before, weights, record)
    states = {name: reader.node(tensor) for name, tensor in after._asdict().items()}
    gates = {name: reader.node(tensor) for name, tensor in record.items()}
    gates = {name: node for name, node in gates.items() if node not in states.values()}
    sources = {"x": reader.node(x_BTI)} | {name: reader.node(tensor) for name, tensor in before._asdict().items()}
    return CellReading(sources, gates, states, frozenset(map(reader.node, weights.values())))


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
    return f"{_FUNCTIONS.get(node.operation, node.operation)}({' + '.join(_terms(node.made_of[0], named))})"


def _factor(node: TracedValue, named: Mapping[TracedValue, str]) -> str:
    terms = _terms(node, named)
    alone = len(terms) == 1 and " − " not in terms[0]
    return terms[0] if alone else f"({' + '.join(terms)})"
