"""A decoder of recurrent layers, with or without attention.

    q_t = decoder([y_t-1, c])_t  or  decoder(y_t-1)_t,      f_t = tanh(W [c_t, q_t])

Without attention c_t = c is what the encoder ended with: it is where the decoder begins, and is given to it at every
step (Sutskever, Vinyals and Le 2014; Cho et al. 2014). With attention c_t is the mean of all h_s under weights that the
decoder's state chooses (Luong, Pham and Manning 2015; Bahdanau, Cho and Bengio 2015 for the additive score). The state
does not read c_t, so that the recurrence over a known target is one fused scan, and attention one product over all
steps.

Shapes: B rows, S places, T steps, L layers, H units, E vectors, F features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from thereafter.errors import ShapeError
from thereafter.layers.attention import Attention
from thereafter.layers.dropout import locked
from thereafter.layers.recurrent import Recurrent
from thereafter.models.decoder import Fields, Tensors
from thereafter.models.encoder import Memory
from thereafter.models.word_decoder import DecoderSettings, WordDecoder, in_source_order


class RecurrentDecoder(WordDecoder):
    """See the module's equations. A memory has vectors of `hidden` numbers, and `h` [B, L, H] in its summary.

    >>> decoder = RecurrentDecoder(DecoderSettings(embed=4, hidden=6), words=5).eval()
    >>> memory = Memory(torch.zeros(2, 3, 6), torch.ones(2, 3, dtype=torch.bool), {"h": torch.zeros(2, 1, 6)})
    >>> model = decoder.given(memory)
    >>> model.predict(model.start(2)).shape
    (2, 5)
    """

    def __init__(self, settings: DecoderSettings, *, words: int, unknown: int | None = None, limit: int = 100) -> None:
        super().__init__(settings, settings.embed, unknown=unknown, limit=limit)
        self.words = self._table(words)
        self._add_head(self.words)
        self._add_layers()

    def _add_layers(self, *, repeated: bool = True) -> None:
        """`repeated`: without attention c is given at every step; else the decoder has no more than its first state,
        and f_t = tanh(W q_t)."""
        settings = self.settings
        size, attends = settings.hidden, settings.attention != "none"
        self.repeated = repeated and not attends
        self.decoder = recurrent_layers(settings, settings.embed + (size if self.repeated else 0), size)
        self.attention = Attention(size, size, settings.attention) if attends else None
        self.join = nn.Linear(2 * size if attends or self.repeated else size, self.features)

    def prepare(self, memory: Memory) -> Tensors:
        source: Tensors = {"inside_BS": memory.inside_BS}
        if memory.place_BS is not None:
            source["place_BS"] = memory.place_BS
        for name in self.decoder.lanes[0].cell.state_sizes():
            source[f"last_{name}"] = self._last(memory, name)
        if self.attention is not None:
            source["h_BSH"] = memory.h_BSH
            source["keys"] = self.attention.keys(memory.h_BSH)
        return source

    def begin(self, source: Tensors) -> Tensors:
        return {name: source[f"last_{name}"] for name in self.decoder.lanes[0].cell.state_sizes()}

    def unroll(
        self, x_BTE: Tensor, source: Tensors, state: Tensors, record: Fields | None = None
    ) -> tuple[Tensor, Tensors]:
        last_BTH = source["last_h"][:, -1:].expand(-1, x_BTE.shape[1], -1)
        if self.repeated:
            x_BTE = torch.cat((x_BTE, last_BTH.to(x_BTE.dtype)), -1)
        parts = tuple(part.transpose(0, 1).contiguous() for part in state.values())
        before = parts if len(parts) > 1 else parts[0]
        if record is None:
            q_BTH, after = self.decoder(x_BTE, before)
        else:
            traced = self.decoder.trace(x_BTE, before)
            q_BTH, after = traced.output, traced.state
            for lane, arrays in traced.records.items():
                record |= {f"{lane}.{name}": (("step", "unit"), array_BTH) for name, array_BTH in arrays.items()}
        after = after if isinstance(after, tuple) else (after,)
        c_BTH = last_BTH
        if self.attention is not None:
            c_BTH, a_BTS = self.attention(q_BTH, source["h_BSH"], source["keys"], source["inside_BS"])
            if record is not None:
                record["attention"] = (("step", "source"), in_source_order(a_BTS, source))
        if self.attention is not None or self.repeated:
            q_BTH = torch.cat((c_BTH.to(q_BTH.dtype), q_BTH), -1)
        f_BTF = torch.tanh(self.join(q_BTH))
        named = {name: part.transpose(0, 1) for name, part in zip(state, after, strict=True)}
        return locked(f_BTF, self.settings.dropout, self.training), named

    def _last(self, memory: Memory, name: str) -> Tensor:
        """What a field of the state begins with."""
        expected = (len(memory), self.settings.layers, self.settings.hidden)
        part_BLH = memory.summary.get(name)
        if part_BLH is None or part_BLH.shape != expected:
            got = "nothing" if part_BLH is None else f"the shape {tuple(part_BLH.shape)}"
            raise ShapeError(
                f"a recurrent decoder begins with {name!r} of a memory's summary; got {got}, expected "
                f"{list(expected)}: sources, layers, hidden; try summary={{{name!r}: ...}}"
            )
        return part_BLH


def recurrent_layers(settings: DecoderSettings, read: int, size: int, *, bidirectional: bool = False) -> Recurrent:
    """Layers as the settings want them, over vectors of `read` numbers."""
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
