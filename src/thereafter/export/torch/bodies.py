"""The network between a token and its features, for each plan, as plain torch operations.

Each is a module `(token[B], state...) -> (features[B, H], state...)`, its state in the order of `state()`.

Shapes: B rows, V words, E word vector, H features, W tokens of a window, C context, K heads, D = H / K.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.cells import CELLS
from thereafter.cells.base import Cell
from thereafter.export.parts import EPSILON, Array, BlockPlan, LanePlan, LayerPlan, StatePart
from thereafter.export.plan import AveragePlan, NeuralPlan, RecurrentPlan, TransformerPlan, WindowPlan
from thereafter.layers.recurrent import join


def body_of(plan: NeuralPlan) -> nn.Module:
    """The body of a plan."""
    if isinstance(plan, RecurrentPlan):
        return PlannedStack(plan)
    return PlannedAttention(plan) if isinstance(plan, TransformerPlan) else PlannedWindow(plan)


def state_of(plan: NeuralPlan) -> list[StatePart]:
    """The arrays that a body carries: a Transformer's have a fixed size."""
    return plan.fixed_state() if isinstance(plan, TransformerPlan) else plan.state()


class PlannedStack(nn.Module):
    """Word vectors through a stack of cells."""

    def __init__(self, plan: RecurrentPlan) -> None:
        super().__init__()
        self.register_buffer("embedding", tensor(plan.embedding))
        self.layers = nn.ModuleList(PlannedLayer(layer) for layer in plan.layers)
        self.fields = [len(layer.lane.fields) for layer in plan.layers]

    def forward(self, token_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        x_BI: Tensor = F.embedding(token_B, self.get_buffer("embedding"))
        after: list[Tensor] = []
        for layer, fields in zip(self.layers, self.fields, strict=True):
            x_BI, *ends = layer(x_BI, *state[len(after) : len(after) + fields])
            after += ends
        return (x_BI, *after)


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


class PlannedWindow(nn.Module):
    """The last W tokens: word vectors side by side through a layer, or their mean."""

    def __init__(self, plan: WindowPlan | AveragePlan) -> None:
        super().__init__()
        self.direct = isinstance(plan, WindowPlan) and plan.direct
        self.joined = isinstance(plan, WindowPlan)
        self.register_buffer("embedding", tensor(plan.embedding))
        if isinstance(plan, WindowPlan):
            self.register_buffer("matrix", tensor(plan.matrix))
            self.register_buffer("bias", tensor(plan.bias))

    def forward(self, token_B: Tensor, window_BW: Tensor) -> tuple[Tensor, ...]:
        seen_BW = torch.cat((window_BW[:, 1:], token_B[:, None]), 1)
        x_BWE = F.embedding(seen_BW.clamp(min=0), self.get_buffer("embedding"))
        if self.joined:
            x_BX = x_BWE.flatten(1)
            f_BH = torch.tanh(F.linear(x_BX, self.get_buffer("matrix"), self.get_buffer("bias")))
            return torch.cat((f_BH, x_BX), 1) if self.direct else f_BH, seen_BW
        there_BW1 = (seen_BW >= 0).to(x_BWE.dtype)[..., None]
        return (x_BWE * there_BW1).sum(1) / there_BW1.sum(1), seen_BW


class PlannedAttention(nn.Module):
    """Transformer blocks with the keys and values of what was read.

    `count` [B] tokens are in sight, in the first places of `seen` [B, C] and of keys and values [B, K, C, D]. Where a
    row is full, its last C // 2 tokens are read again from position 0, as `models/transformer.py` has it.
    """

    def __init__(self, plan: TransformerPlan) -> None:
        super().__init__()
        self.context, self.scale, self.heads, self.pre = plan.context, plan.scale, plan.heads, plan.pre
        self.normed = plan.norm is not None
        self.register_buffer("embedding", tensor(plan.embedding))
        self.register_buffer("positions", tensor(plan.positions))
        self.blocks = nn.ModuleList(PlannedBlock(block, plan.heads, pre=plan.pre) for block in plan.blocks)
        for name, part in zip(("gain", "shift"), plan.norm or (), strict=False):
            self.register_buffer(name, tensor(part))

    def forward(self, token_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        full_B = state[0] >= self.context
        state = torch.cond(full_B.any(), self._reread, self._kept, (full_B, *state))
        f_BTH, after = self._attend(token_B[:, None], state)
        return (f_BTH[:, 0], after[0] + 1, *after[1:])

    def _kept(self, full_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        return tuple(part.clone() for part in state)

    def _reread(self, full_B: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        half = self.context // 2
        blank = tuple(torch.zeros_like(part) for part in state)
        read = list(self._attend(state[1][:, self.context - half :], blank)[1])
        read[0] = blank[0] + half
        return tuple(torch.where(rows_of(full_B, one), one, old) for one, old in zip(read, state, strict=True))

    def _attend(self, tokens_BT: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Features of tokens for which there is room, and the state with them, `count` as it was."""
        count_B, seen_BC, *caches = state
        position_BT = count_B[:, None] + torch.arange(tokens_BT.shape[1], device=count_B.device)
        x_BTH = F.embedding(tokens_BT, self.get_buffer("embedding")) * self.scale
        x_BTH = x_BTH + F.embedding(position_BT, self.get_buffer("positions"))
        after = [count_B, seen_BC.scatter(1, position_BT, tokens_BT)]
        slots_C = torch.arange(self.context, device=count_B.device)
        allowed_B1TC = (slots_C <= position_BT[..., None])[:, None]
        for number, block in enumerate(self.blocks):
            x_BTH, *kept = block(x_BTH, position_BT, allowed_B1TC, *caches[2 * number : 2 * number + 2])
            after += kept
        if self.normed:
            x_BTH = F.layer_norm(x_BTH, x_BTH.shape[-1:], self.get_buffer("gain"), self.get_buffer("shift"), EPSILON)
        return x_BTH, tuple(after)


class PlannedBlock(nn.Module):
    """A Transformer block over new tokens, with the keys and values of those before."""

    def __init__(self, plan: BlockPlan, heads: int, *, pre: bool) -> None:
        super().__init__()
        self.heads, self.pre, self.approximate = heads, pre, "tanh" if plan.approximate else "none"
        pairs = {name: vars(plan)[name] for name in ("into", "out", "widen", "narrow")}
        pairs |= {"first": plan.norm_attention, "second": plan.norm_forward}
        for name, (weight, bias) in pairs.items():
            self.register_buffer(f"{name}_weight", tensor(weight))
            self.register_buffer(f"{name}_bias", tensor(bias))

    def forward(
        self, x_BTH: Tensor, position_BT: Tensor, allowed_B1TC: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        read = self._norm("first", x_BTH) if self.pre else x_BTH
        rows, steps, size = x_BTH.shape
        heads = (rows, steps, self.heads, size // self.heads)
        q, k, v = (part.reshape(heads).transpose(1, 2) for part in self._by("into", read).chunk(3, -1))
        where_BKTD = position_BT[:, None, :, None].expand_as(k)
        keys, values = keys.scatter(2, where_BKTD, k), values.scatter(2, where_BKTD, v)
        scores = (q @ keys.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(~allowed_B1TC, -math.inf)
        y_BTH = self._by("out", (scores.softmax(-1) @ values).transpose(1, 2).flatten(2))
        x_BTH = x_BTH + y_BTH if self.pre else self._norm("first", x_BTH + y_BTH)
        read = self._norm("second", x_BTH) if self.pre else x_BTH
        y_BTH = self._by("narrow", F.gelu(self._by("widen", read), approximate=self.approximate))
        return x_BTH + y_BTH if self.pre else self._norm("second", x_BTH + y_BTH), keys, values

    def _by(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.get_buffer(f"{name}_weight"), self.get_buffer(f"{name}_bias"))

    def _norm(self, name: str, x: Tensor) -> Tensor:
        gain, shift = self.get_buffer(f"{name}_weight"), self.get_buffer(f"{name}_bias")
        return F.layer_norm(x, x.shape[-1:], gain, shift, EPSILON)


def rows_of(mask_B: Tensor, part: Tensor) -> Tensor:
    """A mask of rows with as many axes as a part of the state has."""
    return mask_B.view(-1, *[1] * (part.dim() - 1))


def cell_of(lane: LanePlan) -> Cell:
    """The cell of a lane again, from its name and its options."""
    made: Cell = CELLS.load(lane.cell)(lane.input_size, lane.hidden_size, **lane.options)
    return made


def tensor(array: Array) -> Tensor:
    """An array of a plan as a tensor of its own."""
    return torch.from_numpy(array.copy())
