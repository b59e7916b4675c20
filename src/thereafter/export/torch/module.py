"""A step of a plan as a module of plain torch operations, for `torch.export`.

Shapes: B rows, V words, E word vector, H features, W tokens of a window.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.export.parts import Array, HeadPlan, LanePlan, LayerPlan, SoftmaxPlan
from thereafter.export.plans import AveragePlan, RecurrentPlan, WindowPlan
from thereafter.layers.connect import join

StepPlan = RecurrentPlan | WindowPlan | AveragePlan


class PlannedStep(nn.Module):
    """(token[B], state...) -> (log_p[B, V], state...): the state in the order of `plan.state()`."""

    def __init__(self, plan: StepPlan) -> None:
        super().__init__()
        self.plan, self.words = plan, plan.wording
        self.register_buffer("embedding", tensor(plan.embedding))
        self.head = PlannedHead(plan.head)
        if isinstance(plan, RecurrentPlan):
            self.layers = nn.ModuleList(PlannedLayer(layer) for layer in plan.layers)
            self.fields = [len(layer.lane.fields) for layer in plan.layers]
        elif isinstance(plan, WindowPlan):
            self.register_buffer("matrix", tensor(plan.matrix))
            self.register_buffer("bias", tensor(plan.bias))

    def forward(self, token_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        if self.words.restart is not None:
            ended_B = token_B == self.words.restart
            token_B = torch.where(ended_B, self.words.start, token_B)
            parts = zip(state, self.plan.state(), strict=True)
            state = tuple(torch.where(ended_B[:, None], _like(part.fresh, one), one) for one, part in parts)
        f_BH, after = (
            self._windowed(token_B, state[0])
            if not isinstance(self.plan, RecurrentPlan)
            else self._recurred(token_B, list(state))
        )
        return (self.head(f_BH), *after)

    def _recurred(self, token_B: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        x_BI: Tensor = F.embedding(token_B, self.get_buffer("embedding"))
        after: list[Tensor] = []
        for layer, fields in zip(self.layers, self.fields, strict=True):
            x_BI, *ends = layer(x_BI, *state[len(after) : len(after) + fields])
            after += ends
        return x_BI, after

    def _windowed(self, token_B: Tensor, window_BW: Tensor) -> tuple[Tensor, list[Tensor]]:
        seen_BW = torch.cat((window_BW[:, 1:], token_B[:, None]), 1)
        x_BWE = F.embedding(seen_BW.clamp(min=0), self.get_buffer("embedding"))
        if isinstance(self.plan, WindowPlan):
            x_BX = x_BWE.flatten(1)
            f_BH = torch.tanh(F.linear(x_BX, self.get_buffer("matrix"), self.get_buffer("bias")))
            return (torch.cat((f_BH, x_BX), 1) if self.plan.direct else f_BH), [seen_BW]
        there_BW1 = (seen_BW >= 0).to(x_BWE.dtype)[..., None]
        return (x_BWE * there_BW1).sum(1) / there_BW1.sum(1), [seen_BW]


class PlannedLayer(nn.Module):
    """A cell and what is carried round it."""

    def __init__(self, layer: LayerPlan) -> None:
        super().__init__()
        self.kind = layer.join
        self.cell = cell_of(layer.lane)
        self.names = tuple(layer.lane.weights)
        given = {**layer.lane.weights, "gate_weight": layer.gate_weight, "gate_bias": layer.gate_bias}
        for name, weight in given.items():
            self.register_buffer(name, None if weight is None else tensor(weight))

    def forward(self, x_BI: Tensor, *before: Tensor) -> tuple[Tensor, ...]:
        weights = {name: self.get_buffer(name) for name in self.names}
        state = self.cell.state_type(*before)
        y_BO, after = self.cell.step(self.cell.input_product(x_BI, weights), state, weights)
        own = dict(self.named_buffers())
        return (join(self.kind, x_BI, y_BO, own.get("gate_weight"), own.get("gate_bias")), *after)


class PlannedHead(nn.Module):
    """log p of all words."""

    def __init__(self, head: HeadPlan) -> None:
        super().__init__()
        self.register_buffer("matrix", tensor(head.matrix))
        self.register_buffer("bias", tensor(head.bias))
        self.clusters = 0 if isinstance(head, SoftmaxPlan) else len(head.down)
        self.ranked = not isinstance(head, SoftmaxPlan)
        if not isinstance(head, SoftmaxPlan):
            self.register_buffer("rank", torch.from_numpy(head.rank.copy()))
            for number, (down, out) in enumerate(zip(head.down, head.out, strict=True)):
                self.register_buffer(f"down_{number}", tensor(down))
                self.register_buffer(f"out_{number}", tensor(out))

    def forward(self, f_BH: Tensor) -> Tensor:
        logp = F.log_softmax(F.linear(f_BH, self.get_buffer("matrix"), self.get_buffer("bias")), -1)
        if not self.ranked:
            return logp
        short = logp.shape[1] - self.clusters
        parts = [logp[:, :short]]
        for number in range(self.clusters):
            down = F.linear(f_BH, self.get_buffer(f"down_{number}"))
            inside = F.log_softmax(F.linear(down, self.get_buffer(f"out_{number}")), -1)
            parts.append(inside + logp[:, short + number : short + number + 1])
        return torch.cat(parts, 1).index_select(1, self.get_buffer("rank"))


def cell_of(lane: LanePlan) -> Cell:
    """The cell of a lane again, from its name and its options."""
    made: Cell = CELLS.load(lane.cell)(lane.input_size, lane.hidden_size, **lane.options)
    return made


def tensor(array: Array) -> Tensor:
    """An array of a plan as a tensor of its own."""
    return torch.from_numpy(array.copy())


def _like(value: float, part: Tensor) -> Tensor:
    return torch.full((), value if math.isfinite(value) else 0.0, dtype=part.dtype)
