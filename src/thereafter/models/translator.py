"""One sequence into another: what every translator shares, its settings, its batches and its loss.

    p(target | source) = prod_t p(y_t | y_<t, source),     p(y_t | ...) = softmax(W f_t + b)[y_t]

A network says how it reads a source into a memory, and how features f_t come from the memory and the words before. All
steps of a known target are worked out at once (teacher forcing); one step at a time, with the state of the last, the
same function writes.

Label smoothing (Szegedy et al. 2016) puts the share e of the target on all words alike. Since the mean of the scores z
is f . mean(W) + mean(b), it costs no second softmax: (1 - e) nll + e mean_v(-log p_v) = nll + e (z_target - mean z).
Own words (Mihaylova and Martins 2019, after Bengio et al. 2015): a share of what the decoder reads while it is trained
is what it would have said itself, found by a first pass over the known target. Of a schedule, `own_words` is the share
at the end of the training: it rises to it in a straight line ("linear"), or slowly, fast and slowly ("sigmoid").

Ids: `END` is 0 and stands also where rows are padded, tokens follow, and the start mark is the row below all words.
Shapes: B rows, S places of the source, T steps of the target, N targets without padding, E vectors, F features,
V words.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.layers.embedding import Embedding
from thereafter.layers.softmax import Softmax, rows_at_once
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.models.task_net import CELLS, TaskNet

END = 0
"""Ends a sentence, and fills rows behind their end."""
MODELS = ("recurrent", "transformer")
ATTENTIONS = ("none", "dot", "bilinear", "additive")
SCHEDULES = ("constant", "linear", "sigmoid")
TOKENS = ("word", "prose", "bpe", "char")
_STEEP = 12.0  # of the sigmoid schedule: from 0.2 % of the share to 99.8 %
Held = dict[str, Tensor]
"""Tensors by name, each with the rows as its first axis: a memory of the source, or the state of a decoder."""


@dataclass(frozen=True)
class TranslatorSettings:
    """`model`: "recurrent" or "transformer"; `hidden` units a layer (both directions of an encoder together), `layers`.

    Recurrent: `cell`, word vectors of `embed` numbers, `bidirectional` encoder, `reverse`d source, `attention`.
    Transformer: `heads`, `feedforward` units (0 means four times `hidden`); word vectors have `hidden` numbers.
    `tied`: the head's matrix is that of the target's word vectors; `shared`: source and target have one vocabulary and
    one table of vectors. `dropout` is locked in recurrent layers; `drop_words`: so many words lose their vectors.
    `label_smoothing`, `own_words`, `own_words_schedule`: see the module.
    Text: `tokens` word, prose, bpe or char; `vocabulary` forms at most, `min_count`; `lower` case; sentences are read
    up to `longest` tokens. `languages`, as in "de-en": which of a corpus' languages; columns of a file, as in "2-1".
    """

    model: str = "recurrent"
    cell: str = "gru"
    embed: int = 256
    hidden: int = 512
    layers: int = 1
    bidirectional: bool = True
    reverse: bool = False
    attention: str = "additive"
    heads: int = 8
    feedforward: int = 0
    dropout: float = 0.3
    drop_words: float = 0.0
    tied: bool = True
    shared: bool = False
    label_smoothing: float = 0.1
    own_words: float = 0.0
    own_words_schedule: str = "constant"
    tokens: str = "prose"
    vocabulary: int = 0
    min_count: int = 2
    lower: bool = True
    longest: int = 250
    languages: str = ""

    def __post_init__(self) -> None:
        check_choice("model", self.model, MODELS)
        check_choice("cell", self.cell, CELLS)
        check_choice("attention", self.attention, ATTENTIONS)
        check_choice("tokens", self.tokens, TOKENS)
        check_choice("own_words_schedule", self.own_words_schedule, SCHEDULES)
        for name in ("embed", "hidden", "layers", "heads", "min_count", "longest"):
            check_size(name, getattr(self, name))
        for name in ("dropout", "drop_words", "label_smoothing", "own_words"):
            check_share(name, getattr(self, name))
        for name in ("feedforward", "vocabulary"):
            if getattr(self, name) < 0:
                raise OptionError(f"{name} is {getattr(self, name)}; expected a number, or 0 to have it chosen")
        if self.model == "transformer" and self.hidden % self.heads:
            raise OptionError(f"hidden is {self.hidden} and heads is {self.heads}; expected a multiple; try heads=4")
        if self.model == "recurrent" and self.bidirectional and self.hidden % 2:
            raise OptionError(
                f"hidden is {self.hidden} and the encoder bidirectional, half of them each way; expected an even number"
            )

    @property
    def vectors(self) -> int:
        """The size of a word vector."""
        return self.hidden if self.model == "transformer" else self.embed


@dataclass(frozen=True)
class PairBatch:
    """Sources, each with its END, and targets, which are None where they are asked for.

    `at_N`: the places of the flattened targets that are no padding, found by the host so that no device is waited for.
    """

    source_BS: Tensor
    lengths_B: Tensor
    target_BT: Tensor | None = None
    at_N: Tensor | None = None

    def __len__(self) -> int:
        return len(self.source_BS)

    def to(self, device: torch.device) -> PairBatch:
        """The same on another device; lengths stay where the host can read them."""
        target_BT = None if self.target_BT is None else self.target_BT.to(device)
        at_N = None if self.at_N is None else self.at_N.to(device)
        return replace(self, source_BS=self.source_BS.to(device), target_BT=target_BT, at_N=at_N)


class Translator(TaskNet[PairBatch]):
    """See the module's equations. `unknown`: an id that is never said; `limit`: tokens of an answer at most."""

    def __init__(
        self, settings: TranslatorSettings, *, source: int, target: int, unknown: int | None = None, limit: int = 100
    ) -> None:
        super().__init__()
        if settings.shared and source != target:
            raise OptionError(f"shared is true with {source:,} source and {target:,} target words; expected as many")
        self.settings, self.unknown, self.limit = settings, unknown, limit
        self.words = Embedding(target, settings.vectors, drop=settings.drop_words)
        self.source_words = None if settings.shared else Embedding(source, settings.vectors, drop=settings.drop_words)
        self.features = settings.vectors if settings.tied else settings.hidden
        self.head = Softmax(self.features, target, tied=self.words if settings.tied else None)
        self._scale = math.sqrt(settings.vectors)
        for table in (self.words, self.source_words):
            if table is not None:
                nn.init.normal_(table.weight, std=1 / self._scale)

    @abstractmethod
    def read(self, batch: PairBatch) -> Held:
        """The memory of all sources: what writing needs of them, with `inside_BS`, true where a source is real."""

    @abstractmethod
    def begin(self, memory: Held) -> Held:
        """The state of a decoder that has written nothing yet."""

    @abstractmethod
    def unrolled(
        self, x_BTE: Tensor, memory: Held, state: Held, weights: list[Tensor] | None = None
    ) -> tuple[Tensor, Held]:
        """Features [B, T, F] after each of the words x, and the state after the last; `weights` takes [B, T, S]."""

    @property
    def start(self) -> int:
        """The id that is read before the first word."""
        return self.words.words

    def nats(self, batch: PairBatch) -> Tensor:
        if batch.target_BT is None or batch.at_N is None:
            raise OptionError("a batch without targets has no loss; expected targets")
        memory = self.read(batch)
        inputs_BT = self._inputs(batch.target_BT)
        own = self._own_share() if self.training else 0.0
        if own:
            inputs_BT = self._mixed(inputs_BT, memory, own)
        x_BTE, table_RE = self.words.lookup(inputs_BT)
        f_BTF, _ = self.unrolled(self._scale * x_BTE, memory, self.begin(memory))
        f_NF = f_BTF.flatten(0, 1).index_select(0, batch.at_N)
        targets_N = batch.target_BT.flatten().index_select(0, batch.at_N)
        table = table_RE if self.settings.tied else None
        nats = self.head.total(f_NF, targets_N, table)
        if self.training and self.settings.label_smoothing:
            nats = nats + self.settings.label_smoothing * self._above_mean(f_NF, targets_N, table)
        return nats

    def scores(self, batch: PairBatch) -> Tensor:
        """log p of every word at every step of known targets, [B, T, V]."""
        if batch.target_BT is None:
            raise OptionError("a batch without targets has no scores; expected targets")
        memory = self.read(batch)
        f_BTF, _ = self.unrolled(self._vectors(self._inputs(batch.target_BT)), memory, self.begin(memory))
        return self.head.log_prob(f_BTF)

    def step(self, last_B: Tensor, memory: Held, state: Held) -> tuple[Tensor, Held]:
        """The scores z [B, V] of all words after one more; a softmax of them is their probability."""
        f_BTF, state = self.unrolled(self._vectors(last_B[:, None]), memory, state)
        return F.linear(f_BTF[:, 0], self.head.matrix[: self.head.words], self.head.bias).float(), state

    def decide(self, batch: PairBatch) -> list[list[int]]:
        """The likeliest word at every step, until a sentence ends: ids without END. `decoding.pairs` searches wider."""
        with self.quietly():
            memory = self.read(batch)
            state, running = self.begin(memory), torch.arange(len(batch), device=self.device)
            last_B, going_B = torch.full_like(running, self.start), torch.ones_like(running, dtype=torch.bool)
            said_BT = torch.full((len(batch), self.limit), END, device=self.device)
            for t in range(self.limit):
                z_BV, state = self.step(last_B, memory, state)
                last_B = self.sayable(z_BV).argmax(-1)
                said_BT[running, t] = last_B
                going_B = going_B & (last_B != END)
                count = int(going_B.sum())
                if not count:
                    break
                if count <= SPARSE * len(last_B):  # those that have ended are not carried along
                    rows = going_B.nonzero().squeeze(1)
                    memory, state = select(memory, rows), select(state, rows)
                    running, last_B, going_B = running[rows], last_B[rows], going_B[rows]
            return ended(said_BT)

    def sayable(self, z_BV: Tensor) -> Tensor:
        """Scores with those words at -inf that are never said; written in their place."""
        if self.unknown is not None:
            z_BV[:, self.unknown] = -torch.inf
        return z_BV

    def alignment(self, batch: PairBatch) -> list[tuple[list[int], Tensor]]:
        """For every row what `decide` says, END included, and where each word of it looked: [said, source places].

        Of a Transformer it is the mean over the heads of its last block.
        """
        if self.settings.model == "recurrent" and self.settings.attention == "none":
            raise OptionError("this translator has no attention to show; try one trained with attention='additive'")
        said, weights_BTS = self.followed(batch)
        if weights_BTS is None:
            raise RuntimeError("a translator with attention that shows none")
        cut = zip(said, weights_BTS.float().cpu(), batch.lengths_B.tolist(), strict=True)
        return [(row, weights_TS[: len(row), :length]) for row, weights_TS, length in cut]

    def followed(self, batch: PairBatch) -> tuple[list[list[int]], Tensor | None]:
        """What `decide` says, END included, then all of its steps once more in one pass: the attention of every step,
        [B, T, S], where there is any."""
        said = [[*row, END] for row in self.decide(batch)]
        longest = max(map(len, said))
        rows_BT = torch.tensor([row + [END] * (longest - len(row)) for row in said], device=self.device)
        shown: list[Tensor] = []
        with self.quietly():
            memory = self.read(batch)
            self.unrolled(self._vectors(self._inputs(rows_BT)), memory, self.begin(memory), shown)
        return said, shown[0] if shown else None

    def source_vectors(self, source_BS: Tensor) -> Tensor:
        """The vectors of a source, [B, S, E]: as those of the target sqrt(E) times their rows of the table.

        A row's numbers are about 1 / sqrt(E), since the head compares features with rows; those a layer reads about 1.
        """
        table = self.words if self.source_words is None else self.source_words
        found: Tensor = self._scale * table(source_BS)
        return found

    def _vectors(self, words_BT: Tensor) -> Tensor:
        found: Tensor = self._scale * self.words(words_BT)
        return found

    def _inputs(self, target_BT: Tensor) -> Tensor:
        """What the decoder reads: the start mark, then every word but the last."""
        return torch.cat((torch.full_like(target_BT[:, :1], self.start), target_BT[:, :-1]), 1)

    def _own_share(self) -> float:
        """How many of the words it reads are its own at this point of its training."""
        risen = {"constant": 1.0, "linear": self.trained, "sigmoid": 1 / (1 + math.exp(_STEEP * (0.5 - self.trained)))}
        return self.settings.own_words * risen[self.settings.own_words_schedule]

    def _mixed(self, inputs_BT: Tensor, memory: Held, share: float) -> Tensor:
        """The inputs with a share of own words among them, never the start mark."""
        with torch.no_grad():
            f_BTF, _ = self.unrolled(self._vectors(inputs_BT), memory, self.begin(memory))
            f_NF = f_BTF.flatten(0, 1)
            rows = rows_at_once(len(f_NF), self.head.words, device=f_NF.device.type)
            matrix, bias = self.head.matrix[: self.head.words], self.head.bias
            pieces = (f_NF[begin : begin + rows] for begin in range(0, len(f_NF), rows))
            own_N = torch.cat([F.linear(piece, matrix, bias).argmax(-1) for piece in pieces])
            before_BT = own_N.view_as(inputs_BT)[:, :-1]
            drawn_BT = torch.rand(before_BT.shape, device=before_BT.device) < share
            mixed_BT = torch.where(drawn_BT, before_BT, inputs_BT[:, 1:])
        return torch.cat((inputs_BT[:, :1], mixed_BT), 1)

    def _above_mean(self, f_NF: Tensor, targets_N: Tensor, table_RE: Tensor | None) -> Tensor:
        """The sum of z_target - mean z: what smoothing adds to the nats, times its share."""
        matrix = (self.head.matrix if table_RE is None else table_RE)[: self.head.words]
        bias_V = self.head.bias
        with torch.autocast(f_NF.device.type, enabled=False):
            f_NF = f_NF.to(matrix.dtype)
            target = (f_NF * F.embedding(targets_N, matrix)).sum() + bias_V[targets_N].sum()
            return target - f_NF.sum(0) @ matrix.mean(0) - len(f_NF) * bias_V.mean()


SPARSE = 0.75
"""Where no more than this share of the rows still goes on, the others are taken out."""


def select(held: Held, rows: Tensor) -> Held:
    """The given rows of everything held."""
    return {name: tensor.index_select(0, rows) for name, tensor in held.items()}


def ended(said_BT: Tensor) -> list[list[int]]:
    """Each row up to its END."""
    rows: list[list[int]] = said_BT.tolist()
    return [row[: row.index(END)] if END in row else row for row in rows]


def inside(batch: PairBatch) -> Tensor:
    """True where a source is real, [B, S]."""
    source_BS = batch.source_BS
    return torch.arange(source_BS.shape[1], device=source_BS.device) < batch.lengths_B.to(source_BS.device)[:, None]
