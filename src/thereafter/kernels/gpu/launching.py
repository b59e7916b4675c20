"""A forward and a backward pass over whole sequences by the programs, on arrays laid out for them.

Shapes: T steps, P rows and K units (filled up), S slices of `own` units, G = H times the gates. A GRU that resets
before its product has three blocks in the place of four, and no slices: its `own` are all K units.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from thereafter.kernels.gpu.copying import CopyPrograms
from thereafter.kernels.gpu.geometry import BlockTiling, Geometry
from thereafter.kernels.gpu.launch import Argument, Constants, launch

Hold = Tensor | float | None
"""Zoneout: the share of the old state that is kept, for every step, row and unit [T, P, K], for all, or none."""


@dataclass(frozen=True)
class ForwardArrays:
    """Read: `projected` = W x + b [T, P, S, 4, own], `weights` = U [S, 4, own, K], `peepholes` [3, K] (input, forget,
    output), `marks` [T + 1, P] (bit 0: live, bit 1: state is 0 before the step), `states[0]`, `cells[0]`.

    Written: `states` [T + 1, P, K], `outputs` [T, P, K] where rows are marked, `last_c` [P, K], and where `cells` has
    T + 1 steps (float32), these and in place of `projected` what the backward pass needs.

    Of a GRU that resets before its product alone, whose `projected` has both biases. Written: `resets` = r h [T, P, K].

    Of a layer-norm LSTM alone, whose W x is normalised already. Read: `norms` [6, K] in float32 (gains of the four
    gates, gain and shift of c); 1 / G, 1 / H and what is added to a variance. Written for the backward pass: `hats`,
    the normalised U h as `projected`, and `statistics` [T, 3, P]: mean and 1 / sd of c, 1 / sd of U h.
    """

    projected: Tensor
    weights: Tensor
    states: Tensor
    resets: Tensor | None
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
_OF_NORM = ("hats", "statistics", "norms", "d_raw", "d_norms", "exchange", *_NUMBERS)
_OF_MEMORY = ("last_c", "peepholes", "d_peepholes", "d_last_h", "d_first_h", "hold_h", "share_h", "partial", "none")
_LACKS = {"recurrent": ("resets",), "reset_before": (*_OF_NORM, *_OF_MEMORY)}
"""Arguments that the programs of a module do not know. Of layer norm: None where the LSTM has none."""
APART = 8
"""As code/meeting.py has it."""
_EMPTY = -1
"""All bits set: code/layer_norm.py's EMPTY."""
_IN_FLIGHT = 6
"""Pieces on their way to a thread of code/reset_before.py, of 16 registers each."""


class Programs:
    """The programs of `code/`, compiled when they are first asked for. `form`: as code/formulas.py names it."""

    copies = CopyPrograms()

    def forward(self, form: str, over: Geometry, arrays: ForwardArrays) -> None:
        saved: Constants = {"SAVE": len(arrays.cells) > 1}
        _start("forward", form, over, over.forward, arrays, arrays.states, len(arrays.states) - 1, saved)

    def backward(self, form: str, over: Geometry, arrays: BackwardArrays) -> None:
        more: Constants = {"CHARGED": arrays.d_last_c is not None}
        if over.backward.family != "before":
            more["FORWARD_OWN"] = over.forward.own
        _start("backward", form, over, over.backward, arrays, arrays.d_gates, len(arrays.d_outputs), more)


PROGRAMS = Programs()


def _start(
    direction: str,
    form: str,
    over: Geometry,
    tiling: BlockTiling,
    arrays: ForwardArrays | BackwardArrays,
    any_low: Tensor,
    steps: int,
    own_constants: Constants,
) -> None:
    """All blocks at once."""
    before, normed = tiling.family == "before", arrays.norms is not None
    module, function = ("reset_before", f"before_{direction}") if before else ("recurrent", direction)
    groups = over.rows // tiling.rows
    teams = over.units // (4 * tiling.own) if tiling.family == "wide" and direction == "backward" else 0
    room: dict[str, Argument] = {"exchange": None}
    if normed:  # two exchanges a step, of two sums for every slice and row
        places = steps * over.rows * 4 * (over.units // tiling.own)
        room["exchange"] = any_low.new_full((places,), _EMPTY, dtype=torch.int32).view(torch.float32)
    if direction == "backward":
        room["partial"] = any_low.new_empty(groups * teams * 16 * tiling.own * tiling.rows, dtype=torch.float32)
    meetings = 2 if before else 1 + teams
    room["counters"] = any_low.new_zeros(groups * meetings * steps * APART, dtype=torch.int32)
    room |= {"steps": steps, "none": 0}
    arguments = {name: value for name, value in _named(arrays, room).items() if name not in _LACKS[module]}
    constants: Constants = {
        "P": over.rows,
        "K": over.units,
        "ROWS": tiling.rows,
        "OWN": tiling.own,
        "FORM": form,
        "MARKED": arrays.marks is not None,
        "HOLD_C": hold_kind(arrays.hold_c),
    }
    if before:
        constants |= zip(("SHARED_R", "SHARED_Z", "SHARED_N"), tiling.in_shared, strict=True)
        constants["AHEAD"] = _IN_FLIGHT
    else:
        constants |= {
            "CHUNK": tiling.chunk,
            "BUFFERS": tiling.buffers,
            "IN_REGISTERS": tiling.in_registers,
            "PEEPHOLE": arrays.peepholes is not None,
            "HOLD_H": hold_kind(arrays.hold_h),
            "WARPS": tiling.warps,
        }
        # the compiler knows what is not there: it is no argument
        absent = [name for name in (("d_biases",) if normed else _OF_NORM) if name in arguments]
        constants |= dict.fromkeys(absent)
        arguments = {name: value for name, value in arguments.items() if name not in absent}
    launch(
        module,
        function,
        arguments,
        constants | own_constants,
        warps=tiling.warps,
        blocks=over.blocks(tiling),
        together=True,
    )


def _named(arrays: ForwardArrays | BackwardArrays, room: dict[str, Argument]) -> dict[str, Argument]:
    """All arguments, in the order of the programs: arrays, room, the shares of a state that are kept, numbers."""
    every = {field.name: getattr(arrays, field.name) for field in fields(arrays)}
    numbers = {name: every.pop(name) for name in _NUMBERS if name in every}
    shares = {"share_h": every["hold_h"], "share_c": every["hold_c"]}
    present = {name: value if isinstance(value, Tensor) else None for name, value in every.items()} | room
    return present | {name: share if isinstance(share, float) else 0.0 for name, share in shares.items()} | numbers


def hold_kind(hold: Hold) -> int:
    """As code/situations.py has it."""
    return 0 if hold is None else 2 if isinstance(hold, Tensor) else 1
