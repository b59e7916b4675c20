"""The Transformer as Vaswani et al. (2017) had it: an encoder that sees all of a source, a decoder that looks at it.

    encoder:  x + attention(x, x),  x + forward(x)
    decoder:  y + attention(y, y before),  y + attention(y, x),  y + forward(y)

with a norm before each part and one at the end (Xiong et al. 2020). Keys and values of the source are worked out once;
those of the words written so far are the state of the decoder.

Shapes: B rows, S places, T steps, N words so far, H features, K heads, D = H / K.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.layers.attention import CrossAttention
from thereafter.layers.positions import Positions
from thereafter.layers.transformer import CausalAttention, Sight
from thereafter.models.translator import Held, PairBatch, Translator, TranslatorSettings, inside


class TransformerTranslator(Translator):
    """See the module's equations. Word vectors are sqrt(H) E[word] + p[place], with sines and cosines for p."""

    def __init__(self, settings: TranslatorSettings, **about: Any) -> None:
        super().__init__(settings, **about)
        size, dropout = settings.hidden, settings.dropout
        inner = settings.feedforward or 4 * size
        self.positions = Positions("sinusoidal", settings.longest + 2, size)
        self.encoder = nn.ModuleList(_Reader(size, settings.heads, inner, dropout) for _ in range(settings.layers))
        self.decoder = nn.ModuleList(_Writer(size, settings.heads, inner, dropout) for _ in range(settings.layers))
        self.norm_source, self.norm = nn.LayerNorm(size), nn.LayerNorm(size)
        for part in (*self.encoder, *self.decoder):
            _initialise(part, settings.layers)

    def read(self, batch: PairBatch) -> Held:
        inside_BS = inside(batch)
        x_BSH = self._placed(self.source_vectors(batch.source_BS), 0)
        for layer in self.encoder:
            x_BSH = layer(x_BSH, inside_BS)
        x_BSH = self.norm_source(x_BSH)
        memory: Held = {"inside_BS": inside_BS}
        for number, layer in enumerate(self.decoder):
            memory[f"keys_{number}"], memory[f"values_{number}"] = layer.look.keys(x_BSH)  # type: ignore[union-attr, operator]
        return memory

    def begin(self, memory: Held) -> Held:
        rows, heads, _, size = memory["keys_0"].shape
        none = memory["keys_0"].new_zeros(rows, heads, 0, size)
        return {f"{kind}_{number}": none for number in range(len(self.decoder)) for kind in ("keys", "values")}

    def unrolled(
        self, x_BTE: Tensor, memory: Held, state: Held, weights: list[Tensor] | None = None
    ) -> tuple[Tensor, Held]:
        rows, steps, _ = x_BTE.shape
        before = state["keys_0"].shape[2]
        sight = Sight.of([before] * rows, steps, x_BTE.device)
        y_BTH = self._placed(x_BTE, before)
        after: Held = {}
        last = len(self.decoder) - 1
        for number, layer in enumerate(self.decoder):
            names = (f"keys_{number}", f"values_{number}")
            held = (state[names[0]], state[names[1]])
            source = (memory[names[0]], memory[names[1]])
            shown: list[Tensor] | None = [] if weights is not None and number == last else None
            y_BTH, kept = layer(y_BTH, held, sight, source, memory["inside_BS"], shown)
            after |= dict(zip(names, kept, strict=True))
            if shown and weights is not None:
                weights.append(shown[0].mean(1))
        f_BTF: Tensor = self.norm(y_BTH)
        return f_BTF, after

    def _placed(self, x_BTH: Tensor, begin: int) -> Tensor:
        place_T = torch.arange(begin, begin + x_BTH.shape[1], device=x_BTH.device)
        return F.dropout(x_BTH + self.positions(place_T), self.settings.dropout, self.training)


class _Forward(nn.Module):
    """W2 gelu(W1 norm(x)), added to x."""

    def __init__(self, size: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.widen, self.narrow = nn.Linear(size, inner), nn.Linear(inner, size)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        y = self.narrow(F.dropout(F.gelu(self.widen(self.norm(x))), self.dropout, self.training))
        return x + F.dropout(y, self.dropout, self.training)


class _Reader(nn.Module):
    """A block of the encoder."""

    def __init__(self, size: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.attention = CrossAttention(size, heads, dropout=dropout)
        self.after = _Forward(size, inner, dropout)
        self.dropout = dropout

    def forward(self, x_BSH: Tensor, inside_BS: Tensor) -> Tensor:
        read = self.norm(x_BSH)
        y_BSH = self.attention(read, self.attention.keys(read), inside_BS)
        found: Tensor = self.after(x_BSH + F.dropout(y_BSH, self.dropout, self.training))
        return found


class _Writer(nn.Module):
    """A block of the decoder."""

    def __init__(self, size: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.norm_look = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = CausalAttention(size, heads, dropout)
        self.look = CrossAttention(size, heads, dropout=dropout)
        self.after = _Forward(size, inner, dropout)
        self.dropout = dropout

    def forward(
        self,
        y_BTH: Tensor,
        held: tuple[Tensor, Tensor],
        sight: Sight,
        source: tuple[Tensor, Tensor],
        inside_BS: Tensor,
        weights: list[Tensor] | None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        own_BTH, kept = self.attention(self.norm(y_BTH), held, sight)
        y_BTH = y_BTH + F.dropout(own_BTH, self.dropout, self.training)
        looked_BTH = self.look(self.norm_look(y_BTH), source, inside_BS, weights)
        y_BTH = y_BTH + F.dropout(looked_BTH, self.dropout, self.training)
        return self.after(y_BTH), kept


def _initialise(block: nn.Module, layers: int) -> None:
    """Weights by fan-in and fan-out, biases 0; what is added to the stream is small in a deep stack."""
    for name, linear in block.named_modules():
        if isinstance(linear, nn.Linear):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
            if name.endswith(("out", "narrow")):
                with torch.no_grad():
                    linear.weight.mul_(1 / math.sqrt(2 * layers))
