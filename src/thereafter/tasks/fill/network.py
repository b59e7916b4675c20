"""A word from the words on both of its sides: what stood before it and what comes after it, never the word itself.

    f_t = forward(<s>, E[w_1], ..., E[w_{t-1}])         the state when all words before t have been read
    b_t = backward(</s>, E[w_n], ..., E[w_{t+1}])       the state when all words after t have been read, from the end
    p(w_t | all the others) = softmax(E g_t + c),       g_t = W [f_t, b_t] + d

Masking a word and predicting it from the rest takes a pass for each word. Here no word is masked: since neither f_t nor
b_t has read w_t, one pass over a sentence predicts all its words at once, each as if it alone were the blank. That is
why the two directions are stacked apart, and meet only in g_t: a second layer over both would read w_t from its
neighbours' states.

With `sides="left"` g_t is made of f_t alone: the left-to-right model of the same size, to compare with. "right" is its
mirror.

Schuster and Paliwal 1997 (bidirectional networks); Melamud, Goldberger and Dagan 2016, context2vec (the two states that
leave the word out). The output shares the word vectors E (Press and Wolf 2017).

Shapes: B rows, T words, N words of all rows, E word vector, H units of one direction, V words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.layers.dropout import locked
from thereafter.layers.embedding import Embedding
from thereafter.layers.recurrent import Recurrent
from thereafter.layers.softmax import Softmax, rows_at_once
from thereafter.models.settings import check_choice, check_share, check_size
from thereafter.models.task_net import CELLS, UNKNOWN, TaskNet

SIDES = ("both", "left", "right")


@dataclass(frozen=True)
class FillerSettings:
    """Sizes of a network that fills in a missing word."""

    cell: str = "lstm"
    """The kind of its recurrent layers: `CELLS`."""
    embed: int = 200
    """Numbers of a word's vector."""
    hidden: int = 200
    """Units a layer in each direction."""
    layers: int = 1
    """Recurrent layers of each direction."""
    sides: str = "both"
    """The sides that a word is predicted from: `SIDES`."""
    dropout: float = 0.3
    """The share of word vectors, of what is between layers and of the last features that is dropped while training."""

    def __post_init__(self) -> None:
        check_choice("cell", self.cell, CELLS)
        check_choice("sides", self.sides, SIDES)
        for name, size in {"embed": self.embed, "hidden": self.hidden, "layers": self.layers}.items():
            check_size(name, size)
        check_share("dropout", self.dropout)


@dataclass(frozen=True)
class FillBatch:
    """Rows of words; `blanks_B` is the position of the missing word, None where every word is a target."""

    words_BT: Tensor
    lengths_B: Tensor
    blanks_B: Tensor | None = None

    def __len__(self) -> int:
        return len(self.words_BT)

    def to(self, device: torch.device) -> FillBatch:
        """The same on another device; lengths stay where the host can read them."""
        blanks_B = None if self.blanks_B is None else self.blanks_B.to(device)
        return replace(self, words_BT=self.words_BT.to(device), blanks_B=blanks_B)


@dataclass(frozen=True)
class Judged:
    """Every word of a batch, [N]: its -log p, how many other words were likelier, and whether it is a known word."""

    nats_N: Tensor
    rank_N: Tensor
    known_N: Tensor


