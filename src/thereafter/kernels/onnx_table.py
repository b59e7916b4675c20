"""`thereafter::scan` in standard ONNX operators, for torch's exporter: a `Scan` whose body is one step of the cell.

Batch and length stay free. Lengths, resets and zoneout are part of the body, as in the plain loop
(`kernels.plain`). The cells' own equations are written down by `onnx_rules`, so that none is written twice: a new cell
is translated as soon as the functions of torch that it calls stand there.

Shapes: B rows, T steps, I inputs, G gate units, S the size of a state field.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import count
from types import ModuleType
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from thereafter.base.packages import require
from thereafter.cells.base import Cell
from thereafter.kernels.jobs import MASKED, cell_of
from thereafter.kernels.onnx_rules import AnyWriting, GraphWriter, Operand, Value


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
        flags["reset"] = writer.op("Unsqueeze", reset, writer.constant([-1]))
    if lengths is not None:
        flags["live"] = _live(writer, x, lengths)
    y, *parts = _scan(writer, made, x, flags, state, weights, masks, shares)
    return [y, *parts] if len(parts) == 2 else [y, *parts, _nothing(writer, parts[0])]


def _live(writer: NodeWriter, x: Value, lengths: Value) -> Value:
    """Whether a step comes before the end of its row."""
    last = writer.op("Squeeze", writer.op("Shape", x, start=1, end=2))
    zero, one = (writer.op("Squeeze", writer.constant([number])) for number in (0, 1))
    steps_T1 = writer.op("Unsqueeze", writer.op("Range", zero, last, one), writer.constant([-1]))
    return writer.op("Less", steps_T1, writer.op("Unsqueeze", lengths, writer.constant([1, 2])))


def _nothing(writer: NodeWriter, h: Value) -> Value:
    """c of a cell that has none: no columns."""
    return writer.op("Slice", h, writer.constant([0]), writer.constant([0]), writer.constant([1]))


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
    zero, one = writer.constant(0.0, np.float32), writer.constant(1.0, np.float32)
    old = list(before)
    if "reset" in slices:
        old = [writer.op("Where", slices["reset"], zero, part) for part in old]
    y, new = write_step(writer, cell, slices["z"], old, weights)
    if any(shares):
        masks = iter([value for name, value in slices.items() if name.startswith("mask")])
        kept = [next(masks) if share == MASKED else writer.constant(share, np.float32) for share in shares]
        new = [
            writer.op("Add", writer.op("Mul", share, stale), writer.op("Mul", writer.op("Sub", one, share), fresh))
            for share, stale, fresh in zip(kept, old, new, strict=True)
        ]
        y = new[0]
    if "live" in slices:
        new = [writer.op("Where", slices["live"], fresh, stale) for fresh, stale in zip(new, old, strict=True)]
        y = writer.op("Where", slices["live"], y, zero)
    return y, new


_numbers = count()
_ROWS, _STEPS = 2, 3
"""Sizes of the example that a cell is written from; neither is kept."""


def onnx_ir() -> ModuleType:
    """The package in which torch's exporter writes graphs."""
    return require("onnx_ir", "the ONNX translation of a layer", install="thereafter[export]")


def fresh(name: str) -> str:
    """A name that no value has yet."""
    return f"thereafter_{name}_{next(_numbers)}"


class NodeWriter(GraphWriter[Value]):
    """Operators, one after the other, at the end of a list of nodes; every value gets a name of its own."""

    def __init__(self, nodes: list[object], kind: np.dtype[np.generic]) -> None:
        self.nodes, self.kind, self._ir = nodes, kind, onnx_ir()
        self.type = self._ir.TensorType(self._ir.DataType.from_numpy(kind))

    def ops(self, kind: str, inputs: Sequence[Value], outputs: int, **attributes: object) -> list[Value]:
        """The outputs of an operator."""
        listed = self._ir.convenience.convert_attributes(attributes)
        node = self._ir.Node("", kind, list(inputs), attributes=listed, num_outputs=outputs)
        for value in node.outputs:
            value.name = fresh(kind.lower())
        self.nodes.append(node)
        return list(node.outputs)

    def constant(self, value: ArrayLike, dtype: type[np.generic] | np.dtype[np.generic] = np.int64) -> Value:
        """A small constant; fractions are of the type that everything has here."""
        kind = self.kind if np.issubdtype(dtype, np.floating) else dtype
        return self.op("Constant", value=self._ir.tensor(np.asarray(value, kind)))

    def weight(self, array: NDArray[np.generic], name: str = "weight") -> Value:
        """An array that is worked out of none of the layer's weights."""
        return self.constant(array, array.dtype)

    def result(self, value: Value) -> Value:
        """A value as one that a graph gives: its own, and of the type that everything has here."""
        node = self._ir.Node("", "Identity", [value], num_outputs=1)
        node.outputs[0].name, node.outputs[0].type = fresh("result"), self.type
        self.nodes.append(node)
        return node.outputs[0]


class CellWriting(AnyWriting):
    """A cell for any number of rows."""

    def expanded(self, x: Operand, like: Tensor) -> Value:
        """As it is: whatever is computed with it spreads it out."""
        return self.value(x, like.dtype)


def write_project(writer: NodeWriter, cell: Cell, x: Value, weights: Sequence[Value]) -> Value:
    """z of all steps [B, T, G] from x [B, T, I]."""
    with CellWriting(writer) as writing:
        x_BTI = writing.known(x, (_ROWS, _STEPS, cell.input_size))
        return writing.value(cell.project(x_BTI, _known_weights(writing, cell, weights)))


def write_step(
    writer: NodeWriter, cell: Cell, z: Value, state: Sequence[Value], weights: Sequence[Value]
) -> tuple[Value, list[Value]]:
    """The output and the new state of a step."""
    with CellWriting(writer) as writing:
        known = _known_weights(writing, cell, weights)
        width = len(cell.blocks) * cell.hidden_size if cell.hoists else cell.input_size
        sizes = zip(state, cell.state_sizes().values(), strict=True)
        before = cell.state_type(*(writing.known(part, (_ROWS, size)) for part, size in sizes))
        y, after = cell.step(writing.known(z, (_ROWS, width)), before, known)
        return writing.value(y), [writing.value(part) for part in after]


def _known_weights(writing: AnyWriting, cell: Cell, weights: Sequence[Value]) -> dict[str, Tensor]:
    shapes = zip(cell.shapes().items(), weights, strict=True)
    return {name: writing.known(weight, shape) for (name, shape), weight in shapes}
