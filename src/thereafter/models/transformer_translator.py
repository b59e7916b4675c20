"""The Transformer as Vaswani et al. (2017) had it: an encoder that sees all of a source, a decoder that looks at it.

    encoder:  x + attention(x, x),  x + forward(x)

with a norm before each part and one at the end (Xiong et al. 2020); `transformer_decoder.py` is the other half.

Shapes: B rows, S places, H features.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from thereafter.layers.attention import CrossAttention
from thereafter.models.encoder import Memory
from thereafter.models.transformer_decoder import FeedForward, TransformerDecoder, initialise
from thereafter.models.translator import PairBatch, Translator, TranslatorSettings, inside
from thereafter.models.word_decoder import WordDecoder


class TransformerTranslator(Translator, TransformerDecoder):
    """See the module's equations."""

    def __init__(
        self, settings: TranslatorSettings, *, source: int, target: int, unknown: int | None = None, limit: int = 100
    ) -> None:
        # not the decoder's own way: parts are drawn in an order in which a seed gives the weights it always gave
        WordDecoder.__init__(self, settings, settings.hidden, unknown=unknown, limit=limit)
        self._add_words(source, target)
        self._add_positions()
        size, inner = settings.hidden, settings.feedforward or 4 * settings.hidden
        self.encoder = nn.ModuleList(
            _Reader(size, settings.heads, inner, settings.dropout) for _ in range(settings.layers)
        )
        self._add_blocks()
        self.norm_source, self.norm = nn.LayerNorm(size), nn.LayerNorm(size)
        for block in (*self.encoder, *self.decoder):
            initialise(block, settings.layers)

    def encode(self, batch: PairBatch) -> Memory:
        inside_BS = inside(batch)
        x_BSH = self._with_positions(self.source_vectors(batch.source_BS), 0)
        for block in self.encoder:
            x_BSH = block(x_BSH, inside_BS)
        return Memory(self.norm_source(x_BSH), inside_BS)


class _Reader(nn.Module):
    """A block of the encoder."""

    def __init__(self, size: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.attention = CrossAttention(size, heads, dropout=dropout)
        self.after = FeedForward(size, inner, dropout)
        self.dropout = dropout

    def forward(self, x_BSH: Tensor, inside_BS: Tensor) -> Tensor:
        read = self.norm(x_BSH)
        y_BSH = self.attention(read, self.attention.keys(read), inside_BS)
        after_BSH: Tensor = self.after(x_BSH + F.dropout(y_BSH, self.dropout, self.training))
        return after_BSH
