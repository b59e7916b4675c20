"""A tag for every word: word and character vectors, read in both directions, then a softmax or a CRF.

    x_t = [E[word_t], letters(word_t)],   h_t = [forward, backward](x)_t,   z_t = W h_t + b
    p(tags | words) = prod_t softmax(z_t)[tag_t],  or a linear-chain CRF over all tags at once

Over the layers of a language model, which read forward only, x_t = [body(E[word])_t, letters(word_t)] instead, as in
TagLM (Peters et al. 2017).

Characters by a bidirectional LSTM (Ling et al. 2015, Lample et al. 2016) or a convolution with its maximum (Ma and Hovy
2016). Each distinct word of a batch is spelled once.

Shapes: B rows, T words, U distinct words, L letters, E word vector, K tags.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from thereafter.errors import OptionError
from thereafter.kernels.rows import pick_rows
from thereafter.kernels.switches import traced
from thereafter.layers.blocks import locked_layers
from thereafter.layers.dropout import locked
from thereafter.layers.recurrent import Recurrent
from thereafter.models.quiet import weights_by_layer
from thereafter.models.settings import check_choice, check_shares, check_sizes
from thereafter.models.task_net import (
    CELLS,
    IGNORED,
    PAD,
    counted,
    filled,
    filled_length,
    filled_rows,
    inside,
    read_as_unknown,
)
from thereafter.tasks.batching import FillableBatch
from thereafter.tasks.graphs import WORDS, Feeds, Inputs, OneGraph, Tensors, draw_words
from thereafter.tasks.tag.chains import Crf

LETTERS = ("lstm", "cnn", "none")
_SPREAD = 2.2  # of the lengths of words that are spelled together
_WIDTH = 3  # letters that a convolution sees at once
_STEPS, _WORDS, _LETTERS = 8, 256, 16  # of the lengths, distinct words and letters that batches are filled up to
_AT_ONCE = 1024
"""Words that are spelled together on a GPU: of many more, not all blocks of a persistent program find a place."""


@dataclass(frozen=True)
class TaggerSettings:
    """Sizes of a tagger and how it is regularised."""

    cell: str = "lstm"
    """The kind of its recurrent layers: `CELLS`."""
    embed: int = 100
    """Numbers of a word's vector."""
    hidden: int = 200
    """Units a layer in each direction."""
    layers: int = 2
    """Recurrent layers, one over the other."""
    letters: str = "lstm"
    """What reads the letters of a word: `LETTERS`."""
    letter_embed: int = 32
    """Numbers of a letter's vector."""
    letter_hidden: int = 64
    """Units over the letters (of an LSTM, in each direction)."""
    crf: bool = False
    """Whether the tags of a sentence are decided together, by a conditional random field."""
    dropout: float = 0.4
    """The share of what every layer reads that is dropped while training, the same units at all words."""
    drop_words: float = 0.1
    """The share of words that are read as unknown while training, so that the unknown word is learned."""
    body: tuple[int, ...] = ()
    """Units of layers below that read word vectors forward only, as those of a language model do; one number a
    layer."""
    body_cell: str = "lstm"
    """The kind of the layers of `body`: `CELLS`."""

    def __post_init__(self) -> None:
        check_choice("cell", self.cell, CELLS)
        check_choice("body_cell", self.body_cell, CELLS)
        check_choice("letters", self.letters, LETTERS)
        check_sizes(self, "body", "embed", "hidden", "layers", "letter_embed", "letter_hidden")
        check_shares(self, "dropout", "drop_words")


@dataclass(frozen=True)
class TagBatch(FillableBatch):
    """Rows of words, each with the place of its spelling; `tags_BT` is None where they are asked for.

    `counted_B`: false for rows that fill the batch up; None where it is not filled up.
    """

    words_BT: Tensor
    lengths_B: Tensor
    letters_UL: Tensor
    letter_lengths_U: Tensor
    spelled_BT: Tensor
    tags_BT: Tensor | None = None
    counted_B: Tensor | None = None

    on_host = ("lengths_B", "letter_lengths_U")

    @property
    def recorded(self) -> bool:
        return self.tags_BT is not None and self.counted_B is not None

    def filled(self, most: int, places: int) -> TagBatch:
        """See `task_net.Fillable`. Added rows have one word, which counts for nothing."""
        (rows, steps), (words, letters) = self.words_BT.shape, self.letters_UL.shape
        shape = filled_rows(rows, steps, _STEPS, most, places), filled_length(steps, _STEPS)
        spellings = filled_length(words, _WORDS)
        return TagBatch(
            filled(self.words_BT, shape, PAD),
            filled(self.lengths_B, shape[:1], 1),
            filled(self.letters_UL, (spellings, filled_length(letters, _LETTERS)), PAD),
            filled(self.letter_lengths_U, (spellings,), 1),
            filled(self.spelled_BT, shape, words - 1),
            None if self.tags_BT is None else filled(self.tags_BT, shape),
            counted(rows, shape[0]),
        )


