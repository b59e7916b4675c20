"""What one step of a neural language model does between a token and the head, over buffers at fixed addresses.

Every body is the same arithmetic as `NeuralModel.step`, written so that a CUDA graph can capture it: nothing is
read back from the device, no shape depends on a number, and states are written in place. It runs on a CPU just as well.

Shapes: B rows, R = V + 1 rows of the word vectors, E word vector, X = E padded, H units, G = 4 H, K = X + H padded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from thereafter.cells.base import State
from thereafter.cells.lstm import LSTM
from thereafter.kernels.one_token import TILE, VectorTile, begin_rows, lstm_row, lstm_rows, segment_size
from thereafter.layers.inputs import Lane
from thereafter.layers.recurrent import join
from thereafter.models.look import memory_name
from thereafter.models.neural import NeuralModel
from thereafter.models.recurrent import RecurrentModel

_WIDENS = hasattr(torch.ops.aten.mm, "dtype")
"""Whether a product of bfloat16 matrices can be float32: torch has it since 2.8."""


class StepBody(Protocol):
    """Tokens to features, one at a time, with states of its own."""

    @property
    def memory(self) -> Mapping[str, Tensor]:
        """The states by the names of the model's own, each [B, ...], as views of the buffers."""

    def step(self, token_B: Tensor) -> Tensor:
        """The features after one more token of each row, [B, H or more]: numbers beyond H are 0."""


def product(a_BK: Tensor, w_NK: Tensor) -> Tensor:
    """a w^T, [B, N], in float32 whatever the type of the factors."""
    if a_BK.dtype == torch.float32:
        return a_BK @ w_NK.t()
    if a_BK.is_cuda and _WIDENS:
        return torch.mm(a_BK, w_NK.t(), out_dtype=torch.float32)
    return a_BK.float() @ w_NK.float().t()


