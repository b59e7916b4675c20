"""The gated recurrent unit (Cho et al. 2014), in the two orders and the two conventions the literature uses."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from thereafter.cells.base import Cell, HState, MemoryGate, Record, Weights, normalise, split
from thereafter.cells.options import GRUOptions


class GRU(Cell):
    """r, z = sigmoid(W x + U h + b)

        reset="after":   n = tanh(W_n x + b + r (U_n h + b'))        torch, cuDNN
        reset="before":  n = tanh(W_n x + b + U_n (r h) + b')        Cho et al. 2014 and most text books
        update="old":    h_t = z h_{t-1} + (1 - z) n                 torch: a positive bias of z keeps memory
        update="new":    h_t = (1 - z) h_{t-1} + z n                 a negative one does

    `update_bias`: how strongly the fresh cell keeps its memory: the initial bias of z, with the sign the convention
    needs; None keeps the plain initialisation. With reset before, layer norm takes U h of r, z apart from U_n (r h).

    >>> GRU(2, 3, reset="before").blocks
    ('reset', 'update', 'new')
    """

    name: ClassVar[str] = "gru"
    gates: ClassVar[tuple[str, ...]] = ("reset", "update", "new")
    options_type: ClassVar[type[GRUOptions]] = GRUOptions
    options: GRUOptions

    @property
    def memory_gate(self) -> MemoryGate:
        return MemoryGate("update", keeps=self.options.update == "old")

    def initialise(self, weights: dict[str, Tensor]) -> None:
        super().initialise(weights)
        bias = self.options.update_bias
        if bias is not None and "bias_ih" in weights:
            with torch.no_grad():
                rows = self.rows("update")
                weights["bias_ih"][rows] = bias if self.options.update == "old" else -bias
                if "bias_hh" in weights:
                    weights["bias_hh"][rows] = 0.0

    def step(
        self, z_BG: Tensor, state: HState, weights: Weights, record: Record | None = None
    ) -> tuple[Tensor, HState]:
        if self.options.reset == "after":
            return super().step(z_BG, state, weights, record)
        gates = 2 * self.hidden_size
        first = self._product(state.h, weights, slice(0, gates))
        r_BH, z_BH = split(torch.sigmoid(z_BG[:, :gates] + first), 2)
        second = self._product(r_BH * state.h, weights, slice(gates, None))
        n_BH = torch.tanh(z_BG[:, gates:] + second)
        return self._mix(r_BH, z_BH, n_BH, state, record)

    def pointwise(
        self, z_BG: Tensor, r_BG: Tensor, state: HState, weights: Weights, record: Record | None = None
    ) -> tuple[Tensor, HState]:
        x_r, x_z, x_n = split(z_BG, 3)
        h_r, h_z, h_n = split(r_BG, 3)
        r_BH = torch.sigmoid(x_r + h_r)
        z_BH = torch.sigmoid(x_z + h_z)
        n_BH = torch.tanh(x_n + r_BH * h_n)
        return self._mix(r_BH, z_BH, n_BH, state, record)

    def _product(self, h_BH: Tensor, weights: Weights, rows: slice) -> Tensor:
        """The recurrent product of some of the gates."""
        bias = weights["bias_hh"][rows] if "bias_hh" in weights else None
        if not self.layer_norm:
            return F.linear(h_BH, weights["weight_hh"][rows], bias)
        product = normalise(F.linear(h_BH, weights["weight_hh"][rows]), weights["norm_hh"][rows])
        return product if bias is None else product + bias

    def _mix(
        self, r_BH: Tensor, z_BH: Tensor, n_BH: Tensor, state: HState, record: Record | None
    ) -> tuple[Tensor, HState]:
        old, new = (z_BH, 1 - z_BH) if self.options.update == "old" else (1 - z_BH, z_BH)
        h_BH = old * state.h + new * n_BH
        if record is not None:
            record |= {"reset": r_BH, "update": z_BH, "new": n_BH}
        return h_BH, HState(h_BH)