class Tagger(OneGraph[TagBatch]):
    """See the module's equations."""

    def __init__(self, settings: TaggerSettings, *, words: int, letters: int, tags: int) -> None:
        super().__init__()
        if tags < 2:
            raise OptionError(f"the tagger has {tags} tag to choose from; expected at least 2")
        self.settings = settings
        self.words = nn.Embedding(words, settings.embed, padding_idx=PAD)
        self.speller = None if settings.letters == "none" else Speller(settings, letters)
        dropout, sizes = settings.dropout, list(settings.body)
        self.body = (
            locked_layers(settings.body_cell, settings.embed, sizes, dropout, input_dropout=dropout) if sizes else None
        )
        read = settings.body[-1] if settings.body else settings.embed
        read += 0 if self.speller is None else self.speller.width
        self.layers = locked_layers(
            settings.cell,
            read,
            settings.hidden,
            dropout,
            layers=settings.layers,
            bidirectional=True,
            input_dropout=dropout,
            output_dropout=dropout,
        )
        self.head = nn.Linear(2 * settings.hidden, tags)
        self.crf = Crf(tags) if settings.crf else None
        nn.init.uniform_(self.words.weight, -0.1, 0.1)

    def nats(self, batch: TagBatch) -> Tensor:
        if batch.tags_BT is None:
            raise OptionError("a batch without tags has no loss; expected tags")
        z_BTK = self.scores(batch).float()
        if self.crf is not None:
            return self.crf.nll(z_BTK, batch.tags_BT, batch.lengths_B.to(z_BTK.device), batch.counted_B)
        inside_BT = inside(batch.lengths_B, z_BTK)
        if batch.counted_B is not None:
            # how many words count is on the device: what does not count stays where it is
            tags_BT = batch.tags_BT.masked_fill(~(inside_BT & batch.counted_B[:, None]), IGNORED)
            return F.cross_entropy(z_BTK.flatten(0, 1), tags_BT.flatten(), ignore_index=IGNORED, reduction="sum")
        return F.cross_entropy(z_BTK[inside_BT], batch.tags_BT[inside_BT], reduction="sum")

    def scores(self, batch: TagBatch) -> Tensor:
        """The score of each tag of each word, z [B, T, K]."""
        h_BTO, _ = self.layers(self.read(batch), lengths=batch.lengths_B)
        z_BTK: Tensor = self.head(h_BTO)
        return z_BTK

    def read(self, batch: TagBatch) -> Tensor:
        """What the layers read of each word, x [B, T, E]."""
        words_BT = batch.words_BT
        if self.training and self.settings.drop_words:
            words_BT = read_as_unknown(words_BT, self.settings.drop_words)
        x_BTE: Tensor = self.words(words_BT)
        if self.body is not None:
            x_BTE, _ = self.body(x_BTE, lengths=batch.lengths_B)
        if self.speller is None:
            return x_BTE
        spelled_UE = self.speller(batch.letters_UL, batch.letter_lengths_U)
        return torch.cat((x_BTE, pick_rows(spelled_UE, batch.spelled_BT)), -1)

    def graph_inputs(self) -> dict[str, Inputs]:
        letters: Inputs = {"letters": (torch.int64, "UL"), "letter_lengths": (torch.int64, "U")}
        letters |= {"spelled": (torch.int64, "BT")}
        return {"tagger": WORDS if self.speller is None else WORDS | letters}

    def graph_outputs(self, graph: str, inputs: Tensors) -> Tensors:
        words_BT, lengths_B = inputs["words"], inputs["lengths"]
        letters = words_BT, lengths_B, words_BT  # which are not read
        if self.speller is not None:
            letters = inputs["letters"], inputs["letter_lengths"], inputs["spelled"]
        z_BTK = self.scores(TagBatch(words_BT, lengths_B, *letters))
        if self.crf is None:
            return {"scores": z_BTK.log_softmax(-1)}
        return {"scores": z_BTK, "start": self.crf.start_K, "transition": self.crf.transition_KK, "end": self.crf.end_K}

    def draw_inputs(self, draw: np.random.Generator) -> Feeds:
        feeds = draw_words(self.words.num_embeddings, draw)
        letters = 2 if self.speller is None else self.speller.embedding.num_embeddings
        feeds |= {"letters": draw.integers(1, letters, (30, 12)), "letter_lengths": draw.integers(1, 13, 30)}
        feeds["letter_lengths"][0] = 12
        return feeds | {"spelled": draw.integers(0, 30, feeds["words"].shape)}

    def weights_by_layer(self) -> list[list[str]]:
        """Over a language model's layers everything of its own is the head."""
        if self.body is not None:
            return weights_by_layer(self, "body", ("words",))
        return weights_by_layer(self, "layers", ("words", "speller"))

    @contextmanager
    def remembering(self) -> Iterator[None]:
        before = _spelled.set({})
        try:
            yield
        finally:
            _spelled.reset(before)

    def probabilities(self, batch: TagBatch) -> Tensor:
        """p of each tag of each word whatever the other tags are, [B, T, K]; 0 beyond a row's end."""
        with self.quietly():
            z_BTK = self.scores(batch).float()
            if self.crf is not None:
                return self.crf.marginals(z_BTK, batch.lengths_B.to(z_BTK.device))
            return z_BTK.softmax(-1) * inside(batch.lengths_B, z_BTK)[..., None]

    def decide(self, batch: TagBatch) -> list[list[int]]:
        """The tags of every row: the likeliest of each word, or the likeliest sequence of a CRF."""
        with self.quietly():
            z_BTK = self.scores(batch).float()
            if self.crf is not None:
                return self.crf.decode(z_BTK, batch.lengths_B.to(z_BTK.device))
            best_BT = z_BTK.argmax(-1).cpu().tolist()
        return [row[:length] for row, length in zip(best_BT, batch.lengths_B.tolist(), strict=True)]


