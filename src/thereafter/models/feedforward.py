"""Models without recurrence: the Transformer as a language model for unbounded text, and models of the last tokens.

Those have a hidden layer over the vectors of the last few tokens; or the mean of them, in which order is lost: that is
the point of the comparison.

Shapes: B rows, T steps, C context, N tokens held, H features, K heads, D = H / K; W tokens of the window,
S = W - 1 + T, E word vector.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.layers.attention import Block, Sight
from thereafter.layers.embedding import Embedding, Positions
from thereafter.models.base import Ids
from thereafter.models.look import Observer
from thereafter.models.neural import NeuralModel, TextFacts
from thereafter.models.quiet import NeuralState, stacked
from thereafter.models.settings import AverageSettings, TransformerSettings, WindowSettings

Memory = dict[str, Tensor]


class TransformerModel(NeuralModel):
    """x = sqrt(H) E[token] + p[position], blocks of causal attention, a last norm (pre-norm only), a head.

    The state is what attention needs of the past: `tokens` [B, N], `held` [B] of them in each row, left-aligned, and
    for each block their keys and values [B, K, N, D]. A row that holds C tokens first reads its last C // 2 again from
    position 0; this depends on how many tokens were read and on nothing else, so step and whole pass agree at any
    length.
    """

    settings: TransformerSettings

    def __init__(self, settings: TransformerSettings, **about: Unpack[TextFacts]) -> None:
        super().__init__(settings, **about)
        size = settings.hidden
        self.embedding = Embedding(self.vocabulary_size, size, drop=settings.dropout_embed, init=settings.init or 0.0)
        if settings.init is None:
            nn.init.normal_(self.embedding.weight, std=size**-0.5)
        self.positions = Positions(settings.positions, settings.context, size)
        blocks = [
            Block(size, settings.heads, settings.inner * size, norm=settings.norm, dropout=settings.dropout)
            for _ in range(settings.layers)
        ]
        for block in blocks:
            block.initialise(settings.layers)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(size) if settings.norm == "pre" else nn.Identity()
        self.head = self._make_head(size, tied=bool(settings.tied))

    def fresh(self, batch: int) -> NeuralState:
        heads = self.settings.heads
        memory = {
            "tokens": torch.zeros(batch, 0, dtype=torch.int64, device=self.device),
            "held": torch.zeros(batch, dtype=torch.int64),
        }
        for name in (f"{kind}_{number}" for number in range(self.settings.layers) for kind in ("keys", "values")):
            memory[name] = self.embedding.weight.new_zeros(batch, heads, 0, self.settings.hidden // heads)
        return NeuralState(memory)

    @property
    def most_at_once(self) -> int:
        return self.settings.context

    def context_sizes(self, tokens_T: Ids) -> NDArray[np.int64]:
        """All since the state began, until the context is full; then the last half of it and what came since."""
        inputs_T, full = super().context_sizes(tokens_T), self.settings.context
        half = full // 2
        return np.where(inputs_T <= full, inputs_T, half + 1 + (inputs_T - full - 1) % (full - half))

    def stack(self, states: Sequence[NeuralState]) -> NeuralState:
        """Rows may differ in how many tokens they hold; no more room is reserved than the fullest needs."""
        width = max(max(state.memory["held"].tolist(), default=0) for state in states)
        return stacked([NeuralState(_widen(state.memory, width), state.features_BH) for state in states])

    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Observer | None = None
    ) -> tuple[Tensor, Tensor | None, NeuralState]:
        memory, steps, done = dict(state.memory), tokens_BT.shape[1], 0
        parts: list[Tensor] = []
        table: Tensor | None = None
        attention: list[Tensor] | None = [] if observer is not None and observer.attention else None
        while done < steps:
            memory = self._make_room(memory)
            room = self.settings.context - max(memory["held"].tolist(), default=0)
            piece = tokens_BT[:, done : done + room]
            h_BTH, table, memory = self._attend(piece, memory, observer, attention)
            parts.append(h_BTH)
            done += piece.shape[1]
        if observer is not None and attention is not None:
            widest = max((part.shape[-1] for part in attention), default=0)
            distances = torch.cat([F.pad(part, (0, widest - part.shape[-1])) for part in attention])
            observer.show("attention", ("step", "layer", "head", "back"), distances)
        h_BTH = torch.cat(parts, dim=1) if len(parts) != 1 else parts[0]
        return h_BTH, table if self.settings.tied else None, NeuralState(memory)

    def _attend(
        self, tokens_BT: Tensor, memory: Memory, observer: Observer | None = None, attention: list[Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Memory]:
        """Tokens for which there is room in every row."""
        sight = Sight.of(memory["held"].tolist(), tokens_BT.shape[1], self.device)
        x_BTH, table = self.embedding.lookup(tokens_BT)
        if observer is not None:
            x_BTH = observer.words(x_BTH)
        x_BTH = x_BTH * math.sqrt(self.settings.hidden) + self.positions(sight.position_BT)
        x_BTH = F.dropout(x_BTH, self.settings.dropout, self.training)
        weights: list[Tensor] | None = None if attention is None else []
        after = {"tokens": sight.put(memory["tokens"][:, None, :, None], tokens_BT[:, None, :, None])[:, 0, :, 0]}
        after["held"] = memory["held"] + tokens_BT.shape[1]
        for number, block in enumerate(self.blocks):
            names = (f"keys_{number}", f"values_{number}")
            x_BTH, cached = block(x_BTH, (memory[names[0]], memory[names[1]]), sight, weights)
            after |= dict(zip(names, cached, strict=True))
            if observer is not None:
                observer.stream(f"block {number}", x_BTH)
        if attention is not None and weights is not None:
            attention.append(_by_distance(torch.stack(weights)[:, 0], int(memory["held"][0])))
        return self.norm(x_BTH), table, after

    def _make_room(self, memory: Memory) -> Memory:
        """Rows that hold C tokens read their last C // 2 again."""
        context = self.settings.context
        full = (memory["held"] >= context).nonzero().squeeze(1)
        if not len(full):
            return memory
        rows = full.to(self.device)
        tokens = memory["tokens"].index_select(0, rows)[:, context - context // 2 : context]
        _, _, again = self._attend(tokens, dict(self.fresh(len(full)).memory))
        if len(full) == len(memory["held"]):
            return again
        again = _widen(again, memory["tokens"].shape[1])
        return {name: part.index_copy(0, full.to(part.device), again[name]) for name, part in memory.items()}


def _widen(memory: Mapping[str, Tensor], width: int) -> Memory:
    """The same tokens with room for `width` of them; the padding is never attended to, and the excess is cut."""
    wide = {}
    for name, part in memory.items():
        axis = 1 if name == "tokens" else 2
        if name == "held":
            wide[name] = part
        elif part.shape[axis] >= width:
            wide[name] = part.narrow(axis, 0, width)
        else:
            filler = list(part.shape)
            filler[axis] = width - part.shape[axis]
            wide[name] = torch.cat([part, part.new_zeros(filler)], dim=axis)
    return wide


def _by_distance(weights_LKTN: Tensor, before: int) -> Tensor:
    """Attention by distance: [T, L, K, N] where the last axis counts tokens back, 0 being the token itself.

    `before`: tokens that were in the memory already.
    """
    steps, seen = weights_LKTN.shape[2:]
    back_TN = torch.arange(before, before + steps).unsqueeze(1) - torch.arange(seen)
    index = back_TN.clamp(min=0).to(weights_LKTN.device).expand_as(weights_LKTN)
    # the distance map is its own inverse: back = position - key, key = position - back
    by_distance_LKTN = weights_LKTN.gather(3, index)
    return (by_distance_LKTN * (back_TN >= 0).to(by_distance_LKTN)).permute(2, 0, 1, 3)


@dataclass(frozen=True)
class WindowState(NeuralState):
    """The last W tokens, [B, W]: all that the next prediction depends on."""

    def key(self) -> Hashable:
        return tuple(map(tuple, self.memory["tokens"].tolist()))


class LastTokens(NeuralModel):
    """What such models share: a state that is the window itself."""

    settings: AverageSettings | WindowSettings
    nothing: int
    """The filler of the window before the first token."""

    def fresh(self, batch: int) -> WindowState:
        shape = (batch, self.settings.window)
        return WindowState({"tokens": torch.full(shape, self.nothing, dtype=torch.int64, device=self.device)})

    def context_sizes(self, tokens_T: Ids) -> NDArray[np.int64]:
        return np.minimum(super().context_sizes(tokens_T), self.settings.window)

    def _seen(self, tokens_BT: Tensor, state: NeuralState) -> tuple[Tensor, WindowState]:
        """The tokens in sight of any of the steps, [B, W - 1 + T], and the window after the last."""
        seen_BS = torch.cat([state.memory["tokens"], tokens_BT], dim=1)
        return seen_BS[:, 1:], WindowState({"tokens": seen_BS[:, tokens_BT.shape[1] :].clone()})

    def _dropped(self, h_BTH: Tensor) -> Tensor:
        return F.dropout(h_BTH, self.settings.dropout, self.training)


class WindowModel(LastTokens):
    """f = tanh(A [x_{t-W+1}; ...; x_t] + d),  p = softmax(U f + b)   (Bengio et al. 2003, a neural probabilistic
    language model); with `direct` the head sees the word vectors too: softmax(U f + D [x...] + b).

    Before the first token the window is full of `<s>`.
    """

    settings: WindowSettings

    def __init__(self, settings: WindowSettings, **about: Unpack[TextFacts]) -> None:
        super().__init__(settings, **about)
        size, window = settings.embed or settings.hidden, settings.window
        self.nothing = self.vocabulary_size
        self.embedding = self._make_embedding(size)
        self.hidden = nn.Linear(window * size, settings.hidden)
        self.head = self._make_head(settings.hidden + (window * size if settings.direct else 0), tied=False)

    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Observer | None = None
    ) -> tuple[Tensor, None, NeuralState]:
        seen_BS, after = self._seen(tokens_BT, state)
        x_BSE: Tensor = self.embedding(seen_BS)
        if observer is not None:
            x_BSE = observer.words(x_BSE)
        x_BTX = x_BSE.unfold(1, self.settings.window, 1).transpose(2, 3).flatten(2)
        h_BTH = torch.tanh(self.hidden(x_BTX))
        if observer is not None:
            observer.show("hidden", ("step", "unit"), h_BTH[0])
        return (torch.cat([h_BTH, x_BTX], dim=-1) if self.settings.direct else h_BTH), None, after


