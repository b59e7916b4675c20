"""Decoders over words: what all share (settings, word vectors, head and loss), and the recurrent one.

    p(y | source) = prod_t p(y_t | y_<t, source),     p(y_t | ...) = softmax(W f_t + b)[y_t]

A network says how features f_t come from the memory of a source and the words before. All steps of a known target are
computed at once (teacher forcing); one step at a time, with the state of the last, the same function generates.

Label smoothing (Szegedy et al. 2016) puts the share e of the target on all words alike. Since the mean of the scores z
is f . mean(W) + mean(b), it costs no second softmax: (1 - e) nll + e mean_v(-log p_v) = nll + e (z_target - mean z).
Own words (Mihaylova and Martins 2019, after Bengio et al. 2015): a share of what the decoder reads while it is trained
is what it would have predicted itself, by a first pass over the known target. Of a schedule, `own_words` is the share
at the end of the training: it rises to it in a straight line ("linear"), or slowly, fast and slowly ("sigmoid").

`RecurrentDecoder` has recurrent layers, with or without attention:

    q_t = decoder([y_t-1, c])_t  or  decoder(y_t-1)_t,      f_t = tanh(W [c_t, q_t])

Without attention c_t = c is what the encoder ended with: it is where the decoder begins, and is given to it at every
step (Sutskever, Vinyals and Le 2014; Cho et al. 2014). With attention c_t is the mean of all h_s under weights that the
decoder's state chooses (Luong, Pham and Manning 2015; Bahdanau, Cho and Bengio 2015 for the additive score). The state
does not read c_t, so that the recurrence over a known target is one fused scan, and attention one product over all
steps.

Ids: `END` is 0 and stands also where rows are padded, tokens follow, and the start mark is the row below all words.
Shapes: B rows, S places of a source, T steps, N targets without padding, E vectors, F features, V words, L layers, H
units.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError, ShapeError
from thereafter.kernels.rows import pick_rows
from thereafter.layers.attention import Attention
from thereafter.layers.blocks import locked_layers
from thereafter.layers.dropout import locked
from thereafter.layers.embedding import Embedding
from thereafter.layers.heads import Softmax, rows_at_once
from thereafter.layers.recurrent import Recurrent
from thereafter.models.decoder import Decoder, Fields, Tensors
from thereafter.models.settings import check_choice, check_shares, check_sizes
from thereafter.models.task_net import CELLS, Memory

END = 0
"""Ends a sequence, and fills rows after their end."""
ATTENTIONS = ("none", "dot", "bilinear", "additive")
SCHEDULES = ("constant", "linear", "sigmoid")
_STEEP = 12.0  # of the sigmoid schedule: from 0.2 % of the share to 99.8 %


@dataclass(frozen=True)
class DecoderSettings:
    """A decoder over words, recurrent or a Transformer."""

    cell: str = "gru"
    """The kind of recurrent layers: `CELLS`."""
    embed: int = 256
    """Numbers of a word's vector in recurrent networks."""
    hidden: int = 512
    """Units per layer; in a Transformer, numbers of a word's vector too."""
    layers: int = 1
    """Number of stacked layers."""
    attention: str = "additive"
    """Attention of a recurrent decoder to the source: `ATTENTIONS`."""
    heads: int = 8
    """Attention heads of a Transformer."""
    feedforward: int = 0
    """Units of the feed-forward layers of a Transformer (0: four times `hidden`)."""
    dropout: float = 0.3
    """The share of units that is dropped while training, in recurrent layers the same ones at all steps."""
    drop_words: float = 0.0
    """The share of words that lose their vectors while training."""
    tied: bool = True
    """Whether the head's matrix is that of the word vectors."""
    label_smoothing: float = 0.1
    """The share of each target that is spread over all words."""
    own_words: float = 0.0
    """The share of its own predictions that the decoder reads while it is trained, in place of the known words."""
    own_words_schedule: str = "constant"
    """How that share grows during the training: `SCHEDULES`."""
    longest: int = 250
    """Maximum number of tokens of a sequence."""

    def __post_init__(self) -> None:
        check_choice("cell", self.cell, CELLS)
        check_choice("attention", self.attention, ATTENTIONS)
        check_choice("own_words_schedule", self.own_words_schedule, SCHEDULES)
        check_sizes(self, "embed", "hidden", "layers", "heads", "longest")
        check_shares(self, "dropout", "drop_words", "label_smoothing", "own_words")
        check_count("feedforward", self.feedforward)