def zero_filled(part: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """A copy of a matrix in a type, its rows filled up with zeros."""
    whole = part.new_zeros(len(part), width, dtype=dtype)
    whole[:, : part.shape[1]] = part
    return whole


def chains(model: RecurrentModel) -> bool:
    """Whether a model is a plain stack of LSTM layers, whose two products of a layer are one."""
    return model.settings.connect is None and all(_plain_lstm(lane) for lane in model.layers.lanes)


def _plain_lstm(lane: Lane) -> bool:
    cell = lane.cell
    if type(cell) is not LSTM or cell.layer_norm:  # a subclass may have another rule
        return False
    return not (cell.options.peephole or cell.options.coupled or cell.options.proj_size)


class LstmChain:
    """z_l = [W | U] [x; h] + b of every layer in one product, then i, f, g, o and the new c and h.

    The buffer [x | h_0 | h_1 | ...] is the input of all layers: layer l reads the segments l and l + 1, and writes the
    second. Segments are filled up to a multiple of 16 numbers. c is float32 whatever the weights are.

    `programs`: by `kernels.one_token`; for one row its products too, else torch's. Only on an NVIDIA GPU.
    """

    def __init__(
        self, model: RecurrentModel, rows: int, dtype: torch.dtype, *, programs: bool, tile: VectorTile = TILE
    ) -> None:
        self._programs, self._tile = programs, tile
        self._restart = -1 if model.restart is None else model.restart
        self._start = model.vocabulary_size
        self.table_RX = zero_filled(model.embedding.weight, segment_size(model.embedding.size), dtype)
        lanes = model.layers.lanes
        segments = [self.table_RX.shape[1], *(segment_size(lane.cell.hidden_size) for lane in lanes)]
        self._chain_BW = self.table_RX.new_zeros(rows, sum(segments))
        self._before_BW = torch.zeros_like(self._chain_BW) if programs and rows == 1 else self._chain_BW
        self.memory: dict[str, Tensor] = {}
        self._layers: list[_ChainLayer] = []
        begin = 0
        for lane, inputs, states in zip(lanes, segments, segments[1:], strict=False):
            weights = model.layers.lane_weights(lane)
            layer = _ChainLayer(weights, self._chain_BW[:, begin : begin + inputs + states], inputs)
            layer.before_BS = self._before_BW[:, begin + inputs : begin + inputs + states]
            self._layers.append(layer)
            self.memory |= {memory_name(lane.name, "h"): layer.h_BH, memory_name(lane.name, "c"): layer.c_BH}
            begin += inputs
        self._features_BS = self._chain_BW[:, begin:]

    def step(self, token_B: Tensor) -> Tensor:
        if self._programs:
            begin_rows(token_B, self.table_RX, self._chain_BW, self._before_BW, self._restart, self._start)
        else:
            self._begin(token_B)
        for layer in self._layers:
            if self._programs and len(token_B) == 1:
                layer.step_row(token_B, self._restart, self._tile)
            elif self._programs:
                z_BG = product(layer.joint_BK, layer.weight_GK)
                lstm_rows(token_B, z_BG, layer.bias_G, layer.c_BH, layer.h_BH, self._restart)
            else:
                layer.step()
        return self._features_BS

    def _begin(self, token_B: Tensor) -> None:
        inputs = self.table_RX.shape[1]
        if self._restart >= 0:
            ended_B = torch.eq(token_B, self._restart)
            token_B = token_B.masked_fill(ended_B, self._start)
            self._chain_BW[:, inputs:].masked_fill_(ended_B.unsqueeze(1), 0.0)
            for layer in self._layers:
                layer.c_BH.masked_fill_(ended_B.unsqueeze(1), 0.0)
        self._chain_BW[:, :inputs].copy_(self.table_RX.index_select(0, token_B))


class _ChainLayer:
    """One layer: its matrix [W | U], the two segments it reads, its memory c."""

    before_BS: Tensor
    """A buffer for h before the step, if the programs run."""

    def __init__(self, weights: Mapping[str, Tensor], joint_BK: Tensor, inputs: int) -> None:
        w_GI, u_GH = weights["weight_ih"], weights["weight_hh"]
        units = u_GH.shape[1]
        self.joint_BK, self.x_BX = joint_BK, joint_BK[:, :inputs]
        self.h_BH = joint_BK[:, inputs : inputs + units]
        self.weight_GK = joint_BK.new_zeros(len(w_GI), joint_BK.shape[1])
        self.weight_GK[:, : w_GI.shape[1]] = w_GI
        self.weight_GK[:, inputs : inputs + units] = u_GH
        self.bias_G = joint_BK.new_zeros(len(w_GI), dtype=torch.float32)
        for name in ("bias_ih", "bias_hh"):
            if name in weights:
                self.bias_G += weights[name]
        self.c_BH = joint_BK.new_zeros(len(joint_BK), units, dtype=torch.float32)
        self._zeros_BG = joint_BK.new_zeros(len(joint_BK), len(w_GI), dtype=torch.float32)
        self._zeros_G = torch.zeros_like(self.bias_G)

    def step(self) -> None:
        """By torch's operators."""
        z_BG = product(self.joint_BK, self.weight_GK)
        if z_BG.is_cuda:
            h_BH, c_BH, _ = torch.ops.aten._thnn_fused_lstm_cell(
                z_BG, self._zeros_BG, self.c_BH, self.bias_G, self._zeros_G
            )
        else:
            i, f, g, o = (z_BG + self.bias_G).chunk(4, dim=1)
            c_BH = torch.sigmoid(f) * self.c_BH + torch.sigmoid(i) * torch.tanh(g)
            h_BH = torch.sigmoid(o) * torch.tanh(c_BH)
        self.c_BH.copy_(c_BH)
        self.h_BH.copy_(h_BH)

    def step_row(self, token_1: Tensor, restart: int, tile: VectorTile) -> None:
        """One row, by one program."""
        lstm_row(token_1, self.x_BX, self.before_BS, self.weight_GK, self.bias_G, self.c_BH, self.h_BH, restart, tile)


class CellStack:
    """Any recurrent stack by its cells' own steps. States and gates are float32, products those of the given type."""

    def __init__(self, model: RecurrentModel, rows: int, dtype: torch.dtype) -> None:
        self._device, self._dtype, self._connect = model.device.type, dtype, model.layers.connect
        self._restart, self._start = model.restart, model.vocabulary_size
        self.table_RX = model.embedding.weight.to(dtype, copy=True)
        self._lanes = model.layers.lanes
        self._weights: list[dict[str, Tensor]] = []
        self._highways: list[tuple[Tensor | None, Tensor | None]] = []
        self.memory: dict[str, Tensor] = {}
        named = dict(model.layers.named_parameters())
        for index, lane in enumerate(self._lanes):
            weights = model.layers.lane_weights(lane)
            self._weights.append({name: self._stored(name, weight) for name, weight in weights.items()})
            ways = (named.get(f"highway_{part}_l{index}") for part in ("weight", "bias"))
            weight, bias = (None if way is None else way.to(dtype, copy=True) for way in ways)
            self._highways.append((weight, bias))
            for field, size in lane.cell.state_sizes().items():
                place = self.table_RX.new_zeros(rows, size, dtype=torch.float32)
                self.memory[memory_name(lane.name, field)] = place

    def _stored(self, name: str, weight: Tensor) -> Tensor:
        """A copy of a weight: matrices and biases are rounded, vectors that act on states are float32."""
        rounded = weight.dim() > 1 or name.startswith("bias")
        return weight.to(self._dtype if rounded else torch.float32, copy=True)

    def step(self, token_B: Tensor) -> Tensor:
        if self._restart is not None:
            ended_B = torch.eq(token_B, self._restart)
            token_B = token_B.masked_fill(ended_B, self._start)
            for part in self.memory.values():
                part.masked_fill_(ended_B.unsqueeze(1), 0.0)
        x_BI = self.table_RX.index_select(0, token_B)
        half = self._dtype != torch.float32
        with torch.autocast(self._device, self._dtype if half else torch.bfloat16, enabled=half, cache_enabled=False):
            for index, lane in enumerate(self._lanes):
                y_BO = self._layer_step(lane, x_BI, self._weights[index])
                x_BI = join(self._connect, x_BI, y_BO, *self._highways[index]) if index else y_BO
        return x_BI

    def _layer_step(self, lane: Lane, x_BI: Tensor, weights: dict[str, Tensor]) -> Tensor:
        places = [self.memory[memory_name(lane.name, field)] for field in lane.cell.state_sizes()]
        z_BG = lane.cell.project(x_BI.unsqueeze(1), weights).squeeze(1).float()
        state: State = lane.cell.state_type(*places)
        y_BO, after = lane.cell.step(z_BG, state, weights)
        for place, part in zip(places, after, strict=True):
            place.copy_(part)
        return y_BO


class EncodedStep:
    """A model that carries a state of one size but does not recur, such as its last tokens: by its own `encode`."""

    def __init__(self, model: NeuralModel, rows: int) -> None:
        self._model, self._fresh = model, model.fresh(rows)
        self.memory = {name: part.clone() for name, part in self._fresh.memory.items()}

    def step(self, token_B: Tensor) -> Tensor:
        token_B = token_B.to(torch.int64)
        if self._model.restart is not None:
            ended_B1 = torch.eq(token_B, self._model.restart).unsqueeze(1)
            token_B = token_B.masked_fill(ended_B1[:, 0], self._model.vocabulary_size)
            for name, part in self.memory.items():
                part.copy_(torch.where(ended_B1, self._fresh.memory[name], part))
        f_BTH, _, after = self._model.encode(token_B.unsqueeze(1), self._fresh.with_tensors(self.memory))
        for name, part in self.memory.items():
            part.copy_(after.memory[name])
        return f_BTH[:, -1]


def has_step(model: NeuralModel) -> bool:
    """Whether there is a body for a model: not where its state grows with what it reads (a Transformer's)."""
    return isinstance(model, RecurrentModel) or _of_one_size(model)


def step_body(
    model: NeuralModel, rows: int, dtype: torch.dtype, *, programs: bool, tile: VectorTile = TILE
) -> StepBody | None:
    """The body for a model; None if it has none, or none of this type."""
    if isinstance(model, RecurrentModel):
        if chains(model):
            return LstmChain(model, rows, dtype, programs=programs, tile=tile)
        return CellStack(model, rows, dtype)
    return EncodedStep(model, rows) if dtype == torch.float32 and _of_one_size(model) else None


def _of_one_size(model: NeuralModel) -> bool:
    """Whether a state is as large after a token as before it, and lies where the model does."""
    with model.quietly():
        before = model.fresh(1)
        first_11 = torch.full((1, 1), model.vocabulary_size, dtype=torch.int64, device=model.device)
        after = model.encode(first_11, before)[2].memory
    return all(part.shape == after[name].shape and part.device == model.device for name, part in before.memory.items())
