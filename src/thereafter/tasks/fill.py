"""The task `fill`: the word that is missing, predicted from the words on both of its sides.

Any text can be learned from, a sentence a line. A blank is written `___`. Measured by the perplexity of every word
given all others of its sentence, and by how often the word itself is the likeliest one, or among the first five.

The perplexity is not that of a language model, whose probabilities multiply to that of the sentence: here each word is
predicted from words that were predicted from it. What the right side is worth is seen beside the same network with
`sides="left"`, which is a left-to-right language model over the same words: on the Penn Treebank's test part, with 100
units a side after 2,221 steps each, a word has perplexity 198 from the left and 74 from both sides, and is the first
guess 17 and 27 times of 100.

The network reads what stood before a word and what comes after it, never the word itself:

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

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from sys import intern
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import OptionError
from thereafter.layers.blocks import locked_layers
from thereafter.layers.dropout import locked
from thereafter.layers.embedding import Embedding
from thereafter.layers.heads import Softmax, rows_at_once
from thereafter.layers.recurrent import Recurrent
from thereafter.models.settings import check_choice, check_shares, check_sizes
from thereafter.models.task_net import CELLS, UNKNOWN, inside
from thereafter.tasks.answers import Fields, Shown
from thereafter.tasks.batching import FillableBatch
from thereafter.tasks.graphs import WORDS, Feeds, Inputs, OneGraph, Tensors, draw_words
from thereafter.tasks.lexicon import UNKNOWN as UNKNOWN_FORM
from thereafter.tasks.lexicon import Lexicon, padded
from thereafter.tasks.task import Baselines, Task, Tracing
from thereafter.text.reading import read_lines

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
        check_sizes(self, "embed", "hidden", "layers")
        check_shares(self, "dropout")


@dataclass(frozen=True)
class FillBatch(FillableBatch):
    """Rows of words; `blanks_B` is the position of the missing word, None where every word is a target."""

    words_BT: Tensor
    lengths_B: Tensor
    blanks_B: Tensor | None = None


@dataclass(frozen=True)
class Judged:
    """Every word of a batch, [N]: its -log p, how many other words were likelier, and whether it is a known word."""

    nats_N: Tensor
    rank_N: Tensor
    known_N: Tensor


class Filler(OneGraph[FillBatch]):
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
        inside_BT = inside(batch.lengths_B, batch.words_BT)
        return self.head.total(g_BTE[inside_BT], batch.words_BT[inside_BT], table_RE)

    def features(self, batch: FillBatch) -> Tensor:
        """g, the features that each word is predicted from, [B, T, E]."""
        return self._features(batch)[0]

    def graph_inputs(self) -> dict[str, Inputs]:
        return {"filler": WORDS}

    def graph_outputs(self, graph: str, inputs: Tensors) -> Tensors:
        return {"log_p": self.head.log_prob(self.features(FillBatch(inputs["words"], inputs["lengths"])))}

    def draw_inputs(self, draw: np.random.Generator) -> Feeds:
        return draw_words(self.head.words, draw)

    def judge(self, batch: FillBatch) -> Judged:
        """How well every word is predicted. The unknown word has a probability (`nats_N`), but is never an answer."""
        with self.quietly():
            inside_BT = inside(batch.lengths_B, batch.words_BT)
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
        # the place n - 1 - t of each row; 0 in the padding, which is not used
        places_T = torch.arange(words_BT.shape[1], device=words_BT.device)
        mirror_BT = (lengths_B.to(words_BT.device)[:, None] - 1 - places_T).clamp(min=0)
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
    return locked_layers(settings.cell, settings.embed, settings.hidden, settings.dropout, layers=settings.layers)


BLANK = "___"
CANDIDATES = 5
"""Words that are named for a blank."""

_WORDS = re.compile(
    r"<[^\W\d_]+>"  # a mark such as <unk>
    r"|(?:[^\W\d_]\.){2,}"  # u.s.
    r"|['’](?:s|re|ve|d|ll|m)\b"  # the end of it's, where it was cut off
    r"|[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+(?:[.,]\d+)*|_+|[^\w\s]+"
)
_RARE = 2  # words met less often are learned as the unknown one
_LONGEST = 400  # words: a longer line, such as a book without line ends, is cut


@dataclass(frozen=True)
class ClozeSentence:
    """A sentence with or without a gap (a cloze test): `blank` is the position of the missing word."""

    words: tuple[str, ...]
    blank: int | None = None

    def __len__(self) -> int:
        return len(self.words)


@dataclass(frozen=True)
class Filled(Tabular):
    """How well words were predicted from the others. `first` and `fifth`: how often the word was the likeliest, and
    among the five likeliest; the unknown word is never predicted, so it counts as missed."""

    words: int
    unknown: int
    nats: float
    first: int
    fifth: int
    sides: str = "both"

    @property
    def perplexity(self) -> float:
        """exp of the mean -log p of a word given all others of its sentence."""
        mean = self.nats / self.words
        return math.exp(mean) if mean < 700 else math.inf

    @property
    def accuracy(self) -> float:
        return self.first / self.words

    @property
    def accuracy_5(self) -> float:
        return self.fifth / self.words

    def __add__(self, other: Filled) -> Filled:
        sums = {name: value + vars(other)[name] for name, value in vars(self).items() if name != "sides"}
        return Filled(**sums, sides=self.sides)

    def to_rows(self) -> list[Row]:
        """One row with all figures."""
        return [self.as_dict()]

    def as_dict(self) -> Table:
        """All figures, for JSON."""
        derived = {"perplexity": self.perplexity, "accuracy": self.accuracy, "accuracy_5": self.accuracy_5}
        return asdict(self) | derived

    def __str__(self) -> str:
        return (
            f"perplexity {self.perplexity:.2f} over {self.words:,} words {_SIDES[self.sides]}, {self.unknown:,} "
            f"unknown; accuracy {self.accuracy:.2%}, in the first five {self.accuracy_5:.2%}"
        ).replace("%", " %")


_SIDES = {
    "both": "from both sides",
    "left": "from the left alone",
    "right": "from the right alone",
    "neither": "by their frequency alone",
}


Answer = Filled | list[tuple[str, float]]
"""Of a whole sentence how well its words were predicted, of one with a blank its likeliest words."""


class FillCodecs(TypedDict):
    """What numbers the parts of an example."""

    words: Lexicon


class Filling(
    Tracing[ClozeSentence, FillBatch, Filler, FillCodecs],
    Baselines[ClozeSentence, Answer],
    Task[FillerSettings, ClozeSentence, FillBatch, Filler, Answer, FillCodecs],
):
    """See `task.Task`. Texts are cut into words, numbers and marks, in lower case."""

    name = "fill"
    kind = "text"
    settings = FillerSettings
    defaults: ClassVar[Mapping[str, object]] = {"epochs": 8.0, "batch": 32, "rate": 5e-3, "steps": 40}
    # at each step the words before it are read, and not yet its own; what comes after from the last one on: mirrored
    reads: ClassVar[Mapping[str, tuple[str, str]]] = {"before": ("before.", "step"), "after": ("after.", "mirrored")}

    def read(self, files: Sequence[Path]) -> list[ClozeSentence]:
        rows = (words_of(line) for path in files for line in read_lines(path))
        return [ClozeSentence(row[at : at + _LONGEST]) for row in rows for at in range(0, len(row), _LONGEST)]

    def codecs(self, examples: Sequence[ClozeSentence]) -> FillCodecs:
        counts = Counter(word for one in examples for word in one.words)
        # a text that spells out <unk> has had its rare words taken out already
        return {"words": Lexicon.fit(counts, min_count=1 if UNKNOWN_FORM in counts else _RARE)}

    def build(self, settings: FillerSettings, codecs: FillCodecs) -> Filler:
        return Filler(settings, words=len(codecs["words"]))

    def lengths(self, examples: Sequence[ClozeSentence], codecs: FillCodecs) -> NDArray[np.int64]:
        return np.array([len(one) for one in examples], np.int64)

    def targets(self, examples: Sequence[ClozeSentence], codecs: FillCodecs) -> int:
        return sum(map(len, examples))

    def batch(self, examples: Sequence[ClozeSentence], codecs: FillCodecs) -> FillBatch:
        words = padded([codecs["words"].encode(one.words) for one in examples])
        asked = [one.blank for one in examples if one.blank is not None]
        return FillBatch(
            torch.from_numpy(words),
            torch.tensor([len(one) for one in examples]),
            torch.tensor(asked) if len(asked) == len(examples) else None,
        )

    def answers(self, net: Filler, batch: FillBatch, codecs: FillCodecs) -> list[Answer]:
        """For a blank the likeliest words and their probabilities; else how well every word was predicted."""
        if batch.blanks_B is None:
            return list(self._judge(net, batch))
        forms = codecs["words"].forms
        top = net.fill(batch).topk(min(CANDIDATES, len(forms) - 2))
        return [
            [(forms[word], p) for word, p in zip(words, ps, strict=True)]
            for words, ps in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]

    def shown(self, net: Filler, batch: FillBatch, example: ClozeSentence, codecs: FillCodecs) -> Shown:
        (answer,) = self.answers(net, batch, codecs)
        fields: Fields = {"p": (("word",), net.fill(batch)[0].cpu().numpy())}
        return Shown(list(example.words), list(codecs["words"].forms), fields, {"answer": answer})

    def example(self, given: object) -> ClozeSentence:
        """A sentence as a text, with one blank."""
        words = words_of(str(given))
        blanks = [place for place, word in enumerate(words) if set(word) == {"_"}]
        if len(blanks) != 1:
            many = "no blank" if not blanks else f"{len(blanks)} blanks"
            raise OptionError(f"{str(given)!r} has {many}; expected one; try 'the cat {BLANK} on the mat'")
        return ClozeSentence(words, blanks[0])

    def measure(self, examples: Sequence[ClozeSentence], answers: Sequence[Answer], codecs: FillCodecs) -> Filled:
        judged = [one for one in answers if isinstance(one, Filled)]
        return sum(judged[1:], judged[0])

    def beside(
        self, learned: Sequence[ClozeSentence], asked: Sequence[ClozeSentence]
    ) -> Mapping[str, Callable[[], list[Answer]]]:
        """The most frequent words, whatever stands around the blank."""
        return {"most frequent words": lambda: list(_most_frequent(self.codecs(learned)["words"], learned, asked))}

    def variants(self, learned: Sequence[ClozeSentence]) -> Mapping[str, Mapping[str, object]]:
        """The same network from the left side alone."""
        return {"left side alone": {"sides": "left"}}

    def _judge(self, net: Filler, batch: FillBatch) -> list[Filled]:
        judged = net.judge(batch)
        ends = batch.lengths_B.cumsum(0).tolist()
        nats_N, rank_N, known_N = judged.nats_N.double().cpu(), judged.rank_N.cpu(), judged.known_N.cpu()
        places = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        rows = [(nats_N[place], rank_N[place], known_N[place]) for place in places]
        return [
            Filled(
                words=len(known),
                unknown=int((~known).sum()),
                nats=float(nats.sum()),
                first=int(((rank < 1) & known).sum()),
                fifth=int(((rank < CANDIDATES) & known).sum()),
                sides=net.settings.sides,
            )
            for nats, rank, known in rows
        ]


def words_of(text: str) -> tuple[str, ...]:
    """Words, numbers and marks of a text, in lower case.

    >>> words_of("The snack-food maker isn't <unk>, says U.S. firm: 1,200 ___.")
    ('the', 'snack-food', 'maker', "isn't", '<unk>', ',', 'says', 'u.s.', 'firm', ':', '1,200', '___', '.')
    """
    return tuple(map(intern, _WORDS.findall(text.lower())))  # a text says the same words again and again


def _most_frequent(
    lexicon: Lexicon, learned: Sequence[ClozeSentence], asked: Sequence[ClozeSentence]
) -> Iterator[Filled]:
    """p(w) = c(w) / N, all words without a number of their own counted as the unknown one."""
    counts = Counter(lexicon.forms[word] for one in learned for word in lexicon.encode(one.words).tolist())
    counts[lexicon.forms[1]] += 1  # a word never met must be possible even where every word of the training was
    total = counts.total()
    guesses = [form for form, _ in counts.most_common() if form != lexicon.forms[1]][:CANDIDATES]
    for one in asked:
        targets = [lexicon.forms[word] for word in lexicon.encode(one.words).tolist()]
        nats = math.fsum(-math.log(counts[form] / total) for form in targets)
        unknown, first = targets.count(lexicon.forms[1]), targets.count(guesses[0])
        yield Filled(len(targets), unknown, nats, first, sum(map(targets.count, guesses)), sides="neither")


FILLING = Filling()