_spelled: ContextVar[dict[int, dict[bytes, Tensor]] | None] = ContextVar("thereafter_spelled", default=None)
"""The vectors of words by their letters, for each speller, while they may be remembered: each thread has its own."""


class Speller(nn.Module):
    """A vector for a word from its letters, [U, width]; inside `Tagger.remembering` each word is spelled once."""

    def __init__(self, settings: TaggerSettings, letters: int) -> None:
        super().__init__()
        size, hidden = settings.letter_embed, settings.letter_hidden
        self.width = 2 * hidden
        self.embedding = nn.Embedding(letters, size, padding_idx=PAD)
        self.dropout = settings.dropout
        if settings.letters == "lstm":
            self.reader: nn.Module = Recurrent("lstm", size, hidden, batch_first=True, bidirectional=True)
        else:
            self.reader = nn.Conv1d(size, self.width, _WIDTH, padding=_WIDTH // 2)

    def forward(self, letters_UL: Tensor, lengths_U: Tensor) -> Tensor:
        remembered = _spelled.get()
        if remembered is None or self.training or torch.is_grad_enabled() or letters_UL.device.type != "cpu":
            return self._spell(letters_UL, lengths_U)  # a GPU has spelled all words before the host finds the old ones
        known = remembered.setdefault(id(self), {})
        rows, ends = letters_UL.cpu().numpy(), lengths_U.tolist()
        words = [row[:end].tobytes() for row, end in zip(rows, ends, strict=True)]
        new_N = torch.tensor([place for place, word in enumerate(words) if word not in known], dtype=torch.int64)
        if len(new_N):
            spelled_NE = self._spell(letters_UL[new_N.to(letters_UL.device)], lengths_U[new_N])
            known.update(zip((words[place] for place in new_N.tolist()), spelled_NE, strict=True))
        return torch.stack([known[word] for word in words])

    def _spell(self, letters_UL: Tensor, lengths_U: Tensor) -> Tensor:
        if isinstance(self.reader, Recurrent):
            return self._read(letters_UL, lengths_U)
        x_ULE = locked(self.embedding(letters_UL), self.dropout, self.training)
        y_UWL: Tensor = self.reader(x_ULE.transpose(1, 2))
        outside_UL = torch.arange(letters_UL.shape[1], device=y_UWL.device) >= lengths_U.to(y_UWL.device)[:, None]
        return y_UWL.masked_fill(outside_UL[:, None], -torch.inf).amax(-1)

    def _read(self, letters_UL: Tensor, lengths_U: Tensor) -> Tensor:
        """The last states of both directions. On a CPU words of about the same length are read together: filled up to
        the longest word of a batch, most of what is read would be filling."""
        if traced():
            return self._read_together(letters_UL, lengths_U)
        if letters_UL.device.type != "cpu":
            pieces = zip(torch.split(letters_UL, _AT_ONCE), torch.split(lengths_U, _AT_ONCE), strict=True)
            return torch.cat([self._read_together(letters_GL, ends_G) for letters_GL, ends_G in pieces])
        groups = _about_as_long(lengths_U)
        spelled = [
            self._read_together(letters_UL[group_G, : int(lengths_U[group_G].max())], lengths_U[group_G])
            for group_G in groups
        ]
        if len(groups) == 1:
            return spelled[0]
        return torch.cat(spelled).index_select(0, torch.cat(groups).argsort())

    def _read_together(self, letters_GL: Tensor, ends_G: Tensor) -> Tensor:
        x_GLE = self.embedding(letters_GL)
        _, state = self.reader(locked(x_GLE, self.dropout, self.training), lengths=ends_G)
        last_2GH: Tensor = state[0]
        return torch.cat((last_2GH[0], last_2GH[1]), -1)


def _about_as_long(lengths_U: Tensor) -> list[Tensor]:
    """Places in groups of falling length, in each of which the longest has at most _SPREAD more than the shortest times
    that."""
    order_U = lengths_U.argsort(descending=True)
    sizes, longest = [0], 0
    for length in lengths_U[order_U].tolist():
        if sizes[-1] and longest > _SPREAD * length + 1:
            sizes.append(0)
        if not sizes[-1]:
            longest = length
        sizes[-1] += 1
    return list(torch.split(order_U, sizes))
