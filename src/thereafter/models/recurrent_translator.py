"""An encoder and a decoder of recurrent layers, with or without attention.

    h_s = encoder(x)_s,      q_t = decoder([y_t-1, c])_t  or  decoder(y_t-1)_t,      f_t = tanh(W [c_t, q_t])

Without attention c_t = c is what the encoder ended with: it is where the decoder begins, and is given to it at every
step (Sutskever, Vinyals and Le 2014; Cho et al. 2014). With attention c_t is the mean of all h_s under weights that the
decoder's state chooses (Luong, Pham and Manning 2015; Bahdanau, Cho and Bengio 2015 for the additive score). The state
does not read c_t, so that the recurrence over a known target is one fused scan, and attention one product over all
steps. A reversed source (Sutskever et al.) begins with its last word.

Shapes: B rows, S places, T steps, L layers, H units, E vectors, F features.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from thereafter.layers.attention import Attention
from thereafter.layers.dropout import locked
from thereafter.layers.recurrent import Recurrent
from thereafter.models.translator import Held, PairBatch, Translator, TranslatorSettings, inside


class RecurrentTranslator(Translator):
    """See the module's equations. `hidden` counts both directions of the encoder, so that its last states fit."""

    def __init__(self, settings: TranslatorSettings, **about: Any) -> None:
        super().__init__(settings, **about)
        size, attends = settings.hidden, settings.attention != "none"
        ways = 2 if settings.bidirectional else 1
        self.encoder = _layers(settings, settings.embed, size // ways, bidirectional=settings.bidirectional)
        self.decoder = _layers(settings, settings.embed + (0 if attends else size), size)
        self.attention = Attention(size, size, settings.attention) if attends else None
        self.join = nn.Linear(2 * size, self.features)

    def read(self, batch: PairBatch) -> Held:
        inside_BS = inside(batch)
        memory: Held = {"inside_BS": inside_BS}
        source_BS = batch.source_BS
        if self.settings.reverse:
            memory["order_BS"] = _reversed(batch.lengths_B.to(source_BS.device), source_BS.shape[1])
            source_BS = source_BS.gather(1, memory["order_BS"])
        h_BSH, state = self.encoder(self.source_vectors(source_BS), lengths=batch.lengths_B)
        parts = state if isinstance(state, tuple) else (state,)
        for name, part_LBH in zip("hc", parts, strict=False):
            memory[f"last_{name}"] = self._both_ways(part_LBH).transpose(0, 1)
        memory["h_BSH"] = h_BSH
        if self.attention is not None:
            memory["keys"] = self.attention.keys(h_BSH)
        return memory

    def begin(self, memory: Held) -> Held:
        return {name: memory[f"last_{name}"] for name in "hc" if f"last_{name}" in memory}

    def unrolled(
        self, x_BTE: Tensor, memory: Held, state: Held, weights: list[Tensor] | None = None
    ) -> tuple[Tensor, Held]:
        last_BTH = memory["last_h"][:, -1:].expand(-1, x_BTE.shape[1], -1)
        if self.attention is None:
            x_BTE = torch.cat((x_BTE, last_BTH.to(x_BTE.dtype)), -1)
        parts = tuple(part.transpose(0, 1).contiguous() for part in state.values())
        q_BTH, after = self.decoder(x_BTE, parts if len(parts) > 1 else parts[0])
        after = after if isinstance(after, tuple) else (after,)
        c_BTH = last_BTH
        if self.attention is not None:
            c_BTH, a_BTS = self.attention(q_BTH, memory["h_BSH"], memory["keys"], memory["inside_BS"])
            if weights is not None:
                weights.append(_original(a_BTS, memory))
        f_BTF = torch.tanh(self.join(torch.cat((c_BTH.to(q_BTH.dtype), q_BTH), -1)))
        named = {name: part.transpose(0, 1) for name, part in zip(state, after, strict=True)}
        return locked(f_BTF, self.settings.dropout, self.training), named

    def _both_ways(self, part_LBH: Tensor) -> Tensor:
        """The last states of a layer's two directions side by side."""
        if not self.settings.bidirectional:
            return part_LBH
        lanes, rows, size = part_LBH.shape
        return part_LBH.view(lanes // 2, 2, rows, size).transpose(1, 2).reshape(lanes // 2, rows, 2 * size)


def _layers(settings: TranslatorSettings, read: int, size: int, *, bidirectional: bool = False) -> Recurrent:
    return Recurrent(
        settings.cell,
        read,
        size,
        settings.layers,
        batch_first=True,
        bidirectional=bidirectional,
        dropout=settings.dropout if settings.layers > 1 else 0.0,
        locked=True,
        input_dropout=settings.dropout,
    )


def _reversed(lengths_B: Tensor, places: int) -> Tensor:
    """Where each place of a reversed source comes from, [B, S]: its END stays last, and so does padding."""
    place_S = torch.arange(places, device=lengths_B.device)
    turned_BS = lengths_B[:, None] - 2 - place_S
    return torch.where(turned_BS >= 0, turned_BS, place_S)


def _original(a_BTS: Tensor, memory: Held) -> Tensor:
    """Weights over the source as it was given; reversing twice is no change."""
    if "order_BS" not in memory:
        return a_BTS
    return a_BTS.gather(2, memory["order_BS"][:, None].expand_as(a_BTS))
