"""The decoder of the Transformer of Vaswani et al. (2017).

    y + attention(y, y before),  y + attention(y, memory),  y + forward(y)

with a norm before each part and one at the end (Xiong et al. 2020). Keys and values of the memory are worked out once;
those of the words written so far are the state of the decoder.

Shapes: B rows, S places, T steps, N words so far, H features, K heads, D = H / K.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.kernels.switches import traced
from thereafter.layers.attention import CausalAttention, CrossAttention, Sight
from thereafter.layers.embedding import Positions
from thereafter.models.decoder import Fields, Tensors
from thereafter.models.task_net import Memory
from thereafter.models.word_decoder import DecoderSettings, WordDecoder, in_source_order


def check_heads(settings: DecoderSettings) -> None:
    """Refuse a number of heads that does not divide the features."""
    if settings.hidden % settings.heads:
        raise OptionError(
            f"hidden is {settings.hidden} and heads is {settings.heads}; expected a multiple; try heads=4"
        )


class TransformerDecoder(WordDecoder):
    """See the module's equations. Word vectors are sqrt(H) E[word] + p[place], with sines and cosines for p.

    >>> decoder = TransformerDecoder(DecoderSettings(hidden=8, heads=2), words=5).eval()
    >>> model = decoder.given(Memory(torch.zeros(2, 3, 8), torch.ones(2, 3, dtype=torch.bool)))
    >>> model.predict(model.start(2)).shape
    (2, 5)
    """

    def __init__(self, settings: DecoderSettings, *, words: int, unknown: int | None = None, limit: int = 100) -> None:
        check_heads(settings)
        super().__init__(settings, settings.hidden, unknown=unknown, limit=limit)
        self.words = self._table(words)
        self._add_head(self.words)
        self._add_positions()
        self._add_blocks()
        self.norm = nn.LayerNorm(settings.hidden)
        for block in self.decoder:
            initialise(block, settings.layers)

    def _add_positions(self) -> None:
        self.positions = Positions("sinusoidal", self.settings.longest + 2, self.settings.hidden)

    def _add_blocks(self) -> None:
        settings = self.settings
        inner = settings.feedforward or 4 * settings.hidden
        self.decoder = nn.ModuleList(
            _Writer(settings.hidden, settings.heads, inner, settings.dropout) for _ in range(settings.layers)
        )

    def prepare(self, memory: Memory) -> Tensors:
        source: Tensors = {"inside_BS": memory.inside_BS}
        if memory.place_BS is not None:
            source["place_BS"] = memory.place_BS
        for number, block in enumerate(self._blocks()):
            source[f"keys_{number}"], source[f"values_{number}"] = block.look.keys(memory.h_BSH)
        return source

    def begin(self, source: Tensors) -> Tensors:
        rows, heads, _, size = source["keys_0"].shape
        none = source["keys_0"].new_zeros(rows, heads, 0, size)
        return {f"{kind}_{number}": none for number in range(len(self.decoder)) for kind in ("keys", "values")}

    def unroll(
        self, x_BTE: Tensor, source: Tensors, state: Tensors, record: Fields | None = None
    ) -> tuple[Tensor, Tensors]:
        rows, steps, _ = x_BTE.shape
        before = state["keys_0"].shape[2]
        sight = Sight.of([before] * rows, steps, x_BTE.device)
        y_BTH = self._with_positions(x_BTE, before)
        after: Tensors = {}
        for number, block in enumerate(self._blocks()):
            names = (f"keys_{number}", f"values_{number}")
            own, look = (state[names[0]], state[names[1]]), (source[names[0]], source[names[1]])
            last = number == len(self.decoder) - 1
            weights: list[Tensor] | None = [] if record is not None and last else None
            y_BTH, cached = block(y_BTH, own, sight, look, source["inside_BS"], weights)
            after |= dict(zip(names, cached, strict=True))
            if weights and record is not None:
                record["attention"] = (("step", "source"), in_source_order(weights[0].mean(1), source))
        f_BTF: Tensor = self.norm(y_BTH)
        return f_BTF, after

    def _blocks(self) -> list[_Writer]:
        return [block for block in self.decoder if isinstance(block, _Writer)]

    def _with_positions(self, x_BTH: Tensor, begin: int) -> Tensor:
        end, most = begin + x_BTH.shape[1], self.positions.table_CH.shape[0]
        if end > most and not traced():
            raise OptionError(f"a sequence has {end - 1} tokens; expected at most {most - 1} of this model (longest)")
        place_T = torch.arange(begin, end, device=x_BTH.device)
        return F.dropout(x_BTH + self.positions(place_T), self.settings.dropout, self.training)


class FeedForward(nn.Module):
    """W2 gelu(W1 norm(x)), added to x."""

    def __init__(self, size: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.widen, self.narrow = nn.Linear(size, inner), nn.Linear(inner, size)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        y = self.narrow(F.dropout(F.gelu(self.widen(self.norm(x))), self.dropout, self.training))
        return x + F.dropout(y, self.dropout, self.training)


class _Writer(nn.Module):
    """A block of the decoder."""

    def __init__(self, size: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.norm_look = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = CausalAttention(size, heads, dropout)
        self.look = CrossAttention(size, heads, dropout=dropout)
        self.after = FeedForward(size, inner, dropout)
        self.dropout = dropout

    def forward(
        self,
        y_BTH: Tensor,
        before: tuple[Tensor, Tensor],
        sight: Sight,
        source: tuple[Tensor, Tensor],
        inside_BS: Tensor,
        weights: list[Tensor] | None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        own_BTH, cached = self.attention(self.norm(y_BTH), before, sight)
        y_BTH = y_BTH + F.dropout(own_BTH, self.dropout, self.training)
        looked_BTH = self.look(self.norm_look(y_BTH), source, inside_BS, weights)
        y_BTH = y_BTH + F.dropout(looked_BTH, self.dropout, self.training)
        return self.after(y_BTH), cached


def initialise(block: nn.Module, layers: int) -> None:
    """Weights by fan-in and fan-out, biases 0; what is added to the stream is small in a deep stack."""
    for name, linear in block.named_modules():
        if isinstance(linear, nn.Linear):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
            if name.endswith(("out", "narrow")):
                with torch.no_grad():
                    linear.weight.mul_(1 / math.sqrt(2 * layers))
