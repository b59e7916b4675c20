"""The task `fill`: the word that is missing, predicted from the words on both of its sides.

Any text can be learned from, a sentence a line. A blank is written `___`. Measured by the perplexity of every word
given all others of its sentence, and by how often the word itself is the likeliest one, or among the first five.

The perplexity is not that of a language model, whose probabilities multiply to that of the sentence: here each word is
predicted from words that were predicted from it. What the right side is worth is seen beside the same network with
`sides="left"`, which is a left-to-right language model over the same words: on the Penn Treebank's test part, with 100
units a side after 2,221 steps each, a word has perplexity 198 from the left and 74 from both sides, and is the first
guess 17 and 27 times of 100.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from sys import intern
from typing import ClassVar, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from thereafter.base.config import Table
from thereafter.base.tabular import Row, Tabular
from thereafter.errors import OptionError
from thereafter.tasks.fill.network import FillBatch, Filler, FillerSettings
from thereafter.tasks.lexicon import UNKNOWN, Lexicon, padded
from thereafter.tasks.shown import Fields, Shown
from thereafter.tasks.task import Task
from thereafter.text.reading import read_lines

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
        return Filled(
            words=self.words + other.words,
            unknown=self.unknown + other.unknown,
            nats=self.nats + other.nats,
            first=self.first + other.first,
            fifth=self.fifth + other.fifth,
            sides=self.sides,
        )

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


class Filling(Task[FillerSettings, ClozeSentence, FillBatch, Filler, Answer, FillCodecs]):
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
        return {"words": Lexicon.fit(counts, min_count=1 if UNKNOWN in counts else _RARE)}

    def check(self, examples: Sequence[ClozeSentence], codecs: FillCodecs, name: str) -> None:
        """Any words can be measured on."""

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


FILLING = Filling()
