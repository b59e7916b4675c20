"""`thereafter::scan` in standard ONNX operators, for torch's exporter: a `Scan` whose body is one step of the cell.

Batch and length stay free. Lengths, resets and zoneout are part of the body, as in the plain loop
(`kernels.plain`). The cells' own equations are traced, so that none is written twice: a new cell is translated as
soon as its operators stand in `_RULES`.

Shapes: B rows, T steps, I inputs, G gate units, S the size of a state field.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from itertools import count
from types import ModuleType
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from thereafter.base.packages import require
from thereafter.cells.base import Cell
from thereafter.errors import OptionError
from thereafter.kernels.jobs import MASKED, cell_of


def onnx_table() -> dict[Callable[..., object], Callable[..., object]]:
    """What torch.onnx.export takes as `custom_translation_table`."""
    onnx_ir()  # says what to install where it is missing
    return {torch.ops.thereafter.scan.default: translate_scan}


def offer_translation() -> None:
    """Add the table to the export that is running, as if it had been given to it.

    torch has no public place for the translations of an operator. Every export has a registry of its own, a variable of
    the functions that are running; where torch keeps it elsewhere, its error says that `thereafter.scan` is missing.
    """
    frame = sys._getframe(1)
    while (caller := frame.f_back) is not None:
        frame, registry = caller, caller.f_locals.get("registry")
        if registry is not None and type(registry).__name__ == "ONNXRegistry":
            for operator, translation in onnx_table().items():
                if not registry.is_registered(operator):
                    registry.register_op(operator, translation)
            return


class _Typed(Protocol):
    """A value whose type is known, as those that an operator is given."""

    dtype: _Kind


class _Kind(Protocol):
    def numpy(self) -> np.dtype[np.generic]: ...


def translate_scan(
    x: _Typed,
    state: Sequence[Value],
    weights: Sequence[Value],
    lengths: Value | None,
    reset: Value | None,
    masks: Sequence[Value],
    shares: Sequence[float],
    cell: str,
    kernel: str,
    low: str,
) -> Sequence[Value]:
    """The values of outputs, h and c: what the operator gives, in a graph that is being written."""
    tracer = require("onnxscript", "torch's ONNX exporter", install="thereafter[export]").evaluator.default()
    writer = NodeWriter(tracer.nodes, x.dtype.numpy())
    made = cell_of(cell)
    flags: dict[str, Value] = {}
    if reset is not None:
        flags["reset"] = writer.op("Unsqueeze", reset, writer.whole(-1))
    if lengths is not None:
        flags["live"] = _live(writer, x, lengths)
    y, *parts = _scan(writer, made, x, flags, state, weights, masks, shares)
    return [y, *parts] if len(parts) == 2 else [y, *parts, _nothing(writer, parts[0])]


def _live(writer: NodeWriter, x: Value, lengths: Value) -> Value:
    """Whether a step comes before the end of its row."""
    last = writer.op("Squeeze", writer.op("Shape", x, start=1, end=2))
    zero, one = (writer.op("Squeeze", writer.whole(number)) for number in (0, 1))
    steps_T1 = writer.op("Unsqueeze", writer.op("Range", zero, last, one), writer.whole(-1))
    return writer.op("Less", steps_T1, writer.op("Unsqueeze", lengths, writer.whole(1, 2)))


def _nothing(writer: NodeWriter, h: Value) -> Value:
    """c of a cell that has none: no columns."""
    return writer.op("Slice", h, writer.whole(0), writer.whole(0), writer.whole(1))


def _scan(
    writer: NodeWriter,
    cell: Cell,
    x: Value,
    flags: dict[str, Value],
    state: Sequence[Value],
    weights: Sequence[Value],
    masks: Sequence[Value],
    shares: Sequence[float],
) -> list[Value]:
    """Outputs and last state of a loop over the steps; `flags`: which rows are reset or live, [B, T, 1]."""
    ir = onnx_ir()
    floats, truth = writer.type, ir.TensorType(ir.DataType.BOOL)
    inside = NodeWriter([], writer.kind)
    old = [ir.Value(name=fresh(f"{name}_before"), type=floats) for name in cell.state_sizes()]
    read: dict[str, Value] = {"z": write_project(writer, cell, x, weights)}
    read |= {f"mask{number}": mask for number, mask in enumerate(masks)}
    kinds = dict.fromkeys(read, floats) | dict.fromkeys(flags, truth)
    read |= flags
    slices = {name: ir.Value(name=fresh(name), type=kind) for name, kind in kinds.items()}
    y, new = _body(inside, cell, slices, old, weights, shares)
    results = [inside.result(value) for value in (*new, y)]
    body = ir.Graph([*old, *slices.values()], results, nodes=inside.nodes, name=fresh("step"))
    axes = {"scan_input_axes": [1] * len(read), "scan_output_axes": [1]}
    *last, outputs = writer.ops(
        "Scan", [*state, *read.values()], len(results), body=body, num_scan_inputs=len(read), **axes
    )
    return [outputs, *last]


def _body(
    writer: NodeWriter,
    cell: Cell,
    slices: dict[str, Value],
    before: Sequence[Value],
    weights: Sequence[Value],
    shares: Sequence[float],
) -> tuple[Value, list[Value]]:
    """One step: reset, the cell, zoneout, rows that are over; as `kernels.plain` has it."""
    zero, one = writer.number(0.0), writer.number(1.0)
    old = list(before)
    if "reset" in slices:
        old = [writer.op("Where", slices["reset"], zero, part) for part in old]
    y, new = write_step(writer, cell, slices["z"], old, weights)
    if any(shares):
        masks = iter([value for name, value in slices.items() if name.startswith("mask")])
        kept = [next(masks) if share == MASKED else writer.number(share) for share in shares]
        new = [
            writer.op("Add", writer.op("Mul", share, stale), writer.op("Mul", writer.op("Sub", one, share), fresh))
            for share, stale, fresh in zip(kept, old, new, strict=True)
        ]
        y = new[0]
    if "live" in slices:
        new = [writer.op("Where", slices["live"], fresh, stale) for fresh, stale in zip(new, old, strict=True)]
        y = writer.op("Where", slices["live"], y, zero)
    return y, new


Value = object
"""A value of a graph that is being written, `onnx_ir.Value`."""
Rule = Callable[..., Value | list[Value]]
_ROWS = 2
_numbers = count()


def onnx_ir() -> ModuleType:
    """The package in which torch's exporter writes graphs."""
    return require("onnx_ir", "the ONNX translation of a layer", install="thereafter[export]")


