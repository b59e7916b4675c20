"""`thereafter::scan` in standard ONNX operators, for torch's exporter: a `Scan` whose body is one step of the cell.

Batch and length stay free. Lengths, resets and zoneout are part of the body, as in the plain loop
(`kernels.reference`).

Shapes: B rows, T steps, I inputs, G gate units, S the size of a state field.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch

from thereafter.cells.base import Cell
from thereafter.kernels.onnx_steps import NodeWriter, Value, fresh, onnx_ir, write_project, write_step
from thereafter.kernels.spelling import MASKED, cell_of
from thereafter.packages import require


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
    outside = _Outside(writer, x, lengths, reset)
    y, *parts = _scan(writer, made, outside, state, weights, masks, shares)
    return [y, *parts] if len(parts) == 2 else [y, *parts, _nothing(writer, parts[0])]


class _Outside:
    """What stands outside the loop and is read step by step: the input, and which rows live or are reset, [B, T, 1]."""

    def __init__(self, writer: NodeWriter, x: Value, lengths: Value | None, reset: Value | None) -> None:
        self.x = x
        self.live = None if lengths is None else _live(writer, x, lengths)
        self.reset = None if reset is None else writer.op("Unsqueeze", reset, writer.whole(-1))


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
    outside: _Outside,
    state: Sequence[Value],
    weights: Sequence[Value],
    masks: Sequence[Value],
    shares: Sequence[float],
) -> list[Value]:
    """Outputs and last state of a loop over the steps."""
    ir = onnx_ir()
    floats, truth = writer.type, ir.TensorType(ir.DataType.BOOL)
    inside = NodeWriter([], writer.kind)
    old = [ir.Value(name=fresh(f"{name}_before"), type=floats) for name in cell.state_sizes()]
    read: dict[str, Value] = {"z": write_project(writer, cell, outside.x, weights)}
    read |= {f"mask{number}": mask for number, mask in enumerate(masks)}
    kinds = dict.fromkeys(read, floats)
    for name, flags in (("reset", outside.reset), ("live", outside.live)):
        if flags is not None:
            read[name], kinds[name] = flags, truth
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
    """One step: reset, the cell, zoneout, rows that are over; as `kernels.reference` has it."""
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
