"""A recurrent model run by the plain loop, with the state after every step kept as a node that gradients can reach.

Shapes: B rows, T steps, I inputs of a layer, G rows of its gates, H features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from thereafter.cells.base import Cell, Record, Weights
from thereafter.cells.gru import GRU
from thereafter.layers.connect import join
from thereafter.models.recurrent import RecurrentModel


@dataclass(frozen=True)
class LayerRun:
    """What one layer did: `states[0]` is the state before the first step, `states[t + 1]` that after step t.

    `z_BTG` is the projected input; `records[t]` the gates of step t.
    """

    name: str
    cell: Cell
    weights: Weights
    z_BTG: Tensor
    states: list[Any]
    records: list[Record]

    @property
    def memory(self) -> str:
        """The field that the direct path runs along: c, or h where there is no c."""
        return list(self.cell.state_sizes())[-1]

    def gates(self) -> list[Tensor] | None:
        """The factor [B, M] of every step on the direct path; None where the cell has no such path."""
        kept = [kept_share(self.cell, record) for record in self.records]
        return [gate for gate in kept if gate is not None] or None


def kept_share(cell: Cell, record: Record) -> Tensor | None:
    """The gate [B, M] by which one step multiplies the memory on the direct path; None where there is no such path."""
    if "forget" in record:  # LSTM, minLSTM
        return record["forget"]
    if "update" in record:
        old = isinstance(cell, GRU) and cell.update == "old"
        return record["update"] if old else 1 - record["update"]
    return record.get("decay")


def run_layers(model: RecurrentModel, x_BTI: Tensor) -> tuple[list[LayerRun], Tensor]:
    """Every layer over word vectors, without dropout, and the features the head sees."""
    stack, runs = model.layers, []
    for index, lanes in enumerate(stack.layers):
        lane = lanes[0]  # language models run in one direction
        weights = stack.lane_weights(lane)
        z_BTG = lane.cell.project(x_BTI, weights)
        states: list[Any] = [lane.cell.zero_state(len(x_BTI), x_BTI)]
        outputs, records = [], []
        for z_BG in z_BTG.unbind(1):
            record: Record = {}
            y_BO, state = lane.cell.step(z_BG, states[-1], weights, record)
            outputs.append(y_BO)
            states.append(state)
            records.append(record)
        runs.append(LayerRun(lane.name, lane.cell, weights, z_BTG, states, records))
        y_BTO = torch.stack(outputs, dim=1)
        carry = (getattr(stack, f"highway_{part}_l{index}", None) for part in ("weight", "bias"))
        x_BTI = join(stack.connect, x_BTI, y_BTO, *carry) if index else y_BTO
    return runs, x_BTI
