"""A forward and a backward pass over whole sequences by the programs, on arrays laid out for them.

Shapes: T steps, P rows and K units (filled up), S slices of `own` units, G = H times the gates.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from thereafter.kernels.gpu.copying import CopyPrograms
from thereafter.kernels.gpu.geometry import BlockTiling, Geometry
from thereafter.kernels.gpu.launch import Argument, Constants, launch

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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

    Of a layer-norm LSTM alone, whose W x is normalised already. Read: `norms` [6, K] in float32 (gains of the four
    gates, gain and shift of c); 1 / G, 1 / H and what is added to a variance. Written for the backward pass: `hats`,
    the normalised U h as `projected`, and `statistics` [T, 3, P]: mean and 1 / sd of c, 1 / sd of U h.
    """

    projected: Tensor
    weights: Tensor
    states: Tensor
    outputs: Tensor | None
    cells: Tensor
    last_c: Tensor
    hats: Tensor | None
    statistics: Tensor | None
    norms: Tensor | None
    peepholes: Tensor | None
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold
    one_gate: float
    one_unit: float
    eps: float


@dataclass(frozen=True)
class BackwardArrays:
    """Read: `kept`, `cells`, `hats` and `statistics` of the forward pass, `turned` = U' [K, 4 K], `d_outputs` [T, P,
    K], `d_last_h` and `d_last_c` [P, K] in float32, and the last step of `d_gates`, or of `d_raw`, which is 0.

    Written: `d_gates` [T + 1, P, 4, K], `d_first_h`, `d_first_c` [P, K] (without what comes through U), `d_biases` [4,
    P, K] and `d_peepholes` [3, P, K], sums over steps, all in float32 but `d_gates`. Of a layer-norm LSTM `d_gates` =
    dz has T steps, `d_raw` = d(U h) one more, and `d_norms` [6, P, K] stands in the place of `d_biases`.
    """

    kept: Tensor
    turned: Tensor
    d_outputs: Tensor
    d_gates: Tensor
    d_raw: Tensor | None
    cells: Tensor
    hats: Tensor | None
    statistics: Tensor | None
    d_last_h: Tensor | None
    d_last_c: Tensor | None
    d_first_h: Tensor
    d_first_c: Tensor
    norms: Tensor | None
    d_norms: Tensor | None
    peepholes: Tensor | None
    d_peepholes: Tensor | None
    d_biases: Tensor | None
    marks: Tensor | None
    hold_h: Hold
    hold_c: Hold
    one_gate: float
    one_unit: float


_NUMBERS = ("one_gate", "one_unit", "eps")
_OF_NORM = ("hats", "statistics", "norms", "d_raw", "d_norms", *_NUMBERS)
"""What the programs of layer norm have more than the others, whose backward pass has `d_biases` for it."""
_STAND_INS = {"marks": torch.uint8, "hold_h": None, "hold_c": None, "outputs": None, "hats": None}
"""The type of an array that stands in for one that is not there: that of products, or float32 where none is named."""
APART = 8
"""As code/meeting.py has it."""
_EMPTY = -1
"""All bits set: code/layer_norm.py's EMPTY."""


class Programs:
    """The programs of `code/`, compiled when they are first asked for."""

    copies = CopyPrograms()

    def forward(self, formula: Formula, over: Geometry, arrays: ForwardArrays) -> None:
        saved: Constants = {"SAVE": len(arrays.cells) > 1}
        _start("forward", formula, over, over.forward, arrays, arrays.states, len(arrays.states) - 1, saved)

    def backward(self, formula: Formula, over: Geometry, arrays: BackwardArrays) -> None:
        more: Constants = {"FORWARD_OWN": over.forward.own, "CHARGED": arrays.d_last_c is not None}
        _start("backward", formula, over, over.backward, arrays, arrays.d_gates, len(arrays.d_outputs), more)


PROGRAMS = Programs()


def _start(
    direction: str,
    formula: Formula,
    over: Geometry,
    tiling: BlockTiling,
    arrays: ForwardArrays | BackwardArrays,
    any_low: Tensor,
    steps: int,
    own_constants: Constants,
) -> None:
    """All blocks at once."""
    normed = arrays.norms is not None
    groups = over.rows // tiling.rows
    teams = over.units // (4 * tiling.own) if tiling.family == "wide" and direction == "backward" else 0
    values: dict[str, Argument] = {}
    if normed:  # two exchanges a step, of two sums for every slice and row
        places = steps * over.rows * 4 * (over.units // tiling.own)
        values["exchange"] = any_low.new_full((places,), _EMPTY, dtype=torch.int32).view(torch.float32)
    if direction == "backward":
        values["partial"] = any_low.new_empty(groups * teams * 16 * tiling.own * tiling.rows, dtype=torch.float32)
    values["counters"] = any_low.new_zeros(groups * (1 + teams) * steps * APART, dtype=torch.int32)
    constants: Constants = {
        "P": over.rows,
        "K": over.units,
        "ROWS": tiling.rows,
        "OWN": tiling.own,
        "CHUNK": tiling.chunk,
        "BUFFERS": tiling.buffers,
        "IN_REGISTERS": tiling.in_registers,
        "FORM": formula.form,
        "PEEPHOLE": formula.peephole,
        "MARKED": formula.marked,
        "HOLD_H": hold_kind(arrays.hold_h),
        "HOLD_C": hold_kind(arrays.hold_c),
        "WARPS": tiling.warps,
    }
    launch(
        "layer_norm" if normed else "recurrent",
        f"norm_{direction}" if normed else direction,
        arguments(arrays, any_low, values | {"steps": steps, "none": 0}, ("d_biases",) if normed else _OF_NORM),
        constants | own_constants,
        warps=tiling.warps,
        blocks=over.blocks(tiling),
        together=True,
    )


def arguments(
    arrays: DataclassInstance, any_low: Tensor, more: dict[str, Argument], without: tuple[str, ...] = ()
) -> dict[str, Argument]:
    """The arguments of a program by name, in its order: arrays, more, the shares of a state that are kept, numbers.

    Where there is no array, any other stands in, which is not looked at.
    """
    values: dict[str, Argument] = {}
    trailing: dict[str, Argument] = {}
    for field in fields(arrays):
        name, value = field.name, getattr(arrays, field.name)
        if name in without:
            continue
        if name in _NUMBERS:
            trailing[name] = value
            continue
        if name.startswith("hold_"):
            trailing["share_" + name[-1]] = value if isinstance(value, float) else 0.0
        if not isinstance(value, Tensor):
            value = any_low.view(_STAND_INS.get(name, torch.float32) or any_low.dtype)
        values[name] = value
    return values | more | trailing


def hold_kind(hold: Hold) -> int:
    """As code/situations.py has it."""
    return 0 if hold is None else 2 if isinstance(hold, Tensor) else 1
