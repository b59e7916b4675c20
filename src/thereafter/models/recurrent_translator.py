"""An encoder of recurrent layers before a decoder of such (`recurrent_decoder.py`).

    h_s = encoder(x)_s

A reversed source (Sutskever, Vinyals and Le 2014) begins with its last word.

Shapes: B rows, S places, L layers, H units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from thereafter.models.encoder import Memory
from thereafter.models.recurrent_decoder import RecurrentDecoder, recurrent_layers
from thereafter.models.translator import PairBatch, Translator, TranslatorSettings, inside
from thereafter.models.word_decoder import WordDecoder


class RecurrentTranslator(Translator, RecurrentDecoder):
    """See the module's equations. `hidden` counts both directions of the encoder, so that its last states fit."""

    def __init__(
        self, settings: TranslatorSettings, *, source: int, target: int, unknown: int | None = None, limit: int = 100
    ) -> None:
        # not the decoder's own way: parts are drawn in an order in which a seed gives the weights it always gave
        WordDecoder.__init__(self, settings, settings.embed, unknown=unknown, limit=limit)
        self._add_words(source, target)
        self._both = settings.bidirectional
        size = settings.hidden // (2 if self._both else 1)
        self.encoder = recurrent_layers(settings, settings.embed, size, bidirectional=self._both)
        self._add_layers()

    def encode(self, batch: PairBatch) -> Memory:
        source_BS, place_BS = batch.source_BS, None
        if self.settings.reverse:
            place_BS = _reverse(batch.lengths_B.to(source_BS.device), source_BS.shape[1])
            source_BS = source_BS.gather(1, place_BS)
        h_BSH, state = self.encoder(self.source_vectors(source_BS), lengths=batch.lengths_B)
        parts = state if isinstance(state, tuple) else (state,)
        fields = self.encoder.lanes[0].cell.state_sizes()
        summary = {
            name: self._both_ways(part_LBH).transpose(0, 1) for name, part_LBH in zip(fields, parts, strict=True)
        }
        return Memory(h_BSH, inside(batch), summary, place_BS)

    def _both_ways(self, part_LBH: Tensor) -> Tensor:
        """The last states of a layer's two directions side by side."""
        if not self._both:
            return part_LBH
        lanes, rows, size = part_LBH.shape
        return part_LBH.view(lanes // 2, 2, rows, size).transpose(1, 2).reshape(lanes // 2, rows, 2 * size)


def _reverse(lengths_B: Tensor, places: int) -> Tensor:
    """Where each place of a reversed source comes from, [B, S]: its END stays last, and so does padding."""
    place_S = torch.arange(places, device=lengths_B.device)
    turned_BS = lengths_B[:, None] - 2 - place_S
    return torch.where(turned_BS >= 0, turned_BS, place_S)