def check_count(name: str, number: int) -> None:
    """Refuse a number below 0; 0 means the default choice."""
    if number < 0:
        raise OptionError(f"{name} is {number}; expected a number, or 0 to have it chosen")


class WordDecoder(Decoder):
    """See the module's equations. `unknown`: an id that is never predicted; `limit`: tokens of an answer at most.

    A kind of decoder defines `prepare`, `begin` and `unroll`.
    """

    settings: DecoderSettings
    words: Embedding
    head: Softmax
    trained: float = 0.0
    """The share of its training that is completed."""

    def __init__(
        self, settings: DecoderSettings, vectors: int, *, unknown: int | None = None, limit: int = 100
    ) -> None:
        super().__init__()
        self.settings, self.unknown, self.limit = settings, unknown, limit
        self.features = vectors if settings.tied else settings.hidden
        self._vector_size, self._scale = vectors, math.sqrt(vectors)

    def _table(self, words: int) -> Embedding:
        """Word vectors, drawn."""
        return Embedding(words, self._vector_size, drop=self.settings.drop_words)

    def _add_head(self, *tables: Embedding) -> None:
        """The head, after all tables of word vectors, whose numbers then become about 1 / sqrt(E)."""
        self.head = Softmax(self.features, self.words.words, tied=self.words if self.settings.tied else None)
        for table in tables:
            nn.init.normal_(table.weight, std=1 / self._scale)

    @abstractmethod
    def unroll(
        self, x_BTE: Tensor, source: Tensors, state: Tensors, record: Fields | None = None
    ) -> tuple[Tensor, Tensors]:
        """As `advance`, of the vectors of words."""

    def advance(
        self, words_BT: Tensor, source: Tensors, state: Tensors, record: Fields | None = None
    ) -> tuple[Tensor, Tensors]:
        return self.unroll(self.vectors(words_BT), source, state, record)

    def log_prob(self, f_NF: Tensor) -> Tensor:
        if not torch.is_inference_mode_enabled() or f_NF.dtype not in (torch.float32, torch.float64):
            return self.head.log_prob(f_NF)
        # in place: this is the largest tensor that a step of a search writes
        z_NV = F.linear(f_NF, self.head.matrix[: self.head.words], self.head.bias)
        return torch.log_softmax(z_NV, -1, out=z_NV)

    @property
    def vocabulary_size(self) -> int:
        return self.words.words

    @property
    def device(self) -> torch.device:
        return self.words.weight.device

    def vectors(self, words_BT: Tensor) -> Tensor:
        """What layers read, [B, T, E]: sqrt(E) times rows of the table, whose numbers are about 1 / sqrt(E)."""
        x_BTE: Tensor = self._scale * self.words(words_BT)
        return x_BTE

    def inputs(self, target_BT: Tensor) -> Tensor:
        """The inputs of a known target: the start mark, then every word but the last."""
        return torch.cat((torch.full_like(target_BT[:, :1], self.start), target_BT[:, :-1]), 1)

    def nats_given(
        self,
        memory: Memory,
        target_BT: Tensor,
        at_N: Tensor | None,
        row_B: Tensor | None = None,
        counted_BT: Tensor | None = None,
    ) -> Tensor:
        """The sum of -log p of the targets, while training with what smoothing adds.

        `at_N`: the places of the flattened targets that are no padding. `row_B`: the source of each target, where
        sources have several; else the targets go with the sources one by one. `counted_BT`: true for the places that
        count, where the host does not know them.
        """
        source = self._of_targets(self.prepare(memory), row_B)
        inputs_BT = self.inputs(target_BT)
        own = self.own_share() if self.training else 0.0
        if own:
            inputs_BT = self.mix_own_words(inputs_BT, source, own)
        x_BTE, table_RE = self.words.lookup(inputs_BT)
        f_BTF, _ = self.unroll(self._scale * x_BTE, source, self.begin(source))
        f_NF, targets_N = f_BTF.flatten(0, 1), target_BT.flatten()
        if at_N is not None:
            f_NF, targets_N = f_NF.index_select(0, at_N), targets_N.index_select(0, at_N)
        counted_N = None if counted_BT is None else counted_BT.flatten()
        table = table_RE if self.settings.tied else None
        nats = self.head.total(f_NF, targets_N, table, counted_N)
        if self.training and self.settings.label_smoothing:
            nats = nats + self.settings.label_smoothing * self._above_mean(f_NF, targets_N, table, counted_N)
        return nats

    def scores_given(self, memory: Memory, target_BT: Tensor, row_B: Tensor | None = None) -> Tensor:
        """log p of every word at every step of known targets, [B, T, V]; `row_B` as in `nats_given`."""
        source = self._of_targets(self.prepare(memory), row_B)
        f_BTF, _ = self.advance(self.inputs(target_BT), source, self.begin(source))
        return self.head.log_prob(f_BTF)

    def _of_targets(self, source: Tensors, row_B: Tensor | None) -> Tensors:
        """What steps need of the source of each target."""
        return source if row_B is None else {name: part.index_select(0, row_B) for name, part in source.items()}

    @property
    def recordable(self) -> bool:
        """Whether the same is computed at every step of a training: its own words may be read more and more often."""
        return not self.settings.own_words or self.settings.own_words_schedule == "constant"

    def own_share(self) -> float:
        """The share of its own predictions among the words it reads, at this point of its training."""
        risen = {"constant": 1.0, "linear": self.trained, "sigmoid": 1 / (1 + math.exp(_STEEP * (0.5 - self.trained)))}
        return self.settings.own_words * risen[self.settings.own_words_schedule]

    def mix_own_words(self, inputs_BT: Tensor, source: Tensors, share: float) -> Tensor:
        """The inputs with a share of them replaced by its own predictions, never the start mark."""
        with torch.no_grad():
            f_BTF, _ = self.advance(inputs_BT, source, self.begin(source))
            f_NF = f_BTF.flatten(0, 1)
            rows = rows_at_once(len(f_NF), self.head.words, device=f_NF.device.type)
            matrix, bias = self.head.matrix[: self.head.words], self.head.bias
            pieces = (f_NF[begin : begin + rows] for begin in range(0, len(f_NF), rows))
            own_N = torch.cat([F.linear(piece, matrix, bias).argmax(-1) for piece in pieces])
            before_BT = own_N.view_as(inputs_BT)[:, :-1]
            drawn_BT = torch.rand(before_BT.shape, device=before_BT.device) < share
            mixed_BT = torch.where(drawn_BT, before_BT, inputs_BT[:, 1:])
        return torch.cat((inputs_BT[:, :1], mixed_BT), 1)

    def _above_mean(self, f_NF: Tensor, targets_N: Tensor, table_RE: Tensor | None, counted_N: Tensor | None) -> Tensor:
        """The sum of z_target - mean z: what smoothing adds to the nats, times its share."""
        matrix = (self.head.matrix if table_RE is None else table_RE)[: self.head.words]
        bias_V = self.head.bias
        with torch.autocast(f_NF.device.type, enabled=False):
            f_NF, count = f_NF.to(matrix.dtype), len(f_NF)
            bias_N = pick_rows(bias_V.unsqueeze(1), targets_N).squeeze(1)
            own_NF = pick_rows(matrix, targets_N)
            if counted_N is None:
                target = (f_NF * own_NF).sum() + bias_N.sum()
                return target - f_NF.sum(0) @ matrix.mean(0) - count * bias_V.mean()
            f_NF = f_NF.masked_fill(~counted_N[:, None], 0.0)
            target = (f_NF * own_NF).sum() + bias_N.masked_fill(~counted_N, 0.0).sum()
            return target - f_NF.sum(0) @ matrix.mean(0) - counted_N.sum() * bias_V.mean()


def in_source_order(a_BTS: Tensor, source: Tensors) -> Tensor:
    """Weights over the places of a source as it was given, in whichever order it was read."""
    if "place_BS" not in source:
        return a_BTS
    return torch.zeros_like(a_BTS).scatter(2, source["place_BS"][:, None].expand_as(a_BTS), a_BTS)


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
        """The initial value of a field of the state."""
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
    """The layers of the settings, over vectors of `read` numbers."""
    layers, dropout = settings.layers, settings.dropout
    return locked_layers(
        settings.cell, read, size, dropout, layers=layers, bidirectional=bidirectional, input_dropout=dropout
    )
