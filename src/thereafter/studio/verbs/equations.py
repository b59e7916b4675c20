"""The equations of a cell as they stand beside its picture; `_x` and `_{...}` are subscripts."""

from __future__ import annotations

from thereafter.cells.base import Cell
from thereafter.cells.elman import Elman
from thereafter.cells.gru import GRU
from thereafter.cells.lstm import LSTM
from thereafter.cells.minimal import MinGRU, MinLSTM
from thereafter.studio.answers.stepping import EquationAnswer


def equations(cell: Cell) -> list[EquationAnswer]:
    """The equations of a cell in the order in which they are computed; none for a cell without a row here."""
    if not type(cell).__module__.startswith("thereafter."):
        return []  # made from one of ours, it may compute something else
    if isinstance(cell, LSTM):
        rows = _lstm(cell)
    elif isinstance(cell, GRU):
        rows = _gru(cell)
    elif isinstance(cell, Elman):
        f = {"identity": "", "sigmoid": "σ"}.get(cell.options.nonlinearity, cell.options.nonlinearity)
        rows = [_equation(f"h_t = {f}({_sum(cell)})", "h")]
    elif isinstance(cell, MinGRU):
        rows = [
            _equation("z_t = σ(W_z x_t + b_z)", "update"),
            _equation("n_t = W_n x_t + b_n", "new"),
            _equation("h_t = (1 − z_t) h_{t−1} + z_t n_t", "h", "1 - update"),
        ]
    elif isinstance(cell, MinLSTM):
        rows = [
            _equation("f_t, i_t = σ(W x_t + b), made to sum to 1", "forget"),
            _equation("n_t = W_n x_t + b_n", "new"),
            _equation("h_t = f_t h_{t−1} + i_t n_t", "h", "forget"),
        ]
    else:
        rows = []
    return rows


def _equation(text: str, field: str = "", keeps: str = "") -> EquationAnswer:
    """`field` is what it computes, by its name in a trace ("forget", "c"), "" where a step does not show that.

    `keeps` is the gate that the old value of `field` is multiplied by, "1 - update" where it is what that leaves.
    """
    return EquationAnswer(text=text, field=field, keeps=keeps)


def _lstm(cell: LSTM) -> list[EquationAnswer]:
    def gate(letter: str, peephole: str) -> str:
        return f"{letter}_t = σ({_sum(cell, letter)}{f' + p_{letter} {peephole}' if cell.options.peephole else ''})"

    shown = "norm(c_t)" if cell.layer_norm else "c_t"
    hidden = f"o_t tanh({shown})"
    return [
        _equation("f_t = 1 − i_t" if cell.options.coupled else gate("f", "c_{t−1}"), "forget"),
        _equation(gate("i", "c_{t−1}"), "input"),
        _equation(f"g_t = tanh({_sum(cell, 'g')})", "cell"),
        _equation("c_t = f_t c_{t−1} + i_t g_t", "c", "forget"),
        _equation(gate("o", "c_t"), "output"),
        # a projection mixes the units: h has no unit that belongs to one of c
        _equation(f"h_t = W_{{hr}} ({hidden})") if cell.options.proj_size else _equation(f"h_t = {hidden}", "h"),
    ]


def _gru(cell: GRU) -> list[EquationAnswer]:
    new = "r_t (U_n h_{t−1} + b′)" if cell.options.reset == "after" else "U_n (r_t h_{t−1}) + b′"
    keeps = cell.options.update == "old"
    return [
        _equation(f"r_t = σ({_sum(cell, 'r')})", "reset"),
        _equation(f"z_t = σ({_sum(cell, 'z')})", "update"),
        _equation(f"n_t = tanh(W_n x_t + b_n + {new})", "new"),
        _equation("h_t = z_t h_{t−1} + (1 − z_t) n_t", "h", "update")
        if keeps
        else _equation("h_t = (1 − z_t) h_{t−1} + z_t n_t", "h", "1 - update"),
    ]


def _sum(cell: Cell, letter: str = "") -> str:
    """W x + U h + b of a gate; without a letter that of the one there is."""
    below = f"_{letter}" if letter else ""
    read, carried = f"W{below} x_t", f"U{below} h_{{t−1}}"
    if cell.layer_norm:
        read, carried = f"norm({read})", f"norm({carried})"
    return f"{read} + {carried} + b{below}"