class AverageModel(LastTokens):
    """f = mean of the vectors of the last W tokens read (`<s>` among them, fewer at the beginning)."""

    settings: AverageSettings
    nothing = -1

    def __init__(self, settings: AverageSettings, **about: Unpack[TextFacts]) -> None:
        super().__init__(settings, **about)
        size = settings.embed or 256
        self.embedding = self._make_embedding(size)
        self.head = self._make_head(size, tied=settings.tied)

    def encode(
        self, tokens_BT: Tensor, state: NeuralState, observer: Observer | None = None
    ) -> tuple[Tensor, Tensor | None, NeuralState]:
        seen_BS, after = self._seen(tokens_BT, state)
        there_BS = seen_BS >= 0
        x_BSE, table = self.embedding.lookup(seen_BS.clamp(min=0))
        if observer is not None:
            x_BSE = observer.words(x_BSE)
        x_BSE = x_BSE * there_BS.unsqueeze(-1)
        window = self.settings.window
        mean_BTE = F.avg_pool1d(x_BSE.transpose(1, 2), window, stride=1).transpose(1, 2)
        share_BT = F.avg_pool1d(there_BS.to(x_BSE.dtype), window, stride=1)
        h_BTE = mean_BTE / share_BT.unsqueeze(-1)
        if observer is not None:
            observer.show("mean", ("step", "unit"), h_BTE[0])
        return h_BTE, table if self.settings.tied else None, after