def fresh(name: str) -> str:
    """A name that no value has yet."""
    return f"thereafter_{name}_{next(_numbers)}"


class NodeWriter:
    """Operators, one after the other, at the end of a list of nodes; every value gets a name of its own."""

    def __init__(self, nodes: list[object], kind: np.dtype[np.generic]) -> None:
        self.nodes, self.kind, self._ir = nodes, kind, onnx_ir()
        self.type = self._ir.TensorType(self._ir.DataType.from_numpy(kind))

    def ops(self, name: str, inputs: Sequence[Value | None], outputs: int, **attributes: object) -> list[Value]:
        """The outputs of an operator."""
        given = self._ir.convenience.convert_attributes(attributes)
        node = self._ir.Node("", name, list(inputs), attributes=given, num_outputs=outputs)
        for value in node.outputs:
            value.name = fresh(name.lower())
        self.nodes.append(node)
        return list(node.outputs)

    def op(self, name: str, *inputs: Value | None, **attributes: object) -> Value:
        """The one output of an operator."""
        return self.ops(name, inputs, 1, **attributes)[0]

    def result(self, value: Value) -> Value:
        """A value as one that a graph gives: its own, and of the type that everything has here."""
        node = self._ir.Node("", "Identity", [value], num_outputs=1)
        node.outputs[0].name, node.outputs[0].type = fresh("result"), self.type
        self.nodes.append(node)
        return node.outputs[0]

    def whole(self, *numbers: int) -> Value:
        """A list of whole numbers."""
        return self.op("Constant", value=self._ir.tensor(np.array(numbers, np.int64)))

    def number(self, value: float) -> Value:
        """A number of the type that everything has here."""
        return self.op("Constant", value=self._ir.tensor(np.array(value, self.kind)))


def write_project(writer: NodeWriter, cell: Cell, x: Value, weights: Sequence[Value]) -> Value:
    """z of all steps [B, T, G] from x [B, T, I]."""
    return _write(writer, _traced(cell, "project"), [x, *weights])[0]


def write_step(
    writer: NodeWriter, cell: Cell, z: Value, state: Sequence[Value], weights: Sequence[Value]
) -> tuple[Value, list[Value]]:
    """The output and the new state of a step."""
    y, *new = _write(writer, _traced(cell, "step"), [z, *state, *weights])
    return y, new


