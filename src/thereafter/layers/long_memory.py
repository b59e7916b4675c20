"""Fresh gates that remember for as long as a task needs: chrono initialisation (Tallec and Ollivier 2018).

    b_keep = log u,   u uniform in [1, M - 1]         a gate sigmoid(b) keeps a memory for about u steps
    b_new  = -log u                                   what an LSTM takes in is as little

M is the longest memory in steps. Cells that are linear in their state are stacked deep and work at all scales at once:
their memories are spread evenly on a logarithmic scale from 1 to M.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from thereafter.cells.base import Cell
from thereafter.errors import OptionError
from thereafter.layers.recurrent import Recurrent

_RATE = "log_rate"  # of a cell whose memory does not depend on its input


def remembers(cell: Cell) -> bool:
    """Whether a cell has something that keeps its memory."""
    gate = cell.memory_gate
    return _RATE in cell.shapes() or (gate is not None and "bias_ih" in cell.shapes())


def lengthen_memory(stack: Recurrent, steps: int) -> None:
    """Draw the biases of all cells of a stack so that their memories last from 1 to `steps` steps."""
    if steps < 2:
        raise OptionError(f"memory is {steps}; expected 0 (as the cell has it) or at least 2 steps")
    for lane in stack.lanes:
        cell, weights = lane.cell, dict(stack.lane_weights(lane))
        if not remembers(cell):
            raise OptionError(f"memory is {steps}, and the cell {cell.name!r} has no gate that keeps; try memory=0")
        with torch.no_grad():
            if _RATE in weights:
                weights[_RATE].copy_(-_log_spread(cell.hidden_size, steps))
            else:
                _fill(cell, weights, _log_spread(cell.hidden_size, steps) if cell.linear else _log_drawn(cell, steps))


def _fill(cell: Cell, weights: dict[str, Tensor], log_H: Tensor) -> None:
    gate = cell.memory_gate
    signs = {} if gate is None else {gate.name: 1.0 if gate.keeps else -1.0}
    if "forget" in signs:
        signs["input"] = -1.0
    for name, sign in signs.items():
        if name in cell.blocks:  # a coupled LSTM forgets by what it takes in
            rows = cell.rows(name)
            weights["bias_ih"][rows] = sign * log_H.to(weights["bias_ih"])
            if "bias_hh" in weights:
                weights["bias_hh"][rows] = 0.0


def _log_spread(units: int, steps: int) -> Tensor:
    return torch.linspace(0.0, math.log(steps), units)


def _log_drawn(cell: Cell, steps: int) -> Tensor:
    return torch.empty(cell.hidden_size).uniform_(1.0, max(2.0, steps - 1.0)).log()
