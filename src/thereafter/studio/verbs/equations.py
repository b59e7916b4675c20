"""The equations of a cell as they stand beside its picture; `_x` and `_{...}` are subscripts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from thereafter.cells.base import Cell
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import MinGRU, MinLSTM


@dataclass(frozen=True)
class Equation:
    """`field` is what it computes, by its name in a trace ("forget", "c"), "" where a step does not show that.

    `keeps` is the gate that the old value of `field` is multiplied by, "1 - update" where it is what that leaves.
    """

    text: str
    field: str = ""
    keeps: str = ""


def equations(cell: Cell) -> list[dict[str, Any]]:
    """The equations of a cell in the order in which they are computed; none for a cell without a row here."""
    if not type(cell).__module__.startswith("thereafter."):
        return []  # made from one of ours, it may compute something else
    if isinstance(cell, LSTM):
        rows = _lstm(cell)
    elif isinstance(cell, GRU):
        rows = _gru(cell)
    elif isinstance(cell, Elman):
        f = {"identity": "", "sigmoid": "σ"}.get(cell.options.nonlinearity, cell.options.nonlinearity)
        rows = [Equation(f"h_t = {f}({_sum(cell)})", "h")]
    elif isinstance(cell, MinGRU):
        rows = [
            Equation("z_t = σ(W_z x_t + b_z)", "update"),
            Equation("n_t = W_n x_t + b_n"),
            Equation("h_t = (1 − z_t) h_{t−1} + z_t n_t", "h", "1 - update"),
        ]
    elif isinstance(cell, MinLSTM):
        rows = [
            Equation("f_t, i_t = σ(W x_t + b), made to sum to 1", "forget"),
            Equation("n_t = W_n x_t + b_n"),
            Equation("h_t = f_t h_{t−1} + i_t n_t", "h", "forget"),
        ]
    else:
        rows = []
    return [asdict(row) for row in rows]


def _lstm(cell: LSTM) -> list[Equation]:
    def gate(letter: str, seen: str) -> str:
        return f"{letter}_t = σ({_sum(cell, letter)}{f' + p_{letter} {seen}' if cell.options.peephole else ''})"

    shown = "norm(c_t)" if cell.layer_norm else "c_t"
    hidden = f"o_t tanh({shown})"
    return [
        Equation("f_t = 1 − i_t" if cell.options.coupled else gate("f", "c_{t−1}"), "forget"),
        Equation(gate("i", "c_{t−1}"), "input"),
        Equation(f"g_t = tanh({_sum(cell, 'g')})"),
        Equation("c_t = f_t c_{t−1} + i_t g_t", "c", "forget"),
        Equation(gate("o", "c_t"), "output"),
        # a projection mixes the units: h has no unit that belongs to one of c
        Equation(f"h_t = W_{{hr}} ({hidden})") if cell.options.proj_size else Equation(f"h_t = {hidden}", "h"),
    ]


def _gru(cell: GRU) -> list[Equation]:
    new = "r_t (U_n h_{t−1} + b′)" if cell.options.reset == "after" else "U_n (r_t h_{t−1}) + b′"
    keeps = cell.options.update == "old"
    return [
        Equation(f"r_t = σ({_sum(cell, 'r')})", "reset"),
        Equation(f"z_t = σ({_sum(cell, 'z')})", "update"),
        Equation(f"n_t = tanh(W_n x_t + b_n + {new})"),
        Equation("h_t = z_t h_{t−1} + (1 − z_t) n_t", "h", "update")
        if keeps
        else Equation("h_t = (1 − z_t) h_{t−1} + z_t n_t", "h", "1 - update"),
    ]


def _sum(cell: Cell, letter: str = "") -> str:
    """W x + U h + b of a gate; without a letter that of the one there is."""
    below = f"_{letter}" if letter else ""
    read, carried = f"W{below} x_t", f"U{below} h_{{t−1}}"
    if cell.layer_norm:
        read, carried = f"norm({read})", f"norm({carried})"
    return f"{read} + {carried} + b{below}"