def _traced(cell: Cell, part: str) -> fx.Graph:
    """What the cell does with arrays of two axes, as torch's basic operators."""
    sizes, names = list(cell.state_sizes().values()), list(cell.shapes())

    def project(x: Tensor, *weights: Tensor) -> list[Tensor]:
        return [cell.project(x, dict(zip(names, weights, strict=True)))]

    def step(z: Tensor, *rest: Tensor) -> list[Tensor]:
        state, weights = rest[: len(sizes)], rest[len(sizes) :]
        y, new = cell.step(z, cell.state_type(*state), dict(zip(names, weights, strict=True)))
        return [y, *new]

    with torch.no_grad():
        weights = [torch.zeros(shape) for shape in cell.shapes().values()]
        x = torch.zeros(_ROWS, cell.input_size)
        state = [torch.zeros(_ROWS, size) for size in sizes]
        z = project(x, *weights)[0]
        made = make_fx(project)(x, *weights) if part == "project" else make_fx(step)(z, *state, *weights)
    made.graph.eliminate_dead_code()
    return made.graph


def _write(writer: NodeWriter, graph: fx.Graph, inputs: Sequence[Value]) -> list[Value]:
    """The nodes of a traced graph as operators of ONNX."""
    values: dict[fx.Node, Value | list[Value]] = {}
    given = iter(inputs)

    def value_of(argument: object) -> object:
        if isinstance(argument, fx.Node):
            return values[argument]
        return [value_of(part) for part in argument] if isinstance(argument, list | tuple) else argument

    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "output":
            return [values[part] for part in node.args[0]]
        else:
            values[node] = _translated(writer, node, [value_of(argument) for argument in node.args])
    raise OptionError("the traced cell gives nothing")


def _translated(writer: NodeWriter, node: fx.Node, arguments: list[object]) -> Value | list[Value]:
    name = "getitem" if node.target is operator.getitem else str(node.target).split(".")[1]
    if name == "split":
        parts = len(node.meta["val"])
        return writer.ops("Split", arguments[:1], parts, axis=-1, num_outputs=parts)
    if node.kwargs:
        raise OptionError(
            f"the ONNX translation of {name} knows no {', '.join(node.kwargs)}; expected none; try another cell"
        )
    if name not in _RULES:
        raise OptionError(f"the ONNX translation knows no {name}; expected one of {', '.join(_RULES)}")
    return _RULES[name](writer, *arguments)


def _operand(w: NodeWriter, x: object) -> Value:
    return w.number(x) if isinstance(x, int | float) else x


def _two(name: str) -> Rule:
    return lambda w, a, b: w.op(name, _operand(w, a), _operand(w, b))


def _one(name: str, **attributes: object) -> Rule:
    return lambda w, x: w.op(name, x, **attributes)


def _linear(w: NodeWriter, bias: Value, x: Value, weight: Value) -> Value:
    return w.op("Add", w.op("MatMul", x, weight), bias)


def _normalised(w: NodeWriter, x: Value, _: object, gain: Value, shift: Value | None, epsilon: float) -> list[Value]:
    return [w.op("LayerNormalization", *(x, gain, *([] if shift is None else [shift])), axis=-1, epsilon=epsilon)]


def _slice(w: NodeWriter, x: Value, axis: int = 0, start: int = 0, end: int = np.iinfo(np.int64).max) -> Value:
    return w.op("Slice", x, w.whole(start), w.whole(end), w.whole(axis))


def _expm1(w: NodeWriter, x: Value) -> Value:
    """2 sinh(x / 2) exp(x / 2): exp(x) - 1 would lose the digits of a small x."""
    half = w.op("Mul", x, w.number(0.5))
    return w.op("Mul", w.number(2.0), w.op("Mul", w.op("Sinh", half), w.op("Exp", half)))


_RULES: dict[str, Rule] = {
    "t": _one("Transpose", perm=[1, 0]),
    "mm": _two("MatMul"),
    "addmm": _linear,
    "add": _two("Add"),
    "sub": _two("Sub"),
    "rsub": lambda w, a, b: w.op("Sub", _operand(w, b), a),
    "mul": _two("Mul"),
    "sigmoid": _one("Sigmoid"),
    "tanh": _one("Tanh"),
    "relu": _one("Relu"),
    "leaky_relu": _one("LeakyRelu", alpha=0.01),
    "hardtanh": lambda w, x, low, high: w.op("Clip", x, w.number(low), w.number(high)),
    "log_sigmoid_forward": lambda w, x: [w.op("Neg", w.op("Softplus", w.op("Neg", x)))],
    "exp": _one("Exp"),
    "neg": _one("Neg"),
    "sqrt": _one("Sqrt"),
    "expm1": _expm1,
    "expand": lambda w, x, _: x,  # what is multiplied is spread out anyway
    "slice": _slice,
    "native_layer_norm": _normalised,
    "getitem": lambda w, values, place: values[place],
}
