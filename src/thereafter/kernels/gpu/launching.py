"""A forward and a backward pass over whole sequences, on arrays laid out for them: by the programs, or by their twin.

Shapes: T steps, P rows and K units (filled up), S slices of `own` units.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from thereafter.kernels.gpu.copying import CopyPrograms
from thereafter.kernels.gpu.geometry import BlockTiling, Geometry
from thereafter.kernels.gpu.launch import Argument, Constants, launch
from thereafter.kernels.gpu.layout import Copies

Hold = Tensor | float | None
"""Zoneout: the share of the old state that is kept, for every step, row and unit [T, P, K], for all, or none."""


class Formula(NamedTuple):
    """What the programs compute at a step; see code/formulas.py and code/situations.py."""

    form: str
    peephole: bool
    marked: bool


@dataclass(frozen=True)
class ForwardArrays:
    """Read: `projected` = W x + b [T, P, S, 4, own], `weights` = U [S, 4, own, K], `peepholes` [3, K] (input, forget,
    output), `marks` [T + 1, P] (bit 0: live, bit 1: state is 0 before the step), `states[0]`, `cells[0]`.

    Written: `states` [T + 1, P, K], `outputs` [T, P, K] where rows are marked, `last_c` [P, K], and where `cells` has
    T + 1 steps (float32), these and in place of `projected` what the backward pass needs.
    """

    projected: Tensor
    weights: Tensor
    states: Tensor
    outputs: Tensor | None
    cells: Tensor
    last_c: Tensor
    peepholes: Tensor | None
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold


@dataclass(frozen=True)
class BackwardArrays:
    """Read: `kept` and `cells` of the forward pass, `turned` = U' [K, 4 K], `d_outputs` [T, P, K], `d_last_h` and
    `d_last_c` [P, K] in float32, `d_gates[T]` = 0.

    Written: `d_gates` [T + 1, P, 4, K], `d_first_h`, `d_first_c` [P, K] (without what comes through U), `d_biases` [4,
    P, K] and `d_peepholes` [3, P, K], sums over steps, all in float32 but `d_gates`.
    """

    kept: Tensor
    turned: Tensor
    d_outputs: Tensor
    d_gates: Tensor
    cells: Tensor
    d_last_h: Tensor | None
    d_last_c: Tensor | None
    d_first_h: Tensor
    d_first_c: Tensor
    peepholes: Tensor | None
    d_peepholes: Tensor | None
    d_biases: Tensor
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold


class Launcher(Protocol):
    """Something that runs these passes, and brings arrays into their order."""

    copies: Copies

    def forward(self, formula: Formula, over: Geometry, arrays: ForwardArrays) -> None: ...

    def backward(self, formula: Formula, over: Geometry, arrays: BackwardArrays) -> None: ...


_APART = 8
"""As code/meeting.py has it."""


class Programs:
    """The programs of `code/`, compiled when they are first asked for."""

    copies: Copies = CopyPrograms()

    def forward(self, formula: Formula, over: Geometry, arrays: ForwardArrays) -> None:
        tiling, steps = over.forward, len(arrays.states) - 1
        counters = arrays.states.new_zeros(over.rows // tiling.rows * steps * _APART, dtype=torch.int32)
        given = _arguments(arrays, arrays.states) | {"counters": counters, "steps": steps}
        constants = _constants(formula, over, tiling, arrays.hold_h, arrays.hold_c)
        _together(over, tiling, "forward", given, constants | {"SAVE": len(arrays.cells) > 1})

    def backward(self, formula: Formula, over: Geometry, arrays: BackwardArrays) -> None:
        tiling, steps = over.backward, len(arrays.d_outputs)
        groups = over.rows // tiling.rows
        teams = over.units // (4 * tiling.own) if tiling.family == "wide" else 0
        counters = arrays.d_gates.new_zeros(groups * (1 + teams) * steps * _APART, dtype=torch.int32)
        given = _arguments(arrays, arrays.d_gates) | {"counters": counters, "steps": steps}
        if teams:
            room = groups * teams * 16 * tiling.own * tiling.rows
            given["partial"] = arrays.d_gates.new_empty(room, dtype=torch.float32)
        constants = _constants(formula, over, tiling, arrays.hold_h, arrays.hold_c)
        constants |= {"FORWARD_OWN": over.forward.own, "CHARGED": arrays.d_last_c is not None}
        _together(over, tiling, "backward", given, constants)


PROGRAMS = Programs()


def _arguments(arrays: ForwardArrays | BackwardArrays, any_low: Tensor) -> dict[str, Argument]:
    """The arrays by name; where there is none, any other stands in, which is not looked at."""
    given: dict[str, Argument] = {"none": 0}
    stand_ins = {"marks": torch.uint8, "hold_h": any_low.dtype, "hold_c": any_low.dtype, "outputs": any_low.dtype}
    for field in fields(arrays):
        value = getattr(arrays, field.name)
        if field.name.startswith("hold_"):
            given["share_" + field.name[-1]] = value if isinstance(value, float) else 0.0
        if not isinstance(value, Tensor):
            value = any_low.view(stand_ins.get(field.name, torch.float32))
        given[field.name] = value
    return given


def _constants(formula: Formula, over: Geometry, tiling: BlockTiling, hold_h: Hold, hold_c: Hold) -> Constants:
    constants: Constants = {
        "P": over.rows,
        "K": over.units,
        "OWN": tiling.own,
        "FORM": formula.form,
        "PEEPHOLE": formula.peephole,
        "MARKED": formula.marked,
        "HOLD_H": _hold_kind(hold_h),
        "HOLD_C": _hold_kind(hold_c),
        "WARPS": tiling.warps,
    }
    if tiling.family == "wide":
        constants |= {
            "ROWS": tiling.rows,
            "CHUNK": tiling.chunk,
            "BUFFERS": tiling.buffers,
            "IN_REGISTERS": tiling.in_registers,
        }
    return constants


def _hold_kind(hold: Hold) -> int:
    return 0 if hold is None else 2 if isinstance(hold, Tensor) else 1


FORWARD_ARGUMENTS = (
    *(field.name for field in fields(ForwardArrays)),
    *("counters", "steps", "none", "share_h", "share_c"),
)
BACKWARD_ARGUMENTS = (
    *(field.name for field in fields(BackwardArrays)),
    *("partial", "counters", "steps", "none", "share_h", "share_c"),
)
_ONLY_WIDE = ("none", "partial")


def argument_names(family: str, direction: str) -> tuple[str, ...]:
    """The parameters of a program that are no constants, in their order."""
    names = FORWARD_ARGUMENTS if direction == "forward" else BACKWARD_ARGUMENTS
    return names if family == "wide" else tuple(name for name in names if name not in _ONLY_WIDE)


def _together(
    over: Geometry, tiling: BlockTiling, direction: str, given: dict[str, Argument], constants: Constants
) -> None:
    """All blocks at once."""
    arguments = {name: given[name] for name in argument_names(tiling.family, direction)}
    function, blocks = f"{tiling.family}_{direction}", over.blocks(tiling)
    launch(tiling.family, function, arguments, constants, warps=tiling.warps, blocks=blocks, together=True)