class Filler(TaskNet[FillBatch]):
    """See the module's equations."""

    def __init__(self, settings: FillerSettings, *, words: int) -> None:
        super().__init__()
        if words <= UNKNOWN + 1:
            raise OptionError("no word is met twice: there is nothing to fill a blank with; expected a longer text")
        self.settings = settings
        self.words = Embedding(words, settings.embed)
        self.before = None if settings.sides == "right" else _one_way(settings)
        self.after = None if settings.sides == "left" else _one_way(settings)
        self.join = nn.Linear(settings.hidden * (2 if settings.sides == "both" else 1), settings.embed)
        self.head = Softmax(settings.embed, words, tied=self.words)

    def nats(self, batch: FillBatch) -> Tensor:
        g_BTE, table_RE = self._features(batch)
        inside_BT = _inside(batch)
        return self.head.total(g_BTE[inside_BT], batch.words_BT[inside_BT], table_RE)

    def features(self, batch: FillBatch) -> Tensor:
        """g, the features that each word is predicted from, [B, T, E]."""
        return self._features(batch)[0]

    def judge(self, batch: FillBatch) -> Judged:
        """How well every word is predicted. The unknown word has a probability (`nats_N`), but is never an answer."""
        with self.quietly():
            inside_BT = _inside(batch)
            targets_N = batch.words_BT[inside_BT]
            nats, ranks, numbers_V = [], [], torch.arange(self.head.words, device=self.device)
            for logp_NV, target_N in self._pieces(self.features(batch)[inside_BT], targets_N):
                own_N1 = logp_NV.gather(1, target_N[:, None])
                nats.append(-own_N1.squeeze(1))
                # among equals the one with the smaller number comes first, as in any sorted list
                ahead_NV = logp_NV > own_N1
                ahead_NV |= (logp_NV == own_N1) & (numbers_V < target_N[:, None])
                ranks.append(ahead_NV[:, UNKNOWN + 1 :].sum(1))
            return Judged(torch.cat(nats), torch.cat(ranks), targets_N > UNKNOWN)

    def fill(self, batch: FillBatch) -> Tensor:
        """p of every word in each row's blank, [B, V]; padding and the unknown word have none, the others sum to 1."""
        if batch.blanks_B is None:
            raise OptionError("a batch without blanks has nothing to fill; expected a place for each row")
        with self.quietly():
            g_BE = self.features(batch)[torch.arange(len(batch), device=self.device), batch.blanks_B]
            logp_BV = self.head.log_prob(g_BE)
            logp_BV[:, : UNKNOWN + 1] = -torch.inf
            return logp_BV.softmax(-1)

    def _features(self, batch: FillBatch) -> tuple[Tensor, Tensor]:
        """g [B, T, E], and the matrix of word vectors for the head."""
        words_BT, lengths_B = batch.words_BT, batch.lengths_B
        mirror_BT = _mirror(lengths_B.to(words_BT.device), words_BT.shape[1])
        # both directions read the border first, and never their last word: nothing is predicted from it
        border_B1 = words_BT.new_full((len(words_BT), 1), self.head.words)
        forward_BT = torch.cat((border_B1, words_BT[:, :-1]), 1)
        backward_BT = torch.cat((border_B1, words_BT.gather(1, mirror_BT)[:, :-1]), 1)
        x_2BTE, table_RE = self.words.lookup(torch.stack((forward_BT, backward_BT)))
        sides = []
        for way, x_BTE, layers in (("left", x_2BTE[0], self.before), ("right", x_2BTE[1], self.after)):
            if layers is None:
                continue
            h_BTH, _ = layers(locked(x_BTE, self.settings.dropout, self.training), lengths=lengths_B)
            if way == "right":  # step k of the backward direction belongs to the word at n - 1 - k
                h_BTH = h_BTH.gather(1, mirror_BT[..., None].expand_as(h_BTH))
            sides.append(locked(h_BTH, self.settings.dropout, self.training))
        # without a tanh: features that stay within 1 learn slowly against word vectors that begin near 0
        return self.join(torch.cat(sides, -1)), table_RE

    def _pieces(self, g_NE: Tensor, targets_N: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """log p of all words, a piece of the rows at a time: all of them at once may not fit."""
        rows = rows_at_once(len(g_NE), self.head.words, device=g_NE.device.type)
        for begin in range(0, len(g_NE), rows):
            yield self.head.log_prob(g_NE[begin : begin + rows]), targets_N[begin : begin + rows]


def _one_way(settings: FillerSettings) -> Recurrent:
    return Recurrent(
        settings.cell,
        settings.embed,
        settings.hidden,
        settings.layers,
        batch_first=True,
        dropout=settings.dropout if settings.layers > 1 else 0.0,
        locked=True,
    )


def _mirror(lengths_B: Tensor, steps: int) -> Tensor:
    """The place n - 1 - t of each row, [B, T]; 0 in the padding, which is not used."""
    return (lengths_B[:, None] - 1 - torch.arange(steps, device=lengths_B.device)).clamp(min=0)


def _inside(batch: FillBatch) -> Tensor:
    """Where there is a word, [B, T]."""
    steps, device = batch.words_BT.shape[1], batch.words_BT.device
    return torch.arange(steps, device=device) < batch.lengths_B.to(device)[:, None]
